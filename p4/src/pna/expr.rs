//! Expressions in whole bytes: every printed value is a multiple of 8 bits wide.

use super::{Printer, refusal};
use crate::ir::*;
use crate::refusal::Refusal;

/// Width in which a value of `bits` bits is printed.
pub(super) const fn bytes(bits: u32) -> u32 {
    bits.div_ceil(8) * 8
}

/// Meaning of names where an expression is printed.
#[derive(Clone, Default)]
pub(super) struct Names<'a> {
    pub(super) params: &'a [Field],
    /// The packet's lane.
    pub(super) lane: Option<String>,
    /// New value of each cell, if it is a variable.
    pub(super) new: [Option<String>; 2],
    /// Whether the register's one cell is a byte.
    pub(super) byte: bool,
}

impl<'a> Names<'a> {
    /// In an action with parameters.
    pub(super) fn action(params: &'a [Field]) -> Self {
        Self { params, ..Self::default() }
    }

    /// The variable of that name as wide as the cells.
    pub(super) fn scratch(&self, name: &str) -> String {
        if self.byte { format!("meta.x_{name}_8") } else { format!("meta.x_{name}") }
    }

    /// Width of the cells.
    pub(super) fn cell_bits(&self) -> u32 {
        if self.byte { 8 } else { LANE_BITS }
    }
}

/// A printed value and its width; 0 bits is a boolean.
pub(super) struct Value {
    pub(super) text: String,
    pub(super) bits: u32,
    constant: Option<u64>,
}

impl Value {
    fn new(text: impl Into<String>, bits: u32) -> Self {
        Self { text: text.into(), bits, constant: None }
    }

    pub(super) fn constant(value: u64, bits: u32) -> Self {
        Self { text: format!("{bits}w{value:#x}"), bits, constant: Some(value) }
    }

    /// Zero extension or truncation to whole bytes.
    pub(super) fn resized(self, bits: u32) -> Self {
        match self.constant {
            _ if self.bits == bits => self,
            Some(value) => Self::constant(if bits >= 64 { value } else { value & ((1 << bits) - 1) }, bits),
            None => Self::new(format!("(bit<{bits}>){}", self.text), bits),
        }
    }

    /// Without the outer pair of parentheses.
    pub(super) fn bare(&self) -> &str {
        crate::v1model::bare(&self.text)
    }
}

impl Printer<'_> {
    /// A field or variable that fills whole bytes; a part of a container with its container.
    pub(super) fn read(&self, place: LValue) -> String {
        match place {
            LValue::Field(header, field) => {
                format!("hdr.{}.{}", self.p.header(header).name, self.fields.container(header, field).name)
            }
            LValue::Meta(meta) => format!("meta.{}", self.p.metadata[usize::from(meta.0)].name),
        }
    }

    /// An assignment; of a part of a container in two steps, keeping the other bits.
    pub(super) fn assign(
        &self,
        place: LValue,
        value: &Expr,
        names: &Names<'_>,
    ) -> Result<Vec<String>, Refusal> {
        let target = self.read(place);
        let value = self.value(value, names)?;
        let LValue::Field(header, field) = place else {
            return Ok(vec![format!("{target} = {};", value.bare())]);
        };
        if self.fields.whole(header, field) {
            return Ok(vec![format!("{target} = {};", value.bare())]);
        }
        let at = self.fields.position(header, field);
        let bits = self.fields.container(header, field).bits;
        let keep = ((1u64 << bits) - 1) & !(((1u64 << at.bits) - 1) << at.shift);
        let shifted = match value.constant {
            Some(constant) => Value::constant(constant << at.shift, bits),
            None if at.shift == 0 => value.resized(bits),
            None => Value::new(format!("({} << {})", value.resized(bits).text, at.shift), bits),
        };
        Ok(vec![
            format!("{target} = {target} & {bits}w{keep:#x};"),
            format!("{target} = {target} | {};", shifted.text),
        ])
    }

    pub(super) fn condition(&self, cond: &Expr) -> Result<String, Refusal> {
        let value = self.value(cond, &Names::default())?;
        Ok(if value.bare().len() < value.text.len() { value.text } else { format!("({})", value.text) })
    }

    pub(super) fn value(&self, expr: &Expr, names: &Names<'_>) -> Result<Value, Refusal> {
        Ok(match expr {
            Expr::Const(value, bits) => Value::constant(*value, bytes(*bits)),
            Expr::Field(header, field) => self.field(*header, *field),
            Expr::Meta(meta) => {
                Value::new(self.read(LValue::Meta(*meta)), bytes(self.p.metadata[usize::from(meta.0)].bits))
            }
            Expr::Param(param) => {
                let param = &names.params[usize::from(*param)];
                Value::new(&param.name, bytes(param.bits))
            }
            Expr::Intrinsic(intrinsic) => self.intrinsic(*intrinsic)?,
            Expr::Valid(part) => {
                let first = self.part_names(*part).into_iter().next().unwrap_or_default();
                Value::new(format!("hdr.{first}.isValid()"), 0)
            }
            Expr::Complement(inner) => {
                let inner = self.value(inner, names)?;
                Value::new(format!("~{}", inner.text), inner.bits)
            }
            Expr::Not(inner) => Value::new(format!("!{}", parenthesised(&self.value(inner, names)?.text)), 0),
            Expr::Binary(op, left, right) => self.binary(*op, left, right, names)?,
            Expr::Cast(bits, inner) => {
                let exact = *bits % 8 == 0;
                let value = self.value(inner, names)?.resized(bytes(*bits));
                if exact || value.constant.is_some() {
                    value
                } else {
                    Value::new(format!("({} & {:#x})", value.text, (1u64 << bits) - 1), value.bits)
                }
            }
            Expr::Concat(high, low) => self.concat(high, low, names)?,
            Expr::Cell(cell) => Value::new(names.scratch(&format!("old{cell}")), names.cell_bits()),
            Expr::NewCell(cell) => {
                let new = names.new[usize::from(*cell)].clone();
                Value::new(new.unwrap_or_else(|| names.scratch(&format!("old{cell}"))), names.cell_bits())
            }
            Expr::Lane => Value::new(names.lane.clone().unwrap_or_default(), LANE_BITS),
            Expr::Cond(cond) => Value::new(format!("(meta.x_cond{cond} == 1)"), 0),
            Expr::Select(..) | Expr::LaneVar(_) | Expr::Lookup(..) | Expr::AnyLane(_) => {
                return Err(refusal(
                    "a conditional value, a lane variable or a lookup",
                    "statements and registers only",
                ));
            }
        })
    }

    fn field(&self, header: HeaderId, field: u16) -> Value {
        let name = self.read(LValue::Field(header, field));
        let bits = self.fields.container(header, field).bits;
        if self.fields.whole(header, field) {
            return Value::new(name, bits);
        }
        let at = self.fields.position(header, field);
        let mask = (1u64 << at.bits) - 1;
        Value::new(
            match at.shift {
                0 => format!("({name} & {bits}w{mask:#x})"),
                shift if shift + at.bits == bits => format!("({name} >> {shift})"),
                shift => format!("(({name} >> {shift}) & {bits}w{mask:#x})"),
            },
            bits,
        )
    }

    fn intrinsic(&self, intrinsic: Intrinsic) -> Result<Value, Refusal> {
        Ok(match intrinsic {
            Intrinsic::IngressPort => Value::new("(bit<16>)(PortIdUint_t)istd.input_port", 16),
            Intrinsic::ChecksumError => Value::new("(meta.x_sum != 0 && meta.x_sum != 0xffff)", 0),
            Intrinsic::CongestionMark => Value::new("false", 0),
            Intrinsic::Instance => Value::new("meta.x_instance", 16),
            Intrinsic::PacketLength => {
                return Err(refusal("the packet's length", "only compared with a constant"));
            }
            Intrinsic::QueueDepth => return Err(refusal("queue depth", "PNA has no queue metadata")),
        })
    }

    fn concat(&self, high: &Expr, low: &Expr, names: &Names<'_>) -> Result<Value, Refusal> {
        if let Some((header, container)) = self.fields.joined(high, low) {
            return Ok(Value::new(
                format!("hdr.{}.{}", self.p.header(header).name, container.name),
                container.bits,
            ));
        }
        let low_bits = crate::check::width(self.p, low, &[], &[]);
        let bits = bytes(crate::check::width(self.p, high, &[], &[]) + low_bits);
        let (high, low) = (self.value(high, names)?.resized(bits), self.value(low, names)?.resized(bits));
        Ok(Value::new(format!("(({} << {low_bits}) | {})", high.text, low.text), bits))
    }

    fn binary(&self, op: BinOp, left: &Expr, right: &Expr, names: &Names<'_>) -> Result<Value, Refusal> {
        // PNA has no packet length: a frame has the length in its headers.
        if *left == Expr::Intrinsic(Intrinsic::PacketLength) && op == BinOp::Eq {
            return Ok(Value::new("true", 0));
        }
        let arithmetic = matches!(
            op,
            BinOp::Add | BinOp::Sub | BinOp::SignedGt | BinOp::SignedMin | BinOp::SignedMax | BinOp::Shl
        );
        let cells =
            [Field { name: String::new(), bits: LANE_BITS }, Field { name: String::new(), bits: LANE_BITS }];
        if arithmetic && !crate::check::width(self.p, left, &cells, names.params).is_multiple_of(8) {
            return Err(refusal("arithmetic on less than a byte", "the DPDK back end works in whole bytes"));
        }
        let (l, r) = (self.value(left, names)?, self.value(right, names)?);
        let bits = l.bits.max(r.bits);
        let (l, r) = (l.resized(bits), r.resized(bits));
        let symbol = match op {
            BinOp::Both => return Ok(both(&l, &r)),
            BinOp::SignedGt => return Ok(Value::new(format!("({} > {})", biased(&l), biased(&r)), 0)),
            BinOp::Either => "||",
            BinOp::Add => "+",
            BinOp::Sub => "-",
            BinOp::And => "&",
            BinOp::Or => "|",
            BinOp::Xor => "^",
            BinOp::Shl => "<<",
            BinOp::Shr => ">>",
            BinOp::Eq => "==",
            BinOp::Ne => "!=",
            BinOp::Gt => ">",
            BinOp::SignedShr | BinOp::SaturatingAdd | BinOp::Max | BinOp::SignedMin | BinOp::SignedMax => {
                return Err(refusal(
                    format!("operator {op:?} inside an expression"),
                    "DPDK has unsigned wrapping sums",
                ));
            }
        };
        let boolean = matches!(op, BinOp::Either | BinOp::Eq | BinOp::Ne | BinOp::Gt);
        Ok(Value::new(format!("({} {symbol} {})", l.text, r.text), if boolean { 0 } else { bits }))
    }
}

fn both(left: &Value, right: &Value) -> Value {
    match (left.text.as_str(), right.text.as_str()) {
        ("true", other) | (other, "true") => Value::new(other, 0),
        (left, right) => Value::new(format!("({left} && {right})"), 0),
    }
}

/// Two's complement order as unsigned order: the sign bit flipped.
pub(super) fn biased(value: &Value) -> String {
    let sign = 1u64 << (value.bits - 1);
    match value.constant {
        Some(constant) => format!("{}w{:#x}", value.bits, constant ^ sign),
        None => format!("({} ^ {}w{sign:#x})", value.text, value.bits),
    }
}

fn parenthesised(text: &str) -> String {
    if crate::v1model::bare(text).len() < text.len() { text.into() } else { format!("({text})") }
}
