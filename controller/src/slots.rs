//! Static partitions of a switch's aggregation slots: ranges whose size is a power of two and whose base is a multiple
//! of the size, so that the job table checks a packet's slot with one ternary match and `base + slot` never carries.

use bitvec::vec::BitVec;

/// A range of slots held by one job. It cannot be copied: its holder owns the slots until it is freed.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SlotRange {
    first: u32,
    slots: u32,
}

impl SlotRange {
    /// First slot of the range, a multiple of [`SlotRange::slots`].
    pub const fn first(&self) -> u32 {
        self.first
    }

    /// Number of slots, a power of two.
    pub const fn slots(&self) -> u32 {
        self.slots
    }

    const fn bits(&self) -> core::ops::Range<usize> {
        self.first as usize..(self.first + self.slots) as usize
    }
}

/// First-fit allocator of slot ranges over one bit a slot.
///
/// Determinism: the same calls in the same order give the same ranges.
#[derive(Debug)]
pub struct SlotAllocator {
    taken: BitVec,
}

impl SlotAllocator {
    /// An allocator of `slots` free slots, any number.
    pub fn new(slots: u32) -> Self {
        Self { taken: BitVec::repeat(false, slots as usize) }
    }

    /// Slots in all.
    pub fn capacity(&self) -> u32 {
        self.taken.len() as u32
    }

    /// Slots that no range holds.
    pub fn free_slots(&self) -> u32 {
        self.taken.count_zeros() as u32
    }

    /// Takes a range of at most `wanted` and at least `least` slots: the largest power of two for which an aligned
    /// free range exists, at the lowest base.
    ///
    /// Returns `None` when no such range is free, when `least` is 0 or when no power of two lies in
    /// `least..=wanted`.
    pub fn allocate(&mut self, wanted: u32, least: u32) -> Option<SlotRange> {
        let slots = self.largest(wanted, least)?;
        self.take(self.first_fit(slots)?, slots)
    }

    /// How many slots [`SlotAllocator::allocate`] would take.
    pub fn largest(&self, wanted: u32, least: u32) -> Option<u32> {
        if least == 0 || wanted < least {
            return None;
        }
        // Largest power of two that is wanted and could exist at all.
        let mut slots = 1_u32 << wanted.min(self.capacity().max(1)).ilog2();
        while slots >= least {
            if self.first_fit(slots).is_some() {
                return Some(slots);
            }
            slots /= 2;
            if slots == 0 {
                break;
            }
        }
        None
    }

    /// The lowest base of an aligned free range of `slots`, a power of two.
    pub fn first_fit(&self, slots: u32) -> Option<u32> {
        let mut bases = (0..self.capacity() / slots).map(|index| index * slots);
        bases.find(|first| self.taken[SlotRange { first: *first, slots }.bits()].not_any())
    }

    /// Takes exactly this range, if it is aligned, lies within the slots and is free.
    pub fn take(&mut self, first: u32, slots: u32) -> Option<SlotRange> {
        let end = first.checked_add(slots).filter(|end| *end <= self.capacity());
        if !slots.is_power_of_two() || !first.is_multiple_of(slots) || end.is_none() {
            return None;
        }
        let range = SlotRange { first, slots };
        if self.taken[range.bits()].any() {
            return None;
        }
        self.taken[range.bits()].fill(true);
        Some(range)
    }

    /// Gives a range back.
    ///
    /// # Panics
    /// When the range is not one that this allocator handed out and that is still held.
    pub fn free(&mut self, range: SlotRange) {
        assert!(
            range.bits().end <= self.taken.len() && self.taken[range.bits()].all(),
            "a slot range is freed once, by the allocator that handed it out"
        );
        self.taken[range.bits()].fill(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn takes_the_first_fit_and_shrinks_to_the_minimum() {
        let mut slots = SlotAllocator::new(64);
        let a = slots.allocate(16, 1).unwrap();
        let b = slots.allocate(32, 8).unwrap();
        assert_eq!((a.first(), a.slots()), (0, 16));
        assert_eq!((b.first(), b.slots()), (32, 32));
        let c = slots.allocate(64, 8).unwrap();
        assert_eq!((c.first(), c.slots()), (16, 16), "only half of a half is left");
        assert_eq!(slots.allocate(8, 1), None);
        slots.free(b);
        assert_eq!(slots.allocate(64, 64), None, "32 free slots do not make 64");
        assert_eq!(slots.free_slots(), 32);
    }

    #[test]
    fn nonsense_is_no_range() {
        let mut slots = SlotAllocator::new(8);
        assert_eq!(slots.allocate(0, 0), None);
        assert_eq!(slots.allocate(8, 0), None);
        assert_eq!(slots.allocate(4, 8), None);
        assert_eq!(slots.allocate(7, 5), None, "no power of two between 5 and 7");
        assert_eq!(SlotAllocator::new(0).allocate(1, 1), None);
        assert_eq!(slots.allocate(u32::MAX, 1).unwrap().slots(), 8);
    }

    #[test]
    #[should_panic(expected = "freed once")]
    fn a_foreign_range_is_refused() {
        let range = SlotAllocator::new(8).allocate(8, 8).unwrap();
        SlotAllocator::new(8).free(range);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Take { wanted: u32, least: u32 },
        Free(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0_u32..600, 0_u32..40).prop_map(|(wanted, least)| Step::Take { wanted, least }),
            any::<prop::sample::Index>().prop_map(Step::Free),
        ]
    }

    proptest! {
        #[test]
        fn ranges_are_aligned_disjoint_and_fully_reusable(
            capacity in 0_u32..1200,
            steps in prop::collection::vec(step(), 1..120),
        ) {
            let mut slots = SlotAllocator::new(capacity);
            let mut held: Vec<SlotRange> = Vec::new();
            for step in steps {
                match step {
                    Step::Take { wanted, least } => {
                        let before = slots.free_slots();
                        if let Some(range) = slots.allocate(wanted, least) {
                            prop_assert!(range.slots().is_power_of_two());
                            prop_assert!((least..=wanted).contains(&range.slots()));
                            prop_assert_eq!(range.first() % range.slots(), 0);
                            prop_assert!(range.first() + range.slots() <= capacity);
                            for other in &held {
                                prop_assert!(range.first() + range.slots() <= other.first()
                                    || other.first() + other.slots() <= range.first());
                            }
                            prop_assert_eq!(slots.free_slots(), before - range.slots());
                            held.push(range);
                        } else if least > 0 && least <= wanted && least.is_power_of_two() {
                            // Refused: then no aligned range of the least size is free.
                            for first in (0..capacity / least).map(|index| index * least) {
                                prop_assert!(held.iter().any(|other| first < other.first() + other.slots()
                                    && other.first() < first + least));
                            }
                        }
                    }
                    Step::Free(index) if !held.is_empty() => slots.free(held.swap_remove(index.index(held.len()))),
                    Step::Free(_) => {}
                }
            }
            held.into_iter().for_each(|range| slots.free(range));
            prop_assert_eq!(slots.free_slots(), capacity);
            if capacity > 0 {
                let most = 1 << capacity.ilog2();
                prop_assert_eq!(slots.allocate(u32::MAX, most).map(|range| range.slots()), Some(most));
            }
        }
    }
}
