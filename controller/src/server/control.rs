//! A control plane as other parts of its process see it: snapshots, commands, and what happens.

use crate::command::{Command, CommandError, Proof};
use crate::flight_record::FlightRecord;
use crate::record::{JobName, RecordReader, StoreError, StoredRecords};
use crate::view::{ControllerEvent, JobView, Snapshot, SnapshotScope};
use netfold_listener::ListenerCounters;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{broadcast, mpsc, oneshot};

/// Requests that wait for the hub.
pub(super) const REQUESTS_MAX: usize = 64;

/// Occurrences that a watcher may be behind.
pub(super) const EVENTS_MAX: usize = 1024;

/// What is asked of the hub; it answers in the same turn.
pub(super) enum ControlRequest {
    Snapshot(SnapshotScope, oneshot::Sender<Snapshot>),
    Job(JobName, oneshot::Sender<Option<JobView>>),
    Explain(JobName, oneshot::Sender<Option<Vec<FlightRecord>>>),
    Verify(Proof, oneshot::Sender<bool>),
    Execute(Command, oneshot::Sender<Result<(), CommandError>>),
    Records(oneshot::Sender<Result<RecordReader, StoreError>>),
}

/// Why the records of a control plane cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordsError {
    /// It does not serve any more.
    #[error("the controller is shutting down")]
    Gone,
    /// Its database cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A handle to a control plane that serves. Clones are the same.
#[derive(Clone)]
pub struct Control {
    pub(super) requests: mpsc::Sender<ControlRequest>,
    pub(super) events: broadcast::Sender<Arc<ControllerEvent>>,
    pub(super) storing: StoringFlag,
    pub(super) listener: Arc<ListenerCounters>,
}

/// Whether the control plane waits for its database.
#[derive(Clone, Default)]
pub(super) struct StoringFlag(Arc<AtomicBool>);

impl StoringFlag {
    pub(super) fn set(&self, storing: bool) {
        self.0.store(storing, Ordering::Relaxed);
    }
}

impl Control {
    /// Counters of the workers' port: its connections that are no sessions yet.
    pub fn listener(&self) -> Arc<ListenerCounters> {
        Arc::clone(&self.listener)
    }

    /// Whether the control plane waits for its database: it reads its records at the start, or stores a change. It answers nothing
    /// meanwhile.
    pub fn is_storing(&self) -> bool {
        self.storing.0.load(Ordering::Relaxed)
    }

    /// One moment of it.
    ///
    /// # Errors
    /// [`CommandError::Gone`] when it does not serve any more.
    pub async fn snapshot(&self, scope: SnapshotScope) -> Result<Snapshot, CommandError> {
        self.ask(|answer| ControlRequest::Snapshot(scope, answer)).await
    }

    /// One job, if there is such a one.
    ///
    /// # Errors
    /// [`CommandError::Gone`] when it does not serve any more.
    pub async fn job(&self, name: JobName) -> Result<Option<JobView>, CommandError> {
        self.ask(|answer| ControlRequest::Job(name, answer)).await
    }

    /// What is known of a job's stalls, the newest first; nothing if there is no such job.
    ///
    /// # Errors
    /// [`CommandError::Gone`] when it does not serve any more.
    pub async fn explain(&self, name: JobName) -> Result<Option<Vec<FlightRecord>>, CommandError> {
        self.ask(|answer| ControlRequest::Explain(name, answer)).await
    }

    /// Whether a caller may act for a tenant: it exists, and the token is its own.
    ///
    /// # Errors
    /// [`CommandError::Gone`] when it does not serve any more.
    pub async fn verify(&self, proof: Proof) -> Result<bool, CommandError> {
        self.ask(|answer| ControlRequest::Verify(proof, answer)).await
    }

    /// Carries a command out. When it returns, the change is durable; what it means at switches may still be on its way.
    ///
    /// # Errors
    /// [`CommandError`]; nothing has changed.
    pub async fn execute(&self, command: Command) -> Result<(), CommandError> {
        self.ask(|answer| ControlRequest::Execute(command, answer)).await?
    }

    /// Everything that is stored, as of one moment; what was acknowledged before this call is in it. The control plane continues meanwhile.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub async fn records(&self) -> Result<StoredRecords, RecordsError> {
        let reader = self.ask(ControlRequest::Records).await.map_err(|_| RecordsError::Gone)??;
        let read = tokio::task::spawn_blocking(reader).await;
        Ok(read.map_err(|_| RecordsError::Gone)??)
    }

    /// What happens from now on. A receiver that is 1,024 behind misses what it did not read.
    pub fn events(&self) -> broadcast::Receiver<Arc<ControllerEvent>> {
        self.events.subscribe()
    }

    async fn ask<A>(
        &self,
        ask: impl FnOnce(oneshot::Sender<A>) -> ControlRequest,
    ) -> Result<A, CommandError> {
        let (sender, receiver) = oneshot::channel();
        self.requests.send(ask(sender)).await.map_err(|_| CommandError::Gone)?;
        receiver.await.map_err(|_| CommandError::Gone)
    }
}
