//! Waking a thread that sleeps in `ppoll`, from another thread. Not part of the interface: for Netfold's own back ends.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Wake;

use crate::sync::{AtomicBool, fence};
use crate::{IoError, sys};

/// What a thread sleeps on.
pub trait Event {
    /// Makes it ready.
    fn set(&self);
    /// Makes it not ready, which it was.
    fn clear(&self);
}

impl Event for File {
    fn set(&self) {
        // Fails only when the counter is full, and then the sleeper wakes anyway.
        let _ = (&*self).write(&1_u64.to_ne_bytes());
    }

    fn clear(&self) {
        let _ = (&*self).read(&mut [0; 8]); // there is no other reader, so it is not empty
    }
}

/// An event descriptor that is written only while a thread sleeps on it.
#[derive(Debug)]
pub struct EventWaker<E = File> {
    event: E,
    notified: AtomicBool,
    sleeping: AtomicBool,
}

impl EventWaker {
    /// A waker with an event descriptor of its own.
    ///
    /// # Errors
    ///
    /// [`IoError::Os`] when the system gives no descriptor.
    pub fn new() -> Result<Self, IoError> {
        let event = sys::eventfd().map_err(|source| IoError::os("eventfd", source))?;
        Ok(Self::over(event))
    }

    /// The waker of a non-blocking event descriptor, which others may write to as well.
    pub fn over(event: File) -> Self {
        Self { event, notified: AtomicBool::new(false), sleeping: AtomicBool::new(false) }
    }

    /// What the thread sleeps on.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl<E: Event> EventWaker<E> {
    /// Ends the current or the next sleep.
    pub fn notify(&self) {
        self.notified.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) {
            self.event.set();
        }
    }

    /// Whether there was a notification since the last call, or the last sleep. Without one nothing is written.
    pub fn take_notification(&self) -> bool {
        self.notified.load(Ordering::Relaxed) && self.notified.swap(false, Ordering::Acquire)
    }

    /// Announces sleep; `false` when there was a notification before, and sleep must not begin.
    pub fn announce_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.notified.swap(false, Ordering::Acquire) {
            self.sleeping.store(false, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Ends what [`announce_sleep`](Self::announce_sleep) began. `readable`: the descriptor was found so.
    pub fn end_sleep(&self, readable: bool) {
        self.sleeping.store(false, Ordering::Relaxed);
        if readable {
            // An acquire, so that the effects before the notification, which this clears, are visible.
            self.notified.swap(false, Ordering::Acquire);
            self.event.clear();
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

#[cfg(all(test, netfold_loom))]
mod loom_tests {
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    use super::*;

    /// An event descriptor in the model: a flag that can be waited for.
    #[derive(Default)]
    struct Flag(Mutex<bool>, Condvar);

    impl Flag {
        /// What `ppoll` without a timeout does.
        fn wait(&self) {
            let mut set = self.0.lock().unwrap();
            while !*set {
                set = self.1.wait(set).unwrap();
            }
        }
    }

    impl Event for Flag {
        fn set(&self) {
            *self.0.lock().unwrap() = true;
            self.1.notify_one();
        }

        fn clear(&self) {
            *self.0.lock().unwrap() = false;
        }
    }

    fn sleep(waker: &EventWaker<Flag>) {
        if waker.announce_sleep() {
            waker.event.wait();
            waker.end_sleep(true);
        }
    }

    /// Each notification ends a sleep that begins after it or is under way. Loom reports a sleep without end as a deadlock.
    #[test]
    fn no_notification_is_lost() {
        loom::model(|| {
            let notified = AtomicBool::new(false);
            let waker =
                Arc::new(EventWaker { event: Flag::default(), notified, sleeping: AtomicBool::new(false) });
            let notifier = Arc::clone(&waker);
            let thread = thread::spawn(move || notifier.notify());
            sleep(&waker);
            thread.join().unwrap();
            // The next sleep is not ended by the notification that was consumed; but by another one.
            waker.notify();
            sleep(&waker);
        });
    }
}
