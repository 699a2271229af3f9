//! Waking a thread that sleeps in `ppoll`, from another thread.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Wake;

use crate::{IoError, sys};

/// An event descriptor that is written only while somebody sleeps on it.
#[derive(Debug)]
pub(crate) struct EventBell {
    event: File,
    rung: AtomicBool,
    sleeping: AtomicBool,
}

impl EventBell {
    pub(crate) fn new() -> Result<Self, IoError> {
        let event = sys::eventfd().map_err(|source| IoError::os("eventfd", source))?;
        Ok(Self::over(event))
    }

    /// The bell of an event descriptor that does not block, which others may write to as well.
    pub(crate) fn over(event: File) -> Self {
        Self { event, rung: AtomicBool::new(false), sleeping: AtomicBool::new(false) }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Ends the current or the next sleep.
    pub(crate) fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) {
            // Fails only when the counter is full, and then the sleeper wakes anyway.
            let _ = (&self.event).write(&1_u64.to_ne_bytes());
        }
    }

    /// Announces sleep; `false` when the bell was rung before, and sleep must not begin.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.rung.swap(false, Ordering::Acquire) {
            self.sleeping.store(false, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Ends what [`fall_asleep`](Self::fall_asleep) began. `readable`: the descriptor was found so.
    pub(crate) fn wake_up(&self, readable: bool) {
        self.sleeping.store(false, Ordering::Relaxed);
        if readable {
            // Read, too: what a ringer did before, which this forgets, is seen.
            self.rung.swap(false, Ordering::Acquire);
            let _ = (&self.event).read(&mut [0; 8]); // nobody else reads it, so it is not empty
        }
    }
}

impl Wake for EventBell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}
