//! The communication pattern of a tree of a job, from what its members report.

use std::collections::BTreeMap;
use std::time::Duration;

use netfold_control::CommunicationPattern;

/// A report counts for so many of its iterations, and for [`FRESH_MIN`] at least.
const FRESH_ITERATIONS: u32 = 4;

/// Shortest time that a report counts: several heartbeats.
const FRESH_MIN: Duration = Duration::from_secs(3);

/// Groups of a job wait for each other if their iterations take the same time, but for one part in so many.
const ALIKE: u64 = 20;

/// The newest patterns of a tree's members.
#[derive(Debug, Default)]
pub(crate) struct TreePatterns(BTreeMap<u16, Reported>);

#[derive(Debug, Clone, Copy)]
struct Reported {
    pattern: CommunicationPattern,
    at: Duration,
    /// When the communication of its newest iteration began, by the controller's clock.
    begun: Duration,
}

/// What the members of a tree say together: medians.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TreePattern {
    pub(crate) pattern: CommunicationPattern,
    /// When the communication of an iteration began.
    pub(crate) begun: Duration,
    /// How many members say so.
    pub(crate) members: usize,
}

impl TreePatterns {
    /// Takes what a member reports. What cannot have been measured is ignored.
    pub(crate) fn report(&mut self, now: Duration, rank: u16, pattern: CommunicationPattern) {
        if pattern.is_possible() {
            let begun = now.saturating_sub(Duration::from_micros(pattern.age_us));
            self.0.insert(rank, Reported { pattern, at: now, begun });
        }
    }

    /// What the newest reports say; `None` if there are none.
    pub(crate) fn combined(&self, now: Duration) -> Option<TreePattern> {
        let period = |reported: &Reported| Duration::from_micros(reported.pattern.period_us);
        let is_fresh = |reported: &&Reported| {
            now.saturating_sub(reported.at) <= (period(reported) * FRESH_ITERATIONS).max(FRESH_MIN)
        };
        let fresh: Vec<Reported> = self.0.values().filter(is_fresh).copied().collect();
        let first = fresh.first()?;
        let median = |value: fn(&CommunicationPattern) -> u64| {
            median(fresh.iter().map(|reported| value(&reported.pattern)).collect()).unwrap_or(0)
        };
        let period_us = median(|pattern| pattern.period_us);
        let span_us = median(|pattern| pattern.span_us).min(period_us);
        let pattern = CommunicationPattern {
            iterations: median(|pattern| pattern.iterations),
            period_us,
            span_us,
            busy_us: median(|pattern| pattern.busy_us).min(span_us),
            compute_us: median(|pattern| pattern.compute_us),
            bytes: median(|pattern| pattern.bytes),
            deviation: u32::try_from(median(|pattern| pattern.deviation.into())).unwrap_or(u32::MAX),
            age_us: 0,
        };
        let mut offsets: Vec<i128> =
            fresh.iter().map(|reported| offset(reported.begun, first.begun, period_us)).collect();
        offsets.sort_unstable();
        let begun = micros(first.begun) + offsets[offsets.len() / 2];
        Some(TreePattern {
            pattern,
            begun: Duration::from_micros(u64::try_from(begun).unwrap_or(0)),
            members: fresh.len(),
        })
    }
}

impl TreePattern {
    /// What groups of one job do together, which wait for each other: they communicate from when the first of them begins until the last one has ended.
    /// `None` if there are none, or their iterations take different times.
    pub(crate) fn together(groups: &[Self]) -> Option<Self> {
        let first = groups.first()?;
        let period_us = first.pattern.period_us;
        if groups.iter().any(|group| group.pattern.period_us.abs_diff(period_us) > period_us / ALIKE) {
            return None;
        }
        let offset = |group: &Self| offset(group.begun, first.begun, period_us);
        let begin = groups.iter().map(offset).min()?;
        let end = groups.iter().map(|group| offset(group) + i128::from(group.pattern.span_us)).max()?;
        let most = |value: fn(&CommunicationPattern) -> u64| {
            groups.iter().map(|group| value(&group.pattern)).max().unwrap_or(0)
        };
        let least = |value: fn(&CommunicationPattern) -> u64| {
            groups.iter().map(|group| value(&group.pattern)).min().unwrap_or(0)
        };
        let span_us = u64::try_from(end - begin).unwrap_or(0).min(period_us);
        let pattern = CommunicationPattern {
            iterations: least(|pattern| pattern.iterations),
            period_us,
            span_us,
            busy_us: most(|pattern| pattern.busy_us).min(span_us),
            compute_us: least(|pattern| pattern.compute_us),
            bytes: most(|pattern| pattern.bytes),
            deviation: groups.iter().map(|group| group.pattern.deviation).max().unwrap_or(0),
            age_us: 0,
        };
        let begun = micros(first.begun) + begin;
        let members = groups.iter().map(|group| group.members).sum();
        Some(Self { pattern, begun: Duration::from_micros(u64::try_from(begun).unwrap_or(0)), members })
    }
}

/// Microseconds by which one iteration begins behind another, from minus half a period to half a period. They may be different iterations: what is
/// common to them is the place in a period.
fn offset(begun: Duration, other: Duration, period_us: u64) -> i128 {
    let whole = i128::from(period_us.max(1));
    let offset = (micros(begun) - micros(other)).rem_euclid(whole);
    if offset > whole / 2 { offset - whole } else { offset }
}

fn micros(time: Duration) -> i128 {
    i128::try_from(time.as_micros()).unwrap_or(i128::MAX / 4)
}

fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    const fn pattern(period_us: u64, age_us: u64) -> CommunicationPattern {
        let (span_us, busy_us, compute_us) = (40_000, 30_000, 70_000);
        CommunicationPattern {
            iterations: 9,
            period_us,
            span_us,
            busy_us,
            compute_us,
            bytes: 1_000,
            deviation: 1,
            age_us,
        }
    }

    #[test]
    fn members_are_combined_by_medians() {
        let mut tree = TreePatterns::default();
        assert_eq!(tree.combined(SECOND), None);
        // The second one reports an iteration later, and 2 ms of disagreement.
        tree.report(10 * SECOND, 0, pattern(100_000, 10_000));
        tree.report(10 * SECOND + SECOND / 10, 1, pattern(102_000, 12_000));
        tree.report(10 * SECOND, 2, pattern(60_000_000, 99_000_000));
        let combined = tree.combined(10 * SECOND + SECOND / 10).unwrap();
        assert_eq!(
            (combined.pattern.period_us, combined.pattern.busy_us, combined.members),
            (102_000, 30_000, 3)
        );
        let late = combined.begun.abs_diff(Duration::from_micros(9_990_000));
        assert!(late <= Duration::from_millis(3), "{:?}", combined.begun);
    }

    #[test]
    fn groups_that_wait_for_each_other_are_one_iteration() {
        let group = |begun_ms, period_us| TreePattern {
            pattern: pattern(period_us, 0),
            begun: Duration::from_millis(begun_ms),
            members: 2,
        };
        assert_eq!(TreePattern::together(&[]), None);
        let alone = group(1000, 100_000);
        assert_eq!(TreePattern::together(&[alone]), Some(alone));
        // The second one begins 20 ms earlier in an iteration, and was seen two iterations later.
        let both = TreePattern::together(&[alone, group(1180, 102_000)]).unwrap();
        assert_eq!((both.begun, both.members), (Duration::from_millis(980), 4));
        assert_eq!((both.pattern.period_us, both.pattern.span_us), (100_000, 60_000));
        assert_eq!(
            TreePattern::together(&[alone, group(1000, 110_000)]),
            None,
            "they do not wait for each other"
        );
        let all_the_time =
            TreePattern::together(&[alone, group(1040, 100_000), group(960, 100_000)]).unwrap();
        assert_eq!(all_the_time.pattern.span_us, 100_000, "at most an iteration");
    }

    #[test]
    fn impossible_and_old_reports_do_not_count() {
        let mut tree = TreePatterns::default();
        tree.report(SECOND, 0, CommunicationPattern { period_us: 0, ..pattern(1, 0) });
        assert_eq!(tree.combined(SECOND), None);
        tree.report(SECOND, 0, pattern(100_000, 0));
        assert!(tree.combined(4 * SECOND).is_some());
        assert_eq!(tree.combined(5 * SECOND), None);
        // Slow iterations count longer.
        tree.report(5 * SECOND, 0, pattern(10_000_000, 0));
        assert!(tree.combined(40 * SECOND).is_some());
    }
}
