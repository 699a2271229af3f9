//! Waking a thread that sleeps on an event descriptor.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Wake;
use std::time::Duration;

use netfold_io::IoError;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// One sleeping thread, any number of wakers; the descriptor is written only while the thread sleeps on it.
///
/// Both sides write their own flag and then read the other's, with a sequentially consistent fence between, so at least one of
/// them sees the other. A thread that finds the flag set sees everything that its waker did before.
#[derive(Debug)]
pub(crate) struct EventWaker {
    event: OwnedFd,
    notified: AtomicBool,
    sleeping: AtomicBool,
}

impl EventWaker {
    pub(crate) fn new() -> Result<Self, IoError> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| IoError::Os { call: "eventfd", source: error.into() })?;
        Ok(Self { event, notified: AtomicBool::new(false), sleeping: AtomicBool::new(false) })
    }

    /// Whether it was woken since the last call.
    pub(crate) fn take(&self) -> bool {
        self.notified.load(Ordering::Relaxed) && self.notified.swap(false, Ordering::Acquire)
    }

    /// Sleeps until it is woken, `also` is readable, or the timeout expires. True when it was woken, now or before.
    pub(crate) fn sleep(&self, timeout: Duration, also: Option<BorrowedFd<'_>>) -> Result<bool, IoError> {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut rang = self.take();
        if !rang {
            let event = self.event.as_fd();
            let mut fds = [
                PollFd::new(&event, PollFlags::IN),
                PollFd::from_borrowed_fd(also.unwrap_or(event), PollFlags::IN),
            ];
            let timeout = Timespec {
                tv_sec: timeout.as_secs().min(86_400) as i64,
                tv_nsec: i64::from(timeout.subsec_nanos()),
            };
            match poll(&mut fds, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(IoError::Os { call: "poll", source: error.into() }),
            }
            if !fds[0].revents().is_empty() {
                // Only this thread reads it, so it is not empty.
                let _ = rustix::io::read(&self.event, &mut [0; 8]);
                rang = true;
            }
        }
        self.sleeping.store(false, Ordering::Relaxed);
        if rang {
            // Read, too: everything that a waker did before the flag is cleared is visible.
            self.notified.swap(false, Ordering::Acquire);
        }
        Ok(rang)
    }
}

impl Wake for EventWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notified.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) {
            // Fails only when the counter is full, and then the thread wakes anyway.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }
}
