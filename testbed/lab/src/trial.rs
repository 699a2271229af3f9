//! What trials have in common in which jobs run in a network of namespaces, under a controller in this process.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use netfold_measure::process;
use netfold_testkit::namespace::CommandError;
use netfold_testkit::process::Process;
use serde_json::Value;

use crate::rank::RankConfig;

/// Why a trial in a network of namespaces has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// Namespaces are made by root alone.
    #[error("a network of namespaces needs root: run the command with sudo")]
    NotRoot,
    /// The machine gives no such network.
    #[error(
        "the network cannot be built: it needs iproute2 and a kernel with network namespaces, veth, tbf, htb and u32"
    )]
    Network(#[from] CommandError),
    /// The controller cannot be started.
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
    /// A program ended early.
    #[error("{name} ended unexpectedly{}", if .stderr.is_empty() { String::new() } else { format!(": {stderr}") })]
    Ended {
        /// Which.
        name: String,
        /// The end of its standard error.
        stderr: String,
    },
    /// An expected event did not arrive.
    #[error("no {what} within {longest:?}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// For how long.
        longest: Duration,
    },
}

/// Starts a rank by a command without arguments, in a process group of its own: an interrupt is this process's to handle.
pub(crate) fn start_rank(
    command: &mut Command,
    config: &RankConfig,
    on_line: impl FnMut(Option<Value>) -> bool + Send + 'static,
) -> Result<Process, TrialError> {
    let started = process::run(command.args(config.arguments()).process_group(0), on_line);
    started.map_err(|source| TrialError::Start { name: rank_name(config.rank.into(), &config.job), source })
}

/// A rank, for messages.
pub(crate) fn rank_name(rank: usize, job: &str) -> String {
    format!("rank {rank} of job '{job}'")
}

/// Why a trial is over in which a program has ended before it was to.
pub(crate) fn ended(name: String, process: &mut Process) -> TrialError {
    process.kill();
    TrialError::Ended { name, stderr: process.stderr().trim().replace('\n', "; ") }
}

/// A trial that runs, from whose programs and threads events arrive.
pub(crate) trait EventDriven {
    /// What programs print, and the events of the controller.
    type Event;

    fn events(&self) -> &Receiver<Self::Event>;

    /// Takes an event, which may be the end of the trial.
    fn note(&mut self, event: Self::Event) -> Result<(), TrialError>;

    /// Takes events until one is the wanted one.
    fn wait(
        &mut self,
        longest: Duration,
        what: &'static str,
        wanted: impl Fn(&Self, &Self::Event) -> bool,
    ) -> Result<(), TrialError> {
        let end = Instant::now() + longest;
        loop {
            match self.events().recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(event) => {
                    let is_wanted = wanted(self, &event);
                    self.note(event)?;
                    if is_wanted {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(TrialError::Timeout { what, longest });
                }
            }
        }
    }
}
