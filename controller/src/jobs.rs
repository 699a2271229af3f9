//! Jobs as admission sees them, from the first join to the last entry withdrawn.
//!
//! ```text
//!   first join            all in             installed          last one left / one lost
//!  ------------> Forming -------> Installing ---------> Running ------------------------> Closing ----> gone
//!                   |  ^             |  |                                                  ^  | ^          withdrawn
//!          time out |  | waits for    |  | a member is lost meanwhile: Cancelled, then ------- +  +-+ tried again
//!                   v  | a place      v
//!                 gone                gone (the switch refused)
//!
//! Installing has two tasks of the switches; between them, Validating, each member shows that it receives packets at its address.
//! ```

use crate::fleet::{HeldRanges, Placement, Shortage};
use crate::flight_record::Stall;
use crate::rebalance;
use crate::record::{JobName, JobSpec, PlaceRecord};
use crate::schedule::Decision;
use crate::ticket::TicketKey;
use crate::traffic::{TreePaths, TreePatterns, TreeTraffic};
use crate::view::Finding;
use netfold_control::Band;
use netfold_control::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A session of a worker. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub(crate) u64);

/// A tree of a job or of one of its groups: what is formed, placed and ended by itself. The trees of a job come before those of its groups.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TreeName {
    pub(crate) name: JobName,
    /// The group; empty for the job itself.
    pub(crate) group: String,
    pub(crate) tree: u8,
}

impl TreeName {
    /// Whose tree it is, as the subject of a sentence.
    pub(crate) fn subject(&self) -> String {
        subject(&self.name, &self.group)
    }
}

/// A job, or a group of it, as the subject of a sentence.
pub fn subject(name: &JobName, group: &str) -> String {
    match group {
        "" => format!("job '{name}'"),
        group => format!("group '{group}' of job '{name}'"),
    }
}

/// To whom a job that forms is attributed: places to form in are shared among owners.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// A tenant, where there are tenants.
    Tenant(String),
    /// The address of the first member's session.
    Address(IpAddr),
}

/// A tree of a job that waits for its members or, once all are in, for its place.
#[derive(Debug)]
pub(crate) struct FormingTree {
    pub(crate) name: TreeName,
    pub(crate) owner: Owner,
    pub(crate) spec: JobSpec,
    /// That of its members, if the job is resizable.
    pub(crate) generation: u32,
    pub(crate) members: BTreeMap<u16, SessionId>,
    pub(crate) deadline: Duration,
    /// Whether all members that have joined can continue without the switch when their place is taken away.
    pub(crate) movable: bool,
    /// What it waits for if all members are in.
    pub(crate) short: Option<Shortage>,
}

impl FormingTree {
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

/// State of a job that has a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TreePhase {
    /// The switches are being set up.
    Installing,
    /// Its members validate their addresses, until then.
    Validating {
        /// When those that have not are refused.
        deadline: Duration,
    },
    /// It is over, but the switches are still being set up.
    Cancelled,
    /// Its members work.
    Running,
    /// It is over and is being withdrawn; so many attempts have failed.
    Closing {
        /// Attempts that have failed.
        failures: u32,
    },
}

impl TreePhase {
    /// Whether the job is about to run.
    pub(crate) const fn is_starting(self) -> bool {
        matches!(self, Self::Installing | Self::Validating { .. })
    }

    /// The name in views.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Installing | Self::Validating { .. } => "installing",
            Self::Running => "running",
            Self::Cancelled | Self::Closing { .. } => "closing",
        }
    }
}

/// Whether a member of a running job has a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It has.
    Here(SessionId),
    /// Its session broke, and it may resume until then.
    Away(Duration),
}

impl Presence {
    pub(crate) fn session(self) -> Option<SessionId> {
        match self {
            Self::Here(id) => Some(id),
            Self::Away(_) => None,
        }
    }
}

/// A tree of a job that holds a place at the switches.
#[derive(Debug)]
pub(crate) struct ActiveTree {
    pub(crate) name: TreeName,
    pub(crate) spec: JobSpec,
    pub(crate) phase: TreePhase,
    pub(crate) placement: Arc<Placement>,
    pub(crate) ranges: HeldRanges,
    /// The links that it uses, by the coordinator's numbers, each once: those of hosts, then those between switches.
    pub(crate) wires: Box<[usize]>,
    /// Whether its members can go on by themselves when their place is taken away, and come again.
    pub(crate) movable: bool,
    /// Since when it has this place.
    pub(crate) since: Duration,
    pub(crate) first_chunk: Option<u32>,
    /// From which its members' resume tickets are derived.
    pub(crate) ticket_key: TicketKey,
    /// Members that have not validated their addresses yet.
    pub(crate) unvalidated: BTreeSet<u16>,
    /// Its classes of packets while it runs, where it has others than all jobs.
    pub(crate) band: Option<Band>,
    /// Members that have not left.
    pub(crate) members: BTreeMap<u16, Presence>,
    /// Members that have left gracefully.
    pub(crate) left: BTreeSet<u16>,
    /// Those of them whose ports are free again.
    pub(crate) released: BTreeSet<u16>,
    /// Members that are being retired.
    pub(crate) retiring: usize,
    /// What its members report of their packets.
    pub(crate) traffic: TreeTraffic,
    /// What they report of their iterations.
    pub(crate) patterns: TreePatterns,
    /// What they report of their paths.
    pub(crate) paths: TreePaths,
    /// Its stalls.
    pub(crate) stalls: Stalls,
    /// Its contributions that found no slot, at each switch where it shares some, once they are known there.
    pub(crate) spilled: Vec<Option<SpilledCount>>,
}

/// Spilled contributions of a tree at a switch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpilledCount {
    /// Since the first reading.
    pub(crate) counted: u64,
    /// What was read last, which includes earlier jobs'.
    pub(crate) read: u64,
}

/// Stalls of a tree.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    /// The one that lasts, once a member has reported it.
    pub(crate) open: Option<Box<Stall>>,
    /// How many there were before.
    pub(crate) count: u32,
    /// Until then no other is recorded.
    pub(crate) pause_until: Duration,
}

impl ActiveTree {
    /// Whether the job has ended and its place will be free soon.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, TreePhase::Cancelled | TreePhase::Closing { .. })
    }

    /// What is kept of it; the names are those of its switches.
    pub(crate) fn record(&self, switches: Vec<String>) -> PlaceRecord {
        let job = self.placement.job();
        PlaceRecord {
            name: self.name.name.clone(),
            group: self.name.group.clone(),
            tree: self.name.tree,
            spec: self.spec,
            number: job.job,
            epoch: job.epoch,
            key: job.key,
            ticket_key: self.ticket_key.clone(),
            slots: job.slots,
            first_chunk: self.first_chunk,
            over: self.is_over(),
            movable: self.movable,
            switches,
            shape: self.placement.shape().clone(),
            sites: self.placement.sites.clone(),
            members: self.placement.members.clone(),
            left: self.left.iter().copied().collect(),
        }
    }
}

/// An event of a job, for logs and displays.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum JobEvent {
    /// A job or a group of it has begun.
    Started {
        /// Job name.
        name: JobName,
        /// The job's group; empty for the job itself.
        group: String,
        /// Which of its trees.
        tree: u8,
        /// What its workers agreed on.
        spec: JobSpec,
        /// Its place at the switches.
        placement: Arc<Placement>,
        /// First chunk number of its stream.
        first_chunk: u32,
    },
    /// A job has other classes of packets than before, or its first.
    Banded {
        /// Job name.
        name: JobName,
        /// The classes.
        band: Band,
    },
    /// The schedule does something else about a job than before, or for another reason.
    Scheduled {
        /// Job name.
        name: JobName,
        /// What, and why.
        decision: Decision,
    },
    /// What is decided about a tree of a job has changed: it is moved, or its last move was judged, or it stays for a lasting reason.
    Rebalanced {
        /// Job name.
        name: JobName,
        /// The job's group; empty for the job itself.
        group: String,
        /// Which of its trees.
        tree: u8,
        /// What, and why.
        decision: rebalance::Decision,
    },
    /// A member has left gracefully; the job goes on.
    Left {
        /// Job name.
        name: JobName,
        /// The job's group; empty for the job itself.
        group: String,
        /// Rank of the member.
        rank: u16,
    },
    /// A job or a group of it is over.
    Ended {
        /// Job name.
        name: JobName,
        /// The job's group; empty for the job itself.
        group: String,
        /// Job number.
        job: u16,
        /// Why.
        reason: EndReason,
    },
    /// A job or a group of it ended before it began.
    NotStarted {
        /// Job name.
        name: JobName,
        /// The job's group; empty for the job itself.
        group: String,
        /// Machine-readable reason, as sent to the members.
        reason: Refusal,
        /// What is wrong and what to do, as sent to the members.
        message: String,
    },
    /// A worker was refused; the job that it asked for, if any, is untouched.
    Refused {
        /// Where the session came from.
        peer: SocketAddr,
        /// Machine-readable reason.
        reason: Refusal,
        /// What is wrong and what to do.
        message: String,
    },
    /// A member's session broke; it may resume.
    Away {
        /// Job name.
        name: JobName,
        /// The job's group; empty for the job itself.
        group: String,
        /// Rank of the member.
        rank: u16,
    },
    /// A member has resumed its session.
    Back {
        /// Job name.
        name: JobName,
        /// The job's group; empty for the job itself.
        group: String,
        /// Rank of the member.
        rank: u16,
    },
    /// Something slows a job or a group of it down.
    Slowed {
        /// Job name.
        name: JobName,
        /// The job's group; empty for the job itself.
        group: String,
        /// What.
        finding: Finding,
    },
    /// What slowed a job or a group of it down is over.
    Recovered {
        /// Job name.
        name: JobName,
        /// The job's group; empty for the job itself.
        group: String,
        /// What it was.
        finding: Finding,
    },
    /// A job or a group of it has had no result for a while although packets are outstanding, and the slots were read.
    Stalled {
        /// Job name.
        name: JobName,
        /// The job's group; empty for the job itself.
        group: String,
        /// Which of its trees.
        tree: u8,
        /// How long.
        lasts: Duration,
        /// The oldest chunk that lacks contributions, and ranks that have not contributed to it, if they are known.
        missing: Option<(u32, Vec<u16>)>,
        /// The cause, as far as it is known.
        conclusion: String,
    },
    /// A job or a group of it that was stalled has results again.
    Continued {
        /// Job name.
        name: JobName,
        /// The job's group; empty for the job itself.
        group: String,
        /// Which of its trees.
        tree: u8,
        /// How long it was stalled.
        lasted: Duration,
    },
    /// A member of a resizable job is lost: its membership session ended, and was not resumed.
    MemberLost {
        /// Job name.
        name: JobName,
        /// The generation that it was a member of.
        generation: u32,
        /// Its rank in that generation.
        rank: u16,
    },
    /// A resizable job has another generation.
    Resized {
        /// Job name.
        name: JobName,
        /// The generation.
        generation: u32,
        /// Number of workers.
        world: u16,
        /// Ranks of the former generation that are not in it, the first ones if they are many.
        lost: Vec<u16>,
    },
    /// A switch can be used.
    SwitchUp {
        /// Its name.
        switch: String,
        /// Whether it had lost all that it held.
        fresh: bool,
    },
    /// A switch cannot be used.
    SwitchDown {
        /// Its name.
        switch: String,
        /// Why.
        reason: String,
    },
    /// A switch's state was found to differ from the intended one and was corrected.
    SwitchRepaired {
        /// Its name.
        switch: String,
        /// What was corrected.
        message: String,
    },
    /// An administrator has changed something.
    Changed {
        /// What: `tenant`, `job`, `switch`, `link`.
        what: &'static str,
        /// Its name.
        name: String,
        /// What is changed.
        message: String,
    },
    /// The switch failed to take back what a job or a leaver held. For a whole job this is retried.
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
    /// Every member left gracefully.
    Finished,
    /// A member is lost.
    PeerLost {
        /// Its rank.
        rank: u16,
        /// How it was detected.
        message: String,
    },
    /// Its switch is lost, or is being drained.
    Displaced {
        /// What happened.
        message: String,
    },
    /// Slots are shared anew: its members continue without the switch, and join again.
    Moved {
        /// For whom, and what it is to have instead.
        message: String,
    },
    /// An administrator has ended it.
    Stopped {
        /// Why.
        message: String,
    },
    /// The control plane was shut down.
    Shutdown,
}

impl std::fmt::Display for EndReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Finished => f.write_str("every worker has left"),
            Self::PeerLost { message, .. }
            | Self::Displaced { message }
            | Self::Moved { message }
            | Self::Stopped { message } => f.write_str(message),
            Self::Shutdown => f.write_str("the control port was shut down"),
        }
    }
}
