//! The mapped segment: words that every rank may access at any time, and areas whose ownership passes from rank to rank.
//!
//! Other processes can write to all of it at any time if they break the rules. No Rust reference to the bytes of an area is ever
//! made, therefore: they are copied out and in, and such a process makes a sum wrong, as it could by its own tensor.
#![expect(unsafe_code, reason = "memory shared with other processes is reached through raw pointers")]

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::shared::sys;

/// A mapping of a whole segment.
///
/// Words are atomics at aligned offsets of the header and the control blocks, disjoint from all areas. Areas are plain bytes
/// and follow the rules in [`pipeline`](crate::shared::pipeline). In this process the group's thread alone reaches them.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    process: u32,
}

// SAFETY: the mapping is memory, tied to no thread.
unsafe impl Send for Mapping {}
// SAFETY: words are atomics; areas are reached by the collectives alone, which have `&mut` of the only group with this mapping.
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

    /// The `len` bytes at `offset`.
    pub(crate) fn area(&self, offset: usize, len: usize) -> Area<'_> {
        Area { start: self.at(offset, len, 1), len, mapping: PhantomData }
    }
}

/// Bytes of the mapping, which are copied in and out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Area<'m> {
    start: *mut u8,
    len: usize,
    mapping: PhantomData<&'m Mapping>,
}

impl Area<'_> {
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// The bytes of `range` alone.
    ///
    /// # Panics
    ///
    /// If they do not lie within the area.
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "ranges come from the plan");
        Self { start: self.start.wrapping_add(range.start), len: range.len(), mapping: PhantomData }
    }

    /// Copies all bytes out, to a slice of their number.
    ///
    /// # Panics
    ///
    /// If `to` has another length.
    pub(crate) fn read(self, to: &mut [u8]) {
        assert_eq!(self.len, to.len(), "lengths come from the plan");
        for (at, block) in blocks(to.len()) {
            // SAFETY: both lie within their memory, and do not overlap because no reference to an area is made. A process that
            // breaks the rules and writes meanwhile changes what is copied, nothing more; of this process no other thread does.
            unsafe { ptr::copy_nonoverlapping(self.start.add(at), to.as_mut_ptr().add(at), block) };
        }
    }

    /// Copies all bytes in, from a slice of their number.
    ///
    /// # Panics
    ///
    /// If `from` has another length.
    pub(crate) fn write(self, from: &[u8]) {
        assert_eq!(self.len, from.len(), "lengths come from the plan");
        for (at, block) in blocks(from.len()) {
            // SAFETY: as in `read`.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr().add(at), self.start.add(at), block) };
        }
    }
}

/// Copies are made in blocks too short for the C library to use `rep movsb`: on AMD's Zen 3 and 4 that is many times slower when the
/// addresses are nearly equal modulo 4096, as those of tensors and page-aligned slots are (glibc bug 30994).
fn blocks(len: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..len).step_by(COPY_BLOCK_BYTES).map(move |at| (at, (len - at).min(COPY_BLOCK_BYTES)))
}

const COPY_BLOCK_BYTES: usize = 1 << 10;

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.is_own_process() {
            // SAFETY: `new` made this mapping in this process, and all borrows of `self` are over. (In a child of fork there
            // is nothing to unmap, or something else at this address.)
            unsafe { sys::unmap(self.base, self.len) };
        }
    }
}
