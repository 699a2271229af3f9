//! Input that is not there yet when its operation begins.

use crate::slot::SlotState;
use crate::{Codec, OpId};

use super::Worker;

/// What slots that are set aside wait for.
#[derive(Debug, Clone, Copy)]
pub(super) struct AwaitedInput {
    /// The operation of the first of them.
    op: u64,
    /// How much of its input was there.
    readable: u32,
}

impl Worker {
    /// Whether packets wait until there is more [input](Codec::readable).
    pub fn awaits_input(&self) -> bool {
        self.awaited_input.is_some() && self.aborted.is_none()
    }

    /// The slot that sends next. Those that lack input are set aside.
    pub(super) fn next_with_input(&mut self, codec: &mut impl Codec) -> Option<u16> {
        self.resume_with_input(codec);
        loop {
            let index = self.next_to_send()?;
            let readable = codec.readable(OpId(self.slots.slot(index).op));
            if self.has_input(index, readable) {
                return Some(index);
            }
            let op = self.slots.slot(index).op;
            self.awaited_input.get_or_insert(AwaitedInput { op, readable });
            self.slots.shift(index, SlotState::Blocked);
        }
    }

    /// Whether the first `readable` chunks of its operation are all that a slot's packet depends on.
    fn has_input(&self, index: u16, readable: u32) -> bool {
        let slot = self.slots.slot(index);
        if readable == u32::MAX || slot.sends > 0 {
            return true;
        }
        let op = self.stream.op(slot.op);
        if op.prediction.is_some() {
            // Its first packet depends on all exponents.
            return readable >= op.spec.data_chunks;
        }
        let piece = op.piece(slot.position);
        let is_there = |ordinal: Option<u32>| ordinal.is_none_or(|at| self.chunk_at(slot.op, at) < readable);
        is_there(piece.data) && is_there(piece.proposes)
    }

    /// Returns slots that were set aside when there is more input, in the order of their positions.
    fn resume_with_input(&mut self, codec: &mut impl Codec) {
        let Some(AwaitedInput { op, readable }) = self.awaited_input else { return };
        if self.stream.get(op).is_some() && codec.readable(OpId(op)) == readable {
            return;
        }
        self.awaited_input = None;
        let slots = 0..self.slots.count();
        let first = slots.clone().map(|index| self.slots.slot(index as u16).position).min().unwrap_or(0);
        for position in slots.map(|at| first + u64::from(at)) {
            let index = self.slots.at(position);
            let slot = self.slots.slot(index);
            if slot.state() == SlotState::Blocked && self.stream.op(slot.op).may_send(slot.position) {
                self.slots.shift(index, SlotState::Ready);
            }
        }
    }
}
