//! Which way a communicator's data go, and why.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// How hosts are connected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Network {
    /// All ranks are on one host.
    None,
    /// An aggregating switch folds.
    Switch {
        /// Its control port; `None` for a transport in this process.
        address: Option<SocketAddr>,
    },
    /// The hosts fold, in a ring over TCP.
    Ring {
        /// Why not a switch; the same on all ranks.
        reason: String,
    },
}

/// Which way a communicator's data go. Its text is for people: `switch 192.0.2.1:20038`, or
/// `4 ranks a host in shared memory, then a ring of 2 hosts (no switch is configured)`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Path {
    /// Number of hosts, or of ranks where [`Self::shared`] is not used.
    pub hosts: u16,
    /// Ranks of this host that are folded in shared memory before the network; 1 when they are not.
    pub shared: u16,
    /// What joins the hosts.
    pub network: Network,
}

impl Path {
    /// A short, stable name of the network for programs: `switch`, `ring` or `shared_memory` (or `alone`, with one rank).
    pub fn name(&self) -> &'static str {
        match self.network {
            Network::Switch { .. } => "switch",
            Network::Ring { .. } => "ring",
            Network::None if self.shared > 1 => "shared_memory",
            Network::None => "alone",
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shared > 1 && self.network != Network::None {
            write!(f, "{} ranks of this host in shared memory, then ", self.shared)?;
        }
        match &self.network {
            Network::None if self.shared > 1 => {
                write!(f, "shared memory of {} ranks on one host", self.shared)
            }
            Network::None => f.write_str("no other rank"),
            Network::Switch { address: Some(address) } => write!(f, "the switch at {address}"),
            Network::Switch { address: None } => f.write_str("a switch in this process"),
            Network::Ring { reason } => write!(f, "a ring of {} hosts over TCP ({reason})", self.hosts),
        }
    }
}

/// A path that may change while others look at it.
#[derive(Debug, Clone)]
pub(crate) struct PathBoard(Arc<Mutex<Path>>);

impl PathBoard {
    pub(crate) fn new(path: Path) -> Self {
        Self(Arc::new(Mutex::new(path)))
    }

    pub(crate) fn get(&self) -> Path {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The network from now on.
    pub(crate) fn set_network(&self, network: Network) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).network = network;
    }
}
