//! How a rank that publishes a step wakes those that sleep until it does, in any process.
//!
//! Both sides write their own word and then read the other's, with a sequentially consistent fence between: either the publisher sees a sleeper,
//! or the sleeper sees the step.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[cfg(netfold_loom)]
use loom::sync::atomic::fence;
#[cfg(not(netfold_loom))]
use std::sync::atomic::fence;

use crate::shared::sys;

/// A word that several processes see, and on which threads sleep.
pub(crate) trait Word {
    fn load(&self, ordering: Ordering) -> u32;
    fn store(&self, value: u32, ordering: Ordering);
    /// Adds with wrapping.
    fn add(&self, value: u32, ordering: Ordering);
    /// Sleeps while the word is `expected`, at most `timeout`. May return early for any reason.
    fn sleep_while(&self, expected: u32, timeout: Duration);
    /// Wakes all that sleep on the word.
    fn wake(&self);
}

impl Word for AtomicU32 {
    fn load(&self, ordering: Ordering) -> u32 {
        self.load(ordering)
    }

    fn store(&self, value: u32, ordering: Ordering) {
        self.store(value, ordering);
    }

    fn add(&self, value: u32, ordering: Ordering) {
        self.fetch_add(value, ordering);
    }

    fn sleep_while(&self, expected: u32, timeout: Duration) {
        sys::futex_wait(self, expected, timeout);
    }

    fn wake(&self) {
        sys::futex_wake(self);
    }
}

/// Publishes a step: a rank that sees it sees everything that was written before.
pub(crate) fn publish<W: Word>(step: &W, sleepers: &W, value: u32) {
    step.store(value, Ordering::Release);
    fence(Ordering::SeqCst);
    if sleepers.load(Ordering::Relaxed) != 0 {
        step.wake();
    }
}

/// Sleeps until a step is published, at most `timeout`, if `awaited` returns true for the current one. Returns the step published then.
pub(crate) fn sleep<W: Word>(
    step: &W,
    sleepers: &W,
    awaited: impl Fn(u32) -> bool,
    timeout: Duration,
) -> u32 {
    sleepers.add(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    let seen = step.load(Ordering::Relaxed);
    if awaited(seen) {
        step.sleep_while(seen, timeout);
    }
    sleepers.add(u32::MAX, Ordering::Relaxed);
    step.load(Ordering::Acquire)
}

#[cfg(all(test, netfold_loom))]
mod loom_tests {
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;

    use super::*;

    /// A word in the model. The kernel compares and sleeps under a lock, which a waking thread takes.
    struct ModelWord {
        value: loom::sync::atomic::AtomicU32,
        kernel: Mutex<()>,
        asleep: Condvar,
    }

    impl ModelWord {
        fn new() -> Self {
            let value = loom::sync::atomic::AtomicU32::new(0);
            Self { value, kernel: Mutex::new(()), asleep: Condvar::new() }
        }
    }

    impl Word for ModelWord {
        fn load(&self, ordering: Ordering) -> u32 {
            self.value.load(ordering)
        }

        fn store(&self, value: u32, ordering: Ordering) {
            self.value.store(value, ordering);
        }

        fn add(&self, value: u32, ordering: Ordering) {
            self.value.fetch_add(value, ordering);
        }

        fn sleep_while(&self, expected: u32, _: Duration) {
            let kernel = self.kernel.lock().unwrap();
            if self.value.load(Ordering::Relaxed) == expected {
                drop(self.asleep.wait(kernel).unwrap());
            }
        }

        fn wake(&self) {
            drop(self.kernel.lock().unwrap());
            self.asleep.notify_all();
        }
    }

    /// Two ranks sleep until the third has done two steps. One that missed a step would sleep for ever, which loom reports as a deadlock; what the
    /// third has written is seen.
    #[test]
    fn no_step_is_missed() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let shared = Arc::new((ModelWord::new(), ModelWord::new(), loom::cell::UnsafeCell::new(0)));
            let wait = |shared: Arc<(ModelWord, ModelWord, loom::cell::UnsafeCell<i32>)>| {
                let mut seen = shared.0.load(Ordering::Acquire);
                while seen < 2 {
                    seen = sleep(&shared.0, &shared.1, |seen| seen < 2, Duration::from_secs(3600));
                }
                shared.2.with(|_| ());
            };
            let other = Arc::clone(&shared);
            let sleeper = thread::spawn(move || wait(other));
            let other = Arc::clone(&shared);
            let publisher = thread::spawn(move || {
                publish(&other.0, &other.1, 1);
                other.2.with_mut(|_| ());
                publish(&other.0, &other.1, 2);
            });
            wait(shared);
            sleeper.join().unwrap();
            publisher.join().unwrap();
        });
    }
}
