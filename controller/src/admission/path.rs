//! Path validation: a job's packets are admitted when each member has shown that it receives packets at the address that it named
//! (docs/protocol.md, "Path validation").

use super::{Coordinator, Output, SessionId, Stage};
use crate::executor::SwitchTask;
use crate::jobs::TreePhase;
use crate::message::Refused;
use crate::timers::Timer;
use netfold_control::{PathChallenge, PathToken, Refusal, SessionEvent};
use std::sync::Arc;
use std::time::Duration;

/// Ranks that a refusal names.
const NAMED_MAX: usize = 8;

impl Coordinator {
    /// The switches of a tree challenge its members.
    pub(super) fn prepared(&mut self, now: Duration, job: u16) {
        let Some(active) = self.active.get_mut(&job) else { return };
        if active.phase != TreePhase::Installing {
            return self.withdraw(job, 0);
        }
        let deadline = now + self.config.path_timeout;
        active.phase = TreePhase::Validating { deadline };
        let placement = Arc::clone(&active.placement);
        for (rank, presence) in &active.members {
            let Some(session) = presence.session() else { continue };
            let (at, _) = placement.plan.workers()[usize::from(*rank)];
            let info = self.fleet.info(placement.switches[at]);
            let job = placement.job();
            let challenge = PathChallenge {
                job: job.job,
                epoch: job.epoch,
                key: job.key,
                udp_port: info.data.map_or(info.limits.udp_port, |data| data.port()),
                switch: info.data.map(|data| data.ip()),
                keys: placement.plan.worker_keys(*rank),
            };
            self.outputs.push_back(Output::Send { session, event: SessionEvent::Path(challenge) });
        }
        self.timers.arm(deadline, Timer::Path(job));
        // Before its packets are admitted: what earlier jobs have spilled is not its own.
        self.count_spilled(job);
    }

    /// A member has received a token.
    pub(super) fn validate_path(&mut self, id: SessionId, stage: Stage, token: PathToken) {
        let validating = match stage {
            Stage::Active { job, rank } => self.active.get_mut(&job).map(|active| (job, rank, active)),
            Stage::Greeting | Stage::Forming { .. } | Stage::Enrolled { .. } | Stage::Entering { .. } => None,
        };
        let Some((job, rank, active)) = validating else {
            return self.refuse(id, Refused::protocol("this worker has not been challenged: join first"));
        };
        if !matches!(active.phase, TreePhase::Validating { .. }) {
            // A repetition.
            return;
        }
        if active.ticket_key.path_token(rank) != token {
            let message = format!("rank {rank} sent another token than its switch: {REMEDY}");
            return self.refuse(id, Refused::new(Refusal::Path, message));
        }
        active.unvalidated.remove(&rank);
        if active.unvalidated.is_empty() {
            active.phase = TreePhase::Installing;
            self.task(SwitchTask::Install { job });
        }
    }

    /// Refuses a job whose members have not all validated their addresses in time.
    pub(super) fn check_paths(&mut self, job: u16) {
        let Some(active) = self.active.get(&job) else { return };
        // The timer of an earlier job of this number changes nothing.
        let TreePhase::Validating { deadline } = active.phase else { return };
        if deadline > self.now {
            return;
        }
        let unvalidated = active.unvalidated.iter();
        let named = unvalidated.take(NAMED_MAX).map(|rank| {
            let (at, _) = active.placement.plan.workers()[usize::from(*rank)];
            let switch = &self.fleet.info(active.placement.switches[at]).name;
            format!("rank {rank} at {} (switch '{switch}')", active.placement.members[usize::from(*rank)])
        });
        let named: Vec<String> = named.collect();
        let more = match active.unvalidated.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "no packet of the switch arrived within {:?} at {}{more}: {REMEDY}",
            self.config.path_timeout,
            named.join(", ")
        );
        self.abandon(job, Refused::new(Refusal::Path, message));
    }
}

/// What to do about an address that is not validated.
const REMEDY: &str = "check that UDP packets pass between the worker's address and the switch in both directions (address, route, firewall)";
