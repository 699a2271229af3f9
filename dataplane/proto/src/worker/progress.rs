//! The progress of a worker, for callers that must finish its operations without the switch.

use super::Worker;
use crate::{Instant, OpId};

impl Worker {
    /// When a result was last taken, or the first chunk sent after nothing was outstanding.
    pub fn progress_at(&self) -> Instant {
        self.progress_at
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
