//! When to accept again after an error.

use std::io;
use std::time::Duration;

/// Errors of single connections in a row that are retried at once; a listener that yields nothing else is waited for.
const RETRIES_MAX: u32 = 16;

/// Exponential back-off of a listener whose `accept` fails.
///
/// The failure of one connection is retried at once. A shortage (EMFILE, ENFILE, ENOMEM, ENOBUFS) and any unknown error stay until
/// something else is closed, while the listener stays readable: without a delay its thread would spin.
#[derive(Debug, Clone, Default)]
pub struct AcceptBackoff {
    /// Failures since a connection was accepted.
    failures: u32,
    delay: Duration,
}

impl AcceptBackoff {
    /// The first delay.
    pub const DELAY_MIN: Duration = Duration::from_millis(5);

    /// The longest delay.
    pub const DELAY_MAX: Duration = Duration::from_secs(1);

    /// A connection was accepted.
    pub fn accepted(&mut self) {
        *self = Self::default();
    }

    /// Accepting failed: the time to wait before the next attempt, or `None` when only one connection failed.
    pub fn failed(&mut self, error: &io::Error) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        if is_of_one_connection(error) && self.failures < RETRIES_MAX {
            return None;
        }
        self.delay = (self.delay * 2).clamp(Self::DELAY_MIN, Self::DELAY_MAX);
        Some(self.delay)
    }
}

/// Errors that accept(2) passes on from a new connection's network, and interrupted calls.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionReset, HostUnreachable, Interrupted, NetworkDown, NetworkUnreachable,
        PermissionDenied,
    };
    matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionReset
            | HostUnreachable
            | Interrupted
            | NetworkDown
            | NetworkUnreachable
            | PermissionDenied
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EMFILE of Linux.
    fn shortage() -> io::Error {
        io::Error::from_raw_os_error(24)
    }

    #[test]
    fn a_shortage_is_waited_for_ever_longer() {
        let mut backoff = AcceptBackoff::default();
        let delays: Vec<u128> = (0..10).map(|_| backoff.failed(&shortage()).unwrap().as_millis()).collect();
        assert_eq!(delays, [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        backoff.accepted();
        assert_eq!(backoff.failed(&shortage()), Some(AcceptBackoff::DELAY_MIN));
    }

    #[test]
    fn the_failure_of_one_connection_is_retried_at_once_but_not_for_ever() {
        let mut backoff = AcceptBackoff::default();
        let aborted = io::Error::from(io::ErrorKind::ConnectionAborted);
        let delays: Vec<Option<Duration>> = (0..20).map(|_| backoff.failed(&aborted)).collect();
        assert!(delays[..15].iter().all(Option::is_none), "{delays:?}");
        assert!(delays[15..].iter().all(Option::is_some), "{delays:?}");
    }
}
