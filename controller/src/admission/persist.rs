//! State that is kept over a restart, and its recovery.

use super::{Coordinator, Named, Output};
use crate::driver::HeldEntity;
use crate::executor::SwitchTask;
use crate::jobs::{ActiveTree, JobEvent, Presence, TreeName, TreePhase};
use crate::record::{
    Change, JobName, JobRecord, JobSpec, JobState, PlaceRecord, StoredRecords, SwitchRecord,
};
use crate::timers::Timer;
use crate::tree::Installed;
use netfold_control::Refusal;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Coordinator {
    /// Restores what was kept: jobs that ran continue and wait for their workers; incomplete changes are undone.
    pub(super) fn restore(&mut self, kept: StoredRecords) {
        self.fleet.raise_epoch(kept.epoch_next);
        self.tenants = kept.tenants;
        self.jobs = kept.jobs;
        let over = |job: &&JobRecord| job.state == JobState::Ended && !job.declared;
        for job in self.jobs.values().filter(over) {
            self.over.insert(job.changed_s, job.name.clone());
        }
        for record in kept.switches.values() {
            if let Some(switch) = self.fleet.find(&record.name) {
                self.fleet.set_drained(switch, record.drained);
                self.boots.insert(switch, record.boot.clone());
            }
        }
        self.restore_links(kept.links_drained);
        for record in kept.places.into_values() {
            self.restore_place(record);
        }
        kept.memberships.into_values().for_each(|record| self.restore_membership(record));
        self.reband();
        for switch in 0..self.fleet.len() {
            if self.fleet.down(switch).is_some() {
                self.timers.arm(self.config.resume, Timer::Switch(switch));
            }
        }
    }

    fn restore_place(&mut self, record: PlaceRecord) {
        let number = record.number;
        let (job, group) = (record.name.clone(), record.group.clone());
        let name = TreeName { name: job, group, tree: record.tree };
        self.fleet.raise_epoch(record.epoch.saturating_add(1));
        let running = record.first_chunk.filter(|_| !record.over);
        let restored = running.and_then(|first_chunk| Some((first_chunk, self.fleet.restore(&record)?)));
        let Some((first_chunk, (placement, ranges))) = restored else {
            self.keep(Change::PlaceGone(number));
            if !record.over {
                let message = match running {
                    None => {
                        "the controller restarted while the job was being set up: start all workers again"
                    }
                    Some(_) => "the controller restarted with other switches: start all workers again",
                };
                self.remember_end(&name, message);
                let TreeName { name, group, .. } = name;
                let reason = Refusal::Unavailable;
                self.log(JobEvent::NotStarted { name, group, reason, message: message.into() });
            }
            return;
        };
        let placement = Arc::new(placement);
        let left: BTreeSet<u16> =
            record.left.iter().copied().filter(|rank| *rank < record.spec.world).collect();
        for rank in &left {
            self.fleet.release_member(&placement, *rank);
        }
        let awaited = (0..record.spec.world).filter(|rank| !left.contains(rank));
        let away = Presence::Away(self.config.resume);
        let active = ActiveTree {
            name,
            spec: record.spec,
            phase: TreePhase::Running,
            placement: Arc::clone(&placement),
            ranges,
            wires: self.wires.take(&placement, &self.fleet, self.config.banding.link_bps),
            movable: record.movable,
            since: self.now,
            first_chunk: Some(first_chunk),
            ticket_key: record.ticket_key,
            unvalidated: BTreeSet::new(),
            band: None,
            members: awaited.map(|rank| (rank, away)).collect(),
            released: left.clone(),
            left,
            retiring: 0,
            traffic: crate::traffic::TreeTraffic::default(),
            patterns: crate::traffic::TreePatterns::default(),
            paths: crate::traffic::TreePaths::default(),
            stalls: crate::jobs::Stalls::default(),
            spilled: Vec::new(),
        };
        self.names.insert(active.name.clone(), Named::Active(number));
        self.active.insert(number, active);
        self.timers.arm(self.config.resume, Timer::Away(number));
        self.task(SwitchTask::Adopt { placement, first_chunk, left: record.left });
        self.count_spilled(number);
    }

    /// What each switch of the fleet is to hold for the jobs that run, in the order in which it was done.
    pub fn holdings(&self) -> Vec<Vec<HeldEntity>> {
        let mut all = vec![Vec::new(); self.fleet.len()];
        for job in self.active.values().filter(|job| job.phase == TreePhase::Running) {
            let left: Vec<u16> = job.left.iter().copied().collect();
            let installed = Installed::assume(&job.placement.plan, job.first_chunk.unwrap_or(0), &left);
            for done in installed.held() {
                all[job.placement.switches[done.switch]].push(done.held.clone());
            }
        }
        all
    }

    /// Records a change, if jobs outlive this control plane.
    pub(super) fn keep(&mut self, change: Change) {
        if !self.config.grace.is_zero() {
            self.outputs.push_back(Output::Persist(change));
        }
    }

    /// Has a place kept as it is now.
    pub(super) fn persist_place(&mut self, job: u16) {
        if self.config.grace.is_zero() {
            return;
        }
        let Some(active) = self.active.get(&job) else { return };
        let names = active.placement.switches.iter().map(|switch| self.fleet.info(*switch).name.clone());
        let record = active.record(names.collect());
        if active.phase == TreePhase::Installing {
            self.keep(Change::EpochNext(self.fleet.epoch_next()));
        }
        self.keep(Change::Place(Box::new(record)));
    }

    /// Has a switch kept as it is now.
    pub(super) fn persist_switch(&mut self, switch: usize) {
        let name = self.fleet.info(switch).name.clone();
        let boot = self.boots.get(&switch).cloned().flatten();
        self.keep(Change::Switch(SwitchRecord { name, drained: self.fleet.is_drained(switch), boot }));
    }

    /// Which start of each switch was last known.
    pub fn boots(&self) -> Vec<Option<String>> {
        (0..self.fleet.len()).map(|switch| self.boots.get(&switch).cloned().flatten()).collect()
    }

    pub(super) fn persist_released(&mut self, job: u16) {
        self.keep(Change::PlaceGone(job));
    }

    /// Unix time, in seconds.
    pub(super) fn unix_s(&self) -> u64 {
        self.config.unix_s.saturating_add(self.now.as_secs())
    }

    /// A tree of a job has begun, or of a group; groups leave the job's specification as it is, if it has run.
    pub(super) fn remember_start(&mut self, name: &TreeName, spec: JobSpec, epoch: u32) {
        let own = name.group.is_empty();
        self.remember(&name.name, |job| {
            (job.state, job.last) = (JobState::Running, None);
            if own || job.spec.world == 0 {
                job.spec = spec;
            }
            job.epoch = job.epoch.max(epoch);
        });
    }

    /// A tree of a job is over, or of a group: the job is, if it was the last one.
    pub(super) fn remember_end(&mut self, name: &TreeName, why: &str) {
        let active = |(_, named): (&TreeName, Named)| matches!(named, Named::Active(_));
        let running = self.trees_with_groups(&name.name).any(active);
        if running && !name.group.is_empty() {
            return;
        }
        self.remember(&name.name, |job| {
            job.last = Some(why.to_owned());
            if !running {
                job.state = JobState::Ended;
            }
        });
    }

    /// A command ended a job before it began: it is remembered as one that ran.
    pub(super) fn remember_ended(&mut self, name: &JobName, spec: JobSpec, why: &str) {
        self.remember(name, |job| {
            (job.state, job.last) = (JobState::Ended, Some(why.to_owned()));
            if !job.declared {
                job.spec = spec;
            }
        });
    }

    /// A job ended before it began. One that was not known before is not remembered, and no group.
    pub(super) fn remember_failure(&mut self, name: &TreeName, why: &str) {
        if name.group.is_empty() && self.jobs.contains_key(&name.name) {
            self.remember(&name.name, |job| job.last = Some(why.to_owned()));
        }
    }

    fn remember(&mut self, name: &JobName, change: impl FnOnce(&mut JobRecord)) {
        if self.config.jobs_kept == 0 {
            return;
        }
        let now = self.unix_s();
        let mode = netfold_control::Mode::I32;
        let spec = JobSpec {
            world: 0,
            mode,
            slots: 1,
            classes: 1,
            trees: 1,
            authenticated: false,
            udp_ports: 1,
            iteration: None,
        };
        let job = self.jobs.entry(name.clone()).or_insert_with(|| JobRecord {
            name: name.clone(),
            spec,
            declared: false,
            state: JobState::Running,
            epoch: 0,
            changed_s: now,
            last: None,
        });
        self.over.remove(job.changed_s, name);
        change(job);
        job.changed_s = now;
        if job.state == JobState::Ended && !job.declared {
            self.over.insert(now, name.clone());
        }
        let record = job.clone();
        self.keep(Change::Job(record));
        while let Some(oldest) = self.over.pop_beyond(self.config.jobs_kept) {
            self.jobs.remove(&oldest);
            self.keep(Change::JobGone(oldest));
        }
    }
}
