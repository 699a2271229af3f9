//! A lock that tenants are given in rotation.

use super::rotation::Rotation;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

/// Something that is used by one thread at a time. Threads that wait for it are served by tenant in rotation, and those of one tenant in the order in which
/// they came: a standard lock serves them in no order, and so mostly the tenant that has most of them.
#[derive(Debug)]
pub(super) struct Turns<T> {
    value: Mutex<T>,
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    taken: bool,
    waiting: Rotation<Arc<Waiter>>,
}

/// A thread that waits.
#[derive(Debug)]
struct Waiter {
    thread: Thread,
    /// It is its turn.
    called: AtomicBool,
}

/// Passes the turn on, also when its holder panics.
struct Turn<'a>(&'a Mutex<Line>);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut line = lock(self.0);
        match line.waiting.pop(|_| true) {
            Some((_, next)) => {
                next.called.store(true, Ordering::Release);
                next.thread.unpark();
            }
            None => line.taken = false,
        }
    }
}

impl<T> Turns<T> {
    pub(super) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), line: Mutex::default() }
    }

    /// Uses the value for a tenant, when it is its turn.
    pub(super) fn with<R>(&self, tenant: &Arc<str>, call: impl FnOnce(&mut T) -> R) -> R {
        self.wait(tenant);
        let _turn = Turn(&self.line);
        // Never waited for: there is one turn.
        call(&mut lock(&self.value))
    }

    fn wait(&self, tenant: &Arc<str>) {
        let mut line = lock(&self.line);
        if !line.taken {
            line.taken = true;
            return;
        }
        let waiter = Arc::new(Waiter { thread: thread::current(), called: AtomicBool::new(false) });
        line.waiting.push(Arc::clone(tenant), Arc::clone(&waiter));
        drop(line);
        while !waiter.called.load(Ordering::Acquire) {
            thread::park();
        }
    }
}

/// A panic while it was locked ends the server.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Blocks until `count` threads wait.
    fn await_waiting(turns: &Turns<Vec<&'static str>>, count: usize) {
        while lock(&turns.line).waiting.len() < count {
            thread::yield_now();
        }
    }

    #[test]
    fn a_tenant_with_one_call_waits_for_one_of_another_tenant_with_many() {
        let turns = Turns::new(Vec::new());
        let (red, blue): (Arc<str>, Arc<str>) = ("red".into(), "blue".into());
        let (begun, begins) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        thread::scope(|scope| {
            let (turns, red, blue) = (&turns, &red, &blue);
            scope.spawn(move || {
                turns.with(red, |order| {
                    order.push("red");
                    begun.send(()).unwrap();
                    released.recv().unwrap();
                });
            });
            begins.recv().unwrap();
            for count in 1..=16 {
                scope.spawn(move || turns.with(red, |order| order.push("red")));
                await_waiting(turns, count);
            }
            scope.spawn(move || turns.with(blue, |order| order.push("blue")));
            await_waiting(turns, 17);
            release.send(()).unwrap();
        });
        let order = turns.value.into_inner().unwrap();
        assert_eq!(order.len(), 18);
        assert_eq!(order.iter().position(|tenant| *tenant == "blue"), Some(1), "{order:?}");
    }

    #[test]
    fn a_call_that_panics_passes_its_turn_on() {
        let turns = Turns::new(0);
        let tenant: Arc<str> = "red".into();
        thread::scope(|scope| {
            let panicked = scope.spawn(|| turns.with(&tenant, |_| panic!("a driver's"))).join();
            assert!(panicked.is_err());
        });
        assert_eq!(turns.with(&tenant, |value| *value), 0);
        assert!(!lock(&turns.line).taken);
    }
}
