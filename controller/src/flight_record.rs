//! Flight records: what is known of a job that stalls, for people who look for the cause.
//!
//! A record has what the job's ranks report of their last events ([`netfold_control::StallReport`]), and what the slots of its switches held when the
//! stall was first reported: which chunks were incomplete, and who had not contributed. Module `conclusion` makes one sentence of it. No decision depends on
//! any of it.

mod conclusion;
mod missing;
mod store;

pub(crate) use missing::next_switches;
pub(crate) use store::FlightRecords;

use crate::driver::SlotState;
use crate::fleet::Placement;
use missing::Slots;
use netfold_control::{RankEvent, StallReport};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Most slots of a switch that are read for a record: as many packets as a worker sends in some microseconds.
pub(crate) const SLOTS_READ_MAX: u32 = 64;

/// Most switches of a tree that are read for a record.
pub(crate) const SWITCHES_READ_MAX: usize = 16;

/// Most ranks whose events a record has.
const RANKS_MAX: usize = 32;

/// Most incomplete chunks of a record.
const CHUNKS_MAX: usize = 8;

/// Most ranks that are named as missing in a chunk; others are counted.
const MISSING_MAX: usize = 32;

/// Silence after which a rank has missed a heartbeat or two.
const SILENT_AFTER: Duration = Duration::from_millis(1500);

/// What is known of a stall of a tree of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct FlightRecord {
    /// The job's group; empty for the job itself.
    pub group: String,
    /// Which tree.
    pub tree: u8,
    /// Epoch of its place.
    pub epoch: u32,
    /// Unix time of the last result before the stall, in milliseconds.
    pub began_ms: u64,
    /// Unix time of what the record says: of the end of the stall, if it is over.
    pub as_of_ms: u64,
    /// How the stall ended; nothing while it lasts.
    pub ended: Option<String>,
    /// The chunks that lacked contributions when the slots were read, the oldest first.
    pub chunks: Vec<IncompleteChunk>,
    /// Switches that could not be read, and why.
    pub unread: Vec<(String, String)>,
    /// Ranks that have reported the stall, or are missing in a chunk, by rank.
    pub ranks: Vec<RankRecord>,
    /// Ranks that have reported it and are left out.
    pub ranks_more: u32,
    /// The cause, as far as it is known: one sentence or two.
    pub conclusion: String,
}

/// A chunk that lacked contributions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncompleteChunk {
    /// Its number.
    pub chunk: u32,
    /// Its slot, counted from the job's first.
    pub slot: u32,
    /// The slot's set.
    pub set: u8,
    /// Ranks that have not contributed, as far as their switches say; at most 32 of them.
    pub missing: Vec<u16>,
    /// Others.
    pub missing_more: u32,
    /// Switches that have the contributions of all below them, and whose parents lack their sum.
    pub sums_missing: Vec<String>,
    /// Switches whose sums are missing, and which were not read.
    pub unread: Vec<String>,
}

/// A rank in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankRecord {
    /// The rank.
    pub rank: u16,
    /// `here`, `away` (its session broke and it may resume), `left` or `lost`.
    pub state: &'static str,
    /// How long nothing was received over its session, in milliseconds.
    pub silent_ms: u64,
    /// What it has reported, if it has.
    pub report: Option<RankReport>,
}

/// What a rank has reported, with Unix times in milliseconds: by the controller's clock, less the rank's own intervals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankReport {
    /// When the report was received.
    pub at_ms: u64,
    /// When its last packet came from the switch.
    pub received_at_ms: Option<u64>,
    /// Chunks that it had outstanding, the first of them, and how often it was sent.
    pub outstanding: u32,
    /// The first of them.
    pub chunk: u32,
    /// How often that was sent.
    pub sends: u32,
    /// Its last events, the oldest first.
    pub events: Vec<(u64, RankEvent)>,
}

/// Slots of a switch, by its place in the tree, as they were read; or why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchReading {
    /// Its number in the plan.
    pub at: usize,
    /// With slots counted from the job's first.
    pub slots: Result<Vec<SlotState>, String>,
}

/// How the reading of a stalled tree's slots is.
#[derive(Debug, PartialEq)]
pub(crate) enum Reading {
    /// It has not begun.
    Due,
    UnderWay,
    Done(Vec<SwitchReading>),
}

/// What the control plane knows of a member while it explains a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemberState {
    Here,
    Away,
    Left,
    Lost,
}

impl MemberState {
    const fn name(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Away => "away",
            Self::Left => "left",
            Self::Lost => "lost",
        }
    }
}

#[derive(Debug)]
struct Reported {
    at: Duration,
    report: StallReport,
}

/// A stall of a tree, from its first report on.
#[derive(Debug)]
pub(crate) struct Stall {
    placement: Arc<Placement>,
    /// Names of the placement's switches, in its order.
    switches: Vec<String>,
    /// Classes of the job.
    classes: u8,
    /// The class that it is about.
    class: u8,
    /// Of the last result before it.
    began: Duration,
    /// When it was first reported.
    pub(crate) opened: Duration,
    reports: BTreeMap<u16, Reported>,
    /// Reports that were received and are not kept.
    not_kept: u32,
    /// Of each rank, when it was last heard.
    pub(crate) heard: Vec<Duration>,
    /// Ranks that are lost because their connections were closed.
    pub(crate) closed: BTreeSet<u16>,
    /// Of each rank that has reported it, the results that it had then.
    pub(crate) results: BTreeMap<u16, u64>,
    pub(crate) reading: Reading,
    /// It was logged.
    pub(crate) announced: bool,
}

impl FlightRecord {
    /// Whether a rank that has not contributed is heard, so that it may yet report what it waits for.
    pub(crate) fn may_be_completed(&self) -> bool {
        let oldest = self.chunks.first().map_or(&[][..], |chunk| &chunk.missing);
        self.ranks.iter().any(|rank| {
            rank.report.is_none()
                && rank.state == MemberState::Here.name()
                && rank.silent_ms < millis(SILENT_AFTER)
                && oldest.contains(&rank.rank)
        })
    }
}

impl Stall {
    /// The first report.
    pub(crate) fn new(
        now: Duration,
        (placement, switches): (Arc<Placement>, Vec<String>),
        classes: u8,
        report: &StallReport,
    ) -> Self {
        let world = placement.members.len();
        Self {
            placement,
            switches,
            classes,
            class: report.class,
            began: now.saturating_sub(Duration::from_millis(report.silent_ms)),
            opened: now,
            reports: BTreeMap::new(),
            not_kept: 0,
            heard: vec![now; world],
            closed: BTreeSet::new(),
            results: BTreeMap::new(),
            reading: Reading::Due,
            announced: false,
        }
    }

    /// Takes a rank's report, and the results that it has counted.
    pub(crate) fn add(&mut self, now: Duration, rank: u16, report: StallReport, results: u64) {
        self.results.insert(rank, results);
        if self.reports.len() == RANKS_MAX && !self.reports.contains_key(&rank) {
            self.not_kept = self.not_kept.saturating_add(1);
            // What a rank says that has not contributed is worth more than what one says that waits for it.
            let missing = self.missing_ranks();
            let spare = self.reports.keys().rev().find(|kept| !missing.contains(kept)).copied();
            match spare.filter(|_| missing.contains(&rank)) {
                Some(spare) => self.reports.remove(&spare),
                None => return,
            };
        }
        self.reports.insert(rank, Reported { at: now, report });
    }

    /// How long there has been no result.
    pub(crate) fn lasts(&self, now: Duration) -> Duration {
        now.saturating_sub(self.began)
    }

    /// When the last result before it came.
    pub(crate) fn began(&self) -> Duration {
        self.began
    }

    /// The cause, as far as it is known; `state` is that of each rank.
    pub(crate) fn cause_known(&self, now: Duration, state: &dyn Fn(u16) -> MemberState) -> String {
        let chunks = self.slots().incomplete(self.oldest_reported(), &self.switches);
        self.conclusion(now, &chunks, state)
    }

    /// The slots to read, counted from the job's first: those of the class from shortly before the oldest outstanding chunk on.
    pub(crate) fn range(&self) -> (u32, u32) {
        let slots = self.class_slots();
        let count = slots.min(SLOTS_READ_MAX);
        let oldest = self.oldest_reported().map_or(0, |chunk| chunk & (slots - 1));
        let first = oldest.saturating_sub(count / 4).min(slots - count);
        (u32::from(self.class) * slots + first, count)
    }

    /// The oldest chunk of the class that a rank has reported as outstanding.
    pub(crate) fn oldest_reported(&self) -> Option<u32> {
        let of_class = self.reports.values().filter(|reported| reported.report.class == self.class);
        of_class.map(|reported| reported.report.chunk).reduce(|a, b| if older(b, a) { b } else { a })
    }

    /// The class that it is about, and how many slots each class has.
    pub(crate) fn class_layout(&self) -> (u8, u32) {
        (self.class, self.class_slots())
    }

    fn class_slots(&self) -> u32 {
        (self.placement.job().slots / u32::from(self.classes)).max(1)
    }

    /// What was read; nothing before.
    fn slots(&self) -> Slots<'_> {
        let readings: &[SwitchReading] = match &self.reading {
            Reading::Done(readings) => readings,
            Reading::Due | Reading::UnderWay => &[],
        };
        Slots::new(&self.placement, readings, self.class_layout())
    }

    fn missing_ranks(&self) -> Vec<u16> {
        let reported = self.oldest_reported();
        let chunks = self.slots().incomplete(reported, &self.switches);
        chunks.into_iter().flat_map(|chunk| chunk.missing).collect()
    }

    /// The record at a moment; `state` is that of each rank then, and `unix_ms` the Unix time of a moment.
    pub(crate) fn record(
        &self,
        now: Duration,
        ended: Option<&str>,
        (group, tree): (&str, u8),
        state: &dyn Fn(u16) -> MemberState,
        unix_ms: &dyn Fn(Duration) -> u64,
    ) -> FlightRecord {
        let chunks = self.slots().incomplete(self.oldest_reported(), &self.switches);
        let unread = match &self.reading {
            Reading::Done(readings) => readings
                .iter()
                .filter_map(|reading| {
                    Some((self.switches[reading.at].clone(), reading.slots.as_ref().err()?.clone()))
                })
                .collect(),
            Reading::Due | Reading::UnderWay => Vec::new(),
        };
        let shown = self.reports.keys().chain(chunks.iter().flat_map(|chunk| &chunk.missing));
        let shown: BTreeSet<u16> = shown.copied().collect();
        let rank = |rank: u16| RankRecord {
            rank,
            state: state(rank).name(),
            silent_ms: millis(self.silence(now, rank)),
            report: self.reports.get(&rank).map(|reported| reported.dated(unix_ms)),
        };
        FlightRecord {
            group: group.to_owned(),
            tree,
            epoch: self.placement.job().epoch,
            began_ms: unix_ms(self.began),
            as_of_ms: unix_ms(now),
            ended: ended.map(str::to_owned),
            conclusion: self.conclusion(now, &chunks, state),
            chunks,
            unread,
            ranks: shown.into_iter().take(2 * RANKS_MAX).map(rank).collect(),
            ranks_more: self.not_kept,
        }
    }

    fn silence(&self, now: Duration, rank: u16) -> Duration {
        self.heard.get(usize::from(rank)).map_or(Duration::ZERO, |heard| now.saturating_sub(*heard))
    }
}

impl Reported {
    fn dated(&self, unix_ms: &dyn Fn(Duration) -> u64) -> RankReport {
        let at_ms = unix_ms(self.at);
        let before = |ago_ms: u64| at_ms.saturating_sub(ago_ms);
        RankReport {
            at_ms,
            received_at_ms: self.report.received_ms.map(before),
            outstanding: self.report.outstanding,
            chunk: self.report.chunk,
            sends: self.report.sends,
            events: self.report.events.iter().map(|event| (before(event.ago_ms), *event)).collect(),
        }
    }
}

/// Whether chunk `a` is older than `b`, in serial order.
fn older(a: u32, b: u32) -> bool {
    netfold_wire::serial::newer(b, a)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
