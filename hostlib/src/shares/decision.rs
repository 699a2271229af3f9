//! What follows from the rates that all ranks have measured: the same on every rank, so in integers alone.

/// The mean weight of a tree.
pub(super) const EVEN: u32 = 1 << 16;

/// A tree keeps at least this part of an even share, so that it is measured.
const FLOOR: u32 = EVEN / 16;

/// Shares stay as they are unless one of them is to change by more than one part in so many.
const DEAD_BAND: u64 = 20;

/// Milliseconds between two exchanges of rates.
const INTERVAL_MS: u64 = 1000;

/// Fewest and most divided operations between two exchanges.
const INTERVALS: (u32, u32) = (4, 4096);

/// What a rank has measured since the last exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RateReport {
    /// Since the last exchange.
    pub(super) elapsed_ms: u32,
    /// Most divided operations that were pending at a time.
    pub(super) pending: u32,
    /// Nanoseconds that each tree has taken for 1 KiB; 0 where it was not used.
    pub(super) costs: Vec<u32>,
}

impl RateReport {
    /// Bytes of a report on so many trees.
    pub(super) const fn len(trees: usize) -> usize {
        4 * (2 + trees)
    }

    /// Writes the report, numbers in network byte order, to memory of [`Self::len`] bytes.
    pub(super) fn write(&self, bytes: &mut [u8]) {
        let words = [self.elapsed_ms, self.pending].into_iter().chain(self.costs.iter().copied());
        for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = word.to_be_bytes();
        }
    }

    /// The reports of all ranks on so many trees.
    pub(super) fn read_all(bytes: &[u8], trees: usize) -> Vec<Self> {
        let read = |report: &[u8]| {
            let mut words = report.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word));
            let (elapsed_ms, pending) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
            Self { elapsed_ms, pending, costs: words.collect() }
        };
        bytes.chunks_exact(Self::len(trees)).map(read).collect()
    }
}

/// When ranks exchange rates, in divided operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    /// From one exchange to the next.
    pub(super) interval: u32,
    /// From an exchange to the first operation with the shares that follow from it: more than are pending at a time, so that none of them
    /// waits for the exchange. Less than the interval.
    pub(super) lag: u32,
}

impl Pace {
    pub(super) const FIRST: Self = Self { interval: INTERVALS.0, lag: INTERVALS.0 - 1 };

    /// The next pace: an exchange about once a second.
    pub(super) fn next(self, reports: &[RateReport]) -> Self {
        let elapsed = reports.iter().map(|report| report.elapsed_ms).max().unwrap_or(0);
        let pending = reports.iter().map(|report| report.pending).max().unwrap_or(0);
        let (least, most) = INTERVALS;
        let in_time = u64::from(self.interval) * INTERVAL_MS / u64::from(elapsed.max(1));
        let interval = u32::try_from(in_time).unwrap_or(most).min(self.interval.saturating_mul(4));
        let lag = pending.saturating_mul(2).clamp(least - 1, most - 1);
        Self { interval: interval.clamp((lag + 1).max(least), most), lag }
    }
}

/// The weights of the trees after an exchange, before which all ranks have sent so many bytes over each: for trees that were used, in proportion to their
/// rates, half the way from those before. Trees that were not used keep theirs.
pub(super) fn weigh(weights: &[u32], sent: &[u64], reports: &[RateReport]) -> Vec<u32> {
    let busy = busy(sent, reports);
    let rate = |(sent, busy): (&u64, &u128)| (u128::from(*sent) << 40).checked_div(*busy).unwrap_or(0);
    let rates: Vec<u64> =
        sent.iter().zip(&busy).map(rate).map(|rate| u64::try_from(rate).unwrap_or(u64::MAX)).collect();
    let used = rates.iter().filter(|rate| **rate > 0).count() as u128;
    let total: u128 = rates.iter().map(|rate| u128::from(*rate)).sum();
    let due = |tree: usize| match rates[tree] {
        0 => weights[tree],
        rate => (u128::from(EVEN) * used * u128::from(rate) / total).max(u128::from(FLOOR)) as u32,
    };
    let changes = |tree: usize| {
        let (old, new) = (u64::from(weights[tree]), u64::from(due(tree)));
        old.abs_diff(new) * DEAD_BAND > old
    };
    if !(0..weights.len()).any(changes) {
        return weights.to_vec();
    }
    let halfway = |tree: usize| ((u64::from(weights[tree]) + u64::from(due(tree))) / 2) as u32;
    (0..weights.len()).map(halfway).collect()
}

/// How long each tree has taken for what was sent over it; 0 where that is not known. A result needs all contributions, so the slowest rank counts. But what a
/// rank takes longer than the fastest one in every tree, it has waited for ranks that came later.
fn busy(sent: &[u64], reports: &[RateReport]) -> Vec<u128> {
    let of_rank = |report: &RateReport| -> Vec<u128> {
        sent.iter().zip(&report.costs).map(|(sent, cost)| u128::from(*sent) * u128::from(*cost)).collect()
    };
    let ranks: Vec<Vec<u128>> = reports.iter().map(of_rank).collect();
    let measured =
        |tree: usize| ranks.iter().filter_map(move |rank| rank.get(tree)).filter(|busy| **busy > 0);
    let least: Vec<Option<u128>> = (0..sent.len()).map(|tree| measured(tree).min().copied()).collect();
    let mut longest = vec![0; sent.len()];
    for rank in &ranks {
        let excess = rank.iter().zip(&least).filter(|(busy, _)| **busy > 0);
        let waited = excess.filter_map(|(busy, least)| Some(*busy - (*least)?)).min().unwrap_or(0);
        for (longest, busy) in longest.iter_mut().zip(rank) {
            *longest = (*longest).max(busy.saturating_sub(waited));
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn report(costs: &[u32]) -> RateReport {
        RateReport { elapsed_ms: 1000, pending: 1, costs: costs.to_vec() }
    }

    /// Bytes that are sent over trees of these weights.
    fn sent(weights: &[u32]) -> Vec<u64> {
        weights.iter().map(|weight| u64::from(*weight) << 4).collect()
    }

    #[test]
    fn reports_are_read_as_written() {
        let mut bytes = vec![0; 2 * RateReport::len(3)];
        let reports =
            [report(&[1, 2, u32::MAX]), RateReport { elapsed_ms: 7, pending: 9, costs: vec![0; 3] }];
        for (report, bytes) in reports.iter().zip(bytes.chunks_exact_mut(RateReport::len(3))) {
            report.write(bytes);
        }
        assert_eq!(RateReport::read_all(&bytes, 3), reports);
        assert_eq!(RateReport::read_all(&[], 3), []);
    }

    /// Trees that bear so much of their rates, whatever their shares: the costs are the same each time.
    #[test]
    fn shares_approach_the_rates() {
        let mut weights = vec![EVEN; 2];
        let measured = [report(&[100, 400]), report(&[110, 390])];
        for _ in 0..6 {
            weights = weigh(&weights, &sent(&weights), &measured);
        }
        let share = f64::from(weights[0]) / f64::from(weights[0] + weights[1]);
        assert!((share - 400.0 / 510.0).abs() < 0.03, "{share}");
        assert_eq!(weigh(&weights, &sent(&weights), &measured), weights, "small changes are not made");
    }

    /// All ranks but the last wait for it, ten times as long as the parts take.
    #[test]
    fn waiting_for_other_ranks_does_not_count() {
        let mut weights = vec![EVEN; 2];
        for _ in 0..8 {
            let costs = |waited: f64| -> Vec<u32> {
                let cost = |(weight, cost): (&u32, f64)| {
                    (cost + waited * f64::from(EVEN) / f64::from(*weight)) as u32
                };
                weights.iter().zip([1000.0, 4000.0]).map(cost).collect()
            };
            let measured = [report(&costs(20_000.0)), report(&costs(0.0)), report(&costs(5000.0))];
            weights = weigh(&weights, &sent(&weights), &measured);
        }
        let share = f64::from(weights[0]) / f64::from(weights[0] + weights[1]);
        assert!((share - 0.8).abs() < 0.03, "{share}");
    }

    /// Where the trees share a link, such as a host's, the part that is over first leaves its rate to the other: shares become even.
    #[test]
    fn trees_on_one_link_have_even_shares() {
        let mut weights = vec![3 * EVEN / 2, EVEN / 2];
        for _ in 0..8 {
            let [large, small] = [f64::from(weights[0]), f64::from(weights[1])];
            // Both have half of the rate until the smaller part is over.
            let times =
                if large > small { [large + small, 2.0 * small] } else { [2.0 * large, large + small] };
            let costs = [times[0] / large, times[1] / small].map(|cost| (cost * 1000.0) as u32);
            weights = weigh(&weights, &sent(&weights), &[report(&costs)]);
        }
        assert!(weights[0].abs_diff(weights[1]) < EVEN / 6, "{weights:?}");
    }

    #[test]
    fn a_stopped_tree_keeps_a_share_to_be_measured() {
        let mut weights = vec![EVEN; 4];
        for _ in 0..20 {
            weights = weigh(&weights, &sent(&weights), &[report(&[10, 10, u32::MAX, 10])]);
        }
        assert!(weights[2] < 2 * FLOOR && weights[2] >= FLOOR, "{weights:?}");
        for _ in 0..10 {
            weights = weigh(&weights, &sent(&weights), &[report(&[10, 10, 10, 10])]);
        }
        assert!(weights.iter().all(|weight| weight.abs_diff(EVEN) < EVEN / 8), "{weights:?}");
        assert_eq!(weigh(&weights, &sent(&weights), &[report(&[0; 4])]), weights, "nothing was measured");
        assert_eq!(weigh(&weights, &sent(&weights), &[]), weights);
    }

    #[test]
    fn exchanges_are_a_second_apart_and_further_than_what_is_pending() {
        let report = |elapsed_ms, pending| [RateReport { elapsed_ms, pending, costs: vec![] }];
        let pace = |interval, lag| Pace { interval, lag };
        assert_eq!(Pace::FIRST.next(&report(100, 1)), pace(16, 3), "at most four times as many");
        assert_eq!(pace(100, 3).next(&report(2000, 1)), pace(50, 3));
        assert_eq!(pace(4, 3).next(&report(60_000, 1)), pace(4, 3), "seconds each");
        assert_eq!(pace(4, 3).next(&report(60_000, 200)), pace(401, 400), "200 are submitted at a time");
        assert_eq!(pace(4000, 3).next(&report(0, u32::MAX)), pace(4096, 4095));
    }

    proptest! {
        #[test]
        fn weights_stay_in_range(
            rounds in prop::collection::vec(prop::collection::vec(any::<u32>(), 1..8), 1..40),
        ) {
            let mut weights = vec![EVEN; 8];
            for costs in rounds {
                weights = weigh(&weights, &sent(&weights), &[report(&costs)]);
                prop_assert!(weights.iter().all(|weight| (FLOOR..=8 * EVEN).contains(weight)), "{:?}", weights);
            }
        }
    }
}
