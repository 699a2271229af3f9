//! A rank's side of a membership session: enrolls at a control port, resumes the session on other connections, and requests the next generation
//! of its job.
//!
//! [`Enrollment`] is a state machine without I/O or clock. Its caller carries out [`EnrollmentAction`]s, passes on what arrives and the
//! time, and calls [`Enrollment::handle_idle`] at [`Enrollment::deadline`].

use core::time::Duration;
use std::collections::VecDeque;

use netfold_control::{
    Enroll, EnrollRole, NotResized, Refusal, Resize, Resized, ResumeTicket, SessionEvent, SessionRequest,
};

use crate::Instant;
use crate::session::{HEARTBEAT, LEASE};

/// Shortest and longest pause between attempts to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// What the caller is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnrollmentAction {
    /// Connect to the control port, and call [`Enrollment::handle_connected`] or [`Enrollment::handle_close`].
    Connect,
    /// Send a request on the connection.
    Send(SessionRequest),
    /// Close the connection, if there is one.
    Disconnect,
}

/// Why a member takes part in no generation any more, or never did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnrollmentFailure {
    /// The control port refused it.
    Refused {
        /// The reason.
        reason: Refusal,
        /// One sentence: what is wrong and what to do.
        message: String,
    },
    /// The control port was out of reach for longer than the session can be without a connection.
    Unreachable,
}

/// The outcome of a request for the next generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResizeOutcome {
    /// The member is in it.
    Resized(Resized),
    /// The job stays in its generation.
    NotResized(NotResized),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connection {
    /// An attempt is due then.
    None { retry: Instant, delay: Duration },
    /// An attempt is under way.
    Connecting,
    /// It is there; whether the session is on it.
    Open { enrolled: bool },
}

/// The member's side of a membership session. See the module's documentation.
#[derive(Debug, Clone)]
pub struct Enrollment {
    enroll: Enroll,
    connection: Connection,
    /// 0 before the first generation of the member.
    generation: u32,
    rank: u16,
    ticket: Option<ResumeTicket>,
    grace: Duration,
    /// Since when there is no session on a connection.
    away_since: Instant,
    heard: Instant,
    beat: Instant,
    /// The latest time that the caller passed.
    now: Instant,
    /// The request that has no reply yet.
    asked: Option<Resize>,
    outcome: Option<ResizeOutcome>,
    failure: Option<EnrollmentFailure>,
    actions: VecDeque<EnrollmentAction>,
}

impl Enrollment {
    /// A member that enrolls by `enroll` from `now` on; the first attempts last at most `patience`.
    pub fn new(now: Instant, enroll: Enroll, patience: Duration) -> Self {
        let rank = match &enroll.role {
            EnrollRole::First { rank, .. } | EnrollRole::Member { rank, .. } => *rank,
            EnrollRole::New {} => 0,
        };
        Self {
            enroll,
            connection: Connection::Connecting,
            generation: 0,
            rank,
            ticket: None,
            grace: patience,
            away_since: now,
            heard: now,
            beat: now,
            now,
            asked: None,
            outcome: None,
            failure: None,
            actions: VecDeque::from([EnrollmentAction::Connect]),
        }
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<EnrollmentAction> {
        self.actions.pop_front()
    }

    /// The next thing to do, which stays the next.
    pub fn next_action(&self) -> Option<&EnrollmentAction> {
        self.actions.front()
    }

    /// The generation that the member is in; 0 before the first.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Whether the session is on a connection.
    pub fn is_enrolled(&self) -> bool {
        self.connection == Connection::Open { enrolled: true }
    }

    /// Why the member takes part no more.
    pub fn failure(&self) -> Option<&EnrollmentFailure> {
        self.failure.as_ref()
    }

    /// Takes the outcome of a request, or for a process that joins, of its enrolment.
    pub fn take_outcome(&mut self) -> Option<ResizeOutcome> {
        self.outcome.take()
    }

    /// Requests the next generation.
    pub fn resize(&mut self, now: Instant, request: Resize) {
        self.now = self.now.max(now);
        let request = Resize { generation: self.generation, ..request };
        self.asked = Some(request.clone());
        if self.is_enrolled() {
            self.actions.push_back(EnrollmentAction::Send(SessionRequest::Resize(request)));
        }
    }

    /// Leaves the job gracefully. There are no replies any more.
    pub fn leave(&mut self) {
        if self.is_enrolled() {
            self.actions.push_back(EnrollmentAction::Send(SessionRequest::Leave {}));
        }
        self.actions.push_back(EnrollmentAction::Disconnect);
        self.failure = Some(EnrollmentFailure::Unreachable);
    }

    /// When [`Self::handle_idle`] is to be called next.
    pub fn deadline(&self) -> Instant {
        match self.connection {
            Connection::None { retry, .. } => retry,
            Connection::Connecting => self.now + HEARTBEAT,
            Connection::Open { .. } => self.beat + HEARTBEAT,
        }
    }

    /// There is a connection.
    pub fn handle_connected(&mut self, now: Instant) {
        self.now = self.now.max(now);
        (self.heard, self.beat) = (self.now, self.now);
        self.connection = Connection::Open { enrolled: false };
        let role = match &self.ticket {
            Some(ticket) => {
                EnrollRole::Member { generation: self.generation, rank: self.rank, ticket: ticket.clone() }
            }
            None => self.enroll.role.clone(),
        };
        let enroll = Enroll { role, ..self.enroll.clone() };
        self.actions.push_back(EnrollmentAction::Send(SessionRequest::Enroll(enroll)));
    }

    /// An attempt to connect has failed, or the connection has ended.
    pub fn handle_close(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if self.failure.is_some() {
            return;
        }
        let delay = match self.connection {
            Connection::Open { enrolled } => {
                if enrolled {
                    self.away_since = self.now;
                }
                BACKOFF.0
            }
            Connection::None { delay, .. } => delay,
            Connection::Connecting => BACKOFF.0,
        };
        // Without a ticket a member of a generation has nothing to resume with.
        let resumes = self.generation == 0 || self.ticket.is_some();
        if !resumes || self.now - self.away_since >= self.grace {
            return self.fail(EnrollmentFailure::Unreachable);
        }
        self.connection = Connection::None { retry: self.now + delay, delay };
    }

    /// An event of the control port.
    pub fn handle_event(&mut self, now: Instant, event: SessionEvent) {
        self.now = self.now.max(now);
        self.heard = self.now;
        let open = matches!(self.connection, Connection::Open { .. });
        match event {
            _ if !open || self.failure.is_some() => {}
            SessionEvent::Enrolled(enrolled) => {
                if enrolled.generation > 0 {
                    self.grace = Duration::from_millis(enrolled.grace_ms.into());
                    self.generation = enrolled.generation;
                    self.ticket = enrolled.ticket.or(self.ticket.take());
                }
                self.take_up();
            }
            SessionEvent::Resized(resized) if resized.generation > self.generation => {
                (self.generation, self.rank) = (resized.generation, resized.rank);
                self.ticket.clone_from(&resized.ticket);
                self.asked = None;
                self.outcome = Some(ResizeOutcome::Resized(resized));
                self.connection = Connection::Open { enrolled: true };
            }
            // Another reply is of no use any more.
            SessionEvent::NotResized(refused) if self.asked.is_some() => {
                self.asked = None;
                self.outcome = Some(ResizeOutcome::NotResized(refused));
            }
            SessionEvent::Refused { reason, message } if self.is_transient(reason) => {
                self.actions.push_back(EnrollmentAction::Disconnect);
                self.connection = Connection::None { retry: self.now + BACKOFF.1, delay: BACKOFF.1 };
                if self.now - self.away_since >= self.grace {
                    self.fail(EnrollmentFailure::Refused { reason, message });
                }
            }
            SessionEvent::Refused { reason, message } => {
                self.fail(EnrollmentFailure::Refused { reason, message });
            }
            _ => {}
        }
    }

    /// Whether a refusal is expected to pass: a controller in failover, a former job of this name whose members are being removed, or one that is to be
    /// joined and has not begun.
    fn is_transient(&self, reason: Refusal) -> bool {
        match reason {
            Refusal::Unavailable | Refusal::Busy => true,
            Refusal::RankTaken | Refusal::JobRunning | Refusal::Unknown => self.generation == 0,
            _ => false,
        }
    }

    fn take_up(&mut self) {
        self.connection = Connection::Open { enrolled: true };
        if let Some(request) = self.asked.clone() {
            self.actions.push_back(EnrollmentAction::Send(SessionRequest::Resize(request)));
        }
    }

    fn fail(&mut self, failure: EnrollmentFailure) {
        self.actions.push_back(EnrollmentAction::Disconnect);
        self.failure = Some(failure);
    }

    /// Does what is due at `now`.
    pub fn handle_idle(&mut self, now: Instant) {
        let paused = now - self.now > 2 * HEARTBEAT;
        self.now = self.now.max(now);
        if self.failure.is_some() {
            return;
        }
        match self.connection {
            Connection::None { retry, delay } if retry <= self.now => {
                // The pause after the next failure is longer.
                let delay = (delay * 2).min(BACKOFF.1);
                self.connection = Connection::None { retry: self.now + delay, delay };
                self.actions.push_back(EnrollmentAction::Connect);
            }
            Connection::Open { .. } if paused => self.heard = self.now,
            Connection::Open { .. } if self.now - self.heard >= LEASE => {
                self.actions.push_back(EnrollmentAction::Disconnect);
                self.handle_close(now);
            }
            Connection::Open { .. } if self.now - self.beat >= HEARTBEAT => {
                self.beat = self.now;
                self.actions.push_back(EnrollmentAction::Send(SessionRequest::ALIVE));
            }
            Connection::None { .. } | Connection::Connecting | Connection::Open { .. } => {}
        }
    }
}
