//! How the members of a tree use their paths, where their workers have several UDP ports, from what they report with their heartbeats.

use std::collections::BTreeMap;
use std::time::Duration;

use netfold_control::{PathReport, PortSet};

use crate::view::AvoidedPathView;

/// Packets, for each path, after which the shares of paths are computed again.
const PACKETS_MIN: u64 = 64;

/// Shortest time over which shares are computed: a path that was late once has its share again sooner.
const SHARES_INTERVAL: Duration = Duration::from_secs(2);

/// A path with less than this part of an even share is avoided.
const AVOIDED_SHARE: f64 = 0.5;

/// How long shares are shown after they were computed.
const FRESH: Duration = Duration::from_secs(10);

/// Most avoided paths of a job that are named; all are counted.
pub(crate) const AVOIDED_MAX: usize = 16;

/// What the members of a tree have reported, by rank.
#[derive(Debug, Default)]
pub(crate) struct TreePaths(BTreeMap<u16, MemberPaths>);

#[derive(Debug, Default)]
struct MemberPaths {
    newest: PathReport,
    /// Packets that were sent by each path when its share was computed last, and when that was.
    counted: Vec<u64>,
    counted_at: Duration,
    /// The share of each path in the packets between the last two such times, and the later of them.
    shares: Option<(Duration, Vec<f64>)>,
}

impl TreePaths {
    /// Takes what a member with so many UDP ports reports. What cannot follow its last report is ignored; then the reply is false.
    pub(crate) fn report(&mut self, now: Duration, rank: u16, udp_ports: u8, report: PathReport) -> bool {
        let earlier = self.0.get(&rank).map(|member| &member.newest);
        if !report.may_follow(earlier.unwrap_or(&PathReport::default()), udp_ports) {
            return false;
        }
        let member = self.0.entry(rank).or_default();
        // What was sent before the first report may be long ago: a controller that has restarted does not know.
        if member.counted.is_empty() {
            member.counted.clone_from(&report.sent);
            member.counted_at = now;
        }
        let sent = |(now, before): (&u64, &u64)| now - before;
        let packets = report.sent.iter().zip(&member.counted).map(sent).fold(0, u64::saturating_add);
        let is_over = now.saturating_sub(member.counted_at) >= SHARES_INTERVAL;
        if is_over && packets >= PACKETS_MIN * u64::from(udp_ports) {
            let share = |pair| sent(pair) as f64 / packets as f64;
            let shares = report.sent.iter().zip(&member.counted).map(share).collect();
            member.shares = Some((now, shares));
            member.counted.clone_from(&report.sent);
            member.counted_at = now;
        }
        member.newest = report;
        true
    }

    /// The ports that members were ordered to use, as they report.
    pub(crate) fn ordered(&self) -> impl Iterator<Item = (u16, PortSet)> {
        self.0.iter().filter_map(|(rank, member)| Some((*rank, member.newest.ordered?)))
    }

    /// How many members' shares are known, and the paths that are avoided.
    pub(crate) fn avoided(&self, now: Duration, tree: u8) -> (usize, Vec<AvoidedPathView>) {
        let fresh = self.0.iter().filter_map(|(rank, member)| {
            let (at, shares) = member.shares.as_ref()?;
            (now.saturating_sub(*at) <= FRESH).then_some((*rank, member, shares))
        });
        let (mut members, mut avoided) = (0, Vec::new());
        for (rank, member, shares) in fresh {
            members += 1;
            // Ports that a member was ordered not to use are not avoided by it.
            let used = member.newest.ordered.unwrap_or(PortSet::first(shares.len() as u8));
            let even = 1.0 / f64::from(used.count());
            let small =
                |(path, share): &(usize, &f64)| used.contains(*path as u8) && **share < AVOIDED_SHARE * even;
            for (path, share) in shares.iter().enumerate().filter(small) {
                let round_trip_us = member.newest.round_trip_us[path];
                avoided.push(AvoidedPathView { rank, tree, path: path as u8, share: *share, round_trip_us });
            }
        }
        (members, avoided)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn report(sent: [u64; 4]) -> PathReport {
        PathReport { sent: sent.to_vec(), round_trip_us: vec![100, 200, 40_000, 0], ordered: None }
    }

    #[test]
    fn a_path_with_a_small_share_is_avoided() {
        let mut tree = TreePaths::default();
        tree.report(SECOND, 3, 4, report([5_000, 5_000, 5_000, 5_000]));
        assert_eq!(tree.avoided(SECOND, 0), (0, vec![]), "when those were sent is not known");
        // Fewer than say anything.
        tree.report(3 * SECOND, 3, 4, report([5_050, 5_050, 5_000, 5_050]));
        assert_eq!(tree.avoided(3 * SECOND, 0).0, 0);
        tree.report(3 * SECOND, 3, 4, report([5_100, 5_100, 5_001, 5_100]));
        let (members, avoided) = tree.avoided(3 * SECOND, 1);
        let share = 1.0 / 301.0;
        assert_eq!(avoided, [AvoidedPathView { rank: 3, tree: 1, path: 2, share, round_trip_us: 40_000 }]);
        assert_eq!(members, 1);
        // It is used again, and then nothing is sent.
        let before = tree.avoided(4 * SECOND, 1);
        tree.report(4 * SECOND, 3, 4, report([5_150, 5_150, 5_101, 5_200]));
        assert_eq!(tree.avoided(4 * SECOND, 1), before, "after too short a time");
        tree.report(5 * SECOND, 3, 4, report([5_200, 5_200, 5_101, 5_200]));
        assert_eq!(tree.avoided(5 * SECOND, 1), (1, vec![]));
        assert_eq!(tree.avoided(16 * SECOND, 1), (0, vec![]));
    }

    #[test]
    fn ports_that_are_not_to_be_used_are_not_avoided() {
        let mut tree = TreePaths::default();
        let ordered = Some(PortSet(0b0110));
        let report = |sent| PathReport { ordered, ..report(sent) };
        tree.report(SECOND, 0, 4, report([100; 4]));
        tree.report(3 * SECOND, 0, 4, report([100, 1_100, 1_000, 100]));
        assert_eq!(tree.avoided(3 * SECOND, 0), (1, vec![]));
        tree.report(6 * SECOND, 0, 4, report([100, 2_900, 1_200, 100]));
        let (_, avoided) = tree.avoided(6 * SECOND, 0);
        assert_eq!(avoided.iter().map(|avoided| avoided.path).collect::<Vec<_>>(), [2]);
        assert_eq!(tree.ordered().collect::<Vec<_>>(), [(0, PortSet(0b0110))]);
    }

    #[test]
    fn impossible_reports_change_nothing() {
        let mut tree = TreePaths::default();
        tree.report(SECOND, 0, 4, report([0; 4]));
        tree.report(3 * SECOND, 0, 4, report([1_000, 1_000, 0, 1_000]));
        let before = tree.avoided(3 * SECOND, 0);
        assert_eq!(before.1.len(), 1);
        let other =
            |sent: Vec<u64>, round_trip_us: Vec<u32>| PathReport { sent, round_trip_us, ordered: None };
        assert!(!tree.report(3 * SECOND, 0, 4, other(vec![9_000; 2], vec![0; 2])));
        tree.report(3 * SECOND, 0, 4, report([2_000, 999, 2_000, 2_000]));
        assert!(!tree.report(3 * SECOND, 0, 4, other(vec![9_000; 4], Vec::new())));
        assert_eq!(tree.avoided(3 * SECOND, 0), before);
        // Counters near their end.
        tree.report(6 * SECOND, 0, 4, report([u64::MAX; 4]));
        assert_eq!(tree.avoided(6 * SECOND, 0).0, 1);
    }
}
