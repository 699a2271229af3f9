//! Expressions: values in registers, and conditions as jumps.
//!
//! A value is computed into the register of its depth, from intermediate values in the registers behind it. Bits above a value's width are zero.

use netfold_bpf::{Alu, Jump, Register, Size, Width};

use super::code::Label;
use super::layout::Variable;
use super::{Lowering, PACKET, SCRATCH, SLOT, TEMPORARIES, refusal};
use crate::check::width;
use crate::ir::*;
use crate::refusal::{Refusal, sketch, symbol};

/// Where a cell's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    /// In the slot.
    Slot(i16),
    /// In the CPU's memory.
    Kept(Variable),
}

/// Meaning of names where an expression is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Names<'a> {
    /// Parameters of the action.
    pub(super) params: &'a [Field],
    /// Cells of the register.
    pub(super) cells: &'a [Field],
    pub(super) old: [Option<Cell>; 2],
    pub(super) new: [Option<Cell>; 2],
    /// Offset of the packet's lane.
    pub(super) lane: Option<i16>,
}

/// The width in which values of `bits` bits are computed.
const fn word(bits: u32) -> Width {
    if bits <= 32 { Width::Low } else { Width::All }
}

const fn word_bits(bits: u32) -> u32 {
    if bits <= 32 { 32 } else { 64 }
}

/// The bits of a width.
const fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Registers that an expression's value needs.
fn need(expr: &Expr) -> usize {
    let operands = expr.operands();
    match operands[..] {
        [left, right] => {
            let (left, right) = (need(left), need(right));
            if left == right { left + 1 } else { left.max(right) }
        }
        // Both are computed into the same register, and the condition before.
        [cond, then, otherwise] => (need(cond) + 1).max(need(then)).max(need(otherwise)),
        [one] => need(one),
        _ => 1,
    }
}

/// A constant that fits an instruction on values of `bits` bits.
fn immediate(expr: &Expr, bits: u32) -> Option<i32> {
    let Expr::Const(value, _) = expr else { return None };
    let value = value & mask(bits);
    if bits <= 32 { Some(value as u32 as i32) } else { i32::try_from(value).ok() }
}

impl Lowering<'_> {
    pub(super) fn width(&self, expr: &Expr, names: &Names<'_>) -> u32 {
        width(self.p, expr, names.cells, names.params)
    }

    /// The register of a depth.
    fn register(&self, depth: usize) -> Result<Register, Refusal> {
        TEMPORARIES.get(depth).copied().ok_or_else(|| {
            refusal(
                format!("an expression too deep for {} registers", TEMPORARIES.len()),
                "intermediate values are in registers that calls do not keep",
            )
        })
    }

    pub(super) fn load_variable(&mut self, to: Register, variable: Variable) {
        self.code.load(variable.size, to, SCRATCH, variable.offset);
    }

    pub(super) fn store_variable(&mut self, variable: Variable, from: Register) {
        self.code.store(variable.size, SCRATCH, variable.offset, from);
    }

    pub(super) fn set_variable(&mut self, variable: Variable, value: i32) {
        self.code.run(netfold_bpf::Instruction::store_constant(
            variable.size,
            SCRATCH,
            variable.offset,
            value,
        ));
    }

    /// Clears the bits above a width.
    fn cut(&mut self, register: Register, bits: u32) {
        match bits {
            64.. => {}
            33..64 => {
                let unused = 64 - bits as i32;
                self.code.alu_k(Width::All, Alu::Shl, register, unused);
                self.code.alu_k(Width::All, Alu::Shr, register, unused);
            }
            32 => self.code.alu(Width::Low, Alu::Mov, register, register),
            _ => self.code.alu_k(Width::Low, Alu::And, register, mask(bits) as i32),
        }
    }

    /// Computes a value into the register of `depth`, which it returns.
    pub(super) fn value(
        &mut self,
        expr: &Expr,
        depth: usize,
        names: &Names<'_>,
    ) -> Result<Register, Refusal> {
        let to = self.register(depth)?;
        match expr {
            Expr::Const(value, bits) => self.code.constant(to, value & mask(*bits)),
            Expr::Field(header, field) => self.load_variable(to, self.layout.field(*header, *field)),
            Expr::Meta(meta) => self.load_variable(to, self.layout.meta(*meta)),
            Expr::Param(param) => self.load_variable(to, self.layout.param(*param)),
            Expr::Intrinsic(intrinsic) => self.intrinsic(*intrinsic, to)?,
            Expr::Complement(inner) => {
                let bits = self.width(inner, names);
                self.value(inner, depth, names)?;
                self.code.alu_k(word(bits), Alu::Xor, to, -1);
                if bits != word_bits(bits) {
                    self.cut(to, bits);
                }
            }
            Expr::Binary(op, left, right) => self.binary(*op, left, right, depth, names)?,
            Expr::Cast(bits, inner) => {
                let inner_bits = self.width(inner, names);
                self.value(inner, depth, names)?;
                if inner_bits > *bits {
                    self.cut(to, *bits);
                }
            }
            Expr::Concat(high, low) => {
                let low_bits = self.width(low, names);
                let (_, other) = self.operands(high, low, depth, names)?;
                self.code.alu_k(Width::All, Alu::Shl, to, low_bits as i32);
                self.code.alu(Width::All, Alu::Or, to, other);
            }
            Expr::Cell(cell) => self.cell(to, names.old[usize::from(*cell)])?,
            Expr::NewCell(cell) => self.cell(to, names.new[usize::from(*cell)])?,
            Expr::Lane => {
                let at = names
                    .lane
                    .ok_or_else(|| refusal("a lane as a single value", "lanes are visited in turn"))?;
                self.code.load(Size::Word, to, PACKET, at);
                self.code.run(netfold_bpf::Instruction::big_endian(to, 32));
            }
            Expr::Select(cond, then, otherwise) => {
                let (no, end) = (self.code.label(), self.code.label());
                self.jump_if(cond, false, no, depth, names)?;
                self.value(then, depth, names)?;
                self.code.go(end);
                self.code.put(no);
                self.value(otherwise, depth, names)?;
                self.code.put(end);
            }
            Expr::LaneVar(_) | Expr::Lookup(..) => {
                return Err(refusal(
                    "a lane variable or a lookup",
                    "lanes are in the packet and in registers alone",
                ));
            }
            Expr::Valid(_) | Expr::Not(_) | Expr::Cond(_) | Expr::AnyLane(_) => {
                return Err(refusal("a condition as a value", "conditions decide jumps"));
            }
        }
        Ok(to)
    }

    fn cell(&mut self, to: Register, cell: Option<Cell>) -> Result<(), Refusal> {
        match cell {
            Some(Cell::Slot(offset)) => self.code.load(Size::Word, to, SLOT, offset),
            Some(Cell::Kept(variable)) => self.load_variable(to, variable),
            None => return Err(refusal("a cell outside a register", "cells are in registers")),
        }
        Ok(())
    }

    fn intrinsic(&mut self, intrinsic: Intrinsic, to: Register) -> Result<(), Refusal> {
        let variable = match intrinsic {
            Intrinsic::IngressPort => self.layout.port,
            Intrinsic::PacketLength => self.layout.length,
            Intrinsic::Instance => self.layout.instance,
            Intrinsic::QueueDepth => self.layout.depth,
            Intrinsic::ChecksumError | Intrinsic::CongestionMark => {
                return Err(refusal("a condition as a value", "conditions decide jumps"));
            }
        };
        self.load_variable(to, variable);
        Ok(())
    }

    /// Computes two operands: the first into the register of `depth`, the second into the next.
    fn operands(
        &mut self,
        left: &Expr,
        right: &Expr,
        depth: usize,
        names: &Names<'_>,
    ) -> Result<(Register, Register), Refusal> {
        let (a, b) = (self.register(depth)?, self.register(depth + 1)?);
        if need(right) <= need(left) {
            self.value(left, depth, names)?;
            self.value(right, depth + 1, names)?;
            return Ok((a, b));
        }
        // The one that needs more registers first, and then they change places.
        self.value(right, depth, names)?;
        if need(left) > 1 {
            self.value(left, depth + 1, names)?;
            self.code.alu(Width::All, Alu::Xor, a, b);
            self.code.alu(Width::All, Alu::Xor, b, a);
            self.code.alu(Width::All, Alu::Xor, a, b);
        } else {
            self.code.alu(Width::All, Alu::Mov, b, a);
            self.value(left, depth, names)?;
        }
        Ok((a, b))
    }

    fn binary(
        &mut self,
        op: BinOp,
        left: &Expr,
        right: &Expr,
        depth: usize,
        names: &Names<'_>,
    ) -> Result<(), Refusal> {
        let bits = self.width(left, names);
        let to = self.register(depth)?;
        let simple = match op {
            BinOp::Add => Alu::Add,
            BinOp::Sub => Alu::Sub,
            BinOp::And => Alu::And,
            BinOp::Or => Alu::Or,
            BinOp::Xor => Alu::Xor,
            BinOp::Shl | BinOp::Shr | BinOp::SignedShr => return self.shift(op, left, right, depth, names),
            BinOp::Max | BinOp::SignedMin | BinOp::SignedMax => {
                let (a, b) = self.operands(left, right, depth, names)?;
                self.extreme(op, a, b, bits);
                return Ok(());
            }
            BinOp::SaturatingAdd => {
                let (a, b) = self.operands(left, right, depth, names)?;
                return self.saturating(a, b, bits);
            }
            _ => {
                return Err(refusal(
                    format!("operator {} as a value", symbol(op)),
                    "conditions decide jumps",
                ));
            }
        };
        match immediate(right, bits) {
            Some(value) => {
                self.value(left, depth, names)?;
                self.code.alu_k(word(bits), simple, to, value);
            }
            None => {
                let (a, b) = self.operands(left, right, depth, names)?;
                self.code.alu(word(bits), simple, a, b);
            }
        }
        if matches!(op, BinOp::Add | BinOp::Sub) && bits != word_bits(bits) {
            self.cut(to, bits);
        }
        Ok(())
    }

    /// Extends a value's sign to all 64 bits.
    fn extend(&mut self, register: Register, bits: u32) {
        let unused = 64 - bits as i32;
        if unused > 0 {
            self.code.alu_k(Width::All, Alu::Shl, register, unused);
            self.code.alu_k(Width::All, Alu::SignedShr, register, unused);
        }
    }

    /// The processor takes a shift modulo the register's width.
    fn shift(
        &mut self,
        op: BinOp,
        left: &Expr,
        right: &Expr,
        depth: usize,
        names: &Names<'_>,
    ) -> Result<(), Refusal> {
        let (bits, to) = (self.width(left, names), self.register(depth)?);
        let signed = op == BinOp::SignedShr;
        let alu = match op {
            BinOp::Shl => Alu::Shl,
            BinOp::Shr => Alu::Shr,
            _ => Alu::SignedShr,
        };
        if let Expr::Const(by, _) = right {
            self.value(left, depth, names)?;
            if signed {
                self.extend(to, bits);
            }
            match *by {
                by if by < bits.into() => self.code.alu_k(Width::All, alu, to, by as i32),
                _ if signed => self.code.alu_k(Width::All, alu, to, 63),
                _ => self.code.constant(to, 0),
            }
        } else {
            let (a, b) = self.operands(left, right, depth, names)?;
            let (wide, end) = (self.code.label(), self.code.label());
            if signed {
                self.extend(a, bits);
            }
            self.code.jump_k(Width::All, Jump::Ge, b, bits as i32, wide);
            self.code.alu(Width::All, alu, a, b);
            self.code.go(end);
            self.code.put(wide);
            if signed {
                self.code.alu_k(Width::All, alu, a, 63);
            } else {
                self.code.constant(a, 0);
            }
            self.code.put(end);
        }
        if op != BinOp::Shr {
            self.cut(to, bits);
        }
        Ok(())
    }

    /// Leaves the greater or the lesser of `a` and `b` in `a`.
    fn extreme(&mut self, op: BinOp, a: Register, b: Register, bits: u32) {
        let when = match op {
            BinOp::Max => Jump::Ge,
            BinOp::SignedMin => Jump::SignedLe,
            _ => Jump::SignedGe,
        };
        let end = self.code.label();
        let signed = op != BinOp::Max && bits != word_bits(bits);
        if signed {
            self.extend(a, bits);
            self.extend(b, bits);
            self.code.jump(Width::All, when, a, b, end);
        } else {
            self.code.jump(word(bits), when, a, b, end);
        }
        self.code.alu(Width::All, Alu::Mov, a, b);
        self.code.put(end);
        if signed {
            self.cut(a, bits);
        }
    }

    fn saturating(&mut self, a: Register, b: Register, bits: u32) -> Result<(), Refusal> {
        if bits > 32 {
            return Err(refusal(
                format!("a saturating sum of {bits} bits"),
                "saturating sums of at most 32 bits",
            ));
        }
        let greatest = (mask(bits) >> 1) as i32;
        let (low, end) = (self.code.label(), self.code.label());
        self.extend(a, bits);
        self.extend(b, bits);
        self.code.alu(Width::All, Alu::Add, a, b);
        self.code.jump_k(Width::All, Jump::SignedLe, a, greatest, low);
        self.code.alu_k(Width::All, Alu::Mov, a, greatest);
        self.code.put(low);
        self.code.jump_k(Width::All, Jump::SignedGe, a, -greatest - 1, end);
        self.code.alu_k(Width::All, Alu::Mov, a, -greatest - 1);
        self.code.put(end);
        self.cut(a, bits);
        Ok(())
    }

    /// Jumps if the condition is `sense`; otherwise goes on behind. Uses the registers from `depth` on.
    pub(super) fn jump_if(
        &mut self,
        cond: &Expr,
        sense: bool,
        target: Label,
        depth: usize,
        names: &Names<'_>,
    ) -> Result<(), Refusal> {
        match cond {
            Expr::Const(value, 0) => {
                if (*value != 0) == sense {
                    self.code.go(target);
                }
            }
            Expr::Not(inner) => self.jump_if(inner, !sense, target, depth, names)?,
            Expr::Binary(op @ (BinOp::Both | BinOp::Either), left, right) => {
                // The value of the first that decides alone.
                let decides = *op == BinOp::Either;
                if sense == decides {
                    self.jump_if(left, sense, target, depth, names)?;
                    self.jump_if(right, sense, target, depth, names)?;
                } else {
                    let end = self.code.label();
                    self.jump_if(left, decides, end, depth, names)?;
                    self.jump_if(right, sense, target, depth, names)?;
                    self.code.put(end);
                }
            }
            Expr::Binary(op, left, right) => {
                let when = match op {
                    BinOp::Eq => Jump::Eq,
                    BinOp::Ne => Jump::Ne,
                    BinOp::Gt => Jump::Gt,
                    BinOp::SignedGt => Jump::SignedGt,
                    _ => {
                        return Err(refusal(
                            format!("operator {} as a condition", symbol(*op)),
                            "comparisons",
                        ));
                    }
                };
                let when = if sense { when } else { when.negated() };
                self.compare(when, *op == BinOp::SignedGt, (left, right), target, depth, names)?;
            }
            Expr::Valid(part) => self.jump_on(self.layout.valid(*part), sense, target, depth)?,
            Expr::Intrinsic(Intrinsic::ChecksumError) => {
                self.jump_on(self.layout.checksum_error, sense, target, depth)?;
            }
            // The outer headers are in the packet.
            Expr::Intrinsic(Intrinsic::CongestionMark) if sense => {}
            Expr::Intrinsic(Intrinsic::CongestionMark) => self.code.go(target),
            Expr::Cond(cond) => {
                self.jump_on(self.layout.conditions[usize::from(*cond)], sense, target, depth)?;
            }
            Expr::AnyLane(cond) => self.any_lane(cond, sense, target, depth, names)?,
            _ => return Err(refusal(sketch(cond), "a condition compares two values")),
        }
        Ok(())
    }

    /// Jumps if a variable is not zero (`sense`), or is.
    fn jump_on(
        &mut self,
        variable: Variable,
        sense: bool,
        target: Label,
        depth: usize,
    ) -> Result<(), Refusal> {
        let register = self.register(depth)?;
        self.load_variable(register, variable);
        let when = if sense { Jump::Ne } else { Jump::Eq };
        self.code.jump_k(Width::Low, when, register, 0, target);
        Ok(())
    }

    fn compare(
        &mut self,
        when: Jump,
        signed: bool,
        (left, right): (&Expr, &Expr),
        target: Label,
        depth: usize,
        names: &Names<'_>,
    ) -> Result<(), Refusal> {
        let bits = self.width(left, names);
        let shifted = signed && bits != word_bits(bits);
        match immediate(right, bits).filter(|_| !shifted) {
            Some(value) => {
                let register = self.value(left, depth, names)?;
                self.code.jump_k(word(bits), when, register, value, target);
            }
            None => {
                let (a, b) = self.operands(left, right, depth, names)?;
                if shifted {
                    self.extend(a, bits);
                    self.extend(b, bits);
                }
                let width = if shifted { Width::All } else { word(bits) };
                self.code.jump(width, when, a, b, target);
            }
        }
        Ok(())
    }

    fn any_lane(
        &mut self,
        cond: &Expr,
        sense: bool,
        target: Label,
        depth: usize,
        names: &Names<'_>,
    ) -> Result<(), Refusal> {
        let (none, end) = (self.code.label(), self.code.label());
        let hit = if sense { target } else { end };
        self.jump_on(self.layout.has_lanes, false, none, depth)?;
        let start = self.lanes_in_reach(none)?;
        for lane in 0..self.p.lane_count() {
            let names = Names { lane: Some(start + 4 * lane as i16), ..*names };
            self.jump_if(cond, true, hit, depth, &names)?;
        }
        self.code.put(none);
        if !sense {
            self.code.go(target);
        }
        self.code.put(end);
        Ok(())
    }
}
