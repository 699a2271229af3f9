//! The configuration of a worker.

use core::time::Duration;

use netfold_control::Admission;
use netfold_wire::{Numerics, WORLD_MAX, header};

use crate::error::WorkerConfigError;

/// Most slots of a job: the header has 15 bits for a slot.
pub const SLOTS_MAX: u32 = 1 << 15;

/// Fewest lane words in a packet: what the smallest pipeline has, and room for a digest of descriptors.
pub const LANE_WORDS_MIN: u32 = 16;

/// Most lane words in a packet: the longest UDP datagram over IPv4.
pub const LANE_WORDS_MAX: u32 = ((65_507 - header::LEN) / 4) as u32;

/// Slots of a job that one stream uses, with chunk numbers of its own: chunk `k` goes to slot `first + k mod count`, set
/// `(k / count) mod 2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotShare {
    /// The first of them, counted from the job's first slot.
    pub first: u32,
    /// How many, a power of two: the stream's window.
    pub count: u32,
}

/// Membership in the job and timer bounds of one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerConfig {
    /// What the control port granted.
    pub admission: Admission,
    /// This worker's rank, below `world`.
    pub rank: u16,
    /// Workers of the job, 1 to 32,768.
    pub world: u16,
    /// The part of the job's slots that this worker's stream uses. Default all of them. Streams of one job, each with a worker of its
    /// own, share its slots; all ranks must divide them alike.
    pub share: SlotShare,
    /// How the switch folds lanes. Default [`Numerics::Word`].
    pub numerics: Numerics,
    /// Shortest retransmission timeout. Default 5 ms.
    pub rto_min: Duration,
    /// Longest retransmission timeout, back-off included. Default 200 ms.
    pub rto_max: Duration,
    /// Retransmission timeout before the first measurement. Default 20 ms.
    pub rto_initial: Duration,
    /// Time without progress, with chunks outstanding, after which the job is given up. Must exceed the longest time
    /// by which ranks may be apart. Default 60 s.
    pub stall_timeout: Duration,
    /// Most operations pending: submitted and not yet reported as done. Default 1024.
    pub ops_max: usize,
    /// Operations of few data chunks predict their exponents, and take one round trip where all ranks predict right: those of at most
    /// [`PREDICTED_CHUNKS_MAX`](crate::PREDICTED_CHUNKS_MAX) chunks that have exponents and tolerate no loss, at switches of
    /// [`Numerics::Word`]. All ranks must set it alike. Default false.
    pub predict: bool,
}

impl WorkerConfig {
    /// The defaults for a member of a job.
    pub fn new(admission: Admission, rank: u16, world: u16) -> Self {
        Self {
            rank,
            world,
            share: SlotShare { first: 0, count: admission.slots },
            admission,
            numerics: Numerics::Word,
            rto_min: Duration::from_millis(5),
            rto_max: Duration::from_millis(200),
            rto_initial: Duration::from_millis(20),
            stall_timeout: Duration::from_secs(60),
            ops_max: 1024,
            predict: false,
        }
    }

    /// Length of the longest datagram of this job, in bytes: header and all lanes.
    pub const fn datagram_len_max(&self) -> usize {
        header::LEN + 4 * self.admission.lane_words as usize
    }

    /// Checks every field.
    ///
    /// # Errors
    ///
    /// [`WorkerConfigError`] with the first field that is out of range.
    pub fn check(&self) -> Result<(), WorkerConfigError> {
        if self.world == 0 || self.world > WORLD_MAX {
            return Err(WorkerConfigError::World(self.world));
        }
        if self.rank >= self.world {
            return Err(WorkerConfigError::Rank { rank: self.rank, world: self.world });
        }
        if !self.admission.slots.is_power_of_two() || self.admission.slots > SLOTS_MAX {
            return Err(WorkerConfigError::Slots(self.admission.slots));
        }
        let SlotShare { first, count } = self.share;
        let end = first.checked_add(count).filter(|end| *end <= self.admission.slots);
        if !count.is_power_of_two() || end.is_none() {
            return Err(WorkerConfigError::Share(self.share));
        }
        if !(LANE_WORDS_MIN..=LANE_WORDS_MAX).contains(&self.admission.lane_words) {
            return Err(WorkerConfigError::LaneWords(self.admission.lane_words));
        }
        if self.admission.bitmap == 0 {
            return Err(WorkerConfigError::Bitmap);
        }
        let timers =
            [Duration::from_nanos(1), self.rto_min, self.rto_initial, self.rto_max, self.stall_timeout];
        if !timers.is_sorted() {
            return Err(WorkerConfigError::Timers);
        }
        if self.ops_max == 0 {
            return Err(WorkerConfigError::OpsMax);
        }
        Ok(())
    }
}
