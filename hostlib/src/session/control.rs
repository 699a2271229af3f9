//! The sending side of a control session.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netfold_control::SessionRequest;

use super::connection::Connection;

/// The sending side of a session; any thread may use it. It outlives the TCP connections of the session.
#[derive(Debug, Clone)]
pub(crate) struct ControlConnection(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<ConnectionState>,
    /// This side wants to end the session, or the session's thread has ended.
    changed: Condvar,
}

#[derive(Debug)]
struct ConnectionState {
    /// The connection; `None` while the control port is unreachable.
    stream: Option<Connection>,
    /// How this side wants the session to end, if it does.
    end_mode: Option<EndMode>,
    /// The leave request was sent to a port that had not closed the connection.
    leave_sent: bool,
    /// The session's thread has ended.
    finished: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndMode {
    /// With a leave request.
    Leave,
    /// Without one: the rank counts as lost.
    Abort,
}

impl ControlConnection {
    pub(super) fn new(stream: Connection) -> Self {
        let state =
            ConnectionState { stream: Some(stream), end_mode: None, leave_sent: false, finished: false };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// That of a session without a connection: how this side wants to end is recorded and not sent.
    pub(crate) fn unconnected() -> Self {
        let state = ConnectionState { stream: None, end_mode: None, leave_sent: false, finished: false };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn send(&self, request: &SessionRequest) -> io::Result<()> {
        self.lock().send(request)
    }

    /// Leaves the job gracefully, unless the session is closed already. While the control port is unreachable, the session's thread does
    /// it later.
    pub(crate) fn leave(&self) {
        let mut state = self.lock();
        if state.end_mode.is_none() {
            state.end_mode = Some(EndMode::Leave);
            state.send_leave();
        }
        self.0.changed.notify_all();
    }

    /// Closes the connection without a leave request: the port then notifies the other ranks that this one is lost.
    pub(crate) fn abort(&self) {
        let mut state = self.lock();
        if !state.finished {
            state.end_mode = Some(EndMode::Abort);
        }
        if let Some(stream) = &state.stream {
            stream.abort();
        }
        self.0.changed.notify_all();
    }

    /// Whether the leave request was sent to a port that had not closed the connection.
    pub(super) fn leave_sent(&self) -> bool {
        self.lock().leave_sent
    }

    pub(crate) fn end_mode(&self) -> Option<EndMode> {
        self.lock().end_mode
    }

    /// The connection is of no more use.
    pub(super) fn detach(&self) {
        self.lock().stream = None;
    }

    /// Continues on another connection; sends the leave request if this side has left meanwhile.
    pub(super) fn attach(&self, stream: Connection) {
        let mut state = self.lock();
        state.stream = Some(stream);
        match state.end_mode {
            None => {}
            Some(EndMode::Leave) => state.send_leave(),
            Some(EndMode::Abort) => state.stream = None,
        }
    }

    /// Sleeps, unless this side wants to end in another way than `now`.
    pub(super) fn sleep(&self, timeout: Duration, now: Option<EndMode>) {
        let state = self.lock();
        let waited = self.0.changed.wait_timeout_while(state, timeout, |state| state.end_mode == now);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Notifies waiters that the session's thread has ended.
    pub(super) fn set_finished(&self) {
        let mut state = self.lock();
        (state.finished, state.stream) = (true, None);
        self.0.changed.notify_all();
    }

    /// Waits for the session's thread to end, until `deadline`; whether it has.
    pub(crate) fn wait_until_finished(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let state = self.lock();
        let waited = self.0.changed.wait_timeout_while(state, left, |state| !state.finished);
        waited.unwrap_or_else(PoisonError::into_inner).0.finished
    }
}

impl ConnectionState {
    fn send(&mut self, request: &SessionRequest) -> io::Result<()> {
        match &self.stream {
            Some(stream) => write(stream, request),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn send_leave(&mut self) {
        // When it fails the connection is broken, which the session's thread detects.
        self.leave_sent = !self.is_closed_by_peer() && self.send(&SessionRequest::Leave {}).is_ok();
        if let Some(stream) = &self.stream {
            stream.finish();
        }
    }

    /// Whether the port has closed the connection already.
    fn is_closed_by_peer(&self) -> bool {
        self.stream.as_ref().is_none_or(Connection::is_closed_by_peer)
    }
}

/// Sends one request.
pub(super) fn write(stream: &Connection, request: &SessionRequest) -> io::Result<()> {
    let mut control = serde_json::to_vec(request)?;
    control.push(b'\n');
    stream.write_all(&control)
}
