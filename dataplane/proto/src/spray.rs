//! Which path each packet of a flow takes: sans-IO machines that a sender queries before each packet, and informs of its outcome.
//!
//! A sender does not know paths. It puts an *entropy value* into each packet, such as a UDP source port, and switches hash
//! it; packets with the same value go the same way for as long as nothing fails. A [`Spray`] gives values from `0..count` and learns which
//! to avoid, or to use again.
//!
//! | policy | next value | learns |
//! |---|---|---|
//! | [`Oblivious`] | all in turn, in another order each round | nothing |
//! | [`Bitmap`] | the same, without those that have a penalty | penalties for marks, trimmed packets and time-outs |
//! | [`Reps`] | one whose packet came through unmarked, else a random one | which came through |
//! | [`Mixed`] | one whose packet came through unmarked, else as `Bitmap` | both |
//!
//! # Sources
//!
//! The four, and their constants, are those of the Ultra Ethernet simulator uet-htsim (`uec_mp`). REPS: Bonato et al., "REPS: Recycling
//! Entropies for Packet Spraying" (arXiv 2407.21625).

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The most entropy values: as many as there are dynamic ports (RFC 6335), as a power of two.
pub const VALUES_MAX: u16 = 1 << 14;
/// Values that are kept for being used again.
pub const CACHE: usize = 8;
/// How long only these are used after a time-out, in nanoseconds.
pub const FROZEN_NS: u64 = 10_000_000;
/// Random values that are tried first when that is over.
pub const EXPLORED: u32 = 16;
/// The most penalty of a value.
pub const PENALTY_MAX: u8 = 15;

/// The outcome of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketOutcome {
    /// It was acknowledged without a mark.
    Clean,
    /// It was acknowledged with a mark (ECN).
    Marked,
    /// It came without its data, or the receiver reports that it is missing.
    Trimmed,
    /// Neither an acknowledgement nor a report of its loss was received.
    TimedOut,
}

impl PacketOutcome {
    /// What its value is penalised with.
    const fn penalty(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Marked => 1,
            Self::Trimmed => 4,
            Self::TimedOut => PENALTY_MAX,
        }
    }
}

/// How many values there can be: a power of two up to [`VALUES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} entropy values: give a power of two up to {VALUES_MAX}")]
pub struct ValuesError(pub u16);

/// A policy of one flow. Times are in nanoseconds from any origin, and do not go back.
pub trait Spray {
    /// The entropy value of the next packet.
    fn next(&mut self, now_ns: u64) -> u16;

    /// Records the outcome of a packet with that value. Values that were never given are no mistake.
    fn record_outcome(&mut self, now_ns: u64, value: u16, outcome: PacketOutcome);
}

/// All values in turn; each round in another order, by an exclusive or.
#[derive(Debug)]
pub struct Oblivious {
    count: u16,
    next: u16,
    turned: u16,
    rng: StdRng,
}

impl Oblivious {
    /// Over so many values, the same sequence for the same seed.
    ///
    /// # Errors
    ///
    /// [`ValuesError`] for another number than a power of two up to [`VALUES_MAX`].
    pub fn new(count: u16, seed: u64) -> Result<Self, ValuesError> {
        if !count.is_power_of_two() || count > VALUES_MAX {
            return Err(ValuesError(count));
        }
        let mut rng = StdRng::seed_from_u64(seed);
        Ok(Self { count, next: 0, turned: rng.random_range(0..count), rng })
    }

    fn step(&mut self) -> u16 {
        let value = self.next ^ self.turned;
        self.next = (self.next + 1) % self.count;
        if self.next == 0 {
            self.turned = self.rng.random_range(0..self.count);
        }
        value
    }

    fn random(&mut self) -> u16 {
        self.rng.random_range(0..self.count)
    }
}

impl Spray for Oblivious {
    fn next(&mut self, _: u64) -> u16 {
        self.step()
    }

    fn record_outcome(&mut self, _: u64, _: u16, _: PacketOutcome) {}
}

/// As [`Oblivious`], without values that have a penalty: whenever one is passed over, it has one less.
#[derive(Debug)]
pub struct Bitmap {
    walk: Oblivious,
    penalties: Vec<u8>,
}

impl Bitmap {
    /// Over so many values.
    ///
    /// # Errors
    ///
    /// As [`Oblivious::new`].
    pub fn new(count: u16, seed: u64) -> Result<Self, ValuesError> {
        Ok(Self { walk: Oblivious::new(count, seed)?, penalties: vec![0; count.into()] })
    }

    /// What a value is penalised with; 0 for one that there is not.
    pub fn penalty(&self, value: u16) -> u8 {
        self.penalties.get(usize::from(value)).copied().unwrap_or(0)
    }

    fn penalise(&mut self, value: u16, outcome: PacketOutcome) {
        if let Some(penalty) = self.penalties.get_mut(usize::from(value)) {
            *penalty = (*penalty + outcome.penalty()).min(PENALTY_MAX);
        }
    }

    fn step(&mut self) -> u16 {
        // Every round takes one from each penalty, so this ends.
        loop {
            let value = self.walk.step();
            match &mut self.penalties[usize::from(value)] {
                0 => return value,
                penalty => *penalty -= 1,
            }
        }
    }
}

impl Spray for Bitmap {
    fn next(&mut self, _: u64) -> u16 {
        self.step()
    }

    fn record_outcome(&mut self, _: u64, value: u16, outcome: PacketOutcome) {
        self.penalise(value, outcome);
    }
}

/// Values whose packets came through: the last [`CACHE`] of them, the oldest unused first.
#[derive(Debug, Clone, Copy, Default)]
struct Cache {
    ring: [u16; CACHE],
    /// Values ever put in; the next goes to this place, modulo the ring.
    put: usize,
    /// Of the last ones, how many were not used.
    fresh: usize,
    /// Which is next while all are used in turn.
    turn: usize,
}

impl Cache {
    fn put(&mut self, value: u16) {
        self.ring[self.put % CACHE] = value;
        self.put += 1;
        self.fresh = (self.fresh + 1).min(CACHE);
    }

    fn take(&mut self) -> Option<u16> {
        let oldest = self.put.checked_sub(self.fresh).filter(|_| self.fresh > 0)?;
        self.fresh -= 1;
        Some(self.ring[oldest % CACHE])
    }

    /// Any value that is here, used or not, one after the other.
    fn cycle(&mut self) -> Option<u16> {
        let held = self.put.min(CACHE);
        let at = self.turn.checked_rem(held)?;
        self.turn = at + 1;
        Some(self.ring[at])
    }
}

/// Recycles values: an unmarked acknowledgement means that the path is not congested.
///
/// After a time-out only values that are known to have come through are used for [`FROZEN_NS`], since packets that were dropped by a full
/// queue would have been trimmed, and reported by the receiver: a link or switch has failed. This needs switches that trim.
#[derive(Debug)]
pub struct Reps {
    walk: Oblivious,
    cache: Cache,
    frozen_until_ns: Option<u64>,
    /// Random values still to be tried.
    explore: u32,
}

impl Reps {
    /// Over so many values.
    ///
    /// # Errors
    ///
    /// As [`Oblivious::new`].
    pub fn new(count: u16, seed: u64) -> Result<Self, ValuesError> {
        let walk = Oblivious::new(count, seed)?;
        Ok(Self { walk, cache: Cache::default(), frozen_until_ns: None, explore: 0 })
    }

    /// Whether only values that have come through are used at that time.
    pub fn is_frozen(&self, now_ns: u64) -> bool {
        self.frozen_until_ns.is_some_and(|until| now_ns < until)
    }

    fn thaw(&mut self, now_ns: u64) {
        if self.frozen_until_ns.is_some_and(|until| now_ns >= until) {
            self.frozen_until_ns = None;
            self.cache = Cache::default();
            self.explore = EXPLORED;
        }
    }
}

impl Spray for Reps {
    fn next(&mut self, now_ns: u64) -> u16 {
        self.thaw(now_ns);
        if self.frozen_until_ns.is_some()
            && let Some(value) = self.cache.cycle()
        {
            return value;
        }
        if self.explore > 0 {
            self.explore -= 1;
            return self.walk.random();
        }
        self.cache.take().unwrap_or_else(|| self.walk.random())
    }

    fn record_outcome(&mut self, now_ns: u64, value: u16, outcome: PacketOutcome) {
        self.thaw(now_ns);
        match outcome {
            PacketOutcome::Clean if !self.is_frozen(now_ns) => self.cache.put(value),
            PacketOutcome::TimedOut if self.frozen_until_ns.is_none() => {
                self.frozen_until_ns = Some(now_ns.saturating_add(FROZEN_NS));
            }
            _ => {}
        }
    }
}

/// Recycles values where there are any, else walks as [`Bitmap`]: what the simulator does by default.
#[derive(Debug)]
pub struct Mixed {
    bitmap: Bitmap,
    cache: Cache,
}

impl Mixed {
    /// Over so many values.
    ///
    /// # Errors
    ///
    /// As [`Oblivious::new`].
    pub fn new(count: u16, seed: u64) -> Result<Self, ValuesError> {
        Ok(Self { bitmap: Bitmap::new(count, seed)?, cache: Cache::default() })
    }
}

impl Spray for Mixed {
    fn next(&mut self, _: u64) -> u16 {
        self.cache.take().unwrap_or_else(|| self.bitmap.step())
    }

    fn record_outcome(&mut self, _: u64, value: u16, outcome: PacketOutcome) {
        self.bitmap.penalise(value, outcome);
        if outcome == PacketOutcome::Clean {
            self.cache.put(value);
        }
    }
}
