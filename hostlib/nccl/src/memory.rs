//! NCCL's memory that is sent from or received into while a request is in flight.
#![expect(unsafe_code, reason = "borrows memory that NCCL guarantees not to touch until the request is done")]

use core::ffi::c_void;
use std::ops::Range;

use netfold::{Call, Communicator, Work};

use crate::result::{Failure, Result};

/// Bytes of a request.
#[derive(Debug)]
pub(crate) struct Region {
    start: *mut u8,
    len: usize,
}

// SAFETY: by the contract of `new` no other thread uses the memory meanwhile.
unsafe impl Send for Region {}

impl Region {
    /// # Errors
    ///
    /// Null, unless `len` is 0.
    ///
    /// # Safety
    ///
    /// For as long as the region exists, `start` is valid for reads of `len` bytes, and for writes when it is received into or
    /// [cleared](Leftover), and nothing else writes them, or reads them when it is received into.
    pub(crate) unsafe fn new(start: *mut c_void, len: usize) -> Result<Self> {
        if start.is_null() && len > 0 {
            return Err(Failure::argument(format!("NULL for {len} bytes of data")));
        }
        if isize::try_from(len).is_err() {
            return Err(Failure::argument(format!("{len} bytes exceed the address space")));
        }
        Ok(Self { start: start.cast(), len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The bytes from `at` on.
    pub(crate) fn rest(&self, at: usize) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: not null, and valid by the contract of `new`.
        let all = unsafe { std::slice::from_raw_parts(self.start, self.len) };
        all.get(at..).unwrap_or(&[])
    }

    /// The bytes from `at` to `end`, to be written.
    pub(crate) fn window(&mut self, at: usize, end: usize) -> &mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: not null, and valid by the contract of `new`; borrowed exclusively through this region.
        let all = unsafe { std::slice::from_raw_parts_mut(self.start, self.len) };
        all.get_mut(at..end).unwrap_or(&mut [])
    }

    /// This memory, to be cleared when the request is done; `None` where `output` is in it.
    pub(crate) fn leftover(&self, output: Option<&Self>) -> Option<Leftover> {
        let shared = output.is_some_and(|output| self.overlaps(output) || output.start == self.start);
        (self.len > 0 && !shared).then_some(Leftover { start: self.start, len: self.len })
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.start.addr() < other.start.addr() + other.len
            && other.start.addr() < self.start.addr() + self.len
    }

    /// A region for each of `places`, which ascend and do not overlap. What is beyond the end is cut off.
    pub(crate) fn split(self, places: impl IntoIterator<Item = Range<usize>>) -> Vec<Self> {
        let mut free = 0;
        let part = |place: Range<usize>| {
            let start = place.start.clamp(free, self.len);
            free = place.end.clamp(start, self.len);
            Self { start: self.start.wrapping_add(start), len: free - start }
        };
        places.into_iter().map(part).collect()
    }
}

/// The input of a request in NCCL's staging buffer.
///
/// NCCL reduces whole chunks of that buffer, however few elements its GPU has written there, and never passes other memory of the host. What was
/// left over from an earlier request would be in the same packets as elements of this one, and determine their common exponent:
/// NaN or a large number there would make them NaN or 0.
#[derive(Debug)]
pub(crate) struct Leftover {
    start: *mut u8,
    len: usize,
}

// SAFETY: by the contract of `Region::new` no other thread uses the memory until the request is done.
unsafe impl Send for Leftover {}

impl Leftover {
    /// Writes zeros, as NCCL does when it allocates the buffer. Does nothing unless all of `works`, the operations on it, are done.
    pub(crate) fn clear(self, works: &[Work]) {
        if works.iter().all(Work::is_done) {
            // SAFETY: not null; by the contract of `Region::new` it is valid for writes until the request is done, which NCCL learns from the
            // call of `test` that this is part of; nothing else uses it, since the operations are done.
            unsafe { self.start.write_bytes(0, self.len) }
        }
    }
}

/// Starts a collective from `send` to `recv`, which are the same memory or do not overlap; `None` where this rank has no input or no output.
pub(crate) fn submit(
    comm: &Communicator,
    call: &Call,
    send: Option<Region>,
    recv: Option<Region>,
) -> Result<Work> {
    if let (Some(send), Some(recv)) = (&send, &recv)
        && send.start != recv.start
        && send.overlaps(recv)
    {
        return Err(Failure::argument("input and output overlap, and are not the same"));
    }
    let input = send.map_or(std::ptr::null_mut(), |region| region.start);
    let output = recv.map_or(std::ptr::null_mut(), |region| region.start);
    // SAFETY: the regions have the call's length, and stay valid until the request is done, by the contract of
    // `new`; when a request is abandoned the communicator is aborted before NCCL may reuse the memory. Where there is none, the
    // call reads or writes nothing on this rank.
    Ok(unsafe { comm.submit(call, input, output) }?)
}
