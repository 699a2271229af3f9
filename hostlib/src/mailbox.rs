//! What callers tell the thread that does the operations, and the board on which it answers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use crate::error::Error;
use crate::report::Stats;

/// Operations that wait for the engine beyond those that it works on. A caller that submits more is blocked.
const SUBMISSIONS_MAX: usize = 256;

/// An operation that waits to be done.
pub(crate) trait QueueItem {
    /// Gives the tensor back, as failed.
    fn reject(self, error: Error);
}

/// The engine's inbox, and the board on which it posts counters and its end.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    inbox: Mutex<Inbox<T>>,
    /// There was room, or the job is over.
    room: Condvar,
    /// Something was put into the inbox.
    arrival: Condvar,
    /// Something was put into the inbox since the engine last looked.
    notified: AtomicBool,
    /// Wakes the engine where it waits for packets.
    waker: Mutex<Waker>,
}

#[derive(Debug)]
struct Inbox<T> {
    submissions: VecDeque<T>,
    /// The caller wants the engine to end: when all is done, or at once.
    stop: Option<Stop>,
    /// This rank's own side has ended the job.
    failure: Option<Error>,
    /// The engine may be waiting for other ranks, and look at nothing else meanwhile.
    busy: bool,
    /// A caller does an operation itself, in the engine's place.
    claimed: bool,
    /// The engine has ended, with this.
    ended: Option<Error>,
    stats: Stats,
}

/// When the engine should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// When every submitted operation is finished.
    WhenIdle,
    /// At once.
    Now,
}

/// What the engine finds in its inbox.
#[derive(Debug)]
pub(crate) enum Command {
    /// Go on.
    Work,
    /// End as soon as nothing is pending.
    StopWhenIdle,
    /// End with this error.
    End(Error),
}

impl<T: QueueItem> Mailbox<T> {
    pub(crate) fn new(waker: Waker) -> Self {
        let inbox = Inbox {
            submissions: VecDeque::new(),
            stop: None,
            failure: None,
            busy: false,
            claimed: false,
            ended: None,
            stats: Stats::default(),
        };
        let notified = AtomicBool::new(false);
        Self {
            inbox: Mutex::new(inbox),
            room: Condvar::new(),
            arrival: Condvar::new(),
            notified,
            waker: Mutex::new(waker),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inbox<T>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify_locked(&self, inbox: MutexGuard<'_, Inbox<T>>) {
        self.notified.store(true, Ordering::Release);
        drop(inbox);
        self.arrival.notify_all();
        self.waker.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
    }

    /// Has the engine look at everything again.
    pub(crate) fn notify(&self) {
        self.notify_locked(self.lock());
    }

    /// Engine: it waits for other packets from now on.
    pub(crate) fn set_waker(&self, waker: Waker) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = waker;
    }

    /// Hands an operation to the engine; blocks while the inbox is full. After the end of the job the operation is
    /// finished with the error that ended it.
    pub(crate) fn submit(&self, submission: T) {
        let mut inbox = self.lock();
        while inbox.ended.is_none() && inbox.submissions.len() >= SUBMISSIONS_MAX {
            inbox = self.room.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(error) = &inbox.ended {
            let error = error.clone();
            drop(inbox);
            return submission.reject(error);
        }
        inbox.submissions.push_back(submission);
        self.notify_locked(inbox);
    }

    /// The error that ended the job, if it has ended.
    pub(crate) fn ended(&self) -> Option<Error> {
        self.lock().ended.clone()
    }

    /// Ends the job from this rank's own side. The first end stands.
    pub(crate) fn fail(&self, error: Error) {
        let mut inbox = self.lock();
        inbox.failure.get_or_insert(error);
        self.notify_locked(inbox);
    }

    /// Engine: sleeps until something is put into the inbox, at most `timeout`. Returns at once when there is something
    /// that no [`Self::collect`] has seen.
    pub(crate) fn wait(&self, timeout: Duration) {
        if crate::work::spin_until(|| self.notified.load(Ordering::Acquire)) {
            return;
        }
        let inbox = self.lock();
        if !self.notified.load(Ordering::Acquire) {
            drop(self.arrival.wait_timeout(inbox, timeout).unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Asks the engine to end. `Now` overrides `WhenIdle`.
    pub(crate) fn stop(&self, stop: Stop) {
        let mut inbox = self.lock();
        if inbox.stop != Some(Stop::Now) {
            inbox.stop = Some(stop);
        }
        self.notify_locked(inbox);
    }

    /// The engine's counters.
    pub(crate) fn stats(&self) -> Stats {
        self.lock().stats
    }

    /// Engine: whether [`Self::collect`] has something new.
    pub(crate) fn take_notification(&self) -> bool {
        self.notified.load(Ordering::Relaxed) && self.notified.swap(false, Ordering::Acquire)
    }

    /// Engine: moves at most `room` operations to `into` and returns what else is wanted. `session_failure` is what the engine has heard
    /// elsewhere: it goes before whatever callers want, and behind the end from this rank's own side.
    pub(crate) fn collect(&self, room: usize, into: &mut Vec<T>, session_failure: Option<Error>) -> Command {
        let mut inbox = self.lock();
        if let Some(error) = inbox.failure.clone().or(session_failure) {
            return Command::End(error);
        }
        let order = match inbox.stop {
            Some(Stop::Now) => return Command::End(Error::Closed),
            Some(Stop::WhenIdle) => Command::StopWhenIdle,
            None => Command::Work,
        };
        if inbox.claimed {
            return Command::Work;
        }
        let count = room.min(inbox.submissions.len());
        inbox.busy = count > 0;
        into.extend(inbox.submissions.drain(..count));
        if count > 0 {
            self.room.notify_all();
        }
        order
    }

    /// Takes the engine's place, if it has nothing to do, until [`Self::release`]: for callers that would only wait for it.
    pub(crate) fn claim(&self) -> bool {
        let mut inbox = self.lock();
        let over = inbox.ended.is_some() || inbox.failure.is_some() || inbox.stop.is_some();
        if over || inbox.busy || inbox.claimed || !inbox.submissions.is_empty() {
            return false;
        }
        inbox.claimed = true;
        true
    }

    /// Gives the engine its place back.
    pub(crate) fn release(&self) {
        let mut inbox = self.lock();
        inbox.claimed = false;
        if !inbox.submissions.is_empty() {
            self.notify_locked(inbox);
        }
    }

    /// Engine: it will wait for other ranks until it collects again.
    pub(crate) fn set_busy(&self) {
        self.lock().busy = true;
    }

    /// Whether the engine took something when it last looked, and may be waiting for other ranks with it.
    pub(crate) fn is_busy(&self) -> bool {
        self.lock().busy
    }

    /// Engine: posts its counters.
    pub(crate) fn post(&self, stats: Stats) {
        self.lock().stats = stats;
    }

    /// Engine: the job is over. Everything in the inbox is finished with `error`, and so is all that comes later. The
    /// first end stands. Returns how many operations were in the inbox.
    pub(crate) fn end(&self, error: Error) -> usize {
        let mut inbox = self.lock();
        let error = inbox.ended.get_or_insert(error).clone();
        let left = std::mem::take(&mut inbox.submissions);
        drop(inbox);
        self.room.notify_all();
        let count = left.len();
        for submission in left {
            submission.reject(error.clone());
        }
        count
    }
}
