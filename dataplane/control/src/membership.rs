//! The membership of a resizable job: who its ranks are in each generation, and how that changes.
//!
//! A rank of a resizable job has one more session, its *membership session*, that lasts over all generations. It begins with
//! [`SessionRequest::Enroll`](crate::SessionRequest::Enroll); [`SessionRequest::Resize`](crate::SessionRequest::Resize) asks for the next generation.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::{Credentials, ResumeTicket};

/// Most ranks that [`Resized::lost`] and [`NotResized::missing`] name.
pub const RANKS_NAMED_MAX: usize = 128;

/// Longest wait for the members of a job to request its next generation, in milliseconds: a day.
pub const RESIZE_TIMEOUT_MS_MAX: u32 = 86_400_000;

/// A request to become a member of a resizable job, or to resume a membership session on another connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enroll {
    /// Protocol version of the sender, [`VERSION`](netfold_wire::VERSION).
    pub version: u8,
    /// The tenant of the job, and its token. A control port without tenants ignores them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// Job name, 1 to 64 bytes.
    pub job: String,
    /// Who enrolls.
    pub role: EnrollRole,
}

/// In which role a worker enrolls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EnrollRole {
    /// A rank of the first generation.
    First {
        /// Its rank, below `world`.
        rank: u16,
        /// Number of ranks.
        world: u16,
    },
    /// A process that joins a running job, at its next resize. It has no rank before.
    New {},
    /// A rank that resumes its session, with its ticket.
    Member {
        /// The generation of the ticket.
        generation: u32,
        /// Its rank in that generation.
        rank: u16,
        /// The ticket, as enrolled or resized.
        ticket: ResumeTicket,
    },
}

/// The reply to [`SessionRequest::Enroll`](crate::SessionRequest::Enroll). A process that joins a running job receives it with generation 0, and
/// [`Resized`] later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enrolled {
    /// The generation; the first is 1.
    pub generation: u32,
    /// How long the member may be without a connection, in milliseconds; 0: the end of the connection is its loss.
    pub grace_ms: u32,
    /// What the session is resumed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<ResumeTicket>,
}

/// Asks for the next generation of the job: of all members that are not lost and, where `joining` is above 0, of as many processes that
/// have enrolled to join. Every member asks; the reply to each is [`Resized`] or [`NotResized`]. Repeated on another connection after
/// the session was resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resize {
    /// The generation that the member has.
    pub generation: u32,
    /// How many processes are to join, the same on all members.
    #[serde(default)]
    pub joining: u16,
    /// How long to wait for the other members, and for processes that join, in milliseconds. The first request's counts.
    pub timeout_ms: u32,
    /// Where the member listens for the others, if the ranks are linked: they meet at the new rank 0's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meeting: Option<SocketAddr>,
}

/// The job has another generation, and this rank is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resized {
    /// The generation.
    pub generation: u32,
    /// This member's rank in it: survivors are numbered in the order of their former ranks, those that join come after them.
    pub rank: u16,
    /// Number of ranks.
    pub world: u16,
    /// How many of them survive from the former generation.
    pub survivors: u16,
    /// Former ranks that are not in it, at most [`RANKS_NAMED_MAX`] of them.
    #[serde(default)]
    pub lost: Vec<u16>,
    /// Where the new rank 0 listens for the others, if the ranks are linked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meeting: Option<SocketAddr>,
    /// What the session is resumed with from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<ResumeTicket>,
}

/// The job stays in its generation. The session continues, and the request may be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NotResized {
    /// Members that are not lost and did not ask in time, at most [`RANKS_NAMED_MAX`] of them.
    #[serde(default)]
    pub missing: Vec<u16>,
    /// One sentence: why, and what to do.
    pub message: String,
}
