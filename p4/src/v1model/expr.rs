//! Expressions as P4_16 text, parenthesised wherever precedence matters.

use super::Printer;
use crate::check::width;
use crate::ir::*;

/// Meaning of names where an expression is printed.
#[derive(Clone, Default)]
pub(super) struct Names<'a> {
    params: &'a [Field],
    action: Option<&'a RegAction>,
    /// Widths of the register's cells.
    cells: &'a [u32],
    /// The packet's lane, and its number.
    lane: Option<(&'a str, &'a str)>,
    new: [Option<String>; 2],
}

impl<'a> Names<'a> {
    /// In a control block.
    pub(super) fn control() -> Self {
        Self::default()
    }

    /// In an action with parameters.
    pub(super) fn action(params: &'a [Field]) -> Self {
        Self { params, ..Self::default() }
    }

    /// In a register action over cells of these widths; `lane` is the packet's lane and its number.
    pub(super) fn register(
        action: &'a RegAction,
        cells: &'a [u32],
        lane: Option<(&'a str, &'a str)>,
    ) -> Self {
        Self { action: Some(action), cells, lane, ..Self::default() }
    }

    /// In a statement over lanes, at this lane and number.
    pub(super) fn lane(lane: (&'a str, &'a str)) -> Self {
        Self { lane: Some(lane), ..Self::default() }
    }

    /// Sets the new value of `cell` to `value`.
    pub(super) fn set_new(&mut self, cell: u8, value: String) {
        self.new[usize::from(cell)] = Some(value);
    }
}

impl Printer<'_> {
    pub(super) fn place(&self, place: LValue) -> String {
        match place {
            LValue::Field(header, field) => {
                format!("hdr.{}.{}", self.p.header(header).name, self.p.field(header, field).name)
            }
            LValue::Meta(meta) => format!("meta.{}", self.p.metadata[usize::from(meta.0)].name),
        }
    }

    pub(super) fn expr(&self, expr: &Expr, names: Names<'_>) -> String {
        self.text(expr, &names)
    }

    fn text(&self, expr: &Expr, names: &Names<'_>) -> String {
        match expr {
            Expr::Const(value, bits) => format!("{bits}w{value:#x}"),
            Expr::Field(header, field) => self.place(LValue::Field(*header, *field)),
            Expr::Meta(meta) => self.place(LValue::Meta(*meta)),
            Expr::Param(param) => names.params[usize::from(*param)].name.clone(),
            Expr::Intrinsic(intrinsic) => match intrinsic {
                Intrinsic::IngressPort => "(bit<16>)standard_metadata.ingress_port",
                Intrinsic::PacketLength => "standard_metadata.packet_length",
                Intrinsic::ChecksumError => "(standard_metadata.checksum_error == 1w1)",
                Intrinsic::CongestionMark => "false",
                Intrinsic::Instance => "standard_metadata.egress_rid",
                Intrinsic::QueueDepth => "standard_metadata.enq_qdepth",
            }
            .into(),
            Expr::Valid(part) => format!("{}.isValid()", self.part(*part)),
            Expr::Complement(inner) => format!("~({})", self.text(inner, names)),
            Expr::Not(inner) => format!("!({})", self.text(inner, names)),
            Expr::Binary(op, left, right) => self.binary(*op, left, right, names),
            Expr::Cast(bits, inner) => {
                let same = self.bits(inner, names) == *bits;
                let inner = self.text(inner, names);
                if same { inner } else { format!("(bit<{bits}>)({inner})") }
            }
            Expr::Concat(high, low) => format!("({} ++ {})", self.text(high, names), self.text(low, names)),
            Expr::Cell(cell) => format!("old{cell}"),
            Expr::NewCell(cell) => {
                names.new[usize::from(*cell)].clone().unwrap_or_else(|| format!("old{cell}"))
            }
            Expr::Lane => names.lane.unwrap_or_default().0.into(),
            Expr::LaneVar(var) => self.lane_var(*var, names.lane.unwrap_or_default().1),
            // Lookups are separate tables: see the lane steps.
            Expr::Lookup(_, key) => self.text(key, names),
            Expr::Select(cond, then, otherwise) => {
                let (then, otherwise) = (self.text(then, names), self.text(otherwise, names));
                format!("({} ? {then} : {otherwise})", self.text(cond, names))
            }
            Expr::AnyLane(inner) => self.any_lane(inner),
            Expr::Cond(cond) => match names.action {
                Some(action) => self.text(&action.conditions[usize::from(*cond)], names),
                None => "false".into(),
            },
        }
    }

    fn binary(&self, op: BinOp, left: &Expr, right: &Expr, names: &Names<'_>) -> String {
        let bits = self.bits(left, names);
        let (l, r) = (self.text(left, names), self.text(right, names));
        let signed = |text: &str| {
            if text.starts_with('(') {
                format!("(int<{bits}>){text}")
            } else {
                format!("(int<{bits}>)({text})")
            }
        };
        match op {
            BinOp::Add => format!("({l} + {r})"),
            BinOp::Sub => format!("({l} - {r})"),
            BinOp::And => format!("({l} & {r})"),
            BinOp::Or => format!("({l} | {r})"),
            BinOp::Xor => format!("({l} ^ {r})"),
            BinOp::Shl => format!("({l} << {r})"),
            BinOp::Shr => format!("({l} >> {r})"),
            BinOp::SignedShr => format!("(bit<{bits}>)({} >> {r})", signed(&l)),
            BinOp::SaturatingAdd => format!("(bit<{bits}>)({} |+| {})", signed(&l), signed(&r)),
            BinOp::Eq => format!("({l} == {r})"),
            BinOp::Ne => format!("({l} != {r})"),
            BinOp::Gt => format!("({l} > {r})"),
            BinOp::SignedGt => format!("({} > {})", signed(&l), signed(&r)),
            BinOp::Max => format!("({l} > {r} ? {l} : {r})"),
            BinOp::SignedMin => format!("({} < {} ? {l} : {r})", signed(&l), signed(&r)),
            BinOp::SignedMax => format!("({} > {} ? {l} : {r})", signed(&l), signed(&r)),
            BinOp::Both => format!("({l} && {r})"),
            BinOp::Either => format!("({l} || {r})"),
        }
    }

    fn bits(&self, expr: &Expr, names: &Names<'_>) -> u32 {
        let cells: Vec<_> =
            names.cells.iter().map(|bits| Field { name: String::new(), bits: *bits }).collect();
        width(self.p, expr, &cells, names.params)
    }
}
