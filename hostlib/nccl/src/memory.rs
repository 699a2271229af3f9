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
    /// For as long as the region exists, `start` is valid for reads of `len` bytes, and for writes when it is received into, and
    /// nothing else writes them, or reads them when it is received into.
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

/// Starts a collective from `send` to `recv`, which are the same memory or do not overlap; `None` where this rank has no input or no output.
pub(crate) fn submit(
    comm: &Communicator,
    call: &Call,
    send: Option<Region>,
    recv: Option<Region>,
) -> Result<Work> {
    if let (Some(send), Some(recv)) = (&send, &recv) {
        let overlap = send.start != recv.start
            && send.start.addr() < recv.start.addr() + recv.len
            && recv.start.addr() < send.start.addr() + send.len;
        if overlap {
            return Err(Failure::argument("input and output overlap, and are not the same"));
        }
    }
    let input = send.map_or(std::ptr::null_mut(), |region| region.start);
    let output = recv.map_or(std::ptr::null_mut(), |region| region.start);
    // SAFETY: the regions have the call's length, and stay valid until the request is done, by the contract of
    // `new`; when a request is abandoned the communicator is aborted before NCCL may reuse the memory. Where there is none, the
    // call reads or writes nothing on this rank.
    Ok(unsafe { comm.submit(call, input, output) }?)
}
