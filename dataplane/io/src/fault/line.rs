//! One direction of a link that goes wrong on purpose.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::Faults;

/// What faults were applied, in datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultCounters {
    /// Offered to the line.
    pub offered: u64,
    /// Lost.
    pub lost: u64,
    /// Corrupted and dropped, because the UDP checksum shows it.
    pub corrupt: u64,
    /// Corrupted and delivered, because the UDP checksum does not show it.
    pub undetected: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Held back for reordering.
    pub reordered: u64,
    /// Delayed.
    pub delayed: u64,
}

impl FaultCounters {
    /// Datagrams that never come out.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.lost + self.corrupt
    }
}

/// What became of an offered packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offered {
    /// It passes now and unchanged: the caller delivers the bytes it has.
    Passes,
    /// The line has dropped it or has taken a copy that [`FaultLine::pop`] will return.
    Taken,
}

/// Applies [`Faults`] to a stream of packets, each with a tag (such as its port).
///
/// Deterministic: what happens depends on the seed and on the sequence of calls with their times and lengths. There is
/// no clock; `now` is the time since any fixed start and must not go back.
///
/// Order of use: [`pop`](Self::pop) until `None`, then [`offer`](Self::offer) the next packet while there is
/// [room](Self::has_room), again and again; [`next_release`](Self::next_release) says when `pop` has something next
/// even if nothing is offered.
#[derive(Debug)]
pub struct FaultLine<T> {
    faults: Faults,
    rng: Xoshiro256PlusPlus,
    counters: FaultCounters,
    /// Buffers of held packets, reused.
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
    held_max: usize,
    /// Ready to come out, in order.
    ready: VecDeque<usize>,
    /// Held until a time; ties leave in order of arrival.
    delayed: BinaryHeap<Reverse<(Duration, u64, usize)>>,
    /// Held until the number of passed packets reaches the first field.
    behind: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// The same packets by the time at which they leave in any case. All wait equally long, so they are in order.
    /// Entries of packets that have left are skipped by their serial number.
    behind_until: VecDeque<(Duration, u64, usize)>,
    passed: u64,
    serial: u64,
    /// The slot that was popped last; its bytes are lent out until the next call.
    lent: Option<usize>,
}

#[derive(Debug)]
struct Slot<T> {
    bytes: Vec<u8>,
    tag: T,
    /// Serial number of the packet in it; 0 when free or on its way out.
    serial: u64,
}

/// The faults applied to one copy of a packet.
#[derive(Debug, Clone, Copy)]
enum FaultOutcome {
    Now,
    Behind(u64),
}

impl<T: Copy> FaultLine<T> {
    /// A line with nothing on it that holds at most `held_max` packets (at least 2) at a time.
    #[must_use]
    pub fn new(seed: u64, faults: Faults, held_max: usize) -> Self {
        Self {
            faults,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            counters: FaultCounters::default(),
            slots: Vec::new(),
            free: Vec::new(),
            held_max: held_max.max(2),
            ready: VecDeque::new(),
            delayed: BinaryHeap::new(),
            behind: BinaryHeap::new(),
            behind_until: VecDeque::new(),
            passed: 0,
            serial: 0,
            lent: None,
        }
    }

    /// What was applied so far.
    #[must_use]
    pub fn counters(&self) -> FaultCounters {
        self.counters
    }

    /// Whether another packet may be offered: it and a copy of it could be held.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.held() + 2 <= self.held_max
    }

    /// Packets on the line.
    #[must_use]
    pub fn held(&self) -> usize {
        self.slots.len() - self.free.len() - usize::from(self.lent.is_some())
    }

    /// Whether a packet would pass untouched, and nothing waits.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.faults.is_none() && self.held() == 0
    }

    /// Puts a packet on the line. Without [room](Self::has_room) the packet is held all the same; callers that look
    /// first keep the line bounded.
    pub fn offer(&mut self, now: Duration, tag: T, bytes: &[u8]) -> Offered {
        self.reclaim();
        self.counters.offered += 1;
        if self.occurs(self.faults.loss) {
            self.counters.lost += 1;
            return Offered::Taken;
        }
        self.passed += 1;
        if self.occurs(self.faults.corrupt) {
            self.counters.corrupt += 1;
            return self.settle(now, Offered::Taken);
        }
        let mut corrupted = None;
        if self.occurs(self.faults.undetected) {
            let slot = self.fill(tag, bytes);
            self.counters.undetected += u64::from(self.corrupt(slot));
            corrupted = Some(slot);
        }
        let copies = if self.occurs(self.faults.duplicate) { 2 } else { 1 };
        self.counters.duplicated += copies - 1;
        let mut offered = Offered::Taken;
        for copy in 0..copies {
            let outcome = self.outcome();
            let delayed = !self.faults.delay_max.is_zero();
            let untouched = copy == 0 && corrupted.is_none() && !delayed;
            if untouched && matches!(outcome, FaultOutcome::Now) && self.ready.is_empty() {
                offered = Offered::Passes;
                continue;
            }
            let slot = match corrupted {
                Some(slot) if copy + 1 == copies => slot,
                Some(original) => {
                    let bytes = std::mem::take(&mut self.slots[original].bytes);
                    let slot = self.fill(tag, &bytes);
                    self.slots[original].bytes = bytes;
                    slot
                }
                None => self.fill(tag, bytes),
            };
            self.hold(now, slot, outcome);
        }
        self.settle(now, offered)
    }

    /// The next packet that is due, with its tag. The bytes are lent until the next call.
    pub fn pop(&mut self, now: Duration) -> Option<(T, &[u8])> {
        self.reclaim();
        self.release(now);
        let slot = self.ready.pop_front()?;
        self.lent = Some(slot);
        let slot = &self.slots[slot];
        Some((slot.tag, &slot.bytes))
    }

    /// Length in bytes of the packet that [`pop`](Self::pop) would return.
    pub fn peek_len(&mut self, now: Duration) -> Option<usize> {
        self.reclaim();
        self.release(now);
        self.ready.front().map(|slot| self.slots[*slot].bytes.len())
    }

    /// When [`pop`](Self::pop) has something next if no packet is offered before; a time not after `now` means at once.
    #[must_use]
    pub fn next_release(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let delayed = self.delayed.peek().map(|Reverse((at, ..))| *at);
        // Stale entries at the front were removed by `settle` and `release`.
        let behind = self.behind_until.front().map(|(at, ..)| *at);
        match (delayed, behind) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    fn occurs(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.random_bool(probability.min(1.0))
    }

    fn outcome(&mut self) -> FaultOutcome {
        if self.occurs(self.faults.reorder) {
            let distance = self.rng.random_range(1..=self.faults.reorder_distance.max(1));
            self.counters.reordered += 1;
            return FaultOutcome::Behind(u64::from(distance));
        }
        FaultOutcome::Now
    }

    /// Queues a filled slot by its outcome.
    fn hold(&mut self, now: Duration, slot: usize, outcome: FaultOutcome) {
        match outcome {
            FaultOutcome::Now => self.delay(now, slot),
            FaultOutcome::Behind(distance) => {
                let serial = self.slots[slot].serial;
                self.behind.push(Reverse((self.passed + distance, serial, slot)));
                self.behind_until.push_back((now + self.faults.reorder_hold, serial, slot));
            }
        }
    }

    /// Second stage: what reordering lets go meets its delay.
    fn delay(&mut self, now: Duration, slot: usize) {
        if self.faults.delay_max.is_zero() {
            self.slots[slot].serial = 0;
            self.ready.push_back(slot);
            return;
        }
        let (min, max) = (self.faults.delay_min, self.faults.delay_max);
        let spread = u64::try_from(max.saturating_sub(min).as_nanos()).unwrap_or(u64::MAX);
        let extra = Duration::from_nanos(self.rng.random_range(0..=spread));
        self.counters.delayed += 1;
        self.delayed.push(Reverse((now + min + extra, self.slots[slot].serial, slot)));
    }

    /// After a packet has passed: lets go those that were held behind it.
    fn settle(&mut self, now: Duration, offered: Offered) -> Offered {
        while let Some(&Reverse((target, serial, slot))) = self.behind.peek() {
            let left_by_time = self.slots[slot].serial != serial;
            if !left_by_time && target > self.passed {
                break;
            }
            self.behind.pop();
            if !left_by_time {
                self.let_go(now, slot);
            }
        }
        self.skip_stale();
        offered
    }

    /// Releases the packets that are due.
    fn release(&mut self, now: Duration) {
        while let Some(&(until, serial, slot)) = self.behind_until.front() {
            if until > now {
                break;
            }
            self.behind_until.pop_front();
            if self.slots[slot].serial == serial {
                self.let_go(until, slot);
            }
        }
        self.skip_stale();
        while let Some(&Reverse((at, _, slot))) = self.delayed.peek() {
            if at > now {
                break;
            }
            self.delayed.pop();
            self.slots[slot].serial = 0;
            self.ready.push_back(slot);
        }
    }

    /// Moves a packet from reordering to its delay, under a new serial number so that its other entry is stale.
    fn let_go(&mut self, now: Duration, slot: usize) {
        self.serial += 1;
        self.slots[slot].serial = self.serial;
        self.delay(now, slot);
    }

    fn skip_stale(&mut self) {
        while let Some(&(_, serial, slot)) = self.behind_until.front() {
            if self.slots[slot].serial == serial {
                break;
            }
            self.behind_until.pop_front();
        }
    }

    /// Copies a packet into a free slot.
    fn fill(&mut self, tag: T, bytes: &[u8]) -> usize {
        self.serial += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { bytes: Vec::new(), tag, serial: 0 });
            self.slots.len() - 1
        });
        let Slot { bytes: buffer, tag: place, serial } = &mut self.slots[slot];
        buffer.clear();
        buffer.extend_from_slice(bytes);
        (*place, *serial) = (tag, self.serial);
        slot
    }

    /// Flips two bits, one up and one down, in the same column of two of the checksum's 16-bit words. Returns `false`, with
    /// nothing changed, where all bits of the column that was drawn are equal.
    fn corrupt(&mut self, slot: usize) -> bool {
        let bytes = &mut self.slots[slot].bytes;
        if bytes.is_empty() {
            return false;
        }
        let first = self.rng.random_range(0..bytes.len());
        let bit = 1 << self.rng.random_range(0..8);
        let column = (first % 2..bytes.len()).step_by(2);
        let mut opposite = column.filter(|&at| (bytes[at] ^ bytes[first]) & bit != 0);
        let count = opposite.clone().count();
        if count == 0 {
            return false;
        }
        let Some(second) = opposite.nth(self.rng.random_range(0..count)) else { return false };
        bytes[first] ^= bit;
        bytes[second] ^= bit;
        true
    }

    fn reclaim(&mut self) {
        self.free.extend(self.lent.take());
    }
}

#[cfg(test)]
mod tests;
