//! Waking a thread that sleeps on an event descriptor.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Wake;
use std::time::Duration;

use netfold_io::IoError;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

/// One sleeper, any number of ringers; the descriptor is written only while somebody sleeps on it.
///
/// Both sides write their own flag and then read the other's, with a sequentially consistent fence between, so at least one of
/// them sees the other. Who finds the bell rung sees what the ringer did before.
#[derive(Debug)]
pub(crate) struct Bell {
    event: OwnedFd,
    rung: AtomicBool,
    sleeping: AtomicBool,
}

impl Bell {
    pub(crate) fn new() -> Result<Self, IoError> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| IoError::Os { call: "eventfd", source: error.into() })?;
        Ok(Self { event, rung: AtomicBool::new(false), sleeping: AtomicBool::new(false) })
    }

    /// Whether the bell was rung since the last time this was asked.
    pub(crate) fn take(&self) -> bool {
        self.rung.load(Ordering::Relaxed) && self.rung.swap(false, Ordering::Acquire)
    }

    /// Sleeps until the bell rings, `also` is readable, or the time is over. True when the bell rang or was rung before.
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
                // Nobody else reads it, so it is not empty.
                let _ = rustix::io::read(&self.event, &mut [0; 8]);
                rang = true;
            }
        }
        self.sleeping.store(false, Ordering::Relaxed);
        if rang {
            // Read, too: whatever a ringer did before, which this forgets, is seen.
            self.rung.swap(false, Ordering::Acquire);
        }
        Ok(rang)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) {
            // Fails only when the counter is full, and then the sleeper wakes anyway.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }
}
