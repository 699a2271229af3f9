//! Register state and register actions.

use super::eval::{Eval, Frame, Value, mask};
use crate::ir::*;

/// The entries of a register, cell after cell.
pub(super) struct Storage {
    /// Width in bits of each cell of an entry.
    widths: Vec<u32>,
    cells: Vec<u32>,
}

impl Storage {
    pub(super) fn new(program: &Program, register: &Register) -> Self {
        let widths = match &register.kind {
            RegisterKind::Cells(cells) => cells.iter().map(|cell| cell.bits).collect(),
            RegisterKind::Lanes(bits) => vec![*bits; program.lane_count() as usize],
        };
        Self { cells: vec![0; register.size as usize * widths.len()], widths }
    }

    pub(super) fn cells_per_entry(program: &Program, register: &Register) -> usize {
        match &register.kind {
            RegisterKind::Cells(cells) => cells.len(),
            RegisterKind::Lanes(_) => program.lane_count() as usize,
        }
    }

    fn span(&self, index: usize) -> Option<std::ops::Range<usize>> {
        let start = index.checked_mul(self.widths.len())?;
        Some(start..start.checked_add(self.widths.len())?)
    }

    pub(super) fn entry(&self, index: usize) -> Option<&[u32]> {
        self.cells.get(self.span(index)?)
    }

    pub(super) fn entry_mut(&mut self, index: usize) -> Option<&mut [u32]> {
        let span = self.span(index)?;
        self.cells.get_mut(span)
    }

    /// Whether the entry exists and the number of values equals that of its cells.
    pub(super) fn write(&mut self, index: usize, values: &[u32]) -> bool {
        let Some(span) = self.span(index).filter(|_| values.len() == self.widths.len()) else { return false };
        let Some(entry) = self.cells.get_mut(span) else { return false };
        for ((cell, value), bits) in entry.iter_mut().zip(values).zip(&self.widths) {
            *cell = value & mask(*bits) as u32;
        }
        true
    }
}

/// New value of an entry, and the output.
pub(super) struct Touched {
    pub(super) new: [Value; 2],
    pub(super) output: Value,
}

impl Eval<'_> {
    /// A register action on an entry of one or two cells: conditions and updates see the old cells, the output both.
    pub(super) fn touch(&self, action: &RegAction, old: &[Value], lane: usize) -> Touched {
        let mut frame = Frame { old, lane, ..Frame::default() };
        let mut conditions = [false; 2];
        for (holds, condition) in conditions.iter_mut().zip(&action.conditions) {
            *holds = self.value(condition, &frame).holds();
        }
        frame.conditions = &conditions;
        let mut new = [Value::new(0, 0); 2];
        new[..old.len()].copy_from_slice(old);
        for (cell, cases) in &action.updates {
            let cell = usize::from(*cell);
            new[cell] = self.first(cases, &frame).unwrap_or(old[cell]);
        }
        frame.new = &new;
        let output = self.first(&action.output, &frame).unwrap_or(Value::new(old[0].bits, 0));
        Touched { new, output }
    }

    /// The value of the first case that holds.
    fn first(&self, cases: &[Case], frame: &Frame<'_>) -> Option<Value> {
        let holds = |case: &&Case| case.when.as_ref().is_none_or(|when| self.value(when, frame).holds());
        cases.iter().find(holds).map(|case| self.value(&case.value, frame))
    }
}
