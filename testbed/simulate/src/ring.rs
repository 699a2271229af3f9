//! Hosts that reduce in a ring over TCP, packet by packet in virtual time: what a job does that has no switch to fold for it.
//!
//! Every host has a stream to the next one, over its own link to a switch that only forwards and the next one's link from there. An
//! all-reduce is twice as many steps as there are hosts but one; in each, every host sends a part of the tensor that it got, or summed, in
//! the step before. Links carry one stream each way, so there are no queues; what is lost is lost on one host's link.
//!
//! TCP is as in Linux, as far as it matters here: selective acknowledgements; what was sent before a segment that has been acknowledged is lost (RACK), at
//! once, since nothing overtakes here; a window
//! that shrinks to 0.7 for a round with losses and grows by one a round trip; a probe of the last segment when nothing has come for two round trips and
//! `PROBE_MARGIN`; a time-out of at least `RTO_MIN`, doubled each time. Acknowledgements come for each segment, and are lost as well.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

/// Payload of a segment.
const SEGMENT: usize = 1448;
/// On the wire, with headers.
const ON_WIRE: u64 = 1500 + 14;
/// Linux's smallest retransmission time-out.
const RTO_MIN: Duration = Duration::from_millis(200);
/// Beside two round trips, until the last segment is retransmitted to find out what was lost: two ticks of a millisecond.
const PROBE_MARGIN: Duration = Duration::from_millis(2);
/// Segments in flight at first, which is the minimum too.
const WINDOW_FIRST: f64 = 10.0;
const WINDOW_MIN: f64 = 2.0;

/// A ring.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RingConfig {
    /// Hosts.
    pub hosts: usize,
    /// Bits a second of a host's link.
    pub rate: u64,
    /// Time on a wire; there are two between hosts.
    pub wire: Duration,
    /// Share of packets lost on the first host's link, each way.
    pub loss: f64,
    /// Seed of the losses.
    pub seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SimEvent {
    /// A segment of a stream arrives.
    Segment(usize, u64),
    /// An acknowledgement reaches a stream's sender: all before this segment have arrived, and this one has.
    Acked(usize, u64, u64),
    /// A stream's timer, if it is still the one of that number.
    Timer(usize, u64),
}

/// The stream from a host to the next.
struct Stream {
    /// Segments that may be sent so far, and the first never sent.
    ready: u64,
    next: u64,
    /// The first that is not acknowledged, those after it that are, and those found lost.
    first: u64,
    acked: BTreeSet<u64>,
    lost: BTreeSet<u64>,
    /// When each was sent last, in sends of the stream, how many those are, and the last of those that were acknowledged.
    sent: BTreeMap<u64, u64>,
    sends: u64,
    newest: u64,
    window: f64,
    threshold: f64,
    /// The window does not shrink again before this is acknowledged.
    recovered_at: u64,
    free_at: Duration,
    round_trip: Duration,
    timer: u64,
    backoff: u32,
    probed: bool,
    /// At the receiver: the first that is missing, and what came after it.
    wanted: u64,
    early: BTreeSet<u64>,
}

/// A ring of hosts.
pub struct Ring {
    config: RingConfig,
    streams: Vec<Stream>,
    event_queue: BinaryHeap<Reverse<(Duration, u64, SimEvent)>>,
    serial: u64,
    now: Duration,
    rng: Xoshiro256PlusPlus,
    retransmitted: u64,
}

impl Ring {
    /// An idle ring.
    pub fn new(config: RingConfig) -> Self {
        let takes = Duration::from_nanos(ON_WIRE * 8_000_000_000 / config.rate.max(1));
        let stream = |_| Stream {
            ready: 0,
            next: 0,
            first: 0,
            acked: BTreeSet::new(),
            lost: BTreeSet::new(),
            sent: BTreeMap::new(),
            sends: 0,
            newest: 0,
            window: WINDOW_FIRST,
            threshold: f64::INFINITY,
            recovered_at: 0,
            free_at: Duration::ZERO,
            round_trip: 2 * takes + 4 * config.wire,
            timer: 0,
            backoff: 0,
            probed: false,
            wanted: 0,
            early: BTreeSet::new(),
        };
        Self {
            streams: (0..config.hosts).map(stream).collect(),
            event_queue: BinaryHeap::new(),
            serial: 0,
            now: Duration::ZERO,
            rng: Xoshiro256PlusPlus::seed_from_u64(config.seed),
            retransmitted: 0,
            config,
        }
    }

    /// Segments retransmitted so far.
    pub fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    /// Sums a tensor of so many bytes over all hosts; the time that it took. The clock then goes on by `pause`.
    pub fn all_reduce(&mut self, bytes: usize, pause: Duration) -> Duration {
        let began = self.now;
        let hosts = self.config.hosts;
        let part = bytes.div_ceil(hosts.max(1)).div_ceil(SEGMENT).max(1) as u64;
        let steps = 2 * (hosts as u64).saturating_sub(1);
        let start: Vec<u64> = self.streams.iter().map(|stream| stream.wanted).collect();
        for (index, first) in start.iter().enumerate() {
            self.allow(index, first + part.min(part * steps));
        }
        while (0..hosts).any(|index| self.streams[index].wanted < start[index] + steps * part) {
            let Some(Reverse((at, _, what))) = self.event_queue.pop() else { break };
            self.now = self.now.max(at);
            self.handle_event(what);
            // A host sends in a step what has come in the one before.
            for index in 0..hosts {
                let before = (index + hosts - 1) % hosts;
                let come = (self.streams[before].wanted - start[before]) / part;
                self.allow(index, start[index] + (come + 1).min(steps) * part);
            }
        }
        let took = self.now - began;
        self.now += pause;
        took
    }

    fn plan(&mut self, at: Duration, what: SimEvent) {
        self.serial += 1;
        self.event_queue.push(Reverse((at, self.serial, what)));
    }

    /// Whether a packet of a stream, either way, is lost: it goes over the link of the host that sends, and that of the one that receives.
    fn loses(&mut self, index: usize) -> bool {
        let over = index == 0 || index + 1 == self.config.hosts;
        over && self.config.loss > 0.0 && self.rng.random::<f64>() < self.config.loss
    }

    fn allow(&mut self, index: usize, ready: u64) {
        let stream = &mut self.streams[index];
        if ready > stream.ready {
            stream.ready = ready;
            self.send(index);
        }
    }

    /// Sends what is lost, then what is new, as far as the window goes.
    fn send(&mut self, index: usize) {
        loop {
            let stream = &mut self.streams[index];
            let flying = stream.next - stream.first - (stream.acked.len() + stream.lost.len()) as u64;
            if flying as f64 >= stream.window {
                break;
            }
            let segment = if let Some(segment) = stream.lost.pop_first() {
                self.retransmitted += 1;
                segment
            } else if stream.next < stream.ready {
                stream.next += 1;
                stream.next - 1
            } else {
                break;
            };
            self.put(index, segment);
        }
        self.arm(index);
    }

    /// Puts a segment on the host's link.
    fn put(&mut self, index: usize, segment: u64) {
        let takes = Duration::from_nanos(ON_WIRE * 8_000_000_000 / self.config.rate);
        let stream = &mut self.streams[index];
        stream.free_at = stream.free_at.max(self.now) + takes;
        stream.sends += 1;
        stream.sent.insert(segment, stream.sends);
        // The switch takes a segment whole before it sends it on.
        let arrives = stream.free_at + takes + 2 * self.config.wire;
        if !self.loses(index) {
            self.plan(arrives, SimEvent::Segment(index, segment));
        }
    }

    /// Sets the timer anew: the probe first, then the time-out.
    fn arm(&mut self, index: usize) {
        let stream = &mut self.streams[index];
        stream.timer += 1;
        if stream.first == stream.next {
            return;
        }
        let wait = if stream.probed {
            RTO_MIN.max(2 * stream.round_trip) * (1 << stream.backoff.min(8))
        } else {
            2 * stream.round_trip + PROBE_MARGIN
        };
        let (at, timer) = (self.now.max(stream.free_at) + wait, stream.timer);
        self.plan(at, SimEvent::Timer(index, timer));
    }

    fn handle_event(&mut self, what: SimEvent) {
        match what {
            SimEvent::Segment(index, segment) => {
                let stream = &mut self.streams[index];
                stream.early.insert(segment);
                while stream.early.remove(&stream.wanted) {
                    stream.wanted += 1;
                }
                stream.early = stream.early.split_off(&stream.wanted);
                let wanted = stream.wanted;
                if !self.loses(index) {
                    self.plan(self.now + 2 * self.config.wire, SimEvent::Acked(index, wanted, segment));
                }
            }
            SimEvent::Acked(index, before, segment) => self.acked(index, before, segment),
            SimEvent::Timer(index, timer) if self.streams[index].timer == timer => self.timeout(index),
            SimEvent::Timer(..) => {}
        }
    }

    fn acked(&mut self, index: usize, before: u64, segment: u64) {
        let stream = &mut self.streams[index];
        let new = before > stream.first || (segment >= stream.first && !stream.acked.contains(&segment));
        if !new {
            return;
        }
        stream.first = stream.first.max(before);
        stream.acked.insert(segment);
        stream.newest = stream.newest.max(stream.sent.get(&segment).copied().unwrap_or(0));
        for set in [&mut stream.acked, &mut stream.lost] {
            *set = set.split_off(&stream.first);
        }
        stream.sent = stream.sent.split_off(&stream.first);
        stream.lost.remove(&segment);
        (stream.backoff, stream.probed) = (0, false);
        let Stream { sent, acked, lost, newest, .. } = stream;
        let overtaken =
            |one: &(&u64, &u64)| *one.1 < *newest && !acked.contains(one.0) && !lost.contains(one.0);
        let gone: Vec<u64> = sent.iter().filter(overtaken).map(|(segment, _)| *segment).collect();
        let fresh = !gone.is_empty();
        lost.extend(gone);
        if fresh && stream.first >= stream.recovered_at {
            stream.recovered_at = stream.next;
            stream.window = (stream.window * 0.7).max(WINDOW_MIN);
            stream.threshold = stream.window;
        } else if stream.window < stream.threshold {
            stream.window += 1.0;
        } else {
            stream.window += 1.0 / stream.window;
        }
        self.send(index);
    }

    /// Nothing has come for long: first the last segment once more, then all.
    fn timeout(&mut self, index: usize) {
        let stream = &mut self.streams[index];
        self.retransmitted += 1;
        if !std::mem::replace(&mut stream.probed, true) {
            let last = stream.next - 1;
            self.put(index, last);
            return self.arm(index);
        }
        stream.backoff += 1;
        stream.lost = (stream.first..stream.next).filter(|one| !stream.acked.contains(one)).collect();
        (stream.threshold, stream.window) = ((stream.window * 0.7).max(WINDOW_MIN), 1.0);
        self.send(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: RingConfig =
        RingConfig { hosts: 8, rate: 1_000_000_000, wire: Duration::from_micros(5), loss: 0.0, seed: 1 };

    #[test]
    fn without_losses_a_ring_is_as_fast_as_its_links() {
        let bytes = 8 * 100 * SEGMENT;
        let mut ring = Ring::new(CONFIG);
        let took: Vec<_> = (0..3).map(|_| ring.all_reduce(bytes, Duration::ZERO)).collect();
        // Fourteen steps of a hundred segments, and a way between hosts for each.
        let least = Duration::from_nanos(14 * 100 * ON_WIRE * 8);
        let most = least + 14 * Duration::from_micros(30);
        assert!(took.iter().all(|took| *took >= least && *took <= most), "{took:?}, {least:?}");
        assert_eq!(ring.retransmitted(), 0);
    }

    #[test]
    fn lost_segments_are_retransmitted_and_cost_time() {
        let mean = |loss: f64| {
            let mut ring = Ring::new(RingConfig { loss, ..CONFIG });
            let took =
                (0..20).map(|_| ring.all_reduce(800_000, Duration::from_millis(2))).sum::<Duration>() / 20;
            (took, ring.retransmitted())
        };
        let [(none, _), (some, few), (worse, many)] = [0.0, 0.001, 0.05].map(mean);
        println!("{none:?}, {some:?} with {few} retransmitted, {worse:?} with {many}");
        assert!(none < some && some < worse && few > 0 && many > 10 * few);
        assert_eq!(mean(0.05), (worse, many), "the same seed does the same");
    }

    #[test]
    fn the_end_of_a_step_is_found_lost_by_a_probe_and_not_by_a_timeout() {
        let mut ring = Ring::new(RingConfig { hosts: 2, loss: 0.1, ..CONFIG });
        let took: Vec<_> = (0..40).map(|_| ring.all_reduce(2 * SEGMENT, Duration::ZERO)).collect();
        let probed = took.iter().filter(|took| (2..100).contains(&took.as_millis())).count();
        let timeout = took.iter().filter(|took| took.as_millis() >= 200).count();
        assert!(probed > 5 && timeout > 0 && timeout < took.len() / 2, "{took:?}");
    }
}
