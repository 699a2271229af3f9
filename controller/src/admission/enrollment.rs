//! Membership sessions, and the generations of resizable jobs.

use super::join::check_name;
use super::{Coordinator, SessionId, SessionLoss, Stage};
use crate::jobs::{EndReason, JobEvent};
use crate::membership::{Membership, Resumed};
use crate::message::Refused;
use crate::record::{Change, JobName};
use crate::timers::Timer;
use crate::view::MembershipView;
use netfold_control::{Enroll, EnrollRole, Enrolled, RESIZE_TIMEOUT_MS_MAX, Refusal, Resize, SessionEvent};
use netfold_wire::{VERSION, WORLD_MAX};
use std::time::Duration;

impl Coordinator {
    /// Handles the request of a session to enroll.
    pub(super) fn enroll(&mut self, now: Duration, id: SessionId, enroll: &Enroll) {
        match self.try_enroll(id, enroll) {
            Ok(membership) => self.settle(membership),
            Err(refused) if refused.reason == Refusal::Credentials => {
                self.limit_credentials(now, id, refused, "enrolments without a tenant's token or a ticket");
            }
            Err(refused) => self.refuse(id, refused),
        }
    }

    fn try_enroll(&mut self, id: SessionId, enroll: &Enroll) -> Result<u64, Refused> {
        if enroll.version != VERSION {
            return Err(Refused::version(enroll.version.into()));
        }
        check_name(&enroll.job)?;
        let tenant = self.tenant_of(enroll.credentials.as_ref())?;
        let name = JobName { tenant, job: enroll.job.clone() };
        match &enroll.role {
            EnrollRole::First { rank, world } => self.enroll_first(id, name, (*rank, *world)),
            EnrollRole::New {} => self.enroll_new(id, &name),
            EnrollRole::Member { generation, rank, ticket } => {
                let membership = self.membership_named(&name)?;
                let place = self.memberships.get_mut(&membership).expect("it was found by its name");
                let (rank, resumed) = place.resume(id, (*generation, *rank), ticket)?;
                self.set_stage(id, Stage::Enrolled { membership, rank });
                let (Resumed::Same { replaced } | Resumed::Moved { replaced, .. }) = &resumed;
                // The old session is another connection of the same worker, which has given it up.
                if let Some(old) = replaced {
                    self.dismiss(*old);
                }
                match resumed {
                    Resumed::Same { .. } => self.send_enrolled(id, membership, rank),
                    Resumed::Moved { resized, .. } => self.send(id, SessionEvent::Resized(*resized)),
                }
                Ok(membership)
            }
        }
    }

    fn membership_named(&self, name: &JobName) -> Result<u64, Refused> {
        self.membership_of(name).map(|(number, _)| number).ok_or_else(|| {
            let message =
                format!("no resizable job '{name}' runs here: start its first workers, or correct the name");
            Refused::new(Refusal::Unknown, message)
        })
    }

    /// The membership of a job, and its number.
    pub(super) fn membership_of(&self, name: &JobName) -> Option<(u64, &Membership)> {
        let number = self.membership_numbers.get(name)?;
        Some((*number, self.memberships.get(number)?))
    }

    fn enroll_first(&mut self, id: SessionId, name: JobName, place: (u16, u16)) -> Result<u64, Refused> {
        let (rank, world) = place;
        if !(1..=WORLD_MAX).contains(&world) || rank >= world {
            let message = format!(
                "rank {rank} in a world of {world} workers: give a rank below the world size, at most {WORLD_MAX}"
            );
            return Err(Refused::new(Refusal::Argument, message));
        }
        let known = self.membership_numbers.get(&name).copied();
        let membership = match known {
            Some(membership) => membership,
            None => {
                self.check_quota(&name, world)?;
                let number = self.memberships_made;
                self.memberships_made += 1;
                let made = Membership::new(name.clone(), world, self.fleet.ticket_key());
                self.memberships.insert(number, made);
                self.membership_numbers.insert(name, number);
                number
            }
        };
        self.memberships.get_mut(&membership).expect("found or made above").enroll(id, rank, world)?;
        if known.is_none() {
            self.persist_membership(membership);
        }
        self.set_stage(id, Stage::Enrolled { membership, rank });
        self.send_enrolled(id, membership, rank);
        Ok(membership)
    }

    fn enroll_new(&mut self, id: SessionId, name: &JobName) -> Result<u64, Refused> {
        let membership = self.membership_named(name)?;
        self.memberships.get_mut(&membership).expect("it was found by its name").enter(id)?;
        self.set_stage(id, Stage::Entering { membership });
        let grace_ms = self.grace_ms();
        self.send(id, SessionEvent::Enrolled(Enrolled { generation: 0, grace_ms, ticket: None }));
        Ok(membership)
    }

    fn grace_ms(&self) -> u32 {
        u32::try_from(self.config.grace.as_millis()).unwrap_or(u32::MAX)
    }

    fn send_enrolled(&mut self, id: SessionId, membership: u64, rank: u16) {
        let place = &self.memberships[&membership];
        let grace_ms = self.grace_ms();
        let ticket = (grace_ms > 0).then(|| place.ticket(rank));
        let generation = place.generation;
        self.send(id, SessionEvent::Enrolled(Enrolled { generation, grace_ms, ticket }));
    }

    fn set_stage(&mut self, id: SessionId, stage: Stage) {
        let now = self.now;
        let session = self.sessions.get_mut(&id).expect("the session that enrolls is open");
        (session.stage, session.last_received) = (stage, now);
    }

    /// A member asks for the next generation.
    pub(super) fn resize(&mut self, now: Duration, id: SessionId, stage: Stage, request: Resize) {
        let Stage::Enrolled { membership, rank } = stage else {
            let message = "only a member of a resizable job asks for another generation: enroll first";
            return self.refuse(id, Refused::protocol(message));
        };
        if request.timeout_ms > RESIZE_TIMEOUT_MS_MAX {
            let message = format!(
                "a timeout of {} ms: give at most {RESIZE_TIMEOUT_MS_MAX} ms (a day)",
                request.timeout_ms
            );
            return self.refuse(id, Refused::new(Refusal::Argument, message));
        }
        let place = self.memberships.get_mut(&membership).expect("sessions name memberships that exist");
        // The reply to an earlier request is under way.
        if request.generation == place.generation {
            place.ask(now, rank, request);
            self.settle(membership);
        }
    }

    /// A membership session has ended, or its member leaves.
    pub(super) fn end_enrolled(&mut self, id: SessionId, stage: Stage, loss: SessionLoss) {
        let membership = match stage {
            Stage::Entering { membership } => {
                if let Some(place) = self.memberships.get_mut(&membership) {
                    place.withdraw(id);
                }
                membership
            }
            Stage::Enrolled { membership, rank } => {
                let may_resume =
                    !self.config.grace.is_zero() && matches!(loss, SessionLoss::Closed | SessionLoss::Slow);
                let away = if self.shut_down { Duration::MAX } else { self.now + self.config.away };
                if let Some(place) = self.memberships.get_mut(&membership) {
                    if loss == SessionLoss::Left {
                        place.leave(rank);
                    } else {
                        place.disconnect(rank, may_resume.then_some(away));
                    }
                    if place.lost.contains(&rank) {
                        self.log_lost(membership, &[rank]);
                    }
                }
                membership
            }
            Stage::Greeting | Stage::Forming { .. } | Stage::Active { .. } => return,
        };
        self.settle(membership);
    }

    fn log_lost(&mut self, membership: u64, ranks: &[u16]) {
        let place = &self.memberships[&membership];
        let (name, generation) = (place.name.clone(), place.generation);
        for rank in ranks.iter().copied() {
            self.log(JobEvent::MemberLost { name: name.clone(), generation, rank });
        }
    }

    /// A deadline of a membership may have passed.
    pub(super) fn check_membership(&mut self, now: Duration, membership: u64) {
        let Some(place) = self.memberships.get_mut(&membership) else { return };
        let lost = place.expire(now);
        self.log_lost(membership, &lost);
        self.settle(membership);
    }

    /// Decides on the next generation, if that is possible now, and forgets a job without members.
    pub(super) fn settle(&mut self, membership: u64) {
        let Some(name) = self.memberships.get(&membership).map(|place| place.name.clone()) else { return };
        let (now, world_max) = (self.now, self.workers_max(&name).min(usize::from(WORLD_MAX)));
        let place = self.memberships.get_mut(&membership).expect("it was found above");
        if place.is_over() {
            return self.forget_membership(membership);
        }
        if let Some(decision) = place.decide(world_max) {
            let (generation, world) = (place.generation, place.world);
            let lost: Vec<u16> =
                decision.resized.first().map_or_else(Vec::new, |(_, first)| first.lost.clone());
            self.persist_membership(membership);
            let message = format!("job '{name}' continues as generation {generation}, with {world} workers");
            let trees: Vec<_> = self.trees_with_groups(&name).map(|(_, named)| named).collect();
            trees.into_iter().for_each(|tree| {
                self.end_tree(tree, EndReason::Moved { message: message.clone() });
            });
            for (id, rank) in decision.ranks {
                self.set_stage(id, Stage::Enrolled { membership, rank });
            }
            self.log(JobEvent::Resized { name, generation, world, lost });
            for (id, mut resized) in decision.resized {
                resized.ticket = resized.ticket.filter(|_| !self.config.grace.is_zero());
                self.send(id, SessionEvent::Resized(resized));
            }
        } else {
            for (id, not_resized) in place.give_up(now, world_max) {
                self.send(id, SessionEvent::NotResized(not_resized));
            }
        }
        if let Some(deadline) = self.memberships[&membership].next_deadline() {
            self.timers.arm(deadline.max(now), Timer::Membership(membership));
        }
    }

    fn forget_membership(&mut self, membership: u64) {
        let Some(place) = self.memberships.remove(&membership) else { return };
        self.membership_numbers.remove(&place.name);
        let message = format!("job '{}' has no members any more: start its first workers", place.name);
        for id in place.sessions() {
            self.send(id, Refused::new(Refusal::Unknown, message.clone()).into());
            self.dismiss(id);
        }
        self.keep(Change::MembershipGone(place.name));
    }

    fn persist_membership(&mut self, membership: u64) {
        let record = self.memberships[&membership].record();
        self.keep(Change::Membership(Box::new(record)));
    }

    /// Takes up a membership that was stored.
    pub(super) fn restore_membership(&mut self, record: crate::record::MembershipRecord) {
        let number = self.memberships_made;
        self.memberships_made += 1;
        self.membership_numbers.insert(record.name.clone(), number);
        self.memberships.insert(number, Membership::restore(record, self.config.resume));
        self.timers.arm(self.config.resume, Timer::Membership(number));
    }

    /// Whether a worker may join a job with this generation: that of the job, if it is resizable.
    pub(super) fn check_generation(&self, name: &JobName, generation: u32) -> Result<(), Refused> {
        let Some((_, place)) = self.membership_of(name) else { return Ok(()) };
        if place.generation == generation {
            return Ok(());
        }
        let message = format!(
            "job '{name}' is resizable and at generation {}, and this worker at {generation}: it is not a member any more, or never was",
            place.generation
        );
        Err(Refused::new(Refusal::Excluded, message))
    }

    pub(super) fn view_membership(&self, name: &JobName) -> Option<MembershipView> {
        let (_, place) = self.membership_of(name)?;
        let (present, asked, joining) = place.counts();
        Some(MembershipView {
            generation: place.generation,
            world: place.world,
            present,
            lost: place.lost.iter().copied().collect(),
            asked,
            joining,
        })
    }
}
