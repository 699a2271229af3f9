//! The member's side of a control session, as machines without I/O.
//!
//! [`Joining`] is a session that waits for its admission, [`MemberSession`] one that has been admitted: it sends heartbeats, detects a control port
//! that is unreachable, and resumes the session within the job's grace period.
//!
//! # Driving a session
//!
//! 1. Hand every event of the port to [`MemberSession::handle_event`], the end of a connection to [`MemberSession::handle_close`], and the outcome of a
//!    [`SessionAction::Connect`] to [`MemberSession::handle_connected`] or [`MemberSession::handle_connect_failure`].
//! 2. When [`MemberSession::deadline`] has passed and nothing is to be read, call [`MemberSession::handle_idle`]: only then is the port's silence judged, so that
//!    a process that was stopped does not mistake its own pause for the port's.
//! 3. After any of these, call [`MemberSession::poll_action`] until it returns `None`; then look at [`MemberSession::end`].

mod joining;

use core::time::Duration;

use netfold_control::{
    Band, HEARTBEAT_MS, Hold, LEASE_MS, PortSet, Refusal, Resume, SessionEvent, SessionRequest,
};
use std::collections::VecDeque;

use crate::Instant;

pub use joining::{JoinStep, Joining};

pub(crate) const HEARTBEAT: Duration = Duration::from_millis(HEARTBEAT_MS);
pub(crate) const LEASE: Duration = Duration::from_millis(LEASE_MS);

/// How long the port may take to close the connection after a leave request.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Shortest and longest back-off between attempts to resume a session.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// How long a control port that accepts the connection may take to answer an attempt.
const RESUME_TIMEOUT: Duration = Duration::from_secs(3);

/// What an admission says about its session.
#[derive(Debug, Clone)]
pub struct Membership {
    /// The credentials that resume a broken session, where the control port allows that.
    pub resume: Option<Resume>,
    /// How long the session may be resumed after a break.
    pub grace: Duration,
    /// Whether the control port may change the job's classes of packets.
    pub banded: bool,
    /// Whether the control port takes patterns of the job's iterations.
    pub patterns: bool,
    /// Whether the control port takes reports of how paths are used.
    pub path_reports: bool,
}

/// Why a session ended the attachment to the switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionFailure {
    /// A member of the job is lost.
    PeerLost {
        /// The member.
        rank: u16,
        /// What the control port says.
        message: String,
    },
    /// The control port refuses the member.
    Refused {
        /// Machine-readable reason.
        reason: Refusal,
        /// What the control port says.
        message: String,
    },
    /// The switch or its control port is lost.
    SwitchLost {
        /// What happened.
        message: String,
    },
    /// A port that accepted the connection said nothing after the request to join.
    SilentPort,
    /// The job did not begin in time, after so long.
    JoinTimeout {
        /// How long the member has waited.
        waited: Duration,
    },
    /// The port violated the protocol.
    Protocol {
        /// What it sent.
        what: &'static str,
    },
}

impl SessionFailure {
    fn switch_lost(message: impl Into<String>) -> Self {
        Self::SwitchLost { message: message.into() }
    }

    /// The failure that an event of the control port means, if it ends the job.
    fn of(event: SessionEvent) -> Option<Self> {
        match event {
            SessionEvent::Alive {}
            | SessionEvent::Path(_)
            | SessionEvent::Paths { .. }
            | SessionEvent::Admitted(_)
            | SessionEvent::Quota {}
            | SessionEvent::Enrolled(_)
            | SessionEvent::Resized(_)
            | SessionEvent::NotResized(_)
            | SessionEvent::Resumed {}
            | SessionEvent::PeerLeft { .. }
            | SessionEvent::Band(_)
            | SessionEvent::Hold(_)
            | SessionEvent::UsePorts { .. } => None,
            SessionEvent::PeerLost { rank, message } => Some(Self::PeerLost { rank, message }),
            SessionEvent::Refused { reason, message } => Some(Self::Refused { reason, message }),
            SessionEvent::SwitchLost { message } => Some(Self::SwitchLost { message }),
        }
    }
}

/// What the caller of a [`MemberSession`] is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionAction {
    /// Send a heartbeat with the member's counters; if that fails, call [`MemberSession::handle_send_failure`].
    Heartbeat,
    /// Send a request; if that fails, call [`MemberSession::handle_send_failure`].
    Send(SessionRequest),
    /// Open a connection to the control port within this time.
    Connect {
        /// The time.
        timeout: Duration,
    },
    /// Close the connection: it is of no more use.
    Disconnect,
    /// The session broke; it is being resumed.
    Broke {
        /// Why.
        reason: &'static str,
    },
    /// The session continues on the current connection. If this side has left meanwhile, send the leave request and call [`MemberSession::leave`].
    Resumed {
        /// How long it was broken.
        away: Duration,
    },
    /// A rank has left the job gracefully.
    PeerLeft {
        /// The rank.
        rank: u16,
    },
    /// The job has these classes of packets from now on.
    Band(Band),
    /// The job's next iteration begins later.
    Hold(Hold),
    /// The member sends from these of its UDP ports from now on.
    UsePorts(PortSet),
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEnd {
    /// This side has left or aborted, and nothing remains to be done.
    Done,
    /// The attachment to the switch is lost.
    Lost(SessionFailure),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A connection serves the session.
    Serving {
        /// When the port was last heard, or this process last continued after a pause.
        last_received: Instant,
        heartbeat_at: Instant,
        /// A request could not be sent: what the port sent last is still read.
        broken: bool,
    },
    /// The leave request was sent at this time; the port is to close its side too: closing with unread bytes could discard the request.
    Leaving { since: Instant },
    /// No connection; the next attempt is due at this time.
    Away { next: Instant },
    /// A connection is being opened, for an attempt that ends at this time.
    Connecting { until: Instant },
    /// The request to resume was sent.
    Resuming { until: Instant },
}

/// An admitted member's session.
#[derive(Debug, Clone)]
pub struct MemberSession {
    membership: Membership,
    state: State,
    /// The latest time that the caller passed.
    now: Instant,
    /// Since when the session is broken, why, and the back-off before the next attempt.
    broke: Option<(Instant, &'static str, Duration)>,
    /// This side has left.
    left: bool,
    actions: VecDeque<SessionAction>,
    end: Option<SessionEnd>,
}

impl MemberSession {
    /// The session of a member that was admitted at `now`, on the connection that admitted it.
    pub fn new(now: Instant, membership: Membership) -> Self {
        let mut session = Self {
            membership,
            state: State::Away { next: now },
            now,
            broke: None,
            left: false,
            actions: VecDeque::new(),
            end: None,
        };
        session.serve();
        session
    }

    /// The next thing to do.
    pub fn poll_action(&mut self) -> Option<SessionAction> {
        self.actions.pop_front()
    }

    /// How the session ended, if it has.
    pub fn end(&self) -> Option<&SessionEnd> {
        self.end.as_ref()
    }

    /// Whether the control port takes patterns of the job's iterations.
    pub fn reports_patterns(&self) -> bool {
        self.membership.patterns
    }

    /// Whether the control port takes reports of how paths are used.
    pub fn reports_paths(&self) -> bool {
        self.membership.path_reports
    }

    /// Whether a connection is open, from which events are to be read.
    pub fn is_connected(&self) -> bool {
        self.end.is_none()
            && matches!(self.state, State::Serving { .. } | State::Leaving { .. } | State::Resuming { .. })
    }

    /// When [`Self::handle_idle`] is to be called, if nothing else happens before.
    pub fn deadline(&self) -> Instant {
        match self.state {
            State::Serving { heartbeat_at, .. } => heartbeat_at + HEARTBEAT,
            State::Leaving { since } => since + LEAVE_TIMEOUT,
            State::Away { next } => next,
            State::Connecting { until } | State::Resuming { until } => until,
        }
    }

    /// How long the session may be resumed after a break; zero where it cannot.
    pub fn grace(&self) -> Duration {
        if self.membership.resume.is_some() { self.membership.grace } else { Duration::ZERO }
    }

    /// An event of the control port.
    pub fn handle_event(&mut self, now: Instant, event: SessionEvent) {
        self.tick(now);
        match &mut self.state {
            State::Serving { last_received, .. } => {
                *last_received = now;
                match event {
                    SessionEvent::PeerLeft { rank } => self.act(SessionAction::PeerLeft { rank }),
                    SessionEvent::Band(band) => self.act(SessionAction::Band(band)),
                    SessionEvent::Hold(hold) if hold.is_valid() => self.act(SessionAction::Hold(hold)),
                    SessionEvent::UsePorts { ports } => self.act(SessionAction::UsePorts(ports)),
                    event => self.fail_by(event),
                }
                self.beat();
            }
            State::Resuming { .. } => self.handle_answer(event),
            // The member waits for the end of the connection, or this is from one that it has closed.
            State::Leaving { .. } | State::Away { .. } | State::Connecting { .. } => {}
        }
    }

    /// The connection ended: the port has closed it, or it broke.
    pub fn handle_close(&mut self, now: Instant, closed_by_port: bool) {
        self.tick(now);
        match self.state {
            State::Serving { .. } if self.left => self.leave_unheard(),
            State::Serving { .. } => self.unreachable("the control connection closed"),
            State::Leaving { .. } if closed_by_port => self.finish(SessionEnd::Done),
            State::Leaving { .. } => self.leave_unheard(),
            State::Resuming { .. } => self.attempt_failed(),
            State::Away { .. } | State::Connecting { .. } => {}
        }
    }

    /// The port sent something that is no event.
    pub fn handle_violation(&mut self, failure: SessionFailure) {
        match self.state {
            State::Leaving { .. } => self.finish(SessionEnd::Done),
            _ => self.finish(SessionEnd::Lost(failure)),
        }
    }

    /// A request could not be sent.
    pub fn handle_send_failure(&mut self) {
        match &mut self.state {
            State::Serving { broken, .. } => *broken = true,
            State::Resuming { .. } => self.attempt_failed(),
            State::Leaving { .. } | State::Away { .. } | State::Connecting { .. } => {}
        }
    }

    /// Nothing is to be read, and the time is `now`.
    pub fn handle_idle(&mut self, now: Instant) {
        self.tick(now);
        match self.state {
            State::Serving { last_received, .. } if now - last_received >= LEASE => {
                self.unreachable("its control port sent no heartbeat");
            }
            State::Serving { broken: true, heartbeat_at, .. } if now - heartbeat_at >= HEARTBEAT => {
                self.unreachable("the control connection broke");
            }
            State::Serving { .. } => self.beat(),
            State::Leaving { since } if now - since >= LEAVE_TIMEOUT => self.leave_unheard(),
            State::Resuming { until } | State::Connecting { until } if now >= until => self.attempt_failed(),
            State::Away { next } if now >= next => self.attempt(),
            State::Leaving { .. }
            | State::Resuming { .. }
            | State::Connecting { .. }
            | State::Away { .. } => {}
        }
    }

    /// A [`SessionAction::Connect`] succeeded.
    pub fn handle_connected(&mut self, now: Instant) {
        self.tick(now);
        if let (State::Connecting { until }, Some(resume)) = (self.state, self.membership.resume.clone()) {
            self.state = State::Resuming { until };
            self.act(SessionAction::Send(SessionRequest::Resume(resume)));
        }
    }

    /// A [`SessionAction::Connect`] failed.
    pub fn handle_connect_failure(&mut self, now: Instant) {
        self.tick(now);
        if matches!(self.state, State::Connecting { .. }) {
            self.attempt_failed();
        }
    }

    /// This side leaves the job; `sent`: the request was sent to a port that had not closed the connection. While the port is unreachable, the
    /// session first becomes connected again.
    pub fn leave(&mut self, now: Instant, sent: bool) {
        self.tick(now);
        let first = !std::mem::replace(&mut self.left, true);
        match self.state {
            State::Serving { .. } if sent => self.state = State::Leaving { since: now },
            State::Serving { .. } => self.leave_unheard(),
            // The port is asked again at once.
            State::Away { .. } if first => self.state = State::Away { next: now },
            State::Leaving { .. }
            | State::Away { .. }
            | State::Connecting { .. }
            | State::Resuming { .. } => {}
        }
    }

    /// This side ends the session without leaving the job.
    pub fn abort(&mut self) {
        self.finish(SessionEnd::Done);
    }

    fn tick(&mut self, now: Instant) {
        let paused = now - self.now > 2 * HEARTBEAT;
        self.now = self.now.max(now);
        if let State::Serving { last_received, .. } = &mut self.state
            && paused
        {
            // This process was stopped or starved, and perhaps the port with it: its lease begins anew.
            *last_received = now;
        }
    }

    fn act(&mut self, action: SessionAction) {
        self.actions.push_back(action);
    }

    fn finish(&mut self, end: SessionEnd) {
        self.end.get_or_insert(end);
    }

    fn fail_by(&mut self, event: SessionEvent) {
        if let Some(failure) = SessionFailure::of(event) {
            self.finish(SessionEnd::Lost(failure));
        }
    }

    /// Begins to serve on the current connection.
    fn serve(&mut self) {
        self.broke = None;
        self.state = State::Serving { last_received: self.now, heartbeat_at: self.now, broken: false };
        // Also after a resumption: the port does not repeat a change by itself.
        if self.membership.banded {
            self.act(SessionAction::Send(SessionRequest::Band {}));
        }
    }

    fn beat(&mut self) {
        let now = self.now;
        if let State::Serving { heartbeat_at, broken: false, .. } = &mut self.state
            && now - *heartbeat_at >= HEARTBEAT
        {
            *heartbeat_at = now;
            self.act(SessionAction::Heartbeat);
        }
    }

    /// The port may not have received the leave request.
    fn leave_unheard(&mut self) {
        if self.grace().is_zero() {
            self.finish(SessionEnd::Done);
        } else {
            self.unreachable("the leave request was not received");
        }
    }

    fn unreachable(&mut self, reason: &'static str) {
        if self.grace().is_zero() {
            return self.finish(SessionEnd::Lost(SessionFailure::switch_lost(reason)));
        }
        self.act(SessionAction::Disconnect);
        self.act(SessionAction::Broke { reason });
        self.broke = Some((self.now, reason, BACKOFF.0));
        self.attempt();
    }

    /// Time left of the grace period.
    fn left_of_grace(&self) -> Duration {
        let since = self.broke.map_or(self.now, |(since, ..)| since);
        self.grace().saturating_sub(self.now - since)
    }

    fn attempt(&mut self) {
        let left = self.left_of_grace();
        if left.is_zero() {
            let reason = self.broke.map_or("its control port was unreachable", |(_, reason, _)| reason);
            let failure = SessionFailure::switch_lost(format!("{reason}, and did not come back in time"));
            return self.finish(SessionEnd::Lost(failure));
        }
        let timeout = left.min(RESUME_TIMEOUT);
        self.state = State::Connecting { until: self.now + timeout };
        self.act(SessionAction::Connect { timeout });
    }

    fn attempt_failed(&mut self) {
        self.act(SessionAction::Disconnect);
        let left = self.left_of_grace();
        let rank = self.membership.resume.as_ref().map_or(0, |resume| resume.rank);
        // Ranks that lost the same controller do not all come back at the same moment.
        let spread = 1.0 - f64::from(rank % 16) / 32.0;
        let delay = match &mut self.broke {
            Some((_, _, delay)) => {
                let now = *delay;
                *delay = (now * 2).min(BACKOFF.1);
                now
            }
            None => BACKOFF.0,
        };
        self.state = State::Away { next: self.now + delay.mul_f64(spread).min(left) };
    }

    /// An event that answers the request to resume.
    fn handle_answer(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Resumed {} => {
                let away = self.broke.map_or(Duration::ZERO, |(since, ..)| self.now - since);
                self.act(SessionAction::Resumed { away });
                self.serve();
            }
            SessionEvent::PeerLeft { rank } => self.act(SessionAction::PeerLeft { rank }),
            // A controller that has just come up.
            SessionEvent::Refused { reason: Refusal::Unavailable | Refusal::Busy, .. } => {
                self.attempt_failed()
            }
            SessionEvent::Refused { message, .. } => {
                let message = format!("its controller refused to resume the session: {message}");
                self.finish(SessionEnd::Lost(SessionFailure::switch_lost(message)));
            }
            event => self.fail_by(event),
        }
    }
}

#[cfg(test)]
mod tests;
