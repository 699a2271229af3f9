//! Doing without runs of datagrams that are cut below (GSO), where runs get lost.
//!
//! Between virtual interfaces of one machine nobody cuts them: who receives by a packet socket, as some switches do, gets the run as one
//! frame that is too long, and drops it. Single datagrams arrive. From here this is a loss like any other, but for whom it meets: nearly all
//! that is sent together with others, and nothing that is sent alone. A rank that is late, or a network that loses, meets both. So where what was sent together
//! gets no results, time after time, while what was sent alone does, runs are given up. If that helped, they are tried again after many results, and after
//! more of them each time; if it did not, they were not to blame.

use crate::streams::BatchStats;

/// Results, and packets sent together, after which it is looked how those fared.
const SAMPLE_MIN: u64 = 16;
/// A look is bad if less than one in so many results, and for less than one in so many packets sent together, is of such a packet.
const BAD_RATIO: u64 = 4;
/// Bad looks in a row from which something follows.
const BAD_SAMPLES: u32 = 2;
/// Results until the other way is tried again, at first and at most.
const RETRY_AFTER_RESULTS: u64 = 1 << 16;
const RETRY_AFTER_RESULTS_MAX: u64 = 1 << 24;

/// Whether runs are made, and how sending went of late.
#[derive(Debug)]
pub(super) struct Segmentation {
    allowed: bool,
    /// At the last look.
    last: BatchStats,
    bad_samples: u32,
    /// Results from which on runs may be given up, or are tried again.
    until: u64,
    /// What is added to that the next time.
    retry_after: u64,
}

impl Segmentation {
    /// Runs are allowed.
    pub(super) fn new() -> Self {
        Self {
            allowed: true,
            last: BatchStats::default(),
            bad_samples: 0,
            until: 0,
            retry_after: RETRY_AFTER_RESULTS,
        }
    }

    /// Takes note of how packets fared, and says whether there are to be runs, when that changes.
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
        let (bad, over) = (self.bad_samples >= BAD_SAMPLES, now.results >= self.until);
        let change = if self.allowed { bad && over } else { bad || over };
        if !change {
            return None;
        }
        if self.allowed || bad {
            self.until = now.results + self.retry_after;
            self.retry_after = (self.retry_after * 2).min(RETRY_AFTER_RESULTS_MAX);
        }
        self.bad_samples = 0;
        self.allowed = !self.allowed;
        Some(self.allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends in which eight packets are sent together, of which so many have results, and one alone, which has one; until something
    /// changes, at most so many times.
    fn run(segmentation: &mut Segmentation, at: &mut BatchStats, times: u64, arrive: u64) -> Option<bool> {
        (0..times).find_map(|_| {
            at.sent_together += 8;
            at.results_together += arrive;
            at.results += 1 + arrive;
            segmentation.update(*at)
        })
    }

    #[test]
    fn runs_are_given_up_where_they_are_lost_and_tried_again_ever_more_rarely() {
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
    fn runs_are_kept_where_a_rank_is_late_or_the_network_loses() {
        let (mut segmentation, mut at) = (Segmentation::new(), BatchStats::default());
        for _ in 0..1000 {
            // All slots are sent again some times while a rank is late.
            at.sent_together += 2000;
            assert_eq!(run(&mut segmentation, &mut at, 30, 8), None);
            assert_eq!(run(&mut segmentation, &mut at, 30, 2), None);
        }
    }

    #[test]
    fn what_goes_alone_by_a_narrow_window_says_nothing() {
        let (mut segmentation, mut at) = (Segmentation::new(), BatchStats::default());
        for _ in 0..10_000 {
            at.results += 1;
            assert_eq!(segmentation.update(at), None);
        }
    }

    #[test]
    fn runs_that_are_not_to_blame_are_back_at_once_and_left_alone_for_long() {
        let (mut segmentation, mut at) = (Segmentation::new(), BatchStats::default());
        assert_eq!(run(&mut segmentation, &mut at, 100, 0), Some(false));
        assert_eq!(run(&mut segmentation, &mut at, 100, 0), Some(true));
        let start = at.results;
        assert_eq!(run(&mut segmentation, &mut at, 1 << 24, 0), Some(false));
        assert!(at.results - start >= RETRY_AFTER_RESULTS * 2, "{}", at.results - start);
    }
}
