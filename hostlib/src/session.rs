//! The control session: joins a job at a control port, a switch's own or a controller's, and keeps the membership.
//!
//! One TCP connection of JSON lines ([`netfold_control`]), by TLS where the builder says whom to trust. A small thread sends heartbeats and reads the port's; it
//! passes the loss of a peer or of the switch to the engine. If the connection closes without a leave request, the control port tells the
//! other ranks that this one is lost.
//!
//! A controller may give jobs a grace period: then a controller that is unreachable (it restarts, its host is cut off) is not lost.
//! Packets continue, and the thread reconnects and resumes the session; the controller then sends what happened meanwhile. A rank that
//! leaves while the controller is unreachable does so when it is reachable again, by the same thread.

mod connection;
mod control;
mod path;
mod reader;
mod security;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netfold_control::{
    Admission, HEARTBEAT_MS, Join, LEASE_MS, Refusal, Resume, SessionEvent, SessionRequest,
};

use crate::error::Error;
use crate::report::ControlCounters;
use crate::session_events::SessionEvents;

use connection::{Connection, Unopened};
pub(crate) use control::ControlConnection;
use control::EndMode;
pub(crate) use path::PathIo;
use reader::{EventReader, Received};
pub(crate) use security::Security;

const HEARTBEAT: Duration = Duration::from_millis(HEARTBEAT_MS);
const LEASE: Duration = Duration::from_millis(LEASE_MS);

/// Longest time for the TCP connection to be made, for one address: enough for one lost SYN, which is retransmitted after a second.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);

/// Longest time for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_millis(2500);

/// Longest time for one line to be sent: a port that does not read for so long counts as lost.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long this side waits for the port to close after the leave request.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a port that has accepted the connection may be silent after the request to join: it sends a heartbeat every [`HEARTBEAT`], also
/// while other ranks are awaited.
const FIRST_EVENT_TIMEOUT: Duration = Duration::from_millis(4 * HEARTBEAT_MS);

/// Shortest and longest back-off between attempts to resume a session.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How long a controller that accepts the connection may take to answer an attempt.
const RESUME_TIMEOUT: Duration = Duration::from_secs(3);

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
    membership: Option<Membership>,
}

/// What a broken session is resumed with.
#[derive(Debug, Clone)]
struct Membership {
    /// Where the control port allows that.
    resume: Option<Resume>,
    grace: Duration,
    /// The control port may change the job's classes of packets.
    banded: bool,
}

/// How a connection ended.
enum ConnectionEnd {
    /// This side has left or aborted, and nothing remains to be done.
    Done,
    /// The attachment to the switch is lost.
    Lost(Error),
    /// The port is unreachable.
    Unreachable(&'static str),
    /// The session continues on another connection.
    Resumed,
}

/// The outcome of an attempt to resume.
enum ResumeAttempt {
    Resumed(Connection, EventReader),
    /// Not now.
    Failed,
    /// Never.
    Lost(Error),
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
        })
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
        let (version, rank, peer, authenticated) = (join.version, join.rank, self.peer, join.authenticated);
        // When it fails, what the port sent before it closed explains it.
        let _ = self.control.send(&SessionRequest::Join(join));
        let start = Instant::now();
        // Since when the port is silent, until its first event.
        let mut silence = Some(start);
        loop {
            let waited = start.elapsed();
            if waited >= timeout || cancelled() {
                return Err(Error::JoinTimeout { waited: waited.min(timeout) });
            }
            let received = self.await_event(&mut path, &mut silence, timeout - waited)?;
            match received {
                Received::Event(SessionEvent::Path(challenge))
                    if authenticated && challenge.keys.is_none() =>
                {
                    return Err(Error::Control { what: "no keys for authenticated packets" });
                }
                Received::Event(SessionEvent::Path(challenge)) => path.begin(challenge, peer)?,
                Received::Event(SessionEvent::Admitted(mut admission)) => {
                    let Admission { job, epoch, .. } = admission;
                    // The ticket goes nowhere else.
                    let ticket = admission.ticket.take();
                    self.membership = Some(Membership {
                        resume: ticket.map(|ticket| Resume { version, job, epoch, rank, ticket }),
                        grace: Duration::from_millis(admission.grace_ms.into()),
                        banded: admission.band.is_some(),
                    });
                    return Ok(admission);
                }
                Received::Event(
                    SessionEvent::Alive {} | SessionEvent::Resumed {} | SessionEvent::PeerLeft { .. },
                )
                | Received::Timeout => {}
                Received::Event(event) => {
                    // Not reached: the other events are above.
                    return Err(
                        failure_of(event, peer).unwrap_or(Error::Control { what: "an event out of order" })
                    );
                }
                Received::Closed | Received::Broken => {
                    return Err(Error::switch_lost("the control connection closed before admission"));
                }
            }
        }
    }

    /// The next event before admission, or [`Received::Timeout`] after a moment, in which a path that is being validated had its turn.
    fn await_event(
        &mut self,
        path: &mut PathIo<'_>,
        silence: &mut Option<Instant>,
        most: Duration,
    ) -> Result<Received, Error> {
        let mut longest = HEARTBEAT;
        if path.is_validating() {
            longest = Duration::ZERO;
            if let Some(token) = path.turn()? {
                // When it fails, the reader finds out.
                let _ = self.control.send(&SessionRequest::Path { token });
            }
        }
        let turn = Instant::now();
        let received = self.reader.next(most.min(longest))?;
        match (&received, silence.as_mut()) {
            (Received::Event(_), _) => *silence = None,
            // This process was stopped or starved, and perhaps the port with it.
            (Received::Timeout, Some(since)) if turn.elapsed() > 2 * HEARTBEAT => *since = Instant::now(),
            (Received::Timeout, Some(since)) if since.elapsed() >= FIRST_EVENT_TIMEOUT => {
                return Err(Error::SilentPort { address: self.peer });
            }
            _ => {}
        }
        Ok(received)
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
        loop {
            let outcome = match self.serve_connection(events) {
                ConnectionEnd::Unreachable(reason) if self.grace().is_zero() => {
                    ConnectionEnd::Lost(Error::switch_lost(reason))
                }
                ConnectionEnd::Unreachable(reason) => {
                    counters.count_break();
                    self.resume(reason, events, counters)
                }
                outcome => outcome,
            };
            match outcome {
                ConnectionEnd::Done => return,
                ConnectionEnd::Lost(error) => {
                    events.fail(error);
                    return self.control.abort();
                }
                ConnectionEnd::Unreachable(_) | ConnectionEnd::Resumed => {}
            }
        }
    }

    /// How long the session may be resumed after a break; zero where it cannot.
    fn grace(&self) -> Duration {
        let resumable = self.membership.as_ref().filter(|membership| membership.resume.is_some());
        resumable.map(|membership| membership.grace).unwrap_or_default()
    }

    /// Serves one connection until it ends.
    fn serve_connection(&mut self, events: &SessionEvents) -> ConnectionEnd {
        let mut last_received = Instant::now();
        let mut heartbeat_at = Instant::now();
        // The last turn of this loop.
        let mut turn = Instant::now();
        // Also after a resumption: the port does not repeat a change by itself.
        let banded = self.membership.as_ref().is_some_and(|membership| membership.banded);
        let mut broken = banded && self.control.send(&SessionRequest::Band {}).is_err();
        loop {
            match self.control.end_mode() {
                None => {}
                Some(EndMode::Leave) => return self.await_close(),
                Some(EndMode::Abort) => return ConnectionEnd::Done,
            }
            if !broken && heartbeat_at.elapsed() >= HEARTBEAT {
                heartbeat_at = Instant::now();
                // What the port sent last is still read: it may explain the break.
                broken =
                    self.control.send(&SessionRequest::Alive { counters: Some(events.counters()) }).is_err();
            }
            let received = self.reader.next(HEARTBEAT.saturating_sub(heartbeat_at.elapsed()));
            let now = Instant::now();
            if now - turn > 2 * HEARTBEAT {
                // This process was stopped or starved, and perhaps the port with it: its lease begins anew.
                last_received = now;
            }
            turn = now;
            match received {
                Ok(Received::Event(event)) => {
                    last_received = Instant::now();
                    match event {
                        SessionEvent::PeerLeft { rank } => events.note_leave(rank),
                        SessionEvent::Band(band) => events.note_band(band),
                        event => {
                            if let Some(failure) = failure_of(event, self.peer) {
                                return ConnectionEnd::Lost(failure);
                            }
                        }
                    }
                }
                // Judged only when there was nothing to read, so that a process that was stopped does not mistake its
                // own pause for the port's.
                Ok(Received::Timeout) if now - last_received >= LEASE => {
                    return ConnectionEnd::Unreachable("its control port sent no heartbeat");
                }
                Ok(Received::Timeout) if broken => {
                    return ConnectionEnd::Unreachable("the control connection broke");
                }
                Ok(Received::Timeout) => {}
                Ok(Received::Closed | Received::Broken)
                    if self.control.end_mode() == Some(EndMode::Leave) =>
                {
                    return self.await_close();
                }
                Ok(Received::Closed | Received::Broken) => {
                    return ConnectionEnd::Unreachable("the control connection closed");
                }
                Err(error) => return ConnectionEnd::Lost(error),
            }
        }
    }

    /// Waits for the port to close its side too: closing with unread bytes could discard the leave request on its way.
    fn await_close(&mut self) -> ConnectionEnd {
        let start = Instant::now();
        while let Some(left) = LEAVE_TIMEOUT.checked_sub(start.elapsed())
            && self.control.leave_sent()
        {
            match self.reader.next(left) {
                Ok(Received::Event(_)) => {}
                Ok(Received::Closed) | Err(_) => return ConnectionEnd::Done,
                Ok(Received::Timeout | Received::Broken) => break,
            }
        }
        // The port may not have received it.
        if self.grace().is_zero() {
            ConnectionEnd::Done
        } else {
            ConnectionEnd::Unreachable("the leave request was not received")
        }
    }

    /// Reconnects until the session is resumed, the grace period is over or this side aborts.
    fn resume(
        &mut self,
        reason: &'static str,
        events: &SessionEvents,
        counters: &ControlCounters,
    ) -> ConnectionEnd {
        let Some(Membership { resume: Some(resume), grace, .. }) = self.membership.clone() else {
            return ConnectionEnd::Done;
        };
        let start = Instant::now();
        log::warn!(
            "rank {}: the control session of job {} broke ({reason}); packets continue, and it is resumed within {grace:?}",
            resume.rank,
            resume.job
        );
        self.control.detach();
        let mut delay = BACKOFF.0;
        loop {
            let end_mode = self.control.end_mode();
            if end_mode == Some(EndMode::Abort) {
                return ConnectionEnd::Done;
            }
            let left = grace.saturating_sub(start.elapsed());
            if left.is_zero() {
                return ConnectionEnd::Lost(Error::switch_lost(format!(
                    "{reason}, and did not come back in time"
                )));
            }
            match self.try_resume(&resume, left.min(RESUME_TIMEOUT), events) {
                ResumeAttempt::Resumed(stream, reader) => {
                    self.reader = reader;
                    self.control.attach(stream);
                    counters.count_resumption();
                    let (rank, job, away) = (resume.rank, resume.job, start.elapsed());
                    log::info!("rank {rank}: the control session of job {job} is resumed after {away:?}");
                    return ConnectionEnd::Resumed;
                }
                ResumeAttempt::Failed => {}
                ResumeAttempt::Lost(error) => return ConnectionEnd::Lost(error),
            }
            // Ranks that lost the same controller do not all come back at the same moment.
            let spread = 1.0 - f64::from(resume.rank % 16) / 32.0;
            self.control.sleep(delay.mul_f64(spread).min(left), end_mode);
            delay = (delay * 2).min(BACKOFF.1);
        }
    }

    fn try_resume(&mut self, resume: &Resume, timeout: Duration, events: &SessionEvents) -> ResumeAttempt {
        let start = Instant::now();
        let connected = connect(&self.addresses, self.security.as_ref(), timeout);
        let Ok((stream, peer, _)) = connected else { return ResumeAttempt::Failed };
        let mut reader = EventReader::new(stream.clone(), peer);
        if control::write(&stream, &SessionRequest::Resume(resume.clone())).is_err() {
            return ResumeAttempt::Failed;
        }
        while let Some(left) = timeout.checked_sub(start.elapsed()) {
            match reader.next(left) {
                Ok(Received::Event(SessionEvent::Resumed {})) => {
                    return ResumeAttempt::Resumed(stream, reader);
                }
                Ok(Received::Event(SessionEvent::PeerLeft { rank })) => events.note_leave(rank),
                // A controller that has just come up.
                Ok(Received::Event(SessionEvent::Refused {
                    reason: Refusal::Unavailable | Refusal::Busy,
                    ..
                })) => {
                    return ResumeAttempt::Failed;
                }
                Ok(Received::Event(SessionEvent::Refused { message, .. })) => {
                    return ResumeAttempt::Lost(Error::switch_lost(format!(
                        "its controller refused to resume the session: {message}"
                    )));
                }
                Ok(Received::Event(event)) => {
                    if let Some(failure) = failure_of(event, peer) {
                        return ResumeAttempt::Lost(failure);
                    }
                }
                Ok(Received::Timeout | Received::Closed | Received::Broken) => return ResumeAttempt::Failed,
                Err(error) => return ResumeAttempt::Lost(error),
            }
        }
        ResumeAttempt::Failed
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

/// The error of an event, sent by the control port at an address, that ends the job.
fn failure_of(event: SessionEvent, address: SocketAddr) -> Option<Error> {
    match event {
        SessionEvent::Alive {}
        | SessionEvent::Path(_)
        | SessionEvent::Admitted(_)
        | SessionEvent::Resumed {}
        | SessionEvent::PeerLeft { .. }
        | SessionEvent::Band(_) => None,
        SessionEvent::PeerLost { rank, message } => Some(Error::PeerLost { rank, message }),
        SessionEvent::Refused { reason, message } => Some(Error::Refused { address, reason, message }),
        SessionEvent::SwitchLost { message } => Some(Error::switch_lost(message)),
    }
}
