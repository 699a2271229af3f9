//! Members whose sessions break and resume on another connection.

use super::{Coordinator, SessionId, SessionLoss, Stage};
use crate::jobs::{EndReason, JobEvent, Presence, TreeName, TreePhase};
use crate::message::Refused;
use crate::timers::Timer;
use netfold_control::{Refusal, Resume, SessionEvent};
use std::time::Duration;

impl Coordinator {
    /// A member's session has ended without a leave.
    pub(super) fn lose_session(&mut self, job: u16, rank: u16, loss: SessionLoss) {
        let may_resume =
            !self.config.grace.is_zero() && matches!(loss, SessionLoss::Closed | SessionLoss::Slow);
        let Some(active) =
            self.active.get_mut(&job).filter(|active| may_resume && active.phase == TreePhase::Running)
        else {
            return self.lose_member(job, rank, loss);
        };
        let deadline = self.now + self.config.away;
        active.members.insert(rank, Presence::Away(deadline));
        let TreeName { name, group, .. } = active.name.clone();
        self.timers.arm(deadline, Timer::Away(job));
        self.log(JobEvent::Away { name, group, rank });
    }

    /// Members of a job may have been away for too long.
    pub(super) fn check_away(&mut self, now: Duration, job: u16) {
        let Some(active) = self.active.get(&job) else { return };
        let away = active.members.iter().filter_map(|(rank, presence)| match presence {
            Presence::Away(deadline) => Some((*deadline, *rank)),
            Presence::Here(_) => None,
        });
        match away.min() {
            Some((deadline, rank)) if deadline <= now => self.lose_member(job, rank, SessionLoss::Closed),
            // After a shutdown the next controller waits for them.
            Some((Duration::MAX, _)) | None => {}
            Some((deadline, _)) => self.timers.arm(deadline, Timer::Away(job)),
        }
    }

    /// A new session asks to resume an old one.
    pub(super) fn resume(&mut self, now: Duration, id: SessionId, resume: &Resume) {
        match self.try_resume(resume) {
            Ok(before) => self.attach(now, id, resume, before),
            Err(refused) if refused.reason == Refusal::Credentials => {
                self.limit_credentials(now, id, refused, "attempts to resume without the ticket of a member");
            }
            Err(refused) => self.refuse(id, refused),
        }
    }

    /// The member's state before.
    fn try_resume(&self, resume: &Resume) -> Result<Presence, Refused> {
        let Resume { version, job, epoch, rank, ref ticket } = *resume;
        if version != netfold_wire::VERSION {
            return Err(Refused::version(version.into()));
        }
        if self.config.grace.is_zero() {
            return Err(Refused::new(
                Refusal::Unknown,
                "this control port resumes no sessions, a session's end is that of its job: join again, all workers",
            ));
        }
        let over = || Refused::new(Refusal::Unknown, "this job is over: join again, all workers");
        let active = self.active.get(&job).ok_or_else(over)?;
        if active.phase != TreePhase::Running || active.placement.job().epoch != epoch {
            return Err(over());
        }
        if !active.ticket_key.verifies(rank, ticket) {
            let message = "not the ticket that this rank was admitted with: join again, all workers";
            return Err(Refused::new(Refusal::Credentials, message));
        }
        active.members.get(&rank).copied().ok_or_else(over)
    }

    fn attach(&mut self, now: Duration, id: SessionId, resume: &Resume, before: Presence) {
        let (job, rank) = (resume.job, resume.rank);
        // The old session is another connection of the same worker, which has given it up.
        if let Presence::Here(old) = before {
            self.dismiss(old);
        }
        let active = self.active.get_mut(&job).expect("it was found above");
        active.members.insert(rank, Presence::Here(id));
        let TreeName { name, group, .. } = active.name.clone();
        let udp_ports = active.spec.udp_ports;
        let (endpoint, left) = (active.placement.members[usize::from(rank)], active.left.clone());
        let session = self.sessions.get_mut(&id).expect("the session that resumes is open");
        session.stage = Stage::Active { job, rank };
        session.endpoint = Some(endpoint);
        session.udp_ports = udp_ports;
        session.last_received = now;
        self.endpoints.insert(endpoint, id);
        self.send(id, SessionEvent::Resumed {});
        for rank in left {
            self.send(id, SessionEvent::PeerLeft { rank });
        }
        self.log(JobEvent::Back { name, group, rank });
    }

    /// Ends a job none of whose workers has a session any more, in favour of new workers that join under its name.
    pub(super) fn replace_abandoned(&mut self, name: &TreeName) {
        let Some(super::Named::Active(job)) = self.names.get(name).copied() else { return };
        let active = &self.active[&job];
        // After a restart all members are away at first.
        if active.phase == TreePhase::Running
            && self.now > self.config.resume
            && active.members.values().all(|presence| presence.session().is_none())
        {
            let rank = active.members.keys().next().copied().unwrap_or(0);
            let message = format!("all workers of {} are gone, and others have come", name.subject());
            self.end(job, EndReason::PeerLost { rank, message });
        }
    }
}
