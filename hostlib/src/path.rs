//! The path of a communicator's data, and why.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How hosts are connected.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Network {
    /// All ranks are on one host.
    None,
    /// An aggregating switch reduces.
    Switch {
        /// Its control port; `None` for a transport in this process.
        address: Option<SocketAddr>,
    },
    /// The hosts reduce, in a ring over TCP.
    Ring {
        /// Why not a switch; the same on all ranks.
        reason: String,
    },
}

/// The path of a communicator's data. Its text is for people: `switch 192.0.2.1:20038`, or
/// `4 ranks a host in shared memory, then a ring of 2 hosts (no switch is configured)`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Path {
    /// Number of hosts, or of ranks where [`Self::shared`] is not used.
    pub hosts: u16,
    /// Ranks of this host whose tensors are reduced in shared memory before the network; 1 when they are not.
    pub shared: u16,
    /// What joins the hosts.
    pub network: Network,
    /// Trees of switches that the job is laid over; 0 without a switch.
    pub trees: u8,
    /// Trees whose attachment to a switch is lost, in order, and why; temporarily, where ranks [rejoin](crate::Builder::rejoin).
    pub lost: Vec<(u8, String)>,
    /// Trees at whose switches the ranks have no slots at present, in order, because they are [idle](crate::Builder::idle_timeout): the next operation requests them.
    pub idle: Vec<u8>,
    /// Why the configured switch was not used when the communicator was built, and what to change; the same on all ranks. `None` if
    /// it is used or none was configured.
    pub unused_switch: Option<String>,
}

/// An attachment to a switch, as it was admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SwitchAttachment {
    /// Which of the job's trees it is in.
    pub tree: u8,
    /// Where packets go; `None` for a transport in this process.
    pub switch: Option<SocketAddr>,
    /// Number of the job there.
    pub job: u16,
    /// Epoch of its membership.
    pub epoch: u32,
    /// Slots of the job.
    pub slots: u32,
    /// Lanes of a packet in bytes.
    pub payload_bytes: u32,
}

impl Path {
    /// Of ranks that each have a host of their own, at a switch that is given.
    pub(crate) fn through_switch(hosts: u16, trees: u8) -> Self {
        let network = Network::Switch { address: None };
        Self { hosts, shared: 1, network, trees, lost: Vec::new(), idle: Vec::new(), unused_switch: None }
    }

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
        }?;
        if let Network::Switch { .. } = self.network
            && self.trees > 1
        {
            write!(f, " in {} trees", self.trees)?;
            for (tree, reason) in &self.lost {
                write!(f, ", tree {tree} by a ring ({reason})")?;
            }
        }
        if !self.idle.is_empty() {
            f.write_str(" (without slots while idle)")?;
        }
        Ok(())
    }
}

/// A path that may change while other threads read it.
#[derive(Debug, Clone)]
pub(crate) struct PathCell(Arc<Mutex<PathState>>);

#[derive(Debug)]
struct PathState {
    path: Path,
    /// In order of trees.
    attachments: Vec<SwitchAttachment>,
}

impl PathCell {
    pub(crate) fn new(path: Path) -> Self {
        Self(Arc::new(Mutex::new(PathState { path, attachments: Vec::new() })))
    }

    fn lock(&self) -> MutexGuard<'_, PathState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self) -> Path {
        self.lock().path.clone()
    }

    pub(crate) fn attachments(&self) -> Vec<SwitchAttachment> {
        self.lock().attachments.clone()
    }

    /// A tree is attached, admitted by the control port at `address`.
    pub(crate) fn set_attached(&self, attachment: SwitchAttachment, address: Option<SocketAddr>) {
        let mut state = self.lock();
        state.path.lost.retain(|(tree, _)| *tree != attachment.tree);
        state.path.idle.retain(|tree| *tree != attachment.tree);
        state.path.network = Network::Switch { address };
        state.attachments.retain(|other| other.tree != attachment.tree);
        state.attachments.push(attachment);
        state.attachments.sort_by_key(|attachment| attachment.tree);
    }

    /// A tree has given its attachment back, or has not requested one yet.
    pub(crate) fn set_idle(&self, tree: u8) {
        let mut state = self.lock();
        state.attachments.retain(|attachment| attachment.tree != tree);
        state.path.idle.retain(|idle| *idle != tree);
        state.path.idle.push(tree);
        state.path.idle.sort_unstable();
    }

    /// A tree has lost its attachment.
    pub(crate) fn set_lost(&self, tree: u8, reason: String) {
        let mut state = self.lock();
        state.path.idle.retain(|idle| *idle != tree);
        state.attachments.retain(|attachment| attachment.tree != tree);
        state.path.lost.retain(|(lost, _)| *lost != tree);
        if state.attachments.is_empty() {
            state.path.network = Network::Ring { reason: reason.clone() };
        }
        state.path.lost.push((tree, reason));
        state.path.lost.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_what_is_left_when_all_trees_are_lost() {
        let attachment =
            |tree| SwitchAttachment { tree, switch: None, job: 1, epoch: 2, slots: 4, payload_bytes: 256 };
        let path = PathCell::new(Path::through_switch(2, 2));
        path.set_attached(attachment(1), None);
        path.set_attached(attachment(0), None);
        assert_eq!(path.get().to_string(), "a switch in this process in 2 trees");
        path.set_lost(1, "a cable".into());
        assert!(path.get().to_string().ends_with("2 trees, tree 1 by a ring (a cable)"));
        assert_eq!(path.attachments(), [attachment(0)]);
        path.set_lost(0, "power".into());
        assert_eq!((path.get().name(), path.get().lost.len()), ("ring", 2));
        path.set_attached(attachment(0), None);
        path.set_attached(attachment(1), None);
        assert_eq!((path.get().name(), path.get().lost), ("switch", vec![]));
    }
}
