//! Types of expressions.

use super::{Checked, Checker, Problem, RegPart, Scope, cell_bits, constant, fail};
use crate::ir::*;

/// The width of an expression in a program that was checked; 0 for booleans.
pub(crate) fn width(program: &Program, expr: &Expr, cells: &[Field], params: &[Field]) -> u32 {
    match expr {
        Expr::Const(_, bits) | Expr::Cast(bits, _) => *bits,
        Expr::Field(header, field) => program.field(*header, *field).bits,
        Expr::Meta(meta) => program.metadata[usize::from(meta.0)].bits,
        Expr::Param(param) => params[usize::from(*param)].bits,
        Expr::Intrinsic(intrinsic) => intrinsic_bits(*intrinsic),
        Expr::Valid(_) | Expr::Not(_) | Expr::Cond(_) | Expr::AnyLane(_) => 0,
        Expr::Complement(inner) | Expr::Select(_, inner, _) => width(program, inner, cells, params),
        Expr::Binary(op, left, _) => {
            if is_boolean(*op) {
                0
            } else {
                width(program, left, cells, params)
            }
        }
        Expr::Concat(high, low) => width(program, high, cells, params) + width(program, low, cells, params),
        Expr::Cell(cell) | Expr::NewCell(cell) => {
            cells.get(usize::from(*cell)).map_or(LANE_BITS, |cell| cell.bits)
        }
        Expr::Lane => program.lane_bits(),
        Expr::LaneVar(var) => program.lane_var(*var).bits,
        Expr::Lookup(lookup, _) => program.lookup(*lookup).value_bits,
    }
}

const fn intrinsic_bits(intrinsic: Intrinsic) -> u32 {
    match intrinsic {
        Intrinsic::IngressPort | Intrinsic::Instance => 16,
        Intrinsic::PacketLength => 32,
        Intrinsic::ChecksumError | Intrinsic::CongestionMark => 0,
        Intrinsic::QueueDepth => 19,
    }
}

const fn is_boolean(op: BinOp) -> bool {
    matches!(op, BinOp::Eq | BinOp::Ne | BinOp::Gt | BinOp::SignedGt | BinOp::Both | BinOp::Either)
}

const fn is_shift(op: BinOp) -> bool {
    matches!(op, BinOp::Shl | BinOp::Shr | BinOp::SignedShr)
}

/// Whether the operator reads its operands as two's complement, which targets do for native widths only.
const fn is_signed(op: BinOp) -> bool {
    matches!(
        op,
        BinOp::SignedGt | BinOp::SignedMin | BinOp::SignedMax | BinOp::SignedShr | BinOp::SaturatingAdd
    )
}

impl Checker<'_> {
    pub(super) fn typed(&self, at: &str, expr: &Expr, expected: u32, scope: Scope<'_>) -> Checked {
        let found = self.infer(at, expr, scope)?;
        if found == expected { Ok(()) } else { fail(at, Problem::Type { expected, found }) }
    }

    pub(super) fn infer(&self, at: &str, expr: &Expr, scope: Scope<'_>) -> Checked<u32> {
        match expr {
            Expr::Const(value, bits) => {
                if *bits == 0 || *bits > 64 {
                    return fail(at, Problem::Width(*bits));
                }
                constant(at, *value, *bits)?;
                Ok(*bits)
            }
            Expr::Field(header, field) => self.place(at, LValue::Field(*header, *field)),
            Expr::Meta(meta) => self.place(at, LValue::Meta(*meta)),
            Expr::Param(param) => match scope {
                Scope::Action(action) => match action.params.get(usize::from(*param)) {
                    Some(param) => Ok(param.bits),
                    None => fail(at, Problem::Missing("the parameter")),
                },
                _ => fail(at, Problem::Context("a parameter")),
            },
            Expr::Intrinsic(intrinsic) => {
                let egress = matches!(intrinsic, Intrinsic::Instance | Intrinsic::QueueDepth);
                match scope {
                    Scope::Ingress | Scope::Lane if !egress => Ok(intrinsic_bits(*intrinsic)),
                    Scope::Egress if egress => Ok(intrinsic_bits(*intrinsic)),
                    _ => fail(at, Problem::Context("this intrinsic")),
                }
            }
            Expr::Valid(part) => self.part(at, *part).map(|()| 0),
            Expr::Complement(inner) => match self.infer(at, inner, scope)? {
                0 => fail(at, Problem::Context("the complement of a boolean")),
                bits => Ok(bits),
            },
            Expr::Not(inner) => self.typed(at, inner, 0, scope).map(|()| 0),
            Expr::Binary(op, left, right) => self.binary(at, *op, left, right, scope),
            Expr::Cast(bits, inner) => {
                if *bits == 0 || *bits > 64 || self.infer(at, inner, scope)? == 0 {
                    return fail(at, Problem::Width(*bits));
                }
                Ok(*bits)
            }
            Expr::Concat(high, low) => {
                let (high, low) = (self.infer(at, high, scope)?, self.infer(at, low, scope)?);
                if high == 0 || low == 0 || high + low > 64 {
                    return fail(at, Problem::Width(high + low));
                }
                Ok(high + low)
            }
            Expr::Select(cond, then, otherwise) => {
                if matches!(scope, Scope::Register { .. } | Scope::Action(_)) {
                    return fail(at, Problem::Context("a selection"));
                }
                self.typed(at, cond, 0, scope)?;
                match self.infer(at, then, scope)? {
                    0 => fail(at, Problem::Context("a selection of booleans")),
                    bits => self.typed(at, otherwise, bits, scope).map(|()| bits),
                }
            }
            Expr::AnyLane(inner) => {
                if !matches!(scope, Scope::Ingress) {
                    return fail(at, Problem::Context("a question to all lanes"));
                }
                self.typed(at, inner, 0, Scope::Lane).map(|()| 0)
            }
            Expr::Lane | Expr::LaneVar(_) | Expr::Lookup(..) => self.lane(at, expr, scope),
            Expr::Cell(_) | Expr::NewCell(_) | Expr::Cond(_) => self.stateful(at, expr, scope),
        }
    }

    fn binary(&self, at: &str, op: BinOp, left: &Expr, right: &Expr, scope: Scope<'_>) -> Checked<u32> {
        let logical = matches!(op, BinOp::Both | BinOp::Either);
        let bits = self.infer(at, left, scope)?;
        let other = self.infer(at, right, scope)?;
        if is_shift(op) {
            if other == 0 || other > 8 {
                return fail(at, Problem::Width(other));
            }
        } else if other != bits {
            return fail(at, Problem::Type { expected: bits, found: other });
        }
        if logical != (bits == 0) {
            return fail(at, Problem::Type { expected: if logical { 0 } else { 1 }, found: bits });
        }
        let stateful = matches!(op, BinOp::Max | BinOp::SignedMin | BinOp::SignedMax | BinOp::SaturatingAdd);
        if stateful && !matches!(scope, Scope::Register { .. }) {
            return fail(at, Problem::Context("a minimum, maximum or saturating sum"));
        }
        if is_signed(op) && !matches!(bits, 8 | 16 | 32) {
            return fail(at, Problem::Width(bits));
        }
        Ok(if is_boolean(op) { 0 } else { bits })
    }

    /// The value of an assignment to lanes, which may be a lookup.
    pub(super) fn lane_value(&self, at: &str, place: LaneLValue, value: &Expr) -> Checked<u32> {
        let Expr::Lookup(lookup, key) = value else { return self.infer(at, value, Scope::Lane) };
        let Some(lookup) = self.program.lookups.get(usize::from(lookup.0)) else {
            return fail(at, Problem::Missing("the lookup"));
        };
        if place == LaneLValue::Lane {
            return fail(at, Problem::Context("a lookup straight into the packet"));
        }
        self.typed(at, key, lookup.key_bits, Scope::Lane)?;
        Ok(lookup.value_bits)
    }

    /// The packet's lane, lane variables and lookups.
    fn lane(&self, at: &str, expr: &Expr, scope: Scope<'_>) -> Checked<u32> {
        let lanes = match scope {
            Scope::Lane => self.program.lanes.is_some(),
            Scope::Register { register, .. } => matches!(register.kind, RegisterKind::Lanes(_)),
            _ => false,
        };
        if !lanes {
            return fail(at, Problem::Context("a lane"));
        }
        match expr {
            Expr::LaneVar(var) => self.lane_place(at, LaneLValue::Var(*var)),
            Expr::Lookup(..) => fail(at, Problem::Context("a lookup that is not the whole value")),
            _ => Ok(self.program.lane_bits()),
        }
    }

    fn stateful(&self, at: &str, expr: &Expr, scope: Scope<'_>) -> Checked<u32> {
        let Scope::Register { register, action, part } = scope else {
            return fail(at, Problem::Context("register state"));
        };
        match expr {
            Expr::Cell(cell) => cell_bits(register, *cell),
            Expr::NewCell(cell) if part == RegPart::Output => cell_bits(register, *cell),
            Expr::Cond(cond)
                if part != RegPart::Condition && usize::from(*cond) < action.conditions.len() =>
            {
                Some(0)
            }
            _ => None,
        }
        .map_or_else(|| fail(at, Problem::Context("this part of the register's state")), Ok)
    }
}
