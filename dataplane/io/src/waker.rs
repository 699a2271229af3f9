//! How a thread of this process wakes another that sleeps on a backend without file descriptors.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

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

    /// Sleeps until there is a notification, `ready` holds (`true`), or `timeout` is over (`false`). Counts in `slept` whether
    /// the thread was put to sleep.
    pub(crate) fn wait(&self, timeout: Duration, slept: &mut u64, ready: impl Fn() -> bool) -> bool {
        if self.notified.swap(false, Ordering::Acquire) || ready() {
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
            if self.notified.swap(false, Ordering::Acquire) || ready() {
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
