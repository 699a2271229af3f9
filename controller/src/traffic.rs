//! Traffic of a tree of a job, from the counters that its members report with their heartbeats.
//!
//! What a member reports is believed for its own job alone.

mod diagnosis;
mod links;
mod paths;
mod pattern;

pub(crate) use diagnosis::{Change, findings_of_job};
pub(crate) use links::{AccessLink, LinkedTree, of_links};
pub(crate) use paths::{AVOIDED_MAX, TreePaths};
pub(crate) use pattern::{TreePattern, TreePatterns};

use crate::view::TrafficView;
use diagnosis::Diagnosis;
use netfold_control::MemberCounters;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Samples that are kept, one for each heartbeat: rates are over the time from the oldest to the newest.
const SAMPLES_MAX: usize = 9;

/// Counters of a tree's members.
#[derive(Debug, Default)]
pub(crate) struct TreeTraffic {
    /// By rank, also of those that have left.
    members: BTreeMap<u16, MemberTraffic>,
    /// When samples were taken, the oldest first.
    times: VecDeque<Duration>,
    /// What slows it down.
    diagnosis: Diagnosis,
}

/// Counters of a member.
#[derive(Debug)]
struct MemberTraffic {
    /// Its first report: a controller that has restarted does not know when that was counted.
    first: MemberCounters,
    newest: MemberCounters,
    /// One for each of the last times since its first report, the oldest first.
    samples: VecDeque<MemberCounters>,
}

impl MemberTraffic {
    fn sample(&mut self) {
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(self.newest);
    }

    /// What it counted between the first and the last of so many samples of its tree.
    fn recent(&self, samples: usize) -> MemberCounters {
        let Some(last) = self.samples.back() else { return MemberCounters::default() };
        let before = self.samples.front().filter(|_| self.samples.len() == samples);
        last.since(before.unwrap_or(&self.first))
    }
}

impl TreeTraffic {
    /// Takes the counters of a member. Counters that are less than before, or contradict each other, are ignored.
    pub(crate) fn report(&mut self, rank: u16, counters: MemberCounters) {
        let known = self.member(rank).unwrap_or_default();
        if counters.may_follow(&known) {
            let first = || MemberTraffic { first: counters, newest: counters, samples: VecDeque::new() };
            self.members.entry(rank).or_insert_with(first).newest = counters;
        }
    }

    /// Takes a sample, for rates.
    pub(crate) fn sample(&mut self, now: Duration) {
        if self.times.len() == SAMPLES_MAX {
            self.times.pop_front();
        }
        self.times.push_back(now);
        self.members.values_mut().for_each(MemberTraffic::sample);
    }

    /// No session is open any more: rates are 0, until there are samples again.
    pub(crate) fn pause(&mut self) {
        self.times.clear();
        self.diagnosis.forget_series();
        self.members.values_mut().for_each(|member| member.samples.clear());
    }

    /// The newest counters of a member.
    pub(crate) fn member(&self, rank: u16) -> Option<MemberCounters> {
        Some(self.members.get(&rank)?.newest)
    }

    /// The time that rates are over, in seconds; `None` before there are two samples.
    fn seconds(&self) -> Option<f64> {
        let window = self.times.back()?.saturating_sub(*self.times.front()?);
        Some(window.as_secs_f64()).filter(|seconds| *seconds > 0.0)
    }

    /// What a member counted in that time; `None` if it has reported nothing.
    fn recent(&self, rank: u16) -> Option<MemberCounters> {
        Some(self.members.get(&rank)?.recent(self.times.len()))
    }

    /// Bits a second that the tree sends over a link between switches: what its members send without retransmissions, the median of those that have
    /// reported. `None` if none has.
    pub(crate) fn demand(&self) -> Option<u64> {
        let seconds = self.seconds();
        let of_member = |member: &MemberTraffic| {
            let recent = member.recent(self.times.len());
            let once = 1.0 - ratio(recent.packets_retransmitted, recent.packets_sent);
            seconds.map_or(0, |seconds| (recent.bytes_sent as f64 * 8.0 * once / seconds) as u64)
        };
        let mut all: Vec<u64> = self.members.values().map(of_member).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied()
    }

    /// The traffic; `None` if no member has reported any.
    fn sum(&self) -> Option<TreeSum> {
        let members = u32::try_from(self.members.len()).ok().filter(|members| *members > 0)?;
        let add = |sum: MemberCounters, more: MemberCounters| sum.plus(&more);
        let newest = self.members.values().map(|member| member.newest);
        let recent = self.members.values().map(|member| member.recent(self.times.len()));
        let recent = recent.fold(MemberCounters::default(), add);
        let goodput =
            self.seconds().map_or(0.0, |seconds| recent.tensor_bytes as f64 / seconds / f64::from(members));
        Some(TreeSum { totals: newest.fold(MemberCounters::default(), add), recent, members, goodput })
    }
}

/// Traffic of one tree.
struct TreeSum {
    totals: MemberCounters,
    /// Counted within the time that rates are over.
    recent: MemberCounters,
    /// Members that have reported.
    members: u32,
    /// Bytes a second.
    goodput: f64,
}

/// The traffic of a job in all its trees, each of which carries a part of its tensors; `None` if no member has reported any.
pub(crate) fn of_job<'a>(trees: impl Iterator<Item = &'a TreeTraffic>) -> Option<TrafficView> {
    let add = |a: TreeSum, b: TreeSum| TreeSum {
        totals: a.totals.plus(&b.totals),
        recent: a.recent.plus(&b.recent),
        members: a.members + b.members,
        goodput: a.goodput + b.goodput,
    };
    let sum = trees.filter_map(TreeTraffic::sum).reduce(add)?;
    Some(TrafficView {
        goodput: sum.goodput as u64,
        retransmission_ratio: ratio(sum.recent.packets_retransmitted, sum.recent.packets_sent),
        totals: sum.totals,
    })
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEARTBEAT: Duration = Duration::from_millis(500);

    fn counters(tensor_bytes: u64, packets_sent: u64, packets_retransmitted: u64) -> MemberCounters {
        let results_received = packets_sent - packets_retransmitted;
        let bytes_sent = 1_000 * packets_sent;
        MemberCounters {
            tensor_bytes,
            packets_sent,
            bytes_sent,
            packets_retransmitted,
            results_received,
            ..MemberCounters::default()
        }
    }

    fn view(trees: &[&TreeTraffic]) -> Option<TrafficView> {
        of_job(trees.iter().copied())
    }

    /// Two members that receive 1,000 bytes in each heartbeat, of ten packets with one retransmission.
    fn steady(heartbeats: u32) -> TreeTraffic {
        let mut tree = TreeTraffic::default();
        for beat in 0..=heartbeats {
            let n = u64::from(beat);
            (0..2).for_each(|rank| tree.report(rank, counters(5_000 + 1_000 * n, 10 * n, n)));
            tree.sample(HEARTBEAT * beat);
        }
        tree
    }

    #[test]
    fn goodput_is_that_of_one_worker_over_the_last_seconds() {
        assert_eq!(view(&[&TreeTraffic::default()]), None, "nothing was reported");
        let seen = view(&[&steady(20)]).unwrap();
        assert_eq!((seen.goodput, seen.retransmission_ratio), (2_000, 0.1));
        assert_eq!(seen.totals, counters(2 * 25_000, 2 * 200, 2 * 20));
        let twice = view(&[&steady(20), &steady(20)]).unwrap();
        assert_eq!(
            (twice.goodput, twice.retransmission_ratio),
            (4_000, 0.1),
            "trees carry parts of a tensor"
        );
    }

    #[test]
    fn rates_do_not_contain_what_was_before_the_first_report() {
        let mut restarted = TreeTraffic::default();
        restarted.sample(Duration::ZERO);
        restarted.report(0, counters(1 << 40, 1 << 20, 1));
        restarted.sample(HEARTBEAT);
        let seen = view(&[&restarted]).unwrap();
        assert_eq!((seen.goodput, seen.totals.tensor_bytes), (0, 1 << 40));
    }

    #[test]
    fn rates_are_zero_once_no_session_is_open() {
        let mut tree = steady(20);
        tree.pause();
        let seen = view(&[&tree]).unwrap();
        assert_eq!((seen.goodput, seen.retransmission_ratio), (0, 0.0));
        assert_eq!(seen.totals.packets_sent, 400);
    }

    #[test]
    fn wrong_counters_are_ignored() {
        let mut tree = steady(20);
        for wrong in
            [counters(0, 0, 0), MemberCounters { packets_retransmitted: 300, ..counters(25_000, 200, 20) }]
        {
            tree.report(0, wrong);
            assert_eq!(tree.member(0), Some(counters(25_000, 200, 20)));
        }
        // What grows is believed, and the sum does not overflow.
        let most = MemberCounters { bytes_sent: u64::MAX, ..counters(u64::MAX, u64::MAX / 1_000, 20) };
        (0..2).for_each(|rank| tree.report(rank, most));
        tree.sample(HEARTBEAT * 21);
        assert_eq!(view(&[&tree]).unwrap().totals.tensor_bytes, u64::MAX);
    }

    #[test]
    fn the_samples_are_bounded() {
        let tree = steady(1_000);
        assert_eq!(tree.times.len(), SAMPLES_MAX);
        assert!(tree.members.values().all(|member| member.samples.len() == SAMPLES_MAX));
    }

    #[test]
    fn a_member_that_reports_later_counts_from_its_first_report() {
        let mut tree = steady(4);
        tree.report(2, counters(1 << 30, 1 << 20, 0));
        tree.sample(HEARTBEAT * 5);
        assert_eq!(tree.recent(2), Some(MemberCounters::default()));
        tree.report(2, counters((1 << 30) + 50, (1 << 20) + 5, 0));
        tree.sample(HEARTBEAT * 6);
        let recent = tree.recent(2).unwrap();
        assert_eq!((recent.tensor_bytes, recent.packets_sent), (50, 5));
        assert_eq!((tree.recent(0).unwrap().packets_sent, tree.recent(3)), (40, None));
    }
}
