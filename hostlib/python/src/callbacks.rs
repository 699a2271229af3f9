//! The thread that calls Python's callbacks for finished operations.
//!
//! The library's own threads must not wait for the interpreter's lock, so they put callables into a queue and one thread
//! calls them. It is started by the first callable and ended by `netfold` at exit, before the interpreter ends.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use pyo3::prelude::*;

use crate::errors;

enum Message {
    Call(Py<PyAny>),
    End,
}

/// The queue of callables. Sending never blocks; what is sent after the end is dropped.
#[derive(Clone)]
pub(crate) struct Queue(Sender<Message>);

impl Queue {
    /// Queues `callable` to be called without arguments.
    pub(crate) fn send(&self, callable: Py<PyAny>) {
        // The thread ends at exit only, when callbacks are not called any more.
        let _ = self.0.send(Message::Call(callable));
    }
}

struct Dispatcher {
    process: u32,
    queue: Queue,
    thread: JoinHandle<()>,
}

/// What the module holds of it.
enum State {
    Idle,
    Running(Dispatcher),
    Over,
}

static STATE: Mutex<State> = Mutex::new(State::Idle);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The queue of this process; starts the thread when there is none.
pub(crate) fn queue(py: Python<'_>) -> PyResult<Queue> {
    let mut state = state();
    match &*state {
        State::Running(dispatcher) if dispatcher.process == std::process::id() => {
            return Ok(dispatcher.queue.clone());
        }
        State::Over => return Err(errors::new(py, "closed", "the interpreter is shutting down")),
        State::Idle | State::Running(_) => {}
    }
    let (sender, messages) = mpsc::channel();
    let thread = thread::Builder::new()
        .name("netfold-python".into())
        .spawn(move || run(&messages))
        .map_err(|error| errors::new(py, "thread", &format!("cannot start a thread: {error}")))?;
    let queue = Queue(sender);
    let running = Dispatcher { process: std::process::id(), queue: queue.clone(), thread };
    // After a fork the old thread does not exist: its handle is only forgotten.
    std::mem::forget(std::mem::replace(&mut *state, State::Running(running)));
    Ok(queue)
}

fn run(messages: &Receiver<Message>) {
    while let Ok(Message::Call(callable)) = messages.recv() {
        Python::attach(|py| {
            if let Err(error) = callable.call0(py) {
                error.write_unraisable(py, Some(callable.bind(py)));
            }
            drop(callable);
        });
    }
}

/// Calls what is queued, then ends the thread. Called at exit.
#[pyfunction]
pub(crate) fn shut_down(py: Python<'_>) {
    let before = std::mem::replace(&mut *state(), State::Over);
    match before {
        State::Running(Dispatcher { process, queue, thread }) if process == std::process::id() => {
            let _ = queue.0.send(Message::End);
            // A panic of the thread has been reported on standard error.
            py.detach(|| drop(thread.join()));
        }
        other => std::mem::forget(other),
    }
}
