//! Conclusions about what slows a tree of a job down, from the counters of its members.
//!
//! # Rules
//!
//! In each interval between two heartbeats of the controller, members are compared with each other: a rank's value with the median of the
//! other ranks' values. So what slows all of them alike is not reported. The differences of the last intervals are judged: a difference is
//! significant if its mean is so many standard errors of the mean, or more ([`WINDOWS`]). So a difference that is always there is found even
//! if it is small, and neither a single event nor the noise of a busy host is. Of the significant differences, these are reported:
//!
//! - *Late start, late packets*: a packet's result comes when all ranks have sent theirs. A rank whose results come sooner after its packets
//!   than the other ranks' results after theirs sends later than they do, by the difference. It is reported if it is [`LATE_PART`] of the others'
//!   wait or more: of the first packets of operations if the others wait [`LATE_SHARE`] of the time for them, or more; or else of all packets
//!   from [`LATE_MIN`] on.
//! - *Processor*: the threads of a rank's process wait for a processor [`PROCESSOR_MIN`] of the time, or more, and [`PROCESSOR_TIMES`] times
//!   as long as those of the others, in each half of the first of [`WINDOWS`]. This time is counted, not estimated, so it is not tested for significance:
//!   a rank without a processor also reports late, so that an interval has nothing of it and the next one twice as much.
//! - *Loss*: a rank retransmits [`LOSS_MIN`] of its packets or more because later ones were answered first, and [`LOSS_TIMES`] times as
//!   many as the others: its packets or its results are lost. (When a packet is lost on its way to a switch, all ranks wait for the sum. The
//!   rank that lost it detects it first, as it waits least otherwise.) If half of the ranks or more do, it is not known whose are lost. Of the
//!   intervals that are judged, the ones with the greatest and the least difference are left out: one interval in which a queue overflowed
//!   must neither hide a constant loss by its variance nor be taken for one.
//!
//! Of each, the rank with the greatest difference is reported: when [`CONFIRM`] successive evaluations come to it. It is withdrawn when
//! [`WITHDRAW`] successive ones do not.

use super::TreeTraffic;
use crate::view::{Finding, FindingKind};
use netfold_control::MemberCounters;
use std::collections::{BTreeMap, VecDeque};

/// What differences are judged: those of the last intervals, in all and at least, and the least mean in standard errors. Differences that are
/// plain are found after 6 s, and those of noisy hosts after 20 s. Of normally distributed differences around zero, fewer than ten means in a
/// million are so large.
const WINDOWS: [Window; 2] = [
    Window { intervals: 12, least: 10, significant: 9.0 },
    Window { intervals: 40, least: 30, significant: 6.0 },
];

struct Window {
    intervals: usize,
    least: usize,
    significant: f64,
}

/// Intervals that are kept.
const INTERVALS: usize = WINDOWS[1].intervals;

/// Successive evaluations that come to a conclusion before it is reported.
const CONFIRM: u8 = 2;

/// Successive evaluations that do not come to it before it is withdrawn: 4 s.
const WITHDRAW: u8 = 8;

/// The least part of the others' wait that a rank is late by.
const LATE_PART: f64 = 0.2;

/// Seconds in a second that others wait for a rank to begin operations, at least, and seconds by which its packets are late.
const LATE_SHARE: f64 = 0.02;
const LATE_MIN: f64 = 0.001;

/// Packets of each rank whose waits are compared in an interval, at least.
const WAITS_MIN: u64 = 8;

/// Seconds of waiting for a processor in a second, at least, and how many times the others' time. Theirs counts as a twentieth of a second at
/// least.
const PROCESSOR_MIN: f64 = 0.25;
const PROCESSOR_TIMES: f64 = 3.0;
const PROCESSOR_OTHERS: f64 = 0.05;

/// Part of a rank's packets that are retransmitted, at least, and how many times the others' part.
const LOSS_MIN: f64 = 0.003;
const LOSS_TIMES: f64 = 4.0;

/// Of a kind and a rank; without a rank, of half of the ranks or more.
type Key = (FindingKind, Option<u16>);

/// What earlier evaluations of a tree came to.
#[derive(Debug, Default)]
pub(super) struct Diagnosis {
    series: BTreeMap<Key, Series>,
    conclusions: BTreeMap<Key, Conclusion>,
}

/// A rank's value and the median of the others' in the last intervals in which both are known, the oldest first.
#[derive(Debug, Default)]
struct Series(VecDeque<(f64, f64)>);

impl Series {
    fn push(&mut self, own: f64, others: f64) {
        if self.0.len() == INTERVALS {
            self.0.pop_front();
        }
        self.0.push_back((own, others));
    }

    /// The means of the rank's and of the others' values, if these differ significantly.
    fn significant(&self) -> Option<(f64, f64)> {
        WINDOWS.iter().find_map(|window| significant(self.last(window)?.copied(), window.significant))
    }

    /// The same without the intervals in which they differ most and least, of each window.
    fn significant_without_extremes(&self) -> Option<(f64, f64)> {
        WINDOWS.iter().find_map(|window| {
            let mut values: Vec<(f64, f64)> = self.last(window)?.copied().collect();
            values.sort_by(|(a, other_a), (b, other_b)| (a - other_a).total_cmp(&(b - other_b)));
            significant(values[1..values.len() - 1].iter().copied(), window.significant)
        })
    }

    /// The values of the last intervals, if there are enough.
    fn last(&self, window: &Window) -> Option<impl Iterator<Item = &(f64, f64)> + Clone> {
        let count = self.0.len().min(window.intervals);
        (count >= window.least).then(|| self.0.range(self.0.len() - count..))
    }

    /// The means of the last intervals, if these and those of each half of them are as `judged`.
    fn lasting(&self, judged: impl Fn((f64, f64)) -> bool) -> Option<(f64, f64)> {
        let count = self.0.len().min(WINDOWS[0].intervals);
        if count < WINDOWS[0].least {
            return None;
        }
        let means = |from: usize, to: usize| {
            let values = || self.0.range(self.0.len() - count..).skip(from).take(to - from);
            let mean = |sum: f64| sum / (to - from) as f64;
            (mean(values().map(|(own, _)| own).sum()), mean(values().map(|(_, others)| others).sum()))
        };
        let whole = means(0, count);
        let all = [whole, means(0, count / 2), means(count / 2, count)];
        all.into_iter().all(judged).then_some(whole)
    }
}

#[derive(Debug)]
struct Conclusion {
    /// As the last evaluation that came to it found it.
    finding: Finding,
    /// Successive evaluations that came to it; once it is reported, those that did not.
    successive: u8,
    reported: bool,
}

/// A finding that is reported from now on, or no longer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    Begun(Finding),
    Over(Finding),
}

impl Diagnosis {
    /// What is reported now.
    fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.conclusions
            .values()
            .filter(|conclusion| conclusion.reported)
            .map(|conclusion| &conclusion.finding)
    }

    /// No interval before is part of the next evaluation.
    pub(super) fn forget_series(&mut self) {
        self.series.clear();
    }

    /// Takes an interval.
    fn note(&mut self, interval: &Interval) {
        self.series.retain(|(_, rank), _| rank.is_none_or(|rank| interval.has(rank)));
        for kind in FindingKind::ALL {
            let compared = interval.compared(kind);
            for (rank, own, others) in &compared {
                self.series.entry((kind, Some(*rank))).or_default().push(*own, *others);
            }
            // Of two ranks, the one with fewer.
            if let Some((_, of_half, _)) = compared.get(compared.len().saturating_sub(1) / 2) {
                self.series.entry((kind, None)).or_default().push(*of_half, 0.0);
            }
        }
    }

    /// What the intervals show.
    fn evaluate(&self, interval: &Interval) -> Vec<Finding> {
        let least = LATE_SHARE / interval.starts_per_second().max(1.0);
        let late_by = |(own, others): (f64, f64), least: f64| {
            let behind = others - own;
            (behind >= least && behind >= LATE_PART * others).then_some((behind, 0.0))
        };
        let late =
            self.greatest(FindingKind::LateStart, |series| late_by(series.significant()?, least)).or_else(
                || self.greatest(FindingKind::LatePackets, |series| late_by(series.significant()?, LATE_MIN)),
            );
        let waits = |(own, others): (f64, f64)| {
            own >= PROCESSOR_MIN && own >= PROCESSOR_TIMES * others.max(PROCESSOR_OTHERS)
        };
        let processor = self.greatest(FindingKind::Processor, |series| series.lasting(waits));
        let kind = FindingKind::Loss;
        let of_half = self.series.get(&(kind, None)).and_then(Series::significant_without_extremes);
        let everywhere = of_half.filter(|(part, _)| *part >= LOSS_MIN);
        let everywhere = everywhere.map(|(amount, others)| Finding { kind, rank: None, amount, others });
        let loss = everywhere.or_else(|| {
            let lost = |(own, others): &(f64, f64)| *own >= LOSS_MIN && *own >= LOSS_TIMES * others;
            self.greatest(kind, |series| series.significant_without_extremes().filter(lost))
        });
        [late, processor, loss].into_iter().flatten().collect()
    }

    /// The rank with the greatest amount, as `judged` from its values and those of the others.
    fn greatest(&self, kind: FindingKind, judged: impl Fn(&Series) -> Option<(f64, f64)>) -> Option<Finding> {
        let of_kind = self.series.range((kind, Some(0))..=(kind, Some(u16::MAX)));
        let found = of_kind.filter_map(|((kind, rank), series)| {
            let (amount, others) = judged(series)?;
            Some(Finding { kind: *kind, rank: *rank, amount, others })
        });
        found.max_by(|a, b| a.amount.total_cmp(&b.amount))
    }

    /// Takes what an evaluation came to.
    fn conclude(&mut self, found: Vec<Finding>) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut found: BTreeMap<_, _> =
            found.into_iter().map(|finding| ((finding.kind, finding.rank), finding)).collect();
        self.conclusions.retain(|key, conclusion| {
            let again = found.remove(key);
            let agrees = again.is_some();
            if let Some(finding) = again {
                conclusion.finding = finding;
            }
            if agrees == conclusion.reported {
                conclusion.successive = 0;
                return conclusion.reported;
            }
            conclusion.successive += 1;
            if !conclusion.reported && conclusion.successive >= CONFIRM {
                (conclusion.reported, conclusion.successive) = (true, 0);
                changes.push(Change::Begun(conclusion.finding));
            } else if conclusion.reported && conclusion.successive >= WITHDRAW {
                changes.push(Change::Over(conclusion.finding));
                return false;
            }
            true
        });
        let new = found.into_iter();
        let new = new.map(|(key, finding)| (key, Conclusion { finding, successive: 1, reported: false }));
        self.conclusions.extend(new);
        changes
    }
}

impl TreeTraffic {
    /// Evaluates the newest interval of these ranks, all of the tree, and those before.
    pub(crate) fn diagnose(&mut self, ranks: impl Iterator<Item = u16>) -> Vec<Change> {
        let found = match self.interval(ranks) {
            Some(interval) => {
                self.diagnosis.note(&interval);
                self.diagnosis.evaluate(&interval)
            }
            None => Vec::new(),
        };
        self.diagnosis.conclude(found)
    }

    /// What the ranks counted in the last interval; `None` where one has reported nothing yet, or there is none to compare with.
    fn interval(&self, ranks: impl Iterator<Item = u16>) -> Option<Interval> {
        let newest = self.times.len().checked_sub(1)?;
        let seconds = self.times[newest].saturating_sub(self.times[newest.checked_sub(1)?]).as_secs_f64();
        let counted = |rank: u16| {
            let samples = &self.members.get(&rank)?.samples;
            let last = samples.len().checked_sub(1)?;
            Some((rank, samples[last].since(&samples[last.checked_sub(1)?])))
        };
        let members: Vec<_> = ranks.map(counted).collect::<Option<_>>()?;
        (members.len() > 1 && seconds > 0.0).then_some(Interval { seconds, members })
    }
}

/// What all ranks of a tree, in order, counted in the same time.
struct Interval {
    seconds: f64,
    members: Vec<(u16, MemberCounters)>,
}

impl Interval {
    fn has(&self, rank: u16) -> bool {
        self.members.binary_search_by_key(&rank, |(rank, _)| *rank).is_ok()
    }

    /// Operations that ranks begin in a second. All begin equally many, but for those whose first packet was lost.
    fn starts_per_second(&self) -> f64 {
        self.members.iter().map(|(_, counters)| counters.starts).max().unwrap_or_default() as f64
            / self.seconds
    }

    /// What a rank's counters say about a kind of findings.
    fn value(&self, kind: FindingKind, counters: &MemberCounters) -> Option<f64> {
        match kind {
            FindingKind::LateStart => mean(counters.start_wait_us, counters.starts, 1),
            FindingKind::LatePackets => mean(counters.wait_us, counters.waits, WAITS_MIN),
            FindingKind::Processor => Some(counters.cpu_wait_us as f64 / 1e6 / self.seconds),
            FindingKind::Loss => {
                let sent = counters.packets_sent;
                (sent > 0).then(|| counters.packets_overtaken as f64 / sent as f64)
            }
        }
    }

    /// The value of each rank, with the median of the other ranks' values, the least first; nothing where the value of one is not known.
    fn compared(&self, kind: FindingKind) -> Vec<(u16, f64, f64)> {
        let value = |(rank, counters): &(u16, MemberCounters)| Some((*rank, self.value(kind, counters)?));
        let values: Option<Vec<_>> = self.members.iter().map(value).collect();
        let mut values = values.unwrap_or_default();
        values.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        let without = |left_out| median(values.len() - 1, |at| values[at + usize::from(at >= left_out)].1);
        values.iter().enumerate().map(|(at, (rank, value))| (*rank, *value, without(at))).collect()
    }
}

/// The means of a rank's and of the others' values, three or more, if their difference is so many standard errors of its mean, or more.
fn significant(values: impl Iterator<Item = (f64, f64)> + Clone, errors: f64) -> Option<(f64, f64)> {
    let count = values.clone().count();
    let mean = |sum: f64| sum / count as f64;
    let own = mean(values.clone().map(|(own, _)| own).sum());
    let others = mean(values.clone().map(|(_, others)| others).sum());
    let difference = own - others;
    let variance = mean(values.map(|(own, others)| (own - others - difference).powi(2)).sum());
    let error = (variance / (count - 1) as f64).sqrt();
    (difference.abs() >= errors * error).then_some((own, others))
}

/// What is reported of a job's trees now: of the same about the same rank, the greatest.
pub(crate) fn findings_of_job<'a>(trees: impl Iterator<Item = &'a TreeTraffic>) -> Vec<Finding> {
    let mut greatest: BTreeMap<_, Finding> = BTreeMap::new();
    for finding in trees.flat_map(|tree| tree.diagnosis.findings()) {
        let known = greatest.entry((finding.kind, finding.rank)).or_insert(*finding);
        if finding.amount > known.amount {
            *known = *finding;
        }
    }
    greatest.into_values().collect()
}

/// Mean of a total of microseconds, in seconds; `None` if there are too few.
fn mean(total_us: u64, count: u64, least: u64) -> Option<f64> {
    (count >= least).then(|| total_us as f64 / 1e6 / count as f64)
}

/// The median of `count` values, the `nth` by size; the mean of the two in the middle, if there are two.
fn median(count: usize, nth: impl Fn(usize) -> f64) -> f64 {
    (nth(count.saturating_sub(1) / 2) + nth(count / 2)) / 2.0
}

#[cfg(test)]
mod tests;
