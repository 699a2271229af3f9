//! Round-trip times and the retransmission time-out, by RFC 6298.

use core::time::Duration;

use crate::Instant;

/// Round-trip estimator of one worker. The "round trip" of a chunk ends when its result arrives, so it includes the
/// wait for the slowest rank.
#[derive(Debug)]
pub(crate) struct Rtt {
    min: Duration,
    max: Duration,
    smoothed: Option<Duration>,
    variation: Duration,
    low: Duration,
    base: Duration,
    backoff: u32,
    backed_off_at: Instant,
    measured: bool,
}

impl Rtt {
    pub(crate) fn new(min: Duration, initial: Duration, max: Duration) -> Self {
        Self {
            min,
            max,
            smoothed: None,
            variation: Duration::ZERO,
            low: Duration::ZERO,
            base: initial,
            backoff: 0,
            backed_off_at: Instant::ZERO,
            measured: false,
        }
    }

    /// Takes a measurement from a chunk that was sent once.
    ///
    /// RFC 6298 section 3 (Karn): "RTT samples MUST NOT be made using segments that were retransmitted"; section 5.7:
    /// a back-off stands until such a sample comes.
    pub(crate) fn sample(&mut self, rtt: Duration) {
        if !self.measured {
            // What stood in for a measurement so far was an upper bound.
            self.measured = true;
            self.smoothed = None;
        }
        self.update(rtt);
    }

    /// Takes the time since the *first* transmission of a chunk that was sent several times: an upper bound of the
    /// round trip, which stands in until there is a measurement. Under heavy loss that may take long, and without any
    /// figure [early loss detection](crate::recovery) cannot begin.
    pub(crate) fn bound(&mut self, rtt: Duration) {
        if self.smoothed.is_none() {
            self.update(rtt);
        }
    }

    /// RFC 6298 sections 2.2 and 2.3.
    fn update(&mut self, rtt: Duration) {
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2;
                self.low = rtt;
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(rtt)) / 4;
                self.smoothed = Some((smoothed * 7 + rtt) / 8);
                // Falls at once, rises slowly when the path has become longer.
                self.low = if rtt < self.low { rtt } else { self.low + (rtt - self.low) / 64 };
            }
        }
        self.base = self.smoothed.unwrap_or(rtt) + self.variation * 4;
        self.backoff = 0;
    }

    /// RFC 6298 section 5.5: doubles the time-out because a chunk sent at `sent_at` was not answered. At most once a
    /// flight: chunks sent before the last doubling do not count again.
    pub(crate) fn expired(&mut self, now: Instant, sent_at: Instant) {
        if self.backoff == 0 || sent_at >= self.backed_off_at {
            self.backoff = (self.backoff + 1).min(16);
            self.backed_off_at = now;
        }
    }

    /// The retransmission time-out, back-off included.
    pub(crate) fn rto(&self) -> Duration {
        self.base.clamp(self.min, self.max).saturating_mul(1 << self.backoff).min(self.max)
    }

    /// The smoothed round trip, once there is one.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Mean deviation of the round trip.
    pub(crate) fn variation(&self) -> Duration {
        self.variation
    }

    /// The recent low of the round trip, once there is one.
    pub(crate) fn low(&self) -> Option<Duration> {
        self.smoothed.map(|_| self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn follows_the_rfc() {
        let mut rtt = Rtt::new(ms(1), ms(50), ms(1000));
        assert_eq!(rtt.rto(), ms(50));
        rtt.sample(ms(8)); // SRTT = R, RTTVAR = R/2, RTO = SRTT + 4 RTTVAR
        assert_eq!((rtt.smoothed(), rtt.variation(), rtt.rto()), (Some(ms(8)), ms(4), ms(24)));
        rtt.sample(ms(16)); // RTTVAR = 3/4 * 4 + 1/4 * 8 = 5, SRTT = 7/8 * 8 + 1/8 * 16 = 9
        assert_eq!((rtt.smoothed(), rtt.variation(), rtt.rto()), (Some(ms(9)), ms(5), ms(29)));
    }

    #[test]
    fn backs_off_once_a_flight_until_a_sample() {
        let mut rtt = Rtt::new(ms(1), ms(50), ms(150));
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        rtt.expired(at(50), at(0));
        rtt.expired(at(51), at(1));
        assert_eq!(rtt.rto(), ms(100), "both were sent in one flight");
        rtt.expired(at(150), at(50));
        assert_eq!(rtt.rto(), ms(150), "bounded");
        for _ in 0..100 {
            rtt.expired(at(1000), at(999));
        }
        rtt.sample(ms(8));
        assert_eq!(rtt.rto(), ms(24));
    }

    #[test]
    fn an_upper_bound_stands_in_only_until_a_measurement() {
        let mut rtt = Rtt::new(ms(1), ms(50), ms(1000));
        rtt.bound(ms(80));
        rtt.bound(ms(2));
        assert_eq!((rtt.smoothed(), rtt.low()), (Some(ms(80)), Some(ms(80))));
        rtt.sample(ms(4));
        assert_eq!((rtt.smoothed(), rtt.rto()), (Some(ms(4)), ms(12)));
        rtt.bound(ms(80));
        assert_eq!(rtt.smoothed(), Some(ms(4)));
    }

    #[test]
    fn the_low_falls_at_once_and_rises_slowly() {
        let mut rtt = Rtt::new(ms(1), ms(50), ms(1000));
        rtt.sample(ms(10));
        rtt.sample(ms(2));
        assert_eq!(rtt.low(), Some(ms(2)));
        rtt.sample(ms(66));
        assert_eq!(rtt.low(), Some(ms(3)));
    }
}
