//! The numeric modes: conversion of lanes before, in and after aggregation.
//!
//! | numerics | packet's lane | register's lane | `sum` |
//! |---|---|---|---|
//! | word | 32 bits | the same | wrapping sum |
//! | saturating | 32 bits | the same | saturating; the result is flagged |
//! | wide | 16 bits | 32 bits | wide sum; rounded and shifted right by the job's `shift` before it is sent |
//! | half | binary16 | fixed point, units of 2^-15 | wrapping sum; rounded to even before it is sent |
//! | float | binary32 | mantissa of 32 bits, and an exponent | aligned sum; normalised before it is sent |
//!
//! In the last three `max` is over the lanes' bits as unsigned numbers, with no conversion, to compare descriptors.
//! Words also have bitwise operations, and sums, minima and maxima of the 16- or 8-bit elements packed in them. These are made of what
//! words of 32 bits have: a sum whose elements' highest bits are added without carry, and comparisons of words in which one
//! element at a time is in the highest bits.
//! Float follows FPISA (Yuan et al., NSDI 2022): exponent and signed mantissa in separate registers, normalisation
//! delayed until a result is sent.

use netfold_wire::{Flags, LaneOp};

use super::steps::{choose, when};
use super::{Build, new, reg_action, set};
use crate::ir::*;
use crate::profile::Numerics;

/// Bits behind the binary point of the fixed-point numbers that `half` sums.
pub const HALF_FRACTION_BITS: u32 = 15;

/// Per-lane and per-packet variables of the modes that convert.
#[derive(Clone, Copy)]
pub(super) struct Figures {
    /// 1 when the packet is sent with lanes that were read from the slot.
    pub(super) emit: MetaId,
    /// Bits by which sums are shifted right (wide), and half a unit of what remains.
    pub(super) shift: MetaId,
    pub(super) round: MetaId,
    /// The lane as it is added.
    value: LaneVarId,
    /// The slot's lane.
    sum: LaneVarId,
    /// Magnitude, and shifts before and after aggregation.
    size: LaneVarId,
    shifts: LaneVarId,
    up: LaneVarId,
    down: LaneVarId,
    /// Exponents: the packet's and the slot's (float).
    power_in: LaneVarId,
    power: LaneVarId,
}

impl Figures {
    /// Declares the variables of the numerics; none for plain words.
    pub(super) fn declare(program: &mut Program, numerics: Numerics) -> Option<Self> {
        if numerics == Numerics::Word {
            return None;
        }
        let mut meta = |name: &str, bits| {
            program.metadata.push(Meta { name: name.into(), bits });
            MetaId(program.metadata.len() as u16 - 1)
        };
        let emit = meta("emit", 8);
        let (shift, round) = match numerics {
            Numerics::Wide => (meta("shift", 8), meta("round", 32)),
            _ => (MetaId(0), MetaId(0)),
        };
        let mut var = |name: &str, bits, wanted: bool| {
            if wanted {
                program.lane_vars.push(Meta { name: name.into(), bits });
            }
            LaneVarId((program.lane_vars.len() as u16).saturating_sub(1))
        };
        let (half, float) = (numerics == Numerics::Half, numerics == Numerics::Float);
        let figures = Self {
            emit,
            shift,
            round,
            value: var("value", 32, half || float),
            sum: var("acc", 32, numerics != Numerics::Saturating),
            size: var("magnitude", 32, half || float),
            shifts: var("shifts", 16, half),
            up: var("up_shift", 8, half || float),
            down: var("down_shift", 8, half || float),
            power_in: var("power_in", 16, float),
            power: var("power_now", 16, float),
        };
        program.lookups = match numerics {
            Numerics::Half => vec![half_shift(), leading()],
            Numerics::Float => vec![leading()],
            _ => vec![],
        };
        Some(figures)
    }
}

/// The shifts that take the significand of a binary16 number to fixed point, by the number's exponent field: to the
/// left in the low byte, to the right in the high one. Field `e`, 1 for subnormals, stands for significand x 2^(e - 25):
/// in units of 2^-15 that is significand x 2^(e - 10).
fn half_shift() -> Lookup {
    let shift = |field: u64| field.max(1).saturating_sub(10) | 10u64.saturating_sub(field.max(1)) << 8;
    Lookup {
        name: "half_shift".into(),
        key_bits: 5,
        value_bits: 16,
        entries: (0..32).map(|field| (field, 0x1f, shift(field))).collect(),
        default: 0,
    }
}

/// Position of the highest bit that is set; 0 for 0.
fn leading() -> Lookup {
    let entries =
        (0..32u32).rev().map(|bit| (1 << bit, u64::from(u32::MAX << bit) & 0xffff_ffff, u64::from(bit)));
    Lookup { name: "leading".into(), key_bits: 32, value_bits: 8, entries: entries.collect(), default: 0 }
}

const HALF_SHIFT: LookupId = LookupId(0);

fn word(value: u64) -> Expr {
    Expr::Const(value, 32)
}

fn var(id: LaneVarId) -> Expr {
    Expr::LaneVar(id)
}

fn assign(id: LaneVarId, value: Expr) -> Stmt {
    Stmt::AssignLane(LaneLValue::Var(id), value)
}

/// `value >> shift`, to nearest, ties to even; the value and half a unit must fit 32 bits together.
fn rounded(value: &Expr, shift: &Expr) -> Expr {
    let half = word(1).shifted_left(shift.clone()).shifted_right(Expr::Const(1, 8));
    let odd = value.clone().shifted_right(shift.clone()) & word(1);
    let sum = value.clone() + half + odd - word(1);
    shift.clone().eq(Expr::Const(0, 8)).select(value.clone(), sum.shifted_right(shift.clone()))
}

/// Bits of a word, from the low end.
fn bits(value: Expr, from: u64, count: u32) -> Expr {
    (value.shifted_right(Expr::Const(from, 8))) & word((1 << count) - 1)
}

fn is_negative(value: Expr) -> Expr {
    bits(value, 31, 1).eq(word(1))
}

/// The absolute value of a two's complement word.
fn magnitude(value: &Expr) -> Expr {
    is_negative(value.clone()).select(word(0) - value.clone(), value.clone())
}

/// The fold of two plain words.
fn folded(op: LaneOp, cell: Expr, lane: Expr) -> Expr {
    match op {
        LaneOp::Sum => cell + lane,
        LaneOp::Min => cell.signed_min(lane),
        LaneOp::Max => cell.signed_max(lane),
        LaneOp::And => cell & lane,
        LaneOp::Or => cell | lane,
        LaneOp::Xor => cell ^ lane,
        LaneOp::Sum16 => packed_sum(cell, lane, 0x8000_8000),
        LaneOp::Sum8 => packed_sum(cell, lane, 0x8080_8080),
        LaneOp::Min16 => packed(16, &cell, &lane, Expr::signed_min),
        LaneOp::Max16 => packed(16, &cell, &lane, Expr::signed_max),
        LaneOp::Min8 => packed(8, &cell, &lane, Expr::signed_min),
        LaneOp::Max8 => packed(8, &cell, &lane, Expr::signed_max),
    }
}

/// The sum of packed elements, of which `highest` has the highest bits. These are added without their carries, the bits below as words, whose
/// carries end in the highest bits.
fn packed_sum(cell: Expr, lane: Expr, highest: u64) -> Expr {
    let below = || word(!highest & 0xffff_ffff);
    ((cell.clone() & below()) + (lane.clone() & below())) ^ ((cell ^ lane) & word(highest))
}

/// The lesser or the greater of each of the packed elements of `bits` bits. The order of two words is that of their highest elements, so each
/// element in turn is moved to the top, the words are compared, and the one chosen gives its highest element.
fn packed(bits: u32, cell: &Expr, lane: &Expr, choose: fn(Expr, Expr) -> Expr) -> Expr {
    let at = |up: u32| {
        let moved = |value: &Expr| match up {
            0 => value.clone(),
            _ => value.clone().shifted_left(Expr::Const(up.into(), 8)),
        };
        let chosen = choose(moved(cell), moved(lane));
        // The last element has zeros below it.
        let highest =
            if up == 32 - bits { chosen } else { chosen & word(u64::from(u32::MAX << (32 - bits))) };
        if up == 0 { highest } else { highest.shifted_right(Expr::Const(up.into(), 8)) }
    };
    let parts = (0..32 / bits).map(|index| at(index * bits));
    parts.reduce(|all, part| all | part).expect("a word has elements")
}

impl Build<'_> {
    /// The lane register.
    pub(super) fn sum(&self) -> Register {
        let lane = || match (self.profile.numerics, self.figures) {
            (Numerics::Wide, _) => Expr::Lane.cast(32),
            (Numerics::Half | Numerics::Float, Some(figures)) => var(figures.value),
            _ => Expr::Lane,
        };
        let mut actions = vec![
            reg_action("store", set(lane()), new()),
            reg_action("read", vec![], new()),
            reg_action("clear", set(word(0)), vec![]),
        ];
        let converts = self.profile.numerics.converts();
        for op in &self.profile.ops {
            actions.push(match (op, self.figures) {
                (LaneOp::Sum, Some(figures)) => self.sum_action(figures, lane()),
                (LaneOp::Max, _) if converts => reg_action("max", set(Expr::Cell(0).max(lane())), new()),
                (op, _) => reg_action(op.name(), set(folded(*op, Expr::Cell(0), lane())), new()),
            });
        }
        self.register("sum", 0x1000, RegisterKind::Lanes(LANE_BITS), actions)
    }

    fn sum_action(&self, figures: Figures, lane: Expr) -> RegAction {
        match self.profile.numerics {
            Numerics::Saturating => {
                let at_end = |value: Expr| value.clone().eq(word(LEAST)).either(value.eq(word(GREATEST)));
                RegAction {
                    name: "sum".into(),
                    conditions: vec![at_end(Expr::Cell(0)), at_end(Expr::Lane)],
                    updates: vec![(
                        0,
                        vec![
                            Case::when(0, Expr::Cell(0)),
                            Case::when(1, Expr::Lane),
                            Case::always(Expr::Cell(0).saturating_add(Expr::Lane)),
                        ],
                    )],
                    output: new(),
                }
            }
            Numerics::Float => {
                let aligned = Expr::Cell(0).signed_shifted_right(var(figures.up))
                    + lane.signed_shifted_right(var(figures.down));
                reg_action("sum", set(aligned), new())
            }
            _ => reg_action("sum", set(Expr::Cell(0) + lane), new()),
        }
    }

    /// The register of exponents, for `float`.
    pub(super) fn power(&self, figures: Figures) -> Register {
        let old = || vec![Case::always(Expr::Cell(0))];
        let incoming = || var(figures.power_in);
        let actions = vec![
            reg_action("store", set(incoming()), vec![]),
            reg_action("raise", set(Expr::Cell(0).max(incoming())), old()),
            reg_action("read", vec![], old()),
            reg_action("clear", set(Expr::Const(0, 16)), vec![]),
        ];
        self.register("power", 0x2000, RegisterKind::Lanes(16), actions)
    }

    /// Whether the packet's operation is `op`.
    pub(super) fn op_is(&self, op: LaneOp) -> Expr {
        self.get("op").eq(Expr::Const(op as u64, 4))
    }

    /// Conversion of the packet's lanes before the slot is accessed.
    pub(super) fn lanes_in(&self) -> Vec<Stmt> {
        let Some(figures) = self.figures else { return vec![] };
        let raw = |value: Expr, bits: Expr| self.op_is(LaneOp::Sum).select(value, bits);
        let signed = |sign: Expr, value: Expr| sign.eq(word(1)).select(word(0) - value.clone(), value);
        match self.profile.numerics {
            Numerics::Word | Numerics::Saturating => vec![],
            Numerics::Wide => {
                let half = word(1).shifted_left(Expr::Meta(figures.shift)).shifted_right(Expr::Const(1, 8));
                vec![choose(
                    self.op_is(LaneOp::Sum),
                    vec![self.set(figures.round, half)],
                    vec![self.set(figures.shift, Expr::Const(0, 8))],
                )]
            }
            Numerics::Half => {
                let lane = || Expr::Lane.cast(32);
                let exponent = || bits(lane(), 10, 5);
                let implicit = exponent().ne(word(0)).select(word(1 << 10), word(0));
                let fixed = rounded(&var(figures.size), &var(figures.down)).shifted_left(var(figures.up));
                vec![
                    assign(figures.shifts, Expr::Lookup(HALF_SHIFT, Box::new(exponent().cast(5)))),
                    assign(figures.up, var(figures.shifts).cast(8)),
                    assign(figures.down, var(figures.shifts).shifted_right(Expr::Const(8, 8)).cast(8)),
                    assign(figures.size, bits(lane(), 0, 10) | implicit),
                    assign(figures.value, raw(signed(bits(lane(), 15, 1), fixed), lane())),
                ]
            }
            Numerics::Float => {
                let exponent = || bits(Expr::Lane, 23, 8);
                let normal = || exponent().ne(word(0));
                let significand = bits(Expr::Lane, 0, 23) | normal().select(word(1 << 23), word(0));
                vec![
                    assign(figures.power_in, normal().select(exponent().cast(16), Expr::Const(1, 16))),
                    assign(figures.size, significand),
                    assign(
                        figures.value,
                        raw(signed(bits(Expr::Lane, 31, 1), var(figures.size)), Expr::Lane),
                    ),
                ]
            }
        }
    }

    /// Target of the slot's lanes when they are read.
    fn out(&self, wanted: bool) -> Output {
        match (wanted, self.figures) {
            (false, _) => Output::None,
            (true, Some(figures)) if self.profile.numerics != Numerics::Saturating => {
                Output::LaneVar(figures.sum)
            }
            (true, _) => Output::Lanes,
        }
    }

    /// Overwrites the slot's lanes by the packet's.
    pub(super) fn store_lanes(&self, wanted: bool) -> Vec<Stmt> {
        let mut steps = Vec::new();
        if let (Some(power), Some(figures)) = (self.power_register(), self.figures) {
            steps.push(self.exec(power, "store", Output::None));
            steps.push(assign(figures.power, var(figures.power_in)));
        }
        steps.push(self.exec(super::steps::SUM, "store", self.out(wanted)));
        steps
    }

    /// Zeroes the slot's lanes.
    pub(super) fn clear_lanes(&self) -> Vec<Stmt> {
        let power = self.power_register().map(|power| self.exec(power, "clear", Output::None));
        power.into_iter().chain([self.exec(super::steps::SUM, "clear", Output::None)]).collect()
    }

    /// Adds the packet's lanes to the slot's.
    pub(super) fn aggregate_lanes(&self, op: LaneOp, wanted: bool) -> Vec<Stmt> {
        let mut steps = Vec::new();
        if let (LaneOp::Sum, Some(power), Some(f)) = (op, self.power_register(), self.figures) {
            let above = |a: LaneVarId, b: LaneVarId| {
                var(a).gt(var(b)).select(var(a) - var(b), Expr::Const(0, 16)).cast(8)
            };
            steps.extend([
                self.exec(power, "raise", Output::LaneVar(f.power)),
                assign(f.up, above(f.power_in, f.power)),
                assign(f.down, above(f.power, f.power_in)),
                assign(f.power, var(f.power) + var(f.up).cast(16)),
            ]);
        }
        steps.push(self.exec(super::steps::SUM, op.name(), self.out(wanted)));
        steps
    }

    /// Reads the slot's lanes.
    pub(super) fn read_lanes(&self) -> Vec<Stmt> {
        let mut steps = Vec::new();
        if let (Some(power), Some(figures)) = (self.power_register(), self.figures) {
            steps.push(self.exec(power, "read", Output::LaneVar(figures.power)));
        }
        steps.push(self.exec(super::steps::SUM, "read", self.out(true)));
        steps
    }

    /// Records that the slot's lanes are sent in this packet.
    pub(super) fn emit(&self) -> Vec<Stmt> {
        self.figures.iter().map(|figures| self.set(figures.emit, Expr::Const(1, 8))).collect()
    }

    /// The stored lanes are a parent's result and already shifted.
    pub(super) fn unshifted(&self) -> Vec<Stmt> {
        match (self.profile.numerics, self.figures) {
            (Numerics::Wide, Some(figures)) => {
                vec![self.set(figures.shift, Expr::Const(0, 8)), self.set(figures.round, word(0))]
            }
            _ => vec![],
        }
    }

    /// Converts the slot's lanes to the packet's, when they are sent.
    pub(super) fn lanes_out(&self) -> Vec<Stmt> {
        let Some(figures) = self.figures else { return vec![] };
        let leaves = Expr::Meta(figures.emit).eq(Expr::Const(1, 8)).both(Expr::Valid(Part::Lanes));
        let steps = match self.profile.numerics {
            Numerics::Word => return vec![],
            Numerics::Saturating => {
                let end = Expr::Lane.eq(word(LEAST)).either(Expr::Lane.eq(word(GREATEST)));
                let flagged = self.get("flags") | Expr::Const(u64::from(Flags::SATURATED.0), 8);
                vec![when(Expr::AnyLane(Box::new(end)), vec![self.put("flags", flagged)])]
            }
            Numerics::Wide => {
                let sum = var(figures.sum) + Expr::Meta(figures.round);
                let shifted = sum.shifted_right(Expr::Meta(figures.shift)).cast(16);
                vec![Stmt::AssignLane(LaneLValue::Lane, shifted)]
            }
            Numerics::Half => self.half_out(figures),
            Numerics::Float => self.float_out(figures),
        };
        vec![when(leaves, steps)]
    }

    /// Fixed point to binary16. With 15 bits behind the point, the exponent field is the position of the highest bit.
    fn half_out(&self, f: Figures) -> Vec<Stmt> {
        let at = |position: u64| Expr::Const(position, 8);
        let position = || var(f.up);
        let left = at(10).gt(position()).select(at(10) - position(), at(0));
        let right = position().gt(at(10)).select(position() - at(10), at(0));
        // The implicit bit adds one to the exponent field; one unit alone is a subnormal number.
        let normal = position().cast(32).shifted_left(at(10)) + var(f.value) - word(1 << 10);
        let tiny = var(f.size).eq(word(1)).select(word(1 << 9), normal);
        let sign = is_negative(var(f.sum)).select(word(0x8000), word(0));
        let number = var(f.size).eq(word(0)).select(word(0), tiny) | sign;
        vec![
            assign(f.size, magnitude(&var(f.sum))),
            assign(f.up, Expr::Lookup(self.leading(), Box::new(var(f.size)))),
            assign(f.down, right),
            assign(f.value, var(f.size).shifted_left(left)),
            assign(f.value, rounded(&var(f.value), &var(f.down))),
            assign(f.value, number),
            Stmt::AssignLane(
                LaneLValue::Lane,
                self.op_is(LaneOp::Sum).select(var(f.value), var(f.sum)).cast(16),
            ),
        ]
    }

    /// Mantissa and exponent to binary32: normalised, to nearest, ties to even; subnormal numbers are kept.
    fn float_out(&self, f: Figures) -> Vec<Stmt> {
        let at = |position: u64| Expr::Const(position, 8);
        let position = || var(f.up);
        let room = || var(f.power) - Expr::Const(1, 16);
        let wanted = || (at(23) - position()).cast(16);
        let left = wanted().gt(room()).select(room(), wanted());
        let left = at(23).gt(position()).select(left, Expr::Const(0, 16));
        let right = position().gt(at(23)).select(position() - at(23), at(0));
        // One less than the exponent field, because the significand's implicit bit adds one.
        let field = room() - var(f.power_in) + var(f.down).cast(16);
        let number = field.cast(32).shifted_left(at(23)) + var(f.value);
        let infinite = bits(var(f.value), 23, 9).gt(word(254));
        let finite = infinite.select(word(0x7f80_0000), var(f.value));
        let sign = is_negative(var(f.sum)).select(word(0x8000_0000), word(0));
        let by_size = var(f.size).eq(word(0)).select(word(0), finite | sign);
        vec![
            assign(f.size, magnitude(&var(f.sum))),
            assign(f.up, Expr::Lookup(self.leading(), Box::new(var(f.size)))),
            // From here on, `power_in` is the left shift and `down_shift` the right shift.
            assign(f.power_in, left),
            assign(f.down, right),
            assign(f.value, var(f.size).shifted_left(var(f.power_in).cast(8))),
            assign(f.value, rounded(&var(f.value), &var(f.down))),
            assign(f.value, number),
            Stmt::AssignLane(LaneLValue::Lane, self.op_is(LaneOp::Sum).select(by_size, var(f.sum))),
        ]
    }

    fn leading(&self) -> LookupId {
        LookupId(self.program.lookups.len() as u16 - 1)
    }
}

/// Minimum and maximum of a two's complement word.
const LEAST: u64 = 0x8000_0000;
const GREATEST: u64 = 0x7fff_ffff;
