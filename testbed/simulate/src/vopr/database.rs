//! The controllers' database: the product's, on a simulated disk, with the election of a leader, as etcd has it.
//!
//! A change is made while its writer is the leader. When the disk is full or loses power, what is read afterwards is what was acknowledged, with or
//! without the one change that was under way, all of it or nothing.

use std::time::Duration;

use netfold_controller::record::{Change, Store, StoredRecords};
use netfold_server::Database as RecordFile;

use crate::disk::Disk;

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
#[derive(Debug)]
pub(super) struct Database {
    /// What is stored, as far as it was acknowledged or read back.
    pub(super) records: StoredRecords,
    disk: Disk,
    /// `None` while it cannot be opened.
    file: Option<RecordFile>,
    leader: Option<Leader>,
    revision: u64,
    /// Until when its disk is full.
    pub(super) full_until: Duration,
    /// Until when its host is without power.
    pub(super) off_until: Duration,
}

impl Database {
    pub(super) fn new(first: &[Change]) -> Self {
        let disk = Disk::default();
        let mut file = open(&disk).expect("an empty disk takes a database");
        file.apply(first).expect("an empty disk takes records");
        Self {
            records: file.load().expect("what was written can be read"),
            disk,
            file: Some(file),
            leader: None,
            revision: 0,
            full_until: Duration::ZERO,
            off_until: Duration::ZERO,
        }
    }

    /// Makes a controller the leader if there is none, and returns the term and the records.
    pub(super) fn contend(&mut self, now: Duration, controller: usize) -> Option<(u64, StoredRecords)> {
        if self.off_until > now || self.leader.is_some_and(|leader| leader.until > now) {
            return None;
        }
        self.disk.set_full(self.full_until > now);
        let records = self.read()?;
        self.revision += 1;
        self.leader = Some(Leader { controller, term: self.revision, until: now + LEASE });
        Some((self.revision, records))
    }

    /// What is stored; `None` while the database cannot be opened.
    fn read(&mut self) -> Option<StoredRecords> {
        if self.file.is_none() {
            self.file = open(&self.disk);
        }
        let records = self.file.as_mut()?.load().expect("an open database can be read");
        assert!(records == self.records, "the database holds other records than were acknowledged");
        Some(records)
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
        if !leads || self.off_until > now {
            return false;
        }
        self.disk.set_full(self.full_until > now);
        self.revision += 1;
        let made = self.file.as_mut().is_some_and(|file| file.apply(changes).is_ok());
        if made {
            changes.iter().cloned().for_each(|change| self.records.apply(change));
        } else {
            self.recover(changes, None);
        }
        made
    }

    /// Makes changes, and loses power meanwhile, in the course of the n-th sync or right after the last. `seed` decides what is left of what was
    /// not synced. The host is back at a time.
    pub(super) fn apply_without_power(
        &mut self,
        changes: &[Change],
        syncs: u32,
        back: Duration,
        seed: u64,
    ) -> bool {
        self.disk.lose_power_after(syncs);
        let made = self.file.as_mut().is_some_and(|file| file.apply(changes).is_ok());
        if made {
            changes.iter().cloned().for_each(|change| self.records.apply(change));
        }
        let under_way = if made { &[] } else { changes };
        self.recover(under_way, Some(seed));
        self.off_until = back;
        self.leader = None;
        made
    }

    /// Opens the database again after a failure in the course of a change, and compares.
    ///
    /// # Panics
    ///
    /// When it holds neither what was acknowledged nor that and the whole change.
    fn recover(&mut self, under_way: &[Change], power_lost: Option<u64>) {
        self.file = None;
        if let Some(seed) = power_lost {
            self.disk.restart(seed);
        }
        // Where the disk is full, the database may not even open; then the change is not there.
        let Some(mut file) = open(&self.disk) else { return };
        let found = file.load().expect("a database that opens can be read");
        self.file = Some(file);
        if found == self.records {
            return;
        }
        under_way.iter().cloned().for_each(|change| self.records.apply(change));
        assert!(found == self.records, "the database holds part of a change, or lost what was acknowledged");
    }

    /// The controller that leads.
    pub(super) fn leader(&self, now: Duration) -> Option<usize> {
        self.leader.filter(|leader| leader.until > now).map(|leader| leader.controller)
    }
}

fn open(disk: &Disk) -> Option<RecordFile> {
    RecordFile::over(disk.clone(), "simulated").ok()
}

/// When a leader that cannot renew its lease gives up, after the last renewal: before another can be elected.
pub(super) const GIVE_UP: Duration = LEASE.saturating_mul(3).checked_div(4).expect("4 is not 0");

/// Interval of renewals, and of a candidate's attempts.
pub(super) const RENEWAL: Duration = LEASE.checked_div(4).expect("4 is not 0");
