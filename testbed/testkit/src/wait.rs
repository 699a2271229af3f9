//! Waiting for a condition. The deadlines are hang guards: generous, because tests share the machine, and never what a test measures.

use std::fmt::{Debug, Display};
use std::thread;
use std::time::{Duration, Instant};

/// How long a condition may take before it is a failure: longer than any takes on a machine with ten busy threads for each core.
pub const HANG_TIMEOUT: Duration = Duration::from_secs(180);

/// The first pause between two evaluations of a condition.
pub const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The longest pause.
pub const POLL_INTERVAL_MAX: Duration = Duration::from_millis(25);

/// Sleeps for an eighth of what was waited since `start`, within limits: many conditions are evaluated by starting a process, and what takes
/// long would otherwise take a processor, too.
fn pause(start: Instant) {
    thread::sleep((start.elapsed() / 8).clamp(POLL_INTERVAL, POLL_INTERVAL_MAX));
}

/// Waits until a condition holds.
///
/// # Panics
///
/// When it does not within [`HANG_TIMEOUT`].
#[track_caller]
pub fn eventually(what: impl Display, mut condition: impl FnMut() -> bool) {
    poll(what, || condition().then_some(()));
}

/// Waits until `attempt` returns a value, and returns it.
///
/// # Panics
///
/// When it does not within [`HANG_TIMEOUT`].
#[track_caller]
pub fn poll<T>(what: impl Display, attempt: impl FnMut() -> Option<T>) -> T {
    poll_within(HANG_TIMEOUT, what, attempt)
}

/// Waits until `attempt` returns a value, and returns it.
///
/// # Panics
///
/// When it does not within `timeout`.
#[track_caller]
pub fn poll_within<T>(timeout: Duration, what: impl Display, mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(start.elapsed() < timeout, "not within {timeout:?}: {what}");
        pause(start);
    }
}

/// Waits until `attempt` succeeds, and returns its value.
///
/// # Panics
///
/// When it does not within [`HANG_TIMEOUT`]; shows what it returned last instead.
#[track_caller]
pub fn poll_state<T, E: Debug>(what: impl Display, mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(state) => {
                assert!(start.elapsed() < HANG_TIMEOUT, "not within {HANG_TIMEOUT:?}: {what}; {state:?}")
            }
        }
        pause(start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_evaluated_until_it_holds() {
        let mut calls = 0;
        eventually("third call", || {
            calls += 1;
            calls == 3
        });
        assert_eq!(poll("a value", || Some(calls)), 3);
    }

    #[test]
    #[should_panic(expected = "not within 0ns: nothing")]
    fn a_condition_that_never_holds_is_named() {
        poll_within(Duration::ZERO, "nothing", || None::<()>);
    }
}
