//! When the job's iterations begin: what the engine measures of them, and how it delays the next one.

use std::time::Duration;

use netfold_control::{CommunicationPattern, Hold};
use netfold_proto::{Instant, PatternMeter};

/// The iterations of the job in a tree, at one rank.
#[derive(Debug, Default)]
pub(super) struct Iterations {
    meter: PatternMeter,
    /// Operations that are submitted between these times, while none is in progress, begin at the second one.
    hold: Option<(Instant, Instant)>,
    /// Operations wait for the end of that interval.
    waiting: bool,
}

impl Iterations {
    /// An order that was received so long ago; it replaces the one before.
    pub(super) fn set_hold(&mut self, now: Instant, age: Duration, hold: Hold) {
        let at = |micros| now + Duration::from_micros(micros).saturating_sub(age);
        self.hold = Some((at(hold.after_us), at(hold.until_us)));
    }

    /// How long an operation that is submitted now, while none is in progress, has to wait, if it has.
    fn left(&self, now: Instant) -> Option<Duration> {
        let (after, until) = self.hold?;
        (after <= now && now < until).then(|| until - now)
    }

    /// Whether operations have to wait; `busy`: one is in progress. `pending`: there are some.
    pub(super) fn holds(&mut self, now: Instant, busy: bool, pending: impl FnOnce() -> bool) -> bool {
        let holds = !busy && self.left(now).is_some();
        self.waiting = holds && pending();
        holds
    }

    /// Operations wait for the end of the interval.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Time until operations that wait may begin; zero when they may, `None` if none waits.
    pub(super) fn wait_left(&self, now: Instant) -> Option<Duration> {
        self.waiting.then(|| self.left(now).unwrap_or_default())
    }

    /// An operation begins, and none is in progress.
    pub(super) fn begin(&mut self, now: Instant) {
        self.meter.begin(now);
    }

    /// No operation is in progress any more; so many bytes were sent in all.
    pub(super) fn end(&mut self, now: Instant, bytes_sent: u64) {
        self.meter.end(now, bytes_sent);
    }

    /// The engine has another attachment.
    pub(super) fn interrupt(&mut self) {
        self.meter.interrupt();
        (self.hold, self.waiting) = (None, false);
    }

    /// What was measured, once an iteration has ended.
    pub(super) fn pattern(&self, now: Instant) -> Option<CommunicationPattern> {
        self.meter.pattern(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    const HOLD: Hold = Hold { after_us: 20_000, until_us: 50_000 };

    #[test]
    fn operations_wait_within_the_interval_while_none_is_in_progress() {
        let mut iterations = Iterations::default();
        assert!(!iterations.holds(at(100), false, || true));
        // Received 5 ms ago: from 115 ms to 145 ms.
        iterations.set_hold(at(100), Duration::from_millis(5), HOLD);
        assert!(!iterations.holds(at(114), false, || true), "before it");
        assert!(!iterations.holds(at(120), true, || true), "in an iteration");
        assert_eq!(iterations.wait_left(at(120)), None);
        assert!(iterations.holds(at(120), false, || false) && !iterations.is_waiting());
        assert!(iterations.holds(at(121), false, || true) && iterations.is_waiting());
        assert_eq!(iterations.wait_left(at(125)), Some(Duration::from_millis(20)));
        assert_eq!(iterations.wait_left(at(145)), Some(Duration::ZERO));
        assert!(!iterations.holds(at(145), false, || true) && !iterations.is_waiting(), "after it");
    }

    #[test]
    fn another_attachment_has_no_orders() {
        let mut iterations = Iterations::default();
        iterations.set_hold(at(100), Duration::ZERO, HOLD);
        assert!(iterations.holds(at(125), false, || true));
        iterations.interrupt();
        assert!(!iterations.is_waiting() && !iterations.holds(at(126), false, || true));
    }
}
