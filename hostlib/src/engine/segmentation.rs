//! Doing without runs of datagrams that are cut below (GSO), where runs get lost.
//!
//! Between virtual interfaces of one machine nobody cuts them: who receives by a packet socket, as some switches do, gets the run as one
//! frame that is too long, and drops it. Single datagrams arrive. From here this is a loss like any other, but for its extent: nearly all that is
//! sent first is lost, and of what is sent again that which happened to go alone arrives. So where several packets are sent again for each result, time
//! after time, runs are given up. If that helped, they are tried again after many results, and after more of them each time; if it did not, they were not to
//! blame.

/// Results between two looks.
const RESULTS: u64 = 16;
/// Packets sent again for each result from which on a look counts as bad. Losing half of all packets at random makes one.
const RESENT_FOR_EACH: u64 = 2;
/// Bad looks in a row from which something follows. One may be a rank that was late.
const BAD_LOOKS: u32 = 2;
/// Results until the other way is tried again, at first and at most.
const RESULTS_BETWEEN: u64 = 1 << 16;
const RESULTS_BETWEEN_MAX: u64 = 1 << 24;

/// Whether runs are made, and how sending went of late.
#[derive(Debug)]
pub(super) struct Segmentation {
    allowed: bool,
    /// Results and resends at the last look.
    seen: (u64, u64),
    bad_looks: u32,
    /// Results from which on runs may be given up, or are tried again.
    until: u64,
    /// What is added to that the next time.
    between: u64,
}

impl Segmentation {
    /// Runs are allowed.
    pub(super) fn new() -> Self {
        Self { allowed: true, seen: (0, 0), bad_looks: 0, until: 0, between: RESULTS_BETWEEN }
    }

    /// Takes note of how many results have come and how many packets were sent again, both since the beginning, and says
    /// whether there are to be runs, when that changes.
    pub(super) fn look(&mut self, results: u64, resent: u64) -> Option<bool> {
        let news = results.saturating_sub(self.seen.0);
        if news < RESULTS {
            return None;
        }
        let bad = resent.saturating_sub(self.seen.1) >= news * RESENT_FOR_EACH;
        self.bad_looks = if bad { self.bad_looks + 1 } else { 0 };
        self.seen = (results, resent);
        let bad = self.bad_looks >= BAD_LOOKS;
        let change = if self.allowed { bad && results >= self.until } else { bad || results >= self.until };
        if !change {
            return None;
        }
        if self.allowed || bad {
            self.until = results + self.between;
            self.between = (self.between * 2).min(RESULTS_BETWEEN_MAX);
        }
        self.bad_looks = 0;
        self.allowed = !self.allowed;
        Some(self.allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks after every result until something changes, at most `results` of them, with so many resends for each.
    fn go(segmentation: &mut Segmentation, at: &mut (u64, u64), results: u64, each: u64) -> Option<bool> {
        (0..results).find_map(|_| {
            *at = (at.0 + 1, at.1 + each);
            segmentation.look(at.0, at.1)
        })
    }

    #[test]
    fn runs_are_given_up_where_most_are_lost_and_tried_again_ever_more_rarely() {
        let (mut segmentation, mut at) = (Segmentation::new(), (0, 0));
        let mut between = RESULTS_BETWEEN;
        for _ in 0..12 {
            let start = at.0;
            assert_eq!(go(&mut segmentation, &mut at, 100, 10), Some(false));
            assert_eq!(at.0 - start, u64::from(BAD_LOOKS) * RESULTS, "at once");
            let start = at.0;
            assert_eq!(go(&mut segmentation, &mut at, 1 << 25, 0), Some(true));
            assert!(
                (between..between + RESULTS).contains(&(at.0 - start)),
                "{} and not {between}",
                at.0 - start
            );
            between = (between * 2).min(RESULTS_BETWEEN_MAX);
        }
    }

    #[test]
    fn runs_are_kept_where_a_rank_is_late_or_the_network_loses() {
        let (mut segmentation, mut at) = (Segmentation::new(), (0, 0));
        for _ in 0..1000 {
            // All slots are sent again some times while a rank is late.
            at.1 += 2000;
            assert_eq!(go(&mut segmentation, &mut at, 256, 0), None);
            assert_eq!(go(&mut segmentation, &mut at, 256, 1), None);
        }
    }

    #[test]
    fn runs_that_are_not_to_blame_are_back_at_once_and_left_alone_for_long() {
        let (mut segmentation, mut at) = (Segmentation::new(), (0, 0));
        assert_eq!(go(&mut segmentation, &mut at, 100, 5), Some(false));
        assert_eq!(go(&mut segmentation, &mut at, 100, 5), Some(true));
        let start = at.0;
        assert_eq!(go(&mut segmentation, &mut at, 1 << 25, 5), Some(false));
        assert!(at.0 - start >= RESULTS_BETWEEN * 2, "{}", at.0 - start);
    }
}
