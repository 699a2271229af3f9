//! How far a worker has come, for callers that must finish its operations without the switch.

use super::Worker;
use crate::OpId;

impl Worker {
    /// Of each slot, in order, the first stream position whose result has not been taken. Positions count from 0 at the
    /// job's first chunk, and those of one slot are congruent modulo the number of slots.
    pub fn positions(&self) -> impl Iterator<Item = u64> {
        (0..self.slots.count()).map(|index| self.slots.slot(index as u16).position)
    }

    /// The stream positions of a pending operation's descriptor, and of its first data chunk, which the others follow. `None`
    /// when the operation is not pending.
    pub fn starts(&self, op: OpId) -> Option<(u64, u64)> {
        self.stream.get(op.0).map(|op| op.starts())
    }
}
