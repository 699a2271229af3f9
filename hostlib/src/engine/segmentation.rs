//! Disables GSO (UDP_SEGMENT) where GSO packets are lost.
//!
//! Between virtual interfaces of one machine GSO packets stay unsegmented: a receiver on a packet socket, as in some switches, gets one
//! frame that is too long, and drops it. Single datagrams arrive. The sender sees losses among nearly all datagrams that were sent in a
//! batch, and among none that were sent singly, as all are when a timer has expired; a straggler or a lossy network affects both. So GSO is disabled where batches get no
//! results several times in a row while single datagrams do. If that helped, GSO is tried again after many results, and after
//! more of them each time. If it did not for longer, GSO was not the cause, and is enabled again. A straggler can lead to that conclusion by
//! mistake, so that the next attempt is allowed soon, and later each time.

use crate::streams::BatchStats;

/// Results, and packets sent in batches, of one sample.
const SAMPLE_MIN: u64 = 16;
/// A sample is bad if less than one in so many results, and less than one for so many packets sent in batches, is of such a packet.
const BAD_RATIO: u64 = 4;
/// Consecutive bad samples after which the setting changes.
const BAD_SAMPLES: u32 = 2;
/// Consecutive bad samples of datagrams sent singly after which GSO is taken not to be the cause: more, because a straggler at that time causes some.
const BAD_SAMPLES_SINGLY: u32 = 8;
/// Results until GSO may be disabled again after it was taken not to be the cause, at first; twice as many each time.
const RETRY_SINGLY_AFTER_RESULTS: u64 = 256;
/// Results until GSO is tried again, at first, and most results of both.
const RETRY_AFTER_RESULTS: u64 = 1 << 16;
const RETRY_AFTER_RESULTS_MAX: u64 = 1 << 24;

/// Whether GSO is used, and the recent samples.
#[derive(Debug)]
pub(super) struct Segmentation {
    allowed: bool,
    /// At the last sample.
    last: BatchStats,
    bad_samples: u32,
    /// Results from which on the setting may change.
    until: u64,
    /// What is added to that the next time that GSO is disabled.
    retry_after: u64,
    /// And the next time that it is taken not to be the cause.
    retry_singly_after: u64,
}

impl Segmentation {
    /// GSO is enabled.
    pub(super) fn new() -> Self {
        Self {
            allowed: true,
            last: BatchStats::default(),
            bad_samples: 0,
            until: 0,
            retry_after: RETRY_AFTER_RESULTS,
            retry_singly_after: RETRY_SINGLY_AFTER_RESULTS,
        }
    }

    /// Whether GSO is enabled.
    pub(super) const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Takes the counters, and returns whether GSO is to be used when that changes.
    pub(super) fn update(&mut self, now: BatchStats) -> Option<bool> {
        let results = now.results.saturating_sub(self.last.results);
        let sent_together = now.sent_together.saturating_sub(self.last.sent_together);
        if results < SAMPLE_MIN || sent_together < SAMPLE_MIN {
            return None;
        }
        let together = now.results_together.saturating_sub(self.last.results_together);
        let bad = together * BAD_RATIO < results.min(sent_together);
        self.bad_samples = if bad { self.bad_samples + 1 } else { 0 };
        self.last = now;
        let needed = if self.allowed { BAD_SAMPLES } else { BAD_SAMPLES_SINGLY };
        let (bad, over) = (self.bad_samples >= needed, now.results >= self.until);
        let change = if self.allowed { bad && over } else { bad || over };
        if !change {
            return None;
        }
        if self.allowed || bad {
            let after = if self.allowed { &mut self.retry_after } else { &mut self.retry_singly_after };
            self.until = now.results + *after;
            *after = (*after * 2).min(RETRY_AFTER_RESULTS_MAX);
        }
        self.bad_samples = 0;
        self.allowed = !self.allowed;
        Some(self.allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends batches of eight packets, of which `arrive` get results, each with a single packet, which gets one; until the setting
    /// changes, at most `times` times.
    fn run(segmentation: &mut Segmentation, at: &mut BatchStats, times: u64, arrive: u64) -> Option<bool> {
        (0..times).find_map(|_| {
            at.sent_together += 8;
            at.results_together += arrive;
            at.results += 1 + arrive;
            segmentation.update(*at)
        })
    }

    #[test]
    fn gso_is_disabled_where_batches_are_lost_and_retried_ever_more_rarely() {
        let (mut segmentation, mut at) = (Segmentation::new(), BatchStats::default());
        let mut retry_after = RETRY_AFTER_RESULTS;
        for _ in 0..12 {
            let start = at.results;
            assert_eq!(run(&mut segmentation, &mut at, 100, 0), Some(false));
            assert_eq!(at.results - start, u64::from(BAD_SAMPLES) * SAMPLE_MIN, "at once");
            let start = at.results;
            assert_eq!(run(&mut segmentation, &mut at, 1 << 24, 8), Some(true));
            let took = at.results - start;
            assert!(
                (retry_after..retry_after + 4 * SAMPLE_MIN).contains(&took),
                "{took} and not {retry_after}"
            );
            retry_after = (retry_after * 2).min(RETRY_AFTER_RESULTS_MAX);
        }
    }

    #[test]
    fn gso_stays_enabled_with_a_straggler_or_a_lossy_network() {
        let (mut segmentation, mut at) = (Segmentation::new(), BatchStats::default());
        for _ in 0..1000 {
            // All slots are retransmitted some times while one rank is a straggler.
            at.sent_together += 2000;
            assert_eq!(run(&mut segmentation, &mut at, 30, 8), None);
            assert_eq!(run(&mut segmentation, &mut at, 30, 2), None);
        }
    }

    #[test]
    fn single_packets_of_a_narrow_window_change_nothing() {
        let (mut segmentation, mut at) = (Segmentation::new(), BatchStats::default());
        for _ in 0..10_000 {
            at.results += 1;
            assert_eq!(segmentation.update(at), None);
        }
    }

    #[test]
    fn gso_that_is_not_the_cause_is_enabled_again_and_disabled_ever_more_rarely() {
        let (mut segmentation, mut at) = (Segmentation::new(), BatchStats::default());
        let mut retry_after = RETRY_SINGLY_AFTER_RESULTS;
        assert_eq!(run(&mut segmentation, &mut at, 100, 0), Some(false));
        for _ in 0..12 {
            let start = at.results;
            assert_eq!(run(&mut segmentation, &mut at, 1 << 24, 0), Some(true));
            assert_eq!(at.results - start, u64::from(BAD_SAMPLES_SINGLY) * SAMPLE_MIN);
            let start = at.results;
            assert_eq!(run(&mut segmentation, &mut at, 1 << 24, 0), Some(false));
            assert!(at.results - start >= retry_after, "{} and not {retry_after}", at.results - start);
            retry_after *= 2;
        }
    }

    #[test]
    fn a_straggler_while_datagrams_are_sent_singly_does_not_show_that_gso_is_not_the_cause() {
        let (mut segmentation, mut at) = (Segmentation::new(), BatchStats::default());
        assert_eq!(run(&mut segmentation, &mut at, 100, 0), Some(false));
        let bad = (u64::from(BAD_SAMPLES_SINGLY) - 1) * SAMPLE_MIN;
        assert_eq!(run(&mut segmentation, &mut at, bad, 0), None);
        assert_eq!(run(&mut segmentation, &mut at, 100, 8), None);
        assert!(!segmentation.is_allowed());
    }
}
