//! Who turns the engine: its own thread, or a caller that blocks until its operation is over and would only be woken by that thread.
//!
//! The engine is behind a lock. Its thread holds it while there is work, and while it waits for packets. Once a caller has blocked, the thread
//! releases an idle engine for a while and waits for notifications alone; a caller that blocks meanwhile takes the engine, submits its operation,
//! and turns it until that is over. What is left then, operations of other callers and errors alike, is for the thread.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use netfold_io::sync::{AtomicU64, TryMutex};

use super::{Engine, TurnOutcome};
use crate::error::Error;
use crate::lower::SwitchOperation;
use crate::mailbox::{Mailbox, QueueItem};
use crate::session::ControlConnection;
use crate::work::Completion;
use crate::worker_thread;

/// For how long after a blocking call nothing waits for packets, where the kernel answers for the host. Not longer, since the engine watches
/// whether other ranks have lost the switch.
const RELEASE_TIME: Duration = Duration::from_millis(200);

/// The same where this process answers, for example to ARP requests.
const RELEASE_TIME_OF_LINKS: Duration = Duration::from_millis(10);

/// The name of the packet I/O through the kernel's sockets.
const SOCKETS: &str = "udp";

/// What its thread and blocking callers do with an engine.
pub(crate) trait Drive: Sized {
    /// What callers submit.
    type Operation: QueueItem;

    /// Thread: works until the job is over, or callers may take the engine.
    fn run_until_released(&mut self, shared: &SharedEngine<Self>) -> Exit;

    /// Caller: submits an operation behind those that were submitted before, and works until it is settled. An error is for the thread.
    /// Returns an operation that has to wait for room.
    fn execute(&mut self, operation: Self::Operation) -> Option<Self::Operation>;

    /// Nothing is pending, neither operations nor an error.
    fn is_idle(&self) -> bool;

    /// For how long a caller may take the engine after the last one that did.
    fn release_time(&self) -> Duration;
}

/// An engine that its thread and blocking callers take in turn.
pub(crate) struct SharedEngine<E: Drive = Engine> {
    /// `None` before it is made by its thread, and after its end.
    engine: TryMutex<Option<Box<E>>>,
    mailbox: Arc<Mailbox<E::Operation>>,
    made: Instant,
    /// When a caller last blocked: microseconds since `made`, and 1.
    called: AtomicU64,
}

/// Why [`Engine::run_with_failover`] returned.
pub(crate) enum Exit {
    /// The job is over.
    Ended(Error),
    /// Nothing is pending, and a caller may take the engine.
    Released,
}

impl SharedEngine {
    /// The engine's thread: works until the job is over, then settles every tensor and ends the control session.
    pub(crate) fn run(&self, engine: Engine) {
        let (shutdown, control) = (engine.shutdown.clone(), engine.control.clone());
        self.set_engine(engine);
        let abort = move || control.iter().for_each(ControlConnection::abort);
        let mut ended = None;
        let (error, queued) = worker_thread::run(&self.mailbox, &shutdown, abort, || self.serve(&mut ended));
        if let Some(mut engine) = ended {
            engine.end(&error, queued);
        }
    }
}

impl<E: Drive> SharedEngine<E> {
    /// For the engine of this mailbox.
    pub(crate) fn new(mailbox: Arc<Mailbox<E::Operation>>) -> Self {
        Self { engine: TryMutex::new(None), mailbox, made: Instant::now(), called: AtomicU64::new(0) }
    }

    fn set_engine(&self, engine: E) {
        *self.engine.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(engine));
    }

    /// Returns why the job is over, and the engine, so that no caller takes it again.
    fn serve(&self, ended: &mut Option<Box<E>>) -> Error {
        loop {
            let mut taken = match self.engine.lock() {
                Ok(taken) => taken,
                // A caller has panicked while it turned the engine.
                Err(poisoned) => {
                    *ended = poisoned.into_inner().take();
                    return Error::EngineFailed;
                }
            };
            let Some(engine) = &mut *taken else { return Error::EngineFailed };
            if let Exit::Ended(error) = engine.run_until_released(self) {
                *ended = taken.take();
                return error;
            }
            let release_time = engine.release_time();
            drop(taken);
            self.wait_until_needed(release_time);
        }
    }

    /// Waits while callers may take the engine: until one leaves something to do, the mailbox is notified, or none has blocked
    /// for a while.
    fn wait_until_needed(&self, release_time: Duration) {
        loop {
            let is_taken = || matches!(self.engine.try_lock(), Err(TryLockError::WouldBlock));
            let left = if is_taken() { release_time } else { release_time.saturating_sub(self.since_call()) };
            if left.is_zero() || self.mailbox.wait_for_thread(left, is_taken) {
                return;
            }
        }
    }

    /// Time since a caller last blocked.
    fn since_call(&self) -> Duration {
        match self.called.load(Ordering::Relaxed).checked_sub(1) {
            None => Duration::MAX,
            Some(called) => self.made.elapsed().saturating_sub(Duration::from_micros(called)),
        }
    }

    /// Whether an idle engine is left to callers.
    pub(super) fn is_wanted(&self, release_time: Duration) -> bool {
        self.since_call() < release_time
    }

    /// Executes an operation on this thread, which blocks until it is over anyway; returns it where the engine is not free.
    pub(crate) fn run_inline(&self, operation: E::Operation) -> Option<E::Operation> {
        let returned = self.drive(operation);
        self.called.store(self.made.elapsed().as_micros() as u64 + 1, Ordering::Relaxed);
        returned
    }

    fn drive(&self, operation: E::Operation) -> Option<E::Operation> {
        /// Has the thread find the engine that a panic has left.
        struct RouseOnPanic<'a, T: QueueItem>(&'a Mailbox<T>);
        impl<T: QueueItem> Drop for RouseOnPanic<'_, T> {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    self.0.rouse_thread();
                }
            }
        }
        let Ok(mut taken) = self.engine.try_lock() else { return Some(operation) };
        let Some(engine) = &mut *taken else { return Some(operation) };
        let rouse_on_panic = RouseOnPanic(&self.mailbox);
        let returned = engine.execute(operation);
        let idle = engine.is_idle();
        drop(rouse_on_panic);
        drop(taken);
        // After the lock is released: until then the thread does not look for notifications.
        if !idle || self.mailbox.is_notified() {
            self.mailbox.rouse_thread();
        }
        returned
    }
}

impl Drive for Engine {
    type Operation = SwitchOperation;

    fn run_until_released(&mut self, shared: &SharedEngine) -> Exit {
        self.run_with_failover(Some(shared))
    }

    fn is_idle(&self) -> bool {
        let pending =
            self.streams.len() > 0 || self.backlog || self.begins_idle || self.iterations.is_waiting();
        !pending && !self.stop_when_idle && self.failure.is_none()
    }

    fn release_time(&self) -> Duration {
        let sockets = self.io.capabilities().name == SOCKETS;
        if sockets { RELEASE_TIME } else { RELEASE_TIME_OF_LINKS }
    }

    fn execute(&mut self, operation: SwitchOperation) -> Option<SwitchOperation> {
        let completion = operation.buffer.completion();
        let takes = self.failure.is_none() && !self.begins_idle;
        let collected = if takes { self.collect() } else { Ok(()) };
        self.failure = self.failure.take().or(collected.err());
        let busy = self.streams.len() > 0;
        let held = self.iterations.holds(self.clock.now(), busy, || !self.mailbox.is_empty());
        let unable = self.failure.is_some() || self.begins_idle || held;
        if unable || self.streams.capacity() == 0 || !self.mailbox.is_empty() {
            return Some(operation);
        }
        self.mailbox.set_busy();
        self.submit(operation);
        let turned = self.turn_until(&completion);
        self.failure = turned.and_then(|()| if self.backlog { self.collect() } else { Ok(()) }).err();
        None
    }
}

impl Engine {
    fn turn_until(&mut self, completion: &Completion) -> Result<(), Error> {
        while !completion.has_settled() {
            match self.turn()? {
                TurnOutcome::Busy => {}
                TurnOutcome::Idle if completion.has_settled() => {}
                TurnOutcome::Idle => self.sleep()?,
                TurnOutcome::Depart(_) => {
                    // The thread finds the same at once.
                    self.polled_at = netfold_proto::Instant::ZERO;
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

#[cfg(all(test, netfold_loom))]
mod loom_tests {
    use loom::thread;
    use std::task::Waker;

    use super::*;
    use crate::mailbox::Command;
    use crate::report::OpReport;
    use crate::shutdown::{ShutdownState, StopMode};

    const LONG: Duration = Duration::from_secs(3600);

    struct Operation(Arc<Completion>);

    impl QueueItem for Operation {
        fn reject(self, error: Error) {
            self.0.settle(Err(error), None);
        }
    }

    /// An engine whose operations are over as soon as it has them.
    struct InstantEngine {
        mailbox: Arc<Mailbox<Operation>>,
        failure: Option<Error>,
    }

    impl InstantEngine {
        fn collect(&mut self) {
            let mut collected = Vec::new();
            if self.mailbox.take_notification() {
                match self.mailbox.collect(2, &mut collected, None) {
                    Command::Work => {}
                    Command::StopWhenIdle => self.failure = Some(Error::Closed),
                    Command::End(error) => self.failure = Some(error),
                }
            }
            collected.into_iter().for_each(Self::settle);
        }

        fn settle(operation: Operation) {
            operation.0.settle(Ok(OpReport::default()), None);
        }
    }

    impl Drive for InstantEngine {
        type Operation = Operation;

        fn run_until_released(&mut self, shared: &SharedEngine<Self>) -> Exit {
            loop {
                self.collect();
                if let Some(error) = self.failure.clone().filter(|_| self.mailbox.is_empty()) {
                    return Exit::Ended(error);
                }
                if self.is_idle() && shared.is_wanted(LONG) {
                    return Exit::Released;
                }
                self.mailbox.wait(LONG);
            }
        }

        fn execute(&mut self, operation: Operation) -> Option<Operation> {
            self.collect();
            if self.failure.is_some() || !self.mailbox.is_empty() {
                return Some(operation);
            }
            self.mailbox.set_busy();
            Self::settle(operation);
            None
        }

        fn is_idle(&self) -> bool {
            self.failure.is_none()
        }

        fn release_time(&self) -> Duration {
            LONG
        }
    }

    /// Blocks until an operation is over, as callers do.
    fn call(shared: &SharedEngine<InstantEngine>) {
        let completion = Arc::<Completion>::default();
        if let Some(operation) = shared.run_inline(Operation(Arc::clone(&completion))) {
            shared.mailbox.submit(operation);
        }
        assert!(completion.wait().is_ok(), "the job is not over yet");
    }

    /// Plays calls of this thread, an operation that another thread submits, and the end. What is left to no thread would wait for ever, which loom
    /// reports as a deadlock.
    fn play(calls: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let shutdown = ShutdownState::default();
            let mailbox = Mailbox::new(Waker::noop().clone(), &shutdown);
            let shared = Arc::new(SharedEngine::<InstantEngine>::new(Arc::clone(&mailbox)));
            let engine = InstantEngine { mailbox: Arc::clone(&mailbox), failure: None };
            let served = Arc::clone(&shared);
            let thread = thread::spawn(move || {
                served.set_engine(engine);
                let error = served.serve(&mut None);
                served.mailbox.end(error);
            });
            let completion = Arc::<Completion>::default();
            let submission = Operation(Arc::clone(&completion));
            let submitter = thread::spawn(move || mailbox.submit(submission));
            (0..calls).for_each(|_| call(&shared));
            assert!(completion.wait().is_ok(), "the job is not over yet");
            submitter.join().unwrap();
            shutdown.request(StopMode::WhenIdle);
            thread.join().unwrap();
        });
    }

    #[test]
    fn every_operation_is_executed_by_the_caller_or_the_thread() {
        play(1);
    }

    #[test]
    fn an_engine_that_was_given_back_is_taken_again() {
        play(2);
    }
}
