//! Expressions and assignments of ingress and egress actions.

use super::{Printer, refusal};
use crate::check::width;
use crate::ir::*;
use crate::refusal::{Refusal, sketch};

impl Printer {
    /// An l-value; part of a container as a slice.
    pub(super) fn place(&self, place: LValue) -> String {
        match place {
            LValue::Field(header, field) => {
                let at = self.fields.position(header, field);
                let name = format!(
                    "hdr.{}.{}",
                    self.p().header(header).name,
                    self.fields.container(header, field).name
                );
                if self.fields.whole(header, field) {
                    name
                } else {
                    format!("{name}[{}:{}]", at.shift + at.bits - 1, at.shift)
                }
            }
            LValue::Meta(meta) => format!("meta.{}", self.p().metadata[usize::from(meta.0)].name),
        }
    }

    /// A key of a match table.
    pub(super) fn key(&self, key: &Expr) -> String {
        match key {
            Expr::Field(header, field) => self.place(LValue::Field(*header, *field)),
            Expr::Meta(meta) => self.place(LValue::Meta(*meta)),
            Expr::Valid(part) => format!("hdr.{}.isValid()", self.part_names(*part)[0]),
            Expr::Intrinsic(intrinsic) => match intrinsic {
                Intrinsic::IngressPort => "ig_intr_md.ingress_port",
                Intrinsic::ChecksumError => "meta.x_bad_checksum",
                Intrinsic::Instance => "eg_intr_md.egress_rid",
                Intrinsic::QueueDepth => "eg_intr_md.enq_qdepth",
                Intrinsic::PacketLength | Intrinsic::CongestionMark => "0",
            }
            .into(),
            _ => "0".into(),
        }
    }

    /// Width of a key.
    pub(super) fn key_bits(&self, key: &Expr) -> u32 {
        match key {
            Expr::Intrinsic(Intrinsic::IngressPort) => 9,
            Expr::Valid(_) | Expr::Intrinsic(Intrinsic::ChecksumError) => 1,
            Expr::Meta(meta) if *meta == self.l.index => 16,
            _ => width(self.p(), key, &[], &[]),
        }
    }

    /// A value that an action can compute.
    pub(super) fn value(&self, expr: &Expr, params: &[Field]) -> Result<String, Refusal> {
        let bits = |expr: &Expr| width(self.p(), expr, &[], params);
        Ok(match expr {
            Expr::Const(value, bits) => format!("{bits}w{value:#x}"),
            Expr::Field(header, field) => self.place(LValue::Field(*header, *field)),
            Expr::Meta(meta) => self.place(LValue::Meta(*meta)),
            Expr::Param(param) => params[usize::from(*param)].name.clone(),
            Expr::Complement(inner) => format!("~{}", self.value(inner, params)?),
            Expr::Cast(to, inner) if bits(inner) == *to => self.value(inner, params)?,
            Expr::Cast(to, inner) => format!("(bit<{to}>)({})", self.value(inner, params)?),
            Expr::Concat(high, low) => match self.fields.joined(high, low) {
                Some((header, container)) => {
                    format!("hdr.{}.{}", self.p().header(header).name, container.name)
                }
                None => {
                    return Err(refusal(
                        format!("concatenation {}", sketch(expr)),
                        "adjacent fields of one container",
                    ));
                }
            },
            Expr::Binary(op, left, right) => {
                let symbol = match op {
                    BinOp::Add => "+",
                    BinOp::Sub => "-",
                    BinOp::And => "&",
                    BinOp::Or => "|",
                    BinOp::Xor => "^",
                    _ => {
                        return Err(refusal(
                            format!("operation {} in an action", sketch(expr)),
                            "sums and bit operations",
                        ));
                    }
                };
                let nested = |side: &Expr| matches!(side, Expr::Binary(..));
                if nested(left) || nested(right) {
                    return Err(refusal(sketch(expr), "an action does one operation on a field"));
                }
                format!("{} {symbol} {}", self.value(left, params)?, self.value(right, params)?)
            }
            _ => return Err(refusal(format!("value {}", sketch(expr)), "fields, variables, constants")),
        })
    }

    /// Assignments of constants to the bits of a whole field that `(field & kept) | ones` changes: an action sets these at once.
    fn constant_bits(&self, place: LValue, value: &Expr) -> Option<Vec<String>> {
        let LValue::Field(header, field) = place else { return None };
        let Expr::Binary(BinOp::Or, rest, set) = value else { return None };
        let (Expr::Binary(BinOp::And, old, kept), Expr::Const(set, bits)) = (&**rest, &**set) else {
            return None;
        };
        let Expr::Const(kept, _) = **kept else { return None };
        if **old != place.value() || !self.fields.whole(header, field) {
            return None;
        }
        let of = |bit: u32| match (set >> bit & 1, kept >> bit & 1) {
            (1, _) => Some(1u64),
            (_, 0) => Some(0),
            _ => None,
        };
        let name = self.place(place);
        let (mut lines, mut bit) = (Vec::new(), 0);
        while bit < *bits {
            let Some(constant) = of(bit) else {
                bit += 1;
                continue;
            };
            let count = (bit..*bits).take_while(|bit| of(*bit) == Some(constant)).count() as u32;
            let constant = constant * super::ones(count);
            lines.push(format!("{name}[{}:{bit}] = {count}w{constant:#x};", bit + count - 1));
            bit += count;
        }
        Some(lines)
    }

    /// The value without casts to the width that it has.
    fn plain(&self, value: &Expr) -> Expr {
        match value {
            Expr::Cast(bits, inner) if width(self.p(), inner, &[], &[]) == *bits => self.plain(inner),
            other => other.clone(),
        }
    }

    /// Simultaneous assignments, in an order in which none reads a value that another has overwritten.
    pub(super) fn assign_all(&mut self, assignments: &[(LValue, Expr)]) -> Result<(), Refusal> {
        let mut left: Vec<(LValue, Expr)> = assignments
            .iter()
            .map(|(place, value)| (*place, self.plain(value)))
            .filter(|(place, value)| *value != place.value())
            .collect();
        let mut kept: Vec<(LValue, String)> = Vec::new();
        while !left.is_empty() {
            let free = (0..left.len()).find(|i| {
                let target = left[*i].0.value();
                !left.iter().enumerate().any(|(j, (_, value))| j != *i && value.mentions(&target))
                    || kept.iter().any(|(place, _)| *place == left[*i].0)
            });
            let Some(at) = free else {
                // A cycle: the first target's old value is saved in a temporary.
                let place = left[0].0;
                let name = format!("old_{}", kept.len());
                let bits = width(self.p(), &place.value(), &[], &[]);
                let line = format!("bit<{bits}> {name} = {};", self.place(place));
                self.w.line(line);
                kept.push((place, name));
                continue;
            };
            let (place, value) = left.remove(at);
            if let Some(lines) = self.constant_bits(place, &value) {
                lines.into_iter().for_each(|line| self.w.line(line));
                continue;
            }
            let text = match kept.iter().find(|(kept, _)| value == kept.value()) {
                Some((_, name)) => name.clone(),
                None if kept.iter().any(|(kept, _)| value.mentions(&kept.value())) => {
                    return Err(refusal("a cyclic assignment of fields", "swaps"));
                }
                None => self.value(&value, &[])?,
            };
            let line = format!("{} = {text};", self.place(place));
            self.w.line(line);
        }
        Ok(())
    }
}
