//! A target for the delay.

use core::time::Duration;

use super::{Ack, CongestionControl, Round};
use crate::Instant;

/// The decrease of the window in proportion to the excess of the delay over its target, and the largest single decrease.
const BETA: f64 = 0.8;
const CUT_MAX: f64 = 0.5;

/// The windows between which the target falls from its most to its least, in packets.
const FLOW_WINDOWS: (f64, f64) = (0.1, 100.0);

/// The target's range, in base delays.
const FLOW_RANGE: f64 = 5.0;

/// How far the target lies above the base delay at least: hosts batch, and wake up with a delay.
const SLACK: f64 = 0.25;

/// How long the least measured delay counts as that of an empty path.
const BASE_AGE: Duration = Duration::from_secs(10);

/// Swift (Kumar et al., "Swift: Delay is Simple and Effective for Congestion Control in the Datacenter", SIGCOMM 2020): one
/// packet more a round trip while the delay is below a target that is higher for smaller windows; above it, at most once a round
/// trip, a cut in proportion to how far. It needs nothing of the network but time.
///
/// The base delay, which the paper takes as known, is the least of the last ten seconds. Windows below 1, which the paper paces, are
/// not used.
#[derive(Debug, Clone, PartialEq)]
pub struct Swift {
    window: f64,
    most: f64,
    /// By what the increase is multiplied.
    scale: f64,
    base: Duration,
    based_at: Instant,
    /// When the window was cut last.
    cut_at: Option<Instant>,
    smoothed: Duration,
}

impl Swift {
    /// Begins with all slots.
    pub fn new(slots: u32) -> Self {
        let zero = Duration::ZERO;
        Self {
            window: slots.into(),
            most: slots.into(),
            scale: 1.0,
            base: zero,
            based_at: Instant::ZERO,
            cut_at: None,
            smoothed: zero,
        }
    }

    /// The delay that is aimed at with the window as it is, in seconds.
    fn target(&self) -> f64 {
        let base = self.base.as_secs_f64();
        let (least, most) = FLOW_WINDOWS;
        let range = FLOW_RANGE * base;
        let slope = range / (1.0 / least.sqrt() - 1.0 / most.sqrt());
        let offset = -slope / most.sqrt();
        base * (1.0 + SLACK) + (slope / self.window.sqrt() + offset).clamp(0.0, range)
    }

    fn may_cut(&self, now: Instant) -> bool {
        self.cut_at.is_none_or(|at| now - at >= self.smoothed)
    }
}

impl CongestionControl for Swift {
    fn on_ack(&mut self, ack: &Ack) {
        let Some(delay) = ack.round_trip else { return };
        self.smoothed = ack.smoothed;
        if self.base.is_zero() || delay <= self.base || ack.now - self.based_at > BASE_AGE {
            (self.base, self.based_at) = (delay, ack.now);
        }
        let (delay, target) = (delay.as_secs_f64(), self.target());
        if delay < target {
            self.window = (self.window + self.scale / self.window).min(self.most);
        } else if self.may_cut(ack.now) {
            let cut = (BETA * (delay - target) / delay).min(CUT_MAX);
            self.window = (self.window * (1.0 - cut)).max(1.0);
            self.cut_at = Some(ack.now);
        }
    }

    fn on_round(&mut self, _: &Round) {}

    fn on_loss(&mut self, now: Instant) {
        if self.may_cut(now) {
            self.window = (self.window * (1.0 - CUT_MAX)).max(1.0);
            self.cut_at = Some(now);
        }
    }

    fn scale_increase(&mut self, factor: f64) {
        self.scale = factor;
    }

    fn window(&self) -> f64 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(at_us: u64, delay_us: u64) -> Ack {
        let delay = Duration::from_micros(delay_us);
        Ack {
            now: Instant::ZERO + Duration::from_micros(at_us),
            round_trip: Some(delay),
            marked: false,
            smoothed: delay,
        }
    }

    #[test]
    fn below_the_target_it_grows_by_one_a_window() {
        let mut control = Swift::new(100);
        control.on_ack(&ack(1, 100));
        control.window = 10.0;
        for n in 0..10 {
            control.on_ack(&ack(2 + n, 100));
        }
        assert!((control.window() - 11.0).abs() < 0.1, "{}", control.window());
    }

    #[test]
    fn above_it_is_cut_once_a_round_trip_and_by_half_at_most() {
        let mut control = Swift::new(100);
        control.on_ack(&ack(1, 100));
        // At 100 packets the target is the base and its slack: 125 us.
        assert!((control.target() - 125e-6).abs() < 1e-9, "{}", control.target());
        control.on_ack(&ack(1000, 250));
        assert!((control.window() - 100.0 * (1.0 - 0.8 * 125.0 / 250.0)).abs() < 0.1, "{}", control.window());
        let once = control.window();
        control.on_ack(&ack(1100, 250));
        assert_eq!(control.window(), once);
        control.on_loss(Instant::ZERO + Duration::from_micros(1200));
        assert_eq!(control.window(), once, "not twice in a round trip");
        control.on_ack(&Ack { smoothed: Duration::from_micros(250), ..ack(2000, 100_000) });
        assert_eq!(control.window(), once / 2.0);
    }

    #[test]
    fn small_windows_bear_more_delay() {
        let mut control = Swift::new(100);
        control.on_ack(&ack(1, 100));
        let target = |control: &mut Swift, window| {
            control.window = window;
            control.target()
        };
        assert!(target(&mut control, 1.0) > 1.5 * target(&mut control, 16.0));
        assert!(target(&mut control, 1.0) <= 100e-6 * (1.0 + SLACK + FLOW_RANGE));
    }

    #[test]
    fn the_base_is_forgotten_when_the_path_has_become_longer() {
        let mut control = Swift::new(8);
        control.on_ack(&ack(0, 100));
        control.on_ack(&ack(5_000_000, 300));
        assert_eq!(control.base, Duration::from_micros(100));
        control.on_ack(&ack(11_000_000, 300));
        assert_eq!(control.base, Duration::from_micros(300));
    }
}
