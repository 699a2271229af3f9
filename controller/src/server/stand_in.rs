//! A control plane without workers and switches, behind the same handle: for servers of operators and programs, and their
//! tests.

use super::control::{ASKS, Ask, Control, OCCURRENCES};
use crate::command::{Command, CommandError, Proof};
use crate::record::JobName;
use crate::view::{JobView, Occurrence, Snapshot, SnapshotScope};
use std::future::Future;
use std::sync::Arc;
use tokio::sync::{broadcast, mpsc};

/// What a hub answers, without the hub. Called on one task, in order.
pub trait StandIn: Send {
    /// One moment.
    fn snapshot(&self, scope: SnapshotScope) -> Snapshot;

    /// One job, if there is such a one.
    fn job(&self, name: &JobName) -> Option<JobView>;

    /// Whether a caller may act for a tenant.
    fn verify(&self, proof: &Proof) -> bool;

    /// Carries a command out; watchers receive the resulting events, in order.
    ///
    /// # Errors
    /// [`CommandError`]; nothing has changed.
    fn execute(&mut self, command: Command) -> Result<Vec<Occurrence>, CommandError>;
}

impl Control {
    /// A handle to a stand-in, and the task that answers for it until the last handle is dropped.
    pub fn of(mut plane: impl StandIn + 'static) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (asks, mut asked) = mpsc::channel(ASKS);
        let (occurrences, _) = broadcast::channel(OCCURRENCES);
        let watchers = occurrences.clone();
        let task = async move {
            while let Some(ask) = asked.recv().await {
                // The requester may have been dropped.
                match ask {
                    Ask::Snapshot(scope, answer) => drop(answer.send(plane.snapshot(scope))),
                    Ask::Job(name, answer) => drop(answer.send(plane.job(&name))),
                    Ask::Verify(proof, answer) => drop(answer.send(plane.verify(&proof))),
                    Ask::Execute(command, answer) => {
                        let outcome = plane.execute(command).map(|happened| {
                            for occurrence in happened {
                                let _ = watchers.send(Arc::new(occurrence));
                            }
                        });
                        let _ = answer.send(outcome);
                    }
                }
            }
        };
        (Self { asks, occurrences }, task)
    }
}
