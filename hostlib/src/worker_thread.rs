//! The life of a thread that does the operations of a mailbox.

use crate::error::Error;
use crate::mailbox::{Mailbox, QueueItem};
use crate::shutdown::ShutdownState;

/// Ends the communicator also when the thread panics; tensors settle themselves when they are dropped.
struct FailOnPanic<'a, T: QueueItem, F: FnOnce()> {
    mailbox: &'a Mailbox<T>,
    shutdown: &'a ShutdownState,
    on_panic: Option<F>,
}

impl<T: QueueItem, F: FnOnce()> Drop for FailOnPanic<'_, T, F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.mailbox.end(self.shutdown.fail(Error::EngineFailed));
            if let Some(on_panic) = self.on_panic.take() {
                on_panic();
            }
        }
    }
}

/// Runs `work` until it returns why it ended, and ends the mailbox with that. Any error but [`Error::Closed`] fails the communicator; the
/// first one counts and is returned, with the number of operations that the mailbox still held. A panic of `work` is
/// [`Error::EngineFailed`] and calls `on_panic`.
pub(crate) fn run<T: QueueItem>(
    mailbox: &Mailbox<T>,
    shutdown: &ShutdownState,
    on_panic: impl FnOnce(),
    work: impl FnOnce() -> Error,
) -> (Error, usize) {
    let _guard = FailOnPanic { mailbox, shutdown, on_panic: Some(on_panic) };
    let error = match work() {
        Error::Closed => Error::Closed,
        error => shutdown.fail(error),
    };
    let queued = mailbox.end(error.clone());
    (error, queued)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::task::Waker;

    struct Item(mpsc::Sender<Error>);

    impl QueueItem for Item {
        fn reject(self, error: Error) {
            self.0.send(error).unwrap();
        }
    }

    #[test]
    fn an_error_fails_the_communicator_and_a_request_does_not() {
        for (returned, fails) in [(Error::Closed, false), (Error::Interrupted, true)] {
            let shutdown = ShutdownState::default();
            let mailbox = Mailbox::new(Waker::noop().clone(), &shutdown);
            let (tx, rx) = mpsc::channel();
            mailbox.submit(Item(tx.clone()));
            let ended = run(&mailbox, &shutdown, || unreachable!("no panic"), || returned.clone());
            assert_eq!(ended, (returned.clone(), 1));
            mailbox.submit(Item(tx));
            assert_eq!(rx.try_iter().collect::<Vec<_>>(), [returned.clone(), returned.clone()]);
            assert_eq!(shutdown.error(), fails.then_some(returned));
        }
    }

    #[test]
    fn a_panic_fails_the_communicator() {
        let shutdown = ShutdownState::default();
        let mailbox = Mailbox::<Item>::new(Waker::noop().clone(), &shutdown);
        let (tx, rx) = mpsc::channel();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run(&mailbox, &shutdown, || tx.send(()).unwrap(), || panic!("as a defect would"))
        }));
        assert!(caught.is_err());
        assert_eq!(
            (shutdown.error(), mailbox.ended()),
            (Some(Error::EngineFailed), Some(Error::EngineFailed))
        );
        assert_eq!(rx.try_iter().count(), 1);
    }
}
