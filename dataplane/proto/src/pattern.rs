//! Measures a job's iterations by when its operations begin and end: nothing of packets, and no knowledge of the training.

use core::time::Duration;
use std::collections::VecDeque;

use netfold_control::CommunicationPattern;

use crate::Instant;

/// Iterations whose medians are the pattern.
const ITERATIONS_KEPT: usize = 8;

/// Fraction of the longest recent pause that a pause must reach to end an iteration. Pauses between the buckets of a backward pass are shorter than the
/// one in which the next forward pass is computed.
const PAUSE_SHARE: f64 = 0.5;

/// What is left of the longest pause with each iteration that has none as long.
const PAUSE_KEPT: f64 = 0.75;

/// An iteration that lasts so many times the median of the last ones has no end as long as the longest pause: that was another kind of pause.
const PATIENCE: u32 = 4;

/// An iteration that has ended.
#[derive(Debug, Clone, Copy)]
struct Iteration {
    period: Duration,
    span: Duration,
    busy: Duration,
    bytes: u64,
}

/// The iteration that goes on.
#[derive(Debug, Clone, Copy)]
struct Current {
    begun: Instant,
    /// End of its last operation; the beginning of one that is in progress.
    last: Instant,
    busy: Duration,
    bytes: u64,
    /// The longest pause in it.
    pause: Duration,
}

/// Finds iterations in the operations of a member: those between two pauses that are long compared with others.
///
/// Call [`Self::begin`] when an operation begins while none is in progress, and [`Self::end`] when none is left.
#[derive(Debug)]
pub struct PatternMeter {
    current: Option<Current>,
    /// An operation is in progress.
    in_progress: bool,
    /// The longest recent pause.
    pause: Duration,
    /// Bytes sent when the last operation ended.
    bytes_sent: u64,
    iterations: u64,
    /// The last ones, the oldest first.
    kept: VecDeque<Iteration>,
}

impl Default for PatternMeter {
    fn default() -> Self {
        Self {
            current: None,
            in_progress: false,
            pause: Duration::ZERO,
            bytes_sent: 0,
            iterations: 0,
            kept: VecDeque::with_capacity(ITERATIONS_KEPT),
        }
    }
}

impl PatternMeter {
    /// An operation begins, and none was in progress.
    pub fn begin(&mut self, now: Instant) {
        if self.in_progress {
            return;
        }
        self.in_progress = true;
        let Some(current) = &mut self.current else {
            self.current = Some(Current::new(now));
            return;
        };
        let pause = now - current.last;
        let usual = median(self.kept.iter().map(|iteration| micros(iteration.period)).collect());
        let patience = usual.map(|usual| Duration::from_micros(usual) * PATIENCE);
        if patience.is_some_and(|patience| now - current.begun > patience) && !current.pause.is_zero() {
            self.pause = self.pause.min(current.pause);
        }
        if pause.is_zero() || pause < self.pause.mul_f64(PAUSE_SHARE) {
            current.pause = current.pause.max(pause);
            current.last = now;
            return;
        }
        let ended = Iteration {
            period: now - current.begun,
            span: current.last - current.begun,
            busy: current.busy,
            bytes: current.bytes,
        };
        // The first pause is not compared with any, and what precedes it is no iteration.
        if !self.pause.is_zero() {
            if self.kept.len() == ITERATIONS_KEPT {
                self.kept.pop_front();
            }
            self.kept.push_back(ended);
            self.iterations += 1;
        }
        self.pause = pause.max(self.pause.mul_f64(PAUSE_KEPT));
        *current = Current::new(now);
    }

    /// No operation is in progress any more; `bytes_sent` counts the bytes of all packets so far.
    pub fn end(&mut self, now: Instant, bytes_sent: u64) {
        let bytes = bytes_sent.saturating_sub(self.bytes_sent);
        self.bytes_sent = bytes_sent;
        let begun = std::mem::take(&mut self.in_progress);
        if let Some(current) = self.current.as_mut().filter(|_| begun) {
            current.busy += now - current.last;
            current.bytes += bytes;
            current.last = now;
        }
    }

    /// What was interrupted is no iteration: the member had no switch, and counts bytes from 0.
    pub fn interrupt(&mut self) {
        (self.current, self.in_progress, self.bytes_sent) = (None, false, 0);
    }

    /// The pattern, once an iteration has ended.
    pub fn pattern(&self, now: Instant) -> Option<CommunicationPattern> {
        let current = self.current?;
        let median = |value: fn(&Iteration) -> u64| median(self.kept.iter().map(value).collect());
        let period_us = median(|iteration| micros(iteration.period))?;
        let span_us = median(|iteration| micros(iteration.span))?.min(period_us);
        let compute = |iteration: &Iteration| micros(iteration.period - iteration.busy);
        let compute_us = median(compute)?;
        let deviations = self.kept.iter().map(|iteration| compute(iteration).abs_diff(compute_us));
        let deviation = self::median(deviations.collect())?.saturating_mul(1000) / period_us.max(1);
        let pattern = CommunicationPattern {
            iterations: self.iterations,
            period_us,
            span_us,
            busy_us: median(|iteration| micros(iteration.busy))?.min(span_us),
            compute_us,
            bytes: median(|iteration| iteration.bytes)?,
            deviation: u32::try_from(deviation).unwrap_or(u32::MAX),
            age_us: micros(now - current.begun),
        };
        pattern.is_possible().then_some(pattern)
    }
}

impl Current {
    const fn new(now: Instant) -> Self {
        Self { begun: now, last: now, busy: Duration::ZERO, bytes: 0, pause: Duration::ZERO }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The upper one of two medians.
fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A training, in milliseconds.
    struct Training {
        meter: PatternMeter,
        now: u64,
        sent: u64,
    }

    impl Training {
        fn new() -> Self {
            Self { meter: PatternMeter::default(), now: 1_000, sent: 0 }
        }

        fn at(&self) -> Instant {
            Instant::from_nanos(self.now * 1_000_000)
        }

        fn compute(&mut self, ms: u64) {
            self.now += ms;
        }

        fn operation(&mut self, ms: u64, bytes: u64) {
            self.meter.begin(self.at());
            self.now += ms;
            self.sent += bytes;
            self.meter.end(self.at(), self.sent);
        }

        fn pattern(&self) -> Option<CommunicationPattern> {
            self.meter.pattern(self.at())
        }
    }

    #[test]
    fn an_operation_an_iteration() {
        let mut training = Training::new();
        for iteration in 0..20 {
            training.operation(40, 1_000);
            training.compute(60);
            assert_eq!(training.pattern().is_some(), iteration > 1, "after {iteration}");
        }
        let pattern = training.pattern().unwrap();
        let expected = CommunicationPattern {
            iterations: 18,
            period_us: 100_000,
            span_us: 40_000,
            busy_us: 40_000,
            compute_us: 60_000,
            bytes: 1_000,
            deviation: 0,
            age_us: 100_000,
        };
        assert_eq!(pattern, expected);
        assert!((pattern.confidence() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn buckets_of_a_backward_pass_are_one_iteration() {
        let mut training = Training::new();
        for _ in 0..20 {
            for pause in [5, 12, 8, 70] {
                training.operation(10, 500);
                training.compute(pause);
            }
        }
        let pattern = training.pattern().unwrap();
        assert_eq!((pattern.period_us, pattern.span_us, pattern.busy_us), (135_000, 65_000, 40_000));
        assert_eq!((pattern.bytes, pattern.compute_us), (2_000, 95_000));
    }

    #[test]
    fn a_single_long_pause_is_forgotten() {
        let mut training = Training::new();
        for iteration in 0..60 {
            training.operation(40, 1_000);
            // A checkpoint.
            training.compute(if iteration == 20 { 5_000 } else { 60 });
        }
        let pattern = training.pattern().unwrap();
        assert_eq!((pattern.period_us, pattern.bytes), (100_000, 1_000));
        assert!(pattern.iterations > 20, "{pattern:?}");
    }

    #[test]
    fn another_pattern_is_learnt() {
        let mut training = Training::new();
        for (compute, iterations) in [(600, 20), (30, 60), (300, 20)] {
            for _ in 0..iterations {
                training.operation(40, 1_000);
                training.compute(compute);
            }
            let pattern = training.pattern().unwrap();
            assert_eq!(pattern.period_us, (compute + 40) * 1_000);
        }
    }

    #[test]
    fn irregular_operations_have_no_confidence() {
        let mut training = Training::new();
        for at in 0..200_u64 {
            training.operation(1 + at * 37 % 11, 100);
            training.compute(1 + at * at * 53 % 97);
        }
        assert!(
            training.pattern().is_none_or(|pattern| pattern.confidence() < 0.5),
            "{:?}",
            training.pattern()
        );
    }

    #[test]
    fn what_was_interrupted_is_no_iteration() {
        let mut training = Training::new();
        for _ in 0..10 {
            training.operation(40, 1_000);
            training.compute(60);
        }
        let before = training.pattern().unwrap();
        training.meter.interrupt();
        training.sent = 0;
        assert_eq!(training.pattern(), None, "nothing goes on");
        training.compute(3_000);
        training.operation(40, 1_000);
        let after = training.pattern().unwrap();
        assert_eq!(
            (after.period_us, after.bytes, after.iterations),
            (before.period_us, 1_000, before.iterations)
        );
        // Ends without a beginning change nothing.
        training.meter.end(training.at(), 5);
        assert_eq!(training.pattern().unwrap().bytes, 1_000);
    }
}
