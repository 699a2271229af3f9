//! Staging buffers: pinned memory for pieces.
#![expect(unsafe_code, reason = "accesses memory that a device accesses, too")]

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use netfold_cuda::{CudaError, Current, PinnedMemory};

use super::slices::SLICES_MAX;

/// Staging buffers of one length, which are used in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferClass {
    /// Of a buffer.
    pub(crate) bytes: usize,
    pub(crate) count: usize,
    /// The number of the first buffer.
    first: usize,
}

/// Buffers of calls that fit one of them: many short calls may be in flight.
pub(crate) const SHORT: BufferClass = BufferClass { bytes: 256 << 10, count: 16, first: 0 };

/// Buffers of all others: one is copied in, one is in the network and one is copied out. Each piece is an operation, which costs as much as some
/// hundred kilobytes, so pieces are long.
pub(crate) const LONG: BufferClass = BufferClass { bytes: 16 << 20, count: 3, first: SHORT.count };

/// Buffers of all kinds.
pub(crate) const BUFFERS: usize = SHORT.count + LONG.count;

/// Bytes between words: a cache line.
const WORD_STRIDE: usize = 64;

/// What every byte of a piece becomes that is not received: a NaN in all types of floats.
const POISON: u8 = 0xFF;

/// A staging buffer, as one piece has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StagingBuffer {
    class: BufferClass,
    /// Among all.
    pub(crate) number: usize,
    /// How many pieces the buffer has had with this one, modulo 2^32.
    pub(crate) generation: u32,
}

impl BufferClass {
    /// The buffer of the class's piece of this number, from 0.
    pub(crate) fn buffer(self, piece: u64) -> StagingBuffer {
        let number = self.first + (piece % self.count as u64) as usize;
        StagingBuffer { class: self, number, generation: (piece / self.count as u64 + 1) as u32 }
    }
}

impl StagingBuffer {
    /// Where it begins in the memory of its class.
    pub(crate) fn offset(&self) -> usize {
        (self.number - self.class.first) * self.class.bytes
    }

    /// What a word says when so many of a piece's slices, which are `of`, are done: all slices of all pieces of the buffer count, and those of each piece
    /// are [`SLICES_MAX`] in the end. Modulo 2^32.
    pub(crate) fn count(&self, slices: usize, of: usize) -> u32 {
        let slices = if slices >= of { SLICES_MAX } else { slices };
        self.generation.wrapping_sub(1).wrapping_mul(SLICES_MAX as u32).wrapping_add(slices as u32)
    }

    /// How many of a piece's slices, which are `of`, are done, by what a word says.
    fn slices(&self, word: u32, of: usize) -> usize {
        let slices = word.wrapping_sub(self.count(0, of)).cast_signed();
        if slices >= SLICES_MAX as i32 { of } else { (slices.max(0) as usize).min(of - 1) }
    }

    /// Where the word is that the device writes when slices of the piece were copied in, in native byte order.
    pub(crate) fn arrival_word(&self) -> usize {
        2 * self.number * WORD_STRIDE
    }

    /// Where the word is that the host writes when slices of the piece may be copied out.
    pub(crate) fn release_word(&self) -> usize {
        (2 * self.number + 1) * WORD_STRIDE
    }
}

/// Buffers of pinned memory, and two words for each.
pub(crate) struct StagingBuffers {
    short: PinnedMemory,
    /// Allocated when it is first needed.
    long: OnceLock<PinnedMemory>,
    pub(crate) words: PinnedMemory,
}

impl StagingBuffers {
    pub(crate) fn new(current: &Current<'_>) -> Result<Self, CudaError> {
        let short = PinnedMemory::new(current, SHORT.count * SHORT.bytes)?;
        let words = PinnedMemory::new(current, BUFFERS * 2 * WORD_STRIDE)?;
        Ok(Self { short, long: OnceLock::new(), words })
    }

    /// Allocates the memory of a class.
    pub(crate) fn prepare(&self, current: &Current<'_>, class: BufferClass) -> Result<(), CudaError> {
        if class == LONG && self.long.get().is_none() {
            // Callers take turns: the streams' lock is held.
            let _ = self.long.set(PinnedMemory::new(current, LONG.count * LONG.bytes)?);
        }
        Ok(())
    }

    /// The memory of a buffer's class, which was prepared.
    pub(crate) fn memory(&self, buffer: &StagingBuffer) -> &PinnedMemory {
        match self.long.get() {
            Some(long) if buffer.class == LONG => long,
            _ => &self.short,
        }
    }

    /// The address of `bytes` bytes at `offset` of a buffer.
    pub(crate) fn span(&self, buffer: &StagingBuffer, offset: usize, bytes: usize) -> *mut u8 {
        self.memory(buffer).span(buffer.offset() + offset, bytes)
    }

    /// Overwrites some bytes of a buffer, so that they are not taken for a result.
    ///
    /// # Safety
    ///
    /// Nothing accesses these bytes at the same time.
    pub(crate) unsafe fn poison(&self, buffer: &StagingBuffer, bytes: Range<usize>) {
        let len = bytes.len();
        // SAFETY: the span has so many bytes; all else by this function's contract.
        unsafe { self.span(buffer, bytes.start, len).write_bytes(POISON, len) };
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        let word = self.words.span(offset, size_of::<u32>()).cast::<u32>();
        // SAFETY: the word is in the memory, aligned, and accessed as an atomic by the host and by whole words by the device.
        unsafe { AtomicU32::from_ptr(word) }
    }

    /// Whether the device has copied the buffer's piece in. If so, its bytes are there.
    pub(crate) fn has_arrived(&self, buffer: &StagingBuffer) -> bool {
        self.arrived_slices(buffer, 1) == 1
    }

    /// How many of the piece's slices, which are `of`, the device has copied in. The bytes of those are there.
    pub(crate) fn arrived_slices(&self, buffer: &StagingBuffer, of: usize) -> usize {
        buffer.slices(self.word(buffer.arrival_word()).load(Ordering::Acquire), of)
    }

    /// Whether the device may be copying the buffer's piece in: its earlier piece may be copied out.
    pub(crate) fn may_arrive(&self, buffer: &StagingBuffer) -> bool {
        let released = self.word(buffer.release_word()).load(Ordering::Acquire);
        released.wrapping_sub(buffer.count(0, 1)).cast_signed() >= 0
    }

    /// Whether the device may copy the buffer's piece out.
    pub(crate) fn is_released(&self, buffer: &StagingBuffer) -> bool {
        buffer.slices(self.word(buffer.release_word()).load(Ordering::Acquire), 1) == 1
    }

    /// Lets the device copy the buffer's piece out. What the caller has written to the buffer happens before.
    pub(crate) fn release(&self, buffer: &StagingBuffer) {
        self.release_slices(buffer, 1, 1);
    }

    /// Lets the device copy the first slices of the buffer's piece out, of `of` slices. What the caller has written to them happens before.
    pub(crate) fn release_slices(&self, buffer: &StagingBuffer, slices: usize, of: usize) {
        self.word(buffer.release_word()).store(buffer.count(slices, of), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_in_turn_and_do_not_overlap() {
        let numbers = |class: BufferClass| (0..4).map(|piece| class.buffer(piece).number).collect::<Vec<_>>();
        assert_eq!(numbers(LONG), [16, 17, 18, 16]);
        assert_eq!([0, 2, 3].map(|piece| LONG.buffer(piece).generation), [1, 1, 2]);
        assert_eq!([0, 1, 3].map(|piece| LONG.buffer(piece).offset()), [0, LONG.bytes, 0]);
        let all = (0..16).map(|piece| SHORT.buffer(piece)).chain((0..3).map(|piece| LONG.buffer(piece)));
        let words: std::collections::BTreeSet<_> =
            all.flat_map(|buffer| [buffer.arrival_word(), buffer.release_word()]).collect();
        assert_eq!(words.len(), 2 * BUFFERS);
    }

    #[test]
    fn generations_wrap() {
        let piece = LONG.count as u64 * (1 << 32);
        assert_eq!(LONG.buffer(piece).generation, 1);
        assert_eq!(LONG.buffer(piece - 1).generation, 0);
    }

    #[test]
    fn words_count_the_slices_of_all_pieces() {
        let slices_max = SLICES_MAX as u32;
        for generation in [1, 2, 1 << 27, u32::MAX, 0] {
            let buffer = StagingBuffer { class: LONG, number: 16, generation };
            let before = buffer.count(0, 4);
            assert_eq!(buffer.count(4, 4), before.wrapping_add(slices_max));
            assert_eq!(buffer.count(1, 1), buffer.count(4, 4));
            for (word, slices) in [
                (before.wrapping_sub(slices_max), 0),
                (before, 0),
                (before.wrapping_add(3), 3),
                (buffer.count(4, 4), 4),
                (buffer.count(4, 4).wrapping_add(3), 4),
            ] {
                assert_eq!(buffer.slices(word, 1), slices / 4, "a piece is there when all of its slices are");
                assert_eq!(buffer.slices(word, 4), slices, "generation {generation}, {word}");
            }
        }
        let first = StagingBuffer { class: LONG, number: 16, generation: 1 };
        assert_eq!(first.count(0, 1), 0, "words are zero at first");
    }
}
