//! The slices in which a piece is copied, so that its operation begins before all of it is there, and results are copied back before it is over.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Error;
use crate::staging::buffers::StagingBuffer;
use crate::staging::stager::Stager;
use crate::transfer::Transfer;

/// Most slices of a piece, and what words count for each.
pub(crate) const SLICES_MAX: usize = 32;

/// Fewest bytes of the slice for which the network waits: a bus copies them in about as much time as it takes to start a copy.
const LEAST_AT_END: usize = 128 << 10;

/// Fewest bytes of a slice where the network has another piece meanwhile.
const LEAST_BETWEEN: usize = 2 << 20;

/// A slice is at most this fraction of all that come before it, or behind it: so it is copied while the network is busy with those, on a bus that is
/// faster than the network by as much. And it is at most this fraction of all bytes, for buses that are slower.
const GROWTH: usize = 4;
const LARGEST: usize = 16;

/// Where slices may begin, but for the first: at multiples of so many bytes.
const ALIGNMENT: usize = 4096;

/// Consecutive slices of some bytes. Each costs a thread of the caller some microseconds, for two functions of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slices {
    /// Where each ends; the last one ends with the bytes.
    ends: [usize; SLICES_MAX],
    count: usize,
}

impl Slices {
    /// One slice.
    pub(crate) fn whole(bytes: usize) -> Self {
        Self { ends: [bytes; SLICES_MAX], count: 1 }
    }

    /// Slices for an operation that begins with the first of them.
    pub(crate) fn growing(bytes: usize, network_waits: bool) -> Self {
        let least = if network_waits { LEAST_AT_END } else { LEAST_BETWEEN };
        let mut slices = Self { ends: [bytes; SLICES_MAX], count: 0 };
        let mut end = 0;
        while slices.count < SLICES_MAX - 1 && end + least < bytes {
            end =
                (end + least.max((end / GROWTH).min(bytes / LARGEST))).next_multiple_of(ALIGNMENT).min(bytes);
            slices.ends[slices.count] = end;
            slices.count += 1;
        }
        if end < bytes || slices.count == 0 {
            slices.count += 1;
        }
        slices
    }

    /// Slices for what waits for the last of them: the same in reverse order.
    pub(crate) fn shrinking(bytes: usize, network_waits: bool) -> Self {
        let grown = Self::growing(bytes, network_waits);
        let mut slices = Self { ends: [bytes; SLICES_MAX], count: 0 };
        for slice in (0..grown.count - 1).rev() {
            let end = (bytes - grown.ends[slice]) / ALIGNMENT * ALIGNMENT;
            if end > slices.range(slices.count).start {
                slices.ends[slices.count] = end;
                slices.count += 1;
            }
        }
        slices.count += 1;
        slices
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The bytes of a slice; none behind the last one.
    pub(crate) fn range(&self, slice: usize) -> Range<usize> {
        let end = |slice: usize| self.ends[slice.min(SLICES_MAX - 1)];
        slice.checked_sub(1).map_or(0, end)..end(slice)
    }

    /// The slices that have some of these bytes.
    fn touched(&self, bytes: &Range<usize>) -> Range<usize> {
        let ends = &self.ends[..self.count];
        let first = ends.partition_point(|end| *end <= bytes.start);
        let last = ends.partition_point(|end| *end < bytes.end);
        if bytes.is_empty() { 0..0 } else { first..(last + 1).min(self.count) }
    }
}

/// How a piece is copied in and out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PieceSlices {
    pub(crate) input: Slices,
    pub(crate) output: Slices,
}

impl PieceSlices {
    pub(crate) fn are_several(&self) -> bool {
        self.input.count() > 1 || self.output.count() > 1
    }
}

/// A piece that is copied in slices, while it is an operation.
pub(crate) struct PieceTransfer {
    stager: Arc<Stager>,
    buffer: StagingBuffer,
    input: Slices,
    results: Results,
}

impl PieceTransfer {
    pub(crate) fn new(stager: &Arc<Stager>, buffer: StagingBuffer, slices: PieceSlices) -> Self {
        let PieceSlices { input, output } = slices;
        Self { stager: Arc::clone(stager), buffer, input, results: Results::new(output) }
    }

    /// Where what is not copied out yet begins, once the operation is over.
    pub(crate) fn kept_from(&self) -> usize {
        self.results.slices.range(*self.results.lock()).start
    }

    fn release(&self, slices: usize) {
        self.stager.buffers().release_slices(&self.buffer, slices, self.results.slices.count());
    }
}

impl fmt::Debug for PieceTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PieceTransfer").field("buffer", &self.buffer).finish_non_exhaustive()
    }
}

impl Transfer for PieceTransfer {
    fn arrived(&self) -> usize {
        match self.stager.buffers().arrived_slices(&self.buffer, self.input.count()) {
            0 => 0,
            slices => self.input.range(slices - 1).end,
        }
    }

    fn failure(&self) -> Option<Error> {
        self.stager.failure()
    }

    fn finish(&self, bytes: Range<usize>) {
        self.results.finish(&bytes, |slices| self.release(slices));
    }

    fn divide(&self, more: usize) {
        self.results.unverified.fetch_add(more as u32, Ordering::AcqRel);
    }

    fn verify(&self) {
        self.results.verify(|slices| self.release(slices));
    }
}

/// Which slices of a piece may be copied out: in order, those whose results are all there, but for the last one. What is behind the piece may use
/// its buffer again, so the last slice is released when the operation is over.
struct Results {
    slices: Slices,
    /// Bytes of each slice whose results are missing.
    missing: [AtomicUsize; SLICES_MAX],
    /// Operations of which it is not known that every rank has submitted them.
    unverified: AtomicU32,
    /// Slices that may be copied out.
    released: Mutex<usize>,
}

impl Results {
    fn new(slices: Slices) -> Self {
        Self {
            slices,
            missing: std::array::from_fn(|slice| AtomicUsize::new(slices.range(slice).len())),
            unverified: AtomicU32::new(1),
            released: Mutex::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.released.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The results of these bytes are there; calls `release` with the number of slices that may be copied out, where there are more.
    fn finish(&self, bytes: &Range<usize>, release: impl FnOnce(usize)) {
        let mut complete = false;
        for slice in self.slices.touched(bytes) {
            let range = self.slices.range(slice);
            let finished = range.end.min(bytes.end) - range.start.max(bytes.start);
            complete |= self.missing[slice].fetch_sub(finished, Ordering::AcqRel) == finished;
        }
        if complete {
            self.release(release);
        }
    }

    /// Every rank has submitted one of the operations.
    fn verify(&self, release: impl FnOnce(usize)) {
        if self.unverified.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.release(release);
        }
    }

    fn release(&self, release: impl FnOnce(usize)) {
        if self.unverified.load(Ordering::Acquire) > 0 {
            return;
        }
        let mut released = self.lock();
        let next = *released..self.slices.count() - 1;
        let more = next.take_while(|slice| self.missing[*slice].load(Ordering::Acquire) == 0).count();
        if more > 0 {
            *released += more;
            release(*released);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::seq::SliceRandom;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn slices_cover_all_bytes_once_and_begin_and_end_small() {
        for bytes in [0, 1, 4096, 300_000, 1 << 20, (5 << 20) + 4, (16 << 20) - 4, 16 << 20] {
            let kinds = [
                Slices::whole(bytes),
                Slices::growing(bytes, true),
                Slices::growing(bytes, false),
                Slices::shrinking(bytes, true),
            ];
            for slices in kinds {
                let mut next = 0;
                for slice in 0..slices.count() {
                    let range = slices.range(slice);
                    assert_eq!(range.start, next);
                    assert!(bytes == 0 || !range.is_empty(), "{slices:?}");
                    next = range.end;
                }
                assert_eq!((next, slices.range(slices.count())), (bytes, bytes..bytes));
            }
            let [_, grown, _, shrunk] = kinds;
            let limit = LEAST_AT_END + ALIGNMENT;
            assert!(grown.range(0).len() <= limit && shrunk.range(shrunk.count() - 1).len() <= limit);
        }
        let counts = |bytes| {
            let slices =
                [true, false].map(|waits| [Slices::growing(bytes, waits), Slices::shrinking(bytes, waits)]);
            slices.as_flattened().iter().map(Slices::count).collect::<Vec<_>>()
        };
        assert_eq!(counts(256 << 10), [2, 2, 1, 1]);
        assert_eq!(counts(1 << 20), [8, 8, 1, 1]);
        assert_eq!(counts(16 << 20), [26, 26, 8, 8]);
    }

    #[test]
    fn the_slices_of_a_stretch_are_those_that_have_some_of_it() {
        let kib = 1 << 10;
        for slices in
            [Slices::growing(1 << 20, true), Slices::shrinking(16 << 20, true), Slices::whole(3000 * kib)]
        {
            let end = slices.range(slices.count() - 1).end;
            for start in (0..end).step_by(100 * kib) {
                for len in [0, 1, kib, 128 * kib, 700 * kib] {
                    let bytes = start..(start + len).min(end);
                    let meets = |slice: &usize| {
                        let range = slices.range(*slice);
                        range.start < bytes.end && bytes.start < range.end && !bytes.is_empty()
                    };
                    let expected: Vec<_> = (0..slices.count()).filter(meets).collect();
                    assert_eq!(slices.touched(&bytes).collect::<Vec<_>>(), expected, "{bytes:?}");
                }
            }
        }
    }

    /// Whatever order results come in, slices are released in order, each when all before it are complete, none before all operations are verified, and
    /// never the last one.
    #[test]
    fn complete_slices_are_released_in_order() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        for round in 0..40 {
            let bytes = [256 << 10, 1 << 20, (3 << 20) + 4][round % 3];
            let slices = Slices::shrinking(bytes, true);
            let results = Results::new(slices);
            let operations = round % 3;
            results.unverified.fetch_add(operations as u32, Ordering::Relaxed);
            let mut chunks: Vec<_> = (0..bytes).step_by(1408).map(|at| at..(at + 1408).min(bytes)).collect();
            chunks.shuffle(&mut rng);
            let verified_at: Vec<_> = (0..=operations).map(|_| rng.random_range(0..chunks.len())).collect();
            let (mut done, mut released) = (vec![0; slices.count()], 0);
            for (at, chunk) in chunks.iter().enumerate() {
                let mut more = None;
                for _ in verified_at.iter().filter(|verified_at| **verified_at == at) {
                    results.verify(|slices| more = Some(slices));
                }
                results.finish(chunk, |slices| more = Some(slices));
                for (slice, done) in done.iter_mut().enumerate() {
                    let range = slices.range(slice);
                    *done += chunk.clone().filter(|byte| range.contains(byte)).count();
                }
                let is_complete = |slice: &usize| done[*slice] == slices.range(*slice).len();
                let verified = verified_at.iter().all(|verified_at| *verified_at <= at);
                let expected = (0..slices.count() - 1).take_while(is_complete).count();
                let expected = if verified { expected } else { 0 };
                assert!(more.is_none_or(|more| more > released), "round {round}: only more are released");
                released = more.unwrap_or(released);
                assert_eq!((released, *results.lock()), (expected, expected), "round {round}, result {at}");
            }
            assert_eq!(released, slices.count() - 1);
        }
    }
}
