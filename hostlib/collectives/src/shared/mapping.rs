//! The mapped segment: words that every rank may access at any time, and areas whose ownership passes from rank to rank.
#![expect(unsafe_code, reason = "memory shared with other processes is reached through raw pointers")]

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::shared::sys;

/// A mapping of a whole segment.
///
/// Words are atomics at aligned offsets of the header and the control blocks, disjoint from all areas. Areas are plain bytes
/// and follow the rules in [`pipeline`](crate::shared::pipeline).
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    process: u32,
}

// SAFETY: the mapping is memory, tied to no thread; words are atomics, and areas are reached by unsafe functions whose
// callers guarantee exclusive or read-only access.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `file`, which must be that long.
    pub(crate) fn new(file: &File, len: usize) -> io::Result<Self> {
        Ok(Self { base: sys::map(file, len)?, len, process: std::process::id() })
    }

    /// Whether this process made the mapping. A child of fork has the object but not the memory.
    pub(crate) fn is_own_process(&self) -> bool {
        self.process == std::process::id()
    }

    fn at(&self, offset: usize, len: usize, align: usize) -> *mut u8 {
        let end = offset.checked_add(len).expect("offsets come from the layout");
        assert!(end <= self.len && offset.is_multiple_of(align), "offsets come from the layout");
        self.base.as_ptr().wrapping_add(offset)
    }

    /// The 32-bit word at `offset`.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: in bounds and aligned (the base is page-aligned), mapped as long as `self` lives, and only ever accessed
        // as an atomic.
        unsafe { AtomicU32::from_ptr(self.at(offset, 4, 4).cast()) }
    }

    /// The 64-bit word at `offset`.
    pub(crate) fn long(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: as in `word`.
        unsafe { AtomicU64::from_ptr(self.at(offset, 8, 8).cast()) }
    }

    /// The address of an area.
    pub(crate) fn area_ptr(&self, offset: usize, len: usize) -> *mut u8 {
        self.at(offset, len, 1)
    }

    /// An area to read.
    ///
    /// # Safety
    ///
    /// No rank writes to the area as long as the result lives, and every earlier write happened before a release that
    /// this thread has acquired.
    pub(crate) unsafe fn area(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: in bounds, mapped as long as `self` lives, bytes have no invalid values; the caller guarantees the rest.
        unsafe { slice::from_raw_parts(self.at(offset, len, 1), len) }
    }

    /// An area to write.
    ///
    /// # Safety
    ///
    /// No other rank reads or writes the area as long as the result lives, and every earlier access is ordered before this
    /// thread by a release that it has acquired.
    #[expect(clippy::mut_from_ref, reason = "the caller guarantees exclusive access: ranks take turns")]
    pub(crate) unsafe fn area_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        // SAFETY: as in `area`; exclusive by the function's contract.
        unsafe { slice::from_raw_parts_mut(self.at(offset, len, 1), len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.is_own_process() {
            // SAFETY: `new` made this mapping in this process, and all borrows of `self` are over. (In a child of fork there
            // is nothing to unmap, or something else at this address.)
            unsafe { sys::unmap(self.base, self.len) };
        }
    }
}
