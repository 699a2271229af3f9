//! A rank's process: it joins, runs the engine of the host library, keeps its session, and checks what it is given.

mod admission;
mod outputs;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use netfold::simulated::{Events, Leaving, Rank, Start};
use netfold::{AsyncHandle, Error, ReduceOp};
use netfold_control::{Admission, SessionEvent, SessionRequest};
use netfold_io::{Authenticated, PacketIo, RxBatch};
use netfold_proto::session::{Joining, MemberSession, SessionAction, SessionEnd, SessionFailure};
use netfold_proto::{Instant, PathValidation};

use super::coroutine::{Step, WakeFlag};
use super::engine::{EngineThread, MeshState, Pause, SimMesh, Socket, locked};
use super::plan::{JobPlan, host_address};
use super::world::{Client, World};
use outputs::element;

/// How long a first admission is tried for.
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Shortest back-off between requests to join.
const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// Coroutine of a process at one moment, at most.
const TURNS_MAX: u32 = 10_000;

/// A tensor's type and values on this rank.
enum Handle {
    Floats(AsyncHandle<f32>),
    Integers(AsyncHandle<i32>),
}

/// A request to join that is under way.
struct Attempt {
    /// Of the connection.
    number: u64,
    conn: Option<u64>,
    joining: Option<Joining>,
    validation: Option<PathValidation>,
    endpoint: SocketAddr,
    switch: Option<SocketAddr>,
    socket: Arc<Mutex<Socket>>,
    io: Authenticated<Box<dyn PacketIo>>,
    batch: RxBatch,
    /// Bytes that are no whole line yet.
    bytes: Vec<u8>,
}

/// An attachment to a switch, and its session.
struct Member {
    number: u64,
    conn: Option<u64>,
    session: MemberSession,
    events: Events,
    endpoint: SocketAddr,
    switch: SocketAddr,
    socket: Arc<Mutex<Socket>>,
    bytes: Vec<u8>,
    /// The session knows that this side leaves.
    left: bool,
    /// This side wants to leave.
    leaves: bool,
}

/// How a rank's process ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// It did all its operations and left.
    Done,
    /// An error ended it, at a time.
    Failed(Error, Duration),
    /// It did not get a place.
    NotAdmitted(SessionFailure, Duration),
    /// It was killed.
    Killed,
}

/// A rank's process.
pub(super) struct RankProcess {
    plan: JobPlan,
    pub(super) job: usize,
    pub(super) rank: u16,
    pub(super) host: usize,
    pub(super) paused_until: Duration,
    pub(super) wake: Option<Duration>,
    pub(super) serial: u64,
    pub(super) outcome: Option<Outcome>,
    /// When it was first admitted.
    pub(super) admitted: Option<Duration>,
    /// When it was given its last result.
    pub(super) delivered: Option<Duration>,
    clock: Arc<AtomicU64>,
    mesh: Arc<Mutex<MeshState>>,
    pause: Pause,
    woken: Arc<WakeFlag>,
    rank_handle: Option<Rank>,
    engine: Option<EngineThread>,
    /// When the engine wants to go on.
    engine_due: Duration,
    attempt: Option<Attempt>,
    attempts: u64,
    retry: Option<Duration>,
    backoff: Duration,
    give_up: Option<Duration>,
    members: Vec<Member>,
    submitted: usize,
    submit_at: Duration,
    pending: VecDeque<(usize, Handle)>,
    /// What was delivered, as bits, by operation.
    pub(super) outputs: Vec<Vec<u32>>,
}

fn instant(now: Duration) -> Instant {
    Instant::ZERO + now
}

/// Where a rank, by its place among all, sends from in its n-th attachment.
pub(super) fn endpoint(host: usize, index: usize, number: u64) -> SocketAddr {
    SocketAddr::new(host_address(host), 40_000 + (index as u16) * 64 + (number % 64) as u16)
}

impl RankProcess {
    pub(super) fn new(plan: &JobPlan, job: usize, rank: u16, mesh: Arc<Mutex<MeshState>>) -> Self {
        Self {
            host: plan.hosts[usize::from(rank)],
            plan: plan.clone(),
            job,
            rank,
            paused_until: Duration::ZERO,
            wake: None,
            serial: 0,
            outcome: None,
            admitted: None,
            delivered: None,
            clock: Arc::default(),
            mesh,
            pause: Pause::default(),
            woken: Arc::default(),
            rank_handle: None,
            engine: None,
            engine_due: Duration::MAX,
            attempt: None,
            attempts: 0,
            retry: None,
            backoff: BACKOFF_MIN,
            give_up: None,
            members: Vec::new(),
            submitted: 0,
            submit_at: Duration::ZERO,
            pending: VecDeque::new(),
            outputs: Vec::new(),
        }
    }

    pub(super) fn is(&self, job: usize, rank: u16) -> bool {
        (self.job, self.rank) == (job, rank)
    }

    pub(super) fn is_alive(&self) -> bool {
        self.outcome.is_none()
    }

    /// Whether everything of it is over, its sessions included.
    pub(super) fn is_over(&self) -> bool {
        self.outcome.is_some() && (self.members.is_empty() || self.outcome == Some(Outcome::Killed))
    }

    /// Whether it was given all its results, or has ended.
    pub(super) fn is_done(&self) -> bool {
        self.outcome.is_some() || self.outputs.len() == self.plan.ops.len()
    }

    /// Whether the rank has done everything.
    pub(super) fn succeeded(&self) -> bool {
        self.outcome == Some(Outcome::Done)
    }

    /// Takes a datagram; whether there is a socket.
    pub(super) fn receive(&mut self, to: SocketAddr, bytes: Vec<u8>) -> bool {
        let attempt = self.attempt.iter().map(|attempt| (attempt.endpoint, &attempt.socket));
        let members = self.members.iter().map(|member| (member.endpoint, &member.socket));
        let socket = attempt.chain(members).find(|(endpoint, _)| *endpoint == to);
        if let Some((_, socket)) = socket {
            locked(socket).received.push_back(bytes);
        }
        self.is_alive()
    }

    /// Has the engine look again at what it waits for.
    pub(super) fn schedule_engine(&mut self) {
        self.engine_due = Duration::ZERO;
    }

    fn world(&self) -> u16 {
        self.plan.hosts.len() as u16
    }

    fn fail(&mut self, outcome: Outcome) {
        self.outcome.get_or_insert(outcome);
        self.attempt = None;
        self.retry = None;
    }

    /// The earliest time at which something is due.
    fn next(&self) -> Option<Duration> {
        let at = |instant: Instant| Duration::from_nanos(instant.as_nanos());
        let mut all: Vec<Duration> = Vec::new();
        if let Some(attempt) = &self.attempt {
            all.extend(attempt.joining.as_ref().map(|joining| at(joining.deadline())));
            let clock = Duration::from_nanos(self.clock.load(Ordering::Relaxed));
            all.extend(attempt.validation.as_ref().map(|path| clock + path.timeout(instant(clock))));
        }
        all.extend(self.retry);
        let live = self.members.iter().filter(|member| member.session.end().is_none());
        all.extend(live.map(|member| at(member.session.deadline())));
        if self.engine.is_some() {
            all.push(self.engine_due);
            if self.submitted < self.plan.ops.len() && self.pending.len() < 2 {
                all.push(self.submit_at);
            }
        }
        all.into_iter().min()
    }
}

impl World {
    /// Kills a rank's process.
    pub(super) fn kill_rank(&mut self, job: usize, rank: usize) {
        let Some(index) = self.ranks.iter().position(|process| process.is(job, rank as u16)) else { return };
        if self.ranks[index].outcome.is_some() && self.ranks[index].members.is_empty() {
            return;
        }
        self.note(|| format!("rank {rank} of job {job} is killed"));
        self.end_process(index);
        self.ranks[index].outcome = Some(Outcome::Killed);
        locked(&self.meshes[job]).end(rank as u16);
        self.wake_mesh(job);
    }

    /// Closes what a process has open, and ends its engine.
    fn end_process(&mut self, index: usize) {
        let process = &mut self.ranks[index];
        if let Some(engine) = &mut process.engine {
            // What does not wait for packets learns of it so.
            process.rank_handle.iter().for_each(|rank| rank.communicator.abort());
            engine.kill();
        }
        process.engine = None;
        let attempt = process.attempt.take();
        let conns = attempt.iter().filter_map(|attempt| attempt.conn);
        let conns: Vec<u64> = conns.chain(process.members.iter().filter_map(|member| member.conn)).collect();
        process.members.clear();
        process.retry = None;
        conns.into_iter().for_each(|conn| self.close_from_client(conn));
    }

    /// Runs a rank's process until it waits.
    pub(super) fn rank_turn(&mut self, index: usize) {
        let paused = self.ranks[index].paused_until;
        if paused > self.now {
            return self.wake_rank(index, paused);
        }
        self.ranks[index].clock.store(self.now.as_nanos() as u64, Ordering::Relaxed);
        if self.ranks[index].outcome == Some(Outcome::Killed) {
            return;
        }
        if self.ranks[index].admitted.is_none()
            && self.ranks[index].outcome.is_none()
            && self.ranks[index].attempt.is_none()
        {
            let process = &mut self.ranks[index];
            if process.give_up.is_none() {
                process.give_up = Some(self.now + ADMISSION_TIMEOUT);
                process.retry = Some(self.now);
            }
        }
        for _ in 0..TURNS_MAX {
            let changes = self.mesh_changes(self.ranks[index].job);
            self.attempt_turn(index);
            self.members_turn(index);
            self.submit(index);
            self.engine_turn(index);
            self.collect(index);
            if self.mesh_changes(self.ranks[index].job) != changes {
                self.wake_mesh(self.ranks[index].job);
            }
            match self.ranks[index].next() {
                Some(at) if at <= self.now && self.is_due(index) => {}
                Some(at) => return self.wake_rank(index, at),
                None => return,
            }
        }
        panic!("rank {} of job {} never waits", self.ranks[index].rank, self.ranks[index].job);
    }

    /// Whether another turn at this moment can do something.
    fn is_due(&self, index: usize) -> bool {
        let process = &self.ranks[index];
        process.engine.is_some()
            || process.attempt.is_some()
            || process.retry.is_some()
            || !process.members.is_empty()
    }

    fn say(&mut self, conn: u64, request: &SessionRequest) -> bool {
        let mut line = serde_json::to_vec(request).expect("requests are plain values");
        line.push(b'\n');
        self.send_to_port(conn, line)
    }

    /// Bytes of a control port, or the end of the connection.
    pub(super) fn rank_received(&mut self, index: usize, conn: u64, bytes: Option<Vec<u8>>) {
        let paused = self.ranks[index].paused_until;
        if paused > self.now {
            // The process does not read: what it was sent is there when it goes on.
            return self.at(paused, super::world::Event::ToClient(conn, bytes));
        }
        let now = instant(self.now);
        let process = &mut self.ranks[index];
        if let Some(attempt) = process.attempt.as_mut().filter(|attempt| attempt.conn == Some(conn)) {
            let Some(bytes) = bytes else {
                let failure = attempt.joining.as_ref().map(Joining::handle_close);
                attempt.conn = None;
                return failure.into_iter().for_each(|failure| self.attempt_failed(index, failure));
            };
            attempt.bytes.extend(bytes);
            for event in lines(&mut attempt.bytes) {
                self.join_event(index, event);
            }
        } else if let Some(member) = process.members.iter_mut().find(|member| member.conn == Some(conn)) {
            match bytes {
                Some(bytes) => {
                    member.bytes.extend(bytes);
                    let events = lines(&mut member.bytes);
                    events.into_iter().for_each(|event| member.session.handle_event(now, event));
                }
                None => {
                    member.conn = None;
                    member.session.handle_close(now, true);
                }
            }
        }
        self.wake_rank(index, self.now);
    }

    /// Keeps the sessions of a process.
    fn members_turn(&mut self, index: usize) {
        let now = instant(self.now);
        for at in 0..self.ranks[index].members.len() {
            let member = &mut self.ranks[index].members[at];
            match member.events.leaving() {
                Some(Leaving::Aborted) => member.session.abort(),
                Some(Leaving::Gracefully) => member.leaves = true,
                None => {}
            }
            if member.leaves && !member.left {
                member.left = true;
                let conn = member.conn;
                let sent = conn.is_some_and(|conn| self.say(conn, &SessionRequest::Leave {}));
                self.ranks[index].members[at].session.leave(now, sent);
            }
            let session = &mut self.ranks[index].members[at].session;
            if session.end().is_none() && session.deadline() <= now {
                session.handle_idle(now);
            }
            while let Some(action) = self.ranks[index].members[at].session.poll_action() {
                self.carry_out(index, at, action);
            }
        }
        let ended: Vec<usize> = (0..self.ranks[index].members.len())
            .filter(|at| self.ranks[index].members[*at].session.end().is_some())
            .collect();
        for at in ended.into_iter().rev() {
            let member = self.ranks[index].members.remove(at);
            let port = SocketAddr::new(host_address(0), 1);
            if let Some(SessionEnd::Lost(failure)) = member.session.end() {
                let (job, rank) = (self.ranks[index].job, self.ranks[index].rank);
                self.note(|| format!("job {job} rank {rank}: session lost: {failure:?}"));
                member.events.fail(failure.clone(), port);
                self.ranks[index].engine_due = Duration::ZERO;
            }
            member.conn.into_iter().for_each(|conn| self.close_from_client(conn));
        }
    }

    fn carry_out(&mut self, index: usize, at: usize, action: SessionAction) {
        let host = self.ranks[index].host;
        let member = &mut self.ranks[index].members[at];
        let (number, conn) = (member.number, member.conn);
        let sent = match action {
            SessionAction::Heartbeat => {
                let counters = Some(member.events.counters());
                let stall = member.events.stall();
                conn.is_some_and(|conn| {
                    self.say(conn, &SessionRequest::Alive { counters })
                        && stall.is_none_or(|report| self.say(conn, &SessionRequest::Stalled(report)))
                })
            }
            SessionAction::Send(request) => conn.is_some_and(|conn| self.say(conn, &request)),
            SessionAction::Connect { .. } => {
                self.connect(Client::Rank(index, number), host);
                true
            }
            SessionAction::Disconnect => {
                member.conn = None;
                conn.into_iter().for_each(|conn| self.close_from_client(conn));
                true
            }
            SessionAction::Broke { reason } => {
                let (job, rank) = (self.ranks[index].job, self.ranks[index].rank);
                self.note(|| format!("job {job} rank {rank}: session broke: {reason}"));
                true
            }
            SessionAction::Resumed { away } => {
                // A leave request that was not heard is repeated.
                member.left = false;
                let (job, rank) = (self.ranks[index].job, self.ranks[index].rank);
                self.note(|| format!("job {job} rank {rank}: session resumed after {away:?}"));
                true
            }
            SessionAction::PeerLeft { rank } => {
                member.events.note_leave(rank);
                self.ranks[index].engine_due = Duration::ZERO;
                true
            }
            SessionAction::Band(band) => {
                member.events.note_band(band);
                true
            }
            // No schedule delays jobs in the simulation.
            SessionAction::Hold(_) | SessionAction::UsePorts(_) => true,
        };
        if !sent {
            self.ranks[index].members[at].session.handle_send_failure();
        }
    }

    /// Submits the next operation when it is time.
    fn submit(&mut self, index: usize) {
        let now = self.now;
        let process = &mut self.ranks[index];
        let Some(handle) = &process.rank_handle else { return };
        while process.engine.is_some()
            && process.submitted < process.plan.ops.len()
            && process.pending.len() < 2
            && process.submit_at <= now
        {
            let (op, plan) = (process.submitted, process.plan.ops[process.submitted]);
            let len = plan.collective.info().input.elements(plan.elements, process.world());
            let values = (0..len).map(|at| element(process.job, op, process.rank, at));
            let (communicator, sum) = (&handle.communicator, ReduceOp::Sum);
            let submitted = if plan.floats {
                let values = values.map(|value| value as f32).collect();
                communicator.run_async(plan.collective, values, sum, 0).map(Handle::Floats)
            } else {
                communicator.run_async(plan.collective, values.collect(), sum, 0).map(Handle::Integers)
            };
            let submitted = submitted.expect("an operation of the plan is valid");
            process.pending.push_back((op, submitted));
            process.submitted += 1;
            process.submit_at = now + process.plan.think;
            process.engine_due = Duration::ZERO;
        }
    }

    /// Runs the engine until it waits, and sends what it has sent.
    fn engine_turn(&mut self, index: usize) {
        let now = self.now;
        let process = &mut self.ranks[index];
        let Some(engine) = &mut process.engine else { return };
        let arrived = process.members.iter().any(|member| !locked(&member.socket).received.is_empty());
        if process.engine_due > now && !arrived && !process.woken.is_set() {
            return;
        }
        match engine.resume(()) {
            Step::Yielded(timeout) => process.engine_due = now + timeout.max(Duration::from_nanos(1)),
            Step::Completed(ended) => {
                process.engine = None;
                let (job, rank) = (process.job, process.rank);
                assert!(ended.is_some(), "the engine of rank {rank} of job {job} panicked");
                self.engine_ended(index);
            }
        }
        self.flush(index);
    }

    /// Sends what is in the sockets of a process.
    fn flush(&mut self, index: usize) {
        for at in 0..self.ranks[index].members.len() {
            let member = &self.ranks[index].members[at];
            let (from, to) = (member.endpoint, member.switch);
            let sent = std::mem::take(&mut locked(&member.socket).sent);
            sent.into_iter().for_each(|datagram| self.send_datagram(from, to, datagram));
        }
    }

    fn engine_ended(&mut self, index: usize) {
        self.collect(index);
        let now = self.now;
        let process = &mut self.ranks[index];
        let failure = process.rank_handle.as_ref().and_then(|rank| rank.communicator.failure());
        let (job, rank) = (process.job, process.rank);
        let outcome = match failure {
            None | Some(Error::Closed) => Outcome::Done,
            Some(error) => Outcome::Failed(error, now),
        };
        process.members.iter_mut().for_each(|member| member.leaves |= outcome == Outcome::Done);
        process.fail(outcome.clone());
        self.note(|| format!("job {job} rank {rank}: {outcome:?}"));
        locked(&self.meshes[job]).end(rank);
    }

    /// Takes results, checks them, and ends the rank when all are there; joins again when the engine wants that.
    fn collect(&mut self, index: usize) {
        let now = self.now;
        let process = &mut self.ranks[index];
        while let Some((op, handle)) = process.pending.front_mut() {
            let result = match handle {
                Handle::Floats(handle) => handle.try_wait().map(|outcome| outcome.map(|(sum, _)| bits(&sum))),
                Handle::Integers(handle) => handle.try_wait().map(|outcome| {
                    outcome.map(|(sum, _)| sum.iter().map(|value| value.cast_unsigned()).collect())
                }),
            };
            let (Some(result), op) = (result, *op) else { break };
            process.pending.pop_front();
            if let Ok(output) = result {
                process.check_output(op, &output, &mut self.sums, &mut self.partial);
                process.outputs.push(output);
                process.delivered = Some(now);
            }
        }
        let finished = process.outputs.len() == process.plan.ops.len() && process.engine.is_some();
        if let Some(rank) = process.rank_handle.as_ref().filter(|_| finished) {
            rank.stop_when_idle();
        }
        let wanted = process.rank_handle.as_ref().is_some_and(|rank| rank.rejoining.is_wanted());
        if wanted && process.attempt.is_none() && process.retry.is_none() {
            process.retry = Some(self.now);
        }
        if !wanted && process.admitted.is_some() {
            process.retry = None;
            if let Some(conn) = process.attempt.take().and_then(|attempt| attempt.conn) {
                self.close_from_client(conn);
            }
        }
    }
}

impl RankProcess {
    fn start_engine(&mut self, io: Box<dyn PacketIo>, admission: Admission) -> Result<Events, Error> {
        let mesh = SimMesh {
            rank: self.rank,
            state: Arc::clone(&self.mesh),
            pause: Arc::clone(&self.pause),
            woken: Arc::clone(&self.woken),
            clock: Arc::clone(&self.clock),
        };
        let start = Start {
            io,
            admission,
            place: (self.rank, self.world()),
            settings: self.plan.settings(),
            clock: Arc::clone(&self.clock),
            mesh: if self.plan.linked { Some(Box::new(mesh)) } else { None },
        };
        let (rank, engine) = Rank::start(start)?;
        let pause = Arc::clone(&self.pause);
        self.engine = Some(EngineThread::start(move |yielder| {
            *locked(&pause) = Some(yielder);
            engine();
            // The simulation's side sees the end.
            *locked(&pause) = None;
        }));
        let events = rank.events.clone();
        self.rank_handle = Some(rank);
        Ok(events)
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// The events in whole lines.
fn lines(bytes: &mut Vec<u8>) -> Vec<SessionEvent> {
    let mut events = Vec::new();
    while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = bytes.drain(..=end).collect();
        events.push(serde_json::from_slice(&line[..end]).expect("a controller sends events"));
    }
    events
}
