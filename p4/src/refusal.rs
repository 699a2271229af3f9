//! Refusal of programs that a target cannot run.

use crate::check::CheckError;
use crate::ir::{BinOp, Expr, Intrinsic, Part, Program};

/// A construct or an amount that a target does not support, and the limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize)]
#[error("{target} cannot run this program: {construct}: {limit}")]
pub struct Refusal {
    /// The target.
    pub target: &'static str,
    /// The construct of the program.
    pub construct: String,
    /// The target's limit.
    pub limit: String,
}

impl Refusal {
    /// The same with the names of `program` where [`sketch`] left numbers.
    pub(crate) fn named(mut self, program: &Program) -> Self {
        for (index, meta) in program.metadata.iter().enumerate().rev() {
            self.construct =
                self.construct.replace(&format!("meta.#{index}"), &format!("meta.{}", meta.name));
        }
        for (index, header) in program.headers.iter().enumerate().rev() {
            for (field, named) in header.fields.iter().enumerate().rev() {
                let name = format!("{}.{}", header.name, named.name);
                self.construct = self.construct.replace(&format!("hdr.#{index}.#{field}"), &name);
            }
            self.construct = self.construct.replace(&format!("hdr.#{index}"), &header.name);
        }
        self
    }
}

/// An expression for messages, with numbers for metadata and fields; [`Refusal::named`] replaces them by names.
pub(crate) fn sketch(expr: &Expr) -> String {
    let nested = |inner: &Expr| match inner {
        Expr::Binary(..) | Expr::Select(..) => format!("({})", sketch(inner)),
        _ => sketch(inner),
    };
    match expr {
        Expr::Const(value, 0) => (if *value == 0 { "false" } else { "true" }).into(),
        Expr::Const(value, _) if *value > 0xffff => format!("{value:#x}"),
        Expr::Const(value, _) => value.to_string(),
        Expr::Field(header, field) => format!("hdr.#{}.#{field}", header.0),
        Expr::Meta(meta) => format!("meta.#{}", meta.0),
        Expr::Param(param) => format!("parameter {param}"),
        Expr::Intrinsic(intrinsic) => match intrinsic {
            Intrinsic::IngressPort => "the ingress port",
            Intrinsic::PacketLength => "the packet's length",
            Intrinsic::ChecksumError => "a wrong checksum",
            Intrinsic::CongestionMark => "a congestion mark",
            Intrinsic::Instance => "the copy's instance",
            Intrinsic::QueueDepth => "the queue's depth",
        }
        .into(),
        Expr::Valid(Part::Header(header)) => format!("presence of hdr.#{}", header.0),
        Expr::Valid(Part::Lanes) => "presence of lanes".into(),
        Expr::Complement(inner) => format!("~{}", nested(inner)),
        Expr::Not(inner) => format!("not {}", nested(inner)),
        Expr::Binary(op, left, right) => format!("{} {} {}", nested(left), symbol(*op), nested(right)),
        Expr::Cast(bits, inner) => format!("{} as {bits} bits", nested(inner)),
        Expr::Concat(high, low) => format!("{} ++ {}", nested(high), nested(low)),
        Expr::Cell(_) => "the register".into(),
        Expr::NewCell(_) => "the register's new value".into(),
        Expr::Lane => "a lane".into(),
        Expr::LaneVar(_) => "a lane's variable".into(),
        Expr::Lookup(_, key) => format!("a lookup by {}", nested(key)),
        Expr::Select(cond, yes, no) => format!("{} if {} else {}", nested(yes), nested(cond), nested(no)),
        Expr::AnyLane(inner) => format!("{} in any lane", nested(inner)),
        Expr::Cond(index) => format!("condition {index}"),
    }
}

/// An operator as people write it.
pub(crate) fn symbol(op: BinOp) -> &'static str {
    match op {
        BinOp::Add => "+",
        BinOp::Sub => "-",
        BinOp::And => "&",
        BinOp::Or => "|",
        BinOp::Xor => "^",
        BinOp::Shl => "<<",
        BinOp::Shr => ">>",
        BinOp::SignedShr => ">> (signed)",
        BinOp::SaturatingAdd => "+ (saturating)",
        BinOp::Eq => "==",
        BinOp::Ne => "!=",
        BinOp::Gt => ">",
        BinOp::SignedGt => "> (signed)",
        BinOp::Max => "max",
        BinOp::SignedMin => "min (signed)",
        BinOp::SignedMax => "max (signed)",
        BinOp::Both => "and",
        BinOp::Either => "or",
    }
}

/// Error of a back end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrintError {
    /// The program is not valid on any target.
    #[error(transparent)]
    Invalid(#[from] CheckError),
    /// The program is valid but not for this target.
    #[error(transparent)]
    Refused(#[from] Refusal),
}
