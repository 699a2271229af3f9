//! The hub: the coordinator among sessions, time and the switch.

use super::control::{ControlRequest, StoringFlag};
use super::drivers::{DriverThreads, Outcome};
use super::event::controller_event;
use super::pending::{self, PendingConnection};
use super::session::{self, SessionInput, SessionMessage};
use super::{Hook, ServerError};
use crate::admission::{Config, Coordinator, Output, SessionId, SessionLoss};
use crate::jobs::JobEvent;
use crate::message::encode;
use crate::record::{Change, Store};
use crate::switch_status::SwitchStatus;
use crate::view::{ControllerEvent, Snapshot, SnapshotScope};
use netfold_control::SessionEvent;
use netfold_listener::acceptor::Acceptor;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Semaphore, broadcast, mpsc};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

/// Lines that a session may leave unread before it counts as slow.
const OUTBOX_LINES: usize = 16;

/// Lines on their way from the sessions to the hub.
const INPUTS: usize = 64;

/// Connections beyond the limit of sessions that are being refused, or have not finished closing.
const SPARE_CONNECTIONS: usize = 64;

/// How long a shutdown waits for the switch, and again for the sessions to take their last lines.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

type Input = (SessionId, SessionMessage);

/// What a hub works with.
pub(super) struct HubParts {
    pub(super) hook: Hook,
    pub(super) threads: DriverThreads,
    pub(super) store: Box<dyn Store>,
    /// Set while `store` is in use.
    pub(super) storing: StoringFlag,
    pub(super) requests: mpsc::Receiver<ControlRequest>,
    pub(super) events: broadcast::Sender<Arc<ControllerEvent>>,
    /// Number of switches.
    pub(super) switches: usize,
    /// How sessions are encrypted, if they are.
    pub(super) tls: Option<TlsAcceptor>,
}

/// Owner of the coordinator.
pub(super) struct Hub {
    coordinator: Coordinator,
    hook: Hook,
    store: Box<dyn Store>,
    storing: StoringFlag,
    requests: mpsc::Receiver<ControlRequest>,
    events: broadcast::Sender<Arc<ControllerEvent>>,
    event_number: u64,
    /// Unix time at the start, in milliseconds.
    unix_ms: u64,
    /// What each switch has counted.
    packets: Vec<Vec<(String, u64)>>,
    started: Instant,
    tls: Option<TlsAcceptor>,
    /// Twice this without a turn means that the process was not running.
    heartbeat: Duration,
    outboxes: BTreeMap<SessionId, mpsc::Sender<Vec<u8>>>,
    connections: Arc<Semaphore>,
    inputs: mpsc::Sender<Input>,
    inputs_queue: mpsc::Receiver<Input>,
    threads: DriverThreads,
}

impl Hub {
    pub(super) fn new(coordinator: Coordinator, config: &Config, parts: HubParts) -> Self {
        let (inputs, inputs_queue) = mpsc::channel(INPUTS);
        let HubParts { hook, threads, store, storing, requests, events, switches, tls } = parts;
        let sessions_max = config.sessions_max;
        Self {
            coordinator,
            hook,
            store,
            storing,
            requests,
            events,
            event_number: 0,
            unix_ms: config.unix_s * 1000,
            packets: vec![Vec::new(); switches],
            started: Instant::now(),
            tls,
            heartbeat: config.heartbeat,
            outboxes: BTreeMap::new(),
            connections: Arc::new(Semaphore::new(
                sessions_max.saturating_add(SPARE_CONNECTIONS).min(Semaphore::MAX_PERMITS),
            )),
            inputs,
            inputs_queue,
            threads,
        }
    }

    pub(super) async fn run(
        mut self,
        acceptor: Acceptor,
        mut outcomes: mpsc::UnboundedReceiver<Outcome>,
        mut notices: mpsc::UnboundedReceiver<SwitchStatus>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServerError> {
        // What is made of what was kept; and which switches are up already.
        self.deliver()?;
        while let Ok(notice) = notices.try_recv() {
            self.note(notice);
            self.deliver()?;
        }
        let (sender, mut accepted) = mpsc::channel(1);
        tokio::spawn(pending::run(acceptor, self.tls.take(), sender));
        let mut shutdown = pin!(shutdown);
        let mut turn = Instant::now();
        loop {
            let deadline = self.coordinator.next_deadline().map(|at| self.started + at);
            let mut due = false;
            tokio::select! {
                () = &mut shutdown => break,
                Some((id, message)) = self.inputs_queue.recv() => self.receive(id, message),
                outcome = outcomes.recv() => self.finish_task(outcome)?,
                Some(connection) = accepted.recv() => self.open(connection),
                Some(notice) = notices.recv() => self.note(notice),
                Some(request) = self.requests.recv() => self.answer(request)?,
                () = sleep_until(deadline.unwrap_or(turn)), if deadline.is_some() => due = true,
            }
            let now = Instant::now();
            if now - turn > self.heartbeat * 2 {
                self.coordinator.note_pause(now - self.started);
            }
            turn = now;
            if due {
                self.coordinator.handle_timeout(now - self.started);
            }
            self.deliver()?;
        }
        drop(accepted);
        self.shut_down(outcomes).await
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn receive(&mut self, id: SessionId, message: SessionMessage) {
        match message {
            SessionMessage::Line(Ok(request)) => self.coordinator.request(self.now(), id, request),
            SessionMessage::Line(Err(refused)) => self.coordinator.refuse(id, refused),
            SessionMessage::Closed => self.coordinator.close(self.now(), id, SessionLoss::Closed),
            SessionMessage::Slow => self.coordinator.close(self.now(), id, SessionLoss::Slow),
        }
    }

    fn note(&mut self, notice: SwitchStatus) {
        let now = self.now();
        match notice {
            SwitchStatus::Up { switch, up } => self.coordinator.switch_up(now, switch, up),
            SwitchStatus::Down { switch, reason } => self.coordinator.switch_down(now, switch, reason),
            SwitchStatus::Repaired { switch, message } => {
                self.coordinator.switch_repaired(now, switch, message)
            }
            SwitchStatus::Packets { switch, packets } => self.packets[switch] = packets,
        }
    }

    /// Answers a request, after its changes are durable. The answer is discarded if the requester has been dropped meanwhile.
    fn answer(&mut self, request: ControlRequest) -> Result<(), ServerError> {
        match request {
            ControlRequest::Snapshot(scope, answer) => drop(answer.send(self.snapshot(scope))),
            ControlRequest::Job(name, answer) => drop(answer.send(self.coordinator.view_job(&name))),
            ControlRequest::Explain(name, answer) => {
                let now = self.now();
                drop(answer.send(self.coordinator.explain(now, &name)));
            }
            ControlRequest::Verify(proof, answer) => {
                let _ = answer.send(self.coordinator.is_proven(&proof.tenant, proof.token.as_ref()));
            }
            ControlRequest::Records(answer) => drop(answer.send(self.store.reader())),
            ControlRequest::Execute(command, answer) => {
                let result = self.coordinator.execute(self.now(), command);
                self.deliver()?;
                drop(answer.send(result));
            }
        }
        Ok(())
    }

    fn snapshot(&self, scope: SnapshotScope) -> Snapshot {
        let mut snapshot = self.coordinator.snapshot(scope);
        snapshot.taken_ms = self.unix_ms + self.now().as_millis() as u64;
        for (view, packets) in snapshot.switches.iter_mut().zip(&self.packets) {
            view.packets.clone_from(packets);
        }
        snapshot
    }

    fn open(&mut self, PendingConnection { stream, peer, lines: received, place }: PendingConnection) {
        let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() else { return };
        place.leave();
        let (outbox, lines) = mpsc::channel(OUTBOX_LINES);
        let opened = self.coordinator.open(self.now(), peer);
        let input = match opened {
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
            session::run(stream, received, lines, SessionInput(input)).await;
            drop(permit);
        });
    }

    fn finish_task(&mut self, outcome: Option<Outcome>) -> Result<(), ServerError> {
        let outcome = outcome.flatten().ok_or(ServerError::Crashed)?;
        self.threads.finish(outcome.job());
        self.coordinator.handle_outcome(self.now(), outcome);
        Ok(())
    }

    /// Carries out the coordinator's outputs: changes are made durable first.
    fn deliver(&mut self) -> Result<(), ServerError> {
        let mut outputs = VecDeque::new();
        loop {
            self.collect(&mut outputs)?;
            let Some(output) = outputs.pop_front() else { break };
            match output {
                Output::Persist(_) => {}
                Output::Send { session, event } => self.send(session, &event),
                Output::Close { session } => drop(self.outboxes.remove(&session)),
                Output::Task(task) => self.threads.push(task),
                Output::Log(event) => self.publish(&event),
            }
        }
        self.threads.start().map_err(ServerError::Thread)
    }

    /// Collects the coordinator's outputs; changes among them are durable when this returns.
    fn collect(&mut self, outputs: &mut VecDeque<Output>) -> Result<(), ServerError> {
        let mut changes: Vec<Change> = Vec::new();
        while let Some(output) = self.coordinator.poll_output() {
            match output {
                Output::Persist(change) => changes.push(change),
                other => outputs.push_back(other),
            }
        }
        if !changes.is_empty() {
            self.storing.set(true);
            self.store.apply(&changes)?;
            self.storing.set(false);
        }
        Ok(())
    }

    fn publish(&mut self, event: &JobEvent) {
        (self.hook)(event);
        self.event_number += 1;
        let at_ms = self.unix_ms + self.now().as_millis() as u64;
        // There may be no watchers.
        let _ = self.events.send(Arc::new(controller_event(self.event_number, at_ms, event)));
    }

    fn send(&mut self, session: SessionId, event: &SessionEvent) {
        let Some(outbox) = self.outboxes.get(&session) else { return };
        if let Err(TrySendError::Full(_)) = outbox.try_send(encode(event)) {
            self.outboxes.remove(&session);
            self.coordinator.close(self.now(), session, SessionLoss::Slow);
        }
    }

    async fn shut_down(mut self, mut outcomes: mpsc::UnboundedReceiver<Outcome>) -> Result<(), ServerError> {
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
