//! Memory that is shared with the kernel, or with another process.
#![expect(
    unsafe_code,
    reason = "mapped memory is reached by pointers, and the other side is the kernel or another process"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// A mapped area. Every access is checked against its length; the words that pass ownership between the other side (the kernel, or another
/// process) and us are atomic, and what is copied out or in between two of them belongs to us then.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the area belongs to the value alone (beside the kernel), and is reached only through it.
unsafe impl Send for Mapping {}

// SAFETY: through a shared reference whole words are read and written atomically, and bytes are copied out that belong to the caller, by the
// protocol of the area: `lend` alone writes bytes then, and its caller guarantees that there is no other access to them.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of what `fd` offers at `offset`, shared.
    pub(crate) fn of(fd: BorrowedFd<'_>, len: usize, offset: u64) -> io::Result<Self> {
        Self::map(Some(fd), len, offset, libc::MAP_SHARED | libc::MAP_POPULATE)
    }

    /// Maps `len` bytes of fresh memory, zero.
    pub(crate) fn fresh(len: usize) -> io::Result<Self> {
        Self::map(None, len, 0, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE)
    }

    fn map(fd: Option<BorrowedFd<'_>>, len: usize, offset: u64, flags: i32) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = fd.map_or(-1, |fd| fd.as_raw_fd());
        // SAFETY: a null address lets the kernel choose a free place, so nothing else is mapped over.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, fd, offset as libc::off_t) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { start, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address, for the kernel.
    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// A word that both sides use; `None` outside the area or when it is not aligned.
    fn word(&self, offset: usize) -> Option<&AtomicU32> {
        if !offset.is_multiple_of(4) || offset > self.len || self.len - offset < 4 {
            return None;
        }
        // SAFETY: the four bytes lie within the area and are aligned, since the area begins at a page; they live as long as
        // `self`; the kernel changes them by whole words too, and within this process only atomics and copies touch the area.
        Some(unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(offset).cast()) })
    }

    /// Reads a word that passes ownership to us: what the kernel wrote before it is visible after. 0 outside the area.
    pub(crate) fn acquire(&self, offset: usize) -> u32 {
        self.word(offset).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Writes a word that passes ownership to the kernel: what was done before it is done for the kernel. Ignored outside the area.
    pub(crate) fn release(&self, offset: usize, value: u32) {
        if let Some(word) = self.word(offset) {
            word.store(value, Ordering::Release);
        }
    }

    /// Reads a word of what belongs to us. 0 outside the area.
    pub(crate) fn u32(&self, offset: usize) -> u32 {
        self.word(offset).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// Reads a half word of what belongs to us. 0 outside the area.
    pub(crate) fn u16(&self, offset: usize) -> u16 {
        let mut bytes = [0; 2];
        self.copy_out(offset, &mut bytes);
        u16::from_ne_bytes(bytes)
    }

    /// Reads a double word of what belongs to us. 0 outside the area.
    pub(crate) fn u64(&self, offset: usize) -> u64 {
        let mut bytes = [0; 8];
        self.copy_out(offset, &mut bytes);
        u64::from_ne_bytes(bytes)
    }

    /// Copies bytes that belong to us out; `false`, and nothing, when they do not lie within the area.
    pub(crate) fn copy_out(&self, offset: usize, to: &mut [u8]) -> bool {
        if offset > self.len || self.len - offset < to.len() {
            return false;
        }
        // SAFETY: the source lies within the area; the destination is a slice of ours, so they do not overlap. Kernel memory never
        // is a Rust reference, so it does not matter when the kernel breaks its word and writes: garbage is copied, nothing more. The same
        // holds for memory that another process has, too.
        unsafe { ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), to.as_mut_ptr(), to.len()) };
        true
    }

    /// Copies bytes into what belongs to us; `false`, and nothing, when they do not fit there.
    pub(crate) fn copy_in(&mut self, offset: usize, from: &[u8]) -> bool {
        if offset > self.len || self.len - offset < from.len() {
            return false;
        }
        // SAFETY: as in `copy_out`, the other way around.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.start.as_ptr().add(offset), from.len()) };
        true
    }

    /// Bytes to write in place; `None` when they do not lie within the area.
    ///
    /// # Safety
    ///
    /// No other party may read or write these bytes during the borrow, the kernel and other threads included: they belong to the caller by
    /// the protocol of the area.
    #[expect(
        clippy::mut_from_ref,
        reason = "threads have parts of one area, and the caller vouches for this one"
    )]
    pub(crate) unsafe fn lend(&self, offset: usize, len: usize) -> Option<&mut [u8]> {
        if offset > self.len || self.len - offset < len {
            return None;
        }
        // SAFETY: the bytes lie within the area and are initialised (mapped memory is zero or what was written); the caller vouches that
        // there is no other borrow of them.
        Some(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(offset), len) })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the area was mapped with this length and is unmapped once; no borrow of it outlives `self`.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_outside_is_untouched() {
        let mut area = Mapping::fresh(4096).unwrap();
        assert!(area.copy_in(4092, &[1, 2, 3, 4]) && !area.copy_in(4093, &[9; 4]));
        let mut out = [0; 4];
        assert!(area.copy_out(4092, &mut out) && out == [1, 2, 3, 4]);
        assert!(!area.copy_out(usize::MAX, &mut out) && !area.copy_out(4096, &mut out));
        area.release(0, 7);
        area.release(4096, 7);
        area.release(2, 7);
        assert_eq!((area.acquire(0), area.acquire(4096), area.u32(2), area.u16(4095)), (7, 0, 0, 0));
    }
}
