//! Jobs that stall, for people: what members report of it, and what the slots of switches hold then. Nothing of it changes a decision.

use super::{Coordinator, Named, Stage};
use crate::executor::SwitchTask;
use crate::flight_record::{FlightRecord, MemberState, Reading, Stall, SwitchReading};
use crate::jobs::{ActiveTree, JobEvent, Presence, TreePhase};
use crate::record::JobName;
use crate::view::{STALLS_MAX, StallView};
use netfold_control::StallReport;
use std::sync::Arc;
use std::time::Duration;

/// Stalled trees whose slots are read at a time: if a switch fails with many jobs, these do not delay changes.
const INSPECTIONS_MAX: usize = 4;

/// Time from the first report of a stall until it is logged, at least.
const ANNOUNCE_AFTER: Duration = Duration::from_millis(600);

/// The same if members that are missing might still report: they do within two heartbeats if they wait, too.
const ANNOUNCE_UNREPORTED_AFTER: Duration = Duration::from_millis(1600);

/// The same if the slots are not read.
const ANNOUNCE_UNREAD_AFTER: Duration = Duration::from_secs(3);

/// Shortest time from the beginning of a stall's record to the next record of the same tree; doubles with each record, up to 2^6 times this.
const RECORD_INTERVAL: Duration = Duration::from_secs(10);

impl Coordinator {
    /// Takes a member's report.
    pub(super) fn note_stall(&mut self, stage: Stage, report: StallReport) {
        let now = self.now;
        let running = match stage {
            Stage::Active { job, rank } => self.active.get_mut(&job).map(|active| (active, rank)),
            Stage::Greeting | Stage::Forming { .. } | Stage::Enrolled { .. } | Stage::Entering { .. } => None,
        };
        let running = running.filter(|(active, _)| {
            active.phase == TreePhase::Running
                && report.is_possible(active.spec.classes, active.placement.job().slots)
        });
        let Some((active, rank)) = running else {
            self.stall_reports.ignored += 1;
            return;
        };
        if active.stalls.open.is_none() && now < active.stalls.pause_until {
            self.stall_reports.limited += 1;
            return;
        }
        let results = active.traffic.member(rank).unwrap_or_default().results_received;
        let (placement, classes) = (Arc::clone(&active.placement), active.spec.classes);
        let fleet = &self.fleet;
        let stall = active.stalls.open.get_or_insert_with(|| {
            let names = placement.switches.iter().map(|switch| fleet.info(*switch).name.clone()).collect();
            Box::new(Stall::new(now, (placement, names), classes, &report))
        });
        stall.add(now, rank, report, results);
        self.stall_reports.taken += 1;
        if let Stage::Active { job, .. } = stage {
            self.inspect(job);
        }
    }

    /// Has the slots of a stalled tree read, once, unless too many are being read.
    fn inspect(&mut self, job: u16) {
        let Some(active) = self.active.get_mut(&job) else { return };
        let Some(stall) = active.stalls.open.as_deref_mut() else { return };
        if stall.reading != Reading::Due || self.inspections >= INSPECTIONS_MAX {
            return;
        }
        stall.reading = Reading::UnderWay;
        self.inspections += 1;
        let task = SwitchTask::Inspect {
            placement: Arc::clone(&active.placement),
            class: stall.class_layout(),
            range: stall.range(),
            chunk: stall.oldest_reported(),
        };
        self.task(task);
    }

    /// The slots of a tree were read. It may have continued meanwhile, or ended.
    pub(super) fn inspected(&mut self, job: u16, readings: Vec<SwitchReading>) {
        self.inspections = self.inspections.saturating_sub(1);
        let open = self.active.get_mut(&job).and_then(|active| active.stalls.open.as_deref_mut());
        if let Some(stall) = open.filter(|stall| stall.reading == Reading::UnderWay) {
            stall.reading = Reading::Done(readings);
        }
    }

    /// At each heartbeat: which stalls are over, and which are to be read or logged.
    pub(super) fn watch_stalls(&mut self) {
        let stalled = self.active.iter().filter(|(_, active)| active.stalls.open.is_some());
        for job in stalled.map(|(job, _)| *job).collect::<Vec<_>>() {
            self.note_heard(job);
            if self.has_results(job) {
                self.end_stall(job, "", &[]);
                continue;
            }
            self.inspect(job);
            self.announce_stall(job, false);
        }
    }

    /// Records when members of a stalled tree were last heard: of those that will be lost it is not known then.
    pub(super) fn note_heard(&mut self, job: u16) {
        let Some(active) = self.active.get_mut(&job) else { return };
        let Some(stall) = active.stalls.open.as_deref_mut() else { return };
        for (rank, presence) in &active.members {
            let session = presence.session().and_then(|id| self.sessions.get(&id));
            if let Some((session, heard)) = session.zip(stall.heard.get_mut(usize::from(*rank))) {
                *heard = session.last_received;
            }
        }
    }

    /// Whether a member that has reported the stall has received results since.
    fn has_results(&self, job: u16) -> bool {
        let Some(active) = self.active.get(&job) else { return false };
        let Some(stall) = active.stalls.open.as_deref() else { return false };
        let counted = |rank: u16| active.traffic.member(rank).unwrap_or_default().results_received;
        stall.results.iter().any(|(rank, before)| counted(*rank) > *before)
    }

    /// Logs a stall once it is known what there is to know, or at once if it is over.
    fn announce_stall(&mut self, job: u16, at_once: bool) {
        let now = self.now;
        let Some(active) = self.active.get(&job) else { return };
        let Some(stall) = active.stalls.open.as_deref().filter(|stall| !stall.announced) else { return };
        let lasts = now.saturating_sub(stall.opened);
        let wait = match stall.reading {
            Reading::Done(_) => ANNOUNCE_AFTER,
            Reading::Due | Reading::UnderWay => ANNOUNCE_UNREAD_AFTER,
        };
        if lasts < wait && !at_once {
            return;
        }
        let record = self.record_of(active, stall, None, &[]);
        if lasts < ANNOUNCE_UNREPORTED_AFTER && record.may_be_completed() && !at_once {
            return;
        }
        let event = JobEvent::Stalled {
            name: active.name.name.clone(),
            group: active.name.group.clone(),
            tree: active.name.tree,
            lasts: stall.lasts(now),
            missing: record.chunks.into_iter().next().map(|chunk| (chunk.chunk, chunk.missing)),
            conclusion: record.conclusion,
        };
        if let Some(stall) = self.active.get_mut(&job).and_then(|active| active.stalls.open.as_deref_mut()) {
            stall.announced = true;
        }
        self.log(event);
    }

    /// A stall is over, if the tree has one: it continues, or it ends as `ended` says. Its record is kept; `lost` are ranks that are lost.
    pub(super) fn end_stall(&mut self, job: u16, ended: &str, lost: &[u16]) {
        if self.active.get(&job).is_none_or(|active| active.stalls.open.is_none()) {
            return;
        }
        let (now, continues) = (self.now, ended.is_empty());
        self.note_heard(job);
        if !continues {
            self.announce_stall(job, true);
        }
        let Some(active) = self.active.get(&job) else { return };
        let Some(stall) = active.stalls.open.as_deref() else { return };
        let lasted = stall.lasts(now);
        let message = if continues { "the job has results again" } else { ended };
        let record = self.record_of(active, stall, Some(message), lost);
        let (name, opened, announced) = (active.name.clone(), stall.opened, stall.announced);
        self.flight_records.insert(name.name.clone(), record);
        if let Some(active) = self.active.get_mut(&job) {
            let stalls = &mut active.stalls;
            stalls.open = None;
            stalls.pause_until = opened + RECORD_INTERVAL * (1 << stalls.count.min(6));
            stalls.count = stalls.count.saturating_add(1);
        }
        if continues && announced {
            let (name, group, tree) = (name.name, name.group, name.tree);
            self.log(JobEvent::Continued { name, group, tree, lasted });
        }
    }

    fn record_of(
        &self,
        active: &ActiveTree,
        stall: &Stall,
        ended: Option<&str>,
        lost: &[u16],
    ) -> FlightRecord {
        let state = |rank: u16| member_state(active, rank, lost);
        let place = (active.name.group.as_str(), active.name.tree);
        stall.record(self.now, ended, place, &state, &|at| self.unix_ms(at))
    }

    fn unix_ms(&self, at: Duration) -> u64 {
        let at = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        self.config.unix_s.saturating_mul(1000).saturating_add(at)
    }

    /// The last stalls of a job and its groups: those that last, then those that are over, the newest first.
    pub(super) fn stalls_view(&self, name: &JobName) -> Vec<StallView> {
        let open = self.trees_with_groups(name).filter_map(|(_, named)| match named {
            Named::Active(job) => self.active.get(&job),
            Named::Forming(_) => None,
        });
        let open = open.filter_map(|active| {
            let stall = active.stalls.open.as_deref()?;
            Some(StallView {
                group: active.name.group.clone(),
                tree: active.name.tree,
                began_ms: self.unix_ms(stall.began()),
                as_of_ms: self.unix_ms(self.now),
                ended: None,
                conclusion: stall.cause_known(self.now, &|rank| member_state(active, rank, &[])),
            })
        });
        let over = self.flight_records.of(name).map(|record| StallView {
            group: record.group.clone(),
            tree: record.tree,
            began_ms: record.began_ms,
            as_of_ms: record.as_of_ms,
            ended: record.ended.clone(),
            conclusion: record.conclusion.clone(),
        });
        open.chain(over).take(STALLS_MAX).collect()
    }

    /// What is known of a job's stalls and those of its groups, the newest first; nothing if there is no such job.
    pub fn explain(&mut self, now: Duration, name: &JobName) -> Option<Vec<FlightRecord>> {
        self.tick(now);
        let trees = self.trees_with_groups(name).filter_map(|(_, named)| match named {
            Named::Active(job) => Some(job),
            Named::Forming(_) => None,
        });
        let trees: Vec<u16> = trees.collect();
        trees.iter().for_each(|job| self.note_heard(*job));
        let open = trees
            .iter()
            .filter_map(|job| self.active.get(job))
            .filter_map(|active| Some(self.record_of(active, active.stalls.open.as_deref()?, None, &[])));
        let records: Vec<_> = open.chain(self.flight_records.of(name).cloned()).collect();
        (!records.is_empty() || self.view_job(name).is_some()).then_some(records)
    }
}

/// What is known of a member of a tree; `lost` are ranks that are lost.
fn member_state(active: &ActiveTree, rank: u16, lost: &[u16]) -> MemberState {
    match active.members.get(&rank) {
        _ if lost.contains(&rank) => MemberState::Lost,
        Some(Presence::Here(_)) => MemberState::Here,
        Some(Presence::Away(_)) => MemberState::Away,
        None if active.left.contains(&rank) => MemberState::Left,
        None => MemberState::Lost,
    }
}
