//! Jobs as admission sees them, from the first join to the last entry withdrawn.
//!
//! ```text
//!   first join            all in             installed          last one left / one lost
//!  ------------> Forming -------> Installing ---------> Running ------------------------> Closing ----> gone
//!                   |  ^             |  |                                                  ^  | ^          withdrawn
//!          time out |  | waits for    |  | a member is lost meanwhile: Doomed, then ------- +  +-+ tried again
//!                   v  | a place      v
//!                 gone                gone (the switch refused)
//! ```

use crate::admission::SessionId;
use crate::pool::{Placement, Shortage};
use crate::slots::SlotRange;
use netfold_wire::control::{Mode, Refusal};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// What all members of a job must agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobSpec {
    pub(crate) world: u16,
    pub(crate) mode: Mode,
    pub(crate) slots: u32,
    pub(crate) classes: u8,
}

/// A job that waits for its members or, once all are in, for its place.
#[derive(Debug)]
pub(crate) struct Forming {
    pub(crate) name: String,
    pub(crate) spec: JobSpec,
    pub(crate) members: BTreeMap<u16, SessionId>,
    pub(crate) deadline: Duration,
    /// What it waits for if all members are in.
    pub(crate) short: Option<Shortage>,
}

impl Forming {
    pub(crate) fn is_complete(&self) -> bool {
        self.members.len() == usize::from(self.spec.world)
    }

    /// Ranks that have not joined, as text: at most eight of them.
    pub(crate) fn missing(&self) -> String {
        let mut missing = (0..self.spec.world).filter(|rank| !self.members.contains_key(rank));
        let shown: Vec<_> = missing.by_ref().take(8).map(|rank| rank.to_string()).collect();
        let noun = if shown.len() == 1 { "rank" } else { "ranks" };
        match missing.count() {
            0 => format!("{noun} {}", shown.join(", ")),
            more => format!("{noun} {} and {more} more", shown.join(", ")),
        }
    }
}

/// How far a job with a place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The switch is being set up.
    Installing,
    /// It is over, but the switch is still being set up.
    Doomed,
    /// Its members work.
    Running,
    /// It is over and is being withdrawn; so many attempts have failed.
    Closing {
        /// Attempts that have failed.
        failures: u32,
    },
}

/// A job that holds a place at the switch.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) name: String,
    pub(crate) spec: JobSpec,
    pub(crate) phase: Phase,
    pub(crate) placement: Placement,
    pub(crate) range: SlotRange,
    /// Members that have a session.
    pub(crate) members: BTreeMap<u16, SessionId>,
    /// Members that are being retired.
    pub(crate) retiring: usize,
}

impl Active {
    /// Whether the job has ended and its place will be free soon.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Doomed | Phase::Closing { .. })
    }
}

/// What happened to a job, for logs and for people.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobEvent {
    /// A job has begun.
    Started {
        /// Job name.
        name: String,
        /// Number of workers.
        world: u16,
        /// Numeric mode.
        mode: Mode,
        /// Its place at the switch.
        placement: Placement,
        /// First chunk number of its stream.
        first_chunk: u32,
    },
    /// A member has left in peace; the job goes on.
    Left {
        /// Job name.
        name: String,
        /// Rank of the member.
        rank: u16,
    },
    /// A job is over.
    Ended {
        /// Job name.
        name: String,
        /// Job number.
        job: u16,
        /// Why.
        reason: EndReason,
    },
    /// A job came to nothing before it began.
    NotStarted {
        /// Job name.
        name: String,
        /// Machine-readable reason, as told to the members.
        reason: Refusal,
        /// What is wrong and what to do, as told to the members.
        message: String,
    },
    /// A worker was turned away; the job that it asked for, if any, is untouched.
    Refused {
        /// Where the session came from.
        peer: SocketAddr,
        /// Machine-readable reason.
        reason: Refusal,
        /// What is wrong and what to do.
        message: String,
    },
    /// The switch failed to take back what a job or a leaver held. For a whole job it is tried again.
    SwitchFailed {
        /// Job number.
        job: u16,
        /// The error and its sources.
        message: String,
    },
}

/// Why a job is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    /// Every member left in peace.
    Finished,
    /// A member is gone.
    PeerLost {
        /// Its rank.
        rank: u16,
        /// How it was noticed.
        message: String,
    },
    /// The control plane was shut down.
    Shutdown,
}

impl std::fmt::Display for EndReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Finished => f.write_str("every worker has left"),
            Self::PeerLost { message, .. } => f.write_str(message),
            Self::Shutdown => f.write_str("the control port was shut down"),
        }
    }
}
