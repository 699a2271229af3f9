//! Threads for the tasks of the switches, whose drivers may block.

use crate::driver::SwitchDriver;
use crate::executor::{Executor, TaskOutcome, TaskQueue, TenantTask};
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Tasks under way at once. Each is of another job, and may wait for a switch that does not answer; more wait in turn.
const TASKS_MAX: usize = 1024;

/// Bytes of a thread's stack.
const STACK: usize = 512 * 1024;

/// The outcome of a task; `None`: a driver panicked.
pub(super) type Outcome = Option<TaskOutcome>;

/// Carries tasks out, each on a thread of its own.
pub(super) struct DriverThreads {
    executor: Arc<Executor>,
    queue: TaskQueue,
    done: mpsc::UnboundedSender<Outcome>,
}

impl DriverThreads {
    /// For the switches of a fleet; outcomes come out of the receiver.
    pub(super) fn new(drivers: Vec<Box<dyn SwitchDriver>>) -> (Self, mpsc::UnboundedReceiver<Outcome>) {
        // Bounded by the number of tasks under way.
        let (done, outcomes) = mpsc::unbounded_channel();
        let (executor, queue) = (Arc::new(Executor::new(drivers)), TaskQueue::default());
        (Self { executor, queue, done }, outcomes)
    }

    /// Adds a task, which [`Self::start`] starts.
    pub(super) fn push(&mut self, task: TenantTask) {
        self.queue.push(task);
    }

    /// A task of this job has ended.
    pub(super) fn finish(&mut self, job: u16) {
        self.queue.finish(job);
    }

    /// Starts what may begin.
    ///
    /// # Errors
    ///
    /// That of the system, when it refuses a thread.
    pub(super) fn start(&mut self) -> io::Result<()> {
        while let Some(task) = self.queue.pop(TASKS_MAX) {
            let (executor, done) = (Arc::clone(&self.executor), self.done.clone());
            let run = move || {
                let outcome = panic::catch_unwind(AssertUnwindSafe(|| executor.run(task))).ok();
                // The server may have been shut down.
                let _ = done.send(outcome);
            };
            std::thread::Builder::new().name("netfold-driver".into()).stack_size(STACK).spawn(run)?;
        }
        Ok(())
    }
}
