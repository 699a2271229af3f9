//! Expressions: operands of instructions, and conditions as jumps.

use super::code::Label;
use super::liveness::VIRTUAL;
use super::{INTRINSIC, Printer, refusal};
use crate::ir::*;
use crate::refusal::{Refusal, symbol};

/// What an instruction can read: a field, a variable, or a constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) text: String,
    /// Width; bits above it are zero.
    pub(super) bits: u32,
    pub(super) constant: Option<u64>,
}

impl Value {
    pub(super) fn place(text: impl Into<String>, bits: u32) -> Self {
        Self { text: text.into(), bits, constant: None }
    }

    pub(super) fn constant(value: u64, bits: u32) -> Self {
        let value = value & mask(bits);
        Self { text: format!("{value:#x}"), bits, constant: Some(value) }
    }
}

/// Meaning of names where an expression is printed.
#[derive(Debug, Clone, Default)]
pub(super) struct Names<'a> {
    pub(super) params: &'a [Field],
    /// The packet's lane.
    pub(super) lane: Option<String>,
    /// Widths of the cells.
    pub(super) cells: [u32; 2],
    /// New value of each cell that changes.
    pub(super) new: [Option<Value>; 2],
}

/// The bits of a width.
pub(super) const fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

impl Printer<'_> {
    /// A variable for an intermediate result.
    pub(super) fn temporary(&mut self, bits: u32) -> Value {
        let wide = if bits > 32 { 64 } else { 32 };
        self.temporaries += 1;
        Value::place(format!("{VIRTUAL}{wide}_{}", self.temporaries), bits)
    }

    /// A field's container, or a variable.
    pub(super) fn place(&mut self, place: LValue) -> String {
        match place {
            LValue::Field(header, field) => {
                format!("h.{}.{}", self.p.header(header).name, self.fields.container(header, field).name)
            }
            LValue::Meta(meta) => {
                self.used.insert(meta);
                format!("m.{}", self.p.metadata[usize::from(meta.0)].name)
            }
        }
    }

    /// A copy that may be changed.
    pub(super) fn copy(&mut self, value: &Value, bits: u32) -> Value {
        let copy = self.temporary(bits);
        self.code.run(format!("mov {} {}", copy.text, value.text));
        copy
    }

    /// Clears the bits above a value's width, where its variable has any.
    fn cut(&mut self, value: &Value) {
        if value.bits != 32 && value.bits != 64 {
            self.code.run(format!("and {} {:#x}", value.text, mask(value.bits)));
        }
    }

    /// The operand that holds an expression's value, after instructions that compute it.
    pub(super) fn value(&mut self, expr: &Expr, names: &Names<'_>) -> Result<Value, Refusal> {
        Ok(match expr {
            Expr::Const(value, bits) => Value::constant(*value, *bits),
            Expr::Field(header, field) => self.field(*header, *field),
            Expr::Meta(meta) => {
                let bits = self.p.metadata[usize::from(meta.0)].bits;
                Value::place(self.place(LValue::Meta(*meta)), bits)
            }
            Expr::Param(param) => {
                let param = &names.params[usize::from(*param)];
                Value::place(format!("t.{}", param.name), param.bits)
            }
            Expr::Intrinsic(intrinsic) => intrinsic_value(*intrinsic)?,
            Expr::Complement(inner) => {
                let inner = self.value(inner, names)?;
                let copy = self.copy(&inner, inner.bits);
                self.code.run(format!("xor {} {:#x}", copy.text, mask(copy.bits)));
                copy
            }
            Expr::Binary(op, left, right) => self.binary(*op, left, right, names)?,
            Expr::Cast(bits, inner) => {
                let inner = self.value(inner, names)?;
                match inner.constant {
                    Some(value) => Value::constant(value, *bits),
                    None if inner.bits <= *bits => Value { bits: *bits, ..inner },
                    None => {
                        let copy = self.copy(&inner, *bits);
                        self.cut(&copy);
                        copy
                    }
                }
            }
            Expr::Concat(high, low) => self.concat(high, low, names)?,
            Expr::Cell(cell) => Value::place(format!("m.x_old{cell}"), names.cells[usize::from(*cell)]),
            Expr::NewCell(cell) => match &names.new[usize::from(*cell)] {
                Some(new) => new.clone(),
                None => Value::place(format!("m.x_old{cell}"), names.cells[usize::from(*cell)]),
            },
            Expr::Lane => Value::place(names.lane.clone().unwrap_or_default(), LANE_BITS),
            Expr::Select(cond, then, otherwise) => self.select(cond, then, otherwise, names)?,
            Expr::LaneVar(_) | Expr::Lookup(..) | Expr::AnyLane(_) => {
                return Err(refusal("a lane variable or a lookup", "lanes are folded in registers alone"));
            }
            Expr::Valid(_) | Expr::Not(_) | Expr::Cond(_) => {
                return Err(refusal("a condition as a value", "conditions decide jumps"));
            }
        })
    }

    fn field(&mut self, header: HeaderId, field: u16) -> Value {
        let text = self.place(LValue::Field(header, field));
        let at = self.fields.position(header, field);
        let container = Value::place(text, self.fields.container(header, field).bits);
        if at.bits == container.bits {
            return container;
        }
        let part = self.copy(&container, container.bits);
        if at.shift > 0 {
            self.code.run(format!("shr {} {:#x}", part.text, at.shift));
        }
        if at.shift + at.bits < container.bits {
            self.code.run(format!("and {} {:#x}", part.text, mask(at.bits)));
        }
        Value { bits: at.bits, ..part }
    }

    fn concat(&mut self, high: &Expr, low: &Expr, names: &Names<'_>) -> Result<Value, Refusal> {
        if let Some((header, container)) = self.fields.joined(high, low) {
            let text = format!("h.{}.{}", self.p.header(header).name, container.name);
            return Ok(Value::place(text, container.bits));
        }
        let (high, low) = (self.value(high, names)?, self.value(low, names)?);
        let both = self.copy(&high, high.bits + low.bits);
        self.code.run(format!("shl {} {:#x}", both.text, low.bits));
        self.code.run(format!("or {} {}", both.text, low.text));
        Ok(both)
    }

    fn select(
        &mut self,
        cond: &Expr,
        then: &Expr,
        otherwise: &Expr,
        names: &Names<'_>,
    ) -> Result<Value, Refusal> {
        let (no, end) = (self.code.label(), self.code.label());
        let bits = crate::check::width(self.p, then, &[], names.params);
        let chosen = self.temporary(bits);
        self.jump_if(cond, false, no, names)?;
        let value = self.value(then, names)?;
        self.code.run(format!("mov {} {}", chosen.text, value.text));
        self.code.jump("jmp", end, "");
        self.code.put(no);
        let value = self.value(otherwise, names)?;
        self.code.run(format!("mov {} {}", chosen.text, value.text));
        self.code.put(end);
        Ok(chosen)
    }

    fn binary(&mut self, op: BinOp, left: &Expr, right: &Expr, names: &Names<'_>) -> Result<Value, Refusal> {
        let (l, r) = (self.value(left, names)?, self.value(right, names)?);
        if let BinOp::Max | BinOp::SignedMin | BinOp::SignedMax = op {
            return Ok(self.extreme(op, &l, &r));
        }
        let mnemonic = mnemonic(op).ok_or_else(|| unsupported(op))?;
        if let BinOp::Shl | BinOp::Shr = op {
            match r.constant {
                None => return Err(refusal("a shift by a variable", "shifts by constants")),
                Some(shift) if shift >= l.bits.into() => return Ok(Value::constant(0, l.bits)),
                Some(_) => {}
            }
        }
        let result = self.copy(&l, l.bits);
        self.code.run(format!("{mnemonic} {} {}", result.text, r.text));
        if let BinOp::Add | BinOp::Sub | BinOp::Shl = op {
            self.cut(&result);
        }
        Ok(result)
    }

    /// The value as a number whose unsigned order is the order wanted: for two's complement, with the sign bit flipped.
    fn ordered(&mut self, value: &Value, signed: bool) -> Value {
        let sign = 1u64 << (value.bits.max(1) - 1);
        match (signed, value.constant) {
            (false, _) => value.clone(),
            (true, Some(constant)) => Value::constant(constant ^ sign, value.bits),
            (true, None) => {
                let copy = self.copy(value, value.bits);
                self.code.run(format!("xor {} {sign:#x}", copy.text));
                copy
            }
        }
    }

    fn extreme(&mut self, op: BinOp, left: &Value, right: &Value) -> Value {
        let signed = op != BinOp::Max;
        let result = self.copy(left, left.bits);
        let (l, r) = (self.ordered(left, signed), self.ordered(right, signed));
        let end = self.code.label();
        // Keeps the left one if it is the lesser, or the greater.
        let (a, b) = if op == BinOp::SignedMin { (&r, &l) } else { (&l, &r) };
        self.compare(a, b, true, end);
        self.code.run(format!("mov {} {}", result.text, right.text));
        self.code.put(end);
        result
    }

    /// Jumps if `left > right` is `sense`.
    fn compare(&mut self, left: &Value, right: &Value, sense: bool, target: Label) {
        match (left.constant, right.constant, sense) {
            (Some(left), Some(right), _) => {
                if (left > right) == sense {
                    self.code.jump("jmp", target, "");
                }
            }
            (Some(_), None, true) => {
                self.code.jump("jmplt", target, &format!("{} {}", right.text, left.text));
            }
            (_, _, true) => self.code.jump("jmpgt", target, &format!("{} {}", left.text, right.text)),
            (None, Some(right), false) if right < u64::MAX => {
                self.code.jump("jmplt", target, &format!("{} {:#x}", left.text, right + 1));
            }
            (Some(left), None, false) if left > 0 => {
                self.code.jump("jmpgt", target, &format!("{} {:#x}", right.text, left - 1));
            }
            (_, _, false) => {
                let end = self.code.label();
                self.compare(left, right, true, end);
                self.code.jump("jmp", target, "");
                self.code.put(end);
            }
        }
    }

    /// Jumps if the condition is `sense`; otherwise goes on behind.
    pub(super) fn jump_if(
        &mut self,
        cond: &Expr,
        sense: bool,
        target: Label,
        names: &Names<'_>,
    ) -> Result<(), Refusal> {
        match cond {
            Expr::Const(value, 0) => {
                if (*value != 0) == sense {
                    self.code.jump("jmp", target, "");
                }
            }
            Expr::Not(inner) => self.jump_if(inner, !sense, target, names)?,
            Expr::Binary(op @ (BinOp::Both | BinOp::Either), left, right) => {
                // The value of the first that decides alone.
                let decides = *op == BinOp::Either;
                if sense == decides {
                    self.jump_if(left, sense, target, names)?;
                    self.jump_if(right, sense, target, names)?;
                } else {
                    let end = self.code.label();
                    self.jump_if(left, decides, end, names)?;
                    self.jump_if(right, sense, target, names)?;
                    self.code.put(end);
                }
            }
            Expr::Binary(op @ (BinOp::Eq | BinOp::Ne), left, right) => {
                let (l, r) = (self.value(left, names)?, self.value(right, names)?);
                let equal = (*op == BinOp::Eq) == sense;
                let (a, b) = if l.constant.is_some() { (&r, &l) } else { (&l, &r) };
                match (a.constant, b.constant) {
                    (Some(one), Some(other)) => {
                        if (one == other) == equal {
                            self.code.jump("jmp", target, "");
                        }
                    }
                    _ => {
                        let mnemonic = if equal { "jmpeq" } else { "jmpneq" };
                        self.code.jump(mnemonic, target, &format!("{} {}", a.text, b.text));
                    }
                }
            }
            Expr::Binary(op @ (BinOp::Gt | BinOp::SignedGt), left, right) => {
                let (l, r) = (self.value(left, names)?, self.value(right, names)?);
                self.jump_if_greater(&l, &r, *op == BinOp::SignedGt, sense, target);
            }
            Expr::Valid(part) => {
                let mnemonic = if sense { "jmpv" } else { "jmpnv" };
                let first = self.part_names(*part).into_iter().next().unwrap_or_default();
                self.code.jump(mnemonic, target, &format!("h.{first}"));
            }
            Expr::Intrinsic(Intrinsic::ChecksumError) => {
                let mnemonic = if sense { "jmpneq" } else { "jmpeq" };
                self.code.jump(mnemonic, target, &format!("h.{INTRINSIC}.sum m.x_sum"));
            }
            Expr::Intrinsic(Intrinsic::CongestionMark) => {
                let mnemonic = if sense { "jmpeq" } else { "jmpneq" };
                self.code.jump(mnemonic, target, &format!("h.{INTRINSIC}.mark 0x1"));
            }
            Expr::Cond(cond) => {
                let mnemonic = if sense { "jmpeq" } else { "jmpneq" };
                self.code.jump(mnemonic, target, &format!("m.x_cond{cond} 0x1"));
            }
            _ => return Err(refusal("a condition on several lanes", "a condition compares two numbers")),
        }
        Ok(())
    }

    /// Jumps if `left > right` is `sense`, of numbers or of numbers in two's complement.
    fn jump_if_greater(&mut self, left: &Value, right: &Value, signed: bool, sense: bool, target: Label) {
        if signed && left.constant == Some(0) && right.constant.is_none() {
            // Negative: the sign bit is set.
            let positive = Value::constant(mask(right.bits.max(1)) >> 1, right.bits);
            self.compare(right, &positive, sense, target);
            return;
        }
        let (l, r) = (self.ordered(left, signed), self.ordered(right, signed));
        self.compare(&l, &r, sense, target);
    }

    /// Assigns a value to a field or a variable; to a part of a container in steps that keep the other bits.
    pub(super) fn assign(&mut self, place: LValue, value: &Expr, names: &Names<'_>) -> Result<(), Refusal> {
        if self.in_place(place, value, names)? {
            return Ok(());
        }
        let value = self.value(value, names)?;
        self.assign_value(place, &value);
        Ok(())
    }

    /// Assigns `place op operand` to `place` by one instruction; whether the value has that form.
    fn in_place(&mut self, place: LValue, value: &Expr, names: &Names<'_>) -> Result<bool, Refusal> {
        let Expr::Binary(op @ (BinOp::Add | BinOp::Sub | BinOp::And | BinOp::Or | BinOp::Xor), left, right) =
            value
        else {
            return Ok(false);
        };
        let whole = match place {
            LValue::Field(header, field) => self.fields.whole(header, field),
            LValue::Meta(meta) => self.p.metadata[usize::from(meta.0)].bits.is_multiple_of(8),
        };
        let (Some(mnemonic), true) = (mnemonic(*op), whole && **left == place.value()) else {
            return Ok(false);
        };
        let right = self.value(right, names)?;
        let place = self.place(place);
        self.code.run(format!("{mnemonic} {place} {}", right.text));
        Ok(true)
    }

    pub(super) fn assign_value(&mut self, place: LValue, value: &Value) {
        let target = self.place(place);
        let part = match place {
            LValue::Field(header, field) if !self.fields.whole(header, field) => {
                Some((self.fields.position(header, field), self.fields.container(header, field).bits))
            }
            _ => None,
        };
        let Some((at, bits)) = part else {
            if target != value.text {
                self.code.run(format!("mov {target} {}", value.text));
            }
            return;
        };
        let moved = match value.constant {
            Some(constant) => Value::constant(constant << at.shift, bits),
            None if at.shift == 0 => value.clone(),
            None => {
                let copy = self.copy(value, bits);
                self.code.run(format!("shl {} {:#x}", copy.text, at.shift));
                copy
            }
        };
        let keep = mask(bits) & !(mask(at.bits) << at.shift);
        self.code.run(format!("and {target} {keep:#x}"));
        if moved.constant != Some(0) {
            self.code.run(format!("or {target} {}", moved.text));
        }
    }
}

fn mnemonic(op: BinOp) -> Option<&'static str> {
    Some(match op {
        BinOp::Add => "add",
        BinOp::Sub => "sub",
        BinOp::And => "and",
        BinOp::Or => "or",
        BinOp::Xor => "xor",
        BinOp::Shl => "shl",
        BinOp::Shr => "shr",
        _ => return None,
    })
}

fn unsupported(op: BinOp) -> Refusal {
    refusal(
        format!("operator {}", symbol(op)),
        "the instructions for arithmetic are unsigned: add, sub, and, or, xor, shl, shr",
    )
}

fn intrinsic_value(intrinsic: Intrinsic) -> Result<Value, Refusal> {
    let (field, bits) = match intrinsic {
        Intrinsic::IngressPort => ("port", 16),
        Intrinsic::PacketLength => ("length", 32),
        Intrinsic::Instance => ("instance", 16),
        Intrinsic::QueueDepth => ("depth", 19),
        Intrinsic::ChecksumError | Intrinsic::CongestionMark => {
            return Err(refusal("a condition as a value", "conditions decide jumps"));
        }
    };
    Ok(Value::place(format!("h.{INTRINSIC}.{field}"), bits))
}
