use super::*;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use std::time::Duration;

/// What a rank counts in half a second.
fn usual() -> MemberCounters {
    MemberCounters {
        tensor_bytes: 1_000_000,
        packets_sent: 1_000,
        bytes_sent: 1_400_000,
        packets_retransmitted: 0,
        packets_overtaken: 0,
        results_received: 1_000,
        waits: 990,
        // Half a millisecond each.
        wait_us: 495_000,
        starts: 10,
        start_wait_us: 6_000,
        cpu_wait_us: 1_000,
    }
}

/// A tree whose ranks count the same in each half second.
struct Tree {
    traffic: TreeTraffic,
    members: Vec<MemberCounters>,
    now: Duration,
}

impl Tree {
    fn new(world: usize) -> Self {
        Self {
            traffic: TreeTraffic::default(),
            members: vec![MemberCounters::default(); world],
            now: Duration::ZERO,
        }
    }

    /// One interval, in which each rank counts what `counted` says.
    fn interval(&mut self, counted: impl Fn(u16) -> MemberCounters) -> Vec<Change> {
        self.now += Duration::from_millis(500);
        for (rank, member) in (0..).zip(&mut self.members) {
            *member = member.plus(&counted(rank));
            self.traffic.report(rank, *member);
        }
        self.traffic.sample(self.now);
        self.traffic.diagnose(0..self.members.len() as u16)
    }

    /// What is reported after so many such intervals.
    fn after(
        &mut self,
        intervals: usize,
        counted: impl Fn(u16) -> MemberCounters,
    ) -> Vec<(FindingKind, Option<u16>)> {
        (0..intervals).for_each(|_| drop(self.interval(&counted)));
        self.traffic.diagnosis.findings().map(|finding| (finding.kind, finding.rank)).collect()
    }

    fn found(world: usize, counted: impl Fn(u16) -> MemberCounters) -> Vec<Finding> {
        let mut tree = Self::new(world);
        tree.after(20, counted);
        findings_of_job([&tree.traffic].into_iter())
    }
}

/// `change` of one rank, and of the others nothing.
fn one(rank: u16, change: impl Fn(&mut MemberCounters)) -> impl Fn(u16) -> MemberCounters {
    of(move |at| at == rank, change)
}

fn of(ranks: impl Fn(u16) -> bool, change: impl Fn(&mut MemberCounters)) -> impl Fn(u16) -> MemberCounters {
    move |rank| {
        let mut counted = usual();
        if ranks(rank) {
            change(&mut counted);
        }
        counted
    }
}

#[test]
fn ranks_that_are_alike_are_not_reported() {
    for world in [1, 2, 3, 16] {
        assert_eq!(Tree::found(world, |_| usual()), [], "{world} ranks");
        // All are slow, wait for processors and lose a few packets.
        let busy = |_| MemberCounters {
            start_wait_us: 90_000,
            wait_us: 900_000,
            cpu_wait_us: 400_000,
            packets_retransmitted: 40,
            packets_overtaken: 1,
            ..usual()
        };
        assert_eq!(Tree::found(world, busy), [], "{world} ranks");
    }
}

#[test]
fn a_rank_that_begins_late_waits_least() {
    for world in [2, 3, 4, 16] {
        // The others wait 5 ms longer.
        let found = Tree::found(world, of(|rank| rank != 1, |counted| counted.start_wait_us += 50_000));
        let [Finding { kind: FindingKind::LateStart, rank: Some(1), amount, .. }] = found[..] else {
            panic!("{world} ranks: {found:?}");
        };
        assert!((amount - 0.005).abs() < 1e-9, "{amount}");
    }
    // Less than a fiftieth of the time, and a small part of what all wait.
    assert_eq!(Tree::found(4, of(|rank| rank != 1, |counted| counted.start_wait_us += 9_000)), []);
    let all_wait = |rank: u16| MemberCounters {
        wait_us: 1_495_000,
        start_wait_us: 300_000 + 50_000 * u64::from(rank != 1),
        ..usual()
    };
    assert_eq!(Tree::found(4, all_wait), []);
}

#[test]
fn a_rank_whose_packets_are_late_is_found_when_it_begins_in_time() {
    let found = Tree::found(4, of(|rank| rank != 3, |counted| counted.wait_us += 4_950_000));
    let [Finding { kind: FindingKind::LatePackets, rank: Some(3), amount, .. }] = found[..] else {
        panic!("{found:?}");
    };
    assert!((amount - 0.005).abs() < 1e-9, "{amount}");
    // Nothing is concluded from a few packets, and one that also begins late is named once.
    let few = |rank: u16| MemberCounters {
        waits: 3,
        starts: 0,
        start_wait_us: 0,
        wait_us: 30_000 * u64::from(rank != 3),
        ..usual()
    };
    assert_eq!(Tree::found(4, few), []);
    let both = of(
        |rank| rank != 3,
        |counted| {
            counted.wait_us += 4_950_000;
            counted.start_wait_us += 50_000;
        },
    );
    assert_eq!(Tree::new(4).after(20, both), [(FindingKind::LateStart, Some(3))]);
}

#[test]
fn a_process_that_waits_for_processors_longer_than_the_others_is_found() {
    let found = Tree::found(4, one(2, |counted| counted.cpu_wait_us = 300_000));
    let [Finding { kind: FindingKind::Processor, rank: Some(2), amount, others }] = found[..] else {
        panic!("{found:?}");
    };
    assert!((amount - 0.6).abs() < 1e-9 && (others - 0.002).abs() < 1e-9, "{amount} {others}");
    assert_eq!(Tree::found(4, one(2, |counted| counted.cpu_wait_us = 100_000)), [], "a fifth of a second");
    let busy =
        |rank: u16| MemberCounters { cpu_wait_us: if rank == 2 { 500_000 } else { 200_000 }, ..usual() };
    assert_eq!(Tree::found(4, busy), [], "two and a half times the others");
}

/// Counts of a rank that reports so late that only each third interval has any.
#[test]
fn a_process_without_a_processor_is_found_although_it_reports_late() {
    let mut tree = Tree::new(4);
    let mut reports = |intervals: std::ops::Range<u64>, waited: u64| {
        intervals
            .map(|at| {
                let waited = if at % 3 == 2 { 3 * waited } else { 0 };
                tree.after(1, one(1, |counted| counted.cpu_wait_us = waited))
            })
            .last()
            .unwrap()
    };
    assert_eq!(reports(0..12, 450_000), [(FindingKind::Processor, Some(1))]);
    assert_eq!(reports(12..36, 1_000), [], "it is over");
    // As much in all, in half of the time.
    reports(36..39, 900_000);
    assert_eq!(reports(39..42, 1_000), [], "it did not last");
}

#[test]
fn losses_are_of_a_rank_or_of_all() {
    let loses =
        |counted: &mut MemberCounters| (counted.packets_retransmitted, counted.packets_overtaken) = (12, 10);
    for world in [2, 4] {
        let found = Tree::found(world, one(0, loses));
        let [Finding { kind: FindingKind::Loss, rank: Some(0), amount, others: 0.0 }] = found[..] else {
            panic!("{world} ranks: {found:?}");
        };
        assert!((amount - 0.01).abs() < 1e-9, "{amount}");
        assert_eq!(Tree::new(world).after(20, of(|_| true, loses)), [(FindingKind::Loss, None)]);
    }
    // Few, or probes during a silence.
    assert_eq!(
        Tree::found(4, one(0, |counted| (counted.packets_retransmitted, counted.packets_overtaken) = (1, 1))),
        []
    );
    assert_eq!(Tree::found(4, one(0, |counted| counted.packets_retransmitted = 50)), []);
}

#[test]
fn an_interval_of_many_losses_hides_no_constant_ones() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
    for (burst, constant) in [(100, 10), (0, 10), (100, 0)] {
        let mut tree = Tree::new(4);
        let mut begun = None;
        for interval in 0..20 {
            // One in a hundred packets, give or take what is random of so few.
            let lost = if interval == 7 { burst } else { constant * rng.random_range(7..=13) / 10 };
            let counted = one(2, |counted| {
                (counted.packets_retransmitted, counted.packets_overtaken) = (lost, lost);
            });
            if let [Change::Begun(Finding { kind: FindingKind::Loss, rank: Some(2), .. })] =
                tree.interval(counted)[..]
            {
                begun = begun.or(Some(interval));
            }
        }
        // Within 6 s.
        let expected = (constant > 0).then_some(12);
        assert!(begun.is_some() == expected.is_some() && begun <= expected, "{burst}: {begun:?}");
    }
}

#[test]
fn a_conclusion_is_reported_when_it_lasts_and_withdrawn_when_it_is_gone() {
    let mut tree = Tree::new(4);
    let late = of(|rank| rank != 1, |counted| counted.start_wait_us += 50_000);
    assert_eq!(tree.after(10, |_| usual()), []);
    let begun: Vec<Vec<Change>> = (0..WINDOWS[0].intervals).map(|_| tree.interval(&late)).collect();
    let at = begun.iter().position(|changes| !changes.is_empty()).expect("it is reported");
    assert!(
        matches!(begun[at][..], [Change::Begun(Finding { kind: FindingKind::LateStart, rank: Some(1), .. })]),
        "{begun:?}"
    );
    assert!(at >= WINDOWS[0].least && begun[at + 1..].iter().all(Vec::is_empty), "once: {begun:?}");
    // Some intervals without it do not end it, nor some with it begin it again.
    assert_eq!(tree.after(usize::from(WITHDRAW) / 2, |_| usual()), [(FindingKind::LateStart, Some(1))]);
    assert_eq!(tree.after(WINDOWS[0].intervals, &late), [(FindingKind::LateStart, Some(1))]);
    let over: Vec<Change> =
        (0..INTERVALS + usize::from(WITHDRAW)).flat_map(|_| tree.interval(|_| usual())).collect();
    assert!(matches!(over[..], [Change::Over(_)]), "{over:?}");
    assert_eq!(tree.after(1, |_| usual()), []);
}

#[test]
fn nothing_is_concluded_before_all_ranks_have_reported() {
    let mut tree = Tree::new(4);
    let late = of(|rank| rank != 1, |counted| counted.start_wait_us += 50_000);
    tree.members.pop();
    for _ in 0..20 {
        tree.interval(&late);
        assert_eq!(tree.traffic.diagnose(0..4), []);
    }
    // Nor from reports that contradict themselves.
    let impossible = |rank: u16| MemberCounters { start_wait_us: u64::MAX * u64::from(rank != 1), ..usual() };
    let mut tree = Tree::new(3);
    assert_eq!(tree.after(20, impossible), []);
}

#[test]
fn what_happens_once_is_not_reported() {
    let mut tree = Tree::new(4);
    assert_eq!(tree.after(10, |_| usual()), []);
    for _ in 0..3 {
        // In one interval all of it, and not again for as long as an interval counts.
        let once = |rank: u16| MemberCounters {
            start_wait_us: 6_000 + 2_000_000 * u64::from(rank != 1),
            wait_us: 3_000_000,
            packets_retransmitted: 300 * u64::from(rank == 2),
            packets_overtaken: 300 * u64::from(rank == 2),
            cpu_wait_us: 1_000 + 2_000_000 * u64::from(rank == 3),
            ..usual()
        };
        assert_eq!(tree.interval(once), []);
        for _ in 0..INTERVALS {
            assert_eq!(tree.interval(|_| usual()), []);
        }
    }
}

#[test]
fn noise_is_not_reported() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    for world in [2, 4, 8] {
        for _ in 0..60 {
            let mut tree = Tree::new(world);
            for _ in 0..40 {
                // Waits and losses of busy hosts, which differ as much as they are large.
                let counted: Vec<MemberCounters> = (0..world)
                    .map(|_| MemberCounters {
                        start_wait_us: rng.random_range(0..200_000),
                        wait_us: rng.random_range(200_000..20_000_000),
                        packets_retransmitted: 100,
                        packets_overtaken: rng.random_range(0..4),
                        cpu_wait_us: rng.random_range(0..500_000),
                        ..usual()
                    })
                    .collect();
                assert_eq!(tree.interval(|rank| counted[usize::from(rank)]), [], "{world} ranks");
            }
        }
    }
}
