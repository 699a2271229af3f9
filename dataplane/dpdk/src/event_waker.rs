//! Waking a thread that sleeps on an event descriptor.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use netfold_io::IoError;
use netfold_io::event_waker::EventWaker as Waker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// One sleeping thread, any number of wakers.
#[derive(Debug)]
pub(crate) struct EventWaker(Waker);

impl EventWaker {
    pub(crate) fn new() -> Result<Self, IoError> {
        Waker::new().map(Self)
    }

    /// Whether it was woken since the last call.
    pub(crate) fn take(&self) -> bool {
        self.0.take_notification()
    }

    /// Sleeps until it is woken, `also` is readable, or the timeout expires. True when it was woken, now or before.
    pub(crate) fn sleep(&self, timeout: Duration, also: Option<BorrowedFd<'_>>) -> Result<bool, IoError> {
        if !self.0.announce_sleep() {
            return Ok(true);
        }
        let event = self.0.fd();
        let mut fds = [
            PollFd::from_borrowed_fd(event, PollFlags::IN),
            PollFd::from_borrowed_fd(also.unwrap_or(event), PollFlags::IN),
        ];
        let timeout = Timespec {
            tv_sec: timeout.as_secs().min(86_400) as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        let slept = poll(&mut fds, Some(&timeout));
        let rang = slept.is_ok() && !fds[0].revents().is_empty();
        self.0.end_sleep(rang);
        match slept {
            Ok(_) | Err(Errno::INTR) => Ok(rang),
            Err(error) => Err(IoError::Os { call: "poll", source: error.into() }),
        }
    }
}

impl Wake for EventWaker {
    fn wake(self: Arc<Self>) {
        self.0.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.notify();
    }
}
