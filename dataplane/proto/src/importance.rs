//! Which of an operation's packet classes a chunk is sent in: by the size of its block, compared with recent ones.
//!
//! The size is the agreed exponent of the block, the largest of all ranks. All ranks have the same one, so they send a chunk in the same class
//! but for a few chunks while their histories differ, and no chunk waits for a rank to which it seems small. The class of a packet affects that
//! packet alone.
//!
//! The blocks of the last few thousand chunks are divided into as many parts of equal number as there are importance classes, smallest
//! first. Blocks of the same exponent that a boundary divides are spread by their position in the stream, so each class has its part of the
//! chunks however few exponents occur.

/// Most importance classes of an operation: as many as a switch's port has queues.
pub const IMPORTANCE_MAX: u8 = 8;

/// Blocks after which the counts are halved: the extent of "recent".
const MEMORY: u32 = 4096;

/// 2^32 divided by the golden ratio: multiples of it are spread evenly.
const GOLDEN: u32 = 0x9e37_79b9;

/// The packet classes over which the chunks of an operation are spread, by the size of their blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Importance {
    classes: u8,
    span: u8,
}

impl Importance {
    /// All chunks are sent in one class.
    pub const NONE: Self = Self { classes: 1, span: 1 };

    /// `classes` importance classes, 1 to [`IMPORTANCE_MAX`], spread evenly over `span` packet classes, 1 or more. Where `span` is smaller,
    /// adjacent importance classes have the same packet class. `None` for numbers out of range.
    pub const fn new(classes: u8, span: u8) -> Option<Self> {
        if classes == 0 || classes > IMPORTANCE_MAX || span == 0 || span > netfold_wire::CLASSES_MAX {
            return None;
        }
        Some(Self { classes, span })
    }

    /// The number of importance classes.
    pub const fn classes(self) -> u8 {
        self.classes
    }

    /// The number of packet classes.
    pub const fn span(self) -> u8 {
        self.span
    }

    /// The packet class of an importance class, counted from the operation's lowest.
    const fn class_of(self, importance: u8) -> u8 {
        // At most 7 * 16.
        importance * self.span / self.classes
    }

    /// The packet class of chunks that have no block, or precede others: descriptors, look-ahead, blocks that are not finite, repeated chunks.
    pub(crate) const fn highest(self) -> u8 {
        self.class_of(self.classes - 1)
    }
}

/// Counts of recent block exponents.
#[derive(Debug)]
pub(crate) struct Magnitudes {
    counts: Box<[u32; 256]>,
    total: u32,
    /// Blocks of smaller exponents, for each exponent and the end, when they were last summed.
    below: Box<[u32; 257]>,
    /// Blocks since then.
    since: u32,
}

impl Default for Magnitudes {
    fn default() -> Self {
        Self { counts: Box::new([0; 256]), total: 0, below: Box::new([0; 257]), since: 0 }
    }
}

impl Magnitudes {
    /// Counts a block by its exponent; the packet class of its chunk, counted from the operation's lowest. `position` is the chunk's in the
    /// stream.
    pub(crate) fn classify(&mut self, importance: Importance, exponent: u8, position: u64) -> u8 {
        self.count(exponent);
        let exponent = usize::from(exponent);
        let (below, up_to) = (u64::from(self.below[exponent]), u64::from(self.below[exponent + 1]));
        let spread = u64::from((position as u32).wrapping_mul(GOLDEN));
        // All factors are below 2^13 but for 2^32, and `spread` below that; so is the quotient below 2^32.
        let place = ((below << 32) + (up_to - below) * spread) / u64::from(self.below[256].max(1));
        let part = (place.min(u64::from(u32::MAX)) * u64::from(importance.classes)) >> 32;
        importance.class_of(part as u8)
    }

    fn count(&mut self, exponent: u8) {
        self.counts[usize::from(exponent)] += 1;
        self.total += 1;
        self.since += 1;
        // Summed again whenever an eighth has been added.
        if self.since * 8 >= self.total {
            self.since = 0;
            let mut below = 0;
            for (sum, count) in self.below.iter_mut().zip(std::iter::once(&0).chain(self.counts.iter())) {
                below += count;
                *sum = below;
            }
        }
        if self.total >= MEMORY {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::Xoshiro256PlusPlus;
    use rand::{RngExt, SeedableRng};

    use super::*;

    /// The classes of blocks whose exponents are a constant plus the number of coins that came up heads in a row.
    fn classes(seed: u64, importance: Importance, halving: bool) -> (Vec<u32>, Vec<[u8; 2]>) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut magnitudes = Magnitudes::default();
        let mut shares = vec![0; usize::from(importance.span())];
        let mut extremes = vec![[u8::MAX, 0]; 256];
        for position in 0..40_000_u64 {
            let exponent = match halving {
                true => 90 + rng.random::<u64>().trailing_ones() as u8,
                false => rng.random_range(100..=131),
            };
            let class = magnitudes.classify(importance, exponent, position);
            if position >= 8_000 {
                shares[usize::from(class)] += 1;
                let [low, high] = &mut extremes[usize::from(exponent)];
                (*low, *high) = ((*low).min(class), (*high).max(class));
            }
        }
        (shares, extremes)
    }

    #[test]
    fn each_class_has_its_share_and_larger_blocks_have_no_lower_class() {
        for seed in 0..20 {
            for count in 1..=IMPORTANCE_MAX {
                let importance = Importance::new(count, count).expect("in range");
                let (shares, extremes) = classes(seed, importance, seed % 2 == 0);
                let fair = 32_000 / u32::from(count);
                for share in &shares {
                    assert!(share.abs_diff(fair) <= fair / 8, "seed {seed}, {count} classes: {shares:?}");
                }
                let seen: Vec<_> = extremes.iter().filter(|[low, high]| low <= high).collect();
                for pair in seen.windows(2) {
                    // Counts vary, and so do boundaries, by less than a class.
                    assert!(pair[0][1] <= pair[1][0] + 1, "seed {seed}, {count} classes: {seen:?}");
                    assert!(pair[0][0] <= pair[1][0] && pair[0][1] <= pair[1][1], "seed {seed}: {seen:?}");
                }
            }
        }
    }

    #[test]
    fn importance_classes_are_spread_over_packet_classes() {
        let spread = |classes, span| {
            let importance = Importance::new(classes, span).expect("in range");
            (0..classes).map(|part| importance.class_of(part)).collect::<Vec<_>>()
        };
        assert_eq!(spread(1, 16), [0]);
        assert_eq!(spread(4, 16), [0, 4, 8, 12]);
        assert_eq!(spread(8, 16), [0, 2, 4, 6, 8, 10, 12, 14]);
        assert_eq!(spread(8, 4), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(spread(3, 4), [0, 1, 2]);
        for (classes, span) in [(0, 1), (9, 16), (1, 0), (1, 17), (255, 255)] {
            assert_eq!(Importance::new(classes, span), None);
        }
    }

    #[test]
    fn blocks_of_one_exponent_are_spread_and_what_was_usual_becomes_large() {
        let importance = Importance::new(4, 4).expect("in range");
        let mut magnitudes = Magnitudes::default();
        let mut shares = [0; 4];
        (0..10_000).for_each(|at| shares[usize::from(magnitudes.classify(importance, 120, at))] += 1);
        assert!(shares.iter().all(|share| (2_400..2_600).contains(share)), "{shares:?}");
        for at in 0..4 * u64::from(MEMORY) {
            magnitudes.classify(importance, 100, at);
        }
        assert!((0..4).all(|at| magnitudes.classify(importance, 120, at) == 3));
        let mut any = Magnitudes::default();
        for at in 0..100_000 {
            assert!(any.classify(importance, (at % 256) as u8, at) < 4);
        }
    }
}
