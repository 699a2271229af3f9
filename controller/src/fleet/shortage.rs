//! Why a tree is given no place.

use netfold_control::Refusal;
use std::net::SocketAddr;

use crate::tree::TreeError;

/// No tree reaches all workers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NoRoute {
    /// As it is sent to workers.
    pub reason: Refusal,
    /// Why, and what to do.
    pub message: String,
}

/// What there is not enough of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Shortage {
    /// No aligned range of the least acceptable size at some switch.
    #[error(
        "no aligned range of {least} slots is free at {switch} ({free} of {capacity} slots are): end another job, request for fewer slots, or start the switch with more"
    )]
    Slots {
        /// The switch's name.
        switch: String,
        /// Least number of slots that would do.
        least: u32,
        /// Free slots.
        free: u32,
        /// Slots in all.
        capacity: u32,
    },
    /// Too few free ports in a row.
    #[error(
        "{switch} has {free} free ports and the job needs {need} in a row: end another job or start the switch with more ports"
    )]
    Ports {
        /// The switch's name.
        switch: String,
        /// Free ports.
        free: usize,
        /// Ports needed.
        need: usize,
    },
    /// Too few free entries of a job table.
    #[error(
        "the job table of {switch} has {free} free entries and the job needs {need}: end another job, or give the switch a program for more jobs"
    )]
    Entries {
        /// The switch's name.
        switch: String,
        /// Free entries.
        free: u32,
        /// Entries needed.
        need: u32,
    },
    /// No free multicast group or job number.
    #[error("{0} has no multicast group left: end another job")]
    Groups(String),
    /// The tenant's quota of slots is used up.
    #[error(
        "tenant '{tenant}' has {used} of {quota} slots and the job needs {need} more at least: end another of its jobs, or have its quota raised"
    )]
    Quota {
        /// The tenant.
        tenant: String,
        /// Slots that its jobs hold.
        used: u32,
        /// Slots that it may have.
        quota: u32,
        /// Slots that the job needs at least.
        need: u32,
    },
    /// The tenant has more than its share, and what is left is kept for others.
    #[error(
        "tenant '{tenant}' has {held} of {all} {what}, and what is left is kept for other tenants: end another of its jobs"
    )]
    Kept {
        /// The tenant.
        tenant: String,
        /// What there is too little of, and where.
        what: String,
        /// How many of them the tenant has.
        held: u32,
        /// How many there are.
        all: u32,
    },
    /// The UDP endpoint is still bound for a job that is being withdrawn.
    #[error("{0} is still bound for an earlier job: wait a moment or use another UDP port")]
    Address(SocketAddr),
    /// Epoch numbers are used up.
    #[error("all epoch numbers are used up: restart the switch and its controller")]
    Epochs,
    /// No tree reaches all workers.
    #[error(transparent)]
    Route(#[from] NoRoute),
    /// The tree that was chosen cannot be: a fault of the topology.
    #[error("the tree that was chosen cannot be: {0}")]
    Tree(#[from] TreeError),
}

impl Shortage {
    /// The reason as it is sent to workers.
    pub(crate) const fn refusal(&self) -> Refusal {
        match self {
            Self::Slots { .. } => Refusal::Slots,
            Self::Quota { .. } => Refusal::Quota,
            Self::Route(none) => none.reason,
            Self::Tree(_) => Refusal::Path,
            _ => Refusal::Busy,
        }
    }
}

/// Why a switch has no authenticated jobs, and what to do.
pub(crate) fn cannot_authenticate(switch: &str) -> String {
    format!(
        "{switch} does not authenticate packets: it is no software switch, or would be sent the keys in clear text (give it `tls` in the \
         topology); use another switch, or start all workers without authenticated packets"
    )
}
