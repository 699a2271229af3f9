//! Instructions with labels, maps and the element of the program that each comes from.

use netfold_bpf::{Alu, Helper, Instruction, Jump, MapPart, Register, Size, Width};

use super::{MapId, refusal};
use crate::refusal::Refusal;

/// The target of a jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// Instructions that one element of the program became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Number of the first.
    pub first: usize,
    /// The element: a parser state, a statement, a register action, a table.
    pub element: String,
}

/// A list of instructions under construction.
#[derive(Default)]
pub(super) struct Code {
    instructions: Vec<Instruction>,
    /// Jumps, and where they go.
    jumps: Vec<(usize, Label)>,
    labels: Vec<Option<usize>>,
    maps: Vec<(usize, MapId)>,
    origins: Vec<Origin>,
    egress_interface: Option<usize>,
}

/// A list of instructions that is complete but for the descriptors of its maps.
pub(super) struct Finished {
    pub(super) instructions: Vec<Instruction>,
    pub(super) maps: Vec<(usize, MapId)>,
    pub(super) origins: Vec<Origin>,
    pub(super) egress_interface: Option<usize>,
}

impl Code {
    /// Says what the next instructions come from.
    pub(super) fn from(&mut self, element: impl Into<String>) {
        let (first, element) = (self.instructions.len(), element.into());
        match self.origins.last_mut() {
            Some(last) if last.first == first => last.element = element,
            Some(last) if last.element == element => {}
            _ => self.origins.push(Origin { first, element }),
        }
    }

    /// What the last instructions come from.
    pub(super) fn element(&self) -> String {
        self.origins.last().map_or_else(String::new, |origin| origin.element.clone())
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Puts the label here.
    pub(super) fn put(&mut self, label: Label) {
        self.labels[label.0] = Some(self.instructions.len());
    }

    pub(super) fn run(&mut self, instruction: Instruction) {
        self.instructions.push(instruction);
    }

    pub(super) fn load(&mut self, size: Size, to: Register, base: Register, offset: i16) {
        self.run(Instruction::load(size, to, base, offset));
    }

    pub(super) fn store(&mut self, size: Size, base: Register, offset: i16, from: Register) {
        self.run(Instruction::store(size, base, offset, from));
    }

    pub(super) fn alu(&mut self, width: Width, op: Alu, to: Register, from: Register) {
        self.run(Instruction::alu(width, op, to, from));
    }

    pub(super) fn alu_k(&mut self, width: Width, op: Alu, to: Register, value: i32) {
        self.run(Instruction::alu_constant(width, op, to, value));
    }

    /// A constant in a register.
    pub(super) fn constant(&mut self, to: Register, value: u64) {
        match i32::try_from(value) {
            Ok(value) => self.alu_k(Width::All, Alu::Mov, to, value),
            // The low half alone is written, and the high one cleared.
            Err(_) if value <= u32::MAX.into() => self.alu_k(Width::Low, Alu::Mov, to, value as u32 as i32),
            Err(_) => self.instructions.extend(Instruction::constant(to, value)),
        }
    }

    pub(super) fn map(&mut self, to: Register, map: MapId, part: MapPart) {
        self.maps.push((self.instructions.len(), map));
        self.instructions.extend(Instruction::map(to, part, 0));
    }

    pub(super) fn call(&mut self, helper: Helper) {
        self.run(Instruction::call(helper));
    }

    pub(super) fn go(&mut self, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.run(Instruction::go(0));
    }

    pub(super) fn jump(&mut self, width: Width, when: Jump, left: Register, right: Register, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.run(Instruction::jump(width, when, left, right, 0));
    }

    pub(super) fn jump_k(&mut self, width: Width, when: Jump, left: Register, right: i32, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.run(Instruction::jump_constant(width, when, left, right, 0));
    }

    /// The next instruction reads the interface that a copy leaves by.
    pub(super) fn reads_egress_interface(&mut self) {
        self.egress_interface = Some(self.instructions.len());
    }

    /// Resolves the jumps.
    pub(super) fn finish(mut self) -> Result<Finished, Refusal> {
        let count = self.instructions.len();
        for (at, label) in &self.jumps {
            let to = self.labels[label.0].unwrap_or(count);
            let offset = to as i64 - *at as i64 - 1;
            let offset = i16::try_from(offset).map_err(|_| {
                refusal(
                    format!("a program of {count} instructions"),
                    format!("a jump reaches {} instructions", i16::MAX),
                )
            })?;
            self.instructions[*at].offset = offset;
        }
        Ok(Finished {
            instructions: self.instructions,
            maps: self.maps,
            origins: self.origins,
            egress_interface: self.egress_interface,
        })
    }
}
