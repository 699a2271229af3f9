//! Aligned ranges of slots, over one bit a slot.

use std::fmt;

use bitvec::vec::BitVec;

/// So many slots from the first one on: a power of two, and the first a multiple of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AlignedRange {
    first: u32,
    slots: u32,
}

impl AlignedRange {
    /// A range; `None` when the size is no power of two, or the first slot no multiple of it.
    pub const fn new(first: u32, slots: u32) -> Option<Self> {
        if slots.is_power_of_two() && first.is_multiple_of(slots) {
            Some(Self { first, slots })
        } else {
            None
        }
    }

    /// First slot.
    pub const fn first(self) -> u32 {
        self.first
    }

    /// Number of slots.
    pub const fn slots(self) -> u32 {
        self.slots
    }

    /// Its halves; `None` of a single slot.
    pub const fn halves(self) -> Option<[Self; 2]> {
        let slots = self.slots / 2;
        if slots == 0 {
            return None;
        }
        Some([Self { first: self.first, slots }, Self { first: self.first + slots, slots }])
    }

    /// The range of twice the size that it is a half of; `None` where there is none.
    pub const fn double(self) -> Option<Self> {
        match self.slots.checked_mul(2) {
            Some(slots) => Some(Self { first: self.first / slots * slots, slots }),
            None => None,
        }
    }

    /// Whether all slots of the other are its own.
    pub const fn contains(self, other: Self) -> bool {
        self.slots >= other.slots && other.first / self.slots == self.first / self.slots
    }

    /// Whether the two have a slot in common: then one contains the other.
    pub const fn overlaps(self, other: Self) -> bool {
        self.contains(other) || other.contains(self)
    }

    const fn bits(self) -> core::ops::Range<usize> {
        self.first as usize..self.first as usize + self.slots as usize
    }
}

impl fmt::Display for AlignedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, u64::from(self.first) + u64::from(self.slots))
    }
}

/// Which slots of a switch are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arena {
    taken: BitVec,
}

impl Arena {
    /// So many free slots, any number.
    pub fn new(slots: u32) -> Self {
        Self { taken: BitVec::repeat(false, slots as usize) }
    }

    /// Slots in all.
    pub fn capacity(&self) -> u32 {
        self.taken.len() as u32
    }

    /// Slots that are not taken.
    pub fn free(&self) -> u32 {
        self.taken.count_zeros() as u32
    }

    /// Whether all slots of a range exist.
    pub fn exists(&self, range: AlignedRange) -> bool {
        range.bits().end <= self.taken.len()
    }

    /// Whether a range exists and none of it is taken.
    pub fn is_free(&self, range: AlignedRange) -> bool {
        self.taken.get(range.bits()).is_some_and(|bits| bits.not_any())
    }

    /// Takes the slots of a range, those that are taken already included.
    ///
    /// # Panics
    ///
    /// When there is no such range.
    pub fn take(&mut self, range: AlignedRange) {
        self.taken[range.bits()].fill(true);
    }

    /// Takes all slots that are taken in another arena of the same size.
    pub fn take_all(&mut self, other: &Self) {
        self.taken |= other.taken.as_bitslice();
    }

    /// Makes the slots of a range free.
    ///
    /// # Panics
    ///
    /// When there is no such range.
    pub fn release(&mut self, range: AlignedRange) {
        self.taken[range.bits()].fill(false);
    }

    /// Every range of that size, free or not, lowest first.
    pub fn ranges(&self, slots: u32) -> impl Iterator<Item = AlignedRange> + use<> {
        let count = self.capacity().checked_div(slots).filter(|_| slots.is_power_of_two()).unwrap_or(0);
        (0..count).map(move |index| AlignedRange { first: index * slots, slots })
    }

    /// The free range of that size whose loss hurts least: one that lies in the smallest free range of twice the size, four
    /// times, and so on; of several the lowest.
    pub fn find(&self, slots: u32) -> Option<AlignedRange> {
        let room = |range: &AlignedRange| {
            let mut around = *range;
            while let Some(double) = around.double().filter(|double| self.is_free(*double)) {
                around = double;
            }
            around.slots
        };
        self.ranges(slots).filter(|range| self.is_free(*range)).min_by_key(room)
    }

    /// The largest free range of at most `wanted` and at least `least` slots, both powers of two.
    pub fn largest(&self, wanted: u32, least: u32) -> Option<AlignedRange> {
        let mut slots = wanted;
        while slots >= least.max(1) {
            if let Some(range) = self.find(slots) {
                return Some(range);
            }
            slots /= 2;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_smallest_gap_that_fits_is_taken() {
        let mut arena = Arena::new(64);
        let taken = AlignedRange::new(8, 8).unwrap();
        arena.take(taken);
        assert_eq!(arena.find(8), AlignedRange::new(0, 8), "the buddy of what is taken");
        assert_eq!(arena.find(16), AlignedRange::new(16, 16));
        assert_eq!(arena.largest(64, 1), AlignedRange::new(32, 32));
        arena.release(taken);
        assert_eq!(arena.largest(64, 64), AlignedRange::new(0, 64));
        assert_eq!(arena.largest(128, 128), None);
        assert_eq!(AlignedRange::new(8, 16), None);
        assert_eq!(AlignedRange::new(8, 6), None);
    }

    proptest! {
        #[test]
        fn ranges_overlap_as_their_slots_do(a in 0_u32..64, b in 0_u32..64, m in 0_u32..5, n in 0_u32..5) {
            let range = |first: u32, log: u32| AlignedRange::new(first >> log << log, 1 << log).unwrap();
            let (a, b) = (range(a, m), range(b, n));
            let both = a.bits().filter(|slot| b.bits().contains(slot)).count();
            prop_assert_eq!(a.overlaps(b), both > 0);
            prop_assert_eq!(a.contains(b), both == b.slots as usize);
            let double = a.double().unwrap();
            prop_assert!(double.contains(a) && double.halves().unwrap().contains(&a));
        }
    }
}
