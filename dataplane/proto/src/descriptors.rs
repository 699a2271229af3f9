//! How ranks find out, in one chunk, that all of them submitted the same operation.
//!
//! The lanes of a descriptor chunk are summed like any others. Where two words for each rank fit, the sum is the table of
//! all ranks' descriptors, and the first row that differs names its rank. In larger worlds every rank writes the same
//! words: [`DIGEST_WORDS`] hashes of its descriptor. If all are the same, each word of the sum is the world size times a
//! rank's own; a difference shows in at least one of them but by a chance of less than 2^-100.

use crate::op::Descriptor;

/// Hashes of a descriptor that a rank sends in a world too large for a table.
const DIGEST_WORDS: u32 = 8;

/// Bytes of a row of the table: two words.
const ROW: usize = 8;

/// Which form a job's descriptor chunks have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Descriptors {
    world: u16,
    table: bool,
}

/// What a descriptor chunk's sum says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Every rank submitted this operation.
    Same,
    /// Some rank submitted another.
    Differs {
        /// The first such rank, where the chunk tells.
        rank: Option<u16>,
        /// What it submitted, where that can be read.
        theirs: Option<Descriptor>,
    },
}

impl Descriptors {
    pub(crate) fn new(world: u16, lane_words: u32) -> Self {
        Self { world, table: 2 * u32::from(world) <= lane_words }
    }

    /// Writes a rank's share of a descriptor chunk over all of `lanes`.
    pub(crate) fn write(&self, rank: u16, descriptor: Descriptor, lanes: &mut [u8]) {
        lanes.fill(0);
        if self.table {
            let row = &mut lanes[ROW * usize::from(rank)..][..ROW];
            for (bytes, word) in row.chunks_exact_mut(4).zip(descriptor.to_words()) {
                bytes.copy_from_slice(&word.to_be_bytes());
            }
        } else {
            for (bytes, index) in lanes.chunks_exact_mut(4).zip(0..DIGEST_WORDS) {
                bytes.copy_from_slice(&digest(descriptor, index).to_be_bytes());
            }
        }
    }

    /// Judges the sum of all ranks' shares by this rank's descriptor.
    pub(crate) fn compare(&self, mine: Descriptor, lanes: &[u8]) -> Verdict {
        let mut words =
            lanes.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
        if self.table {
            for rank in 0..self.world {
                let row = [words.next().unwrap_or(0), words.next().unwrap_or(0)];
                if row != mine.to_words() {
                    return Verdict::Differs { rank: Some(rank), theirs: Descriptor::from_words(row) };
                }
            }
            return Verdict::Same;
        }
        let world = u32::from(self.world);
        let same =
            words.zip(0..DIGEST_WORDS).all(|(sum, index)| sum == digest(mine, index).wrapping_mul(world));
        if same { Verdict::Same } else { Verdict::Differs { rank: None, theirs: None } }
    }
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
    use crate::op::OpKind;
    use proptest::prelude::*;

    fn broadcast(root: u16, elements: u64) -> Descriptor {
        Descriptor { kind: OpKind::Broadcast, root, elements, ..Descriptor::BARRIER }
    }

    fn sum(form: Descriptors, lane_words: usize, shares: impl Iterator<Item = Descriptor>) -> Vec<u8> {
        let mut sum = vec![0_u32; lane_words];
        let mut lanes = vec![0xa5; 4 * lane_words];
        for (rank, descriptor) in shares.enumerate() {
            form.write(rank as u16, descriptor, &mut lanes);
            for (sum, word) in sum.iter_mut().zip(lanes.chunks_exact(4)) {
                *sum = sum.wrapping_add(u32::from_be_bytes(word.try_into().unwrap()));
            }
        }
        sum.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn a_table_names_the_first_that_differs_and_a_digest_nobody() {
        for (world, lane_words, table) in [
            (1, 16, true),
            (8, 16, true),
            (9, 16, false),
            (32, 64, true),
            (33, 64, false),
            (32768, 2048, false),
        ] {
            let form = Descriptors::new(world, lane_words);
            assert_eq!(form.table, table, "{world} workers, {lane_words} words");
            let mine = broadcast(world - 1, 1 << 35);
            let same = sum(form, lane_words as usize, (0..world).map(|_| mine));
            assert_eq!(form.compare(mine, &same), Verdict::Same);
            let theirs = broadcast(world - 1, 1 << 34);
            let odd = world / 2;
            let mixed = sum(
                form,
                lane_words as usize,
                (0..world).map(|rank| if rank == odd { theirs } else { mine }),
            );
            let named = |rank, theirs: Option<Descriptor>| Verdict::Differs {
                rank: table.then_some(rank),
                theirs: theirs.filter(|_| table),
            };
            assert_eq!(form.compare(mine, &mixed), named(odd, Some(theirs)));
            let first = if odd == 0 { Verdict::Same } else { named(0, Some(mine)) };
            assert_eq!(form.compare(theirs, &mixed), first);
        }
    }

    proptest! {
        /// However many ranks differ, and powers of two are the hardest, both sides see it.
        #[test]
        fn digests_tell_operations_apart(a in 0u64..1 << 36, bit in 0u32..36, shift in 0u32..15) {
            let form = Descriptors::new(1 << 15, 16);
            let (mine, theirs) = (broadcast(3, a), broadcast(3, a ^ 1 << bit));
            let others = 1u32 << shift;
            let lanes: Vec<u8> = (0..16).flat_map(|index| {
                let hash = |descriptor| if index < DIGEST_WORDS { digest(descriptor, index) } else { 0 };
                let sum = hash(mine).wrapping_mul((1 << 15) - others).wrapping_add(hash(theirs).wrapping_mul(others));
                sum.to_be_bytes()
            }).collect();
            prop_assert_ne!(form.compare(mine, &lanes), Verdict::Same);
            prop_assert_ne!(form.compare(theirs, &lanes), Verdict::Same);
        }
    }
}
