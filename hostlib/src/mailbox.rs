//! What the caller and the control session tell the engine.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::error::Error;
use crate::report::Stats;
use crate::tensors::Submission;

/// Operations that wait for the engine beyond those that it works on. A caller that submits more is blocked.
const SUBMISSIONS_MAX: usize = 256;

/// The engine's inbox, and the board on which it posts counters and its end.
#[derive(Debug)]
pub(crate) struct Mailbox {
    inbox: Mutex<Inbox>,
    /// There was room, or the job is over.
    room: Condvar,
    /// Something was put into the inbox since the engine last looked.
    flag: AtomicBool,
    waker: Waker,
}

#[derive(Debug, Default)]
struct Inbox {
    submissions: VecDeque<Submission>,
    /// The caller wants the engine to end: when all is done, or at once.
    stop: Option<Stop>,
    /// Someone but the engine found the job to be over.
    verdict: Option<Error>,
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
pub(crate) enum Order {
    /// Go on.
    Work,
    /// End as soon as nothing is pending.
    StopWhenIdle,
    /// End with this error.
    End(Error),
}

impl Mailbox {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { inbox: Mutex::default(), room: Condvar::new(), flag: AtomicBool::new(false), waker }
    }

    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self, inbox: MutexGuard<'_, Inbox>) {
        self.flag.store(true, Ordering::Release);
        drop(inbox);
        self.waker.wake_by_ref();
    }

    /// Hands an operation to the engine; blocks while the inbox is full. After the end of the job the operation is
    /// finished with the error that ended it.
    pub(crate) fn submit(&self, submission: Submission) {
        let mut inbox = self.lock();
        while inbox.ended.is_none() && inbox.submissions.len() >= SUBMISSIONS_MAX {
            inbox = self.room.wait(inbox).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(error) = &inbox.ended {
            let error = error.clone();
            drop(inbox);
            return submission.parcel.finish(Err(error));
        }
        inbox.submissions.push_back(submission);
        self.ring(inbox);
    }

    /// The error that ended the job, if it has ended.
    pub(crate) fn ended(&self) -> Option<Error> {
        self.lock().ended.clone()
    }

    /// Tells the engine that the job is over. The first verdict stands.
    pub(crate) fn condemn(&self, error: Error) {
        let mut inbox = self.lock();
        inbox.verdict.get_or_insert(error);
        self.ring(inbox);
    }

    /// Asks the engine to end. `Now` overrides `WhenIdle`.
    pub(crate) fn stop(&self, stop: Stop) {
        let mut inbox = self.lock();
        if inbox.stop != Some(Stop::Now) {
            inbox.stop = Some(stop);
        }
        self.ring(inbox);
    }

    /// The engine's counters.
    pub(crate) fn stats(&self) -> Stats {
        self.lock().stats
    }

    /// Engine: whether [`Self::collect`] has something new.
    pub(crate) fn has_news(&self) -> bool {
        self.flag.load(Ordering::Relaxed) && self.flag.swap(false, Ordering::Acquire)
    }

    /// Engine: moves at most `room` operations to `into` and returns what else is wanted.
    pub(crate) fn collect(&self, room: usize, into: &mut Vec<Submission>) -> Order {
        let mut inbox = self.lock();
        if let Some(error) = inbox.verdict.clone() {
            return Order::End(error);
        }
        let order = match inbox.stop {
            Some(Stop::Now) => return Order::End(Error::Closed),
            Some(Stop::WhenIdle) => Order::StopWhenIdle,
            None => Order::Work,
        };
        let count = room.min(inbox.submissions.len());
        into.extend(inbox.submissions.drain(..count));
        if count > 0 {
            self.room.notify_all();
        }
        order
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
            submission.parcel.finish(Err(error.clone()));
        }
        count
    }
}
