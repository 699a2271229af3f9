//! The controllers' database: records and the election of a leader, as etcd has them.
//!
//! One copy that is always consistent: what fails is the way to it, its disk, and the controllers. A change is made while its writer is the
//! leader, all or none of it.

use std::time::Duration;

use netfold_controller::record::{Change, StoredRecords};

/// How long a leader's lease lasts.
const LEASE: Duration = Duration::from_secs(5);

/// Who leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Leader {
    controller: usize,
    term: u64,
    until: Duration,
}

/// Records, and the leader's key.
#[derive(Debug, Default)]
pub(super) struct Database {
    pub(super) records: StoredRecords,
    leader: Option<Leader>,
    revision: u64,
    /// Until when its disk is full.
    pub(super) full_until: Duration,
}

impl Database {
    pub(super) fn new(records: StoredRecords) -> Self {
        Self { records, ..Self::default() }
    }

    /// Makes a controller the leader if there is none, and returns the term.
    pub(super) fn contend(&mut self, now: Duration, controller: usize) -> Option<u64> {
        if self.leader.is_some_and(|leader| leader.until > now) {
            return None;
        }
        self.revision += 1;
        self.leader = Some(Leader { controller, term: self.revision, until: now + LEASE });
        Some(self.revision)
    }

    /// Renews a leader's lease; false when it is over.
    pub(super) fn renew(&mut self, now: Duration, term: u64) -> bool {
        match &mut self.leader {
            Some(leader) if leader.term == term && leader.until > now => {
                leader.until = now + LEASE;
                true
            }
            _ => false,
        }
    }

    /// Ends a term early.
    pub(super) fn revoke(&mut self, term: u64) {
        self.leader = self.leader.filter(|leader| leader.term != term);
    }

    /// Makes changes while the writer leads; whether they were made.
    pub(super) fn apply(&mut self, now: Duration, term: u64, changes: &[Change]) -> bool {
        let leads = self.leader.is_some_and(|leader| leader.term == term && leader.until > now);
        if !leads || self.full_until > now {
            return false;
        }
        self.revision += 1;
        changes.iter().cloned().for_each(|change| self.records.apply(change));
        true
    }

    /// The controller that leads.
    pub(super) fn leader(&self, now: Duration) -> Option<usize> {
        self.leader.filter(|leader| leader.until > now).map(|leader| leader.controller)
    }
}

/// When a leader that cannot renew its lease gives up, after the last renewal: before another can be elected.
pub(super) const GIVE_UP: Duration = LEASE.saturating_mul(3).checked_div(4).expect("4 is not 0");

/// Interval of renewals, and of a candidate's attempts.
pub(super) const RENEWAL: Duration = LEASE.checked_div(4).expect("4 is not 0");
