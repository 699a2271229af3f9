//! The control session: joins a job at a control port, a switch's own or a controller's, and watches over it.
//!
//! One TCP connection of JSON lines ([`netfold_control`]), by TLS where the builder says whom to trust. A small thread sends signs of life and reads the port's; it
//! tells the engine when a peer or the switch is gone. Closing the connection without a farewell tells the others
//! that this rank is lost.
//!
//! A controller may give jobs a grace time: then its absence (it restarts, its host is cut off) is no loss. Packets go on, and the
//! thread connects again and resumes the session. What happened meanwhile the controller tells afterwards. A rank that wants
//! to leave while the controller is away leaves when it is back, by the same thread.

mod connection;
mod events;
mod line;
mod security;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use netfold_control::{Admission, Event, HEARTBEAT_MS, Join, LEASE_MS, Refusal, Request, Resume};

use crate::error::Error;
use crate::news::News;
use crate::report::ControlCounters;

use connection::{Connection, Unopened};
use events::{Events, Heard};
use line::Ending;
pub(crate) use line::Line;
pub(crate) use security::Security;
pub use security::TlsFault;

const HEARTBEAT: Duration = Duration::from_millis(HEARTBEAT_MS);
const LEASE: Duration = Duration::from_millis(LEASE_MS);

/// Longest time for the connection to be made, for one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Longest time for one line to be sent: a port that does not read for so long is as good as gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the port's end of the farewell is waited for.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(1);

/// Shortest and longest pause between attempts to resume a session.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How long a controller that takes the connection may take to answer an attempt.
const RESUME_TIMEOUT: Duration = Duration::from_secs(3);

/// A connection to the control port.
#[derive(Debug)]
pub(crate) struct Session {
    events: Events,
    line: Line,
    peer: SocketAddr,
    local: SocketAddr,
    /// Where the control port may be found again.
    addresses: Vec<SocketAddr>,
    security: Option<Security>,
    membership: Option<Membership>,
}

/// What a session that broke is resumed with.
#[derive(Debug, Clone)]
struct Membership {
    resume: Resume,
    grace: Duration,
    /// The control port has the job's classes of packets change.
    banded: bool,
}

/// How a connection came to its end.
enum Outcome {
    /// This side has said farewell, or hung up, and nothing is left to do.
    Done,
    /// The place at the switch is lost.
    Lost(Error),
    /// The port is not there any more.
    Away(&'static str),
    /// The session goes on over another connection.
    Back,
}

/// What became of an attempt to resume.
enum Attempt {
    Resumed(Connection, Events),
    /// Not now.
    Failed,
    /// Never.
    Lost(Error),
}

impl Session {
    /// Connects to the first of `addresses` that answers; by TLS, if `security` says whom to trust.
    pub(crate) fn connect(addresses: &[SocketAddr], security: Option<&Security>) -> Result<Self, Error> {
        let (stream, peer, local) = connect(addresses, security, CONNECT_TIMEOUT)?;
        Ok(Self {
            events: Events::new(stream.clone()),
            line: Line::new(stream),
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

    pub(crate) fn line(&self) -> Line {
        self.line.clone()
    }

    /// Asks to take part in a job and waits until every rank has come, or `given_up` says that it is of no more use.
    pub(crate) fn join(
        &mut self,
        join: Join,
        timeout: Duration,
        given_up: &dyn Fn() -> bool,
    ) -> Result<Admission, Error> {
        let (version, rank) = (join.version, join.rank);
        // When it fails, what the port said before it closed explains it.
        let _ = self.line.send(&Request::Join(join));
        let start = Instant::now();
        loop {
            let waited = start.elapsed();
            if waited >= timeout || given_up() {
                return Err(Error::JoinTimeout { waited: waited.min(timeout) });
            }
            match self.events.next((timeout - waited).min(HEARTBEAT))? {
                Heard::Event(Event::Admitted(admission)) => {
                    let Admission { job, epoch, key, .. } = admission;
                    self.membership = Some(Membership {
                        resume: Resume { version, job, epoch, key, rank },
                        grace: Duration::from_millis(admission.grace_ms.into()),
                        banded: admission.band.is_some(),
                    });
                    return Ok(admission);
                }
                Heard::Event(Event::Alive {} | Event::Resumed {} | Event::PeerLeft { .. })
                | Heard::Silence => {}
                Heard::Event(event) => {
                    // Not reached: the events that say nothing are above.
                    return Err(verdict_of(event).unwrap_or(Error::Control { what: "an event out of order" }));
                }
                Heard::End | Heard::Broken => {
                    return Err(Error::switch_lost("the control connection closed before admission"));
                }
            }
        }
    }

    /// Keeps the session alive and tells the engine what happens, until either side ends it.
    pub(crate) fn watch(mut self, news: &News, counters: &ControlCounters) {
        /// Tells those who wait for the farewell, also after a panic.
        struct Over(Line);
        impl Drop for Over {
            fn drop(&mut self) {
                self.0.set_over();
            }
        }
        let _over = Over(self.line.clone());
        loop {
            let outcome = match self.attend(news) {
                Outcome::Away(what) if self.grace().is_zero() => Outcome::Lost(Error::switch_lost(what)),
                Outcome::Away(what) => {
                    counters.count_break();
                    self.resume(what, news, counters)
                }
                outcome => outcome,
            };
            match outcome {
                Outcome::Done => return,
                Outcome::Lost(error) => {
                    news.condemn(error);
                    return self.line.hang_up();
                }
                Outcome::Away(_) | Outcome::Back => {}
            }
        }
    }

    fn grace(&self) -> Duration {
        self.membership.as_ref().map(|membership| membership.grace).unwrap_or_default()
    }

    /// Attends to one connection until it ends.
    fn attend(&mut self, news: &News) -> Outcome {
        let mut heard = Instant::now();
        let mut beat = Instant::now();
        // Also after a resumption: what has changed meanwhile is not told by itself.
        let banded = self.membership.as_ref().is_some_and(|membership| membership.banded);
        let mut broken = banded && self.line.send(&Request::Band {}).is_err();
        loop {
            match self.line.ending() {
                None => {}
                Some(Ending::Leave) => return self.farewell(),
                Some(Ending::HangUp) => return Outcome::Done,
            }
            if !broken && beat.elapsed() >= HEARTBEAT {
                beat = Instant::now();
                // What the port said last is still read: it may explain the break.
                broken = self.line.send(&Request::Alive {}).is_err();
            }
            match self.events.next(HEARTBEAT.saturating_sub(beat.elapsed())) {
                Ok(Heard::Event(event)) => {
                    heard = Instant::now();
                    match event {
                        Event::PeerLeft { rank } => news.note_departure(rank),
                        Event::Band(band) => news.note_band(band),
                        event => {
                            if let Some(verdict) = verdict_of(event) {
                                return Outcome::Lost(verdict);
                            }
                        }
                    }
                }
                // Judged only when there was nothing to read, so that a process that was stopped does not mistake its
                // own absence for the port's.
                Ok(Heard::Silence) if heard.elapsed() >= LEASE => {
                    return Outcome::Away("its control port gave no sign of life");
                }
                Ok(Heard::Silence) if broken => return Outcome::Away("the control connection broke"),
                Ok(Heard::Silence) => {}
                Ok(Heard::End | Heard::Broken) if self.line.ending() == Some(Ending::Leave) => {
                    return self.farewell();
                }
                Ok(Heard::End | Heard::Broken) => {
                    return Outcome::Away("the control connection closed");
                }
                Err(error) => return Outcome::Lost(error),
            }
        }
    }

    /// Waits for the port to close its side too: closing with unread bytes could destroy the farewell on its way.
    fn farewell(&mut self) -> Outcome {
        let start = Instant::now();
        while let Some(left) = FAREWELL_TIMEOUT.checked_sub(start.elapsed())
            && self.line.was_told()
        {
            match self.events.next(left) {
                Ok(Heard::Event(_)) => {}
                Ok(Heard::End) | Err(_) => return Outcome::Done,
                Ok(Heard::Silence | Heard::Broken) => break,
            }
        }
        // The port may not have heard it.
        if self.grace().is_zero() { Outcome::Done } else { Outcome::Away("nobody heard the farewell") }
    }

    /// Connects again until the session goes on, the grace time is over or nobody wants it any more.
    fn resume(&mut self, what: &'static str, news: &News, counters: &ControlCounters) -> Outcome {
        let Some(Membership { resume, grace, .. }) = self.membership.clone() else { return Outcome::Done };
        let start = Instant::now();
        log::warn!(
            "rank {}: the control session of job {} broke ({what}); packets go on, and it is resumed within {grace:?}",
            resume.rank,
            resume.job
        );
        self.line.unplug();
        let mut pause = PAUSES.0;
        loop {
            let ending = self.line.ending();
            if ending == Some(Ending::HangUp) {
                return Outcome::Done;
            }
            let left = grace.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Outcome::Lost(Error::switch_lost(format!("{what}, and did not come back in time")));
            }
            match self.attempt(&resume, left.min(RESUME_TIMEOUT), news) {
                Attempt::Resumed(stream, events) => {
                    self.events = events;
                    self.line.plug(stream);
                    counters.count_resumption();
                    let (rank, job, away) = (resume.rank, resume.job, start.elapsed());
                    log::info!("rank {rank}: the control session of job {job} goes on after {away:?}");
                    return Outcome::Back;
                }
                Attempt::Failed => {}
                Attempt::Lost(error) => return Outcome::Lost(error),
            }
            // Ranks that lost the same controller do not all come back at the same moment.
            let spread = 1.0 - f64::from(resume.rank % 16) / 32.0;
            self.line.sleep(pause.mul_f64(spread).min(left), ending);
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    fn attempt(&mut self, resume: &Resume, timeout: Duration, news: &News) -> Attempt {
        let start = Instant::now();
        let connected = connect(&self.addresses, self.security.as_ref(), timeout);
        let Ok((stream, ..)) = connected else { return Attempt::Failed };
        let mut events = Events::new(stream.clone());
        if line::write(&stream, &Request::Resume(resume.clone())).is_err() {
            return Attempt::Failed;
        }
        while let Some(left) = timeout.checked_sub(start.elapsed()) {
            match events.next(left) {
                Ok(Heard::Event(Event::Resumed {})) => return Attempt::Resumed(stream, events),
                Ok(Heard::Event(Event::PeerLeft { rank })) => news.note_departure(rank),
                // A controller that has just come up.
                Ok(Heard::Event(Event::Refused { reason: Refusal::Unavailable | Refusal::Busy, .. })) => {
                    return Attempt::Failed;
                }
                Ok(Heard::Event(Event::Refused { message, .. })) => {
                    return Attempt::Lost(Error::switch_lost(format!(
                        "its controller did not let this rank go on: {message}"
                    )));
                }
                Ok(Heard::Event(event)) => {
                    if let Some(verdict) = verdict_of(event) {
                        return Attempt::Lost(verdict);
                    }
                }
                Ok(Heard::Silence | Heard::End | Heard::Broken) => return Attempt::Failed,
                Err(error) => return Attempt::Lost(error),
            }
        }
        Attempt::Failed
    }
}

/// A connection to the first of `addresses` that answers, with the addresses of its ends.
fn connect(
    addresses: &[SocketAddr],
    security: Option<&Security>,
    timeout: Duration,
) -> Result<(Connection, SocketAddr, SocketAddr), Error> {
    let unreached = |address: String, source| Error::Connect { address, source: Arc::new(source) };
    let mut last = unreached(String::new(), ErrorKind::AddrNotAvailable.into());
    for address in addresses {
        last = match Connection::open(address, timeout.min(CONNECT_TIMEOUT), security) {
            Ok(opened) => return Ok(opened),
            Err(Unopened::Tcp(source)) => unreached(address.to_string(), source),
            Err(Unopened::Tls(fault)) => Error::Tls { address: address.to_string(), fault: Box::new(fault) },
        };
    }
    Err(last)
}

/// The end of the job, if the event is one.
fn verdict_of(event: Event) -> Option<Error> {
    match event {
        Event::Alive {}
        | Event::Admitted(_)
        | Event::Resumed {}
        | Event::PeerLeft { .. }
        | Event::Band(_) => None,
        Event::PeerLost { rank, message } => Some(Error::PeerLost { rank, message }),
        Event::Refused { reason, message } => Some(Error::Refused { reason, message }),
        Event::SwitchLost { message } => Some(Error::switch_lost(message)),
    }
}
