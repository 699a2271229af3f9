//! The stage of an all-reduce beyond this host.
#![expect(unsafe_code, reason = "the network's engine has exclusive use of shared memory for a while")]

use std::ops::Range;
use std::slice;
use std::sync::Arc;

use crate::shared::state::GroupState;

/// A segment of this host's sum, in shared memory, to be replaced by the sum of all hosts.
///
/// The memory stays mapped as long as this object exists, even if the group fails.
#[derive(Debug)]
pub struct Segment {
    state: Arc<GroupState>,
    at: usize,
    range: Range<usize>,
}

impl Segment {
    pub(crate) fn new(state: Arc<GroupState>, at: usize, range: Range<usize>) -> Self {
        Self { state, at, range }
    }

    /// Where in the tensor this segment begins, in bytes: a multiple of the element's size.
    pub fn offset_bytes(&self) -> usize {
        self.range.start
    }

    /// Length in bytes: whole elements, more than none.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// The address of the first byte, aligned to 4096.
    pub fn as_ptr(&self) -> *mut u8 {
        self.state.mapping.area_ptr(self.at, self.range.len())
    }

    /// The bytes, to read and to replace, in native byte order.
    ///
    /// # Safety
    ///
    /// Only between [`Network::start`] and the return of [`Network::finish`] or [`Network::abandon`] for this segment: before
    /// and after, other processes write here. Only one such slice at a time.
    pub unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: in bounds and mapped as long as `self` lives; exclusive by the function's contract.
        unsafe { slice::from_raw_parts_mut(self.as_ptr(), self.range.len()) }
    }
}

/// What the leader's network does with the segments of one
/// [`hierarchical_all_reduce`](crate::shared::SharedGroup::hierarchical_all_reduce). Called on the leader's thread alone.
///
/// Segments come in order: `start(0)`, `start(1)`, ... and `finish(0)`, `finish(1)`, ... with up to 5 started and not finished.
/// From `start` until `finish` returns, a segment's memory belongs to the network: no other process reads or writes it, so an
/// engine thread may.
pub trait Network {
    /// Takes a reduced segment. Should return without waiting for the network.
    ///
    /// # Errors
    ///
    /// Any message; all local ranks then fail with [`SharedError::Network`](crate::shared::SharedError::Network).
    fn start(&mut self, index: usize, segment: Segment) -> Result<(), Vec<u8>>;

    /// Waits until segment `index` holds the global result; then the network does not touch it any more. Must return in less than
    /// the [stall timeout](crate::shared::SharedConfig::stall_timeout) of the other ranks.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    fn finish(&mut self, index: usize) -> Result<(), Vec<u8>>;

    /// The operation has failed, on this rank or another. Returns when no started segment is touched any more.
    fn abandon(&mut self);
}
