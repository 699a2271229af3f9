//! Watches every packet at the switch and asserts the invariants that no single rank can see.

use netfold_wire::{Kind, Packet};

use super::switch::{JobSetup, fold_digest};

/// Knows what each live rank has taken and what each result was.
#[derive(Debug)]
pub(super) struct Referee {
    job: JobSetup,
    /// For each rank, how many steps each slot has made: results taken.
    taken: Vec<Vec<u64>>,
    alive: Vec<bool>,
    /// Digest of the result at each position, once there was one.
    results: Vec<Option<u64>>,
}

impl Referee {
    pub(super) fn new(job: &JobSetup, positions: u64) -> Self {
        let world = job.ports.len();
        Self {
            job: job.clone(),
            taken: vec![vec![0; job.slots as usize]; world],
            alive: vec![true; world],
            results: vec![None; positions as usize],
        }
    }

    pub(super) fn died(&mut self, rank: u16) {
        self.alive[usize::from(rank)] = false;
    }

    /// Position of a chunk of the job's stream.
    fn position(&self, chunk: u32) -> u64 {
        u64::from(chunk.wrapping_sub(self.job.first_chunk))
    }

    /// A worker's DATA is about to reach the switch. **Safe reuse**: it may replace chunk `k - 2W` (same slot, same
    /// set), so every live rank must have taken that.
    pub(super) fn arrives(&self, datagram: &[u8]) {
        let chunk = Packet::new_unchecked(datagram).chunk();
        let position = self.position(chunk);
        let window = u64::from(self.job.slots);
        assert!(position < self.results.len() as u64, "chunk {chunk} lies behind the stream's end");
        let Some(replaced) = position.checked_sub(2 * window) else { return };
        let first = self.first_position(chunk);
        for (rank, taken) in self.taken.iter().enumerate().filter(|(rank, _)| self.alive[*rank]) {
            let steps = taken[(chunk & (self.job.slots - 1)) as usize];
            assert!(
                first + steps * window > replaced,
                "chunk {chunk} would replace a result that rank {rank} has not taken"
            );
        }
    }

    /// First position of the slot that `chunk` uses.
    fn first_position(&self, chunk: u32) -> u64 {
        u64::from(chunk.wrapping_sub(self.job.first_chunk) & (self.job.slots - 1))
    }

    /// The switch sends a packet of the job. **Same bytes**: every result of a chunk is the same.
    pub(super) fn leaves(&mut self, datagram: &[u8]) {
        let packet = Packet::new_unchecked(datagram);
        if packet.kind() != Kind::Result as u8 {
            return;
        }
        let fields = [
            packet.bitmap(),
            u32::from(packet.count()),
            u32::from(packet.exp()),
            u32::from(packet.exp_next()),
        ];
        let lanes = packet
            .payload()
            .chunks_exact(4)
            .map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
        let digest = fold_digest(fold_digest(u64::from(packet.op()), fields), lanes);
        let chunk = packet.chunk();
        let position = self.position(chunk) as usize;
        let first = self.results[position].get_or_insert(digest);
        assert_eq!(*first, digest, "two results of chunk {chunk} differ");
    }

    /// A rank has taken the result of a chunk: the next one of its slot.
    pub(super) fn took(&mut self, rank: usize, chunk: u32) {
        let first = self.first_position(chunk);
        let steps = &mut self.taken[rank][(chunk & (self.job.slots - 1)) as usize];
        let next = first + *steps * u64::from(self.job.slots);
        *steps += 1;
        assert_eq!(self.position(chunk), next, "rank {rank} took a result out of step");
        assert!(self.results[next as usize].is_some(), "rank {rank} took a result that was never sent");
    }
}
