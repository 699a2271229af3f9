//! Distinguishes a switch that is lost from ranks that are stragglers.
//!
//! A worker sees the same in both cases: it sends and receives no result. But a reachable switch answers a contribution to a very old
//! chunk with STALE, whatever its slots hold, and changes nothing. So a worker that has waited for a while sends such
//! [probes](crate::Worker::write_liveness_probe), and gives the switch up when it has received no packet at all for long.

use core::time::Duration;

use crate::Instant;

/// How long the switch is silent before it is probed, and the interval of the probes.
const PROBE_AFTER: Duration = Duration::from_secs(1);
const PROBE_INTERVAL: Duration = Duration::from_millis(500);

/// How long, and after how many probes, a silent switch counts as lost. The number matters after the process was stopped: it has not
/// probed then.
const LOST_AFTER: Duration = Duration::from_secs(5);
const PROBES_MIN: u32 = 8;

/// What a worker does about a switch from which it awaits results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// The switch answers, or has not been silent for long.
    Assumed,
    /// It has been silent for a while: send a probe now.
    ProbeDue,
    /// It has answered neither data nor probes for long.
    Lost,
}

/// Whether a switch is silent.
#[derive(Debug, Clone, Default)]
pub struct LivenessMonitor {
    /// Since when a result is awaited and no packet has come.
    since: Option<Instant>,
    /// Probes sent since then, and when the last was.
    probes_sent: u32,
    probed_at: Option<Instant>,
}

impl LivenessMonitor {
    /// A monitor that has observed nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records whether packets were received, and whether any are awaited.
    #[inline]
    pub fn observe(&mut self, now: Instant, received: bool, awaited: bool) {
        if received || !awaited {
            self.probes_sent = 0;
            self.since = None;
        }
        if awaited && self.since.is_none() {
            self.since = Some(now);
        }
    }

    /// Whether it is waiting for the switch. If so, [`Self::poll`] is to be called several times a second.
    pub fn is_waiting(&self) -> bool {
        self.since.is_some()
    }

    /// What to do now. A probe that is due counts as sent.
    pub fn poll(&mut self, now: Instant) -> Liveness {
        let Some(since) = self.since else { return Liveness::Assumed };
        let silent = now - since;
        if silent < PROBE_AFTER || self.probed_at.is_some_and(|at| now - at < PROBE_INTERVAL) {
            return Liveness::Assumed;
        }
        if silent >= LOST_AFTER && self.probes_sent >= PROBES_MIN {
            return Liveness::Lost;
        }
        self.probes_sent += 1;
        self.probed_at = Some(now);
        Liveness::ProbeDue
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_silent_switch_is_probed_and_then_lost() {
        let mut monitor = LivenessMonitor::new();
        monitor.observe(at(100), false, true);
        let outcomes: Vec<_> = (0..70).map(|step| monitor.poll(at(100 + 100 * step))).collect();
        assert!(outcomes[..10].iter().all(|outcome| *outcome == Liveness::Assumed), "{outcomes:?}");
        let probes: Vec<_> = (0..70).filter(|step| outcomes[*step] == Liveness::ProbeDue).collect();
        assert_eq!(probes, [10, 15, 20, 25, 30, 35, 40, 45], "at once after a second, then twice a second");
        assert_eq!(outcomes.iter().position(|outcome| *outcome == Liveness::Lost), Some(50));
    }

    #[test]
    fn any_packet_and_any_pause_end_the_silence() {
        for (received, awaited) in [(true, true), (false, false), (true, false)] {
            let mut monitor = LivenessMonitor::new();
            monitor.observe(at(0), false, true);
            assert_eq!(monitor.poll(at(1_000)), Liveness::ProbeDue);
            monitor.observe(at(4_900), received, awaited);
            assert_eq!(monitor.is_waiting(), awaited);
            monitor.observe(at(4_901), false, true);
            assert_eq!(monitor.poll(at(5_800)), Liveness::Assumed);
            assert_eq!(monitor.poll(at(6_000)), Liveness::ProbeDue);
        }
    }

    #[test]
    fn a_process_that_was_stopped_probes_before_it_gives_up() {
        let mut monitor = LivenessMonitor::new();
        monitor.observe(at(0), false, true);
        for probe in 0..8 {
            assert_eq!(monitor.poll(at(60_000 + 500 * probe)), Liveness::ProbeDue);
        }
        assert_eq!(monitor.poll(at(64_000)), Liveness::Lost);
    }
}
