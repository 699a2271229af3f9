//! Ports that the control port has ordered, and when they are not relied on.

use core::time::Duration;

use netfold_control::PortSet;

/// How many times the median of the other ports the fastest ordered port takes at least when the order is suspended.
pub const OVERDUE_FACTOR: u32 = 8;
/// What it takes in addition to that.
pub const OVERDUE_FLOOR: Duration = Duration::from_millis(50);
/// How long it takes where nothing is known of other ports.
pub const OVERDUE_ALONE: Duration = Duration::from_millis(400);
/// Consecutive rounds of probes after which an order is suspended.
const OVERDUE_ROUNDS: u8 = 2;

/// The order in force, at first for all ports.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    pub(super) ports: PortSet,
    all: PortSet,
    /// Its ports were overdue: all are used.
    pub(super) suspended: bool,
    /// Consecutive rounds in which they were.
    overdue: u8,
}

impl Order {
    /// All of so many ports.
    pub(super) fn all(count: u8) -> Self {
        let all = PortSet::first(count);
        Self { ports: all, all, suspended: false, overdue: 0 }
    }

    /// The same worker's, of other ports.
    pub(super) fn replaced(self, ports: PortSet) -> Self {
        Self { ports, suspended: false, overdue: 0, ..self }
    }

    /// The ports that are used.
    pub(super) fn used(&self) -> PortSet {
        if self.suspended { self.all } else { self.ports }
    }

    /// Of the ports that are not used the next one after `port`, in turn; `None` if all are.
    pub(super) fn next_unused(&self, port: u8) -> Option<u8> {
        next(PortSet(self.all.0 & !self.used().0), port)
    }

    /// Of the ports that are used the next one above `port`.
    pub(super) fn next_used(&self, port: u8) -> Option<u8> {
        let used = self.used();
        (port + 1..64).find(|port| used.contains(*port))
    }

    /// The first port that is used.
    pub(super) fn first_used(&self) -> u8 {
        self.used().0.trailing_zeros() as u8
    }

    /// Ends a round of probes: the fastest of the ordered ports took `best`, the median of the others `others`. Whether the order is suspended
    /// now.
    pub(super) fn end_round(&mut self, best: Option<Duration>, others: Option<Duration>) -> bool {
        let limit = others.map_or(OVERDUE_ALONE, |others| others * OVERDUE_FACTOR + OVERDUE_FLOOR);
        if self.suspended || self.ports == self.all || best.is_none_or(|best| best <= limit) {
            self.overdue = 0;
            return false;
        }
        self.overdue += 1;
        self.suspended = self.overdue >= OVERDUE_ROUNDS;
        self.suspended
    }

    /// Resumes it.
    pub(super) fn resume(&mut self) {
        (self.suspended, self.overdue) = (false, 0);
    }

    /// Forgets what was overdue: nothing was sent for a while.
    pub(super) fn pause(&mut self) {
        self.overdue = 0;
    }
}

/// The first port of a set after `port`, or else the first one.
fn next(set: PortSet, port: u8) -> Option<u8> {
    let after = (port + 1..64).chain(0..=port.min(63));
    after.into_iter().find(|port| set.contains(*port))
}
