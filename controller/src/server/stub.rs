//! A control plane without workers and switches, behind the same handle: for servers of operators and programs, and their
//! tests.

use super::control::{Control, ControlRequest, EVENTS_MAX, REQUESTS_MAX, StoringFlag};
use crate::command::{Command, CommandError, Proof};
use crate::flight_record::FlightRecord;
use crate::record::{JobName, RecordReader, StoredRecords};
use crate::view::{ControllerEvent, JobView, Snapshot, SnapshotScope};
use netfold_listener::{ListenerCounters, policy};
use std::future::Future;
use std::sync::Arc;
use tokio::sync::{broadcast, mpsc};

/// What a hub answers, without the hub. Called on one task, in order.
pub trait ControlStub: Send {
    /// One moment.
    fn snapshot(&self, scope: SnapshotScope) -> Snapshot;

    /// One job, if there is such a one.
    fn job(&self, name: &JobName) -> Option<JobView>;

    /// What is known of a job's stalls, the newest first; nothing if there is no such job.
    fn explain(&self, name: &JobName) -> Option<Vec<FlightRecord>> {
        self.job(name).map(|_| Vec::new())
    }

    /// Whether a caller may act for a tenant.
    fn verify(&self, proof: &Proof) -> bool;

    /// What is stored.
    fn records(&self) -> StoredRecords;

    /// Carries a command out; watchers receive the resulting events, in order.
    ///
    /// # Errors
    /// [`CommandError`]; nothing has changed.
    fn execute(&mut self, command: Command) -> Result<Vec<ControllerEvent>, CommandError>;
}

impl Control {
    /// A handle to a stand-in, and the task that answers for it until the last handle is dropped.
    pub fn of(mut plane: impl ControlStub + 'static) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (requests, mut asked) = mpsc::channel(REQUESTS_MAX);
        let (events, _) = broadcast::channel(EVENTS_MAX);
        let sender = events.clone();
        let task = async move {
            while let Some(request) = asked.recv().await {
                // The requester may have been dropped.
                match request {
                    ControlRequest::Snapshot(scope, answer) => drop(answer.send(plane.snapshot(scope))),
                    ControlRequest::Job(name, answer) => drop(answer.send(plane.job(&name))),
                    ControlRequest::Explain(name, answer) => drop(answer.send(plane.explain(&name))),
                    ControlRequest::Verify(proof, answer) => drop(answer.send(plane.verify(&proof))),
                    ControlRequest::Records(answer) => {
                        let records = plane.records();
                        let reader: RecordReader = Box::new(move || Ok(records));
                        let _ = answer.send(Ok(reader));
                    }
                    ControlRequest::Execute(command, answer) => {
                        let outcome = plane.execute(command).map(|happened| {
                            for event in happened {
                                let _ = sender.send(Arc::new(event));
                            }
                        });
                        let _ = answer.send(outcome);
                    }
                }
            }
        };
        let listener = Arc::new(ListenerCounters::new(policy::WORKERS));
        (Self { requests, events, storing: StoringFlag::default(), listener }, task)
    }
}
