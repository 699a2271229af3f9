//! Operations in flight, as their callers see them.

use std::any::Any;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use netfold_io::sync::{AtomicBool, Condvar, Mutex, MutexGuard};

use crate::error::Error;
use crate::report::OpReport;

/// The owner of memory that a caller has given away.
pub(crate) type MemoryOwner = Box<dyn Any + Send>;

type Outcome = Result<OpReport, Error>;
type Callback = Box<dyn FnOnce(&Outcome) + Send>;

/// Where callers wait for an operation. Settled once.
#[derive(Default)]
pub(crate) struct Completion {
    state: Mutex<CompletionState>,
    settled: Condvar,
    is_settled: AtomicBool,
}

#[derive(Default)]
struct CompletionState {
    outcome: Option<Outcome>,
    /// Memory that was given away until the operation is done.
    owner: Option<MemoryOwner>,
    callbacks: Vec<Callback>,
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("outcome", &self.lock().outcome).finish_non_exhaustive()
    }
}

/// How long a thread that waits for another spins before it sleeps: waking it takes longer than a small operation.
const SPIN_TIMEOUT: Duration = Duration::from_micros(100);

/// Spins until `happened` returns true, for a bounded time; whether it did.
pub(crate) fn spin_until(happened: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if happened() {
            return true;
        }
        // A model of threads explores what happens without the time.
        if cfg!(netfold_loom) || start.elapsed() >= SPIN_TIMEOUT {
            return false;
        }
        std::thread::yield_now();
    }
}

impl Completion {
    fn lock(&self) -> MutexGuard<'_, CompletionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the outcome and runs the callbacks on this thread. The first outcome counts.
    pub(crate) fn settle(&self, outcome: Outcome, owner: Option<MemoryOwner>) {
        let callbacks = {
            let mut state = self.lock();
            if state.outcome.is_some() {
                return;
            }
            state.outcome = Some(outcome.clone());
            self.is_settled.store(true, Ordering::Release);
            state.owner = owner;
            std::mem::take(&mut state.callbacks)
        };
        self.settled.notify_all();
        for callback in callbacks {
            callback(&outcome);
        }
    }

    /// Blocks until the completion is settled. Does not panic.
    pub(crate) fn block(&self) {
        drop(self.wait());
    }

    /// Blocks until the operation is over.
    pub(crate) fn wait(&self) -> Outcome {
        spin_until(|| self.is_settled.load(Ordering::Acquire));
        let mut state = self.lock();
        loop {
            if let Some(outcome) = &state.outcome {
                return outcome.clone();
            }
            state = self.settled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn wait_until(&self, deadline: Instant) -> Option<Outcome> {
        let mut state = self.lock();
        loop {
            if let Some(outcome) = &state.outcome {
                return Some(outcome.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            state = self.settled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The outcome, when there is one.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.lock().outcome.clone()
    }

    /// Whether [`Self::wait`] would return at once.
    pub(crate) fn is_settled(&self) -> bool {
        self.lock().outcome.is_some()
    }

    /// The same, without the lock.
    pub(crate) fn has_settled(&self) -> bool {
        self.is_settled.load(Ordering::Acquire)
    }

    /// The memory that was given away, once, after the completion is settled.
    pub(crate) fn take_owner(&self) -> Option<MemoryOwner> {
        self.lock().owner.take()
    }

    /// Calls `callback` with the outcome: at once when there is one, else on the thread that settles the completion.
    pub(crate) fn on_settled(&self, callback: Callback) {
        let outcome = {
            let mut state = self.lock();
            match &state.outcome {
                None => return state.callbacks.push(callback),
                Some(outcome) => outcome.clone(),
            }
        };
        callback(&outcome);
    }
}

/// An operation in flight, started by [`Communicator::submit`](crate::Communicator::submit). Clones refer to the same
/// operation, which is executed whether or not a clone is kept.
#[derive(Debug, Clone)]
pub struct Work(Arc<Completion>);

impl Work {
    pub(crate) fn new(completion: Arc<Completion>) -> Self {
        Self(completion)
    }

    /// Blocks until the operation is over. May be called by many threads, many times.
    ///
    /// # Errors
    ///
    /// The error that ended the operation.
    pub fn wait(&self) -> Result<OpReport, Error> {
        self.0.wait()
    }

    /// Blocks for at most `timeout`; `None` when the operation is still under way then.
    pub fn wait_timeout(&self, timeout: Duration) -> Option<Result<OpReport, Error>> {
        match Instant::now().checked_add(timeout) {
            Some(deadline) => self.0.wait_until(deadline),
            None => Some(self.0.wait()),
        }
    }

    /// Whether the operation is over.
    pub fn is_done(&self) -> bool {
        self.0.is_settled()
    }

    /// How the operation ended; `None` while it is under way.
    pub fn outcome(&self) -> Option<Result<OpReport, Error>> {
        self.0.outcome()
    }

    /// Calls `f` with the outcome: at once when the operation is over, else on the library's thread that finishes it. `f`
    /// must be short, must not block and must not wait for other operations: that thread has other work in flight.
    pub fn on_done(&self, f: impl FnOnce(&Result<OpReport, Error>) + Send + 'static) {
        self.0.on_settled(Box::new(f));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn callbacks_run_once_before_or_after_the_end() {
        let completion = Arc::<Completion>::default();
        let work = Work::new(Arc::clone(&completion));
        let (tx, rx) = mpsc::channel();
        let early = tx.clone();
        work.on_done(move |outcome| early.send(outcome.clone()).unwrap());
        assert_eq!(work.wait_timeout(Duration::from_millis(1)), None);
        assert!(rx.try_recv().is_err() && !work.is_done());
        completion.settle(Err(Error::Closed), None);
        completion.settle(Ok(OpReport::default()), None);
        work.on_done(move |outcome| tx.send(outcome.clone()).unwrap());
        assert_eq!(rx.try_iter().collect::<Vec<_>>(), [Err(Error::Closed), Err(Error::Closed)]);
        assert_eq!((work.wait(), work.outcome()), (Err(Error::Closed), Some(Err(Error::Closed))));
    }
}

#[cfg(all(test, netfold_loom))]
mod loom_tests {
    use loom::sync::atomic::AtomicUsize;
    use loom::thread;

    use super::*;

    /// A waiter that missed the end would wait for ever, which loom reports as a deadlock.
    #[test]
    fn every_waiter_and_callback_gets_the_outcome_once() {
        loom::model(|| {
            let (completion, calls) = (Arc::<Completion>::default(), Arc::new(AtomicUsize::new(0)));
            let settled = Arc::clone(&completion);
            let engine = thread::spawn(move || settled.settle(Ok(OpReport::default()), Some(Box::new(7))));
            let (waiter, called) = (Arc::clone(&completion), Arc::clone(&calls));
            let caller = thread::spawn(move || {
                let count = move |_: &Outcome| {
                    called.fetch_add(1, Ordering::Relaxed);
                };
                waiter.on_settled(Box::new(count));
                assert!(waiter.wait().is_ok());
            });
            if completion.has_settled() {
                assert!(completion.is_settled() && completion.take_owner().is_some());
            }
            assert!(completion.wait().is_ok());
            engine.join().unwrap();
            caller.join().unwrap();
            assert_eq!(calls.load(Ordering::Relaxed), 1);
        });
    }
}
