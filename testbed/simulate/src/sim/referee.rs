//! Watches every packet at every switch and asserts the invariants that no single rank can see.

use netfold_wire::{Flags, Kind, LaneOwner, Packet};

use super::switch::{JobSetup, fold_digest};

/// Digests of a packet that all others of its position must equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// Of what does not depend on how contributions are coded.
    common: u64,
    /// Of the header.
    header: u64,
    /// Of header and lanes, which some ranks may not receive.
    lanes: Option<u64>,
}

/// Knows what each live rank has taken, what each result was, and what each switch sent up.
#[derive(Debug)]
pub(super) struct Referee {
    /// The job at each switch.
    jobs: Vec<JobSetup>,
    /// For each rank, how many steps each slot has made: results taken.
    taken: Vec<Vec<u64>>,
    alive: Vec<bool>,
    /// Whether sums may lack contributions, or not all ranks contribute to them.
    lacking: bool,
    /// The result at each position, once there was one.
    results: Vec<Option<Seen>>,
    /// For each switch, the same of what it sent up.
    folds: Vec<Vec<Option<Seen>>>,
    /// How the contributions to each position are coded: the exponent, and whether they have lanes.
    coding: Vec<Option<(u8, bool)>>,
    /// Positions whose contributions are coded differently, as workers have predicted different exponents. Their lanes mean nothing.
    mixed: Vec<bool>,
}

impl Referee {
    pub(super) fn new(jobs: Vec<JobSetup>, positions: u64, lacking: bool) -> Self {
        let world = usize::from(jobs[0].world);
        Self {
            taken: vec![vec![0; jobs[0].slots as usize]; world],
            alive: vec![true; world],
            lacking,
            results: vec![None; positions as usize],
            folds: vec![vec![None; positions as usize]; jobs.len()],
            coding: vec![None; positions as usize],
            mixed: vec![false; positions as usize],
            jobs,
        }
    }

    pub(super) fn died(&mut self, rank: u16) {
        self.alive[usize::from(rank)] = false;
    }

    fn slots(&self) -> u32 {
        self.jobs[0].slots
    }

    /// Position of a chunk of the job's stream.
    fn position(&self, chunk: u32) -> u64 {
        u64::from(chunk.wrapping_sub(self.jobs[0].first_chunk))
    }

    /// DATA is about to reach a switch. **Safe reuse**: it may replace chunk `k - 2W` (same slot, same set), so every live
    /// rank must have taken that. A RESULT from above replaces nothing.
    pub(super) fn arrives(&mut self, datagram: &[u8]) {
        let packet = Packet::new_unchecked(datagram);
        if packet.kind() != Kind::Data as u8 {
            return;
        }
        let chunk = packet.chunk();
        let position = self.position(chunk);
        let window = u64::from(self.slots());
        assert!(position < self.results.len() as u64, "chunk {chunk} lies behind the stream's end");
        if !packet.flags().contains(Flags::TRIMMED) {
            let coding = (packet.exp(), packet.flags().contains(Flags::BARE));
            let first = *self.coding[position as usize].get_or_insert(coding);
            self.mixed[position as usize] |= first != coding;
        }
        let Some(replaced) = position.checked_sub(2 * window) else { return };
        let first = self.first_position(chunk);
        for (rank, taken) in self.taken.iter().enumerate().filter(|(rank, _)| self.alive[*rank]) {
            let steps = taken[(chunk & (self.slots() - 1)) as usize];
            assert!(
                first + steps * window > replaced,
                "chunk {chunk} would replace a result that rank {rank} has not taken"
            );
        }
    }

    /// First position of the slot that `chunk` uses.
    fn first_position(&self, chunk: u32) -> u64 {
        u64::from(chunk.wrapping_sub(self.jobs[0].first_chunk) & (self.slots() - 1))
    }

    /// A switch sends a packet of the job. **Same bytes**: every result of a chunk is the same, at whichever switch, and so
    /// is every fold of it that one switch sends up.
    pub(super) fn leaves(&mut self, switch: usize, datagram: &[u8]) {
        let packet = Packet::new_unchecked(datagram);
        let job = &self.jobs[switch];
        let (is_result, is_fold) = (packet.kind() == Kind::Result as u8, packet.kind() == Kind::Data as u8);
        if !is_result && !is_fold {
            return;
        }
        let workers = if is_result { job.world } else { job.workers };
        if self.lacking {
            assert_eq!(packet.bitmap() & !job.full(), 0, "who is in it, at switch {switch}");
            assert!(packet.count() <= workers, "how many are in it, at switch {switch}");
        } else {
            assert_eq!(
                (packet.bitmap(), packet.count()),
                (job.full(), workers),
                "who is in it, at switch {switch}"
            );
        }
        // Each switch names its own children, in what it sends up alone of its own knowledge.
        let children = if is_fold { packet.bitmap() } else { 0 };
        let partial = u32::from(packet.flags().contains(Flags::PARTIAL));
        let counted = partial << 16 | u32::from(packet.count());
        let chunk = packet.chunk();
        let position = self.position(chunk) as usize;
        let fields = |exp: u8| {
            let exponents = u32::from(exp) << 8 | u32::from(packet.exp_next());
            [u32::from(packet.op()), exponents, counted, children]
        };
        let lanes = packet
            .payload()
            .chunks_exact(4)
            .map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
        let header = fold_digest(0, fields(packet.exp()));
        let owned = packet.owner() != LaneOwner::All && packet.payload().is_empty();
        let lanes = (!owned || is_fold).then(|| fold_digest(header, lanes));
        let seen = Seen { common: fold_digest(0, fields(0)), header, lanes };
        let known = if is_result {
            &mut self.results[position]
        } else {
            assert!(job.parent.is_some(), "switch {switch} has no parent to send a fold to");
            &mut self.folds[switch][position]
        };
        let what = if is_result { "results" } else { "folds" };
        let first = known.get_or_insert(seen);
        assert_eq!(first.common, seen.common, "two {what} of chunk {chunk} differ, at switch {switch}");
        if self.mixed[position] {
            return;
        }
        assert_eq!(first.header, seen.header, "two {what} of chunk {chunk} differ, at switch {switch}");
        if let Some(lanes) = seen.lanes {
            let first = *first.lanes.get_or_insert(lanes);
            assert_eq!(first, lanes, "the lanes of two {what} of chunk {chunk} differ, at switch {switch}");
        }
    }

    /// A rank has taken the result of a chunk: the next one of its slot.
    pub(super) fn took(&mut self, rank: usize, chunk: u32) {
        let first = self.first_position(chunk);
        let window = self.slots();
        let steps = &mut self.taken[rank][(chunk & (window - 1)) as usize];
        let next = first + *steps * u64::from(window);
        *steps += 1;
        assert_eq!(self.position(chunk), next, "rank {rank} took a result out of step");
        assert!(self.results[next as usize].is_some(), "rank {rank} took a result that was never sent");
    }
}
