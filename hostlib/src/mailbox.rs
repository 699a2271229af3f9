//! The queue between callers and the thread that does the operations, with that thread's counters and end.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Duration;

use netfold_io::sync::{AtomicBool, Condvar, Mutex, MutexGuard};

use crate::error::Error;
use crate::report::Stats;
use crate::shutdown::{ShutdownState, StopMode};

/// Operations that wait for the engine beyond those that it works on. A caller that submits more is blocked.
const SUBMISSIONS_MAX: usize = if cfg!(netfold_loom) { 1 } else { 256 };

/// A queued operation.
pub(crate) trait QueueItem {
    /// Settles the operation with an error.
    fn reject(self, error: Error);
}

/// The engine's queue of operations, its counters and its end.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    inbox: Mutex<Inbox<T>>,
    /// There is room again, or the job is over.
    room: Condvar,
    /// Something was put into the inbox.
    arrival: Condvar,
    /// The inbox has changed since the engine last collected from it.
    notified: AtomicBool,
    /// Wakes the engine where it waits for packets.
    waker: Mutex<Waker>,
    shutdown: ShutdownState,
}

#[derive(Debug)]
struct Inbox<T> {
    submissions: VecDeque<T>,
    /// The engine may be waiting for other ranks, and checks nothing else meanwhile.
    busy: bool,
    /// A caller executes an operation itself, instead of the engine.
    claimed: bool,
    /// A caller has left something for the engine's thread.
    roused: bool,
    /// The engine has ended, with this.
    ended: Option<Error>,
    stats: Stats,
}

/// What the engine is to do.
#[derive(Debug)]
pub(crate) enum Command {
    /// Continue.
    Work,
    /// End as soon as nothing is pending.
    StopWhenIdle,
    /// End with this error.
    End(Error),
}

impl<T: QueueItem + Send + 'static> Mailbox<T> {
    /// A mailbox of a communicator, which is notified when the communicator is to end.
    pub(crate) fn new(waker: Waker, shutdown: &ShutdownState) -> Arc<Self> {
        let mailbox = Arc::new(Self::unsubscribed(waker, shutdown));
        // The state is part of the mailbox: a strong reference back would keep both.
        let weak = Arc::downgrade(&mailbox);
        let notify = move || weak.upgrade().iter().for_each(|mailbox| mailbox.notify());
        shutdown.on_request(notify.clone());
        shutdown.on_error(move |_| notify());
        mailbox
    }
}

impl<T: QueueItem> Mailbox<T> {
    /// A mailbox that is not notified of the end.
    fn unsubscribed(waker: Waker, shutdown: &ShutdownState) -> Self {
        let inbox = Inbox {
            submissions: VecDeque::new(),
            busy: false,
            claimed: false,
            roused: false,
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
            shutdown: shutdown.clone(),
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

    /// Makes the engine collect again.
    pub(crate) fn notify(&self) {
        self.notify_locked(self.lock());
    }

    /// Engine: sets how it is woken from now on.
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

    /// Engine's thread: sleeps until a caller has left something for it, or the inbox has changed and no caller has the engine, at most
    /// `timeout`; whether there is something for it to do. `is_taken` returns whether a caller has the engine. It is called while the inbox
    /// is locked: a caller that gives the engine back after that finds what was put into the inbox before, and what is put in later wakes the thread.
    pub(crate) fn wait_for_thread(&self, timeout: Duration, is_taken: impl Fn() -> bool) -> bool {
        let is_needed =
            |inbox: &Inbox<T>| inbox.roused || (self.notified.load(Ordering::Acquire) && !is_taken());
        let mut inbox = self.lock();
        if !is_needed(&inbox) {
            inbox = self.arrival.wait_timeout(inbox, timeout).unwrap_or_else(PoisonError::into_inner).0;
        }
        let needed = is_needed(&inbox);
        inbox.roused = false;
        needed
    }

    /// A caller that has had the engine leaves something for its thread.
    pub(crate) fn rouse_thread(&self) {
        self.lock().roused = true;
        self.arrival.notify_all();
    }

    /// Whether the inbox has changed since the engine last collected from it.
    pub(crate) fn is_notified(&self) -> bool {
        self.notified.load(Ordering::Acquire)
    }

    /// Whether no operation waits for the engine.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().submissions.is_empty()
    }

    /// The engine's counters.
    pub(crate) fn stats(&self) -> Stats {
        self.lock().stats
    }

    /// Engine: whether [`Self::collect`] has something new.
    pub(crate) fn take_notification(&self) -> bool {
        self.notified.load(Ordering::Relaxed) && self.notified.swap(false, Ordering::Acquire)
    }

    /// Engine: moves at most `room` operations to `into` and returns the command. `session_failure` is the error of the
    /// engine's control session: it takes precedence over a request to stop, but not over this rank's own error.
    pub(crate) fn collect(&self, room: usize, into: &mut Vec<T>, session_failure: Option<Error>) -> Command {
        if let Some(error) = self.shutdown.error().or(session_failure) {
            return Command::End(error);
        }
        // Before the inbox is looked at: what was submitted before the request is in it.
        let command = match self.shutdown.requested() {
            Some(StopMode::Now) => return Command::End(Error::Closed),
            Some(StopMode::WhenIdle) => Command::StopWhenIdle,
            None => Command::Work,
        };
        let mut inbox = self.lock();
        if inbox.claimed {
            return Command::Work;
        }
        let count = room.min(inbox.submissions.len());
        inbox.busy = count > 0;
        into.extend(inbox.submissions.drain(..count));
        if count > 0 {
            self.room.notify_all();
        }
        command
    }

    /// Lets the caller execute operations instead of an idle engine, until [`Self::release`]; false if the engine is not idle.
    pub(crate) fn claim(&self) -> bool {
        let ending = self.shutdown.is_ending();
        let mut inbox = self.lock();
        if ending || inbox.ended.is_some() || inbox.busy || inbox.claimed || !inbox.submissions.is_empty() {
            return false;
        }
        inbox.claimed = true;
        true
    }

    /// Returns control to the engine.
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

    /// Whether the engine took operations when it last collected, and may be waiting for other ranks.
    pub(crate) fn is_busy(&self) -> bool {
        self.lock().busy
    }

    /// Engine: publishes its counters.
    pub(crate) fn post(&self, stats: Stats) {
        self.lock().stats = stats;
    }

    /// Engine: the job is over. Everything in the inbox is finished with `error`, and so is all that comes later. The
    /// first error counts. Returns how many operations were in the inbox.
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Item;

    impl QueueItem for Item {
        fn reject(self, _: Error) {}
    }

    #[test]
    fn what_is_put_into_the_inbox_while_the_engine_is_given_back_is_found() {
        let mailbox = Mailbox::<Item>::unsubscribed(Waker::noop().clone(), &ShutdownState::default());
        let wait = |taken: bool| {
            let is_taken = || {
                assert!(mailbox.inbox.try_lock().is_err(), "an item may come between the look and the wait");
                taken
            };
            mailbox.wait_for_thread(Duration::ZERO, is_taken)
        };
        assert!(!wait(false) && !wait(true), "nothing to do");
        mailbox.submit(Item);
        assert!(!wait(true), "the caller that has the engine takes it");
        assert!(wait(false));
        mailbox.rouse_thread();
        assert!(wait(true), "left by a caller");
        assert!(!wait(true), "once");
    }
}

#[cfg(all(test, netfold_loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    /// Counts operations that were rejected.
    struct Item(Arc<AtomicUsize>);

    impl QueueItem for Item {
        fn reject(self, _: Error) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn mailbox() -> Arc<Mailbox<Item>> {
        Arc::new(Mailbox::unsubscribed(Waker::noop().clone(), &ShutdownState::default()))
    }

    fn counter() -> Arc<AtomicUsize> {
        Arc::new(AtomicUsize::new(0))
    }

    /// A caller on a thread of its own.
    fn submit(mailbox: &Arc<Mailbox<Item>>, rejected: &Arc<AtomicUsize>) -> thread::JoinHandle<()> {
        let (mailbox, item) = (Arc::clone(mailbox), Item(Arc::clone(rejected)));
        thread::spawn(move || mailbox.submit(item))
    }

    /// Explores the orders in which threads are interrupted three times at most: all of them take minutes.
    fn check(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    /// The engine collects until it has so many operations.
    fn collect(mailbox: &Mailbox<Item>, count: usize) -> Vec<Item> {
        let mut items = Vec::new();
        while items.len() < count {
            if mailbox.take_notification() {
                assert!(matches!(mailbox.collect(count, &mut items, None), Command::Work));
            } else {
                mailbox.wait(LONG);
            }
        }
        items
    }

    /// The inbox has room for one operation, so the second caller may have to wait. One that is not woken would wait for ever, which loom reports
    /// as a deadlock; so would the engine.
    #[test]
    fn every_submission_reaches_the_engine() {
        check(|| {
            let (mailbox, rejected) = (mailbox(), counter());
            let threads = [submit(&mailbox, &rejected), submit(&mailbox, &rejected)];
            assert_eq!(collect(&mailbox, 2).len(), 2);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn a_submission_is_rejected_once_when_the_job_ends() {
        check(|| {
            let (mailbox, rejected) = (mailbox(), counter());
            let threads = [submit(&mailbox, &rejected), submit(&mailbox, &rejected)];
            mailbox.end(Error::Closed);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(rejected.load(Ordering::Relaxed), 2);
        });
    }

    #[test]
    fn a_caller_that_has_claimed_the_engine_excludes_it() {
        check(|| {
            let (mailbox, rejected) = (mailbox(), counter());
            // What only the engine or the caller that has claimed it may touch: loom reports accesses that nothing orders.
            let state = loom::sync::Arc::new(UnsafeCell::new(0));
            let submitter = submit(&mailbox, &rejected);
            let (other, claimed) = (Arc::clone(&mailbox), loom::sync::Arc::clone(&state));
            let caller = thread::spawn(move || {
                if other.claim() {
                    claimed.with_mut(|_| ());
                    other.release();
                }
            });
            drop(collect(&mailbox, 1));
            state.with_mut(|_| ());
            submitter.join().unwrap();
            caller.join().unwrap();
        });
    }
}
