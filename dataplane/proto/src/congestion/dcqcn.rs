//! A rate that marks decrease and timers increase.

use core::time::Duration;

use super::{Ack, CongestionControl, Round};
use crate::Instant;

/// Weight of the newest interval in the estimate of how often there are marks.
const GAIN: f64 = 1.0 / 256.0;

/// Marks within this time count as one: the receiver's notifications.
const NOTIFIED_EVERY: Duration = Duration::from_micros(50);

/// Steps of additive and of hyper-active increase relative to the rate of the line: 5 and 50 Mbit/s for each 25 Gbit/s.
const INCREASE: f64 = 1.0 / 5_000.0;
const HYPER_INCREASE: f64 = 1.0 / 500.0;

/// The intervals of DCQCN's three timers, and the length of its recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DcqcnTimers {
    /// Between estimates of how often there are marks, above 0.
    pub estimate: Duration,
    /// Between two cuts at least.
    pub cut: Duration,
    /// Between two increases, above 0.
    pub increase: Duration,
    /// Increases that go half-way back to the rate before the cut, before the target itself is raised.
    pub recovery: u32,
}

impl DcqcnTimers {
    /// The values of the paper and its simulators: 50, 50 and 55 us, five steps of recovery.
    pub const PAPER: Self = Self::micros(50, 50, 55);
    /// Of vendors' NICs as far as known: 1, 4 and 300 us.
    pub const VENDOR: Self = Self::micros(1, 4, 300);

    const fn micros(estimate: u64, cut: u64, increase: u64) -> Self {
        let us = Duration::from_micros;
        Self { estimate: us(estimate), cut: us(cut), increase: us(increase), recovery: 5 }
    }
}

/// The algorithm of DCQCN (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015). A mark cuts the rate by half of how often
/// there are marks; without marks the rate goes back half-way to what it was with each tick of a clock, then beyond, slowly at first.
///
/// Rates are windows here: what is in flight in a round trip without queues, all slots at the rate of the line. Chunks are not
/// paced, and there is no byte counter, which simulators leave out, too. Its clocks are for round trips of tens of microseconds: where those
/// are longer than [`DcqcnTimers::increase`], the rate is back before the queue is known to be short. A loss counts as a mark: DCQCN is for
/// networks that lose nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Dcqcn {
    timers: DcqcnTimers,
    rate: f64,
    target: f64,
    most: f64,
    /// Estimate of how often there are marks, 0 to 1; `None` before the first.
    marked: Option<f64>,
    /// There was a mark since the last estimate.
    seen: bool,
    /// A mark has not yet led to a decrease.
    pending: bool,
    /// Increases since the last cut.
    stage: u32,
    /// By what steps of increase are multiplied.
    scale: f64,
    estimated_at: Instant,
    increased_at: Instant,
    notified_at: Option<Instant>,
    cut_at: Option<Instant>,
}

impl Dcqcn {
    /// Begins with all slots.
    pub fn new(slots: u32, timers: DcqcnTimers) -> Self {
        Self {
            timers,
            rate: slots.into(),
            target: slots.into(),
            most: slots.into(),
            marked: None,
            seen: false,
            pending: false,
            stage: 0,
            scale: 1.0,
            estimated_at: Instant::ZERO,
            increased_at: Instant::ZERO,
            notified_at: None,
            cut_at: None,
        }
    }

    fn notified(&mut self, now: Instant) {
        if self.notified_at.is_some_and(|at| now - at < NOTIFIED_EVERY) {
            return;
        }
        self.notified_at = Some(now);
        (self.seen, self.pending) = (true, true);
        self.marked.get_or_insert(1.0);
    }

    /// Lets the clocks tick that have, by now. Ticks at which nothing changes any more are passed over.
    fn tick(&mut self, now: Instant) {
        let ticks = ticks(now - self.estimated_at, self.timers.estimate);
        if ticks > 0 {
            if let Some(marked) = &mut self.marked {
                *marked *= (1.0 - GAIN).powi(ticks.min(1 << 20) as i32);
                *marked += if self.seen { GAIN } else { 0.0 };
            }
            (self.seen, self.estimated_at) = (false, self.estimated_at + self.timers.estimate * ticks);
        }
        let ticks = self::ticks(now - self.increased_at, self.timers.increase);
        for _ in 0..ticks {
            if self.rate >= self.most {
                break;
            }
            self.increase();
        }
        self.increased_at += self.timers.increase * ticks;
    }

    fn increase(&mut self) {
        let step = match self.stage.cmp(&self.timers.recovery) {
            core::cmp::Ordering::Less => 0.0,
            core::cmp::Ordering::Equal => INCREASE,
            core::cmp::Ordering::Greater => HYPER_INCREASE,
        };
        self.stage = self.stage.saturating_add(1);
        self.target = (self.target + step * self.scale * self.most).min(self.most);
        self.rate = f64::midpoint(self.rate, self.target);
        // Half-way for ever would never arrive.
        if self.rate > self.most * (1.0 - 1e-6) {
            self.rate = self.most;
        }
    }

    fn cut(&mut self, now: Instant) {
        if !self.pending || self.cut_at.is_some_and(|at| now - at < self.timers.cut) {
            return;
        }
        // Without an increase since the last cut the target stays: there was no time to come back.
        if self.stage > 0 || self.cut_at.is_none() {
            self.target = self.rate;
        }
        self.rate = (self.rate * (1.0 - self.marked.unwrap_or(1.0) / 2.0)).max(1.0);
        (self.stage, self.pending) = (0, false);
        (self.cut_at, self.increased_at) = (Some(now), now);
    }
}

/// How often a clock has ticked.
fn ticks(passed: Duration, interval: Duration) -> u32 {
    let ticks = passed.as_nanos() / interval.as_nanos().max(1);
    u32::try_from(ticks).unwrap_or(u32::MAX)
}

impl CongestionControl for Dcqcn {
    fn on_ack(&mut self, ack: &Ack) {
        self.tick(ack.now);
        if ack.marked {
            self.notified(ack.now);
        }
        self.cut(ack.now);
    }

    fn on_round(&mut self, _: &Round) {}

    fn on_loss(&mut self, now: Instant) {
        self.tick(now);
        self.notified(now);
        self.cut(now);
    }

    fn scale_increase(&mut self, factor: f64) {
        self.scale = factor;
    }

    fn window(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(now_us: u64, marked: bool) -> Ack {
        let smoothed = Duration::from_micros(10);
        Ack { now: Instant::ZERO + Duration::from_micros(now_us), round_trip: None, marked, smoothed }
    }

    #[test]
    fn a_mark_halves_and_the_clock_brings_it_back() {
        let mut control = Dcqcn::new(1000, DcqcnTimers::PAPER);
        control.on_ack(&at(1_000, true));
        assert_eq!(control.window(), 500.0, "the first is taken seriously");
        control.on_ack(&at(1_010, true));
        assert_eq!(control.window(), 500.0, "one notification, and one cut, in 50 us");
        control.on_ack(&at(1_056, false));
        assert_eq!(control.window(), 750.0, "half-way back");
        control.on_ack(&at(1_111, false));
        assert_eq!(control.window(), 875.0);
        // Three more steps of recovery, then slowly, and never beyond the line.
        control.on_ack(&at(1_056 + 5 * 55, false));
        assert!((control.window() - 1000.0 * (1.0 - 0.5_f64.powi(7))).abs() < 1.0, "{}", control.window());
        control.on_ack(&at(100_000_000, false));
        assert_eq!(control.window(), 1000.0);
    }

    #[test]
    fn rare_marks_cut_little() {
        let mut control = Dcqcn::new(1000, DcqcnTimers::PAPER);
        control.on_ack(&at(50, true));
        // 100 ms without a mark: the estimate has decayed by e^-8.
        control.on_ack(&at(100_000, false));
        control.on_ack(&at(100_001, true));
        assert!(control.window() > 990.0, "{}", control.window());
        // Marks all the time bring it back to one half.
        (0..40_000).for_each(|n| control.on_ack(&at(200_000 + n * 10, true)));
        assert!(control.marked.unwrap() > 0.99, "{control:?}");
        assert!(control.window() < 200.0);
        assert!(control.window() >= 1.0);
    }

    #[test]
    fn increases_beyond_recovery_are_scaled() {
        let grown = |scale: f64| {
            let mut control = Dcqcn::new(1000, DcqcnTimers::PAPER);
            // Two cuts, so that the target is below the line.
            control.on_ack(&at(50, true));
            control.on_ack(&at(110, true));
            control.scale_increase(scale);
            control.on_ack(&at(110 + 55 * 9, false));
            control.window()
        };
        assert!(grown(2.0) > grown(1.0) && grown(1.0) > grown(0.25));
    }
}
