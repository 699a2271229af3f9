//! The hub: the coordinator among sessions, time and the switch.

use super::session::{self, Ear, Said};
use super::{Hook, ServerError, accept};
use crate::admission::{Coordinator, Loss, Output, SessionId};
use crate::executor::{Outcome, Task};
use crate::message::encode;
use netfold_wire::control::Event;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep_until, timeout};

/// Lines that a session may leave unread before it counts as slow.
const OUTBOX_LINES: usize = 16;

/// Lines on their way from the sessions to the hub.
const INPUTS: usize = 64;

/// Connections beyond the limit of sessions that are told so, or have not finished closing.
const SPARE_CONNECTIONS: usize = 64;

/// How long a shutdown waits for the switch, and again for the sessions to take their last lines.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

type Input = (SessionId, Said);

/// Owner of the coordinator.
pub(super) struct Hub {
    coordinator: Coordinator,
    hook: Hook,
    started: Instant,
    /// Twice this without a turn means that the process was not running.
    heartbeat: Duration,
    outboxes: BTreeMap<SessionId, mpsc::Sender<Vec<u8>>>,
    connections: Arc<Semaphore>,
    inputs: mpsc::Sender<Input>,
    inputs_queue: mpsc::Receiver<Input>,
    /// To the driver's thread, one at a time.
    tasks: mpsc::Sender<Task>,
    tasks_waiting: VecDeque<Task>,
}

impl Hub {
    pub(super) fn new(
        coordinator: Coordinator,
        hook: Hook,
        tasks: mpsc::Sender<Task>,
        sessions_max: usize,
        heartbeat: Duration,
    ) -> Self {
        let (inputs, inputs_queue) = mpsc::channel(INPUTS);
        Self {
            coordinator,
            hook,
            started: Instant::now(),
            heartbeat,
            outboxes: BTreeMap::new(),
            connections: Arc::new(Semaphore::new(
                sessions_max.saturating_add(SPARE_CONNECTIONS).min(Semaphore::MAX_PERMITS),
            )),
            inputs,
            inputs_queue,
            tasks,
            tasks_waiting: VecDeque::new(),
        }
    }

    pub(super) async fn run(
        mut self,
        listener: TcpListener,
        mut outcomes: mpsc::Receiver<Outcome>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServerError> {
        let (sender, mut accepted) = mpsc::channel(1);
        tokio::spawn(accept::run(async move || listener.accept().await, sender));
        let mut shutdown = pin!(shutdown);
        let mut turn = Instant::now();
        // No lease is judged before this.
        let mut patience = turn;
        loop {
            let deadline = self.coordinator.next_deadline().map(|at| (self.started + at).max(patience));
            tokio::select! {
                () = &mut shutdown => break,
                Some((id, said)) = self.inputs_queue.recv() => self.hear(id, said),
                outcome = outcomes.recv() => self.finish_task(outcome)?,
                Some((stream, peer)) = accepted.recv() => self.open(stream, peer),
                () = sleep_until(deadline.unwrap_or(turn)), if deadline.is_some() => {
                    let now = Instant::now();
                    if now - turn > self.heartbeat * 2 {
                        // The process was stopped or starved: read first what the workers said meanwhile.
                        patience = now + self.heartbeat / 2;
                    } else {
                        self.coordinator.handle_timeout(now - self.started);
                    }
                }
            }
            turn = Instant::now();
            self.deliver()?;
        }
        drop(accepted);
        self.shut_down(outcomes).await
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn hear(&mut self, id: SessionId, said: Said) {
        match said {
            Said::Line(Ok(request)) => self.coordinator.request(self.now(), id, request),
            Said::Line(Err(refused)) => self.coordinator.refuse(id, refused),
            Said::Closed => self.coordinator.close(id, Loss::Closed),
            Said::Slow => self.coordinator.close(id, Loss::Slow),
        }
    }

    fn open(&mut self, stream: TcpStream, peer: SocketAddr) {
        let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() else { return };
        // Lines are short and wanted at once; a connection that is broken already says so when it is read.
        let _ = stream.set_nodelay(true);
        let (outbox, lines) = mpsc::channel(OUTBOX_LINES);
        let opened = self.coordinator.open(self.now(), peer);
        let ear = match opened {
            Ok(id) => {
                self.outboxes.insert(id, outbox);
                Some((id, self.inputs.clone()))
            }
            Err(refused) => {
                // The queue is empty and takes one line; its sender is dropped behind it, which closes the session.
                let _ = outbox.try_send(encode(&refused.into()));
                None
            }
        };
        tokio::spawn(async move {
            session::run(stream, lines, Ear(ear)).await;
            drop(permit);
        });
    }

    fn finish_task(&mut self, outcome: Option<Outcome>) -> Result<(), ServerError> {
        let outcome = outcome.ok_or(ServerError::Crashed)?;
        self.coordinator.handle_outcome(self.now(), outcome);
        Ok(())
    }

    /// Does what the coordinator asks for.
    fn deliver(&mut self) -> Result<(), ServerError> {
        while let Some(output) = self.coordinator.poll_output() {
            match output {
                Output::Send { session, event } => self.send(session, &event),
                Output::Close { session } => drop(self.outboxes.remove(&session)),
                Output::Task(task) => self.tasks_waiting.push_back(task),
                Output::Log(event) => (self.hook)(&event),
            }
        }
        while let Some(task) = self.tasks_waiting.pop_front() {
            match self.tasks.try_send(task) {
                Ok(()) => {}
                Err(TrySendError::Full(task)) => {
                    // The outcome of the one before brings us back here.
                    self.tasks_waiting.push_front(task);
                    break;
                }
                Err(TrySendError::Closed(_)) => return Err(ServerError::Crashed),
            }
        }
        Ok(())
    }

    fn send(&mut self, session: SessionId, event: &Event) {
        let Some(outbox) = self.outboxes.get(&session) else { return };
        if let Err(TrySendError::Full(_)) = outbox.try_send(encode(event)) {
            self.outboxes.remove(&session);
            self.coordinator.close(session, Loss::Slow);
        }
    }

    async fn shut_down(mut self, mut outcomes: mpsc::Receiver<Outcome>) -> Result<(), ServerError> {
        self.coordinator.shutdown();
        self.deliver()?;
        let until = Instant::now() + SHUTDOWN_TIMEOUT;
        while !self.coordinator.is_idle() {
            tokio::select! {
                outcome = outcomes.recv() => self.finish_task(outcome)?,
                () = sleep_until(until) => break,
            }
            self.deliver()?;
        }
        // Sessions hold a sender each; the queue ends when the last one has closed.
        let Self { inputs, mut inputs_queue, .. } = self;
        drop(inputs);
        let _ = timeout(SHUTDOWN_TIMEOUT, async { while inputs_queue.recv().await.is_some() {} }).await;
        Ok(())
    }
}
