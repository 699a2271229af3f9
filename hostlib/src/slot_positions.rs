//! What remains to be done when a switch is lost in the middle of an operation.
//!
//! Every slot steps through its own positions of the stream, and a worker sends position `p + W` only after it has the
//! result of `p`. A result needs every worker's contribution, so the positions of one slot differ by at most one step between
//! workers: those ahead hold the result of the position at which the others are. All ranks exchange their slot positions, and all draw the
//! same conclusions:
//!
//! - a position below all ranks' is done on every rank;
//! - the one position that some have passed and others have not must be passed on by a rank that has its result;
//! - no rank has the result of the foremost rank's position or a later one, so all still have their inputs.
//!
//! Ranks that are ahead may have given the tensor back already; [`RetainedResults`] keeps copies of the newest results for them.

use netfold_wire::{DType, ReduceOp};

use crate::error::Error;

/// The positions of this rank's slots: for each, the first one whose result it lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlotPositions(Vec<u64>);

impl SlotPositions {
    /// From the positions of slots 0, 1 and so on.
    pub(crate) fn new(positions: impl Iterator<Item = u64>) -> Self {
        Self(positions.collect())
    }

    /// Eight bytes a slot, big-endian.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|position| position.to_be_bytes()).collect()
    }

    /// The positions of `slots` slots that another rank has sent.
    pub(crate) fn from_bytes(bytes: &[u8], slots: usize) -> Option<Self> {
        if bytes.len() != slots * 8 {
            return None;
        }
        let positions = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_be_bytes(*bytes));
        Some(Self(positions.collect()))
    }
}

/// A result that some ranks have and others lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Repair {
    /// Where it is in the stream.
    pub(crate) position: u64,
    /// The lowest rank that has it.
    pub(crate) holder: u16,
    /// Whether this rank lacks it.
    pub(crate) lacking: bool,
}

/// What follows from all ranks' slot positions, the same on all but for [`Repair::lacking`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reconciliation {
    /// In order of holder, then position.
    pub(crate) repairs: Vec<Repair>,
    /// Of each slot, by position modulo the number of slots, the first position that is done nowhere.
    floors: Vec<u64>,
    /// By rank.
    positions: Vec<SlotPositions>,
}

impl Reconciliation {
    /// From the slot positions of all ranks, by rank.
    ///
    /// # Errors
    ///
    /// [`Error::Control`] when they cannot be those of one job.
    pub(crate) fn of(all: Vec<SlotPositions>, rank: u16) -> Result<Self, Error> {
        let inconsistent = Error::Control { what: "the ranks' slot positions contradict each other" };
        let Some(mine) = all.get(usize::from(rank)) else { return Err(inconsistent) };
        let slots = mine.0.len();
        if slots == 0 || all.iter().any(|slot_positions| slot_positions.0.len() != slots) {
            return Err(inconsistent);
        }
        let (mut repairs, mut floors) = (Vec::new(), vec![None; slots]);
        for slot in 0..slots {
            let positions = || all.iter().map(|slot_positions| slot_positions.0[slot]);
            let (least, most) = (positions().min().unwrap_or(0), positions().max().unwrap_or(0));
            if positions().any(|position| position != least && position != most)
                || (most != least && most - least != slots as u64)
            {
                return Err(inconsistent);
            }
            if let Some(holder) = positions().position(|position| position > least) {
                repairs.push(Repair {
                    position: least,
                    holder: holder as u16,
                    lacking: mine.0[slot] == least,
                });
            }
            if floors[(most % slots as u64) as usize].replace(most).is_some() {
                return Err(inconsistent);
            }
        }
        let floors = floors.into_iter().flatten().collect();
        repairs.sort_by_key(|repair| (repair.holder, repair.position));
        Ok(Self { repairs, floors, positions: all })
    }

    /// Number of slots.
    pub(crate) fn slots(&self) -> u64 {
        self.floors.len() as u64
    }

    /// Whether a rank has the result of the position of a repair.
    pub(crate) fn has(&self, rank: u16, position: u64) -> bool {
        let slots = self.floors.len() as u64;
        let slot = |at: &&u64| **at % slots == position % slots;
        let positions = self.positions.get(usize::from(rank)).map(|positions| &positions.0[..]);
        positions.unwrap_or_default().iter().find(slot).is_some_and(|at| *at > position)
    }

    /// Whether no rank has the result of this position.
    pub(crate) fn is_undone(&self, position: u64) -> bool {
        position >= self.floors[(position % self.floors.len() as u64) as usize]
    }
}

/// Copies of the newest results, one a slot: what this rank may have to pass on after it has given a tensor back. Of a chunk that one rank
/// receives, the others keep their contributions.
#[derive(Debug)]
pub(crate) struct RetainedResults {
    /// By position modulo the number of slots.
    kept: Vec<Retained>,
}

/// What is kept of one chunk.
#[derive(Debug)]
struct Retained {
    position: u64,
    /// Its elements' bytes.
    bytes: Vec<u8>,
    owned: Option<OwnedChunk>,
}

/// A chunk whose result one rank receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnedChunk {
    /// The rank.
    pub(crate) owner: u16,
    /// How contributions are reduced.
    pub(crate) op: ReduceOp,
    /// Type of the elements.
    pub(crate) dtype: DType,
}

impl RetainedResults {
    /// Room for `slots` results of at most `bytes` bytes.
    pub(crate) fn new(slots: usize, bytes: usize) -> Self {
        let empty = || Retained { position: u64::MAX, bytes: Vec::with_capacity(bytes), owned: None };
        Self { kept: (0..slots.max(1)).map(|_| empty()).collect() }
    }

    /// Number of slots.
    pub(crate) fn slots(&self) -> usize {
        self.kept.len()
    }

    /// Keeps the result of `position`, or this rank's contribution to it, instead of the slot's one before.
    pub(crate) fn keep(&mut self, position: u64, bytes: &[u8], owned: Option<OwnedChunk>) {
        let index = (position % self.kept.len() as u64) as usize;
        let kept = &mut self.kept[index];
        (kept.position, kept.owned) = (position, owned);
        kept.bytes.clear();
        kept.bytes.extend_from_slice(bytes);
    }

    fn at(&self, position: u64) -> Option<&Retained> {
        let kept = &self.kept[(position % self.kept.len() as u64) as usize];
        (kept.position == position).then_some(kept)
    }

    /// What was kept of `position`, if it is the slot's newest.
    pub(crate) fn get(&self, position: u64) -> Option<&[u8]> {
        self.at(position).map(|kept| &kept.bytes[..])
    }

    /// Whose chunk `position` is, if it is the slot's newest and one rank's.
    pub(crate) fn owned(&self, position: u64) -> Option<OwnedChunk> {
        self.at(position)?.owned
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_one_step_between_ranks_is_passed_on() {
        let slot_positions = |positions: &[u64]| SlotPositions(positions.to_vec());
        let all =
            [slot_positions(&[4, 9, 6, 3]), slot_positions(&[8, 5, 6, 3]), slot_positions(&[8, 9, 6, 3])];
        let reconciled = Reconciliation::of(all.to_vec(), 1).expect("one job");
        let repair = |position, holder, lacking| Repair { position, holder, lacking };
        assert_eq!(reconciled.repairs, [repair(5, 0, true), repair(4, 1, false)]);
        let undone: Vec<u64> = (0..16).filter(|position| reconciled.is_undone(*position)).collect();
        assert_eq!(undone, [3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    }

    #[test]
    fn contradictory_slot_positions_are_rejected() {
        let slot_positions = |positions: &[u64]| SlotPositions(positions.to_vec());
        for bad in [
            vec![slot_positions(&[0, 1]), slot_positions(&[4, 1])],
            vec![slot_positions(&[0, 1]), slot_positions(&[1, 1])],
            vec![slot_positions(&[0, 1]), slot_positions(&[0])],
            vec![slot_positions(&[]), slot_positions(&[])],
            vec![slot_positions(&[0, 2]), slot_positions(&[0, 2])],
            vec![slot_positions(&[0, 1]), slot_positions(&[2, 1]), slot_positions(&[4, 1])],
        ] {
            assert!(Reconciliation::of(bad.clone(), 0).is_err(), "{bad:?}");
        }
        assert!(Reconciliation::of(vec![], 0).is_err());
        assert_eq!(SlotPositions::from_bytes(&[0; 15], 2), None);
    }

    proptest! {
        /// Ranks that advance by the rules, stopped anywhere: the reconciliation is right for each position.
        #[test]
        fn every_position_is_done_held_or_undone(
            slots in 1u64..5, world in 1usize..5, steps in proptest::collection::vec((0usize..5, 0u64..5), 0..60)
        ) {
            let mut at: Vec<Vec<u64>> = vec![(0..slots).collect(); world];
            for (rank, slot) in steps {
                let (rank, slot) = (rank % world, (slot % slots) as usize);
                let here = at[rank][slot];
                // A result is there once every rank has come to its position.
                if at.iter().all(|positions| positions[slot] >= here) {
                    at[rank][slot] += slots;
                }
            }
            let all: Vec<SlotPositions> = at.iter().map(|positions| SlotPositions(positions.clone())).collect();
            let gathered: Vec<SlotPositions> = all.iter()
                .map(|one| SlotPositions::from_bytes(&one.to_bytes(), slots as usize).unwrap()).collect();
            for rank in 0..world {
                let reconciled = Reconciliation::of(gathered.clone(), rank as u16).unwrap();
                for position in 0..slots * 70 {
                    let slot = (position % slots) as usize;
                    let has = |rank: usize| at[rank][slot] > position;
                    let holders: Vec<usize> = (0..world).filter(|rank| has(*rank)).collect();
                    prop_assert_eq!(reconciled.is_undone(position), holders.is_empty());
                    let repair = reconciled.repairs.iter().find(|repair| repair.position == position);
                    if let Some(repair) = repair {
                        prop_assert!((0..world).all(|rank| reconciled.has(rank as u16, repair.position) == has(rank)));
                    }
                    let partly = !holders.is_empty() && holders.len() < world;
                    prop_assert_eq!(repair.is_some(), partly);
                    if let Some(repair) = repair {
                        prop_assert_eq!(usize::from(repair.holder), holders[0]);
                        prop_assert_eq!(repair.lacking, !has(rank));
                    }
                }
            }
        }
    }

    #[test]
    fn the_newest_result_of_each_slot_is_retained() {
        let mut retained = RetainedResults::new(2, 4);
        let owned = OwnedChunk { owner: 3, op: ReduceOp::Sum, dtype: DType::F32 };
        retained.keep(4, b"four", None);
        retained.keep(5, b"five", None);
        retained.keep(6, b"six", Some(owned));
        assert_eq!(
            (retained.get(4), retained.get(5), retained.get(6)),
            (None, Some(&b"five"[..]), Some(&b"six"[..]))
        );
        assert_eq!((retained.get(0), retained.owned(0)), (None, None));
        assert_eq!((retained.owned(5), retained.owned(6)), (None, Some(owned)));
    }
}
