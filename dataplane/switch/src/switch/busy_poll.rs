//! A bounded time of polling for packets before a thread sleeps.

use std::time::{Duration, Instant};

/// Decides whether the loop polls again or sleeps. Without a time it does not read the clock.
#[derive(Debug)]
pub(super) struct BusyPoll {
    time: Duration,
    /// When it first polled in vain after the last packet.
    since: Option<Instant>,
}

impl BusyPoll {
    /// For at most `time` after the last packet; zero never polls.
    pub(super) fn new(time: Duration) -> Self {
        Self { time, since: None }
    }

    /// Packets have arrived.
    pub(super) fn received(&mut self) {
        self.since = None;
    }

    /// Whether to poll again, after a poll in vain.
    pub(super) fn polls_on(&mut self) -> bool {
        !self.time.is_zero() && self.since.get_or_insert_with(Instant::now).elapsed() < self.time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_for_a_bounded_time_after_each_packet() {
        let mut off = BusyPoll::new(Duration::ZERO);
        assert!(!off.polls_on(), "it is off without a time");
        let mut polling = BusyPoll::new(Duration::from_millis(20));
        let started = Instant::now();
        assert!(polling.polls_on());
        while polling.polls_on() {}
        assert!(started.elapsed() >= Duration::from_millis(20));
        assert!(!polling.polls_on(), "the time is over until a packet arrives");
        polling.received();
        assert!(polling.polls_on());
    }
}
