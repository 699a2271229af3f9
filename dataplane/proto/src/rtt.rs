//! Round-trip times and the retransmission timeout, by RFC 6298.

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
    low: Option<Duration>,
    /// The time-out before the first measurement.
    initial: Duration,
    base: Duration,
    backoff: u32,
    /// How many classes chunks have.
    classes: u32,
    backed_off_at: Instant,
    /// When the variation last fell.
    fell_at: Instant,
}

impl Rtt {
    pub(crate) fn new(min: Duration, initial: Duration, max: Duration) -> Self {
        Self {
            min,
            max,
            smoothed: None,
            variation: Duration::ZERO,
            low: None,
            initial,
            base: initial,
            backoff: 0,
            classes: 1,
            backed_off_at: Instant::ZERO,
            fell_at: Instant::ZERO,
        }
    }

    /// Takes a measurement from a chunk that was sent once. RFC 6298 sections 2.2 and 2.3.
    ///
    /// Section 3 (Karn): "RTT samples MUST NOT be made using segments that were retransmitted".
    ///
    /// The RFC takes one sample a round trip; here each of a window of chunks yields one (RFC 7323 appendix G warns of
    /// the short memory that this makes). So the variation falls at most once a flight, and slowly: a host that is
    /// held up now and then keeps a time-out that bears it.
    pub(crate) fn sample(&mut self, now: Instant, sent_at: Instant) {
        let rtt = now - sent_at;
        match self.smoothed {
            None => {
                self.smoothed = Some(rtt);
                self.variation = rtt / 2;
                // What stood in so far was a guess.
                self.low = Some(rtt);
            }
            Some(smoothed) => {
                let deviation = smoothed.abs_diff(rtt);
                if deviation >= self.variation {
                    self.variation = (self.variation * 3 + deviation) / 4;
                } else if sent_at >= self.fell_at {
                    self.variation = (self.variation * 15 + deviation) / 16;
                    self.fell_at = now;
                }
                self.smoothed = Some((smoothed * 7 + rtt) / 8);
                self.lower(rtt);
            }
        }
        self.base = self.smoothed.unwrap_or(rtt) + self.variation * 4;
        self.backoff = 0;
    }

    /// Chunks have so many classes, or more. Where queues serve higher ones first, a chunk of the lowest waits until the other slots have chunks of
    /// it, too: each after as many round trips as there are classes, on average. So the shortest time-out is so many times as long.
    pub(crate) fn expect_classes(&mut self, classes: u8) {
        self.classes = self.classes.max(classes.into());
    }

    /// Takes a measurement from a chunk of a higher class than the lowest, which is sent once. Queues may hold lower classes back while they
    /// send higher ones, and the time-out is for all: it follows the lowest, and until that has a measurement, any.
    pub(crate) fn sample_of_higher_class(&mut self, now: Instant, sent_at: Instant) {
        match self.smoothed {
            None => self.sample(now, sent_at),
            Some(_) => self.lower(now - sent_at),
        }
    }

    /// Takes the time since the *last* transmission of a chunk that was sent several times. Whether it is a round trip
    /// is not known: the acknowledgement may be for an earlier transmission, or caused by another rank's.
    ///
    /// RFC 6298 section 5.7 lets a back-off stand until there is a measurement. Where a chunk needs many ranks' contributions
    /// and losses are common, few chunks are sent only once and there may never be one, so a back-off also ends when an
    /// acknowledgement arrives as soon after a retransmission as the estimate predicts: then loss made the timer expire, not a longer path.
    /// If the path did become longer, acknowledgements arrive at other times, the back-off stands and yields a measurement.
    ///
    /// Before the first measurement there is no such estimate, and each doubling stands (section 5.5), so that a path slower
    /// than the first timeout is eventually measured; except that acknowledgements within an eighth of it halve it once
    /// a flight.
    pub(crate) fn on_ack_of_retransmission(&mut self, now: Instant, last_sent: Instant) {
        let since_last = now - last_sent;
        if self.smoothed.is_none() {
            // Until there is a measurement it stands in as the low, so that early loss detection can begin.
            self.lower(since_last);
            if since_last <= self.base / 8 && last_sent >= self.fell_at {
                self.base = (self.base / 2).max(self.initial);
                self.fell_at = now;
            }
            return;
        }
        if self.low.is_some_and(|low| since_last >= low) && since_last <= self.rto_without_backoff() {
            self.backoff = 0;
        }
    }

    /// The low falls at once, and rises slowly when the path has become longer.
    fn lower(&mut self, rtt: Duration) {
        self.low = Some(match self.low {
            Some(low) if rtt > low => low + (rtt - low) / 64,
            _ => rtt,
        });
    }

    /// RFC 6298 section 5.5: doubles the timeout because a chunk sent at `sent_at` was not acknowledged. At most once a
    /// flight: chunks sent before the last doubling do not count again.
    pub(crate) fn expired(&mut self, now: Instant, sent_at: Instant) {
        if (self.backoff > 0 || self.base > self.initial) && sent_at < self.backed_off_at {
            return;
        }
        if self.smoothed.is_none() {
            self.base = (self.base * 2).min(self.max);
        } else {
            self.backoff = (self.backoff + 1).min(16);
        }
        self.backed_off_at = now;
    }

    /// The retransmission time-out, back-off included.
    pub(crate) fn rto(&self) -> Duration {
        self.rto_without_backoff().saturating_mul(1 << self.backoff).min(self.max)
    }

    /// The retransmission time-out as the round trips alone suggest.
    pub(crate) fn rto_without_backoff(&self) -> Duration {
        self.base.max(self.min * self.classes).min(self.max)
    }

    /// The shortest retransmission time-out.
    pub(crate) fn min(&self) -> Duration {
        self.min
    }

    /// The smoothed round trip, once there is one.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// Mean deviation of the round trip.
    pub(crate) fn variation(&self) -> Duration {
        self.variation
    }

    /// The recent low of the round trip, once there is one or something that stands in.
    pub(crate) fn low(&self) -> Option<Duration> {
        self.low
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
        sample(&mut rtt, ms(8)); // SRTT = R, RTTVAR = R/2, RTO = SRTT + 4 RTTVAR
        assert_eq!((rtt.smoothed(), rtt.variation(), rtt.rto()), (Some(ms(8)), ms(4), ms(24)));
        sample(&mut rtt, ms(16)); // RTTVAR = 3/4 * 4 + 1/4 * 8 = 5, SRTT = 7/8 * 8 + 1/8 * 16 = 9
        assert_eq!((rtt.smoothed(), rtt.variation(), rtt.rto()), (Some(ms(9)), ms(5), ms(29)));
    }

    fn sample(rtt: &mut Rtt, took: Duration) {
        rtt.sample(Instant::ZERO + took, Instant::ZERO);
    }

    #[test]
    fn the_variation_rises_with_each_sample_and_falls_once_a_flight() {
        let mut rtt = Rtt::new(ms(1), ms(50), ms(1000));
        sample(&mut rtt, ms(16));
        assert_eq!(rtt.variation(), ms(8));
        sample(&mut rtt, ms(16));
        assert_eq!(rtt.variation(), ms(8) * 15 / 16);
        sample(&mut rtt, ms(16));
        assert_eq!(rtt.variation(), ms(8) * 15 / 16, "sent before it fell");
        rtt.sample(Instant::ZERO + ms(48), Instant::ZERO + ms(32));
        assert_eq!(rtt.variation(), ms(8) * 15 / 16 * 15 / 16);
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
        sample(&mut rtt, ms(8));
        assert_eq!(rtt.rto(), ms(24));
    }

    #[test]
    fn a_timely_ack_after_a_retransmission_ends_the_back_off() {
        let mut rtt = Rtt::new(ms(1), ms(50), ms(1000));
        sample(&mut rtt, ms(8)); // RTO 24 ms
        let expire = |rtt: &mut Rtt| rtt.expired(Instant::from_nanos(1), Instant::from_nanos(1));
        expire(&mut rtt);
        let ack_after =
            |rtt: &mut Rtt, took| rtt.on_ack_of_retransmission(Instant::ZERO + took, Instant::ZERO);
        ack_after(&mut rtt, ms(5));
        assert_eq!(rtt.rto(), ms(48), "too soon: the ack was for an earlier transmission");
        ack_after(&mut rtt, ms(25));
        assert_eq!(rtt.rto(), ms(48), "too late: the path may be longer than thought");
        ack_after(&mut rtt, ms(9));
        assert_eq!(rtt.rto(), ms(24));
        assert_eq!(rtt.smoothed(), Some(ms(8)), "no measurement");
    }

    #[test]
    fn a_guess_stands_in_only_until_a_measurement() {
        let mut rtt = Rtt::new(ms(1), ms(50), ms(1000));
        rtt.on_ack_of_retransmission(Instant::ZERO + ms(4), Instant::ZERO);
        assert_eq!((rtt.smoothed(), rtt.low(), rtt.rto()), (None, Some(ms(4)), ms(50)));
        sample(&mut rtt, ms(8));
        assert_eq!((rtt.low(), rtt.rto()), (Some(ms(8)), ms(24)));
    }

    #[test]
    fn a_doubling_before_the_first_measurement_stands() {
        let mut rtt = Rtt::new(ms(1), ms(20), ms(1000));
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        rtt.expired(at(20), at(0));
        rtt.expired(at(20), at(1));
        assert_eq!((rtt.rto(), rtt.rto_without_backoff()), (ms(40), ms(40)), "once a flight");
        rtt.expired(at(60), at(20));
        rtt.on_ack_of_retransmission(at(80), at(60));
        assert_eq!(rtt.rto_without_backoff(), ms(80), "the ack was for an earlier transmission");
        // Now a chunk is sent once and acknowledged: the path takes 80 ms.
        rtt.sample(at(160), at(80));
        assert_eq!((rtt.smoothed(), rtt.rto()), (Some(ms(80)), ms(240)));
        let mut lossy = Rtt::new(ms(1), ms(20), ms(1000));
        lossy.expired(at(20), at(0));
        lossy.expired(at(60), at(20));
        lossy.on_ack_of_retransmission(at(61), at(60));
        lossy.on_ack_of_retransmission(at(61), at(60));
        assert_eq!(lossy.rto(), ms(40), "acks arrive soon: halved, once a flight");
        lossy.on_ack_of_retransmission(at(63), at(62));
        lossy.on_ack_of_retransmission(at(65), at(64));
        assert_eq!(lossy.rto(), ms(20), "and never below the first");
    }

    #[test]
    fn the_low_falls_at_once_and_rises_slowly() {
        let mut rtt = Rtt::new(ms(1), ms(50), ms(1000));
        sample(&mut rtt, ms(10));
        sample(&mut rtt, ms(2));
        assert_eq!(rtt.low(), Some(ms(2)));
        sample(&mut rtt, ms(66));
        assert_eq!(rtt.low(), Some(ms(3)));
    }
}
