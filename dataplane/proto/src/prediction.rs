//! Exponents predicted from earlier operations, so that a small tensor takes one round trip.
//!
//! The data chunks of a small operation are sent together with its descriptor, by the exponents that an earlier operation of the same
//! descriptor agreed on. Each proposes this rank's own exponent of the same chunk, so its result carries the exponent that look-ahead would
//! have agreed on. The descriptor chunk has, for each data chunk, the sum of all ranks' predictions and that of their squares:
//!
//! ```text
//! sum (e_r - e)^2  =  sum e_r^2  -  2 e sum e_r  +  N e^2
//! ```
//!
//! is 0 where the sums are `N e` and `N e^2`, so then every rank has used `e`. Neither sum leaves 32 bits: `2^15 ranks x 254^2 < 2^31`.
//! A result is delivered if every rank has used the exponent that it carries; otherwise the chunk is repeated by that exponent. What a rank
//! predicts is thus its own matter: it changes when a result is there, and never which.

use crate::Descriptor;

/// Most data chunks of an operation whose exponents are predicted.
pub const PREDICTED_CHUNKS_MAX: usize = 8;

/// Instead of a predicted exponent: the rank has none, and sends the header alone.
pub(crate) const NONE: u8 = 255;

/// Words of a descriptor chunk for each data chunk: the two sums.
pub(crate) const WORDS_PER_CHUNK: usize = 2;

/// Operations whose exponents are remembered.
const REMEMBERED: usize = 64;

/// Exponents of the data chunks of one operation, in the order of the stream.
pub(crate) type Exponents = [u8; PREDICTED_CHUNKS_MAX];

/// The predictions of one operation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Prediction {
    /// Made; what follows is meaningful.
    made: bool,
    /// What this rank knows the tensor by.
    key: u64,
    /// This rank's own exponents.
    own: Exponents,
    /// The exponents that this rank uses, or [`NONE`].
    used: Exponents,
    /// Bit `j`: all ranks use the same exponent of data chunk `j`. Known with the descriptor's result.
    alike: u8,
}

impl Prediction {
    pub(crate) fn is_made(&self) -> bool {
        self.made
    }

    /// Predicts what was `remembered`, where this rank's blocks fit.
    pub(crate) fn make(&mut self, key: u64, own: Exponents, remembered: Option<Exponents>) {
        let fit = |chunk: usize| match remembered.map_or(NONE, |exponents| exponents[chunk]) {
            exp if exp >= own[chunk] => exp,
            _ => NONE,
        };
        *self = Self { made: true, key, own, used: std::array::from_fn(fit), alike: 0 };
    }

    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    /// This rank's own exponent of a data chunk.
    pub(crate) fn own(&self, chunk: u32) -> u8 {
        self.own[chunk as usize % PREDICTED_CHUNKS_MAX]
    }

    /// The exponent that this rank uses, or [`NONE`].
    pub(crate) fn used(&self, chunk: u32) -> u8 {
        self.used[chunk as usize % PREDICTED_CHUNKS_MAX]
    }

    /// Whether all ranks are known to use the same exponent.
    pub(crate) fn is_alike(&self, chunk: u32) -> bool {
        self.alike >> (chunk as usize % PREDICTED_CHUNKS_MAX) & 1 == 1
    }

    /// Writes this rank's part of the sums of `chunks` data chunks to the words of a descriptor chunk that are theirs.
    pub(crate) fn write(&self, chunks: u32, lanes: &mut [u8]) {
        let words = self.used[..chunks as usize].iter().flat_map(|exp| sums(*exp, 1));
        for (bytes, word) in lanes.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_be_bytes());
        }
    }

    /// Reads the sums of all ranks of a job of `world`.
    pub(crate) fn compare(&mut self, chunks: u32, world: u16, lanes: &[u8]) {
        let mut words =
            lanes.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
        for (chunk, exp) in self.used[..chunks as usize].iter().enumerate() {
            let same = [words.next(), words.next()] == sums(*exp, world).map(Some);
            self.alike |= u8::from(same && *exp != NONE) << chunk;
        }
    }
}

/// What the two sums are where `ranks` ranks use `exp`.
fn sums(exp: u8, ranks: u16) -> [u32; WORDS_PER_CHUNK] {
    let exp = u32::from(exp);
    [exp * u32::from(ranks), exp * exp * u32::from(ranks)]
}

/// The agreed exponents of recent operations, by descriptor and tensor. Nothing is allocated after its creation.
#[derive(Debug)]
pub(crate) struct History {
    entries: Box<[Remembered]>,
    /// How many of them are in use.
    used: usize,
    clock: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Remembered {
    descriptor: [u32; 2],
    key: u64,
    exponents: Exponents,
    /// When it was written.
    at: u64,
}

impl Default for History {
    fn default() -> Self {
        Self { entries: vec![Remembered::default(); REMEMBERED].into(), used: 0, clock: 0 }
    }
}

impl History {
    /// The exponents of the tensor's last operation of this descriptor; if there is none, those of the last operation of this descriptor.
    pub(crate) fn recall(&self, descriptor: Descriptor, key: u64) -> Option<Exponents> {
        let words = descriptor.to_words();
        let same = self.entries[..self.used].iter().filter(|entry| entry.descriptor == words);
        let entry = same.max_by_key(|entry| (entry.key == key, entry.at))?;
        Some(entry.exponents)
    }

    /// Remembers what an operation agreed on, instead of what was written longest ago.
    pub(crate) fn remember(&mut self, descriptor: Descriptor, key: u64, exponents: Exponents) {
        self.clock += 1;
        let words = descriptor.to_words();
        let entries = &mut self.entries[..self.used];
        let known = entries.iter_mut().find(|entry| entry.descriptor == words && entry.key == key);
        let remembered = Remembered { descriptor: words, key, exponents, at: self.clock };
        if let Some(entry) = known {
            *entry = remembered;
        } else if self.used < REMEMBERED {
            self.entries[self.used] = remembered;
            self.used += 1;
        } else if let Some(oldest) = self.entries.iter_mut().min_by_key(|entry| entry.at) {
            *oldest = remembered;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn made(used: u8) -> Prediction {
        let mut prediction = Prediction::default();
        prediction.make(0, [0; PREDICTED_CHUNKS_MAX], Some([used; PREDICTED_CHUNKS_MAX]));
        prediction
    }

    /// The fold of all ranks' words, as a switch computes it.
    fn fold(predictions: &[Prediction]) -> Vec<u8> {
        let mut sum = [0_u32; WORDS_PER_CHUNK];
        for prediction in predictions {
            let mut lanes = [0; 4 * WORDS_PER_CHUNK];
            prediction.write(1, &mut lanes);
            for (sum, word) in sum.iter_mut().zip(lanes.as_chunks::<4>().0) {
                *sum = sum.wrapping_add(u32::from_be_bytes(*word));
            }
        }
        sum.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn all_find_alike(used: &[u8]) -> Vec<bool> {
        let mut predictions: Vec<_> = used.iter().map(|exp| made(*exp)).collect();
        let sums = fold(&predictions);
        for prediction in &mut predictions {
            prediction.compare(1, used.len() as u16, &sums);
        }
        predictions.iter().map(|prediction| prediction.is_alike(0)).collect()
    }

    #[test]
    fn the_largest_world_stays_in_the_range() {
        let ranks = usize::from(netfold_wire::WORLD_MAX);
        assert!(all_find_alike(&vec![254; ranks]).iter().all(|alike| *alike));
        let mut used = vec![254; ranks];
        used[7] = 253;
        assert!(!all_find_alike(&used).iter().any(|alike| *alike));
        assert!(!all_find_alike(&vec![NONE; ranks]).iter().any(|alike| *alike), "without a prediction");
    }

    #[test]
    fn equal_sums_of_different_exponents_are_found_by_their_squares() {
        assert_eq!(all_find_alike(&[100, 102, 101]), [false; 3]);
        assert_eq!(all_find_alike(&[101, 101, 101]), [true; 3]);
        assert_eq!(all_find_alike(&[0, 0]), [true; 2]);
    }

    #[test]
    fn blocks_that_do_not_fit_are_not_predicted() {
        let mut prediction = Prediction::default();
        let own = [7, 9, NONE, 7, 0, 0, 0, 0];
        prediction.make(3, own, Some([7, 8, 8, NONE, 0, 0, 0, 0]));
        assert_eq!(prediction.used[..5], [7, NONE, NONE, NONE, 0]);
        assert_eq!((prediction.key(), prediction.own(2), prediction.is_made()), (3, NONE, true));
        prediction.make(3, own, None);
        assert_eq!(prediction.used, [NONE; PREDICTED_CHUNKS_MAX]);
    }

    #[test]
    fn a_tensor_has_a_history_of_its_own() {
        let descriptor = |elements| Descriptor { elements, ..Descriptor::BARRIER };
        let mut history = History::default();
        assert_eq!(history.recall(descriptor(1), 5), None);
        history.remember(descriptor(1), 5, [5; PREDICTED_CHUNKS_MAX]);
        history.remember(descriptor(1), 6, [6; PREDICTED_CHUNKS_MAX]);
        history.remember(descriptor(2), 5, [7; PREDICTED_CHUNKS_MAX]);
        assert_eq!(history.recall(descriptor(1), 5), Some([5; PREDICTED_CHUNKS_MAX]));
        assert_eq!(history.recall(descriptor(1), 9), Some([6; PREDICTED_CHUNKS_MAX]), "the last one's");
        history.remember(descriptor(1), 5, [8; PREDICTED_CHUNKS_MAX]);
        assert_eq!(history.recall(descriptor(1), 5), Some([8; PREDICTED_CHUNKS_MAX]));
        for key in 0..REMEMBERED as u64 {
            history.remember(descriptor(3), key, [key as u8; PREDICTED_CHUNKS_MAX]);
        }
        assert_eq!(history.recall(descriptor(2), 5), None, "the oldest are forgotten");
        assert_eq!(history.recall(descriptor(3), 1), Some([1; PREDICTED_CHUNKS_MAX]));
    }

    proptest! {
        /// All ranks find the same, and that is whether they have predicted the same.
        #[test]
        fn ranks_find_alike_what_is_alike(used in proptest::collection::vec(prop_oneof![0u8..=255, 100u8..103], 1..40)) {
            let alike = used.iter().all(|exp| *exp == used[0] && *exp != NONE);
            prop_assert_eq!(all_find_alike(&used), vec![alike; used.len()]);
        }
    }
}
