//! Register actions as lists of steps, for engines whose program runs elsewhere and whose registers are here: on cells, and on all lanes of a packet.
//!
//! A step computes one number, or one for each lane, of the old cells, the packet's lane, constants, fields that the engine supplies, and earlier steps. All
//! numbers are of 32 bits, those of fewer with zeros above. Lanes are processed in blocks, by loops that the compiler vectorises, in a build for each
//! [`SimdLevel`].
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "calls of the SIMD builds, after detection")
)]

use netfold_p4::ir::{BinOp, Case, Expr, Field, LANE_BITS, RegAction};

use crate::runtime::SimdLevel;

/// Lanes that are processed at a time.
const BLOCK: usize = 64;

type Block = [u32; BLOCK];

/// A number that a step uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Cell(u8),
    Lane,
    Field(u16),
    /// A constant, by its place among those of the action.
    Const(u16),
    Step(u16),
}

/// What a step computes, of two numbers or three. Booleans are 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Add,
    Sub,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    SignedShr,
    SaturatingAdd,
    Eq,
    Ne,
    Gt,
    SignedGt,
    Max,
    SignedMin,
    SignedMax,
    /// The second number if the first is not 0, otherwise the third.
    Choose,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    op: Op,
    from: [Place; 3],
}

/// A register action, ready to be executed. It allocates nothing when it is.
#[derive(Debug)]
pub struct Action {
    steps: Vec<Step>,
    constants: Vec<u32>,
    /// New values of the cells that change.
    new: [Option<Place>; 2],
    /// The output.
    output: Option<Place>,
    reads_lane: bool,
    /// Results of the steps: of one number, and of blocks, behind which the constants are.
    results: Vec<u32>,
    blocks: Vec<Block>,
    /// The operands of a step that are fields, the same in every lane.
    given: [Block; 3],
}

/// Numbers that make a step: its value, and its width in bits, 0 of booleans.
type Number = (Place, u32);

/// Translates expressions to steps.
struct Making<'a> {
    steps: Vec<Step>,
    constants: Vec<u32>,
    cells: &'a [Field],
    fields: &'a [Field],
    conditions: Vec<Place>,
    new: [Option<Place>; 2],
}

const fn mask(bits: u32) -> u32 {
    if bits >= 32 { u32::MAX } else { (1 << bits) - 1 }
}

impl Making<'_> {
    fn step(&mut self, op: Op, from: [Place; 3]) -> Place {
        self.steps.push(Step { op, from });
        Place::Step(self.steps.len() as u16 - 1)
    }

    fn two(&mut self, op: Op, left: Place, right: Place) -> Place {
        self.step(op, [left, right, right])
    }

    fn constant(&mut self, value: u32) -> Place {
        let known = self.constants.iter().position(|known| *known == value);
        let at = known.unwrap_or_else(|| {
            self.constants.push(value);
            self.constants.len() - 1
        });
        Place::Const(at as u16)
    }

    /// The value with zeros above `bits`.
    fn cut(&mut self, value: Place, bits: u32) -> Place {
        if bits >= 32 {
            return value;
        }
        let mask = self.constant(mask(bits));
        self.two(Op::And, value, mask)
    }

    fn value(&mut self, expr: &Expr) -> Option<Number> {
        Some(match expr {
            Expr::Const(value, bits) => (self.constant(*value as u32 & mask((*bits).max(1))), *bits),
            Expr::Param(at) => (Place::Field(*at), self.fields.get(usize::from(*at))?.bits),
            Expr::Cell(cell) => (Place::Cell(*cell), self.cells.get(usize::from(*cell))?.bits),
            Expr::NewCell(cell) => {
                let old = (Place::Cell(*cell), self.cells.get(usize::from(*cell))?.bits);
                (self.new.get(usize::from(*cell))?.unwrap_or(old.0), old.1)
            }
            Expr::Lane => (Place::Lane, LANE_BITS),
            Expr::Cond(cond) => (*self.conditions.get(usize::from(*cond))?, 0),
            Expr::Complement(inner) => {
                let (inner, bits) = self.value(inner)?;
                let ones = self.constant(mask(bits));
                (self.two(Op::Xor, inner, ones), bits)
            }
            Expr::Not(inner) => {
                let (inner, _) = self.value(inner)?;
                let one = self.constant(1);
                (self.two(Op::Xor, inner, one), 0)
            }
            Expr::Cast(bits, inner) => {
                let (inner, from) = self.value(inner)?;
                let value = if from > *bits { self.cut(inner, *bits) } else { inner };
                (value, *bits)
            }
            Expr::Concat(high, low) => {
                let ((high, above), (low, bits)) = (self.value(high)?, self.value(low)?);
                if above + bits > 32 {
                    return None;
                }
                let shift = self.constant(bits);
                let high = self.two(Op::Shl, high, shift);
                (self.two(Op::Or, high, low), above + bits)
            }
            Expr::Select(cond, then, otherwise) => {
                let ((cond, _), (then, bits)) = (self.value(cond)?, self.value(then)?);
                let (otherwise, _) = self.value(otherwise)?;
                (self.step(Op::Choose, [cond, then, otherwise]), bits)
            }
            Expr::Binary(op, left, right) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.binary(*op, left, right)?
            }
            _ => return None,
        })
    }

    fn binary(&mut self, op: BinOp, (left, bits): Number, (right, _): Number) -> Option<Number> {
        // Numbers of fewer bits are compared and shifted with their sign on top.
        let signed = matches!(
            op,
            BinOp::SignedGt | BinOp::SignedMin | BinOp::SignedMax | BinOp::SignedShr | BinOp::SaturatingAdd
        );
        if signed && bits < 32 {
            return None;
        }
        let plain = match op {
            BinOp::Add => Op::Add,
            BinOp::Sub => Op::Sub,
            BinOp::And | BinOp::Both => Op::And,
            BinOp::Or | BinOp::Either => Op::Or,
            BinOp::Xor => Op::Xor,
            BinOp::Shl => Op::Shl,
            BinOp::Shr => Op::Shr,
            BinOp::SignedShr => Op::SignedShr,
            BinOp::SaturatingAdd => Op::SaturatingAdd,
            BinOp::Eq => Op::Eq,
            BinOp::Ne => Op::Ne,
            BinOp::Gt => Op::Gt,
            BinOp::SignedGt => Op::SignedGt,
            BinOp::Max => Op::Max,
            BinOp::SignedMin => Op::SignedMin,
            BinOp::SignedMax => Op::SignedMax,
        };
        let result = self.two(plain, left, right);
        Some(match plain {
            Op::Add | Op::Sub | Op::Shl => (self.cut(result, bits), bits),
            Op::Eq | Op::Ne | Op::Gt | Op::SignedGt => (result, 0),
            _ => (result, bits),
        })
    }

    /// The value of the first case that holds, or `otherwise`.
    fn cases(&mut self, cases: &[Case], otherwise: Place) -> Option<Place> {
        let mut value = otherwise;
        for case in cases.iter().rev() {
            let (then, _) = self.value(&case.value)?;
            value = match &case.when {
                None => then,
                Some(when) => {
                    let (when, _) = self.value(when)?;
                    self.step(Op::Choose, [when, then, value])
                }
            };
        }
        Some(value)
    }
}

impl Action {
    /// The steps of an action on a register with these cells, whose parameters are fields of these widths; its output is computed only where `has_output`.
    /// `None` for an action with something that steps do not have: more than 32 bits, lane variables, signed operators of fewer bits.
    #[must_use]
    pub fn new(action: &RegAction, cells: &[Field], fields: &[Field], has_output: bool) -> Option<Self> {
        let mut making = Making {
            steps: Vec::new(),
            constants: Vec::new(),
            cells,
            fields,
            conditions: Vec::new(),
            new: [None; 2],
        };
        for condition in &action.conditions {
            let (holds, _) = making.value(condition)?;
            making.conditions.push(holds);
        }
        // All updates see the old cells.
        let mut new = [None; 2];
        for (cell, cases) in &action.updates {
            *new.get_mut(usize::from(*cell))? = Some(making.cases(cases, Place::Cell(*cell))?);
        }
        making.new = new;
        let zero = making.constant(0);
        let output = if has_output { Some(making.cases(&action.output, zero)?) } else { None };
        let Making { steps, constants, new, .. } = making;
        let used =
            || steps.iter().flat_map(|step| step.from).chain(new.iter().flatten().copied()).chain(output);
        let reads_lane = used().any(|place| place == Place::Lane);
        let mut blocks = vec![[0; BLOCK]; steps.len()];
        blocks.extend(constants.iter().map(|value| [*value; BLOCK]));
        let (results, given) = (vec![0; steps.len()], [[0; BLOCK]; 3]);
        Some(Self { results, blocks, given, steps, constants, new, output, reads_lane })
    }

    /// Executes the action on an entry of one or two cells, and returns its output.
    pub fn touch(&mut self, entry: &mut [u32], fields: &[u32]) -> u32 {
        let Self { steps, constants, new, output, results, .. } = self;
        let at = |place: Place, results: &[u32]| match place {
            Place::Cell(cell) => entry.get(usize::from(cell)).copied().unwrap_or(0),
            Place::Field(field) => fields.get(usize::from(field)).copied().unwrap_or(0),
            Place::Const(constant) => constants[usize::from(constant)],
            Place::Step(step) => results[usize::from(step)],
            Place::Lane => 0,
        };
        for (number, Step { op, from: [a, b, c] }) in steps.iter().enumerate() {
            results[number] = one(*op, at(*a, results), at(*b, results), at(*c, results));
        }
        let new = new.map(|place| place.map(|place| at(place, results)));
        let output = output.map_or(0, |place| at(place, results));
        for (cell, new) in entry.iter_mut().zip(new) {
            *cell = new.unwrap_or(*cell);
        }
        output
    }

    /// Executes the action on every lane of an entry, with the packet's lanes, big-endian and as many as the entry has, and writes its output there if it has
    /// one. Without lanes in the packet they count as zeros.
    pub fn fold(&mut self, entry: &mut [u32], lanes: &mut [[u8; 4]], fields: &[u32], level: SimdLevel) {
        match level {
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2 | SimdLevel::Avx512 => {
                // SAFETY: `SimdLevel::detect` found every feature that the function is compiled for on this processor.
                unsafe { fold_avx2(self, entry, lanes, fields) }
            }
            _ => fold(self, entry, lanes, fields),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn fold_avx2(action: &mut Action, entry: &mut [u32], lanes: &mut [[u8; 4]], fields: &[u32]) {
    fold(action, entry, lanes, fields);
}

#[inline(always)]
fn fold(action: &mut Action, entry: &mut [u32], lanes: &mut [[u8; 4]], fields: &[u32]) {
    let Action { steps, new: [new, _], output, reads_lane, blocks, given, .. } = action;
    let (results, constants) = blocks.split_at_mut(steps.len());
    let (mut cells, mut packet) = ([0; BLOCK], [0; BLOCK]);
    for (number, entry) in entry.chunks_mut(BLOCK).enumerate() {
        let count = entry.len();
        cells[..count].copy_from_slice(entry);
        let from = (number * BLOCK).min(lanes.len());
        let lanes = &mut lanes[from..];
        if *reads_lane {
            for (lane, bytes) in packet.iter_mut().zip(lanes.iter()) {
                *lane = u32::from_be_bytes(*bytes);
            }
        }
        for (number, Step { op, from }) in steps.iter().enumerate() {
            let (before, result) = results.split_at_mut(number);
            for (given, place) in given.iter_mut().zip(from) {
                if let Place::Field(field) = place {
                    *given = [fields.get(usize::from(*field)).copied().unwrap_or(0); BLOCK];
                }
            }
            let at = |number: usize| block(from[number], &cells, &packet, &given[number], constants, before);
            apply(*op, at(0), at(1), at(2), &mut result[0]);
        }
        if let Some(Place::Field(field)) = new {
            given[0] = [fields.get(usize::from(*field)).copied().unwrap_or(0); BLOCK];
        }
        if let Some(Place::Field(field)) = output {
            given[1] = [fields.get(usize::from(*field)).copied().unwrap_or(0); BLOCK];
        }
        let result = |place: Place, given| block(place, &cells, &packet, given, constants, results);
        if let Some(new) = new {
            entry.copy_from_slice(&result(*new, &given[0])[..count]);
        }
        if let Some(output) = output {
            for (bytes, lane) in lanes.iter_mut().zip(&result(*output, &given[1])[..count]) {
                *bytes = lane.to_be_bytes();
            }
        }
    }
}

#[inline(always)]
fn block<'b>(
    place: Place,
    cells: &'b Block,
    packet: &'b Block,
    given: &'b Block,
    constants: &'b [Block],
    steps: &'b [Block],
) -> &'b Block {
    match place {
        Place::Cell(_) => cells,
        Place::Lane => packet,
        Place::Field(_) => given,
        Place::Const(constant) => &constants[usize::from(constant)],
        Place::Step(step) => &steps[usize::from(step)],
    }
}

#[inline(always)]
fn apply(op: Op, a: &Block, b: &Block, c: &Block, result: &mut Block) {
    macro_rules! each {
        ($($op:ident),+) => {
            match op {
                $(Op::$op => {
                    for lane in 0..BLOCK {
                        result[lane] = one(Op::$op, a[lane], b[lane], c[lane]);
                    }
                })+
            }
        };
    }
    each!(
        Add,
        Sub,
        And,
        Or,
        Xor,
        Shl,
        Shr,
        SignedShr,
        SaturatingAdd,
        Eq,
        Ne,
        Gt,
        SignedGt,
        Max,
        SignedMin,
        SignedMax,
        Choose
    );
}

#[inline(always)]
fn one(op: Op, a: u32, b: u32, c: u32) -> u32 {
    let signed = |value: u32| value.cast_signed();
    match op {
        Op::Add => a.wrapping_add(b),
        Op::Sub => a.wrapping_sub(b),
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        Op::Shl => {
            if b < 32 {
                a << (b & 31)
            } else {
                0
            }
        }
        Op::Shr => {
            if b < 32 {
                a >> (b & 31)
            } else {
                0
            }
        }
        Op::SignedShr => (signed(a) >> b.min(31)).cast_unsigned(),
        Op::SaturatingAdd => signed(a).saturating_add(signed(b)).cast_unsigned(),
        Op::Eq => (a == b).into(),
        Op::Ne => (a != b).into(),
        Op::Gt => (a > b).into(),
        Op::SignedGt => (signed(a) > signed(b)).into(),
        Op::Max => a.max(b),
        Op::SignedMin => signed(a).min(signed(b)).cast_unsigned(),
        Op::SignedMax => signed(a).max(signed(b)).cast_unsigned(),
        Op::Choose => {
            if a == 0 {
                c
            } else {
                b
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use netfold_p4::allreduce;
    use netfold_p4::ir::RegisterKind;
    use netfold_p4::profile::Profile;

    use super::*;

    /// Numbers in a fixed order without a pattern that the operations have.
    fn numbers(mut seed: u32, count: usize) -> Vec<u32> {
        let next = |_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed ^ seed >> 13
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn lanes_are_folded_alike_by_every_build_and_one_by_one() {
        let program = allreduce::program(&Profile::software(100)).expect("the profile is in range");
        let register =
            program.registers.iter().find(|register| matches!(register.kind, RegisterKind::Lanes(_)));
        let register = register.expect("it has lanes");
        assert!(register.actions.len() > 10, "every operation is there");
        for action in &register.actions {
            let mut made = Action::new(action, &register.cells(), &[], true).expect("it is of words");
            let (entry, lanes) = (numbers(1, 100), numbers(2, 100));
            // One at a time: the lane as a constant in its place.
            let mut one_by_one = Vec::new();
            for (cell, lane) in entry.iter().zip(&lanes) {
                let constant = |expr: &Expr| replaced(expr, &Expr::Const((*lane).into(), 32));
                let case = |case: &Case| Case { when: None, value: constant(&case.value) };
                let mut action = action.clone();
                action.updates.iter_mut().for_each(|(_, cases)| *cases = cases.iter().map(case).collect());
                let mut made = Action::new(&action, &register.cells(), &[], true).expect("it is of words");
                let mut cells = [*cell];
                let output = made.touch(&mut cells, &[]);
                one_by_one.push((cells[0], output));
            }
            for level in SimdLevel::available() {
                let mut folded = entry.clone();
                let mut bytes: Vec<[u8; 4]> = lanes.iter().map(|lane| lane.to_be_bytes()).collect();
                made.fold(&mut folded, &mut bytes, &[], level);
                let output = bytes.iter().map(|bytes| u32::from_be_bytes(*bytes));
                let found: Vec<(u32, u32)> = folded.into_iter().zip(output).collect();
                let expected = if action.output.is_empty() {
                    one_by_one.iter().map(|(cell, _)| (*cell, 0)).collect()
                } else {
                    one_by_one.clone()
                };
                assert_eq!(found, expected, "{} {level:?}", action.name);
            }
        }
    }

    /// The expression with a value in place of the packet's lane.
    fn replaced(expr: &Expr, lane: &Expr) -> Expr {
        let boxed = |inner: &Expr| Box::new(replaced(inner, lane));
        match expr {
            Expr::Lane => lane.clone(),
            Expr::Binary(op, left, right) => Expr::Binary(*op, boxed(left), boxed(right)),
            Expr::Complement(inner) => Expr::Complement(boxed(inner)),
            other => other.clone(),
        }
    }
}
