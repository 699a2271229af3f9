//! The end of a communicator: one state for all of its threads.
//!
//! A communicator ends when its caller requests it ([`ShutdownState::request`]) or when one of its threads fails
//! ([`ShutdownState::fail`]). The first request and the first error count. Subscribers learn of both.

use std::fmt;
use std::sync::{Arc, PoisonError};

use netfold_io::sync::{Mutex, MutexGuard};

use crate::error::Error;

/// How a caller wants threads to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopMode {
    /// When every submitted operation is finished.
    WhenIdle,
    /// At once.
    Now,
}

type ErrorCallback = Box<dyn Fn(&Error) + Send>;
type RequestCallback = Box<dyn Fn() + Send>;

/// Whether a communicator runs, is to stop, or has failed. Clones share the state.
#[derive(Clone, Default)]
pub(crate) struct ShutdownState(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    requested: Option<StopMode>,
    error: Option<Error>,
    error_callbacks: Vec<ErrorCallback>,
    request_callbacks: Vec<RequestCallback>,
}

impl fmt::Debug for ShutdownState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { requested, error, .. } = &*self.lock();
        f.debug_struct("ShutdownState").field("requested", requested).field("error", error).finish()
    }
}

impl ShutdownState {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `callback` with the error when the communicator fails; at once if it has. `callback` must not use this state.
    pub(crate) fn on_error(&self, callback: impl Fn(&Error) + Send + 'static) {
        let mut inner = self.lock();
        if let Some(error) = &inner.error {
            callback(error);
        }
        inner.error_callbacks.push(Box::new(callback));
    }

    /// Calls `callback` when a stop is requested. `callback` must not use this state.
    pub(crate) fn on_request(&self, callback: impl Fn() + Send + 'static) {
        self.lock().request_callbacks.push(Box::new(callback));
    }

    /// Asks the threads to end; whether this is the first request, which is the one that counts.
    pub(crate) fn request(&self, mode: StopMode) -> bool {
        let mut inner = self.lock();
        if inner.requested.is_some() {
            return false;
        }
        inner.requested = Some(mode);
        inner.request_callbacks.iter().for_each(|callback| callback());
        true
    }

    /// Fails the communicator. The first error counts and is returned.
    pub(crate) fn fail(&self, error: Error) -> Error {
        let mut inner = self.lock();
        if let Some(first) = &inner.error {
            return first.clone();
        }
        inner.error = Some(error.clone());
        for callback in &inner.error_callbacks {
            callback(&error);
        }
        error
    }

    /// The request, if there was one.
    pub(crate) fn requested(&self) -> Option<StopMode> {
        self.lock().requested
    }

    /// The error that ended the communicator.
    pub(crate) fn error(&self) -> Option<Error> {
        self.lock().error.clone()
    }

    /// Whether the communicator has failed or is to stop.
    pub(crate) fn is_ending(&self) -> bool {
        let inner = self.lock();
        inner.error.is_some() || inner.requested.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn the_first_error_counts_and_every_subscriber_gets_it_once() {
        let shutdown = ShutdownState::default();
        let (tx, rx) = mpsc::channel();
        let first = tx.clone();
        shutdown.on_error(move |error| first.send(error.kind()).unwrap());
        assert_eq!(shutdown.fail(Error::Interrupted), Error::Interrupted);
        assert_eq!(shutdown.fail(Error::Closed), Error::Interrupted);
        shutdown.on_error(move |error| tx.send(error.kind()).unwrap());
        assert_eq!(rx.try_iter().collect::<Vec<_>>(), ["interrupted", "interrupted"]);
        assert_eq!((shutdown.error(), shutdown.is_ending()), (Some(Error::Interrupted), true));
    }

    #[test]
    fn the_first_request_counts_and_is_no_error() {
        let shutdown = ShutdownState::default();
        let (tx, rx) = mpsc::channel();
        shutdown.on_request(move || tx.send(()).unwrap());
        assert!(!shutdown.is_ending());
        assert!(shutdown.request(StopMode::WhenIdle));
        assert!(!shutdown.request(StopMode::Now));
        assert_eq!(rx.try_iter().count(), 1);
        assert_eq!((shutdown.requested(), shutdown.error()), (Some(StopMode::WhenIdle), None));
    }
}
