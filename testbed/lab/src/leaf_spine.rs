//! A leaf-spine fabric in network namespaces: a job on two trees that loses a spine, and how it goes on.
//!
//! Two leaves, two spines, a host for each worker and a controller, each in a network namespace of its own, joined by pairs of virtual
//! interfaces with addresses and routes as a data centre's. Switches are processes, `netfold switch --p4runtime`; the controller, which
//! knows nothing but a topology file, gives them their pipeline and lays the job's trees over them. Workers are processes with the host
//! library's own API, and check every element. When so many all-reduces are done, the root of a tree is killed with SIGKILL in the midst
//! of others; the job goes on, and ends when so many were done over all trees again.
//!
//! Needs root and iproute2. Everything made here goes with the run; what a run that was killed has left is removed by the next one.

mod drive;
mod ledger;
mod network;
mod process;
mod worker;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use netfold::Mode;
use netfold_controller::ServerError;
use netfold_controller::topology::TopologyError;
use serde::Serialize;

pub use drive::run;
pub use ledger::Phase;
pub use worker::{WorkerConfig, work};

/// Trees that the job is laid over, as many as there are spines.
pub const TREES: u8 = network::SPINES as u8;

/// Slots that the job may use at each switch: few enough for two trees to take all of them without long installations, whose time grows with
/// the slots of a tree.
pub const SLOTS: u32 = 1024;

/// How a spine fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Its process is killed; its system still forwards, and replies that the port is unreachable.
    Kill,
    /// The same, and all its links go down: nothing comes back from it at all.
    Power,
}

/// What to run.
#[derive(Debug, Clone)]
pub struct FabricConfig {
    /// Number of workers, 2 to 32.
    pub workers: u16,
    /// How tensors travel.
    pub mode: Mode,
    /// Elements of each worker's tensor, of 4 bytes.
    pub elements: usize,
    /// Slots to ask for in each tree, a power of two up to [`SLOTS`].
    pub slots: u32,
    /// All-reduces before the spine is lost, and after the job has all its trees again.
    pub operations: u32,
    /// Seed of the tensors.
    pub seed: u64,
    /// Which spine is killed, from 1.
    pub spine: u8,
    /// How.
    pub fault: Fault,
    /// Longest time for a step: to start, to join, to have all trees again.
    pub timeout: Duration,
    /// The `netfold` command.
    pub program: PathBuf,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeafSpineError {
    /// Namespaces are made by root alone.
    #[error("a fabric of network namespaces needs root: run the command with sudo")]
    NotRoot,
    /// The machine gives no such network.
    #[error(
        "the fabric cannot be built: it needs iproute2 and a kernel with network namespaces, veth and bridges"
    )]
    Network(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The controller cannot be started on the topology.
    #[error("the controller cannot be started")]
    Controller(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A program cannot be started.
    #[error("cannot start {name}")]
    Start {
        /// Which.
        name: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A program failed.
    #[error("{name} {what}{}", if .stderr.is_empty() { String::new() } else { format!(": {stderr}") })]
    Process {
        /// Which.
        name: String,
        /// How.
        what: String,
        /// The end of its standard error.
        stderr: String,
    },
    /// An expected event did not arrive.
    #[error("{what}: not within {timeout:?}")]
    Timeout {
        /// What was waited for.
        what: String,
        /// For how long.
        timeout: Duration,
    },
}

impl From<TopologyError> for LeafSpineError {
    fn from(error: TopologyError) -> Self {
        Self::Controller(Box::new(error))
    }
}

impl From<ServerError> for LeafSpineError {
    fn from(error: ServerError) -> Self {
        Self::Controller(Box::new(error))
    }
}

/// Progress of a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Progress {
    /// Namespaces, links and routes are there, and processes are started.
    Starting,
    /// All workers are admitted.
    Running {
        /// The leaves and their ranks.
        leaves: Vec<Leaf>,
    },
    /// So many all-reduces are done on all ranks.
    Done(u32),
    /// The spine is killed.
    Killed(String),
}

/// A leaf with the ranks of its hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leaf {
    /// Its name.
    pub name: String,
    /// In order.
    pub ranks: Vec<u16>,
}

/// Where a tree of the job was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TreePlacement {
    /// The switch at its top.
    pub root: String,
    /// What it held there and below, the root first.
    pub switches: Vec<Slots>,
    /// Its epoch.
    pub epoch: u32,
}

/// A range of a switch's slots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Slots {
    /// The switch's name.
    pub switch: String,
    /// First of the range.
    pub first: u32,
    /// How many.
    pub slots: u32,
}

/// One of the job's trees before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TreeReport {
    /// Its number.
    pub tree: u8,
    /// Before the spine was lost.
    pub before: Option<TreePlacement>,
    /// At the job's end; none if it had no place then.
    pub after: Option<TreePlacement>,
}

/// Events after the loss of the spine, in seconds since then; an event that did not occur is missing.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Times {
    /// The controller knew.
    pub controller_s: Option<f64>,
    /// The first all-reduce that no rank had done by then was done on all.
    pub went_on_s: Option<f64>,
    /// The controller had set up the lost tree over other switches, and notified the workers.
    pub placed_s: Option<f64>,
    /// The first all-reduce that began with all trees again was done on all ranks.
    pub regained_s: Option<f64>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FabricReport {
    /// The spine that was killed.
    pub killed: String,
    /// How.
    pub fault: Fault,
    /// The job's trees.
    pub trees: Vec<TreeReport>,
    /// All-reduces before the loss, until all trees were restored, and from then on.
    pub phases: [Phase; 3],
    /// When what happened.
    pub times: Times,
    /// What is not as it must be; empty when the run was right.
    pub problems: Vec<String>,
}

impl FabricReport {
    /// Elements that were wrong in any phase.
    pub fn wrong(&self) -> u64 {
        self.phases.iter().map(|phase| phase.wrong).sum()
    }
}

/// Removes what this process' runs have made in the machine's network, for a process that is about to exit in their midst. The
/// processes of a run end with this one.
pub fn abandon() {
    netfold_testkit::namespace::remove_of(|owner| owner == std::process::id());
}
