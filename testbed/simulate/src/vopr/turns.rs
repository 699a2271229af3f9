//! Threads of product code that block, run one at a time: a thread runs until it would wait, and the simulation continues it when that is over.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Wake, Waker};
use std::thread::JoinHandle;

/// Bytes of a thread's stack.
const STACK: usize = 512 * 1024;

/// What a thread passes to the simulation when it stops.
pub(super) enum Stop<Q, R> {
    /// It waits for the answer to this.
    Asks(Q),
    /// It has ended with this; `None`: it panicked.
    Ended(Option<R>),
}

/// The simulation's side of a thread that asks `Q`, is answered `A`, and ends with `R`.
pub(super) struct Turns<Q, A, R> {
    /// `None`: the process has been killed.
    answers: Option<Sender<A>>,
    stops: Receiver<Stop<Q, R>>,
    thread: Option<JoinHandle<()>>,
}

/// The thread's side.
pub(super) struct Asker<Q, A, R> {
    answers: Receiver<A>,
    stops: Sender<Stop<Q, R>>,
}

impl<Q: Send + 'static, A: Send + 'static, R: Send + 'static> Turns<Q, A, R> {
    /// Starts a thread, which waits for its first answer before it begins.
    pub(super) fn start(run: impl FnOnce(Asker<Q, A, R>) -> R + Send + 'static) -> Self {
        let (answers, answered) = channel();
        let (stops, stopped) = channel();
        let asker = Asker { answers: answered, stops: stops.clone() };
        let body = move || {
            if asker.answers.recv().is_err() {
                return;
            }
            let result = panic::catch_unwind(AssertUnwindSafe(|| run(asker))).ok();
            // The simulation may have killed this process.
            let _ = stops.send(Stop::Ended(result));
        };
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(body);
        let thread = thread.expect("the system starts a thread");
        Self { answers: Some(answers), stops: stopped, thread: Some(thread) }
    }

    /// Continues the thread until it stops again.
    pub(super) fn go_on(&mut self, answer: A) -> Stop<Q, R> {
        if let Some(answers) = &self.answers {
            let _ = answers.send(answer);
        }
        self.stops.recv().unwrap_or(Stop::Ended(None))
    }

    /// Lets the thread end as it can: it gets no more answers.
    pub(super) fn kill(&mut self) {
        self.answers = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl<Q, A, R> Drop for Turns<Q, A, R> {
    fn drop(&mut self) {
        self.answers = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl<Q, A, R> Asker<Q, A, R> {
    /// Stops until the answer comes; `None` when the process is killed.
    pub(super) fn ask(&self, question: Q) -> Option<A> {
        self.stops.send(Stop::Asks(question)).ok()?;
        self.answers.recv().ok()
    }
}

/// A waker that the simulation looks at.
#[derive(Default)]
pub(super) struct Woken(AtomicBool);

impl Woken {
    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
