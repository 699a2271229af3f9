//! What a member measures of the job's iterations, and when it is to begin the next one.

use serde::{Deserialize, Serialize};

/// Longest time in a pattern, in microseconds: a day.
const TIME_US_MAX: u64 = 86_400_000_000;

/// Most bytes: what a `f64` counts exactly.
const BYTES_MAX: u64 = 1 << 53;

/// Iterations after which a pattern has full confidence.
const ITERATIONS_FULL: u64 = 8;

/// The communication pattern of a job in one tree, as a member measures it: medians over the last iterations. Fields of later releases are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CommunicationPattern {
    /// Iterations that the member has counted since its admission.
    pub iterations: u64,
    /// From the beginning of an iteration's communication to that of the next, in microseconds.
    pub period_us: u64,
    /// From the beginning of an iteration's first operation to the end of its last one, in microseconds.
    pub span_us: u64,
    /// The part of this time in which an operation was in progress, in microseconds.
    pub busy_us: u64,
    /// Time of an iteration in which no operation is in progress, in microseconds: other jobs on the same links do not change it.
    pub compute_us: u64,
    /// Bytes that the member sends in an iteration, headers of UDP and below not counted.
    pub bytes: u64,
    /// Median deviation of the computing time from its median, in thousandths of the period.
    pub deviation: u32,
    /// Time since the communication of the newest iteration began, in microseconds, when this was sent.
    pub age_us: u64,
}

impl CommunicationPattern {
    /// Whether a member can have measured this.
    pub fn is_possible(&self) -> bool {
        let Self { iterations, period_us, span_us, busy_us, compute_us, bytes, age_us, .. } = *self;
        iterations > 0
            && (1..=TIME_US_MAX).contains(&period_us)
            && busy_us <= span_us
            && span_us <= period_us
            && compute_us <= TIME_US_MAX
            && (1..=BYTES_MAX).contains(&bytes)
            && age_us <= TIME_US_MAX
    }

    /// How far the pattern can be relied on, from 0 to 1: it grows with the iterations that were counted and falls with the deviation.
    pub fn confidence(&self) -> f64 {
        let counted = self.iterations.min(ITERATIONS_FULL) as f64 / ITERATIONS_FULL as f64;
        counted * (1.0 - 6.0 * f64::from(self.deviation) / 1e3).max(0.0)
    }

    /// The same, sent so many microseconds later.
    #[must_use]
    pub const fn delayed(mut self, by_us: u64) -> Self {
        self.age_us = self.age_us.saturating_add(by_us);
        self
    }
}

/// An order to begin no iteration within an interval: operations that are submitted in it, while none is in progress, begin at its end. All members of a
/// job receive the same interval, so the job's iteration is delayed once, however many of them carry the order out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hold {
    /// Beginning of the interval, in microseconds from receipt.
    pub after_us: u64,
    /// Its end.
    pub until_us: u64,
}

impl Hold {
    /// Longest time from receipt to the end of an interval that a member carries out, in microseconds.
    pub const UNTIL_US_MAX: u64 = 60_000_000;

    /// Whether it is an interval that a member carries out.
    pub const fn is_valid(&self) -> bool {
        self.after_us < self.until_us && self.until_us <= Self::UNTIL_US_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SessionEvent, SessionRequest};

    const PATTERN: CommunicationPattern = CommunicationPattern {
        iterations: 8,
        period_us: 200_000,
        span_us: 100_000,
        busy_us: 90_000,
        compute_us: 110_000,
        bytes: 1 << 20,
        deviation: 5,
        age_us: 30_000,
    };

    #[test]
    fn impossible_patterns_are_recognised() {
        assert!(PATTERN.is_possible());
        for wrong in [
            CommunicationPattern { iterations: 0, ..PATTERN },
            CommunicationPattern { period_us: 0, span_us: 0, busy_us: 0, ..PATTERN },
            CommunicationPattern { period_us: u64::MAX, ..PATTERN },
            CommunicationPattern { span_us: 200_001, ..PATTERN },
            CommunicationPattern { busy_us: 100_001, ..PATTERN },
            CommunicationPattern { compute_us: u64::MAX, ..PATTERN },
            CommunicationPattern { bytes: 0, ..PATTERN },
            CommunicationPattern { bytes: u64::MAX, ..PATTERN },
            CommunicationPattern { age_us: u64::MAX, ..PATTERN },
        ] {
            assert!(!wrong.is_possible(), "{wrong:?}");
        }
    }

    #[test]
    fn confidence_grows_with_iterations_and_falls_with_deviation() {
        assert!((PATTERN.confidence() - 0.97).abs() < 1e-9);
        assert!((CommunicationPattern { iterations: 4, ..PATTERN }.confidence() - 0.485).abs() < 1e-9);
        assert_eq!(CommunicationPattern { deviation: u32::MAX, ..PATTERN }.confidence(), 0.0);
        assert_eq!(PATTERN.delayed(5).age_us, 30_005);
    }

    #[test]
    fn messages_are_as_documented() {
        let request = SessionRequest::Pattern(PATTERN);
        let text = serde_json::to_string(&request).unwrap();
        let expected = r#"{"type":"pattern","iterations":8,"period_us":200000,"span_us":100000,"busy_us":90000,"compute_us":110000,"bytes":1048576,"deviation":5,"age_us":30000}"#;
        assert_eq!(text, expected);
        let later = text.replace(r#""bytes""#, r#""of_a_later_release":1,"bytes""#);
        assert_eq!(serde_json::from_str::<SessionRequest>(&later).unwrap(), request);
        let event = SessionEvent::Hold(Hold { after_us: 1, until_us: 2 });
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(text, r#"{"type":"hold","after_us":1,"until_us":2}"#);
        assert_eq!(serde_json::from_str::<SessionEvent>(&text).unwrap(), event);
    }

    #[test]
    fn holds_are_bounded() {
        assert!(Hold { after_us: 0, until_us: 1 }.is_valid());
        assert!(!Hold { after_us: 1, until_us: 1 }.is_valid());
        assert!(!Hold { after_us: 0, until_us: Hold::UNTIL_US_MAX + 1 }.is_valid());
    }
}
