//! Admission: which worker takes part in which job, and when a job begins and ends.
//!
//! [`Coordinator`] is a state machine without I/O, clock or threads. It is fed sessions, their requests, the passing
//! of time and the outcomes of switch tasks; after each of these, take its [`Output`]s until there are none. Time is a
//! [`Duration`] since any fixed moment and never goes back.
//!
//! Invariants, each tested:
//!
//! - A join is answered exactly once, by an admission or by a refusal, in bounded time.
//! - All members of a job receive the same admission; of two jobs that exist at once, no two share a port, a group, a
//!   number or an endpoint, nor a slot, but for best-effort jobs below their aggregator.
//! - An epoch is greater than all before it.
//! - No switch sends a result to an address before the member there has shown that it receives packets.
//! - What a job held is given to no other job before the switch has confirmed the withdrawal.
//! - A job that ends, however it ends, changes nothing of another job.

mod bands;
mod command;
mod diagnosis;
mod ended;
mod enrollment;
mod fairness;
mod join;
mod lifecycle;
mod links;
mod path;
mod paths;
mod persist;
mod presence;
mod rate_limiter;
mod rebalance;
mod schedule;
mod sharing;
mod snapshot;
mod spilled;
mod stalls;
mod switches;
mod tenants;
mod wires;

pub use self::links::DRAINED_AT_ONCE;
pub use crate::jobs::SessionId;

use self::ended::EndedJobs;
use self::paths::{MemberPaths, PathOrders};
use self::rate_limiter::CredentialRateLimiter;
use self::rebalance::TreeMoves;
use self::schedule::Ranked;
use self::sharing::Reallocations;
use self::wires::Wires;
use crate::bands::Banding;
use crate::equal_paths::EqualPaths;
use crate::executor::TenantTask;
use crate::fleet::Fleet;
use crate::flight_record::FlightRecords;
use crate::jobs::{ActiveTree, FormingTree, JobEvent, Presence, TreeName, TreePhase};
use crate::membership::Membership;
use crate::message::Refused;
use crate::policy::Sharing;
use crate::rebalance::PlacementPolicy;
use crate::record::{Change, JobName, JobRecord, StoredRecords, TenantRecord};
use crate::schedule::Schedule;
use crate::schedule::interleave::Interleaver;
use crate::schedule::paths::PathChooser;
use crate::timers::{Timer, Timers};
use crate::topology::Prefix;
use crate::view::StallReportCounters;
use netfold_control::{
    CongestionAlgorithm, MemberCounters, Multipath, PortSet, RESUME_MS, Refusal, SessionEvent, SessionRequest,
};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Limits and times of admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Epoch of the first job; each further job gets the next number. To keep epochs unique over restarts without
    /// storing them, give the Unix time in seconds: a controller that begins fewer than one job a second on average
    /// starts the next time above all that it has used. It lasts until 2106.
    pub epoch_floor: u32,
    /// Sessions that may be open at once.
    pub sessions_max: usize,
    /// Jobs that may form and run at once.
    pub jobs_max: usize,
    /// Workers that may wait for their peers at once, over all jobs.
    pub pending_joins_max: usize,
    /// Requests that a session may send within a lease.
    pub requests_max: u32,
    /// Fewest slots that a job is given unless it asks for fewer; a power of two.
    pub slots_min: u32,
    /// Most slots that a job is given; at most 2^15, which is what a packet's slot field can say.
    pub slots_max: u32,
    /// Interval between heartbeats to a worker.
    pub heartbeat: Duration,
    /// Silence after which a running worker counts as lost, and time that a new session has for its join.
    pub lease: Duration,
    /// How long a job may form, from its first join.
    pub join_timeout: Duration,
    /// How long members have to validate their addresses.
    pub path_timeout: Duration,
    /// Pause before a failed withdrawal is retried; doubles up to 64 times this.
    pub retry: Duration,
    /// How long workers go on without a session, as their admission states: longer than this control plane takes to restart. Zero where
    /// a session's end is the loss of the worker, and that of the switch: then nothing is resumed, and a shutdown ends all jobs.
    pub grace: Duration,
    /// How long the controller waits for a worker whose session broke.
    pub away: Duration,
    /// How long the controller waits for workers after a restart.
    pub resume: Duration,
    /// How long a switch may be out of reach before its jobs lose their place.
    pub switch_timeout: Duration,
    /// The congestion-control algorithm of the workers.
    pub congestion: CongestionAlgorithm,
    /// From how many UDP ports workers send, where their switches allow it, and how they choose among them; `None`: from one.
    pub multipath: Option<Multipath>,
    /// The equal paths between workers and their switches, where their hash is known.
    pub equal_paths: Option<EqualPaths>,
    /// Addresses of workers whose packets take none of them.
    pub direct: Vec<Prefix>,
    /// Address of the switches whose [`SwitchInfo::data`](crate::fleet::SwitchInfo::data) is the control port's, where there is one such address.
    pub own_address: Option<IpAddr>,
    /// Which classes of packets jobs have.
    pub banding: Banding,
    /// What is done about jobs whose communication patterns are known.
    pub schedule: Schedule,
    /// How trees are placed where several are possible.
    pub placement: PlacementPolicy,
    /// How jobs share slots when there are too few.
    pub sharing: Sharing,
    /// Minimum time between moves of a job: how long a job keeps its place before it is moved to grow, and how long a moved job of
    /// lower priority stays before it is moved again.
    pub settle: Duration,
    /// Whether control sessions are encrypted, so that they may carry the keys of packets; those of the loopback interface may in any case.
    pub encrypted: bool,
    /// Whether workers must name a tenant that exists, and show its token if it has one.
    pub tenants: bool,
    /// Ended jobs that are kept in the list, the newest of those that were not declared.
    pub jobs_kept: usize,
    /// Unix time, in seconds, at time 0.
    pub unix_s: u64,
}

impl Config {
    /// The defaults, with the given [`Config::epoch_floor`].
    pub fn new(epoch_floor: u32) -> Self {
        Self {
            epoch_floor,
            sessions_max: 4096,
            jobs_max: 64,
            pending_joins_max: 2048,
            requests_max: 256,
            slots_min: 16,
            slots_max: 1 << 15,
            heartbeat: Duration::from_millis(netfold_control::HEARTBEAT_MS),
            lease: Duration::from_millis(netfold_control::LEASE_MS),
            join_timeout: Duration::from_secs(30),
            path_timeout: Duration::from_secs(5),
            retry: Duration::from_millis(100),
            grace: Duration::ZERO,
            encrypted: false,
            away: Duration::ZERO,
            resume: Duration::ZERO,
            switch_timeout: Duration::ZERO,
            congestion: CongestionAlgorithm::Dctcp,
            multipath: None,
            equal_paths: None,
            direct: Vec::new(),
            own_address: None,
            banding: Banding::default(),
            schedule: Schedule::Off,
            placement: PlacementPolicy::Static,
            sharing: Sharing::Static,
            settle: Duration::from_secs(10),
            tenants: false,
            jobs_kept: 0,
            unix_s: 0,
        }
    }

    /// The defaults of a controller that is another process than its switches: jobs outlive its restarts, workers name their
    /// tenant. `unix_s` is the Unix time at time 0, in seconds.
    pub fn controller(epoch_floor: u32, unix_s: u64) -> Self {
        Self {
            sessions_max: 65_536,
            jobs_max: 4096,
            pending_joins_max: 32_768,
            grace: Duration::from_secs(60),
            away: Duration::from_secs(2),
            resume: Duration::from_millis(RESUME_MS),
            switch_timeout: Duration::from_millis(1500),
            tenants: true,
            sharing: Sharing::Elastic,
            jobs_kept: 10_000,
            unix_s,
            ..Self::new(epoch_floor)
        }
    }
}

/// What the caller of a [`Coordinator`] is to do.
#[derive(Debug, PartialEq)]
pub enum Output {
    /// Send an event to a session.
    Send {
        /// The session.
        session: SessionId,
        /// The event.
        event: SessionEvent,
    },
    /// Close a session after all that was sent to it. The coordinator has forgotten it.
    Close {
        /// The session.
        session: SessionId,
    },
    /// Make a change durable before any later output is acted on.
    Persist(Change),
    /// Carry out a task on the switches and hand back its outcome, in the order of the tasks.
    Task(TenantTask),
    /// Write an event to the log and to those who watch.
    Log(JobEvent),
}

/// How a session ended without a leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionLoss {
    /// The connection was closed or broke.
    Closed,
    /// Nothing was received for a lease.
    Silent,
    /// It violated the protocol.
    Protocol,
    /// It did not read what it was sent.
    Slow,
    /// It left before its job began.
    Left,
}

impl std::fmt::Display for SessionLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Closed => "closed its control session without leaving",
            Self::Silent => "sent no heartbeat for too long",
            Self::Protocol => "broke the protocol of the control port",
            Self::Slow => "did not read its control session",
            Self::Left => "left before the job began",
        })
    }
}

/// State of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It has not joined.
    Greeting,
    /// It waits for its peers, or for the place of its job.
    Forming { formation: u64, rank: u16 },
    /// Its job has a place.
    Active { job: u16, rank: u16 },
    /// It is the membership session of a rank of a resizable job.
    Enrolled { membership: u64, rank: u16 },
    /// It waits to join a resizable job that runs.
    Entering { membership: u64 },
}

#[derive(Debug)]
struct Session {
    peer: SocketAddr,
    /// Address and UDP port of the worker's packets, the first if there are several, once it has joined.
    endpoint: Option<SocketAddr>,
    /// How many UDP ports there are; 0 before it has joined.
    udp_ports: u8,
    /// Longest datagram that its path carries, as it said when it joined; 0 where it does not know.
    datagram_max: u32,
    stage: Stage,
    last_received: Duration,
    /// Requests since `counted`.
    requests: u32,
    counted: Duration,
    /// It has asked to be notified of its job's classes of packets.
    banded: bool,
    /// It has reported a pattern of its job's iterations.
    patterned: bool,
    /// The UDP ports that it was ordered to use last in this session.
    ordered: Option<PortSet>,
}

/// The job that a name refers to at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Forming(u64),
    Active(u16),
}

/// The state machine of admission.
pub struct Coordinator {
    config: Config,
    fleet: Fleet,
    timers: Timers,
    /// The latest time that a caller passed.
    now: Duration,
    heartbeat_armed: bool,
    sessions: BTreeMap<SessionId, Session>,
    sessions_opened: u64,
    /// Endpoints of the sessions that have joined.
    endpoints: BTreeMap<SocketAddr, SessionId>,
    /// Trees of jobs that form or run; a tree that is over has lost its name.
    names: BTreeMap<TreeName, Named>,
    tenants: BTreeMap<String, TenantRecord>,
    /// Jobs that are remembered.
    jobs: BTreeMap<JobName, JobRecord>,
    /// Those of them that are over and were not declared, by when that was.
    over: EndedJobs,
    forming: BTreeMap<u64, FormingTree>,
    formations: u64,
    active: BTreeMap<u16, ActiveTree>,
    /// The links that these use.
    wires: Wires,
    /// Memberships of resizable jobs, by numbers that are never reused.
    memberships: BTreeMap<u64, Membership>,
    memberships_made: u64,
    membership_numbers: BTreeMap<JobName, u64>,
    outputs: VecDeque<Output>,
    /// Which start of each switch was last known, where it says.
    boots: BTreeMap<usize, Option<String>>,
    /// Since when switches are down; from the start, those without an entry.
    down_since: BTreeMap<usize, Duration>,
    /// Tasks without an outcome yet.
    tasks: usize,
    /// Who shows wrong tokens.
    credential_limiter: CredentialRateLimiter,
    /// From whom slots were taken, and for whom.
    reallocations: Reallocations,
    /// What is known of stalls that are over.
    flight_records: FlightRecords,
    stall_reports: StallReportCounters,
    /// Which iterations are delayed.
    interleaver: Interleaver<JobName>,
    /// Which equal paths are chosen.
    path_chooser: PathChooser<JobName>,
    /// Orders of jobs that have had some.
    path_orders: BTreeMap<JobName, PathOrders>,
    /// When they are chosen next.
    next_path_choice: Duration,
    /// What was computed of members' paths.
    member_paths: MemberPaths,
    /// By what jobs are ranked, where that is measured.
    ranked: BTreeMap<JobName, Ranked>,
    /// What trees demand of links, and which of them are moved.
    tree_moves: TreeMoves,
    /// Stalled trees whose slots are being read.
    inspections: usize,
    shut_down: bool,
}

impl Coordinator {
    /// Admission to the switches of a fleet that hold nothing of ours but the places that were kept. These are adopted first:
    /// take the outputs.
    pub fn new(config: Config, fleet: Fleet, kept: StoredRecords) -> Self {
        let mut coordinator = Self {
            fleet,
            config,
            timers: Timers::default(),
            now: Duration::ZERO,
            heartbeat_armed: false,
            sessions: BTreeMap::new(),
            sessions_opened: 0,
            endpoints: BTreeMap::new(),
            names: BTreeMap::new(),
            tenants: BTreeMap::new(),
            jobs: BTreeMap::new(),
            over: EndedJobs::default(),
            forming: BTreeMap::new(),
            formations: 0,
            active: BTreeMap::new(),
            wires: Wires::default(),
            memberships: BTreeMap::new(),
            memberships_made: 0,
            membership_numbers: BTreeMap::new(),
            outputs: VecDeque::new(),
            boots: BTreeMap::new(),
            down_since: BTreeMap::new(),
            tasks: 0,
            credential_limiter: CredentialRateLimiter::default(),
            reallocations: Reallocations::default(),
            flight_records: FlightRecords::default(),
            stall_reports: StallReportCounters::default(),
            interleaver: Interleaver::default(),
            path_chooser: PathChooser::default(),
            path_orders: BTreeMap::new(),
            next_path_choice: Duration::ZERO,
            member_paths: MemberPaths::new(),
            ranked: BTreeMap::new(),
            tree_moves: TreeMoves::default(),
            inspections: 0,
            shut_down: false,
        };
        coordinator.restore(kept);
        coordinator
    }

    fn tick(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// A worker has connected from `peer`.
    ///
    /// # Errors
    /// [`Refused`] with [`Refusal::Busy`] when there are too many sessions, of that address or at all, or the control plane shuts down:
    /// tell the worker and close.
    pub fn open(&mut self, now: Duration, peer: SocketAddr) -> Result<SessionId, Refused> {
        self.tick(now);
        if self.shut_down {
            return Err(self.shutting_down());
        }
        if self.sessions.len() >= self.config.sessions_max {
            let message =
                format!("all {} control sessions are in use: try again later", self.config.sessions_max);
            return Err(Refused::new(Refusal::Busy, message));
        }
        let id = SessionId(self.sessions_opened);
        self.sessions_opened += 1;
        self.sessions.insert(
            id,
            Session {
                peer,
                endpoint: None,
                udp_ports: 0,
                datagram_max: 0,
                stage: Stage::Greeting,
                last_received: now,
                requests: 0,
                counted: now,
                banded: false,
                patterned: false,
                ordered: None,
            },
        );
        self.timers.arm(now + self.config.lease, Timer::Lease(id));
        if !self.heartbeat_armed {
            self.heartbeat_armed = true;
            self.timers.arm(now + self.config.heartbeat, Timer::Heartbeat);
        }
        Ok(id)
    }

    /// A session sent a request. Requests of sessions that were closed meanwhile are ignored.
    pub fn request(&mut self, now: Duration, id: SessionId, request: SessionRequest) {
        self.tick(now);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.last_received = now;
        if now.saturating_sub(session.counted) >= self.config.lease {
            session.counted = now;
            session.requests = 0;
        }
        session.requests += 1;
        if session.requests > self.config.requests_max {
            let lease = self.config.lease;
            return self.refuse(
                id,
                Refused::protocol(format!(
                    "more than {} requests within {lease:?}: send one heartbeat every {:?}",
                    self.config.requests_max, self.config.heartbeat
                )),
            );
        }
        match (request, session.stage) {
            (
                SessionRequest::Join(_)
                | SessionRequest::Resume(_)
                | SessionRequest::Quota(_)
                | SessionRequest::Enroll(_),
                Stage::Forming { .. }
                | Stage::Active { .. }
                | Stage::Enrolled { .. }
                | Stage::Entering { .. },
            ) => self.refuse(
                id,
                Refused::protocol(
                    "this session has joined a job already: open another session for another job",
                ),
            ),
            (SessionRequest::Join(join), Stage::Greeting) => self.join(now, id, join),
            (SessionRequest::Quota(query), Stage::Greeting) => self.answer_quota(now, id, &query),
            (SessionRequest::Enroll(enroll), Stage::Greeting) => self.enroll(now, id, &enroll),
            (SessionRequest::Resize(request), stage) => self.resize(now, id, stage, request),
            (SessionRequest::Resume(resume), Stage::Greeting) => self.resume(now, id, &resume),
            (SessionRequest::Path { token }, stage) => self.validate_path(id, stage, token),
            (SessionRequest::Band {}, Stage::Active { job, .. }) => self.send_band(id, job),
            (SessionRequest::Band {}, _) => {
                self.refuse(
                    id,
                    Refused::protocol("classes of packets are told to workers of a job that runs"),
                );
            }
            (
                SessionRequest::Alive { .. }
                | SessionRequest::Stalled(_)
                | SessionRequest::Pattern(_)
                | SessionRequest::Paths(_),
                Stage::Greeting,
            ) => {
                self.refuse(id, Refused::protocol("the first request must be a join or a resume"));
            }
            (SessionRequest::Alive { counters: Some(counters) }, Stage::Active { job, rank }) => {
                self.note_counters(job, rank, counters);
            }
            (SessionRequest::Alive { .. }, _) => {}
            (SessionRequest::Pattern(pattern), stage) => self.note_pattern(id, stage, pattern),
            (SessionRequest::Paths(report), stage) => self.note_paths(id, stage, report),
            (SessionRequest::Stalled(report), stage) => self.note_stall(stage, report),
            (SessionRequest::Leave {}, stage) => self.leave(id, stage),
        }
    }

    /// A session sent something that is not a request, or that its transport refuses: sends the refusal and ends the session.
    pub fn refuse(&mut self, id: SessionId, refused: Refused) {
        let Some(session) = self.sessions.get(&id) else { return };
        let (reason, message) = (refused.reason, refused.message.clone());
        self.outputs.push_back(Output::Log(JobEvent::Refused { peer: session.peer, reason, message }));
        self.reject(id, refused);
    }

    /// The same, without an entry in the log.
    fn reject(&mut self, id: SessionId, refused: Refused) {
        self.send(id, refused.into());
        self.end_session(id, SessionLoss::Protocol);
    }

    /// A session is gone, or is to go. Sessions that were closed meanwhile are ignored.
    pub fn close(&mut self, now: Duration, id: SessionId, loss: SessionLoss) {
        self.tick(now);
        self.end_session(id, loss);
    }

    fn end_session(&mut self, id: SessionId, loss: SessionLoss) {
        let Some(session) = self.dismiss(id) else { return };
        match session.stage {
            Stage::Greeting => {}
            Stage::Forming { formation, rank } => self.leave_formation(formation, rank),
            Stage::Active { job, rank } => self.lose_session(job, rank, loss),
            Stage::Enrolled { .. } | Stage::Entering { .. } => self.end_enrolled(id, session.stage, loss),
        }
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.tick(now);
        while let Some(timer) = self.timers.pop(now) {
            match timer {
                Timer::Heartbeat => self.beat(now),
                Timer::Lease(id) => self.check_lease(now, id),
                Timer::Forming(formation) => self.check_formation(now, formation),
                Timer::Path(job) => self.check_paths(job),
                Timer::Spilled(job) => self.count_spilled(job),
                Timer::Withdraw(job) => self.retry_withdraw(job),
                Timer::Membership(membership) => self.check_membership(now, membership),
                Timer::Away(job) => self.check_away(now, job),
                Timer::Switch(switch) => self.check_switch(switch),
                Timer::Grow => self.grow(),
            }
        }
    }

    /// This process was stopped or starved for longer than a heartbeat, and perhaps the workers with it: every lease begins anew, so that
    /// no worker is lost for heartbeats that it could not send or that have not been read.
    pub fn note_pause(&mut self, now: Duration) {
        self.tick(now);
        for session in self.sessions.values_mut() {
            session.last_received = now;
        }
    }

    /// When [`Coordinator::handle_timeout`] is to be called next; ask again after every other call.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.timers.next_deadline()
    }

    /// The next thing to do, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Closes all sessions and admits no more workers. Where jobs outlive this control plane, those that run keep their places; all others
    /// are withdrawn.
    pub fn shutdown(&mut self) {
        self.shut_down = true;
        for formation in self.forming.keys().copied().collect::<Vec<_>>() {
            self.refuse_formation(formation, self.shutting_down());
        }
        let outlives = |job: &ActiveTree| !self.config.grace.is_zero() && job.phase == TreePhase::Running;
        let withdrawn = self.active.iter().filter(|(_, job)| !outlives(job)).map(|(number, _)| *number);
        for job in withdrawn.collect::<Vec<_>>() {
            self.shut_down_job(job);
        }
        for (id, stage) in self.sessions.iter().map(|(id, session)| (*id, session.stage)).collect::<Vec<_>>()
        {
            // The end of a job's last member has ended the sessions of processes that wait to join it.
            if !self.sessions.contains_key(&id) {
                continue;
            }
            if let Stage::Active { job, rank } = stage {
                self.dismiss(id);
                // For as long as this control plane lasts: the next one waits for the member.
                if let Some(presence) = self.active.get_mut(&job).and_then(|job| job.members.get_mut(&rank)) {
                    *presence = Presence::Away(Duration::MAX);
                }
            } else if matches!(stage, Stage::Enrolled { .. }) && !self.config.grace.is_zero() {
                self.end_session(id, SessionLoss::Closed);
            } else {
                self.send(id, self.shutting_down().into());
                self.end_session(id, SessionLoss::Closed);
            }
        }
    }

    /// Whether no session is open and no task is under way. After [`Coordinator::shutdown`] this becomes true once every
    /// withdrawal has been attempted.
    pub fn is_idle(&self) -> bool {
        self.sessions.is_empty() && self.tasks == 0
    }

    /// Whether nothing of the switches is held: no job has a place.
    pub fn is_unused(&self) -> bool {
        self.active.is_empty() && self.fleet.is_unused()
    }

    /// The switches and their slots.
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    fn send(&mut self, session: SessionId, event: SessionEvent) {
        self.outputs.push_back(Output::Send { session, event });
    }

    fn shutting_down(&self) -> Refused {
        let remedy = if self.config.grace.is_zero() {
            "start the switch again, then the workers"
        } else {
            "start the workers again when it is back"
        };
        Refused::new(Refusal::Busy, format!("the control port is shutting down: {remedy}"))
    }

    /// Closes a session and forgets it, whatever it takes part in.
    fn dismiss(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        if let Some(endpoint) = session.endpoint {
            self.endpoints.remove(&endpoint);
        }
        self.outputs.push_back(Output::Close { session: id });
        Some(session)
    }

    fn beat(&mut self, now: Duration) {
        self.heartbeat_armed = !self.sessions.is_empty();
        if self.heartbeat_armed {
            self.timers.arm(now + self.config.heartbeat, Timer::Heartbeat);
        }
        for (&session, state) in &self.sessions {
            if state.stage != Stage::Greeting {
                self.outputs.push_back(Output::Send { session, event: SessionEvent::Alive {} });
            }
        }
        for job in self.active.values_mut() {
            if self.heartbeat_armed {
                job.traffic.sample(now);
            } else {
                job.traffic.pause();
            }
        }
        self.diagnose();
        self.apply_schedule();
        self.rebalance();
        self.share_again();
        self.watch_stalls();
    }

    /// Takes the counters of a member.
    fn note_counters(&mut self, job: u16, rank: u16, counters: MemberCounters) {
        if let Some(active) = self.active.get_mut(&job) {
            active.traffic.report(rank, counters);
        }
    }

    /// A worker that waits for its peers need not send heartbeats; its wait is bounded by the join timeout.
    fn check_lease(&mut self, now: Duration, id: SessionId) {
        let Some(session) = self.sessions.get(&id) else { return };
        let lease = self.config.lease;
        let deadline = match session.stage {
            Stage::Forming { .. } => now + lease,
            Stage::Active { job, .. } if self.active[&job].phase.is_starting() => now + lease,
            Stage::Greeting | Stage::Active { .. } | Stage::Enrolled { .. } | Stage::Entering { .. } => {
                session.last_received + lease
            }
        };
        if deadline > now {
            return self.timers.arm(deadline, Timer::Lease(id));
        }
        match session.stage {
            Stage::Active { rank, .. } => {
                if self.config.grace.is_zero() {
                    let message = format!("this worker sent no heartbeat for {lease:?}: its job is over");
                    self.send(id, SessionEvent::PeerLost { rank, message });
                }
                self.end_session(id, SessionLoss::Silent);
            }
            Stage::Enrolled { .. } | Stage::Entering { .. } => {
                let message =
                    format!("this worker sent no heartbeat for {lease:?}: the other members take it as lost");
                self.send(id, Refused::new(Refusal::Excluded, message).into());
                self.end_session(id, SessionLoss::Silent);
            }
            _ => self.refuse(id, Refused::protocol(format!("no join within {lease:?}: send one first"))),
        }
    }
}
