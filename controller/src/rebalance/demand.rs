//! What a job demands of its links, from what its own workers measure.
//!
//! A job whose iterations are known demands what it would send if it had its links for itself: the bytes of an iteration in the time in which it computes
//! and communicates alone. That does not depend on how loaded its links are, so that moving a job does not change it. Of other jobs the traffic counts.
//! Before anything is measured, the declared iteration counts, and without one [`ASSUMED_SHARE`] of a host's link: alike for all jobs, so that
//! trees are placed by their number then.
//!
//! Whatever is reported, a tree demands between [`MIN_SHARE`] of a host's link and what its hosts' links carry.

use std::time::Duration;

use netfold_control::{CommunicationPattern, Iteration};

/// Part of a host's link that a job demands of which nothing is known.
pub const ASSUMED_SHARE: u64 = 8;

/// Part of a host's link that every job demands at least.
pub const MIN_SHARE: u64 = 1024;

/// How long traffic is measured before it counts.
pub const MEASURED_MIN: Duration = Duration::from_secs(10);

/// A demand that rises by less than this factor is not changed.
pub const CHANGE_MIN: f64 = 1.25;

/// Shortest time between two changes of a demand.
pub const CHANGE_INTERVAL: Duration = Duration::from_secs(10);

/// A demand falls to the highest that was measured in this time: a job that writes a checkpoint comes back.
pub const FALL_INTERVAL: Duration = Duration::from_secs(120);

/// The part of a link's rate that is assumed for payloads.
const EFFICIENCY: f64 = 0.96;

/// Where a demand comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DemandSource {
    /// From nothing: neither measured nor declared.
    Assumed,
    /// From the job's declaration.
    Declared,
    /// From the packets that its workers send.
    Traffic,
    /// From its iterations.
    Pattern,
}

impl DemandSource {
    /// Its name in data.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Assumed => "assumed",
            Self::Declared => "declared",
            Self::Traffic => "traffic",
            Self::Pattern => "pattern",
        }
    }

    /// Whether it is measured.
    pub const fn is_measured(self) -> bool {
        matches!(self, Self::Traffic | Self::Pattern)
    }
}

/// How many times the rate of its hosts' links a pattern may say that a job communicates at: rates are given roughly, and times measured so.
const PLAUSIBLE: f64 = 1.25;

/// What a tree demands of each of its links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// Bits a second, in each direction.
    pub bits_per_second: u64,
    /// Where that comes from.
    pub source: DemandSource,
}

/// What is known of a tree at the moment.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// Bits a second that its hosts' links carry of it.
    pub most: u64,
    /// Bits a second of a host's link.
    pub host_rate: u64,
    /// Its iterations, if they can be relied on.
    pub pattern: Option<CommunicationPattern>,
    /// Bits a second over a link between switches in the last seconds, if any worker has reported.
    pub traffic: Option<u64>,
    /// The iteration that it was declared with.
    pub declared: Option<Iteration>,
}

impl Known {
    /// What a pattern demands: its bytes in the time that an iteration takes alone.
    fn of_iteration(&self, bytes: u64, compute_us: u64) -> u64 {
        let bits = bytes as f64 * 8.0;
        let alone = bits / (self.most.max(1) as f64 * EFFICIENCY);
        let seconds = compute_us as f64 / 1e6 + alone;
        if seconds > 0.0 { (bits / seconds) as u64 } else { 0 }
    }

    /// A demand within the bounds.
    fn bounded(&self, bits_per_second: u64, source: DemandSource) -> Demand {
        let least = (self.host_rate / MIN_SHARE).min(self.most);
        Demand { bits_per_second: bits_per_second.clamp(least, self.most), source }
    }

    /// Whether the hosts' links carry the bytes of a pattern while it communicates; nothing else can have been measured.
    fn carries(&self, pattern: &CommunicationPattern) -> bool {
        pattern.bytes as f64 * 8.0 <= self.most as f64 * PLAUSIBLE * pattern.busy_us as f64 / 1e6
    }

    fn measured(&self) -> Option<Demand> {
        let of_pattern = self.pattern.filter(|pattern| self.carries(pattern)).map(|pattern| {
            self.bounded(self.of_iteration(pattern.bytes, pattern.compute_us), DemandSource::Pattern)
        });
        of_pattern.or_else(|| Some(self.bounded(self.traffic?, DemandSource::Traffic)))
    }

    /// What counts before anything is measured.
    pub fn unmeasured(&self) -> Demand {
        match self.declared {
            Some(Iteration { bytes, compute_us, .. }) => {
                self.bounded(self.of_iteration(bytes, compute_us), DemandSource::Declared)
            }
            None => self.bounded(self.host_rate / ASSUMED_SHARE, DemandSource::Assumed),
        }
    }

    /// Time by which an iteration's communication is longer than alone, over links of which the slowest has this rate.
    pub fn lost(&self, slowest: u64) -> Option<Duration> {
        let pattern = self.pattern?;
        let rate = self.most.min(slowest).max(1) as f64 * EFFICIENCY;
        let alone = pattern.bytes as f64 * 8.0 / rate;
        Some(Duration::from_secs_f64((pattern.busy_us as f64 / 1e6 - alone).max(0.0)))
    }
}

/// The demand of a tree, damped. It outlives the tree's place, as its job does.
#[derive(Debug, Clone, Copy, Default)]
pub struct DemandMeter {
    demand: Option<Demand>,
    changed: Duration,
    /// The highest that was measured since `since`.
    highest: u64,
    since: Duration,
    /// Since when there is traffic without a pattern.
    traffic_since: Option<Duration>,
}

impl DemandMeter {
    /// The demand that counts, once [`Self::note`] was called.
    pub const fn demand(&self) -> Option<Demand> {
        self.demand
    }

    /// Takes what is known now, and returns the demand that counts.
    pub fn note(&mut self, now: Duration, known: &Known) -> Demand {
        let fresh = self.fresh(now, known);
        let before = self.demand.filter(|before| before.source.is_measured());
        let new = match (before, fresh) {
            // What was measured counts until something else is.
            (Some(before), None) => known.bounded(before.bits_per_second, before.source),
            (None, None) => known.unmeasured(),
            (None, Some(fresh)) => {
                (self.changed, self.highest, self.since) = (now, fresh.bits_per_second, now);
                fresh
            }
            (Some(before), Some(fresh)) => self.damped(now, known, before, fresh),
        };
        self.demand = Some(new);
        new
    }

    fn fresh(&mut self, now: Duration, known: &Known) -> Option<Demand> {
        let fresh = known.measured();
        if fresh.is_none_or(|fresh| fresh.source == DemandSource::Pattern) {
            self.traffic_since = None;
            return fresh;
        }
        let since = *self.traffic_since.get_or_insert(now);
        fresh.filter(|_| now.saturating_sub(since) >= MEASURED_MIN)
    }

    fn damped(&mut self, now: Duration, known: &Known, before: Demand, fresh: Demand) -> Demand {
        self.highest = self.highest.max(fresh.bits_per_second);
        let rests = now.saturating_sub(self.changed) >= CHANGE_INTERVAL;
        let rises = fresh.bits_per_second as f64 > CHANGE_MIN * before.bits_per_second as f64;
        if rises && rests {
            (self.changed, self.highest, self.since) = (now, fresh.bits_per_second, now);
            return fresh;
        }
        if now.saturating_sub(self.since) < FALL_INTERVAL {
            return known.bounded(before.bits_per_second, fresh.source);
        }
        let highest = std::mem::replace(&mut self.highest, fresh.bits_per_second);
        self.since = now;
        if highest as f64 * CHANGE_MIN > before.bits_per_second as f64 {
            return known.bounded(before.bits_per_second, fresh.source);
        }
        self.changed = now;
        known.bounded(highest, fresh.source)
    }
}
