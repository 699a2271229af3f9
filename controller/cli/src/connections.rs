//! Connections of the commands that serve: the descriptors that they need, and log lines about those that were closed.

use std::sync::Arc;
use std::time::Instant;

use netfold_listener::{ClosureLog, ListenerCounters, Policy};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::error::CliError;
use crate::output::Output;

/// Descriptors for all but connections of clients: files, sockets of the data path, connections to switches and to etcd, event descriptors.
const OTHER_DESCRIPTORS: u64 = 512;

/// A limit of open descriptors below what is needed.
pub(crate) struct DescriptorShortage {
    limit: u64,
    needed: u64,
    sessions: usize,
}

/// Raises the process's limit of open descriptors to the highest that it may set; returns it if that is too low for `sessions` sessions of
/// workers and the connections of these listeners.
pub(crate) fn raise_descriptor_limit(sessions: usize, listeners: &[Policy]) -> Option<DescriptorShortage> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        log::warn!("cannot raise the limit of open descriptors: {error}");
    }
    let connections: usize = listeners.iter().map(|policy| policy.connections_max).sum();
    let needed = (sessions + connections) as u64 + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile).current?;
    (limit < needed).then_some(DescriptorShortage { limit, needed, sessions })
}

impl DescriptorShortage {
    /// Says so.
    pub(crate) fn show(&self, output: &Output) -> Result<(), CliError> {
        let Self { limit, needed, sessions } = self;
        output.event(&json!({ "event": "descriptors_low", "limit": limit, "needed": needed }))?;
        output.line(format_args!(
            "this process may open {limit} descriptors, and needs {needed} for {sessions} sessions and its other connections: raise the limit \
             (LimitNOFILE= in a service's unit, or `ulimit -Hn`)"
        ))
    }
}

/// Log lines about the connections that listeners have closed, at a limited rate.
pub(crate) struct ConnectionLog {
    log: ClosureLog,
    started: Instant,
}

impl ConnectionLog {
    pub(crate) fn new(listeners: impl IntoIterator<Item = Arc<ListenerCounters>>) -> Self {
        Self { log: ClosureLog::new(listeners), started: Instant::now() }
    }

    /// Prints the lines that are due.
    pub(crate) fn show(&mut self, output: &Output) -> Result<(), CliError> {
        for message in self.log.poll(self.started.elapsed()) {
            output.event(&json!({ "event": "connections_closed", "message": message }))?;
            output.line(format_args!("{message}"))?;
        }
        Ok(())
    }
}
