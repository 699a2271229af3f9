//! Deadlines of the state machine in order of time.

use std::collections::BTreeSet;
use std::time::Duration;

/// What a deadline is about. A deadline may outlive its object; the caller that takes it must check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// Heartbeats are due to every session.
    Heartbeat,
    /// A session may have been silent for too long.
    Lease(crate::jobs::SessionId),
    /// A job has been forming for too long.
    Forming(u64),
    /// Members of a job may not have validated their addresses in time.
    Path(u16),
    /// Spilled contributions of a job are to be counted.
    Spilled(u16),
    /// A withdrawal that failed is to be tried again.
    Withdraw(u16),
    /// Members of a job may have been away for too long.
    Away(u16),
    /// Members of a resizable job may have been away, or awaited, for too long.
    Membership(u64),
    /// A switch may have been down for too long.
    Switch(usize),
    /// Jobs may grow into free slots.
    Grow,
}

/// A queue of deadlines.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    queue: BTreeSet<(Duration, Timer)>,
}

impl Timers {
    pub(crate) fn arm(&mut self, at: Duration, timer: Timer) {
        self.queue.insert((at, timer));
    }

    pub(crate) fn disarm(&mut self, at: Duration, timer: Timer) {
        self.queue.remove(&(at, timer));
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Takes the earliest deadline that is not after `now`.
    pub(crate) fn pop(&mut self, now: Duration) -> Option<Timer> {
        if self.next_deadline()? > now {
            return None;
        }
        self.queue.pop_first().map(|(_, timer)| timer)
    }
}
