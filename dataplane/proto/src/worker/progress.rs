//! The progress of a worker, for callers that must finish its operations without the switch, or report that there is none.

use super::Worker;
use crate::slot::SlotState;
use crate::{Instant, OpId};

/// A chunk that a worker has sent and whose result it lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutstandingChunk {
    /// Its number.
    pub chunk: u32,
    /// How often it was sent.
    pub sends: u32,
    /// When it was first sent.
    pub first_sent_at: Instant,
    /// When it was last sent.
    pub sent_at: Instant,
}

impl Worker {
    /// When a result was last taken, or the first chunk sent after nothing was outstanding.
    pub fn progress_at(&self) -> Instant {
        self.progress_at
    }

    /// The chunk whose result was last taken.
    pub fn last_result(&self) -> Option<u32> {
        self.last_result
    }

    /// When a packet of the job was last received, whatever it was.
    pub fn received_at(&self) -> Option<Instant> {
        self.received_at
    }

    /// The outstanding chunk that is first in the stream. Examines all slots.
    pub fn oldest_outstanding(&self) -> Option<OutstandingChunk> {
        let outstanding = self.slots.all(SlotState::InFlight).chain(self.slots.all(SlotState::Lost));
        let index = outstanding.min_by_key(|index| self.slots.slot(*index).position)?;
        let slot = self.slots.slot(index);
        Some(OutstandingChunk {
            chunk: self.slots.chunk(index),
            sends: slot.sends,
            first_sent_at: slot.first_sent_at,
            sent_at: slot.sent_at,
        })
    }

    /// Records that the job made progress at `at`, on another stream: the stall timeout counts from there. A stream that waits behind more
    /// urgent streams on other ranks has not stalled.
    pub fn note_progress(&mut self, at: Instant) {
        self.progress_at = self.progress_at.max(at);
    }

    /// Of each slot, in order, the first stream position whose result has not been taken. Positions count from 0 at the
    /// job's first chunk, and those of one slot are congruent modulo the number of slots.
    pub fn positions(&self) -> impl Iterator<Item = u64> {
        (0..self.slots.count()).map(|index| self.slots.slot(index as u16).position)
    }

    /// Of a pending operation, how many results are missing, and how many there are to be in all. `None` when it is not pending.
    pub fn missing(&self, op: OpId) -> Option<(u64, u64)> {
        self.stream.get(op.0).map(|op| op.missing())
    }

    /// The stream positions of a pending operation's descriptor, and of its first data chunk, which the others follow. `None`
    /// when the operation is not pending.
    pub fn starts(&self, op: OpId) -> Option<(u64, u64)> {
        self.stream.get(op.0).map(|op| op.starts())
    }
}
