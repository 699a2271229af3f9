//! Waking a thread that sleeps in `ppoll`, from another thread.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Wake;

use crate::{IoError, sys};

/// An event descriptor that is written only while a thread sleeps on it.
#[derive(Debug)]
pub(crate) struct EventWaker {
    event: File,
    notified: AtomicBool,
    sleeping: AtomicBool,
}

impl EventWaker {
    pub(crate) fn new() -> Result<Self, IoError> {
        let event = sys::eventfd().map_err(|source| IoError::os("eventfd", source))?;
        Ok(Self::over(event))
    }

    /// The waker of a non-blocking event descriptor, which others may write to as well.
    pub(crate) fn over(event: File) -> Self {
        Self { event, notified: AtomicBool::new(false), sleeping: AtomicBool::new(false) }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Ends the current or the next sleep.
    pub(crate) fn notify(&self) {
        self.notified.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) {
            // Fails only when the counter is full, and then the sleeper wakes anyway.
            let _ = (&self.event).write(&1_u64.to_ne_bytes());
        }
    }

    /// Announces sleep; `false` when there was a notification before, and sleep must not begin.
    pub(crate) fn announce_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.notified.swap(false, Ordering::Acquire) {
            self.sleeping.store(false, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Ends what [`announce_sleep`](Self::announce_sleep) began. `readable`: the descriptor was found so.
    pub(crate) fn end_sleep(&self, readable: bool) {
        self.sleeping.store(false, Ordering::Relaxed);
        if readable {
            // An acquire, so that the effects before the notification, which this clears, are visible.
            self.notified.swap(false, Ordering::Acquire);
            let _ = (&self.event).read(&mut [0; 8]); // there is no other reader, so it is not empty
        }
    }
}

impl Wake for EventWaker {
    fn wake(self: Arc<Self>) {
        self.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify();
    }
}
