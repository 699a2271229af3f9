//! A higher rate for a job that is further in its iteration, so that trainings that share a link converge to sending in turns.

use core::time::Duration;

use super::{Ack, CongestionControl, Round};
use crate::Instant;

/// Fraction of a job's pause between iterations that a silence must reach to count as one (as in MLTCP).
const PAUSE_SHARE: f64 = 0.9;

/// Round trips that a silence must last to count as a pause, where pauses are learnt.
const PAUSE_ROUND_TRIPS: u32 = 4;

/// By what the increase of a window is multiplied, as a function of progress: `slope * progress + intercept`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aggressiveness {
    /// Weight of progress.
    pub slope: f64,
    /// The factor at the beginning of an iteration, above 0.
    pub intercept: f64,
}

impl Aggressiveness {
    /// The constants of the first paper as far as known; a port to a simulator by one of its authors has 4 and 0.25.
    pub const DEFAULT: Self = Self { slope: 1.75, intercept: 0.25 };

    /// The factor at `progress`, the part of the iteration that is done, from 0 to 1; beyond that it counts as 1.
    pub fn factor(self, progress: f64) -> f64 {
        self.slope * progress.clamp(0.0, 1.0) + self.intercept
    }

    /// By how much the gap between the beginnings of two equal jobs grows in an iteration, in the unit of the two arguments: the
    /// `gap`, and the time in which one of them `sends` all of an iteration when it is alone. 0 when they do not overlap.
    ///
    /// This is the published equation `slope * gap * (sends - gap) / (sends * intercept + slope * gap)`. It holds where rates are in
    /// the ratio that the factors have when the second job begins.
    pub fn shift(self, gap: f64, sends: f64) -> f64 {
        let overlap = (sends - gap).max(0.0);
        self.slope * gap * overlap / (sends * self.intercept + self.slope * gap)
    }
}

/// MLTCP's wrapper of a congestion-control algorithm (Rajasekaran et al., "MLTCP: A Distributed Technique to Approximate Centralized Flow Scheduling For Machine
/// Learning", HotNets 2024): the increase of the window is multiplied by a factor that grows with the progress of the training's
/// iteration. Of two jobs the one that began earlier is further, so it is faster, ends earlier, and begins its next iteration
/// even earlier: iteration by iteration they move apart, until they send in turns, without knowing of each other.
///
/// What it needs to know of the training it learns. An iteration ends with the longest silence, nine tenths of it at least, and
/// has as many chunks as the last one. Until that is known the factor is 1. A silence that does not come again, such as that of a
/// checkpoint, is forgotten by halves while more chunks are acknowledged than an iteration has.
#[derive(Debug)]
pub struct Mltcp {
    control: Box<dyn CongestionControl>,
    aggressiveness: Aggressiveness,
    /// When the last result arrived.
    acked_at: Option<Instant>,
    /// Results of this iteration.
    acks: u64,
    /// Results of an iteration, where known.
    iteration: Option<u64>,
    /// The number of results of this iteration at which the learnt pause is halved next.
    decay_at: u64,
    /// The longest silence, while computing alone.
    pause: Duration,
    /// Both were configured, and are not learnt.
    configured: bool,
}

impl Mltcp {
    /// Scales the increases of `control`.
    pub fn new(control: Box<dyn CongestionControl>, aggressiveness: Aggressiveness) -> Self {
        Self {
            control,
            aggressiveness,
            acked_at: None,
            acks: 0,
            iteration: None,
            decay_at: u64::MAX,
            pause: Duration::ZERO,
            configured: false,
        }
    }

    /// The same for a training whose iterations have so many chunks and such a pause in between.
    #[must_use]
    pub fn knowing(mut self, chunks: u64, pause: Duration) -> Self {
        (self.iteration, self.pause, self.configured) = (Some(chunks.max(1)), pause, true);
        self
    }

    /// The part of the iteration that is done; `None` while it is not known what an iteration is.
    pub fn progress(&self) -> Option<f64> {
        self.iteration.map(|chunks| (self.acks as f64 / chunks as f64).min(1.0))
    }

    /// Whether an iteration ended before a result that comes after such a silence.
    fn ends(&mut self, silence: Duration, smoothed: Duration) -> bool {
        if !self.configured {
            if silence < smoothed * PAUSE_ROUND_TRIPS || silence.is_zero() {
                return false;
            }
            self.pause = self.pause.max(silence);
        }
        silence >= self.pause.mul_f64(PAUSE_SHARE)
    }

    fn decay(&mut self) {
        if self.acks >= self.decay_at {
            self.pause /= 2;
            self.decay_at = self.acks + self.iteration.unwrap_or(self.acks);
        }
    }
}

impl CongestionControl for Mltcp {
    fn on_ack(&mut self, ack: &Ack) {
        let silence = self.acked_at.map(|at| ack.now - at);
        self.acked_at = Some(ack.now);
        if silence.is_some_and(|silence| self.ends(silence, ack.smoothed)) {
            if !self.configured {
                self.iteration = Some(self.acks);
                self.decay_at = self.acks * 2;
            }
            self.acks = 0;
        }
        self.acks += 1;
        if !self.configured {
            self.decay();
        }
        self.control
            .scale_increase(self.progress().map_or(1.0, |progress| self.aggressiveness.factor(progress)));
        self.control.on_ack(ack);
    }

    fn on_round(&mut self, round: &Round) {
        self.control.on_round(round);
    }

    fn on_loss(&mut self, now: Instant) {
        self.control.on_loss(now);
    }

    fn scale_increase(&mut self, _: f64) {
        // The wrapped algorithm gets MLTCP's own factor with every acknowledgement.
    }

    fn window(&self) -> f64 {
        self.control.window()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Aimd, Dctcp};
    use super::*;

    fn ack(at_us: u64) -> Ack {
        let smoothed = Duration::from_micros(100);
        Ack {
            now: Instant::ZERO + Duration::from_micros(at_us),
            round_trip: Some(smoothed),
            marked: false,
            smoothed,
        }
    }

    #[test]
    fn iterations_are_learnt() {
        let mut control = Mltcp::new(Box::new(Aimd::new(64)), Aggressiveness::DEFAULT);
        let mut now = 0;
        // Three bursts of 10 chunks an iteration, the pauses in between 2 ms, 3 ms and 40 ms.
        let mut iteration = |control: &mut Mltcp, last: u64| {
            let mut seen = Vec::new();
            for pause in [2_000, 3_000, last] {
                for _ in 0..10 {
                    now += 50;
                    control.on_ack(&ack(now));
                    seen.push(control.progress());
                }
                now += pause;
            }
            seen
        };
        assert_eq!(iteration(&mut control, 40_000)[0], None, "nothing is known yet");
        iteration(&mut control, 40_000);
        let seen = iteration(&mut control, 42_000);
        assert_eq!((seen[0], seen[14], seen[29]), (Some(1.0 / 30.0), Some(0.5), Some(1.0)));
        // A checkpoint hides the ends of some iterations, and is then forgotten.
        iteration(&mut control, 1_000_000);
        (0..8).for_each(|_| {
            iteration(&mut control, 40_000);
        });
        let seen = iteration(&mut control, 40_000);
        assert_eq!((seen[0], seen[29]), (Some(1.0 / 30.0), Some(1.0)));
    }

    #[test]
    fn the_increase_is_scaled_and_the_decrease_is_not() {
        let pause = Duration::from_millis(1);
        let mut control =
            Mltcp::new(Box::new(Dctcp::new(100)), Aggressiveness { slope: 2.0, intercept: 0.5 })
                .knowing(10, pause);
        control.on_loss(Instant::ZERO);
        control.on_round(&Round { acks: 1, marked: 0 });
        assert_eq!(control.window(), 50.0, "once a round");
        (1..=5).for_each(|n| control.on_ack(&ack(n)));
        control.on_round(&Round { acks: 5, marked: 0 });
        assert_eq!(control.window(), 50.0 + 2.0 * 0.5 + 0.5);
        (6..=20).for_each(|n| control.on_ack(&ack(n)));
        control.on_round(&Round { acks: 15, marked: 0 });
        assert_eq!(control.window(), 51.5 + 2.5, "all is done, and more is no more");
        control.on_ack(&ack(2000));
        control.on_round(&Round { acks: 1, marked: 0 });
        assert_eq!(control.window(), 54.0 + 0.7, "a new iteration");
    }

    /// Two equal jobs on a link, as a fluid; `frozen` keeps the ratio that there is when the second begins, else it follows progress.
    /// Returns the gap after an iteration.
    fn gap_after(aggressiveness: Aggressiveness, gap: f64, sends: f64, frozen: bool) -> f64 {
        const STEP: f64 = 1e-4;
        let mut done = [gap / sends, 0.0];
        let first = done;
        let mut ends = [0.0; 2];
        let mut now = gap;
        while done[1] < 1.0 {
            let factors = if frozen { first } else { done }.map(|progress| aggressiveness.factor(progress));
            let sum = factors[0] + factors[1];
            let rates = if done[0] < 1.0 { [factors[0] / sum, factors[1] / sum] } else { [0.0, 1.0] };
            for (job, rate) in rates.into_iter().enumerate() {
                done[job] += STEP * rate / sends;
                if done[job] < 1.0 {
                    ends[job] = now + STEP;
                }
            }
            now += STEP;
        }
        ends[1] - ends[0]
    }

    #[test]
    fn the_gap_grows_by_the_published_equation() {
        for aggressiveness in [Aggressiveness::DEFAULT, Aggressiveness { slope: 4.0, intercept: 0.25 }] {
            for gap in [0.05, 0.2, 0.5, 0.8, 0.95] {
                let grown = gap_after(aggressiveness, gap, 1.0, true) - gap;
                let published = aggressiveness.shift(gap, 1.0);
                assert!(
                    (grown - published).abs() < 1e-3,
                    "{aggressiveness:?}, {gap}: {grown} for {published}"
                );
                assert!(
                    gap_after(aggressiveness, gap, 1.0, false) > gap,
                    "and grows all the more as progress is followed"
                );
            }
            // From nearly at once to not at all at the same time.
            let (mut gap, mut iterations) = (0.01, 0);
            while gap < 0.999 {
                gap += aggressiveness.shift(gap, 1.0);
                iterations += 1;
            }
            assert!(iterations < 20, "{aggressiveness:?}: {iterations}");
            assert_eq!(aggressiveness.shift(1.0, 1.0), 0.0, "there it stays");
        }
        let none = Aggressiveness { slope: 0.0, intercept: 1.0 };
        assert!(
            (gap_after(none, 0.3, 1.0, false) - 0.3).abs() < 1e-3,
            "without aggressiveness nothing moves"
        );
    }

    /// A training of two on a link that marks: real windows in steps of a round trip.
    struct Training {
        control: Mltcp,
        left: f64,
        /// Steps of computing that are left.
        computes: u32,
        began: Vec<u32>,
    }

    const CHUNKS: f64 = 15_000.0;
    const COMPUTES: u32 = 600;
    const CAPACITY: f64 = 50.0;

    impl Training {
        fn new(aggressiveness: Aggressiveness, waits: u32) -> Self {
            let control = Mltcp::new(Box::new(Aimd::new(100)), aggressiveness);
            Self { control, left: CHUNKS, computes: waits, began: Vec::new() }
        }

        fn step(&mut self, now: u32, share: f64, marked: bool) {
            if self.computes > 0 {
                self.computes -= 1;
                return;
            }
            if self.left == CHUNKS {
                self.began.push(now);
            }
            let acks = (self.control.window() * share).min(self.left).ceil();
            self.left -= acks.min(self.left);
            for n in 0..acks as u64 {
                self.control.on_ack(&ack(u64::from(now) * 100 + n * 100 / acks as u64));
            }
            self.control.on_round(&Round { acks: acks as u32, marked: u32::from(marked) });
            if self.left == 0.0 {
                (self.left, self.computes) = (CHUNKS, COMPUTES);
            }
        }
    }

    /// Mean steps of an iteration over the last 20 of trainings that begin at these times.
    fn trained(aggressiveness: Aggressiveness, begin: &[u32]) -> f64 {
        let mut jobs: Vec<Training> =
            begin.iter().map(|begin| Training::new(aggressiveness, *begin)).collect();
        for now in 0..100_000 {
            let windows: f64 =
                jobs.iter().filter(|job| job.computes == 0).map(|job| job.control.window()).sum();
            let share = (CAPACITY / windows.max(1.0)).min(1.0);
            jobs.iter_mut().for_each(|job| job.step(now, share, windows > CAPACITY));
        }
        let mean = |job: &Training| {
            let last = &job.began[job.began.len() - 21..];
            f64::from(last[20] - last[0]) / 20.0
        };
        jobs.iter().map(mean).sum::<f64>() / jobs.len() as f64
    }

    #[test]
    fn windows_of_two_trainings_come_to_take_turns() {
        let none = Aggressiveness { slope: 0.0, intercept: 1.0 };
        let alone = trained(none, &[0]);
        let without = trained(none, &[0, 10]);
        let with = trained(Aggressiveness::DEFAULT, &[0, 10]);
        println!("steps an iteration: {alone:.1} alone, {without:.1} side by side, {with:.1} with MLTCP");
        assert!(without > 1.2 * alone, "they are in each other's way");
        assert!(with < 1.05 * alone, "nearly as if alone");
    }
}
