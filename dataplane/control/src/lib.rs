//! The messages of the control connection between a worker and the control port: one JSON object a line over TCP.
//!
//! The session lasts while the worker takes part in the job. A worker sends [`SessionRequest::Join`] and receives
//! [`SessionEvent::Path`] once every rank has joined (or [`SessionEvent::Refused`]); it shows by [`SessionRequest::Path`] that it receives
//! packets, is sent [`SessionEvent::Admitted`] when every rank has, then sends [`SessionRequest::Alive`] every
//! [`HEARTBEAT_MS`]; the server does the same with [`SessionEvent::Alive`]. A session that closes or is silent for
//! [`LEASE_MS`] counts as lost and every other member receives [`SessionEvent::PeerLost`].
#![forbid(unsafe_code)]

mod band;
mod counters;
mod membership;
mod path;
mod paths;
mod pattern;
mod port_protocol;
mod stall;
mod ticket;

use std::net::IpAddr;

use netfold_wire::{LaneOps, UDP_PORT, VERSION};
use serde::{Deserialize, Serialize};

pub use crate::band::{Band, BandError};
pub use crate::counters::MemberCounters;
pub use crate::membership::{
    Enroll, EnrollRole, Enrolled, NotResized, RANKS_NAMED_MAX, RESIZE_TIMEOUT_MS_MAX, Resize, Resized,
};
pub use crate::path::{PathChallenge, PathToken};
pub use crate::paths::{Multipath, PATHS_MAX, PathPolicy, PathReport, PortSet};
pub use crate::pattern::{CommunicationPattern, Hold};
pub use crate::port_protocol::PortProtocol;
pub use crate::stall::{RANK_EVENTS_MAX, RankEvent, RankEventKind, StallReport};
pub use crate::ticket::ResumeTicket;
pub use netfold_wire::{Mode, Numerics};

/// Interval between signs of life, in milliseconds, in both directions.
pub const HEARTBEAT_MS: u64 = 500;

/// How long a controller that has started waits for the members of jobs that ran before, in milliseconds: until then their places are kept.
pub const RESUME_MS: u64 = 10_000;

/// Silence after which the other side counts as lost, in milliseconds.
pub const LEASE_MS: u64 = 3_000;

/// Most trees of a job.
pub const TREES_MAX: u8 = 8;

/// Longest message line, in bytes, newline included. A longer line ends the session.
pub const LINE_LEN_MAX: usize = 4096;

/// The congestion-control algorithm of a job's workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CongestionAlgorithm {
    /// A fixed window: all slots.
    #[default]
    Fixed,
    /// One chunk more a round, half after a mark or a loss.
    Aimd,
    /// A decrease in proportion to the fraction of marked results.
    Dctcp,
    /// By a target for the delay.
    Swift,
    /// A decrease by the frequency of marks, and an increase by timers.
    Dcqcn,
    /// As `Aimd`, but more, the further the training's iteration is.
    #[serde(rename = "mltcp-aimd")]
    MltcpAimd,
    /// As `Dctcp`, but more, the further the training's iteration is.
    #[serde(rename = "mltcp-dctcp")]
    MltcpDctcp,
    /// As `Swift`, but more, the further the training's iteration is.
    #[serde(rename = "mltcp-swift")]
    MltcpSwift,
    /// As `Dcqcn`, but more, the further the training's iteration is.
    #[serde(rename = "mltcp-dcqcn")]
    MltcpDcqcn,
}

impl CongestionAlgorithm {
    /// Every value.
    pub const ALL: &'static [Self] = &[
        Self::Fixed,
        Self::Aimd,
        Self::Dctcp,
        Self::Swift,
        Self::Dcqcn,
        Self::MltcpAimd,
        Self::MltcpDctcp,
        Self::MltcpSwift,
        Self::MltcpDcqcn,
    ];

    /// The name used on command lines and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Aimd => "aimd",
            Self::Dctcp => "dctcp",
            Self::Swift => "swift",
            Self::Dcqcn => "dcqcn",
            Self::MltcpAimd => "mltcp-aimd",
            Self::MltcpDctcp => "mltcp-dctcp",
            Self::MltcpSwift => "mltcp-swift",
            Self::MltcpDcqcn => "mltcp-dcqcn",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|congestion| congestion.name() == name)
    }
}

/// An iteration of a job, for the scheduling of several jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Iteration {
    /// Work, in any unit that all jobs share: GPU milliseconds, or floating point operations by the billion.
    pub work: u64,
    /// Computing time, in microseconds.
    pub compute_us: u64,
    /// Offset into the computing time at which sending begins, in microseconds; `compute_us` without overlap.
    pub send_after_us: u64,
    /// Bytes that each worker sends.
    pub bytes: u64,
}

impl Iteration {
    /// Most work, and most bytes: what a `f64` counts exactly.
    pub const MOST: u64 = 1 << 53;
    /// Longest computing, in microseconds: a day.
    pub const COMPUTE_US_MAX: u64 = 86_400_000_000;

    /// A problem with it, if any: one sentence, with the remedy.
    pub fn fault(&self) -> Option<String> {
        let Self { work, compute_us, send_after_us, bytes } = *self;
        if !(1..=Self::MOST).contains(&work) || !(1..=Self::MOST).contains(&bytes) {
            return Some(format!(
                "an iteration of work {work} that sends {bytes} bytes: give 1 to 2^53 of each"
            ));
        }
        if !(1..=Self::COMPUTE_US_MAX).contains(&compute_us) {
            return Some(format!(
                "an iteration that computes for {compute_us} us: give 1 to {} (a day)",
                Self::COMPUTE_US_MAX
            ));
        }
        (send_after_us > compute_us).then(|| {
            format!(
                "an iteration that sends after {send_after_us} us of {compute_us} us of computing: give as much at most"
            )
        })
    }
}

/// A message of a worker to the control port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum SessionRequest {
    /// Take part in a job. The first to join creates it; all must agree on everything but the rank, and where they are.
    Join(Join),
    /// Resume a broken session, in a running job. The reply is [`SessionEvent::Resumed`] or [`SessionEvent::Refused`].
    Resume(Resume),
    /// Whether the tenant's quota has room for groups of a job that are about to join. The reply is [`SessionEvent::Quota`], or
    /// [`SessionEvent::Refused`] with the slots that are needed. In place of a join.
    Quota(QuotaQuery),
    /// Become a member of a resizable job, or resume a membership session. The reply is [`SessionEvent::Enrolled`] or [`SessionEvent::Refused`]. In
    /// place of a join.
    Enroll(Enroll),
    /// The next generation of a resizable job, on a membership session. The reply is [`SessionEvent::Resized`] or [`SessionEvent::NotResized`].
    Resize(Resize),
    /// A sign of life.
    Alive {
        /// The member's counters. For those who watch the job: a server ignores counters that are less than before, and the session goes on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        counters: Option<MemberCounters>,
    },
    /// The worker has received no result for a while although packets are outstanding. Sent once for each stall, by members of jobs that run. For
    /// those who look for the cause: a server ignores a report that is impossible, and the session goes on.
    Stalled(StallReport),
    /// What the member has measured of the job's iterations. Sent with heartbeats, by members of jobs that run, where the admission asks for
    /// [patterns](Admission::patterns): a server ignores one that is impossible, and the session goes on.
    Pattern(CommunicationPattern),
    /// How much the member has sent by each of its paths. Sent with heartbeats, by members of jobs that run and whose workers have several UDP ports, where
    /// the admission asks for [it](Admission::path_reports): a server ignores a report that is impossible, and the session goes on.
    Paths(PathReport),
    /// The path token that the worker has received from its switch: the proof that it receives packets at its address. The reply to
    /// [`SessionEvent::Path`].
    Path {
        /// The token.
        token: PathToken,
    },
    /// Asks for the job's classes of packets, now and whenever they change: the reply is [`SessionEvent::Band`], any number of times. Of an
    /// admission that names a [`band`](Admission::band) alone; others are of a server that does not know it.
    Band {},
    /// The worker has finished and leaves gracefully; the job continues until its last member has left.
    Leave {},
}

impl SessionRequest {
    /// A sign of life without counters.
    pub const ALIVE: Self = Self::Alive { counters: None };
}

/// A request to join a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// Protocol version of the sender, [`VERSION`].
    pub version: u8,
    /// The tenant of the job, and its token. A control port without tenants ignores them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// Job name, 1 to 64 bytes; another tenant's job of the same name is another job.
    pub job: String,
    /// The group of the job that this session is for, 1 to 64 bytes: some of the job's workers, with an admission and slots of their own. Empty for
    /// the job itself. A group ends when its job is ended or loses a worker; it counts toward its tenant's quota with its slots, and neither as a job
    /// nor with its workers while its job has as many.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// This worker's rank in the job, or in the group, below `world`.
    pub rank: u16,
    /// Number of workers, of the job or of the group.
    pub world: u16,
    /// Numeric mode.
    pub mode: Mode,
    /// Slots wanted, a power of two; the server may grant fewer.
    pub slots: u32,
    /// Streams that the workers make of the job, each with an equal share of its slots and chunk numbers of its own, one for
    /// each class of operations: a power of two, 1 to 16. The switch sees no difference.
    #[serde(default = "one")]
    pub classes: u8,
    /// UDP port that this worker sends from; the first one, if it sends from several.
    pub udp_port: u16,
    /// How many consecutive UDP ports it sends from, a power of two up to [`PATHS_MAX`]. 0: from one, and it can send from more; the reply is
    /// [`SessionEvent::Paths`] where it is to.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub udp_ports: u8,
    /// Address that this worker sends from, where it is not the one of this TCP session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The job's tree that this session is for: a worker has a session, an admission and slots for each.
    #[serde(default)]
    pub tree: u8,
    /// Trees of the job, 1 to [`TREES_MAX`]: the server lays them over different switches where it can.
    #[serde(default = "one")]
    pub trees: u8,
    /// Whether the ranks continue without the switch when the server withdraws their slots, and join again: then it may do so in favour of
    /// other jobs.
    #[serde(default)]
    pub movable: bool,
    /// Whether the job's packets are to be authenticated ([`PathChallenge::keys`]).
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub authenticated: bool,
    /// Longest datagram in bytes, of a Netfold header, lanes and a tag, that reaches the host of this control port from here in one piece, as far as
    /// this host knows; 0 where it does not know. A switch with pipelines of several payloads gives a job the longest that all its members' paths
    /// carry.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub datagram_max: u32,
    /// The generation of a resizable job that the worker is a member of; 0 of other jobs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u32,
}

impl Join {
    /// A join without credentials, from the address of the session, of a job with one class and one tree.
    pub fn new(
        job: impl Into<String>,
        (rank, world): (u16, u16),
        mode: Mode,
        slots: u32,
        udp_port: u16,
    ) -> Self {
        Self {
            version: VERSION,
            credentials: None,
            job: job.into(),
            group: String::new(),
            rank,
            world,
            mode,
            slots,
            classes: 1,
            udp_port,
            udp_ports: 1,
            address: None,
            tree: 0,
            trees: 1,
            movable: false,
            authenticated: false,
            datagram_max: 0,
            generation: 0,
        }
    }
}

/// Groups that are about to join.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaQuery {
    /// Protocol version of the sender, [`VERSION`].
    pub version: u8,
    /// The tenant of the job, and its token. A control port without tenants ignores them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
    /// Number of groups.
    pub groups: u32,
    /// Slots that each of them wants in each tree; it may be granted fewer.
    pub slots: u32,
    /// Classes of each.
    pub classes: u8,
    /// Trees of each.
    pub trees: u8,
}

/// The session to resume. Only the member has the ticket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// Protocol version of the sender, [`VERSION`].
    pub version: u8,
    /// Job number, as admitted.
    pub job: u16,
    /// Epoch, as admitted.
    pub epoch: u32,
    /// This worker's rank.
    pub rank: u16,
    /// Ticket, as admitted.
    pub ticket: ResumeTicket,
}

/// A tenant and its token.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// Name of the tenant.
    pub tenant: String,
    /// Its token, as shown to the administrator; may be empty where the controller requires none.
    #[serde(default)]
    pub token: String,
}

impl core::fmt::Debug for Credentials {
    /// Without the token.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Credentials").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

const fn one() -> u8 {
    1
}

const fn is_one(value: &u8) -> bool {
    *value == 1
}

const fn is_zero(value: &u32) -> bool {
    *value == 0
}

/// A message of the control port to a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum SessionEvent {
    /// All ranks have joined: the worker is to validate its path, and to reply with [`SessionRequest::Path`]. The admission follows when all
    /// have.
    Path(PathChallenge),
    /// The worker is to join, in this session, with so many UDP ports: between it and its switch there are several paths. The reply to a
    /// [`SessionRequest::Join`] with `udp_ports` 0.
    Paths {
        /// Consecutive UDP ports.
        udp_ports: u8,
    },
    /// All ranks have joined; the job may start.
    Admitted(Admission),
    /// The worker may not join.
    Refused {
        /// Machine-readable reason.
        reason: Refusal,
        /// One sentence: what is wrong and what to do.
        message: String,
    },
    /// A member is lost; the job is over.
    PeerLost {
        /// The lost rank.
        rank: u16,
        /// One sentence: how it was detected.
        message: String,
    },
    /// A member has finished and left gracefully. Operations that it contributed to can still be completed, but no others.
    PeerLeft {
        /// The rank that left.
        rank: u16,
    },
    /// The quota has room for the groups, at this moment: nothing is reserved.
    Quota {},
    /// The worker is enrolled.
    Enrolled(Enrolled),
    /// The job has another generation. The last event for members that are not in it is a refusal for [`Refusal::Excluded`].
    Resized(Resized),
    /// The job stays in its generation.
    NotResized(NotResized),
    /// The session continues where it broke.
    Resumed {},
    /// The job has these classes of packets from now on, for operations that it starts. Sent only to members that requested it.
    Band(Band),
    /// The job's next iteration is to begin later. Sent only to members that have sent a [pattern](SessionRequest::Pattern).
    Hold(Hold),
    /// The worker is to send from these of its UDP ports, until another such order. Sent only to members that report that they take it
    /// ([`PathReport::ordered`]).
    UsePorts {
        /// At least one of the member's ports.
        ports: PortSet,
    },
    /// The job has lost its switch, or its slots there. Operations in progress can be completed without it; all ranks join again for
    /// other slots, in another epoch.
    SwitchLost {
        /// One sentence: what happened.
        message: String,
    },
    /// A sign of life.
    Alive {},
}

/// What a worker needs to take part in a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// Job number on the switch.
    pub job: u16,
    /// Epoch of the membership.
    pub epoch: u32,
    /// Job key.
    pub key: u32,
    /// Slots granted, a power of two: the window.
    pub slots: u32,
    /// First chunk number of the stream, newer than anything the slots have seen.
    pub first_chunk: u32,
    /// 32-bit words of lanes in every packet that is not bare.
    pub lane_words: u32,
    /// UDP port of the switch, at the address of this TCP session.
    pub udp_port: u16,
    /// Contributor bitmap of a complete RESULT: the children of the worker's switch, lowest bits first.
    pub bitmap: u32,
    /// The worker's own bit in the bitmaps of RESULTs, where every switch of the tree can leave contributions out of a sum; else 0.
    #[serde(default, rename = "share")]
    pub own_bit: u32,
    /// The lane operations that every switch of the tree has. Without it those on words, which all switches had once.
    #[serde(default)]
    pub lane_ops: LaneOps,
    /// Bits by which sums come down shifted right, at all levels together; 0 but in wide numerics.
    #[serde(default)]
    pub shift: u8,
    /// Address of the worker's switch, where it is not the one of this TCP session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<IpAddr>,
    /// How long the job continues without this session, in milliseconds: the time that a worker whose session breaks has for a
    /// [`SessionRequest::Resume`] in another. 0 where the end of the session is the loss of the worker, and that of the switch.
    #[serde(default)]
    pub grace_ms: u32,
    /// What the worker resumes its session with; present where `grace_ms` is above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<ResumeTicket>,
    /// The congestion-control algorithm to use.
    #[serde(default)]
    pub congestion: CongestionAlgorithm,
    /// The UDP ports of the workers, where they are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multipath: Option<Multipath>,
    /// The job's classes of packets, and the DSCP of their IP headers. Without it the job has all classes, without DSCP, and the server
    /// sends no changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band: Option<Band>,
    /// Whether the server takes [patterns](SessionRequest::Pattern) of the job's iterations.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub patterns: bool,
    /// Whether the server takes [reports](SessionRequest::Paths) of how paths are used.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub path_reports: bool,
}

impl Admission {
    /// An admission to a switch with every lane operation, at the address of the session: chunk numbers from 0, a fixed window, one UDP port, and a
    /// session that cannot be resumed. `place` is the job's number, epoch and key, `bitmap` that of a complete RESULT.
    pub fn new(place: (u16, u32, u32), slots: u32, lane_words: u32, bitmap: u32) -> Self {
        let (job, epoch, key) = place;
        Self {
            job,
            epoch,
            key,
            slots,
            first_chunk: 0,
            lane_words,
            udp_port: UDP_PORT,
            bitmap,
            own_bit: 0,
            lane_ops: LaneOps::ALL,
            shift: 0,
            switch: None,
            grace_ms: 0,
            ticket: None,
            congestion: CongestionAlgorithm::Fixed,
            multipath: None,
            band: None,
            patterns: false,
            path_reports: false,
        }
    }
}

/// Why a worker may not join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refusal {
    /// The message was not understood or came out of order.
    Protocol,
    /// Another protocol version.
    Version,
    /// Job name, world size, rank or slots out of range.
    Argument,
    /// Another worker holds this rank.
    RankTaken,
    /// World size differs from the first member's.
    WorldMismatch,
    /// Mode differs from the first member's.
    ModeMismatch,
    /// The switch runs other numerics than the mode needs.
    Numerics,
    /// No free slots.
    Slots,
    /// Too many jobs or sessions.
    Busy,
    /// Not every rank joined in time.
    PeersMissing,
    /// The job of that name is running already.
    JobRunning,
    /// No such tenant, or not its token.
    Credentials,
    /// The tenant has as much as it may have.
    Quota,
    /// Packets cannot be authenticated: the switch does not, or the session is not encrypted.
    Authentication,
    /// The worker's address is at no switch of the topology, or no tree of switches reaches all workers.
    Path,
    /// The switch is being emptied, or the server is not ready for jobs.
    Unavailable,
    /// No such job runs; what is to be resumed is over.
    Unknown,
    /// The job was ended by a command. Workers do not join it again of their own accord.
    Ended,
    /// The job is resizable, and the worker is not a member of its generation.
    Excluded,
}

impl Refusal {
    /// The name on the wire, for programs and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Protocol => "protocol",
            Self::Version => "version",
            Self::Argument => "argument",
            Self::RankTaken => "rank_taken",
            Self::WorldMismatch => "world_mismatch",
            Self::ModeMismatch => "mode_mismatch",
            Self::Numerics => "numerics",
            Self::Slots => "slots",
            Self::Busy => "busy",
            Self::PeersMissing => "peers_missing",
            Self::JobRunning => "job_running",
            Self::Credentials => "credentials",
            Self::Quota => "quota",
            Self::Authentication => "authentication",
            Self::Path => "path",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown",
            Self::Ended => "ended",
            Self::Excluded => "excluded",
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_json_object_each() {
        let join = SessionRequest::Join(Join::new("demo", (1, 4), Mode::Bfp16, 256, 9));
        let text = serde_json::to_string(&join).unwrap();
        assert!(text.len() < LINE_LEN_MAX && !text.contains('\n') && !text.contains("group"));
        let of_group = Join { group: "tp".into(), ..Join::new("demo", (1, 4), Mode::Bfp16, 256, 9) };
        let group = serde_json::to_string(&of_group).unwrap();
        assert!(group.contains(r#""group":"tp""#), "{group}");
        assert_eq!(serde_json::from_str::<Join>(&group).unwrap(), of_group);
        assert_eq!(serde_json::from_str::<SessionRequest>(&text).unwrap(), join);
        let older = text.replace(r#""classes":1,"#, "").replace(r#","tree":0,"trees":1"#, "");
        assert!(older.len() < text.len());
        assert_eq!(
            serde_json::from_str::<SessionRequest>(&older).unwrap(),
            join,
            "one stream and one tree by default"
        );
        for algorithm in CongestionAlgorithm::ALL {
            assert_eq!(serde_json::to_string(algorithm).unwrap(), format!("\"{}\"", algorithm.name()));
            assert_eq!(CongestionAlgorithm::from_name(algorithm.name()), Some(*algorithm));
        }
        for reason in [Refusal::Protocol, Refusal::JobRunning, Refusal::Unavailable] {
            assert_eq!(serde_json::to_string(&reason).unwrap(), format!("\"{reason}\""));
        }
        let query =
            QuotaQuery { version: VERSION, credentials: None, groups: 3, slots: 64, classes: 1, trees: 2 };
        let text = serde_json::to_string(&SessionRequest::Quota(query.clone())).unwrap();
        assert_eq!(
            text,
            format!(r#"{{"type":"quota","version":{VERSION},"groups":3,"slots":64,"classes":1,"trees":2}}"#)
        );
        assert_eq!(serde_json::from_str::<SessionRequest>(&text).unwrap(), SessionRequest::Quota(query));
        let event = SessionEvent::Refused { reason: Refusal::RankTaken, message: "x".into() };
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(text, r#"{"type":"refused","reason":"rank_taken","message":"x"}"#);
        assert_eq!(serde_json::from_str::<SessionEvent>(&text).unwrap(), event);
        let event = SessionEvent::Band(Band::new(8, 4).unwrap());
        let text = serde_json::to_string(&event).unwrap();
        assert_eq!(text, r#"{"type":"band","first":8,"classes":4}"#);
        assert_eq!(serde_json::from_str::<SessionEvent>(&text).unwrap(), event);
        assert!(serde_json::from_str::<SessionEvent>(r#"{"type":"band","first":15,"classes":4}"#).is_err());
        assert!(serde_json::from_str::<SessionRequest>(r#"{"type":"join"}"#).is_err());
        assert!(serde_json::from_str::<SessionRequest>(r#"{"type":"alive","x":1}"#).is_err());
        assert_eq!(serde_json::to_string(&SessionRequest::ALIVE).unwrap(), r#"{"type":"alive"}"#);
        let counted =
            r#"{"type":"alive","counters":{"tensor_bytes":4096,"packets_sent":7,"of_a_later_release":1}}"#;
        let counters = MemberCounters { tensor_bytes: 4096, packets_sent: 7, ..MemberCounters::default() };
        let alive = SessionRequest::Alive { counters: Some(counters) };
        assert_eq!(serde_json::from_str::<SessionRequest>(counted).unwrap(), alive);
    }
}
