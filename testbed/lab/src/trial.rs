//! What trials have in common in which jobs run in a network of namespaces, under a controller in this process.

use std::io;
use std::time::Duration;

use netfold_testkit::namespace::CommandError;

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
