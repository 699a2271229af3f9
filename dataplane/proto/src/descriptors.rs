//! How ranks verify, in one chunk, that all of them submitted the same operation.
//!
//! Where two words for each rank fit, every rank writes its own and zeros elsewhere: the fold is the table of all ranks'
//! descriptors, and the first row that differs names its rank. In larger worlds every rank writes the same words:
//!
//! - Where words are summed as they are, [`DIGEST_WORDS`] hashes of its descriptor. If all are the same, each word of the
//!   sum is the world size times a rank's own; a difference shows in at least one of them except with a probability of less than
//!   2^-100.
//! - At a switch with other numerics, its descriptor and that with all bits inverted, of which the switch keeps the largest:
//!   lane by lane, all are the same if the largest is a rank's own in both.
//!
//! The lanes are folded by the operation that carries bits unchanged: the sum, or the maximum where lanes are converted
//! before they are summed. A word that saturates is one that has no other rank's bits added.

use netfold_wire::{LaneOp, Numerics};

use crate::op::Descriptor;
use crate::prediction::{PREDICTED_CHUNKS_MAX, WORDS_PER_CHUNK};

/// Hashes of a descriptor that a rank sends in a world too large for a table.
const DIGEST_WORDS: usize = 8;

/// Bytes of a row of the table: two words.
const ROW: usize = 8;

/// What the words of a descriptor chunk hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DescriptorLayout {
    /// A row for each rank.
    Table,
    /// Hashes.
    Digest,
    /// The descriptor and its inverse.
    Extremes,
}

/// Which form a job's descriptor chunks have, and how they are folded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Descriptors {
    world: u16,
    form: DescriptorLayout,
    lane_op: LaneOp,
}

/// The outcome of comparing descriptors.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DescriptorMatch {
    /// Every rank submitted this operation.
    Same,
    /// Some rank submitted another.
    Differs {
        /// The first such rank, where the chunk identifies it.
        rank: Option<u16>,
        /// What it submitted, where that can be read.
        theirs: Option<Descriptor>,
    },
}

impl Descriptors {
    pub(crate) fn new(world: u16, lane_words: u32, numerics: Numerics) -> Self {
        let form = match numerics {
            _ if 2 * u32::from(world) <= lane_words => DescriptorLayout::Table,
            Numerics::Word => DescriptorLayout::Digest,
            _ => DescriptorLayout::Extremes,
        };
        let lane_op = if form == DescriptorLayout::Extremes { LaneOp::Max } else { numerics.carrier() };
        Self { world, form, lane_op }
    }

    /// Where the words of predictions begin, in bytes of lanes: behind the descriptors.
    pub(crate) fn predictions_at(&self) -> usize {
        match self.form {
            DescriptorLayout::Table => ROW * usize::from(self.world),
            DescriptorLayout::Digest | DescriptorLayout::Extremes => 4 * DIGEST_WORDS,
        }
    }

    /// Of how many data chunks the predictions fit behind the descriptors, at most [`PREDICTED_CHUNKS_MAX`]. None where bits are not summed.
    pub(crate) fn predictions_max(&self, lane_words: u32) -> usize {
        let room = (4 * lane_words as usize).saturating_sub(self.predictions_at()) / (4 * WORDS_PER_CHUNK);
        if self.lane_op == LaneOp::Sum { room.min(PREDICTED_CHUNKS_MAX) } else { 0 }
    }

    /// How the switch folds descriptor chunks.
    pub(crate) fn lane_op(&self) -> LaneOp {
        self.lane_op
    }

    /// Writes a rank's contribution to a descriptor chunk over all of `lanes`.
    pub(crate) fn write(&self, rank: u16, descriptor: Descriptor, lanes: &mut [u8]) {
        lanes.fill(0);
        let own = |lanes: &mut [u8], words: &[u32]| {
            for (bytes, word) in lanes.chunks_exact_mut(4).zip(words) {
                bytes.copy_from_slice(&word.to_be_bytes());
            }
        };
        match self.form {
            DescriptorLayout::Table => own(&mut lanes[ROW * usize::from(rank)..], &descriptor.to_words()),
            DescriptorLayout::Digest => {
                let words: [u32; DIGEST_WORDS] =
                    std::array::from_fn(|index| digest(descriptor, index as u32));
                own(lanes, &words);
            }
            DescriptorLayout::Extremes => own(lanes, &extremes(descriptor)),
        }
    }

    /// Compares the fold of all ranks' contributions with this rank's descriptor.
    pub(crate) fn compare(&self, mine: Descriptor, lanes: &[u8]) -> DescriptorMatch {
        let mut words =
            lanes.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
        let same = match self.form {
            DescriptorLayout::Table => {
                for rank in 0..self.world {
                    let row = [words.next().unwrap_or(0), words.next().unwrap_or(0)];
                    if row != mine.to_words() {
                        return DescriptorMatch::Differs {
                            rank: Some(rank),
                            theirs: Descriptor::from_words(row),
                        };
                    }
                }
                true
            }
            DescriptorLayout::Digest => {
                let world = u32::from(self.world);
                (0..DIGEST_WORDS as u32)
                    .all(|index| words.next() == Some(digest(mine, index).wrapping_mul(world)))
            }
            DescriptorLayout::Extremes => extremes(mine).iter().all(|word| words.next() == Some(*word)),
        };
        if same { DescriptorMatch::Same } else { DescriptorMatch::Differs { rank: None, theirs: None } }
    }
}

/// A descriptor's words, then the same inverted.
fn extremes(descriptor: Descriptor) -> [u32; 4] {
    let [low, word] = descriptor.to_words();
    [low, word, !low, !word]
}

/// Hash number `index` of a descriptor: a finaliser of MurmurHash3 (`fmix64`) over its words, with another start for each
/// number, of which the upper half counts.
fn digest(descriptor: Descriptor, index: u32) -> u32 {
    let [low, word] = descriptor.to_words();
    let mut hash = u64::from(index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^= u64::from(word) << 32 | u64::from(low);
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ hash >> 33).wrapping_mul(factor);
    }
    ((hash ^ hash >> 33) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use netfold_wire::Collective;
    use proptest::prelude::*;

    fn broadcast(root: u16, elements: u64) -> Descriptor {
        Descriptor { collective: Collective::Broadcast { root }, elements, ..Descriptor::BARRIER }
    }

    fn sum(form: Descriptors, lane_words: usize, contributions: impl Iterator<Item = Descriptor>) -> Vec<u8> {
        let mut sum = vec![0_u32; lane_words];
        let mut lanes = vec![0xa5; 4 * lane_words];
        for (rank, descriptor) in contributions.enumerate() {
            form.write(rank as u16, descriptor, &mut lanes);
            for (sum, word) in sum.iter_mut().zip(lanes.chunks_exact(4)) {
                *sum = sum.wrapping_add(u32::from_be_bytes(word.try_into().unwrap()));
            }
        }
        sum.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn a_table_identifies_the_first_different_rank_and_a_digest_none() {
        for (world, lane_words, table) in [
            (1, 16, true),
            (8, 16, true),
            (9, 16, false),
            (32, 64, true),
            (33, 64, false),
            (32768, 2048, false),
        ] {
            let form = Descriptors::new(world, lane_words, Numerics::Word);
            assert_eq!(form.form == DescriptorLayout::Table, table, "{world} workers, {lane_words} words");
            let mine = broadcast(world - 1, 1 << 35);
            let same = sum(form, lane_words as usize, (0..world).map(|_| mine));
            assert_eq!(form.compare(mine, &same), DescriptorMatch::Same);
            let theirs = broadcast(world - 1, 1 << 34);
            let odd = world / 2;
            let mixed = sum(
                form,
                lane_words as usize,
                (0..world).map(|rank| if rank == odd { theirs } else { mine }),
            );
            let named = |rank, theirs: Option<Descriptor>| DescriptorMatch::Differs {
                rank: table.then_some(rank),
                theirs: theirs.filter(|_| table),
            };
            assert_eq!(form.compare(mine, &mixed), named(odd, Some(theirs)));
            let first = if odd == 0 { DescriptorMatch::Same } else { named(0, Some(mine)) };
            assert_eq!(form.compare(theirs, &mixed), first);
        }
    }

    /// The switch's fold of the ranks' contributions, by the rules of its numerics (docs/numerics.md).
    fn folded(numerics: Numerics, form: Descriptors, contributions: &[Descriptor]) -> Vec<u8> {
        let mut fold = vec![0_u8; 64];
        let mut lanes = vec![0xa5; 64];
        for (rank, descriptor) in contributions.iter().enumerate() {
            form.write(rank as u16, *descriptor, &mut lanes);
            for (fold, lane) in fold.chunks_exact_mut(4).zip(lanes.chunks_exact(4)) {
                let [old, new] = [&*fold, lane].map(|bytes| u32::from_be_bytes(bytes.try_into().unwrap()));
                let word = match (form.lane_op(), numerics) {
                    (LaneOp::Sum, Numerics::Word) => old.wrapping_add(new),
                    (LaneOp::Sum, Numerics::Saturating) => {
                        old.cast_signed().saturating_add(new.cast_signed()).cast_unsigned()
                    }
                    (LaneOp::Max, Numerics::Saturating) => {
                        // The first contribution overwrites the slot.
                        let old = if rank == 0 { i32::MIN } else { old.cast_signed() };
                        old.max(new.cast_signed()).cast_unsigned()
                    }
                    (LaneOp::Max, Numerics::Float) => old.max(new),
                    (LaneOp::Max, Numerics::Wide | Numerics::Half) => {
                        (old >> 16).max(new >> 16) << 16 | (old & 0xffff).max(new & 0xffff)
                    }
                    other => panic!("descriptors are not folded by {other:?}"),
                };
                fold.copy_from_slice(&word.to_be_bytes());
            }
        }
        fold
    }

    #[test]
    fn every_numerics_carries_descriptors() {
        // Elements whose low word is an end of the range of a saturating word, and such that differ in either half.
        for elements in [i32::MIN as u32 as u64, i32::MAX as u64, 0, 0x1_0001, 0xffff_0000] {
            let mine = broadcast(0, elements);
            for (numerics, world) in
                Numerics::ALL.iter().flat_map(|numerics| [(*numerics, 8), (*numerics, 9)])
            {
                let form = Descriptors::new(world, 16, numerics);
                let same = vec![mine; world.into()];
                assert_eq!(
                    form.compare(mine, &folded(numerics, form, &same)),
                    DescriptorMatch::Same,
                    "{numerics}"
                );
                for bit in 0..36 {
                    let mut contributions = same.clone();
                    contributions[3].elements ^= 1 << bit;
                    let fold = folded(numerics, form, &contributions);
                    let table = world == 8;
                    assert_eq!(
                        form.compare(mine, &fold),
                        DescriptorMatch::Differs {
                            rank: table.then_some(3),
                            theirs: table.then_some(contributions[3])
                        },
                        "{numerics} {world} {bit}"
                    );
                    assert_ne!(form.compare(contributions[3], &fold), DescriptorMatch::Same);
                }
            }
        }
    }

    proptest! {
        /// However many ranks differ, and powers of two are the hardest, both sides see it.
        #[test]
        fn digests_distinguish_operations(a in 0u64..1 << 36, bit in 0u32..36, shift in 0u32..15) {
            let form = Descriptors::new(1 << 15, 16, Numerics::Word);
            let (mine, theirs) = (broadcast(3, a), broadcast(3, a ^ 1 << bit));
            let others = 1u32 << shift;
            let lanes: Vec<u8> = (0..16).flat_map(|index| {
                let hash = |descriptor| if index < DIGEST_WORDS as u32 { digest(descriptor, index) } else { 0 };
                let sum = hash(mine).wrapping_mul((1 << 15) - others).wrapping_add(hash(theirs).wrapping_mul(others));
                sum.to_be_bytes()
            }).collect();
            prop_assert_ne!(form.compare(mine, &lanes), DescriptorMatch::Same);
            prop_assert_ne!(form.compare(theirs, &lanes), DescriptorMatch::Same);
        }
    }
}
