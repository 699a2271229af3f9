//! The membership of one resizable job: which ranks its generation has, and the decision on the next one.
//!
//! [`Membership`] is a state machine without I/O or clock. Its rules:
//!
//! - A member is lost when this control plane has seen its membership session end or be silent, and it did not resume in time. No message of another
//!   member makes it lost.
//! - The next generation has every member that is not lost, once all of these have asked for it, and the processes that were asked for. So one
//!   decision is made for each generation, by one machine, and it is durable before any member receives it.
//! - Survivors are numbered in the order of their former ranks, and processes that join after them, in the order in which they came.
//! - A member that has not received the decision, because its connection broke or the control plane restarted, receives the same one when it
//!   resumes with its former ticket. A rank that is not in the generation is refused as [`Refusal::Excluded`].

use crate::jobs::SessionId;
use crate::message::Refused;
use crate::record::{JobName, MembershipRecord};
use crate::ticket::TicketKey;
use netfold_control::{NotResized, RANKS_NAMED_MAX, Refusal, Resize, Resized, ResumeTicket};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

/// Most processes that may wait to join one job.
pub(crate) const JOINING_MAX: usize = 1024;

/// Whether a member of a generation is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connection {
    /// It has never been.
    Awaited,
    /// It is.
    Here(SessionId),
    /// It is not, and may resume until then.
    Away(Duration),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    connection: Connection,
    /// What it has asked for, if it waits for the reply.
    asked: Option<Resize>,
}

/// The membership of a job. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Membership {
    pub(crate) name: JobName,
    key: TicketKey,
    pub(crate) generation: u32,
    pub(crate) world: u16,
    /// Members of the generation that are not lost and have not left.
    members: BTreeMap<u16, Member>,
    pub(crate) lost: BTreeSet<u16>,
    left: BTreeSet<u16>,
    /// Processes that wait to join, in the order in which they came.
    joining: Vec<SessionId>,
    /// When those that have asked are told that the job stays as it is.
    deadline: Option<Duration>,
    /// Former ranks of the survivors, by their ranks in this generation.
    former: Vec<u16>,
    /// Former ranks that are not in this generation.
    excluded: Vec<u16>,
    meeting: Option<SocketAddr>,
}

/// What a resumed session receives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resumed {
    /// It continues in the generation, in place of another session, if there is one.
    Same { replaced: Option<SessionId> },
    /// It is in a generation that it has not received yet.
    Moved { replaced: Option<SessionId>, resized: Box<Resized> },
}

/// The outcome of a request.
#[derive(Debug, Default)]
pub(crate) struct Decision {
    /// Those that are in the next generation.
    pub(crate) resized: Vec<(SessionId, Resized)>,
    /// The sessions of the new generation, with their ranks.
    pub(crate) ranks: Vec<(SessionId, u16)>,
}

impl Membership {
    /// A job whose first rank enrolls.
    pub(crate) fn new(name: JobName, world: u16, key: TicketKey) -> Self {
        let awaited = || Member { connection: Connection::Awaited, asked: None };
        Self {
            name,
            key,
            generation: 1,
            world,
            members: (0..world).map(|rank| (rank, awaited())).collect(),
            lost: BTreeSet::new(),
            left: BTreeSet::new(),
            joining: Vec::new(),
            deadline: None,
            former: Vec::new(),
            excluded: Vec::new(),
            meeting: None,
        }
    }

    /// One that was stored: its members may resume until `until`.
    pub(crate) fn restore(record: MembershipRecord, until: Duration) -> Self {
        let MembershipRecord { name, key, generation, world, former, excluded, meeting } = record;
        let away = || Member { connection: Connection::Away(until), asked: None };
        let members = (0..world).map(|rank| (rank, away())).collect();
        Self { generation, members, former, excluded, meeting, ..Self::new(name, world, key) }
    }

    pub(crate) fn record(&self) -> MembershipRecord {
        MembershipRecord {
            name: self.name.clone(),
            key: self.key.clone(),
            generation: self.generation,
            world: self.world,
            former: self.former.clone(),
            excluded: self.excluded.clone(),
            meeting: self.meeting,
        }
    }

    /// Sessions of members and of processes that wait to join.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        let of_members = self.members.values().filter_map(|member| match member.connection {
            Connection::Here(id) => Some(id),
            Connection::Awaited | Connection::Away(_) => None,
        });
        of_members.chain(self.joining.iter().copied()).collect()
    }

    /// Members that are connected, members that have asked for the next generation, processes that wait to join.
    pub(crate) fn counts(&self) -> (u16, u16, u16) {
        let here = self.members.values().filter(|member| matches!(member.connection, Connection::Here(_)));
        let asked = self.members.values().filter(|member| member.asked.is_some());
        (here.count() as u16, asked.count() as u16, self.joining.len() as u16)
    }

    /// Whether no member is left, connected or awaited after a break.
    pub(crate) fn is_over(&self) -> bool {
        self.members.values().all(|member| member.connection == Connection::Awaited)
    }

    /// The ticket of a rank of this generation.
    pub(crate) fn ticket(&self, rank: u16) -> ResumeTicket {
        self.key.member_ticket(self.generation, rank)
    }

    /// A rank of the first generation enrolls.
    pub(crate) fn enroll(&mut self, id: SessionId, rank: u16, world: u16) -> Result<(), Refused> {
        let name = &self.name;
        let refuse = |reason, message: String| Err(Refused::new(reason, message));
        if self.generation > 1 || self.lost.contains(&rank) {
            return refuse(
                Refusal::JobRunning,
                format!(
                    "job '{name}' runs, in generation {}: join it as a new member, or wait for its end",
                    self.generation
                ),
            );
        }
        if world != self.world {
            return refuse(
                Refusal::WorldMismatch,
                format!(
                    "job '{name}' has {} workers and this one says {world}: give all the same world size",
                    self.world
                ),
            );
        }
        match self.members.get_mut(&rank) {
            Some(member) if member.connection == Connection::Awaited => {
                member.connection = Connection::Here(id);
                Ok(())
            }
            _ => refuse(
                Refusal::RankTaken,
                format!("another worker holds rank {rank} of job '{name}': give every worker its own rank"),
            ),
        }
    }

    /// A process waits to join.
    pub(crate) fn enter(&mut self, id: SessionId) -> Result<(), Refused> {
        if self.joining.len() >= JOINING_MAX {
            let message =
                format!("{JOINING_MAX} processes wait to join job '{}': try again later", self.name);
            return Err(Refused::new(Refusal::Busy, message));
        }
        self.joining.push(id);
        Ok(())
    }

    /// A rank of `generation` resumes its session.
    pub(crate) fn resume(
        &mut self,
        id: SessionId,
        (generation, rank): (u32, u16),
        ticket: &ResumeTicket,
    ) -> Result<(u16, Resumed), Refused> {
        if !self.key.verifies_member((generation, rank), ticket) {
            let message = "not the ticket that this rank has enrolled with: start all workers again";
            return Err(Refused::new(Refusal::Credentials, message));
        }
        let place = match self.generation.checked_sub(generation) {
            Some(0) => Some(rank),
            Some(1) => self.former.iter().position(|former| *former == rank).map(|place| place as u16),
            _ => None,
        };
        let excluded = || self.excluded_refusal(generation, rank);
        let place = place.filter(|place| self.members.contains_key(place)).ok_or_else(excluded)?;
        let member = self.members.get_mut(&place).expect("it was found above");
        let replaced = match std::mem::replace(&mut member.connection, Connection::Here(id)) {
            Connection::Here(old) => Some(old),
            Connection::Awaited | Connection::Away(_) => None,
        };
        if generation == self.generation {
            return Ok((place, Resumed::Same { replaced }));
        }
        Ok((place, Resumed::Moved { replaced, resized: Box::new(self.resized(place)) }))
    }

    fn excluded_refusal(&self, generation: u32, rank: u16) -> Refused {
        let message = format!(
            "rank {rank} of generation {generation} of job '{}' was lost, and the job continues without it: join it as a new member",
            self.name
        );
        Refused::new(Refusal::Excluded, message)
    }

    /// A member's connection has ended; it may resume until `away`, if that is given.
    pub(crate) fn disconnect(&mut self, rank: u16, away: Option<Duration>) {
        match (self.members.get_mut(&rank), away) {
            (Some(member), Some(until)) => member.connection = Connection::Away(until),
            (Some(_), None) => self.lose(rank),
            (None, _) => {}
        }
    }

    fn lose(&mut self, rank: u16) {
        self.members.remove(&rank);
        self.lost.insert(rank);
    }

    /// A member has left gracefully.
    pub(crate) fn leave(&mut self, rank: u16) {
        self.members.remove(&rank);
        self.left.insert(rank);
    }

    /// A process that waited to join is gone.
    pub(crate) fn withdraw(&mut self, id: SessionId) {
        self.joining.retain(|other| *other != id);
    }

    /// A member asks for the next generation.
    pub(crate) fn ask(&mut self, now: Duration, rank: u16, request: Resize) {
        let wait = Duration::from_millis(request.timeout_ms.into());
        self.deadline.get_or_insert(now + wait);
        if let Some(member) = self.members.get_mut(&rank) {
            member.asked = Some(request);
        }
    }

    /// When [`Self::expire`] is due next.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let away = self.members.values().filter_map(|member| match member.connection {
            // After a shutdown the next control plane waits for them.
            Connection::Away(until) => Some(until).filter(|until| *until < Duration::MAX),
            Connection::Awaited | Connection::Here(_) => None,
        });
        away.chain(self.deadline).min()
    }

    /// Members whose time to resume is over are lost; those lost now.
    pub(crate) fn expire(&mut self, now: Duration) -> Vec<u16> {
        let over = |(rank, member): (&u16, &Member)| match member.connection {
            Connection::Away(until) if until <= now => Some(*rank),
            _ => None,
        };
        let lost: Vec<u16> = self.members.iter().filter_map(over).collect();
        lost.iter().for_each(|rank| self.lose(*rank));
        lost
    }

    /// The next generation, if all that are needed have asked for it. `world_max`: the most ranks that there may be.
    pub(crate) fn decide(&mut self, world_max: usize) -> Option<Decision> {
        let mut requests = self.members.values().map(|member| member.asked.as_ref());
        let first = requests.next()??.joining;
        if !requests.all(|asked| asked.is_some_and(|asked| asked.joining == first)) {
            return None;
        }
        let joining = usize::from(first);
        if self.joining.len() < joining || self.members.len() + joining > world_max {
            return None;
        }
        // A member that has asked and is away has not received anything yet: it resumes, or is lost first.
        if self.members.values().any(|member| matches!(member.connection, Connection::Away(_))) {
            return None;
        }
        Some(self.advance(joining))
    }

    fn advance(&mut self, joining: usize) -> Decision {
        let survivors: Vec<(u16, Member)> = std::mem::take(&mut self.members).into_iter().collect();
        self.meeting = survivors.first().and_then(|(_, member)| member.asked.as_ref()?.meeting);
        self.excluded = self.lost.iter().chain(&self.left).copied().collect();
        self.excluded.sort_unstable();
        self.former = survivors.iter().map(|(rank, _)| *rank).collect();
        let joined: Vec<SessionId> = self.joining.drain(..joining).collect();
        self.world = (survivors.len() + joined.len()) as u16;
        self.generation += 1;
        self.deadline = None;
        (self.lost, self.left) = (BTreeSet::new(), BTreeSet::new());
        let of_joined = joined.into_iter().map(Connection::Here);
        let connections = survivors.into_iter().map(|(_, member)| member.connection).chain(of_joined);
        self.members = (0..).zip(connections.map(|connection| Member { connection, asked: None })).collect();
        let mut decision = Decision::default();
        for (rank, member) in &self.members {
            if let Connection::Here(id) = member.connection {
                decision.ranks.push((id, *rank));
                decision.resized.push((id, self.resized(*rank)));
            }
        }
        decision
    }

    fn resized(&self, rank: u16) -> Resized {
        Resized {
            generation: self.generation,
            rank,
            world: self.world,
            survivors: self.former.len() as u16,
            lost: self.excluded.iter().copied().take(RANKS_NAMED_MAX).collect(),
            meeting: self.meeting,
            ticket: Some(self.ticket(rank)),
        }
    }

    /// Ends a request whose time is over: whom to notify, and of what.
    pub(crate) fn give_up(&mut self, now: Duration, world_max: usize) -> Vec<(SessionId, NotResized)> {
        if self.deadline.is_none_or(|deadline| deadline > now) {
            return Vec::new();
        }
        self.deadline = None;
        let missing: Vec<u16> =
            self.members.iter().filter(|(_, member)| member.asked.is_none()).map(|(rank, _)| *rank).collect();
        let message = self.reason(&missing, world_max);
        let missing: Vec<u16> = missing.into_iter().take(RANKS_NAMED_MAX).collect();
        let mut notified = Vec::new();
        for member in self.members.values_mut() {
            let asked = member.asked.take();
            if let (Some(_), Connection::Here(id)) = (asked, member.connection) {
                notified.push((id, NotResized { missing: missing.clone(), message: message.clone() }));
            }
        }
        notified
    }

    fn reason(&self, missing: &[u16], world_max: usize) -> String {
        let name = &self.name;
        let mut wanted: BTreeSet<u16> = BTreeSet::new();
        wanted.extend(self.members.values().filter_map(|member| Some(member.asked.as_ref()?.joining)));
        let joining = wanted.last().copied().unwrap_or(0);
        if !missing.is_empty() {
            let shown: Vec<String> = missing.iter().take(8).map(u16::to_string).collect();
            format!(
                "ranks {} of job '{name}' are connected, or are awaited, and did not ask for another generation in time: have all \
                 ranks shrink or grow at the same point, or end those processes",
                shown.join(", ")
            )
        } else if wanted.len() > 1 {
            format!(
                "the members of job '{name}' ask for different numbers of new members: give the same number on all"
            )
        } else if self.members.len() + usize::from(joining) > world_max {
            format!(
                "job '{name}' would have more than {world_max} workers, the most that it may have: add fewer, or have the tenant's quota raised"
            )
        } else {
            format!(
                "{} of {joining} new members of job '{name}' came in time: start them, with its name",
                self.joining.len()
            )
        }
    }
}

#[cfg(test)]
mod tests;
