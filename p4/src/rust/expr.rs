//! Expressions and field access as Rust text.

use super::{Generator, native};
use crate::check::width;
use crate::ir::*;

/// Names that the surrounding code defines.
#[derive(Clone, Copy, Default)]
pub(super) struct Env<'a> {
    /// Cells of the register.
    pub(super) cells: &'a [Field],
    /// Parameters of the action.
    pub(super) params: &'a [Field],
    /// Header fields are in variables, because the packet is borrowed; elsewhere they are read from the packet.
    pub(super) fields_in_variables: bool,
    /// Values of up to 32 bits are computed as words of 32 bits, because loops whose numbers have one width vectorise best.
    pub(super) words: bool,
    /// Lane variables that are numbers of this lane, by index; the others are read from memory.
    pub(super) numbers: &'a [bool],
}

impl Env<'_> {
    /// The type in which values of `bits` are computed.
    pub(super) fn native(self, bits: u32) -> &'static str {
        if self.words && matches!(bits, 1..=32) { "u32" } else { native(bits) }
    }

    /// `text`, whose value may exceed `bits`, without the bits above.
    fn masked(self, text: String, bits: u32) -> String {
        if self.words && bits < 32 {
            format!("({text} & {:#x})", (1u64 << bits) - 1)
        } else {
            masked(text, bits)
        }
    }

    /// `text`, whose type is the smallest that holds `bits`, in the type in which such values are computed.
    pub(super) fn widened(self, text: String, bits: u32) -> String {
        if self.native(bits) == native(bits) { text } else { format!("({text} as {})", self.native(bits)) }
    }

    /// `text`, in the type in which such values are computed, in the smallest type that holds `bits`.
    pub(super) fn narrowed(self, text: String, bits: u32) -> String {
        if self.native(bits) == native(bits) { text } else { format!("({text} as {})", native(bits)) }
    }
}

/// Bit mask of a width as a literal, or nothing when the native type is exactly that wide.
fn mask(bits: u32) -> Option<String> {
    if matches!(bits, 8 | 16 | 32 | 64) { None } else { Some(format!("{:#x}", (1u64 << bits) - 1)) }
}

fn masked(text: String, bits: u32) -> String {
    match mask(bits) {
        Some(mask) => format!("({text} & {mask})"),
        None => text,
    }
}

impl Generator<'_> {
    pub(super) fn bits(&self, expr: &Expr, env: Env<'_>) -> u32 {
        width(self.p, expr, env.cells, env.params)
    }

    /// A local variable that holds a header field.
    pub(super) fn field_var(&self, header: HeaderId, field: u16) -> String {
        format!("f_{}_{}", self.p.header(header).name, self.p.field(header, field).name)
    }

    fn meta_var(&self, meta: MetaId) -> String {
        format!("m_{}", self.p.metadata[usize::from(meta.0)].name)
    }

    /// A statement that assigns to an l-value. A field of an absent header is not changed.
    pub(super) fn assign(&self, place: LValue, value: &str) -> String {
        match place {
            LValue::Meta(meta) => format!("{} = {value};", self.meta_var(meta)),
            LValue::Field(header, field) => {
                let name = self.part_name(Part::Header(header));
                format!("if has_{name} {{ {} }}", self.store(header, field, value))
            }
        }
    }

    pub(super) fn expr(&self, expr: &Expr, env: Env<'_>) -> String {
        match expr {
            Expr::Const(value, bits) => format!("{value:#x}_{}", env.native(*bits)),
            Expr::Field(header, field) => {
                let load = || self.load(*header, *field);
                let text = if env.fields_in_variables { self.field_var(*header, *field) } else { load() };
                env.widened(text, self.bits(expr, env))
            }
            Expr::Meta(meta) => env.widened(self.meta_var(*meta), self.bits(expr, env)),
            Expr::Param(param) => env.params[usize::from(*param)].name.clone(),
            Expr::Intrinsic(intrinsic) => {
                let name = match intrinsic {
                    Intrinsic::IngressPort => "port",
                    Intrinsic::PacketLength => "(length as u32)",
                    Intrinsic::ChecksumError => "checksum_error",
                    Intrinsic::CongestionMark => "congestion_mark",
                    Intrinsic::Instance => "instance",
                    Intrinsic::QueueDepth => "queue_depth",
                };
                env.widened(name.into(), self.bits(expr, env))
            }
            Expr::Valid(part) => format!("has_{}", self.part_name(*part)),
            Expr::Complement(inner) => {
                let bits = self.bits(inner, env);
                env.masked(format!("!{}", self.expr(inner, env)), bits)
            }
            Expr::Not(inner) => format!("!{}", self.expr(inner, env)),
            Expr::Binary(op, left, right) => self.binary(*op, left, right, env),
            Expr::Cast(bits, inner) => self.cast(*bits, inner, env),
            Expr::Concat(high, low) => {
                let (high_bits, low_bits) = (self.bits(high, env), self.bits(low, env));
                let ty = env.native(high_bits + low_bits);
                format!(
                    "(({} as {ty}) << {low_bits} | {} as {ty})",
                    self.expr(high, env),
                    self.expr(low, env)
                )
            }
            Expr::Cell(cell) => format!("old{cell}"),
            Expr::NewCell(cell) => format!("new{cell}"),
            Expr::Lane => "lane".into(),
            Expr::LaneVar(var) => {
                let Meta { name, bits } = self.p.lane_var(*var);
                if env.numbers.get(usize::from(var.0)) == Some(&true) {
                    return format!("n_{name}");
                }
                env.widened(format!("v_{name}[i]"), *bits)
            }
            Expr::Lookup(lookup, key) => {
                format!("lookup_{}({})", self.p.lookup(*lookup).name, self.expr(key, env))
            }
            Expr::Select(cond, then, otherwise) => {
                let (then, otherwise) = (self.expr(then, env), self.expr(otherwise, env));
                format!("(if {} {{ {then} }} else {{ {otherwise} }})", self.expr(cond, env))
            }
            Expr::AnyLane(inner) => self.any_lane(inner),
            Expr::Cond(cond) => format!("cond{cond}"),
        }
    }

    fn cast(&self, bits: u32, inner: &Expr, env: Env<'_>) -> String {
        let from = self.bits(inner, env);
        let text = self.expr(inner, env);
        let (source, target) = (env.native(from), env.native(bits));
        let text = if source == target { text } else { format!("({text} as {target})") };
        if bits < from { env.masked(text, bits) } else { text }
    }

    fn binary(&self, op: BinOp, left: &Expr, right: &Expr, env: Env<'_>) -> String {
        let bits = self.bits(left, env);
        let (l, r) = (self.expr(left, env), self.expr(right, env));
        let signed = |text: &str| format!("{}.cast_signed()", env.narrowed(text.into(), bits));
        let unsigned = |text: String| env.widened(format!("{text}.cast_unsigned()"), bits);
        match op {
            BinOp::Add => env.masked(format!("{l}.wrapping_add({r})"), bits),
            BinOp::Sub => env.masked(format!("{l}.wrapping_sub({r})"), bits),
            BinOp::And => format!("({l} & {r})"),
            BinOp::Or => format!("({l} | {r})"),
            BinOp::Xor => format!("({l} ^ {r})"),
            // One instruction on vectors, which shift by other numbers of bits in each lane.
            BinOp::Shl if env.words => env.masked(format!("{l}.unbounded_shl({r})"), bits),
            BinOp::Shr if env.words => format!("{l}.unbounded_shr({r})"),
            BinOp::Shl => masked(format!("(if u32::from({r}) < {bits} {{ {l} << {r} }} else {{ 0 }})"), bits),
            BinOp::Shr => format!("(if u32::from({r}) < {bits} {{ {l} >> {r} }} else {{ 0 }})"),
            BinOp::SignedShr => unsigned(format!("({} >> u32::from({r}).min({}))", signed(&l), bits - 1)),
            BinOp::SaturatingAdd => unsigned(format!("{}.saturating_add({})", signed(&l), signed(&r))),
            BinOp::Eq => format!("({l} == {r})"),
            BinOp::Ne => format!("({l} != {r})"),
            BinOp::Gt => format!("({l} > {r})"),
            BinOp::SignedGt => format!("({} > {})", signed(&l), signed(&r)),
            BinOp::Max => format!("{l}.max({r})"),
            BinOp::SignedMin => unsigned(format!("{}.min({})", signed(&l), signed(&r))),
            BinOp::SignedMax => unsigned(format!("{}.max({})", signed(&l), signed(&r))),
            BinOp::Both => format!("({l} && {r})"),
            BinOp::Either => format!("({l} || {r})"),
        }
    }

    /// The value of a field, read from the packet; 0 when the packet is too short.
    pub(super) fn load(&self, header: HeaderId, field: u16) -> String {
        let span = Span::new(self.p, header, field);
        let word = self.word(header, &span);
        if span.whole() && span.word_bits() == native_bits(span.bits) {
            word
        } else {
            format!("(({word} >> {}) & {:#x}) as {}", span.shift(), span.mask(), native(span.bits))
        }
    }

    /// A statement that writes `value` into a field of the packet and keeps adjacent fields.
    fn store(&self, header: HeaderId, field: u16, value: &str) -> String {
        let span = Span::new(self.p, header, field);
        let word_ty = format!("u{}", span.word_bits());
        let skip = span.word_bits() as usize / 8 - span.len();
        let at = self.at(header, &span);
        let new = if span.whole() {
            format!("({value}) as {word_ty}")
        } else {
            let mask = span.mask() << span.shift();
            let word = self.word(header, &span);
            format!("({word} & !{mask:#x}) | (((({value}) as {word_ty}) << {}) & {mask:#x})", span.shift())
        };
        format!(
            "let word: {word_ty} = {new}; rt::put::<{}>(data, {at}, &word.to_be_bytes()[{skip}..]);",
            span.len()
        )
    }

    fn at(&self, header: HeaderId, span: &Span) -> String {
        format!("{}_AT + {}", self.part_name(Part::Header(header)).to_uppercase(), span.first)
    }

    /// The bytes that hold a field, as one big-endian word.
    fn word(&self, header: HeaderId, span: &Span) -> String {
        let total = span.word_bits() as usize / 8;
        let get = format!("rt::get::<{}>(data, {})", span.len(), self.at(header, span));
        if span.len() == total {
            return format!("u{}::from_be_bytes({get})", span.word_bits());
        }
        let zeros = (span.len()..total).map(|_| "0".to_string());
        let bytes = (0..span.len()).map(|i| format!("bytes[{i}]"));
        let bytes = zeros.chain(bytes).collect::<Vec<_>>().join(", ");
        format!("{{ let bytes = {get}; u{}::from_be_bytes([{bytes}]) }}", span.word_bits())
    }
}

fn native_bits(bits: u32) -> u32 {
    match bits {
        0..=8 => 8,
        9..=16 => 16,
        17..=32 => 32,
        _ => 64,
    }
}

/// The bytes of a header that hold a field.
struct Span {
    first: usize,
    end: usize,
    offset: u32,
    bits: u32,
}

impl Span {
    fn new(p: &Program, header: HeaderId, field: u16) -> Self {
        let offset = p.header(header).offset_bits(field);
        let bits = p.field(header, field).bits;
        Self { first: (offset / 8) as usize, end: (offset + bits).div_ceil(8) as usize, offset, bits }
    }

    fn len(&self) -> usize {
        self.end - self.first
    }

    fn whole(&self) -> bool {
        self.offset.is_multiple_of(8) && self.bits.is_multiple_of(8)
    }

    fn shift(&self) -> u32 {
        self.end as u32 * 8 - self.offset - self.bits
    }

    fn mask(&self) -> u64 {
        if self.bits == 64 { u64::MAX } else { (1 << self.bits) - 1 }
    }

    fn word_bits(&self) -> u32 {
        native_bits(self.len() as u32 * 8)
    }
}
