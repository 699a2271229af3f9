//! One end for all threads of a communicator: whichever of them fails first takes the others with it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Error;

type Callback = Box<dyn Fn(&Error) + Send>;

/// How a communicator ended, if it has, and who must hear of it.
#[derive(Clone, Default)]
pub(crate) struct ShutdownState(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    error: Option<Error>,
    callbacks: Vec<Callback>,
}

impl fmt::Debug for ShutdownState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fate").field(&self.lock().error).finish()
    }
}

impl ShutdownState {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `callback` called with the error when the communicator ends; at once when it has. `callback` must not call this.
    pub(crate) fn on_end(&self, callback: impl Fn(&Error) + Send + 'static) {
        let mut state = self.lock();
        if let Some(error) = &state.error {
            callback(error);
        }
        state.callbacks.push(Box::new(callback));
    }

    /// The communicator has ended. The first error stands and is returned.
    pub(crate) fn end(&self, error: Error) -> Error {
        let mut state = self.lock();
        if let Some(first) = &state.error {
            return first.clone();
        }
        state.error = Some(error.clone());
        for callback in &state.callbacks {
            callback(&error);
        }
        error
    }

    /// The error that ended it.
    pub(crate) fn error(&self) -> Option<Error> {
        self.lock().error.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn the_first_end_stands_and_everyone_hears_of_it_once() {
        let shutdown = ShutdownState::default();
        let (tx, rx) = mpsc::channel();
        let early = tx.clone();
        shutdown.on_end(move |error| early.send(error.kind()).unwrap());
        assert_eq!(shutdown.end(Error::Interrupted), Error::Interrupted);
        assert_eq!(shutdown.end(Error::Closed), Error::Interrupted);
        shutdown.on_end(move |error| tx.send(error.kind()).unwrap());
        assert_eq!(rx.try_iter().collect::<Vec<_>>(), ["interrupted", "interrupted"]);
        assert_eq!(shutdown.error(), Some(Error::Interrupted));
    }
}
