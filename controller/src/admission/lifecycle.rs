//! What becomes of a job whose members have all joined.

use super::{Coordinator, Loss, Named, SessionId, Stage};
use crate::driver::DriverError;
use crate::executor::{Outcome, Task, shift_for};
use crate::jobs::{Active, EndReason, Forming, JobEvent, Phase};
use crate::message::Refused;
use crate::pool::Shortage;
use crate::timers::Timer;
use netfold_wire::control::{Admission, Event, Numerics, Refusal};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

impl Coordinator {
    /// The switch has carried out a task.
    pub fn handle_outcome(&mut self, now: Duration, outcome: Outcome) {
        self.tasks = self.tasks.saturating_sub(1);
        match outcome {
            Outcome::Installed { job, first_chunk } => self.installed(now, job, first_chunk),
            Outcome::InstallFailed { job, error, clean } => self.install_failed(now, job, &error, clean),
            Outcome::Retired { job, rank, result } => self.retired(job, rank, result),
            Outcome::Withdrawn { job, result: Ok(()) } => self.release(job),
            Outcome::Withdrawn { job, result: Err(error) } => self.withdraw_failed(now, job, &error),
        }
        self.place_waiting(now);
    }

    /// Gives a complete formation its place, or lets it wait for one that is about to be free, or refuses it.
    pub(super) fn place(&mut self, now: Duration, formation: u64) {
        let forming = &self.forming[&formation];
        let wanted = forming.spec.slots.min(self.config.slots_max);
        let freeing = self.active.values().any(|job| job.is_over() || job.retiring > 0);
        let may_wait = freeing && (forming.short.is_none() || forming.deadline > now);
        // While slots are about to be free, a small range would be a hasty choice.
        let least = if may_wait { wanted } else { self.config.slots_min.min(wanted) };
        // Each class has a slot at least.
        let least = least.max(u32::from(forming.spec.classes)).min(wanted);
        match self.pool.reserve(wanted, least, &self.peers(forming)) {
            Ok((placement, range)) => {
                let forming = self.end_formation(formation).expect("looked up above");
                let job = placement.job;
                for (&rank, id) in &forming.members {
                    let session = self.sessions.get_mut(id).expect("members have sessions");
                    session.stage = Stage::Active { job, rank };
                }
                self.names.insert(forming.name.clone(), Named::Active(job));
                self.task(Task::Install(placement.clone()));
                let Forming { name, spec, members, .. } = forming;
                let phase = Phase::Installing;
                self.active.insert(job, Active { name, spec, phase, placement, range, members, retiring: 0 });
            }
            Err(short) if may_wait => self.wait_for_place(now, formation, short),
            Err(short) => self.refuse_formation(formation, shortage(short)),
        }
    }

    fn peers(&self, forming: &Forming) -> Vec<(u8, SocketAddr)> {
        let endpoint = |id| self.sessions[id].endpoint.expect("a session that has joined has an endpoint");
        // Ranks are below 32.
        forming.members.iter().map(|(&rank, id)| (rank as u8, endpoint(id))).collect()
    }

    fn wait_for_place(&mut self, now: Duration, formation: u64, short: Shortage) {
        let deadline = now + self.config.lease;
        let forming = self.forming.get_mut(&formation).expect("looked up by the caller");
        if forming.short.replace(short).is_none() && forming.deadline < deadline {
            self.timers.disarm(forming.deadline, Timer::Forming(formation));
            forming.deadline = deadline;
            self.timers.arm(deadline, Timer::Forming(formation));
        }
    }

    fn place_waiting(&mut self, now: Duration) {
        let waiting = |(&formation, job): (&u64, &Forming)| job.is_complete().then_some(formation);
        for formation in self.forming.iter().filter_map(waiting).collect::<Vec<_>>() {
            self.place(now, formation);
        }
    }

    pub(super) fn check_formation(&mut self, now: Duration, formation: u64) {
        let Some(forming) = self.forming.get(&formation) else { return };
        if forming.is_complete() {
            return self.place(now, formation);
        }
        let message = format!(
            "{} of job '{}' did not join within {:?}: start all {} workers with the same job name and switch",
            forming.missing(),
            forming.name,
            self.config.join_timeout,
            forming.spec.world
        );
        self.refuse_formation(formation, Refused::new(Refusal::PeersMissing, message));
    }

    pub(super) fn refuse_formation(&mut self, formation: u64, refused: Refused) {
        if let Some(job) = self.end_formation(formation) {
            self.refuse_members(job.name, job.members, refused);
        }
    }

    /// Tells all members of a job that it will not begin.
    fn refuse_members(&mut self, name: String, members: BTreeMap<u16, SessionId>, refused: Refused) {
        for (_, id) in members {
            self.send(id, refused.clone().into());
            self.dismiss(id);
        }
        let Refused { reason, message } = refused;
        self.log(JobEvent::NotStarted { name, reason, message });
    }

    fn installed(&mut self, now: Duration, job: u16, first_chunk: u32) {
        let Some(active) = self.active.get_mut(&job) else { return };
        if active.phase != Phase::Installing {
            return self.withdraw(job, 0);
        }
        active.phase = Phase::Running;
        let placement = active.placement.clone();
        let admission = Admission {
            job,
            epoch: placement.epoch,
            key: placement.key,
            slots: placement.slots,
            first_chunk,
            lane_words: self.pool.limits().lane_words,
            udp_port: self.pool.limits().udp_port,
            bitmap: u32::MAX >> (u32::BITS - u32::from(placement.world)),
            shift: if self.config.numerics == Numerics::Wide { shift_for(placement.world) } else { 0 },
            switch: None,
            grace_ms: 0,
        };
        for id in active.members.values() {
            self.sessions.get_mut(id).expect("members have sessions").heard = now;
            let event = Event::Admitted(admission.clone());
            self.outputs.push_back(super::Output::Send { session: *id, event });
        }
        let (name, spec) = (active.name.clone(), active.spec);
        self.log(JobEvent::Started { name, world: spec.world, mode: spec.mode, placement, first_chunk });
    }

    fn install_failed(&mut self, now: Duration, job: u16, error: &DriverError, clean: bool) {
        let message = format!("the switch could not set up the job: {}; then try again", error.chain());
        self.abandon(job, Refused::new(Refusal::Busy, message));
        if clean {
            self.release(job);
        } else {
            self.withdraw_failed(now, job, error);
        }
    }

    /// Ends a job that is being set up, on this side: its members are refused and its name is free.
    fn abandon(&mut self, job: u16, refused: Refused) {
        let Some(active) = self.active.get_mut(&job) else { return };
        if active.phase == Phase::Installing {
            active.phase = Phase::Doomed;
            let (name, members) = (active.name.clone(), std::mem::take(&mut active.members));
            self.names.remove(&name);
            self.refuse_members(name, members, refused);
        }
    }

    /// A member is gone without a leave; its own session is closed already.
    pub(super) fn lose_member(&mut self, job: u16, rank: u16, loss: Loss) {
        let Some(active) = self.active.get_mut(&job) else { return };
        active.members.remove(&rank);
        let message = format!("rank {rank} of job '{}' {loss}", active.name);
        match active.phase {
            Phase::Installing => {
                let message = format!("{message} while the job was being set up: start all workers again");
                self.abandon(job, Refused::new(Refusal::PeersMissing, message));
            }
            Phase::Running => self.end(job, EndReason::PeerLost { rank, message }),
            Phase::Doomed | Phase::Closing { .. } => {}
        }
    }

    pub(super) fn leave(&mut self, id: SessionId, stage: Stage) {
        let Stage::Active { job, rank } = stage else { return self.close(id, Loss::Left) };
        let active = self.active.get_mut(&job).expect("sessions name jobs that exist");
        if active.phase != Phase::Running {
            return self.close(id, Loss::Left);
        }
        active.members.remove(&rank);
        let (name, last) = (active.name.clone(), active.members.is_empty());
        if last {
            self.end(job, EndReason::Finished);
        } else {
            active.retiring += 1;
            for other in active.members.values() {
                self.outputs
                    .push_back(super::Output::Send { session: *other, event: Event::PeerLeft { rank } });
            }
            self.log(JobEvent::Left { name, rank });
            // Ranks are below 32.
            self.task(Task::Retire { job, rank: rank as u8 });
        }
        self.dismiss(id);
    }

    /// Ends a running job: members that are left are told, the name is free, the place is withdrawn.
    fn end(&mut self, job: u16, reason: EndReason) {
        let Some(active) = self.active.get_mut(&job) else { return };
        let (name, members) = (active.name.clone(), std::mem::take(&mut active.members));
        for (_, id) in members {
            match &reason {
                EndReason::PeerLost { rank, message } => {
                    let message = format!("{message}: the job is over; start all workers again");
                    self.send(id, Event::PeerLost { rank: *rank, message });
                }
                EndReason::Shutdown => self.send(id, super::shutting_down().into()),
                EndReason::Finished => {}
            }
            self.dismiss(id);
        }
        self.names.remove(&name);
        self.log(JobEvent::Ended { name, job, reason });
        self.withdraw(job, 0);
    }

    pub(super) fn shut_down_job(&mut self, job: u16) {
        match self.active[&job].phase {
            Phase::Installing => self.abandon(job, super::shutting_down()),
            Phase::Running => self.end(job, EndReason::Shutdown),
            Phase::Doomed | Phase::Closing { .. } => {}
        }
    }

    fn withdraw(&mut self, job: u16, failures: u32) {
        if let Some(active) = self.active.get_mut(&job) {
            active.phase = Phase::Closing { failures };
            self.task(Task::Withdraw { job });
        }
    }

    fn withdraw_failed(&mut self, now: Duration, job: u16, error: &DriverError) {
        let Some(active) = self.active.get_mut(&job) else { return };
        let failures = match active.phase {
            Phase::Closing { failures } => failures + 1,
            _ => 1,
        };
        active.phase = Phase::Closing { failures };
        self.timers.arm(now + self.config.retry * (1 << failures.min(7)) / 2, Timer::Withdraw(job));
        self.log(JobEvent::SwitchFailed { job, message: error.chain() });
    }

    pub(super) fn retry_withdraw(&mut self, job: u16) {
        if let Some(Phase::Closing { failures }) = self.active.get(&job).map(|active| active.phase) {
            self.withdraw(job, failures);
        }
    }

    /// The switch holds nothing of the job any more.
    fn release(&mut self, job: u16) {
        if let Some(active) = self.active.remove(&job) {
            self.pool.release(&active.placement, active.range);
        }
    }

    fn retired(&mut self, job: u16, rank: u8, result: Result<(), DriverError>) {
        let Some(active) = self.active.get_mut(&job) else { return };
        active.retiring -= 1;
        match result {
            Ok(()) => {
                let seats = &mut active.placement.seats;
                if let Some(index) = seats.iter().position(|seat| seat.rank == rank) {
                    self.pool.release_seat(&seats.remove(index));
                }
            }
            // The withdrawal of the job takes care of it.
            Err(error) => self.log(JobEvent::SwitchFailed { job, message: error.chain() }),
        }
    }

    fn task(&mut self, task: Task) {
        self.tasks += 1;
        self.outputs.push_back(super::Output::Task(task));
    }

    fn log(&mut self, event: JobEvent) {
        self.outputs.push_back(super::Output::Log(event));
    }
}

/// How a shortage is told to those who asked.
fn shortage(short: Shortage) -> Refused {
    let reason = match short {
        Shortage::Slots { .. } => Refusal::Slots,
        _ => Refusal::Busy,
    };
    Refused::new(reason, short.to_string())
}
