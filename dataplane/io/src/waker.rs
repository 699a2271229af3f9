//! How a thread of this process wakes another that sleeps on a backend without file descriptors.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use crate::sync::{AtomicBool, Condvar, Mutex, fence};

/// One sleeping thread, any number of notifying threads. Notifying costs an atomic access unless the thread sleeps.
///
/// Both sides write their own flag and then read the other's, with a sequentially consistent fence between (Dekker),
/// so at least one of them sees the other: no wake-up is lost.
#[derive(Debug, Default)]
pub(crate) struct ThreadWaker {
    /// A notification that no wait has consumed yet.
    notified: AtomicBool,
    /// The thread is about to sleep or asleep.
    sleeping: AtomicBool,
    lock: Mutex<()>,
    condvar: Condvar,
}

impl ThreadWaker {
    /// Ends the current or the next [`wait`](Self::wait).
    pub(crate) fn notify(&self) {
        self.notified.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) {
            // The sleeper holds the lock from its last check of `notified` until it sleeps.
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.condvar.notify_one();
        }
    }

    /// Ends the current [`wait`](Self::wait) if there is one, after the caller changed what the sleeper's `ready`
    /// reads.
    pub(crate) fn notify_if_sleeping(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) {
            self.notify();
        }
    }

    /// Consumes a notification. Without one nothing is written.
    fn take_notification(&self) -> bool {
        self.notified.load(Ordering::Relaxed) && self.notified.swap(false, Ordering::Acquire)
    }

    /// Sleeps until there is a notification, `ready` holds (`true`), or `timeout` is over (`false`). Counts in `slept` whether
    /// the thread was put to sleep.
    pub(crate) fn wait(&self, timeout: Duration, slept: &mut u64, ready: impl Fn() -> bool) -> bool {
        if self.take_notification() || ready() {
            return true;
        }
        if timeout.is_zero() {
            return false;
        }
        // A timeout beyond what the clock can say is one without end; waking once a day does no harm.
        let now = Instant::now();
        let deadline = now.checked_add(timeout).unwrap_or(now + Duration::from_secs(86_400));
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let woken = loop {
            if self.take_notification() || ready() {
                break true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break false;
            }
            *slept += 1;
            guard = self.condvar.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        };
        self.sleeping.store(false, Ordering::Relaxed);
        woken
    }

    /// This waker as a task waker.
    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }
}

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify();
    }
}

#[cfg(all(test, netfold_loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;
    use loom::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    /// A sleeper that missed a notification would never end, which loom reports as a deadlock.
    #[test]
    fn no_notification_is_lost() {
        loom::model(|| {
            let waker = Arc::new(ThreadWaker::default());
            let notifier = Arc::clone(&waker);
            let thread = thread::spawn(move || notifier.notify());
            assert!(waker.wait(LONG, &mut 0, || false));
            thread.join().unwrap();
        });
    }

    #[test]
    fn no_change_of_what_is_awaited_is_lost() {
        loom::model(|| {
            let shared = Arc::new((ThreadWaker::default(), AtomicU32::new(0)));
            let other = Arc::clone(&shared);
            let thread = thread::spawn(move || {
                other.1.store(1, Ordering::Release);
                other.0.notify_if_sleeping();
            });
            let (waker, word) = &*shared;
            assert!(waker.wait(LONG, &mut 0, || word.load(Ordering::Acquire) == 1));
            assert_eq!(word.load(Ordering::Acquire), 1);
            thread.join().unwrap();
        });
    }
}
