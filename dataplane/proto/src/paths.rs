//! From which of its UDP ports a worker sends each packet, where a fabric spreads flows over several paths by a hash of ports.
//!
//! A packet from UDP port *i* of a worker takes one path to its switch for as long as nothing fails. A switch sends results to the port
//! that the worker's last packet came from, or always to the first port; so the choice for one direction is, at a switch of the former kind, one for both.
//! Chunks may arrive in any order: each slot steps through its own.
//!
//! # Weights
//!
//! Under [`PathPolicy::Weighted`] a worker sends a short packet from each port every [`PROBE_INTERVAL`], which its switch answers at once
//! ([`Worker::write_path_probe`](crate::Worker::write_path_probe)); results cannot show the same, since a result waits for all ranks. At the end of an interval a path is *late* when its
//! answer took, or its probe has waited for an answer, longer than twice the median of all paths and [`LATE_FLOOR`] more.
//! A path that is late for the second consecutive interval has its weight halved, down to [`WEIGHT_MIN`] of [`WEIGHT_MAX`]; one that is not has
//! [`WEIGHT_STEP`] added. So a path that is much slower than others has lost 98 % of its share in eight intervals, a path is used
//! again within two seconds after it has recovered, and where all paths wait alike, none is late.
//!
//! # Orders
//!
//! A control port that knows the fabric's hash may order which ports a worker with weights uses ([`Paths::use_ports`]); what is said above is
//! then of those. Of the other ports one is probed in every interval. The order is suspended, and all ports are used, when for two intervals the
//! fastest of its ports took longer than [`OVERDUE_FACTOR`] times the median of the others and [`OVERDUE_FLOOR`]. Its ports then
//! have the least weight; when they have half of their weight again, it is in force again. It stays when the control port is gone.

use core::time::Duration;

use netfold_control::{Multipath, PATHS_MAX, PathPolicy, PathReport, PortSet};

use crate::Instant;
use crate::spray::{Mixed, Oblivious, PacketOutcome, Reps, Spray, ValuesError};

mod order;

use order::Order;
pub use order::{OVERDUE_ALONE, OVERDUE_FACTOR, OVERDUE_FLOOR};

/// How often each path is probed.
pub const PROBE_INTERVAL: Duration = Duration::from_millis(50);
/// Intervals that an answer is awaited before a path is probed again.
pub const PROBE_PATIENCE: u32 = 4;
/// How much longer than twice the median an answer takes at least when its path is late.
pub const LATE_FLOOR: Duration = Duration::from_millis(1);
/// The weight of a path at first.
pub const WEIGHT_MAX: u16 = 64;
/// The least weight.
pub const WEIGHT_MIN: u16 = 1;
/// What a path that is not late gains in an interval.
pub const WEIGHT_STEP: u16 = 2;
/// Consecutive packets that leave from one port at most, but under [`PathPolicy::Spray`] and [`PathPolicy::Fixed`]: a socket sends them in one
/// GSO packet. A path of less weight has shorter runs.
pub const RUN: u8 = 8;

/// What a packet takes of a path's deficit.
const OF_PACKET: u16 = WEIGHT_MAX / RUN as u16;

/// What marks the tag of a probe.
const TAG: u32 = 0xa5 << 24;

/// What is known of a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathStats {
    /// Packets sent by it.
    pub sent: u64,
    /// Results received at its port.
    pub results: u64,
    /// Its weight, up to [`WEIGHT_MAX`].
    pub weight: u16,
    /// How long its last answered probe took; `None` before the first answer.
    pub round_trip: Option<Duration>,
    /// Intervals in which it was late.
    pub late: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Path {
    stats: PathStats,
    /// Of deficit round robin: what its weight has given it and its runs have not used, in parts of a packet.
    deficit: u16,
    /// When its probe was sent, and the probe's number, until the answer is there.
    probe: Option<(Instant, u16)>,
    /// What the answer of this interval took.
    answered: Option<Duration>,
    /// Consecutive intervals in which it was late.
    late_streak: u32,
}

/// Chooses paths, and learns from answers and results. Allocates only when made.
pub struct Paths {
    policy: PathPolicy,
    spray: Option<Box<dyn Spray + Send>>,
    paths: Vec<Path>,
    /// By slot, the path that its chunk was last sent by, and whether its result is awaited as the outcome of that path's run, of which it was
    /// the first packet.
    of_slot: Vec<(u8, bool)>,
    /// The path of the present run, and how many more packets take it.
    run: (u8, u8),
    /// The path that has the next run by weight.
    robin: u8,
    /// The path whose interval ends next, and when.
    turn: (u8, Instant),
    /// Of the last probe.
    number: u16,
    /// The ports that are to be used.
    order: Order,
    /// The port, of those that are not used, that was probed last.
    unused: u8,
}

impl core::fmt::Debug for Paths {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Paths")
            .field("policy", &self.policy)
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

impl Paths {
    /// Paths of a worker with `slots` slots. Workers with other seeds choose in another order.
    ///
    /// # Errors
    ///
    /// [`ValuesError`] when the number of ports, which came over the network, is not a power of two up to [`PATHS_MAX`].
    pub fn new(multipath: Multipath, slots: u32, seed: u64) -> Result<Self, ValuesError> {
        let Multipath { udp_ports, policy } = multipath;
        let values = u16::from(udp_ports);
        if !Multipath::is_valid(udp_ports) {
            return Err(ValuesError(values));
        }
        let spray: Option<Box<dyn Spray + Send>> = match policy {
            PathPolicy::Spray => Some(Box::new(Oblivious::new(values, seed)?)),
            PathPolicy::Reps => Some(Box::new(Reps::new(values, seed)?)),
            PathPolicy::Mixed => Some(Box::new(Mixed::new(values, seed)?)),
            _ => None,
        };
        let fresh = PathStats { weight: WEIGHT_MAX, ..PathStats::default() };
        let paths = vec![Path { stats: fresh, ..Path::default() }; usize::from(udp_ports)];
        Ok(Self {
            policy,
            spray,
            paths,
            of_slot: vec![(0, false); slots as usize],
            run: (0, 0),
            robin: (seed % u64::from(udp_ports)) as u8,
            turn: (0, Instant::ZERO),
            number: 0,
            order: Order::all(udp_ports),
            unused: 0,
        })
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u8 {
        self.paths.len() as u8
    }

    /// The path of the next packet, which is for `slot`.
    pub fn next(&mut self, now: Instant, slot: u16) -> u8 {
        let slot = usize::from(slot);
        let (last, awaited) = self.of_slot.get(slot).copied().unwrap_or_default();
        if awaited && let Some(spray) = &mut self.spray {
            // A retransmission: packet, result or both were lost, or another rank's.
            spray.record_outcome(now.as_nanos(), u16::from(last), PacketOutcome::TimedOut);
        }
        let begins = self.run.1 == 0;
        if begins {
            let sprayed = self.spray.as_mut().map(|spray| spray.next(now.as_nanos()) as u8);
            self.run = match (self.policy, sprayed) {
                (PathPolicy::Fixed, _) => ((slot % self.paths.len()) as u8, 1),
                (PathPolicy::Spray, Some(path)) => (path, 1),
                (_, Some(path)) => (path, RUN),
                (_, None) => self.weighted(),
            };
        }
        self.run.1 -= 1;
        let path = self.run.0;
        if let Some(of_slot) = self.of_slot.get_mut(slot) {
            *of_slot = (path, begins);
        }
        self.paths[usize::from(path)].stats.sent += 1;
        path
    }

    /// Ends a run: what is sent next is not sent together with what was sent before.
    pub fn end_run(&mut self) {
        let (path, left) = self.run;
        if self.policy == PathPolicy::Weighted && left > 0 {
            // It has the rest of its share later.
            self.paths[usize::from(path)].deficit += u16::from(left) * OF_PACKET;
        }
        self.run.1 = 0;
    }

    /// Uses these ports from now on, as long as they can be relied on. Ignores what is no set of its ports, and all orders under policies other than
    /// [`PathPolicy::Weighted`].
    pub fn use_ports(&mut self, now: Instant, ports: PortSet) {
        if self.policy != PathPolicy::Weighted || !ports.is_of(self.count()) || ports == self.order.ports {
            return;
        }
        self.end_run();
        self.order = self.order.replaced(ports);
        self.paths.iter_mut().for_each(|path| (path.probe, path.late_streak) = (None, 0));
        self.turn = (self.order.first_used(), now.max(self.turn.1));
    }

    /// Whether the ordered ports are not relied on at present.
    #[must_use]
    pub fn is_order_suspended(&self) -> bool {
        self.order.suspended
    }

    /// Records that the result of `slot` was received at the port of `path`; `marked`: a queue on the way of a packet was long.
    pub fn on_result(&mut self, now: Instant, slot: u16, path: u8, marked: bool) {
        if let Some(received) = self.paths.get_mut(usize::from(path)) {
            received.stats.results += 1;
        }
        let Some((sent_by, awaited)) = self.of_slot.get_mut(usize::from(slot)) else { return };
        if core::mem::take(awaited)
            && let Some(spray) = &mut self.spray
        {
            let outcome = if marked { PacketOutcome::Marked } else { PacketOutcome::Clean };
            spray.record_outcome(now.as_nanos(), u16::from(*sent_by), outcome);
        }
    }

    /// When [`Self::poll_probe`] has something to do; not before then. `None` for policies that need no probes.
    #[must_use]
    pub fn next_probe_at(&self) -> Option<Instant> {
        (self.policy == PathPolicy::Weighted).then_some(self.turn.1)
    }

    /// Ends the interval of a path, if it is over, and returns the path and the tag of the probe that is to be sent by it, if one is.
    pub fn poll_probe(&mut self, now: Instant) -> Option<(u8, u32)> {
        let (turn, at) = self.turn;
        if self.policy != PathPolicy::Weighted || now < at {
            return None;
        }
        let next = self.next_turn(turn);
        let turns = self.order.used().count() + u32::from(self.order.next_unused(0).is_some());
        let apart = PROBE_INTERVAL / turns;
        // After a pause, in which nothing was sent, intervals begin anew.
        let paused = now - at > PROBE_INTERVAL;
        self.turn = (next, if paused { now } else { at } + apart);
        if paused {
            self.order.pause();
            self.paths.iter_mut().for_each(|path| (path.probe, path.late_streak) = (None, 0));
        } else {
            self.end_interval(now, turn);
            self.end_round(now, turn);
        }
        let path = &mut self.paths[usize::from(turn)];
        let patience = PROBE_INTERVAL * PROBE_PATIENCE;
        if path.probe.is_some_and(|(at, _)| now - at < patience) {
            return None;
        }
        self.number = self.number.wrapping_add(1);
        path.probe = Some((now, self.number));
        path.answered = None;
        Some((turn, TAG | u32::from(turn) << 16 | u32::from(self.number)))
    }

    /// Takes the tag of a packet that the switch has answered at once; whether it was that of a probe.
    pub fn on_answer(&mut self, now: Instant, tag: u32) -> bool {
        let [mark, path, number @ ..] = tag.to_be_bytes();
        if u32::from(mark) << 24 != TAG || path >= self.count() {
            return false;
        }
        let path = &mut self.paths[usize::from(path)];
        // An answer that comes after the next probe shows no more than that its path was late.
        if let Some((at, _)) = path.probe.take_if(|(_, last)| *last == u16::from_be_bytes(number)) {
            path.answered = Some(now - at);
            path.stats.round_trip = Some(now - at);
        }
        true
    }

    fn end_interval(&mut self, now: Instant, index: u8) {
        let limit = self.median(self.order.used()).map(|median| median * 2 + LATE_FLOOR);
        let path = &mut self.paths[usize::from(index)];
        let waited = path.probe.map(|(at, _)| now - at);
        let Some((took, limit)) = path.answered.max(waited).zip(limit) else { return };
        if !self.order.used().contains(index) {
            return;
        }
        let weight = &mut path.stats.weight;
        if took <= limit {
            path.late_streak = 0;
            if path.answered.is_some() {
                *weight = (*weight + WEIGHT_STEP).min(WEIGHT_MAX);
            }
            return;
        }
        path.stats.late += 1;
        path.late_streak += 1;
        if path.late_streak > 1 {
            *weight = (*weight / 2).max(WEIGHT_MIN);
        }
    }

    /// The path whose interval ends after that of `turn`: those that are used in turn, and between two rounds one of the others.
    fn next_turn(&mut self, turn: u8) -> u8 {
        let used = self.order.used().contains(turn);
        let after = used.then(|| self.order.next_used(turn)).flatten();
        if let (true, None, Some(unused)) = (used, after, self.order.next_unused(self.unused)) {
            self.unused = unused;
            return unused;
        }
        after.unwrap_or_else(|| self.order.first_used())
    }

    /// After the last of the paths that are used: suspends the order, or resumes it.
    fn end_round(&mut self, now: Instant, turn: u8) {
        if !self.order.used().contains(turn) || self.order.next_used(turn).is_some() {
            return;
        }
        let ports = self.order.ports;
        let ordered = (0..).zip(&self.paths).filter(|(port, _)| ports.contains(*port));
        if self.order.suspended {
            let weight: u32 = ordered.map(|(_, path)| u32::from(path.stats.weight)).sum();
            if weight * 2 >= u32::from(WEIGHT_MAX) * ports.count() {
                self.order.resume();
            }
            return;
        }
        // A probe that is under way has not shown yet that the path is faster than it was.
        let took = |path: &Path| match path.probe {
            Some((at, _)) => Some(now - at).max(path.stats.round_trip),
            None => path.answered,
        };
        let best = ordered.filter_map(|(_, path)| took(path)).min();
        let others = self.median(PortSet(!ports.0));
        if self.order.end_round(best, others) {
            self.end_run();
            for (port, path) in (0..).zip(&mut self.paths) {
                if ports.contains(port) {
                    path.stats.weight = WEIGHT_MIN;
                }
            }
        }
    }

    /// The median of the last answers of these paths.
    fn median(&self, ports: PortSet) -> Option<Duration> {
        let mut known = [Duration::ZERO; PATHS_MAX as usize];
        let mut count = 0;
        let paths = (0..).zip(&self.paths).filter(|(port, _)| ports.contains(*port));
        for round_trip in paths.filter_map(|(_, path)| path.stats.round_trip) {
            known[count] = round_trip;
            count += 1;
        }
        let known = &mut known[..count];
        let middle = known.len().checked_sub(1)? / 2;
        Some(*known.select_nth_unstable(middle).1)
    }

    /// The next path by deficit round robin, and the length of its run: each has packets in proportion to its weight, and the fewer at once the
    /// less it has.
    fn weighted(&mut self) -> (u8, u8) {
        let used = self.order.used();
        // A path has a packet in every eighth round at least.
        loop {
            let index = self.robin;
            self.robin = (index + 1) % self.count();
            if !used.contains(index) {
                continue;
            }
            let path = &mut self.paths[usize::from(index)];
            let deficit = (path.deficit + path.stats.weight).min(2 * WEIGHT_MAX);
            let packets = (deficit / OF_PACKET).min(RUN.into());
            path.deficit = deficit - packets * OF_PACKET;
            if packets > 0 {
                return (index, packets as u8);
            }
        }
    }

    /// What has been sent by each, and how long they take, for those who watch the job. Allocates.
    #[must_use]
    pub fn report(&self) -> PathReport {
        let micros = |stats: PathStats| stats.round_trip.map_or(0, |took| took.as_micros().max(1));
        PathReport {
            sent: self.stats().map(|stats| stats.sent).collect(),
            round_trip_us: self
                .stats()
                .map(|stats| u32::try_from(micros(stats)).unwrap_or(u32::MAX))
                .collect(),
            ordered: (self.policy == PathPolicy::Weighted).then_some(self.order.ports),
        }
    }

    /// What is known of each.
    pub fn stats(&self) -> impl ExactSizeIterator<Item = PathStats> + '_ {
        self.paths.iter().map(|path| path.stats)
    }
}

#[cfg(test)]
mod tests;
