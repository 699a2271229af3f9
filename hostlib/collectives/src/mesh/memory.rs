//! The memory of a call, and the pieces that messages read and write.

use crate::mesh::plan::{Area, Offset};
use crate::reduce::{ReduceError, finish, reduce, reduce_from};
use crate::{Buffers, DType, ReduceOp};

/// The memory that a plan's offsets refer to.
pub(crate) struct Memory<'a> {
    pub(crate) buffers: Buffers<'a>,
    /// Where input and output begin in a single buffer.
    pub(crate) input_at: usize,
    pub(crate) output_at: usize,
    pub(crate) scratch: &'a mut [u8],
}

impl Memory<'_> {
    /// Bytes to send.
    pub(crate) fn read(&self, offset: Offset, len: usize) -> &[u8] {
        let (memory, at) = match (offset.area, &self.buffers) {
            (Area::Scratch, _) => (&*self.scratch, offset.at),
            (Area::Input, Buffers::InPlace(buffer)) => (&**buffer, offset.at + self.input_at),
            (Area::Output, Buffers::InPlace(buffer)) => (&**buffer, offset.at + self.output_at),
            (Area::Input, Buffers::Split { input, .. }) => (*input, offset.at),
            (Area::Output, Buffers::Split { output, .. }) => (&**output, offset.at),
        };
        &memory[at..at + len]
    }

    /// Where received bytes go. The input of a call with two buffers is never written: no plan does so.
    pub(crate) fn write(&mut self, offset: Offset, len: usize) -> &mut [u8] {
        let (memory, at) = match (offset.area, &mut self.buffers) {
            (Area::Scratch, _) => (&mut *self.scratch, offset.at),
            (Area::Input, Buffers::InPlace(buffer)) => (&mut **buffer, offset.at + self.input_at),
            (Area::Output, Buffers::InPlace(buffer)) => (&mut **buffer, offset.at + self.output_at),
            (_, Buffers::Split { output, .. }) => (&mut **output, offset.at),
        };
        &mut memory[at..at + len]
    }

    /// Copies between offsets, which may be the same.
    pub(crate) fn copy(&mut self, from: Offset, into: Offset, len: usize) {
        let in_place = self.buffers.is_in_place();
        match (from.area, into.area) {
            _ if len == 0 => {}
            (Area::Scratch, Area::Scratch) => {
                self.scratch.copy_within(from.at..from.at + len, into.at);
            }
            (Area::Input | Area::Output, Area::Input | Area::Output)
                if in_place || from.area == into.area =>
            {
                self.copy_within(from, into, len);
            }
            _ => self.copy_across(from, into, len),
        }
    }

    fn copy_within(&mut self, from: Offset, into: Offset, len: usize) {
        let offset = |area| match (area, self.buffers.is_in_place()) {
            (_, false) => 0,
            (Area::Input, true) => self.input_at,
            _ => self.output_at,
        };
        let (from, into) = (from.at + offset(from.area), into.at + offset(into.area));
        if from != into {
            match &mut self.buffers {
                Buffers::InPlace(buffer) => buffer.copy_within(from..from + len, into),
                Buffers::Split { output, .. } => output.copy_within(from..from + len, into),
            }
        }
    }

    /// Copies between two of the buffers.
    fn copy_across(&mut self, from: Offset, into: Offset, len: usize) {
        let (input_at, output_at) = (self.input_at, self.output_at);
        let within = |offset: Offset, single: bool| match (offset.area, single) {
            (Area::Input, true) => offset.at + input_at,
            (Area::Output, true) => offset.at + output_at,
            _ => offset.at,
        };
        let single = self.buffers.is_in_place();
        let (at, to) = (within(from, single), within(into, single));
        let scratch = &mut *self.scratch;
        match (&mut self.buffers, from.area, into.area) {
            (Buffers::InPlace(buffer), Area::Scratch, _) => {
                buffer[to..to + len].copy_from_slice(&scratch[at..at + len]);
            }
            (Buffers::InPlace(buffer), ..) => {
                scratch[to..to + len].copy_from_slice(&buffer[at..at + len]);
            }
            (Buffers::Split { input, output }, Area::Input, Area::Output) => {
                output[to..to + len].copy_from_slice(&input[at..at + len]);
            }
            (Buffers::Split { input, .. }, Area::Input, _) => {
                scratch[to..to + len].copy_from_slice(&input[at..at + len]);
            }
            (Buffers::Split { output, .. }, Area::Scratch, _) => {
                output[to..to + len].copy_from_slice(&scratch[at..at + len]);
            }
            (Buffers::Split { output, .. }, ..) => {
                scratch[to..to + len].copy_from_slice(&output[at..at + len]);
            }
        }
    }

    /// `into = with op incoming`, whole elements.
    pub(crate) fn fold(
        &mut self,
        (op, dtype): (ReduceOp, DType),
        with: Offset,
        into: Offset,
        incoming: &[u8],
    ) -> Result<(), ReduceError> {
        let len = incoming.len();
        if let (Area::Input, Buffers::Split { input, output }) = (with.area, &mut self.buffers) {
            let (target, mine) = match into.area {
                Area::Scratch => (&mut *self.scratch, &input[with.at..with.at + len]),
                _ => (&mut **output, &input[with.at..with.at + len]),
            };
            return reduce_from(op, dtype, &mut target[into.at..into.at + len], mine, incoming);
        }
        self.copy(with, into, len);
        reduce(op, dtype, self.write(into, len), incoming)
    }

    /// The last step of a reduction: an average's division.
    pub(crate) fn finish(
        &mut self,
        (op, dtype): (ReduceOp, DType),
        offset: Offset,
        len: usize,
        ranks: u32,
    ) -> Result<(), ReduceError> {
        finish(op, dtype, self.write(offset, len), ranks)
    }
}
