//! The sending side of a control session.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netfold_control::Request;

use super::connection::Connection;

/// The sending side of a session; any thread may use it. It outlives the connections that a session goes through.
#[derive(Debug, Clone)]
pub(crate) struct Line(Arc<LineState>);

#[derive(Debug)]
struct LineState {
    state: Mutex<State>,
    /// This side wants to end, or the session's thread has.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// The connection; none while the control port is away.
    stream: Option<Connection>,
    /// How this side wants the session to end, if it does.
    ending: Option<Ending>,
    /// The farewell went to a port that was there.
    told: bool,
    /// The session's thread has ended.
    over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// In peace.
    Leave,
    /// As one that is lost.
    HangUp,
}

impl Line {
    pub(super) fn new(stream: Connection) -> Self {
        let state = State { stream: Some(stream), ending: None, told: false, over: false };
        Self(Arc::new(LineState { state: Mutex::new(state), changed: Condvar::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn send(&self, request: &Request) -> io::Result<()> {
        self.lock().send(request)
    }

    /// Leaves the job in peace, unless the session is closed already. While the control port is away, the session's thread does
    /// it when the port is back.
    pub(crate) fn leave(&self) {
        let mut state = self.lock();
        if state.ending.is_none() {
            state.ending = Some(Ending::Leave);
            state.say_farewell();
        }
        self.0.changed.notify_all();
    }

    /// Closes the connection without a farewell: the port tells the other ranks that this one is lost.
    pub(crate) fn hang_up(&self) {
        let mut state = self.lock();
        if !state.over {
            state.ending = Some(Ending::HangUp);
        }
        if let Some(stream) = &state.stream {
            stream.hang_up();
        }
        self.0.changed.notify_all();
    }

    /// Whether the farewell went to a port that was there.
    pub(super) fn was_told(&self) -> bool {
        self.lock().told
    }

    pub(super) fn ending(&self) -> Option<Ending> {
        self.lock().ending
    }

    /// The connection is of no more use.
    pub(super) fn unplug(&self) {
        self.lock().stream = None;
    }

    /// Goes on over another connection; says the farewell if that was wanted meanwhile.
    pub(super) fn plug(&self, stream: Connection) {
        let mut state = self.lock();
        state.stream = Some(stream);
        match state.ending {
            None => {}
            Some(Ending::Leave) => state.say_farewell(),
            Some(Ending::HangUp) => state.stream = None,
        }
    }

    /// Sleeps, unless this side wants to end in another way than `now`.
    pub(super) fn sleep(&self, timeout: Duration, now: Option<Ending>) {
        let state = self.lock();
        let waited = self.0.changed.wait_timeout_while(state, timeout, |state| state.ending == now);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Tells waiters that the session's thread has ended.
    pub(super) fn set_over(&self) {
        let mut state = self.lock();
        (state.over, state.stream) = (true, None);
        self.0.changed.notify_all();
    }

    /// Waits for the session's thread to end, until `deadline`; whether it has.
    pub(crate) fn wait_until_over(&self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let state = self.lock();
        let waited = self.0.changed.wait_timeout_while(state, left, |state| !state.over);
        waited.unwrap_or_else(PoisonError::into_inner).0.over
    }
}

impl State {
    fn send(&mut self, request: &Request) -> io::Result<()> {
        match &self.stream {
            Some(stream) => write(stream, request),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn say_farewell(&mut self) {
        // When it fails the connection is broken, and the session's thread has noticed or will.
        self.told = !self.is_cut() && self.send(&Request::Leave {}).is_ok();
        if let Some(stream) = &self.stream {
            stream.finish();
        }
    }

    /// Whether the port has closed the connection already.
    fn is_cut(&self) -> bool {
        self.stream.as_ref().is_none_or(Connection::is_cut)
    }
}

/// Sends one request.
pub(super) fn write(stream: &Connection, request: &Request) -> io::Result<()> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)
}
