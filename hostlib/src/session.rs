//! The control session: joins a job at a control port, a switch's own or a controller's, and keeps the membership.
//!
//! One TCP connection of JSON lines ([`netfold_control`]), by TLS where the builder says whom to trust. A small thread sends heartbeats and reads the port's; it
//! passes the loss of a peer or of the switch to the engine; its decisions are those of [`netfold_proto::session`]. If the connection closes without a leave request, the control port tells the
//! other ranks that this one is lost.
//!
//! A controller may give jobs a grace period: then a controller that is unreachable (it restarts, its host is cut off) is not lost.
//! Packets continue, and the thread reconnects and resumes the session; the controller then sends what happened meanwhile. A rank that
//! leaves while the controller is unreachable does so when it is reachable again, by the same thread.

mod connection;
mod control;
mod membership;
mod path;
mod reader;
mod security;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use netfold_control::{
    Admission, HEARTBEAT_MS, Join, MemberCounters, QuotaQuery, RankEventKind, Refusal, SessionEvent,
    SessionRequest,
};
use netfold_proto::Instant;
use netfold_proto::session::{
    JoinStep, Joining, MemberSession, Membership, SessionAction, SessionEnd, SessionFailure,
};

use crate::clock::Clock;
use crate::error::Error;
use crate::processor;
use crate::report::{ControlCounters, micros, millis};
use crate::session_events::SessionEvents;

use connection::{Connection, Unopened};
pub(crate) use control::{ControlConnection, EndMode};
pub(crate) use membership::MembershipSession;
pub(crate) use path::{PathIo, bind_paths};
use reader::{EventReader, Received};
pub(crate) use security::Security;

const HEARTBEAT: Duration = Duration::from_millis(HEARTBEAT_MS);

/// Longest time for the TCP connection to be made, for one address: enough for one lost SYN, which is retransmitted after a second.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);

/// Longest time for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(2500);

/// Longest time for one line to be sent: a port that does not read for so long counts as lost.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Longest wait for the reply about a quota: a control port replies at once.
const QUOTA_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection to the control port.
#[derive(Debug)]
pub(crate) struct Session {
    reader: EventReader,
    control: ControlConnection,
    peer: SocketAddr,
    local: SocketAddr,
    /// Addresses of the control port.
    addresses: Vec<SocketAddr>,
    security: Option<Security>,
    /// How the session can be resumed, after admission.
    membership: Option<Membership>,
    clock: Clock,
}

impl Session {
    /// Connects to the first of `addresses` that answers; by TLS, if `security` says whom to trust.
    pub(crate) fn connect(addresses: &[SocketAddr], security: Option<&Security>) -> Result<Self, Error> {
        let (stream, peer, local) = connect(addresses, security, HANDSHAKE_TIMEOUT)?;
        Ok(Self {
            reader: EventReader::new(stream.clone(), peer),
            control: ControlConnection::new(stream),
            peer,
            local,
            addresses: addresses.to_vec(),
            security: security.cloned(),
            membership: None,
            clock: Clock::system(),
        })
    }

    /// Asks a control port whether the tenant's quota has room for groups.
    ///
    /// # Errors
    ///
    /// [`Error::Quota`] where it has not. Whatever else goes wrong is left to the joins of the groups.
    pub(crate) fn check_quota(
        addresses: &[SocketAddr],
        security: Option<&Security>,
        query: QuotaQuery,
    ) -> Result<(), Error> {
        let Ok(mut session) = Self::connect(addresses, security) else { return Ok(()) };
        // When it fails, the reader finds out.
        let _ = session.control.send(&SessionRequest::Quota(query));
        match session.reader.next(QUOTA_TIMEOUT) {
            Ok(Received::Event(SessionEvent::Refused { reason: Refusal::Quota, message })) => {
                Err(Error::Quota { message })
            }
            _ => Ok(()),
        }
    }

    /// The control port's address.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// This side's address.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    pub(crate) fn control(&self) -> ControlConnection {
        self.control.clone()
    }

    /// Asks to take part in a job and waits until every rank has come and has validated its path by its packet I/O, or `cancelled` returns
    /// true.
    pub(crate) fn join(
        &mut self,
        join: Join,
        mut path: PathIo<'_>,
        timeout: Duration,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Admission, Error> {
        let peer = self.peer;
        let mut joining = Joining::new(self.clock.now(), &join, timeout);
        // When it fails, what the port sent before it closed explains it.
        let _ = self.control.send(&SessionRequest::Join(join.clone()));
        loop {
            let now = self.clock.now();
            let left = joining.waited(now).1;
            if left.is_zero() || cancelled() {
                return Err(error_of(joining.timed_out(now), peer));
            }
            let step = match self.await_event(&mut path, left)? {
                Received::Event(event) => joining.handle_event(self.clock.now(), event),
                Received::Timeout => joining.handle_idle(self.clock.now()).map(|()| JoinStep::Waiting),
                Received::Closed | Received::Broken => Err(joining.handle_close()),
            };
            match step.map_err(|failure| error_of(failure, peer))? {
                JoinStep::Waiting => {}
                JoinStep::Challenged(challenge) => path.begin(challenge, peer)?,
                JoinStep::Multipath(udp_ports) => {
                    let udp_port = path.reopen(udp_ports)?;
                    let _ = self.control.send(&SessionRequest::Join(Join {
                        udp_port,
                        udp_ports,
                        ..join.clone()
                    }));
                }
                JoinStep::Admitted(admitted) => {
                    let (admission, membership) = *admitted;
                    self.membership = Some(membership);
                    return Ok(admission);
                }
            }
        }
    }

    /// The next event before admission, or [`Received::Timeout`] after a moment, in which a path that is being validated had its turn.
    fn await_event(&mut self, path: &mut PathIo<'_>, most: Duration) -> Result<Received, Error> {
        let mut longest = HEARTBEAT;
        if path.is_validating() {
            longest = Duration::ZERO;
            if let Some(token) = path.turn()? {
                // When it fails, the reader finds out.
                let _ = self.control.send(&SessionRequest::Path { token });
            }
        }
        self.reader.next(most.min(longest))
    }

    /// Keeps the session and passes its events to the engine, until either side ends it.
    pub(crate) fn run(mut self, events: &SessionEvents, counters: &ControlCounters) {
        /// Notifies the threads that wait for the end, also after a panic.
        struct FinishOnDrop(ControlConnection);
        impl Drop for FinishOnDrop {
            fn drop(&mut self) {
                self.0.set_finished();
            }
        }
        let _over = FinishOnDrop(self.control.clone());
        let Some(membership) = self.membership.take() else { return };
        let mut runner = Runner {
            place: membership.resume.as_ref().map_or((0, 0), |resume| (resume.rank, resume.job)),
            machine: MemberSession::new(self.clock.now(), membership),
            opened: None,
            end_mode: None,
            violation: None,
            session: self,
            events,
            counters,
        };
        runner.run();
    }
}

/// The thread of a session: carries out what the machine decides.
struct Runner<'a> {
    session: Session,
    machine: MemberSession,
    /// Rank and job, for people.
    place: (u16, u16),
    /// A connection that was opened to resume the session.
    opened: Option<Connection>,
    /// How this side wants the session to end, as the machine knows.
    end_mode: Option<EndMode>,
    /// The error of bytes that are no events.
    violation: Option<Error>,
    events: &'a SessionEvents,
    counters: &'a ControlCounters,
}

impl Runner<'_> {
    fn run(&mut self) {
        loop {
            self.note_end_mode();
            while let Some(action) = self.machine.poll_action() {
                self.carry_out(action);
            }
            match self.machine.end() {
                None => self.wait(),
                Some(SessionEnd::Done) => return,
                Some(SessionEnd::Lost(failure)) => {
                    let error = error_of(failure.clone(), self.session.peer);
                    self.events.fail(self.violation.take().unwrap_or(error));
                    return self.session.control.abort();
                }
            }
        }
    }

    fn now(&self) -> Instant {
        self.session.clock.now()
    }

    /// Passes on that this side wants to end the session.
    fn note_end_mode(&mut self) {
        let end_mode = self.session.control.end_mode();
        if self.end_mode != end_mode {
            self.end_mode = end_mode;
            match end_mode {
                None => {}
                Some(EndMode::Leave) => self.machine.leave(self.now(), self.session.control.leave_sent()),
                Some(EndMode::Abort) => self.machine.abort(),
            }
        }
    }

    /// Waits until the port has said something, this side wants to end the session, or the machine's deadline has passed.
    fn wait(&mut self) {
        let timeout = self.machine.deadline() - self.now();
        if !self.machine.is_connected() {
            self.session.control.sleep(timeout, self.end_mode);
            return self.machine.handle_idle(self.now());
        }
        let received = self.session.reader.next(timeout);
        // Before the end of the connection is judged.
        self.note_end_mode();
        let now = self.now();
        match received {
            Ok(Received::Event(event)) => self.machine.handle_event(now, event),
            Ok(Received::Timeout) => self.machine.handle_idle(now),
            Ok(Received::Closed) => self.machine.handle_close(now, true),
            Ok(Received::Broken) => self.machine.handle_close(now, false),
            Err(error) => {
                self.violation = Some(error);
                self.machine.handle_violation(SessionFailure::Protocol { what: "no event" });
            }
        }
    }

    fn carry_out(&mut self, action: SessionAction) {
        let (rank, job) = self.place;
        match action {
            SessionAction::Heartbeat => {
                let cpu_wait_us = micros(processor::waiting_time());
                let counters = MemberCounters { cpu_wait_us, ..self.events.counters() };
                self.send(&SessionRequest::Alive { counters: Some(counters) });
                // After the counters, by which the control port detects that the stall is over.
                if let Some((age, report)) = self.events.take_stall() {
                    self.send(&SessionRequest::Stalled(report.delayed(millis(age))));
                }
                if self.machine.reports_patterns()
                    && let Some(pattern) = self.events.take_pattern()
                {
                    self.send(&SessionRequest::Pattern(pattern));
                }
                if self.machine.reports_paths()
                    && let Some(report) = self.events.take_paths()
                {
                    self.send(&SessionRequest::Paths(report));
                }
            }
            SessionAction::Send(request) => self.send(&request),
            SessionAction::Connect { timeout } => self.connect(timeout),
            SessionAction::Disconnect => {
                self.opened = None;
                self.session.control.detach();
            }
            SessionAction::Broke { reason } => {
                let grace = self.machine.grace();
                log::warn!(
                    "rank {rank}: the control session of job {job} broke ({reason}); packets continue, and it is resumed within {grace:?}"
                );
                self.counters.count_break();
                self.events.note_session(RankEventKind::SessionBroke);
            }
            SessionAction::Resumed { away } => {
                if let Some(opened) = self.opened.take() {
                    self.session.control.attach(opened);
                }
                self.counters.count_resumption();
                self.events.note_session(RankEventKind::SessionResumed);
                log::info!("rank {rank}: the control session of job {job} is resumed after {away:?}");
                if self.end_mode == Some(EndMode::Leave) {
                    self.machine.leave(self.now(), self.session.control.leave_sent());
                }
            }
            SessionAction::PeerLeft { rank } => self.events.note_leave(rank),
            SessionAction::Band(band) => self.events.note_band(band),
            SessionAction::Hold(hold) => self.events.note_hold(hold),
            SessionAction::UsePorts(ports) => self.events.note_ports(ports),
        }
    }

    fn send(&mut self, request: &SessionRequest) {
        let sent = match &self.opened {
            Some(opened) => control::write(opened, request),
            None => self.session.control.send(request),
        };
        if sent.is_err() {
            self.machine.handle_send_failure();
        }
    }

    fn connect(&mut self, timeout: Duration) {
        let Session { addresses, security, .. } = &self.session;
        match connect(addresses, security.as_ref(), timeout) {
            Ok((stream, peer, _)) => {
                self.session.reader = EventReader::new(stream.clone(), peer);
                self.opened = Some(stream);
                self.machine.handle_connected(self.now());
            }
            Err(_) => self.machine.handle_connect_failure(self.now()),
        }
    }
}

/// A connection to the first of `addresses` that answers, with the addresses of its ends. TCP and TLS take at most `timeout` each.
fn connect(
    addresses: &[SocketAddr],
    security: Option<&Security>,
    timeout: Duration,
) -> Result<(Connection, SocketAddr, SocketAddr), Error> {
    let unreached = |address: String, source| Error::Connect { address, source: Arc::new(source) };
    let mut last = unreached(String::new(), ErrorKind::AddrNotAvailable.into());
    for address in addresses {
        last = match Connection::open(
            address,
            (timeout.min(CONNECT_TIMEOUT), timeout.min(HANDSHAKE_TIMEOUT)),
            security,
        ) {
            Ok(opened) => return Ok(opened),
            Err(Unopened::Tcp(source)) => unreached(address.to_string(), source),
            Err(Unopened::Tls(fault)) => Error::Tls { address: address.to_string(), fault: Box::new(fault) },
        };
    }
    Err(last)
}

/// The error of a session with the control port at an address.
pub(crate) fn error_of(failure: SessionFailure, address: SocketAddr) -> Error {
    match failure {
        SessionFailure::PeerLost { rank, message } => Error::PeerLost { rank, message },
        SessionFailure::Refused { reason, message } => Error::Refused { address, reason, message },
        SessionFailure::SwitchLost { message } => Error::switch_lost(message),
        SessionFailure::SilentPort => Error::SilentPort { address },
        SessionFailure::JoinTimeout { waited } => Error::JoinTimeout { waited },
        SessionFailure::Protocol { what } => Error::Control { what },
    }
}
