//! Coroutines of product code that blocks, on threads of which one runs at a time: each runs until it would wait, and the simulation resumes it when
//! that is over.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Wake, Waker};
use std::thread::JoinHandle;

/// Bytes of a thread's stack.
const STACK: usize = 512 * 1024;

/// Why a coroutine runs no further.
pub(super) enum Step<Q, R> {
    /// It waits for the answer to this.
    Yielded(Q),
    /// It has ended with this; `None`: it panicked.
    Completed(Option<R>),
}

/// The simulation's side of a thread that yields `Q`, is resumed with `A`, and ends with `R`.
pub(super) struct Coroutine<Q, A, R> {
    /// `None`: the process has been killed.
    answers: Option<Sender<A>>,
    steps: Receiver<Step<Q, R>>,
    thread: Option<JoinHandle<()>>,
}

/// The thread's side.
pub(super) struct Yielder<Q, A, R> {
    answers: Receiver<A>,
    steps: Sender<Step<Q, R>>,
}

impl<Q: Send + 'static, A: Send + 'static, R: Send + 'static> Coroutine<Q, A, R> {
    /// Starts a thread, which waits for its first answer before it begins.
    pub(super) fn start(run: impl FnOnce(Yielder<Q, A, R>) -> R + Send + 'static) -> Self {
        let (answers, answered) = channel();
        let (steps, stepped) = channel();
        let yielder = Yielder { answers: answered, steps: steps.clone() };
        let body = move || {
            if yielder.answers.recv().is_err() {
                return;
            }
            let result = panic::catch_unwind(AssertUnwindSafe(|| run(yielder))).ok();
            // The simulation may have killed this process.
            let _ = steps.send(Step::Completed(result));
        };
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(body);
        let thread = thread.expect("the system starts a thread");
        Self { answers: Some(answers), steps: stepped, thread: Some(thread) }
    }

    /// Resumes the thread until it is suspended again, or has ended.
    pub(super) fn resume(&mut self, answer: A) -> Step<Q, R> {
        if let Some(answers) = &self.answers {
            let _ = answers.send(answer);
        }
        self.steps.recv().unwrap_or(Step::Completed(None))
    }

    /// Lets the thread end as it can: it gets no more answers.
    pub(super) fn kill(&mut self) {
        self.answers = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl<Q, A, R> Drop for Coroutine<Q, A, R> {
    fn drop(&mut self) {
        self.answers = None;
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl<Q, A, R> Yielder<Q, A, R> {
    /// Yields, and waits to be resumed; `None` when the process is killed.
    pub(super) fn suspend(&self, question: Q) -> Option<A> {
        self.steps.send(Step::Yielded(question)).ok()?;
        self.answers.recv().ok()
    }
}

/// A waker that the simulation looks at.
#[derive(Default)]
pub(super) struct WakeFlag(AtomicBool);

impl WakeFlag {
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

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
