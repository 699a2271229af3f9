//! A session that waits for its admission.

use core::time::Duration;

use netfold_control::{Admission, HEARTBEAT_MS, Join, Multipath, PathChallenge, Resume, SessionEvent};

use super::{HEARTBEAT, Membership, SessionFailure};
use crate::Instant;

/// How long a port that has accepted the connection may be silent after the request to join: it sends a heartbeat every interval, also
/// while other ranks are awaited.
const FIRST_EVENT_TIMEOUT: Duration = Duration::from_millis(4 * HEARTBEAT_MS);

/// What an event means to a member that waits.
#[derive(Debug)]
pub enum JoinStep {
    /// It goes on waiting.
    Waiting,
    /// It is to validate its path, by a [`PathValidation`](crate::PathValidation), and to reply with the token.
    Challenged(PathChallenge),
    /// It is to send its request again, with so many UDP ports.
    Multipath(u8),
    /// The job starts. The ticket has been moved to the membership, which goes nowhere else.
    Admitted(Box<(Admission, Membership)>),
}

/// A member that has sent its request to join.
#[derive(Debug, Clone)]
pub struct Joining {
    version: u8,
    rank: u16,
    authenticated: bool,
    /// It has not named a number of UDP ports.
    may_have_paths: bool,
    started: Instant,
    timeout: Duration,
    /// Since when the port is silent, until its first event.
    silent_since: Option<Instant>,
    /// The latest time that the caller passed.
    now: Instant,
}

impl Joining {
    /// A member that sends `join` at `now`, and waits for at most `timeout`.
    pub fn new(now: Instant, join: &Join, timeout: Duration) -> Self {
        Self {
            version: join.version,
            rank: join.rank,
            authenticated: join.authenticated,
            may_have_paths: join.udp_ports == 0,
            started: now,
            timeout,
            silent_since: Some(now),
            now,
        }
    }

    /// How long it has waited at `now`, and how long it may wait still.
    pub fn waited(&self, now: Instant) -> (Duration, Duration) {
        let waited = now - self.started;
        (waited.min(self.timeout), self.timeout.saturating_sub(waited))
    }

    /// The failure of a member that has waited too long, or that its caller does not want any more.
    pub fn timed_out(&self, now: Instant) -> SessionFailure {
        SessionFailure::JoinTimeout { waited: self.waited(now).0 }
    }

    /// When [`Self::handle_idle`] is to be called next.
    pub fn deadline(&self) -> Instant {
        let end = self.started + self.timeout;
        end.min(self.now + HEARTBEAT)
    }

    /// An event of the control port.
    ///
    /// # Errors
    ///
    /// [`SessionFailure`] when the member cannot join.
    pub fn handle_event(&mut self, now: Instant, event: SessionEvent) -> Result<JoinStep, SessionFailure> {
        self.now = self.now.max(now);
        self.silent_since = None;
        match event {
            SessionEvent::Path(challenge) if self.authenticated && challenge.keys.is_none() => {
                Err(SessionFailure::Protocol { what: "no keys for authenticated packets" })
            }
            SessionEvent::Paths { udp_ports }
                if self.may_have_paths && udp_ports > 1 && Multipath::is_valid(udp_ports) =>
            {
                self.may_have_paths = false;
                Ok(JoinStep::Multipath(udp_ports))
            }
            SessionEvent::Path(challenge) => Ok(JoinStep::Challenged(challenge)),
            SessionEvent::Admitted(mut admission) => {
                let (version, rank) = (self.version, self.rank);
                let (job, epoch) = (admission.job, admission.epoch);
                let ticket = admission.ticket.take();
                let membership = Membership {
                    resume: ticket.map(|ticket| Resume { version, job, epoch, rank, ticket }),
                    grace: Duration::from_millis(admission.grace_ms.into()),
                    banded: admission.band.is_some(),
                    patterns: admission.patterns,
                    path_reports: admission.path_reports,
                };
                Ok(JoinStep::Admitted(Box::new((admission, membership))))
            }
            SessionEvent::Alive {} | SessionEvent::Resumed {} | SessionEvent::PeerLeft { .. } => {
                Ok(JoinStep::Waiting)
            }
            event => Err(SessionFailure::of(event)
                .unwrap_or(SessionFailure::Protocol { what: "an event out of order" })),
        }
    }

    /// The connection ended.
    pub fn handle_close(&self) -> SessionFailure {
        SessionFailure::switch_lost("the control connection closed before admission")
    }

    /// Nothing is to be read, and the time is `now`.
    ///
    /// # Errors
    ///
    /// [`SessionFailure::JoinTimeout`]; [`SessionFailure::SilentPort`] where the port has said nothing at all.
    pub fn handle_idle(&mut self, now: Instant) -> Result<(), SessionFailure> {
        let paused = now - self.now > 2 * HEARTBEAT;
        self.now = self.now.max(now);
        if self.waited(now).1.is_zero() {
            return Err(self.timed_out(now));
        }
        match &mut self.silent_since {
            // This process was stopped or starved, and perhaps the port with it.
            Some(since) if paused => *since = now,
            Some(since) if now - *since >= FIRST_EVENT_TIMEOUT => return Err(SessionFailure::SilentPort),
            _ => {}
        }
        Ok(())
    }
}
