//! How a rank's process gets a place: it connects, joins, validates its path and is admitted, first and again.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use netfold::Error;
use netfold_control::{Admission, Credentials, Join, Refusal, SessionEvent, SessionRequest};
use netfold_io::{Authenticated, PacketIo, PortId, Transmit};
use netfold_proto::PathValidation;
use netfold_proto::session::{JoinStep, Joining, MemberSession, Membership, SessionFailure};
use netfold_wire::{JobKeys, header};

use super::{Attempt, Member, Outcome, endpoint, instant};
use crate::vopr::controller::TENANTS;
use crate::vopr::engine::{SimIo, Socket, locked};
use crate::vopr::world::{Client, World};

/// How long a request to join may take.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest back-off between requests to join, and shortest and longest to rejoin.
const BACKOFF_MAX: Duration = Duration::from_secs(1);
const REJOIN_BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

impl World {
    /// Begins a request to join, or goes on with it.
    pub(super) fn attempt_turn(&mut self, index: usize) {
        if self.ranks[index].retry.is_some_and(|at| at <= self.now) {
            self.begin_attempt(index);
        }
        let now = instant(self.now);
        let process = &mut self.ranks[index];
        let Some(attempt) = &mut process.attempt else { return };
        if let Some(joining) = &mut attempt.joining
            && joining.deadline() <= now
            && let Err(failure) = joining.handle_idle(now)
        {
            return self.attempt_failed(index, failure);
        }
        let (Some(path), Some(switch)) = (&mut attempt.validation, attempt.switch) else { return };
        let (io, batch) = (&mut attempt.io, &mut attempt.batch);
        let mut token = None;
        while token.is_none() && io.receive(batch).expect("simulated packet I/O does not fail") > 0 {
            token = batch.packets().iter().find_map(|packet| path.token(batch.bytes(packet)));
        }
        if let Some(request) = path.poll_transmit(now) {
            let packet = Transmit { port: PortId(0), offset: 0, len: request.len() as u32 };
            io.transmit(&request, &[packet]).expect("simulated packet I/O does not fail");
        }
        let requests = std::mem::take(&mut locked(&attempt.socket).sent);
        let (endpoint, conn) = (attempt.endpoint, attempt.conn);
        if token.is_some() {
            attempt.validation = None;
            self.proven.insert(endpoint);
        }
        requests.into_iter().for_each(|request| self.send_datagram(endpoint, switch, request));
        if let (Some(token), Some(conn)) = (token, conn) {
            self.say(conn, &SessionRequest::Path { token });
        }
    }

    fn begin_attempt(&mut self, index: usize) {
        let process = &mut self.ranks[index];
        process.retry = None;
        process.attempts += 1;
        let number = process.attempts;
        let endpoint = endpoint(process.host, index, number);
        let socket = Arc::<Mutex<Socket>>::default();
        let io = SimIo {
            socket: Arc::clone(&socket),
            pause: Arc::clone(&process.pause),
            woken: Arc::clone(&process.woken),
        };
        let io = Authenticated::new(Box::new(io) as Box<dyn PacketIo>);
        process.attempt = Some(Attempt {
            batch: io.capabilities().batch(),
            io,
            number,
            conn: None,
            joining: None,
            validation: None,
            endpoint,
            switch: None,
            socket,
            bytes: Vec::new(),
        });
        let host = process.host;
        self.sockets.insert(endpoint, index);
        self.connect(Client::Rank(index, number), host);
    }

    /// The outcome of a connection.
    pub(in super::super) fn rank_connected(&mut self, index: usize, number: u64, conn: Option<u64>) {
        let now = instant(self.now);
        let process = &mut self.ranks[index];
        let wanted = process.outcome != Some(Outcome::Killed);
        let world = process.world();
        if let Some(attempt) = process.attempt.as_mut().filter(|attempt| wanted && attempt.number == number) {
            let Some(conn) = conn else {
                let message = "no controller can be reached".into();
                return self.attempt_failed(index, SessionFailure::SwitchLost { message });
            };
            attempt.conn = Some(conn);
            let (plan, job, rank) = (&process.plan, process.job, process.rank);
            let (tenant, token) = TENANTS[0];
            let mode = plan.settings().mode;
            let name = format!("job{}", plan.of.unwrap_or(job));
            let join = Join {
                credentials: Some(Credentials { tenant: tenant.into(), token: token.into() }),
                movable: plan.linked,
                authenticated: self.plan.authenticated,
                group: plan.of.map(|_| format!("group{job}")).unwrap_or_default(),
                ..Join::new(name, (rank, world), mode, plan.slots, attempt.endpoint.port())
            };
            attempt.joining = Some(Joining::new(now, &join, JOIN_TIMEOUT));
            self.say(conn, &SessionRequest::Join(join));
            return self.wake_rank(index, self.now);
        }
        let member = process.members.iter_mut().find(|member| wanted && member.number == number);
        match (member, conn) {
            (Some(member), Some(conn)) => {
                member.conn = Some(conn);
                member.bytes.clear();
                member.session.handle_connected(now);
            }
            (Some(member), None) => member.session.handle_connect_failure(now),
            (None, Some(conn)) => return self.close_from_client(conn),
            (None, None) => return,
        }
        self.wake_rank(index, self.now);
    }

    pub(super) fn attempt_failed(&mut self, index: usize, failure: SessionFailure) {
        let (job, rank) = (self.ranks[index].job, self.ranks[index].rank);
        self.note(|| format!("job {job} rank {rank}: not admitted: {failure:?}"));
        let now = self.now;
        let process = &mut self.ranks[index];
        let conn = process.attempt.take().and_then(|attempt| attempt.conn);
        let transient = match &failure {
            SessionFailure::Refused { reason, .. } => {
                use Refusal::{Busy, JobRunning, RankTaken, Unavailable};
                matches!(reason, Unavailable | Busy | JobRunning | RankTaken)
            }
            SessionFailure::SwitchLost { .. } => true,
            _ => false,
        };
        let first = process.admitted.is_none();
        let backoff_max = if first { BACKOFF_MAX } else { REJOIN_BACKOFF.1 };
        let delay = process.backoff;
        process.backoff = (delay * 2).min(backoff_max);
        let late = first && process.give_up.is_some_and(|end| now + delay >= end);
        if first && (late || !transient) {
            process.fail(Outcome::NotAdmitted(failure, now));
        } else if first || process.rank_handle.as_ref().is_some_and(|rank| rank.rejoining.is_wanted()) {
            process.retry = Some(now + delay);
        }
        conn.into_iter().for_each(|conn| self.close_from_client(conn));
        self.wake_rank(index, now);
    }

    pub(super) fn join_event(&mut self, index: usize, event: SessionEvent) {
        let now = instant(self.now);
        let process = &mut self.ranks[index];
        let Some(attempt) = &mut process.attempt else { return };
        let Some(joining) = &mut attempt.joining else { return };
        match joining.handle_event(now, event) {
            // Requests name the one UDP port that there is.
            Ok(JoinStep::Waiting | JoinStep::Multipath(_)) => {}
            Ok(JoinStep::Challenged(challenge)) => {
                let ip = challenge.switch.expect("a controller names its switches");
                let place = (attempt.endpoint, challenge.job, challenge.epoch);
                attempt.switch = Some(SocketAddr::new(ip, challenge.udp_port));
                if let Some(keys) = &challenge.keys {
                    let keys = JobKeys { job: challenge.job, epoch: challenge.epoch, keys: keys.clone() };
                    let done = attempt.io.authenticate(PortId(0), &keys, header::LEN);
                    done.expect("a simulated port takes keys");
                }
                attempt.validation = Some(PathValidation::new(now, challenge));
                self.note_place(place.0, place.1, place.2);
            }
            Ok(JoinStep::Admitted(admitted)) => {
                let (admission, membership) = *admitted;
                self.admitted(index, admission, membership);
            }
            Err(failure) => self.attempt_failed(index, failure),
        }
    }

    fn admitted(&mut self, index: usize, admission: Admission, membership: Membership) {
        let now = self.now;
        let process = &mut self.ranks[index];
        let Some(attempt) = process.attempt.take() else { return };
        let (job, rank) = (process.job, process.rank);
        let epoch = admission.epoch;
        let expected = (attempt.endpoint, admission.job, epoch);
        let io: Box<dyn PacketIo> = match attempt.io.into_inner() {
            Ok(plain) => plain,
            Err(authenticated) => Box::new(authenticated),
        };
        locked(&attempt.socket).received.clear();
        let ip = admission.switch.expect("a controller names its switches");
        let switch = SocketAddr::new(ip, admission.udp_port);
        let place = (process.rank, process.world());
        process.backoff = REJOIN_BACKOFF.0;
        let events = match &process.rank_handle {
            Some(handle) => handle.rejoining.offer(io, admission, place, &process.plan.settings()),
            None => process.start_engine(io, admission),
        };
        self.note(|| format!("job {job} rank {rank}: admitted in epoch {epoch}"));
        let of = *self.epochs.entry(epoch).or_insert(job);
        assert!(of == job, "epoch {epoch} was given to job {of} and again to job {job}");
        self.note_place(expected.0, expected.1, expected.2);
        let process = &mut self.ranks[index];
        process.admitted.get_or_insert(now);
        match events {
            Ok(events) => {
                let session = MemberSession::new(instant(now), membership);
                let Attempt { number, conn, endpoint, socket, bytes, .. } = attempt;
                process.members.push(Member {
                    number,
                    conn,
                    session,
                    events,
                    endpoint,
                    switch,
                    socket,
                    bytes,
                    left: false,
                    leaves: false,
                });
                process.submit_at = process.submit_at.max(now);
                process.engine_due = Duration::ZERO;
            }
            Err(Error::Closed) => attempt.conn.into_iter().for_each(|conn| self.close_from_client(conn)),
            Err(error) => panic!("an admission that no worker can run by: {error}"),
        }
    }
}
