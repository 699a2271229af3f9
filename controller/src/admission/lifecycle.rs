//! The life of a job after all its members have joined.

use super::{Coordinator, Named, Output, SessionId, SessionLoss, Stage};
use crate::driver::DriverError;
use crate::executor::{SwitchTask, TaskOutcome, TenantTask};
use crate::fleet::{HeldRanges, Placement, Shortage, TreeLoad, TreeRequest, Wanted};
use crate::jobs::{ActiveTree, EndReason, FormingTree, JobEvent, Presence, TreeName, TreePhase};
use crate::message::Refused;
use crate::policy::Sharing;
use crate::record::JobName;
use crate::ticket::TicketKey;
use crate::timers::Timer;
use netfold_control::{Multipath, Refusal, SessionEvent};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

impl Coordinator {
    /// The switch has carried out a task.
    pub fn handle_outcome(&mut self, now: Duration, outcome: TaskOutcome) {
        self.tick(now);
        self.tasks = self.tasks.saturating_sub(1);
        match outcome {
            TaskOutcome::Adopted { .. } => {}
            TaskOutcome::Prepared { job } => self.prepared(now, job),
            TaskOutcome::Installed { job, first_chunk } => self.installed(now, job, first_chunk),
            TaskOutcome::InstallFailed { job, switch, error, clean } => {
                self.install_failed(now, (job, switch), &error, clean);
            }
            TaskOutcome::Retired { job, rank, result } => self.retired(job, rank, result),
            TaskOutcome::Withdrawn { job, result: Ok(()) } => self.release(job),
            TaskOutcome::Withdrawn { job, result: Err(error) } => self.withdraw_failed(now, job, &error),
            TaskOutcome::SpilledCounted { job, spilled } => return self.spilled_counted(now, job, &spilled),
            TaskOutcome::Inspected { job, readings } => return self.inspected(job, readings),
        }
        self.place_waiting(now);
    }

    /// Gives a complete formation its place, or lets it wait for one that is about to be free, or refuses it.
    pub(super) fn place(&mut self, now: Duration, formation: u64) {
        let forming = &self.forming[&formation];
        let spec = forming.spec;
        let most = spec.slots.min(self.config.slots_max);
        let freeing = self.active.values().any(|job| job.is_over() || job.retiring > 0);
        let in_time = forming.short.is_none() || forming.deadline > now;
        let may_wait = freeing && in_time;
        let fewest = self.fewest_slots(spec.slots, spec.classes);
        let first = self.first_grant(&forming.name, forming.movable);
        let wanted = match self.within_quota(&forming.name.name.tenant, most, fewest, first.of_quota) {
            Ok(wanted) => wanted,
            // What the other job gives up is the tenant's at once, and at the switches when these have confirmed it.
            Err(_) if self.make_room_in_quota(formation, fewest) => return self.place(now, formation),
            Err(short) if in_time && self.may_make_room_soon(Some(formation)) => {
                return self.wait_for_place(now, formation, short);
            }
            Err(short) => return self.refuse_formation(formation, shortage(&short)),
        };
        let wanted = self.grantable(&forming.name, wanted).max(fewest);
        // While slots are about to be free, a small range would be a hasty choice.
        let least = if may_wait { wanted } else { fewest };
        let members = self.peers(forming);
        let siblings: Vec<_> = self.siblings(&forming.name).map(|job| job.placement.chosen.clone()).collect();
        let ticket_key = self.fleet.ticket_key();
        let demands = self.placement_demands();
        let own = self.demand_of_forming(forming).bits_per_second;
        let request = TreeRequest {
            members: &members,
            tree: forming.name.tree,
            slots: least,
            numerics: spec.mode.numerics(),
            siblings: &siblings,
            authenticated: spec.authenticated,
            udp_ports: spec.udp_ports,
            datagram_max: self.datagram_max(forming),
            load: demands.as_deref().map_or(TreeLoad::Trees, |links| TreeLoad::Demand { links, own }),
        };
        // Its part is one of those, too: jobs that closely follow others would get an eighth of the few slots that are free already.
        let leaving = if may_wait { self.leaving() } else { Vec::new() };
        let may_share = self.config.sharing == Sharing::BestEffort;
        let limits = Wanted { most: wanted, fewest, of_free: first.of_free, leaving: &leaving, may_share };
        match self.fleet.reserve(&request, limits, &ticket_key) {
            Ok((placement, ranges)) => {
                let tenant = self.forming[&formation].name.name.tenant.clone();
                let Err(kept) = self.check_reserves(&tenant, &placement) else {
                    return self.install(formation, Arc::new(placement), ranges, ticket_key);
                };
                self.fleet.release(&placement, ranges, &BTreeSet::new());
                // Moving jobs of others makes no room for it.
                if may_wait {
                    self.wait_for_place(now, formation, kept);
                } else {
                    self.refuse_formation(formation, shortage(&kept));
                }
            }
            Err(short) if may_wait => self.wait_for_place(now, formation, short),
            Err(short) if in_time && self.may_make_room_soon(None) => {
                self.wait_for_place(now, formation, short)
            }
            Err(short) if self.make_room(formation, wanted, fewest) => {
                self.wait_for_place(now, formation, short)
            }
            Err(short) => self.refuse_formation(formation, shortage(&short)),
        }
    }

    /// Slots at each switch of jobs that are over.
    fn leaving(&self) -> Vec<u32> {
        let mut leaving = vec![0; self.fleet.len()];
        for job in self.active.values().filter(|job| job.is_over()) {
            let slots = job.placement.job().slots;
            job.placement.switches.iter().for_each(|switch| leaving[*switch] += slots);
        }
        leaving
    }

    fn install(
        &mut self,
        formation: u64,
        placement: Arc<Placement>,
        ranges: HeldRanges,
        ticket_key: TicketKey,
    ) {
        let FormingTree { name, spec, members, movable, .. } =
            self.end_formation(formation).expect("the caller has it");
        let job = placement.job().job;
        for (&rank, id) in &members {
            let session = self.sessions.get_mut(id).expect("members have sessions");
            session.stage = Stage::Active { job, rank };
        }
        self.names.insert(name.clone(), Named::Active(job));
        let tokens = members.keys().map(|rank| ticket_key.path_token(*rank)).collect();
        let active = ActiveTree {
            name,
            spec,
            phase: TreePhase::Installing,
            placement: Arc::clone(&placement),
            ranges,
            wires: self.wires.take(&placement, &self.fleet, self.config.banding.link_bps),
            movable,
            since: self.now,
            first_chunk: None,
            ticket_key,
            unvalidated: members.keys().copied().collect(),
            band: None,
            members: members.into_iter().map(|(rank, id)| (rank, Presence::Here(id))).collect(),
            left: BTreeSet::new(),
            released: BTreeSet::new(),
            retiring: 0,
            traffic: crate::traffic::TreeTraffic::default(),
            patterns: crate::traffic::TreePatterns::default(),
            paths: crate::traffic::TreePaths::default(),
            stalls: crate::jobs::Stalls::default(),
            spilled: Vec::new(),
        };
        self.active.insert(job, active);
        self.persist_place(job);
        self.task(SwitchTask::Prepare { placement, tokens });
    }

    pub(super) fn peers(&self, forming: &FormingTree) -> Vec<SocketAddr> {
        let endpoint = |id| self.sessions[id].endpoint.expect("a session that has joined has an endpoint");
        forming.members.values().map(endpoint).collect()
    }

    /// Longest datagram that the paths of all members carry; 0 where one of them does not know. Trees of one job may have their places at
    /// different switches, so with several nothing is said.
    pub(super) fn datagram_max(&self, forming: &FormingTree) -> u32 {
        let of_members = forming.members.values().map(|id| self.sessions[id].datagram_max);
        if forming.spec.trees > 1 { 0 } else { of_members.min().unwrap_or(0) }
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

    pub(super) fn place_waiting(&mut self, now: Duration) {
        let waiting = |(&formation, job): (&u64, &FormingTree)| job.is_complete().then_some(formation);
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
            "{} of {} did not join within {:?}: start all {} workers with the same job name and switch",
            forming.missing(),
            forming.name.subject(),
            self.config.join_timeout,
            forming.spec.world
        );
        self.refuse_formation(formation, Refused::new(Refusal::PeersMissing, message));
    }

    pub(super) fn refuse_formation(&mut self, formation: u64, refused: Refused) {
        if let Some(job) = self.end_formation(formation) {
            self.refuse_members(job.name, job.members.into_values(), refused);
        }
    }

    /// Tells all members of a job that it will not begin.
    fn refuse_members(&mut self, name: TreeName, members: impl Iterator<Item = SessionId>, refused: Refused) {
        for id in members {
            self.send(id, refused.clone().into());
            self.dismiss(id);
        }
        let Refused { reason, message } = refused;
        self.remember_failure(&name, &message);
        let TreeName { name, group, .. } = name;
        self.log(JobEvent::NotStarted { name, group, reason, message });
    }

    pub(super) fn installed(&mut self, now: Duration, job: u16, first_chunk: u32) {
        let Some(active) = self.active.get_mut(&job) else { return };
        if active.phase != TreePhase::Installing {
            return self.withdraw(job, 0);
        }
        active.phase = TreePhase::Running;
        active.first_chunk = Some(first_chunk);
        let placement = Arc::clone(&active.placement);
        let (name, spec) = (active.name.clone(), active.spec);
        let ticket_key = active.ticket_key.clone();
        let members: Vec<(u16, SessionId)> =
            active.members.iter().filter_map(|(rank, presence)| Some((*rank, presence.session()?))).collect();
        self.persist_place(job);
        self.remember_start(&name, spec, placement.job().epoch);
        self.reband();
        let band = self.active.get(&job).and_then(|active| active.band);
        for (rank, id) in members {
            self.sessions.get_mut(&id).expect("members have sessions").last_received = now;
            let (at, _) = placement.plan.workers()[usize::from(rank)];
            let info = self.fleet.info(placement.switches[at]);
            let udp_port = info.data.map_or(info.limits.udp_port, |data| data.port());
            let mut admission = placement.plan.admission(rank, first_chunk, udp_port);
            admission.switch = info.data.map(|data| data.ip());
            admission.congestion = self.config.congestion;
            admission.multipath = (spec.udp_ports > 1).then(|| {
                let policy = self.config.multipath.map(|multipath| multipath.policy).unwrap_or_default();
                Multipath { udp_ports: spec.udp_ports, policy }
            });
            admission.band = band;
            admission.patterns = true;
            admission.path_reports = admission.multipath.is_some();
            admission.grace_ms = u32::try_from(self.config.grace.as_millis()).unwrap_or(u32::MAX);
            admission.ticket = (admission.grace_ms > 0).then(|| ticket_key.ticket(rank));
            self.outputs.push_back(Output::Send { session: id, event: SessionEvent::Admitted(admission) });
        }
        let TreeName { name, group, tree } = name;
        self.arm_growth_timer();
        self.log(JobEvent::Started { name, group, tree, spec, placement, first_chunk });
    }

    fn install_failed(&mut self, now: Duration, at: (u16, usize), error: &DriverError, clean: bool) {
        let (job, switch) = at;
        let which = match self.fleet.len() {
            1 => "the switch".into(),
            _ => format!("switch '{}'", self.fleet.info(switch).name),
        };
        let message = format!("{which} could not set up the job: {}; then try again", error.chain());
        self.abandon(job, Refused::new(Refusal::Busy, message));
        if clean {
            self.release(job);
        } else {
            self.withdraw_failed(now, job, error);
        }
    }

    /// Ends a job that is being set up, on this side: its members are refused and its name is free.
    pub(super) fn abandon(&mut self, job: u16, refused: Refused) {
        let Some(active) = self.active.get_mut(&job) else { return };
        let phase = active.phase;
        if !phase.is_starting() {
            return;
        }
        active.phase = TreePhase::Cancelled;
        let (name, members) = (active.name.clone(), std::mem::take(&mut active.members));
        self.names.remove(&name);
        self.persist_place(job);
        let members: Vec<SessionId> = members.values().filter_map(|presence| presence.session()).collect();
        self.refuse_members(name, members.into_iter(), refused);
        if phase != TreePhase::Installing {
            // No task is under way.
            self.withdraw(job, 0);
        }
    }

    /// A member is gone without a leave; its own session is closed already.
    pub(super) fn lose_member(&mut self, job: u16, rank: u16, loss: SessionLoss) {
        self.note_heard(job);
        let Some(active) = self.active.get_mut(&job) else { return };
        active.members.remove(&rank);
        if let Some(stall) = active.stalls.open.as_deref_mut().filter(|_| loss == SessionLoss::Closed) {
            stall.closed.insert(rank);
        }
        let message = format!("rank {rank} of {} {loss}", active.name.subject());
        match active.phase {
            TreePhase::Installing | TreePhase::Validating { .. } => {
                let message = format!("{message} while the job was being set up: start all workers again");
                self.abandon(job, Refused::new(Refusal::PeersMissing, message));
            }
            TreePhase::Running => self.end(job, EndReason::PeerLost { rank, message }),
            TreePhase::Cancelled | TreePhase::Closing { .. } => {}
        }
    }

    pub(super) fn leave(&mut self, id: SessionId, stage: Stage) {
        let Stage::Active { job, rank } = stage else { return self.end_session(id, SessionLoss::Left) };
        let active = self.active.get_mut(&job).expect("sessions name jobs that exist");
        if active.phase != TreePhase::Running {
            return self.end_session(id, SessionLoss::Left);
        }
        // Ranks that are linked leave to continue without the switch: what was known before says why.
        self.end_stall(
            job,
            &format!("rank {rank} left the job gracefully, as all do that continue without the switch"),
            &[],
        );
        let active = self.active.get_mut(&job).expect("looked up above");
        active.members.remove(&rank);
        active.left.insert(rank);
        let (TreeName { name, group, .. }, last) = (active.name.clone(), active.members.is_empty());
        if last {
            self.log(JobEvent::Left { name, group, rank });
            self.end(job, EndReason::Finished);
        } else {
            active.retiring += 1;
            for other in active.members.values().filter_map(|presence| presence.session()) {
                self.outputs
                    .push_back(Output::Send { session: other, event: SessionEvent::PeerLeft { rank } });
            }
            self.persist_place(job);
            self.log(JobEvent::Left { name, group, rank });
            self.task(SwitchTask::Retire { job, rank });
        }
        self.dismiss(id);
    }

    /// Ends a running job: notifies the remaining members, frees the name, withdraws the place. A job that is ended, or has lost a worker, takes
    /// its groups with it: workers that are linked continue without the switch after a loss, in the job as in its groups.
    pub(super) fn end(&mut self, job: u16, reason: EndReason) {
        let lost = match &reason {
            EndReason::PeerLost { rank, .. } => std::slice::from_ref(rank),
            _ => &[],
        };
        self.end_stall(job, &format!("the job ended: {reason}"), lost);
        let Some(active) = self.active.get_mut(&job) else { return };
        let (name, members) = (active.name.clone(), std::mem::take(&mut active.members));
        for id in members.values().filter_map(|presence| presence.session()) {
            match &reason {
                EndReason::PeerLost { rank, message } => {
                    let message = format!("{message}: {}", self.after_loss(&name));
                    self.send(id, SessionEvent::PeerLost { rank: *rank, message });
                }
                EndReason::Displaced { message } | EndReason::Moved { message } => {
                    self.send(id, SessionEvent::SwitchLost { message: message.clone() });
                }
                EndReason::Stopped { message } => {
                    self.send(id, Refused::new(Refusal::Ended, message.clone()).into());
                }
                EndReason::Shutdown => self.send(id, self.shutting_down().into()),
                EndReason::Finished => {}
            }
            self.dismiss(id);
        }
        self.names.remove(&name);
        let of_groups = match &reason {
            EndReason::PeerLost { message, .. } => {
                Some(EndReason::Displaced { message: format!("{message}: the job's groups end with it") })
            }
            EndReason::Stopped { .. } => Some(reason.clone()),
            _ => None,
        };
        if let Some(reason) = of_groups.filter(|_| name.group.is_empty()) {
            self.end_groups(&name.name, &reason);
        }
        self.remember_end(&name, &reason.to_string());
        let TreeName { name, group, .. } = name;
        self.log(JobEvent::Ended { name, group, job, reason });
        self.withdraw(job, 0);
        self.reband();
    }

    /// What members are to do that have lost another one.
    fn after_loss(&self, name: &TreeName) -> &'static str {
        match self.membership_of(&name.name) {
            Some(_) if name.group.is_empty() => "shrink the communicator on all ranks that remain",
            _ => "the job is over; start all workers again",
        }
    }

    /// Ends the groups of a job.
    fn end_groups(&mut self, name: &JobName, reason: &EndReason) {
        let groups = self.trees_with_groups(name).filter(|(tree, _)| !tree.group.is_empty());
        for group in groups.map(|(_, named)| named).collect::<Vec<_>>() {
            self.end_tree(group, reason.clone());
        }
    }

    /// Ends a tree because a command ends its job, or because its job has ended. Workers that have not begun do not join it again.
    pub(super) fn end_tree(&mut self, tree: Named, reason: EndReason) {
        let refused = || Refused::new(Refusal::Ended, reason.to_string());
        match tree {
            Named::Forming(formation) => self.refuse_formation(formation, refused()),
            Named::Active(job) => match self.active[&job].phase {
                TreePhase::Installing | TreePhase::Validating { .. } => self.abandon(job, refused()),
                TreePhase::Running => self.end(job, reason),
                TreePhase::Cancelled | TreePhase::Closing { .. } => {}
            },
        }
    }

    pub(super) fn shut_down_job(&mut self, job: u16) {
        match self.active[&job].phase {
            TreePhase::Installing | TreePhase::Validating { .. } => {
                self.abandon(job, self.shutting_down());
            }
            TreePhase::Running => self.end(job, EndReason::Shutdown),
            TreePhase::Cancelled | TreePhase::Closing { .. } => {}
        }
    }

    pub(super) fn withdraw(&mut self, job: u16, failures: u32) {
        if let Some(active) = self.active.get_mut(&job) {
            active.phase = TreePhase::Closing { failures };
            self.persist_place(job);
            self.task(SwitchTask::Withdraw { job });
        }
    }

    fn withdraw_failed(&mut self, now: Duration, job: u16, error: &DriverError) {
        let Some(active) = self.active.get_mut(&job) else { return };
        let failures = match active.phase {
            TreePhase::Closing { failures } => failures + 1,
            _ => 1,
        };
        active.phase = TreePhase::Closing { failures };
        self.timers.arm(now + self.config.retry * (1 << failures.min(7)) / 2, Timer::Withdraw(job));
        self.log(JobEvent::SwitchFailed { job, message: error.chain() });
    }

    pub(super) fn retry_withdraw(&mut self, job: u16) {
        if let Some(TreePhase::Closing { failures }) = self.active.get(&job).map(|active| active.phase) {
            self.withdraw(job, failures);
        }
    }

    /// The switches hold nothing of the job any more.
    fn release(&mut self, job: u16) {
        if let Some(active) = self.active.remove(&job) {
            self.wires.release(&active.wires);
            self.fleet.release(&active.placement, active.ranges, &active.released);
            self.persist_released(job);
        }
    }

    fn retired(&mut self, job: u16, rank: u16, result: Result<(), DriverError>) {
        let Some(active) = self.active.get_mut(&job) else { return };
        active.retiring -= 1;
        match result {
            Ok(()) => {
                active.released.insert(rank);
                self.fleet.release_member(&active.placement, rank);
            }
            // The withdrawal of the job takes care of it.
            Err(error) => self.log(JobEvent::SwitchFailed { job, message: error.chain() }),
        }
    }

    pub(super) fn task(&mut self, task: SwitchTask) {
        self.tasks += 1;
        let tenant = self.active.get(&task.job()).map_or("", |active| &active.name.name.tenant);
        self.outputs.push_back(Output::Task(TenantTask { tenant: tenant.into(), task }));
    }

    pub(super) fn log(&mut self, event: JobEvent) {
        self.outputs.push_back(Output::Log(event));
    }
}

/// The refusal that reports a shortage to the requester.
fn shortage(short: &Shortage) -> Refused {
    Refused::new(short.refusal(), short.to_string())
}
