//! The slots of pinned memory.
#![expect(unsafe_code, reason = "accesses memory that a device accesses, too")]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use netfold_cuda::{CudaError, Current, PinnedMemory};

/// A kind of slots, which are used in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotClass {
    /// Of a slot.
    pub(crate) bytes: usize,
    pub(crate) count: usize,
    /// The number of the first slot.
    first: usize,
}

/// Slots of calls that fit one of them: many short calls may be in flight.
pub(crate) const SHORT: SlotClass = SlotClass { bytes: 256 << 10, count: 16, first: 0 };

/// Slots of all others: one is copied in, one is in the network and one is copied out. Each piece is an operation, which costs as much as some
/// hundred kilobytes, so pieces are long.
pub(crate) const LONG: SlotClass = SlotClass { bytes: 16 << 20, count: 3, first: SHORT.count };

/// Slots of all kinds.
pub(crate) const SLOTS: usize = SHORT.count + LONG.count;

/// Bytes between words: a cache line.
const WORD_STRIDE: usize = 64;

/// What every byte of a piece becomes that is not received: a NaN in all types of floats.
const POISON: u8 = 0xFF;

/// A slot for one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    class: SlotClass,
    /// Among all.
    pub(crate) number: usize,
    /// How many pieces the slot has had with this one, modulo 2^32.
    pub(crate) generation: u32,
}

impl SlotClass {
    /// The slot of the class's piece of this number, from 0.
    pub(crate) fn slot(self, piece: u64) -> Slot {
        let number = self.first + (piece % self.count as u64) as usize;
        Slot { class: self, number, generation: (piece / self.count as u64 + 1) as u32 }
    }
}

impl Slot {
    /// Where it begins in the memory of its class.
    pub(crate) fn offset(&self) -> usize {
        (self.number - self.class.first) * self.class.bytes
    }

    /// Where the word is that the device writes when the piece was copied in: the generation, in native byte order.
    pub(crate) fn arrival_word(&self) -> usize {
        2 * self.number * WORD_STRIDE
    }

    /// Where the word is that the host writes when the piece may be copied out: the generation.
    pub(crate) fn release_word(&self) -> usize {
        (2 * self.number + 1) * WORD_STRIDE
    }
}

/// Slots of pinned memory, and two words for each.
pub(crate) struct Ring {
    short: PinnedMemory,
    /// Allocated when it is first needed.
    long: OnceLock<PinnedMemory>,
    pub(crate) words: PinnedMemory,
}

impl Ring {
    pub(crate) fn new(current: &Current<'_>) -> Result<Self, CudaError> {
        let short = PinnedMemory::new(current, SHORT.count * SHORT.bytes)?;
        let words = PinnedMemory::new(current, SLOTS * 2 * WORD_STRIDE)?;
        Ok(Self { short, long: OnceLock::new(), words })
    }

    /// Allocates the memory of a class.
    pub(crate) fn prepare(&self, current: &Current<'_>, class: SlotClass) -> Result<(), CudaError> {
        if class == LONG && self.long.get().is_none() {
            // Callers take turns: the streams' lock is held.
            let _ = self.long.set(PinnedMemory::new(current, LONG.count * LONG.bytes)?);
        }
        Ok(())
    }

    /// The memory of a slot's class, which was prepared.
    pub(crate) fn memory(&self, slot: &Slot) -> &PinnedMemory {
        match self.long.get() {
            Some(long) if slot.class == LONG => long,
            _ => &self.short,
        }
    }

    /// The address of `bytes` bytes at `offset` of a slot.
    pub(crate) fn span(&self, slot: &Slot, offset: usize, bytes: usize) -> *mut u8 {
        self.memory(slot).span(slot.offset() + offset, bytes)
    }

    /// Overwrites the first `bytes` bytes of a slot, so that they are not taken for a result.
    ///
    /// # Safety
    ///
    /// Nothing accesses the slot at the same time.
    pub(crate) unsafe fn poison(&self, slot: &Slot, bytes: usize) {
        // SAFETY: the span has so many bytes; all else by this function's contract.
        unsafe { self.span(slot, 0, bytes).write_bytes(POISON, bytes) };
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        let word = self.words.span(offset, size_of::<u32>()).cast::<u32>();
        // SAFETY: the word is in the memory, aligned, and accessed as an atomic by the host and by whole words by the device.
        unsafe { AtomicU32::from_ptr(word) }
    }

    /// Whether the device has copied the slot's piece in. If so, its bytes are there.
    pub(crate) fn has_arrived(&self, slot: &Slot) -> bool {
        let arrived = self.word(slot.arrival_word()).load(Ordering::Acquire);
        arrived.wrapping_sub(slot.generation).cast_signed() >= 0
    }

    /// Whether the device may be copying the slot's piece in: its earlier piece may be copied out.
    pub(crate) fn may_arrive(&self, slot: &Slot) -> bool {
        let released = self.word(slot.release_word()).load(Ordering::Acquire);
        released.wrapping_sub(slot.generation.wrapping_sub(1)).cast_signed() >= 0
    }

    /// Lets the device copy the slot's piece out. What the caller has written to the slot happens before.
    pub(crate) fn release(&self, slot: &Slot) {
        self.word(slot.release_word()).store(slot.generation, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_in_turn_and_do_not_overlap() {
        let numbers = |class: SlotClass| (0..4).map(|piece| class.slot(piece).number).collect::<Vec<_>>();
        assert_eq!(numbers(LONG), [16, 17, 18, 16]);
        assert_eq!([0, 2, 3].map(|piece| LONG.slot(piece).generation), [1, 1, 2]);
        assert_eq!([0, 1, 3].map(|piece| LONG.slot(piece).offset()), [0, LONG.bytes, 0]);
        let all = (0..16).map(|piece| SHORT.slot(piece)).chain((0..3).map(|piece| LONG.slot(piece)));
        let words: std::collections::BTreeSet<_> =
            all.flat_map(|slot| [slot.arrival_word(), slot.release_word()]).collect();
        assert_eq!(words.len(), 2 * SLOTS);
    }

    #[test]
    fn generations_wrap() {
        let piece = LONG.count as u64 * (1 << 32);
        assert_eq!(LONG.slot(piece).generation, 1);
        assert_eq!(LONG.slot(piece - 1).generation, 0);
    }
}
