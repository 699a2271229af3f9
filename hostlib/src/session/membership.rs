//! The membership session of a resizable job: a thread that keeps it, and the requests that callers make of it. Its decisions are those of
//! [`netfold_proto::enrollment`].

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netfold_control::{Enroll, EnrollRole, Resize, Resized};
use netfold_proto::enrollment::{Enrollment, EnrollmentAction, EnrollmentFailure, ResizeOutcome};
use netfold_wire::VERSION;

use super::connection::Connection;
use super::reader::{EventReader, Received};
use super::{HANDSHAKE_TIMEOUT, Security, connect, control};
use crate::clock::Clock;
use crate::config::JobConfig;
use crate::error::Error;

/// How much longer than the control port a caller waits for the reply: the port decides.
const REPLY_TIMEOUT: Duration = Duration::from_secs(15);

/// A membership session. Dropping it ends the connection, so that the other members see this one lost; [`MembershipSession::leave`] leaves first.
#[derive(Debug)]
pub(crate) struct MembershipSession(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    addresses: Vec<SocketAddr>,
    security: Option<Security>,
    clock: Clock,
    state: Mutex<State>,
    /// The machine's state has changed, or the session is to end.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    machine: Enrollment,
    connection: Option<Connection>,
    ending: bool,
    /// Whether the control port has sent anything. Before that, what goes wrong is final: the address may be wrong.
    answered: bool,
    /// What went wrong then.
    failure: Option<Error>,
}

impl MembershipSession {
    /// Enrolls at the job's control port and waits until it has been answered, at most for `timeout`.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`], [`Error::Thread`]; at once those of a connection that cannot be made or is not answered, as for a [`Session`](super::Session);
    /// [`Error::Connect`] after `timeout`.
    pub(crate) fn enroll(
        config: &JobConfig,
        security: Option<Security>,
        role: EnrollRole,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let enroll = Enroll {
            version: VERSION,
            credentials: config.credentials.clone(),
            job: config.job.clone().ok_or(Error::Missing("job"))?,
            role,
        };
        let clock = Clock::system();
        let state = State {
            machine: Enrollment::new(clock.now(), enroll, timeout),
            connection: None,
            ending: false,
            answered: false,
            failure: None,
        };
        let shared = Arc::new(Shared {
            addresses: config.switch.clone(),
            security,
            clock,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let session = Self(Arc::clone(&shared));
        let thread = std::thread::Builder::new().name("netfold-member".into());
        thread.spawn(move || shared.run()).map_err(|source| Error::Thread(Arc::new(source)))?;
        session.wait(timeout, |machine| machine.is_enrolled().then_some(()))?;
        Ok(session)
    }

    /// The generation that the member is in; 0 before its first.
    pub(crate) fn generation(&self) -> u32 {
        self.0.lock().machine.generation()
    }

    /// Requests the next generation, and waits for the decision.
    ///
    /// # Errors
    ///
    /// [`Error::NotResized`]: the job stays as it is, and the request may be repeated. [`Error::Excluded`]: this rank is not in the job's generation any
    /// more. [`Error::Refused`], [`Error::Connect`].
    pub(crate) fn resize(
        &self,
        joining: u16,
        timeout: Duration,
        meeting: Option<SocketAddr>,
    ) -> Result<Resized, Error> {
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        let timeout_ms = timeout_ms.min(netfold_control::RESIZE_TIMEOUT_MS_MAX);
        {
            let mut state = self.0.lock();
            let now = self.0.clock.now();
            let _ = state.machine.take_outcome();
            state.machine.resize(now, Resize { generation: 0, joining, timeout_ms, meeting });
            state.send_all();
            self.0.changed.notify_all();
        }
        self.await_outcome(timeout.saturating_add(REPLY_TIMEOUT))
    }

    /// For a process that joins: waits for the generation that it is in.
    ///
    /// # Errors
    ///
    /// As for [`Self::resize`].
    pub(crate) fn await_outcome(&self, timeout: Duration) -> Result<Resized, Error> {
        match self.wait(timeout, Enrollment::take_outcome)? {
            ResizeOutcome::Resized(resized) => Ok(resized),
            ResizeOutcome::NotResized(refused) => {
                Err(Error::NotResized { missing: refused.missing, message: refused.message })
            }
        }
    }

    /// Leaves the job gracefully.
    pub(crate) fn leave(&self) {
        let mut state = self.0.lock();
        state.machine.leave();
        state.send_all();
        self.0.changed.notify_all();
    }

    fn wait<R>(
        &self,
        timeout: Duration,
        mut get: impl FnMut(&mut Enrollment) -> Option<R>,
    ) -> Result<R, Error> {
        let deadline = Instant::now() + timeout;
        let mut state = self.0.lock();
        loop {
            if let Some(found) = get(&mut state.machine) {
                return Ok(found);
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if let Some(failure) = state.machine.failure() {
                return Err(self.0.error_of(failure));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.0.unreachable());
            }
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for MembershipSession {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.ending = true;
        if let Some(connection) = state.connection.take() {
            connection.finish();
        }
        self.0.changed.notify_all();
    }
}

impl State {
    /// A connection could not be made, has ended, or is silent.
    fn note_failure(&mut self, error: Error) {
        if !self.answered {
            self.failure.get_or_insert(error);
        }
    }

    /// Sends what the machine wants sent, where there is a connection; connects are left to the session's thread.
    fn send_all(&mut self) {
        let Some(connection) = self.connection.clone() else { return };
        while let Some(EnrollmentAction::Send(_)) = self.machine.next_action() {
            if let Some(EnrollmentAction::Send(request)) = self.machine.poll_action()
                && control::write(&connection, &request).is_err()
            {
                // The session's thread notices.
                connection.abort();
                return;
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut reader = None;
        loop {
            let mut state = self.lock();
            if state.ending || state.machine.failure().is_some() || state.failure.is_some() {
                state.connection.take().iter().for_each(Connection::finish);
                return self.changed.notify_all();
            }
            state.send_all();
            match state.machine.poll_action() {
                Some(EnrollmentAction::Connect) => {
                    drop(state);
                    reader = self.connect();
                    continue;
                }
                Some(EnrollmentAction::Disconnect) => {
                    state.connection.take().iter().for_each(Connection::abort);
                    reader = None;
                    continue;
                }
                Some(EnrollmentAction::Send(_)) => continue,
                None => {}
            }
            self.changed.notify_all();
            let timeout = state.machine.deadline() - self.clock.now();
            let Some((open, peer)) = &mut reader else {
                let waited = self.changed.wait_timeout(state, timeout.max(Duration::from_millis(1)));
                let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
                state.machine.handle_idle(self.clock.now());
                continue;
            };
            drop(state);
            let received = open.next(timeout);
            let mut state = self.lock();
            let now = self.clock.now();
            let error = match received {
                Ok(Received::Event(event)) => {
                    state.answered = true;
                    state.machine.handle_event(now, event);
                    continue;
                }
                Ok(Received::Timeout) => {
                    state.machine.handle_idle(now);
                    if state.machine.next_action() == Some(&EnrollmentAction::Disconnect) {
                        state.note_failure(Error::SilentPort { address: *peer });
                    }
                    continue;
                }
                Ok(Received::Closed | Received::Broken) => {
                    Error::switch_lost("the control connection closed before admission")
                }
                Err(error) => error,
            };
            state.note_failure(error);
            state.connection.take().iter().for_each(Connection::abort);
            state.machine.handle_close(now);
            reader = None;
        }
    }

    fn connect(&self) -> Option<(EventReader, SocketAddr)> {
        let connected = connect(&self.addresses, self.security.as_ref(), HANDSHAKE_TIMEOUT);
        let mut state = self.lock();
        let now = self.clock.now();
        match connected {
            Ok((connection, peer, _)) => {
                state.connection = Some(connection.clone());
                state.machine.handle_connected(now);
                Some((EventReader::new(connection, peer), peer))
            }
            Err(error) => {
                log::debug!("no membership session yet: {error}");
                state.note_failure(error);
                state.machine.handle_close(now);
                None
            }
        }
    }

    fn unreachable(&self) -> Error {
        let address = self.addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
        Error::Connect { address, source: Arc::new(std::io::ErrorKind::TimedOut.into()) }
    }

    fn error_of(&self, failure: &EnrollmentFailure) -> Error {
        match failure {
            EnrollmentFailure::Refused { reason: netfold_control::Refusal::Excluded, message } => {
                Error::Excluded { message: message.clone() }
            }
            EnrollmentFailure::Refused { reason, message } => Error::Refused {
                address: self.addresses.first().copied().unwrap_or_else(|| ([0, 0, 0, 0], 0).into()),
                reason: *reason,
                message: message.clone(),
            },
            EnrollmentFailure::Unreachable => self.unreachable(),
        }
    }
}
