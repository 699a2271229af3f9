//! Evaluation of expressions.

use super::packet::Packet;
use crate::ir::*;

/// A number of a width, or with width 0 a boolean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) bits: u32,
    pub(super) raw: u64,
}

impl Value {
    /// `raw` cut to `bits`.
    pub(super) const fn new(bits: u32, raw: u64) -> Self {
        Self { bits, raw: raw & mask(bits) }
    }

    const fn boolean(holds: bool) -> Self {
        Self { bits: 0, raw: holds as u64 }
    }

    pub(super) const fn holds(self) -> bool {
        self.raw != 0
    }

    /// The value as two's complement.
    const fn signed(self) -> i64 {
        let unused = 64 - self.bits;
        (self.raw << unused).cast_signed() >> unused
    }
}

/// The bits of a width.
pub(super) const fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Values of names in an expression; empty outside actions and loops over lanes.
#[derive(Clone, Copy, Default)]
pub(super) struct Frame<'a> {
    /// Parameters of the action that a table selected.
    pub(super) params: &'a [Value],
    /// Cells of the register entry before the action, and after.
    pub(super) old: &'a [Value],
    pub(super) new: &'a [Value],
    /// Conditions of the register action.
    pub(super) conditions: &'a [bool],
    /// Number of the lane.
    pub(super) lane: usize,
}

/// A program and the current packet.
#[derive(Clone, Copy)]
pub(super) struct Eval<'a> {
    pub(super) program: &'a Program,
    pub(super) packet: &'a Packet,
}

impl Eval<'_> {
    pub(super) fn value(&self, expr: &Expr, frame: &Frame<'_>) -> Value {
        match expr {
            Expr::Const(value, bits) => Value::new(*bits, *value),
            Expr::Field(header, field) => {
                let bits = self.program.field(*header, *field).bits;
                Value::new(bits, self.packet.field(*header, *field))
            }
            Expr::Meta(meta) => {
                let at = usize::from(meta.0);
                Value::new(self.program.metadata[at].bits, self.packet.metadata[at])
            }
            Expr::Param(param) => frame.params[usize::from(*param)],
            Expr::Intrinsic(intrinsic) => self.intrinsic(*intrinsic),
            Expr::Valid(part) => Value::boolean(self.packet.has(*part)),
            Expr::Complement(inner) => {
                let inner = self.value(inner, frame);
                Value::new(inner.bits, !inner.raw)
            }
            Expr::Not(inner) => Value::boolean(!self.value(inner, frame).holds()),
            Expr::Binary(op, left, right) => binary(*op, self.value(left, frame), self.value(right, frame)),
            Expr::Cast(bits, inner) => Value::new(*bits, self.value(inner, frame).raw),
            Expr::Concat(high, low) => {
                let (high, low) = (self.value(high, frame), self.value(low, frame));
                Value::new(high.bits + low.bits, high.raw << low.bits | low.raw)
            }
            Expr::Cell(cell) => frame.old[usize::from(*cell)],
            Expr::NewCell(cell) => frame.new[usize::from(*cell)],
            Expr::Lane => Value::new(self.program.lane_bits(), self.packet.lanes[frame.lane].into()),
            Expr::LaneVar(var) => {
                let raw = self.packet.lane_vars[usize::from(var.0)][frame.lane];
                Value::new(self.program.lane_var(*var).bits, raw)
            }
            Expr::Lookup(lookup, key) => {
                let lookup = self.program.lookup(*lookup);
                let key = self.value(key, frame).raw;
                let hit = lookup.entries.iter().find(|(value, mask, _)| key & mask == *value);
                Value::new(lookup.value_bits, hit.map_or(lookup.default, |(_, _, result)| *result))
            }
            Expr::Select(cond, then, otherwise) => {
                let chosen = if self.value(cond, frame).holds() { then } else { otherwise };
                self.value(chosen, frame)
            }
            Expr::AnyLane(cond) => {
                let lanes = if self.packet.has_lanes { 0..self.packet.lanes.len() } else { 0..0 };
                let mut lanes = lanes.map(|lane| Frame { lane, ..*frame });
                Value::boolean(lanes.any(|frame| self.value(cond, &frame).holds()))
            }
            Expr::Cond(cond) => Value::boolean(frame.conditions[usize::from(*cond)]),
        }
    }

    fn intrinsic(&self, intrinsic: Intrinsic) -> Value {
        let packet = self.packet;
        match intrinsic {
            Intrinsic::IngressPort => Value::new(16, packet.port.into()),
            Intrinsic::PacketLength => Value::new(32, packet.length as u64),
            Intrinsic::ChecksumError => Value::boolean(packet.checksum_error),
            Intrinsic::CongestionMark => Value::boolean(packet.congestion_mark),
            Intrinsic::Instance => Value::new(16, packet.instance.into()),
            Intrinsic::QueueDepth => Value::new(19, u64::from(packet.queue_depth).min(mask(19))),
        }
    }
}

fn binary(op: BinOp, left: Value, right: Value) -> Value {
    let bits = left.bits;
    let (l, r) = (left.raw, right.raw);
    let number = |raw| Value::new(bits, raw);
    let signed = |value: i64| Value::new(bits, value.cast_unsigned());
    let greater = |then: bool| if then { left } else { right };
    match op {
        BinOp::Add => number(l.wrapping_add(r)),
        BinOp::Sub => number(l.wrapping_sub(r)),
        BinOp::And => number(l & r),
        BinOp::Or => number(l | r),
        BinOp::Xor => number(l ^ r),
        BinOp::Shl => number(if r < u64::from(bits) { l << r } else { 0 }),
        BinOp::Shr => number(if r < u64::from(bits) { l >> r } else { 0 }),
        BinOp::SignedShr => signed(left.signed() >> r.min(63)),
        BinOp::SaturatingAdd => {
            let greatest = (mask(bits) >> 1).cast_signed();
            signed((left.signed() + right.signed()).clamp(-greatest - 1, greatest))
        }
        BinOp::Eq => Value::boolean(l == r),
        BinOp::Ne => Value::boolean(l != r),
        BinOp::Gt => Value::boolean(l > r),
        BinOp::SignedGt => Value::boolean(left.signed() > right.signed()),
        BinOp::Max => greater(l >= r),
        BinOp::SignedMin => greater(left.signed() <= right.signed()),
        BinOp::SignedMax => greater(left.signed() >= right.signed()),
        BinOp::Both => Value::boolean(left.holds() && right.holds()),
        BinOp::Either => Value::boolean(left.holds() || right.holds()),
    }
}
