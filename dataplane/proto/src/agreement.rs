//! How linked ranks without a control port agree on the next generation of their job.
//!
//! [`Agreement`] is a state machine without I/O or clock, one for each process. It is single-decree Paxos among the members of a generation: a decision
//! needs a [quorum](is_quorum) of them, and two quorums have a member in common, so each generation is decided once, whatever calls are lost and whichever
//! members die. Members that are connected and ask are in the decision of a proposer; one that has been out of reach for [`OUT_OF_REACH`] is left out of it,
//! if a quorum accepts; one that is reached and does not ask is waited for.
//!
//! Requests and responses are those of remote calls: a call may have taken effect although its response is lost.

use core::time::Duration;
use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::Instant;

/// How long a member must be out of reach to be left out.
pub const OUT_OF_REACH: Duration = Duration::from_secs(3);

/// Between two calls of one member, where there are fewer than 16; longer by as much for each 16.
const CALL_INTERVAL: Duration = Duration::from_millis(20);

/// How long what a member has answered counts, beyond the intervals of calls.
const FRESH: Duration = Duration::from_secs(1);

/// How long a proposer waits for a quorum before it begins again.
const ROUND_TIMEOUT: Duration = Duration::from_secs(1);

/// Pause of rank 0 after a round without a decision; others' pauses are multiples.
const PAUSE: Duration = Duration::from_millis(40);

/// How long a process that waits to join is remembered after its last call.
const ENTERING_FRESH: Duration = Duration::from_secs(2);

/// Most processes that may wait to join.
const ENTERING_MAX: usize = 256;

/// The number of a proposal: higher ones take precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Ballot {
    /// Grows with each attempt.
    pub round: u32,
    /// The proposer.
    pub rank: u16,
}

/// A process that waits to join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entering {
    /// A random number, by which the process finds itself in a decision.
    pub id: u64,
    /// Where it answers calls.
    pub listens: SocketAddr,
}

/// One rank of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// Its rank in the former generation; `None` for a process that joins.
    pub former: Option<u16>,
    /// The process's number, of those that join.
    pub id: u64,
    /// Where it answers calls.
    pub listens: SocketAddr,
    /// Where it meets the others, should it be rank 0.
    pub meeting: Option<SocketAddr>,
}

/// The next generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Its number.
    pub generation: u32,
    /// Number of ranks of the former generation.
    pub former: u16,
    /// Its members, by rank.
    pub members: Vec<Chosen>,
}

impl Decision {
    /// Ranks of the former generation that are not in it.
    pub fn lost(&self) -> Vec<u16> {
        let survivors: BTreeSet<u16> = self.members.iter().filter_map(|member| member.former).collect();
        (0..self.former).filter(|rank| !survivors.contains(rank)).collect()
    }

    /// The rank in it of a former rank.
    fn place_of(&self, former: u16) -> Option<u16> {
        self.members.iter().position(|member| member.former == Some(former)).map(|place| place as u16)
    }

    /// The rank in it of a process that joins.
    pub fn place_of_entering(&self, id: u64) -> Option<u16> {
        let is = |member: &Chosen| member.former.is_none() && member.id == id;
        self.members.iter().position(is).map(|place| place as u16)
    }
}

/// What a member asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// How many processes are to join.
    pub joining: u16,
    /// Where the member meets the others, should it become rank 0.
    pub meeting: Option<SocketAddr>,
}

/// A call of another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgreementRequest {
    /// What the member asks for.
    Ask {
        /// The caller's generation.
        generation: u32,
    },
    /// Promise to accept no lower proposal.
    Prepare {
        /// The caller's generation.
        generation: u32,
        /// The proposal.
        ballot: Ballot,
    },
    /// Accept a proposal.
    Accept {
        /// The caller's generation.
        generation: u32,
        /// The proposal.
        ballot: Ballot,
        /// What it decides.
        decision: Decision,
    },
    /// A process waits to join.
    Enter(Entering),
}

impl AgreementRequest {
    /// The generation of a member's call, and the proposal.
    fn about(&self) -> Option<(u32, Option<Ballot>)> {
        match self {
            Self::Ask { generation } => Some((*generation, None)),
            Self::Prepare { generation, ballot } | Self::Accept { generation, ballot, .. } => {
                Some((*generation, Some(*ballot)))
            }
            Self::Enter(_) => None,
        }
    }
}

/// The response to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgreementResponse {
    /// To [`AgreementRequest::Ask`].
    State {
        /// What the member asks for, if it does.
        wanted: Option<Wanted>,
        /// Processes that wait to join, as far as this member knows.
        entering: Vec<Entering>,
    },
    /// To [`AgreementRequest::Prepare`].
    Promised {
        /// What the member has accepted before.
        accepted: Option<(Ballot, Decision)>,
    },
    /// To [`AgreementRequest::Accept`].
    Accepted,
    /// The member has promised this proposal, which is higher.
    Rejected {
        /// That proposal.
        promised: Ballot,
    },
    /// The caller's generation is over: this is the next one.
    Decided(Decision),
    /// The caller's generation has been over for longer.
    Excluded,
    /// The member does not know the caller's generation yet; or a process that enters is to wait.
    Wait,
}

/// The outcome of a request for the next generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgreementOutcome {
    /// This process is in the next generation, with this rank.
    Resized {
        /// Its rank.
        rank: u16,
        /// The generation.
        decision: Decision,
    },
    /// The job stays in its generation, as far as this member knows.
    NotResized {
        /// Members that were reached and did not ask.
        missing: Vec<u16>,
        /// Why.
        reason: NotAgreed,
    },
    /// The job continues without this process.
    Excluded,
}

/// Why there was no decision in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAgreed {
    /// Members that were reached did not ask.
    Missing,
    /// Too few members are within reach.
    NoQuorum,
    /// Members asked for different numbers of new members.
    Different,
    /// Too few processes came to join.
    Entering,
    /// The proposal was not decided in time.
    Undecided,
}

/// Whether these members, of `world`, decide: more than half, or half of them with rank 0. Two such sets have a member in common.
pub fn is_quorum(members: &BTreeSet<u16>, world: usize) -> bool {
    let twice = 2 * members.len();
    twice > world || (twice == world && members.contains(&0))
}

/// What is known of another member.
#[derive(Debug, Clone, Default)]
struct Peer {
    in_flight: bool,
    next_call: Instant,
    /// When it answered last what it asks for, and that.
    state: Option<(Instant, Option<Wanted>)>,
    /// Since when calls of it fail.
    failing_since: Option<Instant>,
}

#[derive(Debug, Clone)]
enum Phase {
    Idle,
    Preparing { promised: BTreeSet<u16>, best: Option<(Ballot, Decision)> },
    Accepting { accepted: BTreeSet<u16>, decision: Decision },
}

/// The agreement on generations, of one process. See the module's documentation.
#[derive(Debug, Clone)]
pub struct Agreement {
    generation: u32,
    rank: u16,
    members: Vec<Chosen>,
    peers: Vec<Peer>,
    /// What this member asks for, and until when.
    wanted: Option<(Wanted, Instant)>,
    promised: Ballot,
    accepted: Option<(Ballot, Decision)>,
    /// What led to this generation.
    decided: Option<Decision>,
    excluded: bool,
    /// What this member is not in, if it knows that.
    following: Option<Decision>,
    entering: Vec<(Entering, Instant)>,
    phase: Phase,
    ballot: Ballot,
    round_since: Instant,
    paused_until: Instant,
    outcome: Option<AgreementOutcome>,
}

impl Agreement {
    /// Rank `rank` of the first generation, whose members answer calls at these addresses.
    pub fn new(now: Instant, rank: u16, listens: &[SocketAddr]) -> Self {
        let chosen = |(rank, listens): (u16, &SocketAddr)| Chosen {
            former: Some(rank),
            id: 0,
            listens: *listens,
            meeting: None,
        };
        let members: Vec<Chosen> = (0..).zip(listens).map(chosen).collect();
        Self {
            generation: 1,
            rank,
            peers: vec![Peer::default(); members.len()],
            members,
            wanted: None,
            promised: Ballot::default(),
            accepted: None,
            decided: None,
            excluded: false,
            following: None,
            entering: Vec::new(),
            phase: Phase::Idle,
            ballot: Ballot::default(),
            round_since: now,
            paused_until: now,
            outcome: None,
        }
    }

    /// A process that has joined by a decision, in which it has this rank.
    pub fn entered(now: Instant, rank: u16, decision: Decision) -> Self {
        let mut this = Self::new(now, rank, &[]);
        this.begin(rank, decision);
        this
    }

    /// The generation that this process is in.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Where a member answers calls.
    pub fn address(&self, rank: u16) -> Option<SocketAddr> {
        self.members.get(usize::from(rank)).map(|member| member.listens)
    }

    /// Asks for the next generation, until `deadline`.
    pub fn resize(&mut self, now: Instant, wanted: Wanted, deadline: Instant) {
        self.outcome = self.excluded.then_some(AgreementOutcome::Excluded);
        self.wanted = Some((wanted, deadline));
        for peer in &mut self.peers {
            (peer.next_call, peer.state, peer.failing_since) = (now, None, None);
        }
    }

    /// Takes the outcome of the request.
    pub fn take_outcome(&mut self) -> Option<AgreementOutcome> {
        self.outcome.take()
    }

    /// When [`Self::poll_call`] is to be called next, at the latest.
    pub fn deadline(&self, now: Instant) -> Instant {
        now + CALL_INTERVAL
    }

    /// The next call of another member; its outcome goes to [`Self::handle_response`].
    pub fn poll_call(&mut self, now: Instant) -> Option<(u16, AgreementRequest)> {
        self.expire(now);
        self.propose(now);
        let (generation, ballot, pause) = (self.generation, self.ballot, self.call_interval());
        self.wanted?;
        let due = |(rank, peer): &(usize, &Peer)| {
            *rank != usize::from(self.rank) && !peer.in_flight && peer.next_call <= now
        };
        let rank = self.peers.iter().enumerate().find(due)?.0 as u16;
        let request = match &self.phase {
            Phase::Preparing { promised, .. } if !promised.contains(&rank) => {
                AgreementRequest::Prepare { generation, ballot }
            }
            Phase::Accepting { accepted, decision } if !accepted.contains(&rank) => {
                AgreementRequest::Accept { generation, ballot, decision: decision.clone() }
            }
            _ => AgreementRequest::Ask { generation },
        };
        let peer = &mut self.peers[usize::from(rank)];
        (peer.in_flight, peer.next_call) = (true, now + pause);
        Some((rank, request))
    }

    fn call_interval(&self) -> Duration {
        CALL_INTERVAL * (1 + self.members.len() as u32 / 16)
    }

    /// How long what a member has answered counts.
    fn fresh(&self) -> Duration {
        FRESH + 2 * self.call_interval()
    }

    /// The request is over without a decision when its time is.
    fn expire(&mut self, now: Instant) {
        let Some((wanted, deadline)) = self.wanted else { return };
        if deadline > now {
            return;
        }
        let reason = self.obstacle(now, wanted).unwrap_or(NotAgreed::Undecided);
        let reached = |peer: &Peer| matches!(peer.state, Some((at, None)) if now - at <= self.fresh());
        let missing = self.others().filter(|rank| reached(&self.peers[usize::from(*rank)])).collect();
        self.outcome = Some(AgreementOutcome::NotResized { missing, reason });
        self.wanted = None;
        self.phase = Phase::Idle;
    }

    fn others(&self) -> impl Iterator<Item = u16> + '_ {
        (0..self.peers.len() as u16).filter(|rank| *rank != self.rank)
    }

    /// Whether a member that was reached lately asks for the next generation, and for what.
    fn asks(&self, now: Instant, rank: u16) -> Option<Wanted> {
        if rank == self.rank {
            return self.wanted.map(|(wanted, _)| wanted);
        }
        self.peers[usize::from(rank)]
            .state
            .filter(|(at, _)| now - *at <= self.fresh())
            .and_then(|(_, wanted)| wanted)
    }

    /// Why this member cannot propose now.
    fn obstacle(&self, now: Instant, wanted: Wanted) -> Option<NotAgreed> {
        let mut asking = BTreeSet::from([self.rank]);
        for rank in self.others() {
            match self.asks(now, rank) {
                Some(theirs) if theirs.joining == wanted.joining => drop(asking.insert(rank)),
                Some(_) => return Some(NotAgreed::Different),
                None => {
                    let failing = self.peers[usize::from(rank)].failing_since;
                    if failing.is_none_or(|since| now - since < OUT_OF_REACH) {
                        return Some(NotAgreed::Missing);
                    }
                }
            }
        }
        if !is_quorum(&asking, self.members.len()) {
            return Some(NotAgreed::NoQuorum);
        }
        (self.entering_now(now).len() < usize::from(wanted.joining)).then_some(NotAgreed::Entering)
    }

    fn entering_now(&self, now: Instant) -> Vec<Entering> {
        let fresh = self.entering.iter().filter(|(_, heard)| now - *heard <= ENTERING_FRESH);
        let mut entering: Vec<Entering> = fresh.map(|(entering, _)| *entering).collect();
        entering.sort_unstable();
        entering
    }

    /// Begins a proposal, if it is this member's turn.
    fn propose(&mut self, now: Instant) {
        let Some((wanted, _)) = self.wanted else { return };
        if !matches!(self.phase, Phase::Idle) {
            if now - self.round_since >= ROUND_TIMEOUT {
                self.retreat(now, self.promised);
            }
            return;
        }
        let is_first = self.others().all(|rank| rank > self.rank || self.asks(now, rank).is_none());
        if now < self.paused_until || !is_first || self.obstacle(now, wanted).is_some() {
            return;
        }
        let round = self.ballot.round.max(self.promised.round).saturating_add(1);
        self.ballot = Ballot { round, rank: self.rank };
        self.round_since = now;
        self.promised = self.ballot;
        let promised = BTreeSet::from([self.rank]);
        self.phase = Phase::Preparing { promised, best: self.accepted.clone() };
        self.call_all(now);
        self.advance(now);
    }

    fn call_all(&mut self, now: Instant) {
        self.peers.iter_mut().for_each(|peer| peer.next_call = now);
    }

    /// Gives a proposal up, and pauses.
    fn retreat(&mut self, now: Instant, higher: Ballot) {
        self.ballot.round = self.ballot.round.max(higher.round);
        self.phase = Phase::Idle;
        self.paused_until = now + PAUSE * (u32::from(self.rank) + 1);
    }

    /// Goes on with a proposal that a quorum has promised or accepted.
    fn advance(&mut self, now: Instant) {
        let world = self.members.len();
        if let Phase::Preparing { promised, best } = &self.phase
            && is_quorum(promised, world)
        {
            let own = || self.own_proposal(now);
            let Some(decision) = best.clone().map(|(_, decision)| decision).or_else(own) else {
                return self.retreat(now, self.promised);
            };
            if self.promised > self.ballot {
                return self.retreat(now, self.promised);
            }
            self.accepted = Some((self.ballot, decision.clone()));
            self.phase = Phase::Accepting { accepted: BTreeSet::from([self.rank]), decision };
            self.call_all(now);
        }
        if let Phase::Accepting { accepted, decision } = &self.phase
            && is_quorum(accepted, world)
        {
            let decision = decision.clone();
            self.learn(decision);
        }
    }

    /// All members that ask, and the processes that are to join.
    fn own_proposal(&self, now: Instant) -> Option<Decision> {
        let (wanted, _) = self.wanted?;
        let mut members = Vec::new();
        for rank in 0..self.members.len() as u16 {
            if let Some(Wanted { meeting, .. }) = self.asks(now, rank) {
                members.push(Chosen { former: Some(rank), meeting, ..self.members[usize::from(rank)] });
            }
        }
        let entering = self.entering_now(now);
        let joining = entering.get(..usize::from(wanted.joining))?;
        members.extend(joining.iter().map(|Entering { id, listens }| Chosen {
            former: None,
            id: *id,
            listens: *listens,
            meeting: None,
        }));
        Some(Decision { generation: self.generation + 1, former: self.members.len() as u16, members })
    }

    /// The call `request` of a member was answered; `None` if it failed.
    pub fn handle_response(
        &mut self,
        now: Instant,
        (rank, request): (u16, &AgreementRequest),
        response: Option<AgreementResponse>,
    ) {
        // Of a generation that this member has left: ranks have other numbers now.
        let Some((_, ballot)) = request.about().filter(|(about, _)| *about == self.generation) else {
            return;
        };
        let current = ballot == Some(self.ballot);
        let Some(peer) = self.peers.get_mut(usize::from(rank)) else { return };
        peer.in_flight = false;
        let Some(response) = response else {
            peer.failing_since.get_or_insert(now);
            peer.state = None;
            return;
        };
        peer.failing_since = None;
        match response {
            AgreementResponse::State { wanted, entering } => {
                peer.state = Some((now, wanted));
                entering.into_iter().for_each(|entering| self.note_entering(now, entering));
            }
            AgreementResponse::Promised { accepted } => {
                if let Phase::Preparing { promised, best } = &mut self.phase
                    && current
                {
                    promised.insert(rank);
                    if accepted.as_ref().map(|(ballot, _)| *ballot) > best.as_ref().map(|(ballot, _)| *ballot)
                    {
                        *best = accepted;
                    }
                    self.advance(now);
                }
            }
            AgreementResponse::Accepted => {
                if let Phase::Accepting { accepted, .. } = &mut self.phase
                    && current
                {
                    accepted.insert(rank);
                    self.advance(now);
                }
            }
            AgreementResponse::Rejected { promised } => {
                if current && !matches!(self.phase, Phase::Idle) && promised > self.ballot {
                    self.retreat(now, promised);
                }
            }
            AgreementResponse::Decided(decision) => self.learn(decision),
            AgreementResponse::Excluded => self.exclude(),
            AgreementResponse::Wait => {}
        }
    }

    fn exclude(&mut self) {
        self.excluded = true;
        (self.wanted, self.phase) = (None, Phase::Idle);
        self.outcome = Some(AgreementOutcome::Excluded);
    }

    /// The next generation is decided.
    fn learn(&mut self, decision: Decision) {
        if decision.generation != self.generation + 1 {
            return;
        }
        match decision.place_of(self.rank) {
            None => {
                self.following = Some(decision);
                self.exclude();
            }
            Some(rank) => {
                self.outcome = Some(AgreementOutcome::Resized { rank, decision: decision.clone() });
                self.begin(rank, decision);
            }
        }
    }

    fn begin(&mut self, rank: u16, decision: Decision) {
        (self.generation, self.rank) = (decision.generation, rank);
        self.members.clone_from(&decision.members);
        self.peers = vec![Peer::default(); self.members.len()];
        (self.wanted, self.phase) = (None, Phase::Idle);
        (self.promised, self.ballot, self.accepted) = (Ballot::default(), Ballot::default(), None);
        self.entering.retain(|(entering, _)| decision.place_of_entering(entering.id).is_none());
        self.decided = Some(decision);
    }

    fn note_entering(&mut self, now: Instant, entering: Entering) {
        if self.decided.as_ref().is_some_and(|decided| decided.place_of_entering(entering.id).is_some()) {
            return;
        }
        self.entering.retain(|(other, heard)| other.id != entering.id && now - *heard <= ENTERING_FRESH);
        if self.entering.len() < ENTERING_MAX {
            self.entering.push((entering, now));
        }
    }

    /// A call of another process. The caller passes that it comes from one of the job.
    pub fn handle_request(&mut self, now: Instant, request: AgreementRequest) -> AgreementResponse {
        let generation = match &request {
            AgreementRequest::Enter(entering) => return self.handle_enter(now, *entering),
            AgreementRequest::Ask { generation }
            | AgreementRequest::Prepare { generation, .. }
            | AgreementRequest::Accept { generation, .. } => *generation,
        };
        if generation > self.generation {
            return AgreementResponse::Wait;
        }
        if generation == self.generation && self.excluded {
            return self.following.clone().map_or(AgreementResponse::Excluded, AgreementResponse::Decided);
        }
        if generation + 1 == self.generation {
            return self.decided.clone().map_or(AgreementResponse::Excluded, AgreementResponse::Decided);
        }
        if generation < self.generation {
            return AgreementResponse::Excluded;
        }
        match request {
            AgreementRequest::Prepare { ballot, .. } if ballot > self.promised => {
                self.promised = ballot;
                AgreementResponse::Promised { accepted: self.accepted.clone() }
            }
            AgreementRequest::Accept { ballot, decision, .. } if ballot >= self.promised => {
                self.promised = ballot;
                self.accepted = Some((ballot, decision));
                AgreementResponse::Accepted
            }
            AgreementRequest::Prepare { .. } | AgreementRequest::Accept { .. } => {
                AgreementResponse::Rejected { promised: self.promised }
            }
            AgreementRequest::Ask { .. } | AgreementRequest::Enter(_) => AgreementResponse::State {
                wanted: self.wanted.map(|(wanted, _)| wanted),
                entering: self.entering_now(now),
            },
        }
    }

    fn handle_enter(&mut self, now: Instant, entering: Entering) -> AgreementResponse {
        match self.decided.as_ref().filter(|decided| decided.place_of_entering(entering.id).is_some()) {
            Some(decided) => AgreementResponse::Decided(decided.clone()),
            None => {
                self.note_entering(now, entering);
                AgreementResponse::Wait
            }
        }
    }
}

#[cfg(test)]
mod tests;
