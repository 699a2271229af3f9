//! What people and programs see of a control plane: one moment of it, as plain data.

use crate::record::{JobName, JobSpec, JobState, Quota};
use netfold_control::{Band, MemberCounters, Numerics, PathPolicy};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::SocketAddr;

/// One moment of a control plane.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Snapshot {
    /// Unix time, in milliseconds.
    pub taken_ms: u64,
    /// By name.
    pub tenants: Vec<TenantView>,
    /// By name; those that form or run, and those that are kept.
    pub jobs: Vec<JobView>,
    /// In the order of the topology.
    pub switches: Vec<SwitchView>,
    /// In the order of the topology.
    pub links: Vec<LinkView>,
    /// The links of hosts to switches over which members of jobs send, by switch and host.
    pub access: Vec<AccessView>,
    /// Sessions of workers that are open.
    pub sessions: u32,
    /// The next epoch to be used.
    pub epoch_next: u32,
    /// Reports of stalls.
    pub stall_reports: StallReportCounters,
}

/// Reports of stalls that members have sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StallReportCounters {
    /// Those that became part of a flight record.
    pub taken: u64,
    /// Those that did not because the tree's last stall was recorded a short time before.
    pub limited: u64,
    /// Those that were impossible, or of members whose job does not run.
    pub ignored: u64,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TenantView {
    /// Its name.
    pub name: String,
    /// What it may have.
    pub quota: Quota,
    /// What it has.
    pub used: Quota,
    /// Its share, relative to others'.
    pub weight: u32,
    /// Decides which jobs may displace others.
    pub priority: u8,
    /// Whether a token is asked for.
    pub token: bool,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobView {
    /// Its name.
    pub name: JobName,
    /// What its workers must agree on.
    pub spec: JobSpec,
    /// Whether it was declared.
    pub declared: bool,
    /// Its state.
    pub state: JobState,
    /// Epoch of its newest place, 0 if it never had one.
    pub epoch: u32,
    /// Unix time of its last change, in seconds.
    pub changed_s: u64,
    /// Why it ended, or did not start, the last time.
    pub last: Option<String>,
    /// Its classes of packets while it runs, where jobs have different ones.
    pub band: Option<Band>,
    /// Its traffic, once a worker with a place has reported any.
    pub traffic: Option<TrafficView>,
    /// What slows it down.
    pub findings: Vec<Finding>,
    /// Its last stalls and those of its groups, at most [`STALLS_MAX`]: those that last, then those that are over, the newest first.
    pub stalls: Vec<StallView>,
    /// Its communication pattern, as its workers measure it; once there is one. That of its groups, where its own workers do not communicate.
    pub pattern: Option<PatternView>,
    /// How its workers use their paths, where they have several UDP ports; once they have reported it. Not those of its groups.
    pub paths: Option<PathsView>,
    /// What the schedule does about it, and why, in one sentence; where there is one that shifts jobs in time.
    pub schedule: Option<String>,
    /// Whether its trees are moved for the load of links, and why, in one sentence; where trees are placed by demand.
    pub placement: Option<String>,
    /// Its membership, if it is resizable.
    pub membership: Option<MembershipView>,
    /// The trees that form or run.
    pub trees: Vec<TreeView>,
    /// Its groups that form or run, by name.
    pub groups: Vec<GroupView>,
}

/// Most stalls in a [`JobView`].
pub const STALLS_MAX: usize = 4;

/// A stall of a tree of a job: what its [flight record](crate::flight_record::FlightRecord) begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StallView {
    /// The job's group; empty for the job itself.
    pub group: String,
    /// Which tree.
    pub tree: u8,
    /// Unix time of the last result before it, in milliseconds.
    pub began_ms: u64,
    /// Unix time of what this says, in milliseconds: of its end, if it is over.
    pub as_of_ms: u64,
    /// How it ended; nothing while it lasts.
    pub ended: Option<String>,
    /// The cause, as far as it is known.
    pub conclusion: String,
}

/// The membership of a resizable job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MembershipView {
    /// The generation, from 1; it grows by one whenever the job shrinks or grows.
    pub generation: u32,
    /// Number of ranks of the generation.
    pub world: u16,
    /// Ranks whose membership sessions are open.
    pub present: u16,
    /// Ranks of the generation that are lost.
    pub lost: Vec<u16>,
    /// Ranks that wait for the next generation.
    pub asked: u16,
    /// Processes that wait to join.
    pub joining: u16,
}

/// A group of a job: some of its workers, with trees and slots of their own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupView {
    /// Its name within the job.
    pub group: String,
    /// What its workers must agree on.
    pub spec: JobSpec,
    /// `forming` or `running`.
    pub state: JobState,
    /// Epoch of its newest place, 0 if it has none yet.
    pub epoch: u32,
    /// Its traffic, once a worker with a place has reported any.
    pub traffic: Option<TrafficView>,
    /// What slows it down.
    pub findings: Vec<Finding>,
    /// The trees that form or run.
    pub trees: Vec<TreeView>,
}

/// Traffic of a job, as its workers report it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct TrafficView {
    /// Goodput of the last seconds: bytes of tensors a second of which a worker received the results, the mean of all workers.
    pub goodput: u64,
    /// The fraction, 0 to 1, of the packets sent in the last seconds that were retransmissions.
    pub retransmission_ratio: f64,
    /// The sums of all workers' counters since the job has its place.
    pub totals: MemberCounters,
}

/// The iterations of a job, as its workers measure them: medians.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PatternView {
    /// Iterations that were counted.
    pub iterations: u64,
    /// Microseconds from the beginning of an iteration's communication to that of the next.
    pub period_us: u64,
    /// Microseconds of an iteration in which no operation is in progress.
    pub compute_us: u64,
    /// Microseconds from the beginning of an iteration's first operation to the end of its last one.
    pub send_us: u64,
    /// Bytes that a worker sends in an iteration, without headers of UDP and below.
    pub bytes: u64,
    /// How far this can be relied on, from 0 to 1.
    pub confidence: f64,
    /// Workers that say so.
    pub members: u32,
    /// Whether the job's declared iteration differs from it, and is ignored.
    pub contradicts: bool,
}

/// How the workers of a job use their paths.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathsView {
    /// UDP ports of each worker, each of which is a path.
    pub udp_ports: u8,
    /// How workers choose among them.
    pub policy: PathPolicy,
    /// Workers whose packets of the last seconds are known.
    pub members: u32,
    /// Paths by which a worker has sent less than half of an even share, under policies that avoid slow or lossy ones (`weighted` and `mixed`).
    pub avoided_count: u32,
    /// The first 16 of them.
    pub avoided: Vec<AvoidedPathView>,
    /// Workers of a tree that use ports which spread exactly over the fabric's equal paths; the most of any tree. 0 where its hash is not known.
    pub exact: u32,
}

/// A path that a worker avoids.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AvoidedPathView {
    /// The worker.
    pub rank: u16,
    /// The tree of the job in which it is.
    pub tree: u8,
    /// Which of the worker's consecutive UDP ports it begins at, from 0.
    pub path: u8,
    /// Part of the worker's packets that it has sent by this path, of 1.
    pub share: f64,
    /// How long the last answered probe took, in microseconds; 0 if it is not known.
    pub round_trip_us: u32,
}

/// Something that slows a job down, as concluded from its workers' counters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// The rank that it concerns, if it is known.
    pub rank: Option<u16>,
    /// How much: seconds by which the rank is late, or a fraction.
    pub amount: f64,
    /// The same of the other ranks (their median), where it is compared.
    pub others: f64,
}

/// Kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// A rank begins operations later than the others, by so many seconds.
    LateStart,
    /// A rank sends its packets later than the others, by so many seconds.
    LatePackets,
    /// The threads of a rank's process wait for a processor for so many seconds in a second.
    Processor,
    /// So many of the packets of a rank are retransmitted because they or their results were lost, and fewer of the others'; or, without a
    /// rank, so many of the packets of most ranks.
    Loss,
}

impl FindingKind {
    /// All.
    pub const ALL: [Self; 4] = [Self::LateStart, Self::LatePackets, Self::Processor, Self::Loss];

    /// Its name in data.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LateStart => "late_start",
            Self::LatePackets => "late_packets",
            Self::Processor => "processor",
            Self::Loss => "loss",
        }
    }
}

/// Its fields, and what it says as `text`.
impl Serialize for Finding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Finding", 5)?;
        fields.serialize_field("kind", self.kind.name())?;
        fields.serialize_field("rank", &self.rank)?;
        fields.serialize_field("amount", &self.amount)?;
        fields.serialize_field("others", &self.others)?;
        fields.serialize_field("text", &self.to_string())?;
        fields.end()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, rank, amount, others } = self;
        let (ms, percent, of_others) = (amount * 1e3, amount * 1e2, others * 1e2);
        let Some(rank) = rank else {
            return write!(
                f,
                "most ranks retransmit {percent:.1} % of their packets or more, and it is not known whose are lost: examine the links of hosts and those between switches"
            );
        };
        match kind {
            FindingKind::LateStart => write!(
                f,
                "rank {rank} begins operations {ms:.2} ms after the others on average, and they wait for it: examine what it does before them, and its host"
            ),
            FindingKind::LatePackets => write!(
                f,
                "rank {rank} sends its packets {ms:.1} ms after the others on average: examine the load of its host and the rate of its link"
            ),
            FindingKind::Processor => write!(
                f,
                "threads of rank {rank} wait for a processor for {amount:.2} s in a second, those of the others for {others:.2} s: give it processors that nothing else uses"
            ),
            FindingKind::Loss => write!(
                f,
                "rank {rank} retransmits {percent:.1} % of its packets, the others {of_others:.1} %: its packets or their results are lost; examine its link and its receive buffers"
            ),
        }
    }
}

/// A tree of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TreeView {
    /// Which.
    pub tree: u8,
    /// `forming`, `installing`, `running` or `closing`.
    pub phase: &'static str,
    /// Job number at the switches, once it has a place.
    pub number: Option<u16>,
    /// Epoch, once it has a place.
    pub epoch: Option<u32>,
    /// Slots at each switch, once it has a place.
    pub slots: Option<u32>,
    /// Its switches, parents before children.
    pub places: Vec<PlaceView>,
    /// Contributions that found no slot, and were sent on to aggregators, where the tree shares slots; since it has its place, or the controller has
    /// started.
    pub spilled: Option<u64>,
    /// Whether it shares slots with others, and why, in one sentence; where jobs can share them, once it has a place. Of trees that had their place
    /// before the controller started only if they share.
    pub sharing: Option<String>,
    /// Its workers, by rank.
    pub members: Vec<MemberView>,
}

/// What a tree of a job holds at a switch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlaceView {
    /// The switch's name.
    pub switch: String,
    /// The parent's name; none at the root.
    pub parent: Option<String>,
    /// First slot of its range.
    pub first_slot: u32,
    /// Slots of its range.
    pub slots: u32,
    /// Whether it shares them with other jobs.
    pub shared: bool,
    /// Workers attached to this switch.
    pub workers: u16,
}

/// A worker of a tree of a job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemberView {
    /// Its rank.
    pub rank: u16,
    /// Where it sends from.
    pub endpoint: SocketAddr,
    /// The switch it is attached to, once there is a place.
    pub switch: Option<String>,
    /// `here`, `away` (its session broke and it may resume) or `left`.
    pub state: &'static str,
    /// Its counters, once it has reported any.
    pub counters: Option<MemberCounters>,
}

/// A switch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SwitchView {
    /// Its name.
    pub name: String,
    /// Its role in the topology.
    pub role: String,
    /// What it is: `software`, `bmv2`, `tofino`.
    pub kind: String,
    /// Where it is controlled.
    pub address: String,
    /// Whether it is up.
    pub up: bool,
    /// Why it is not.
    pub down_reason: Option<String>,
    /// Whether it takes no more jobs.
    pub drained: bool,
    /// How it folds lanes.
    pub numerics: Numerics,
    /// Slots in all.
    pub slots: u32,
    /// Slots that jobs hold.
    pub slots_used: u32,
    /// Ports in all.
    pub ports: u32,
    /// Ports that jobs hold.
    pub ports_used: u32,
    /// Multicast groups in all.
    pub groups: u32,
    /// Multicast groups that jobs hold.
    pub groups_used: u32,
    /// HeldRanges of slots that jobs hold, by first slot.
    pub ranges: Vec<RangeView>,
    /// The switch's own packet counters, by name; empty where they are not known.
    pub packets: Vec<(String, u64)>,
}

/// A range of a switch's slots that a job holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RangeView {
    /// First slot.
    pub first: u32,
    /// Slots.
    pub slots: u32,
    /// Whose.
    pub job: JobName,
    /// The job's group that holds it; empty for the job itself.
    pub group: String,
    /// Which tree.
    pub tree: u8,
}

/// A link between two switches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkView {
    /// One end, a switch's name.
    pub a: String,
    /// The other.
    pub b: String,
    /// Bits a second, if the topology gives them.
    pub rate: Option<u64>,
    /// Whether both ends are up.
    pub up: bool,
    /// Whether it takes no more jobs.
    pub drained: bool,
    /// Trees of jobs that use it.
    pub trees: u32,
    /// Bits a second that the jobs over it demand, in each direction.
    pub demand: u64,
    /// The part of this that is measured; the rest is declared or assumed.
    pub demand_measured: u64,
    /// Trees over it, at most [`LINK_JOBS_MAX`]: if it is drained those that stay first, then those with the greatest demand.
    pub jobs: Vec<LinkJobView>,
    /// Its traffic, once a member of these trees has reported any.
    pub traffic: Option<LinkTraffic>,
}

/// Most trees in a [`LinkView`].
pub const LINK_JOBS_MAX: usize = 16;

/// A tree of a job that uses a link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkJobView {
    /// Whose.
    pub job: JobName,
    /// The job's group; empty for the job itself.
    pub group: String,
    /// Which tree.
    pub tree: u8,
    /// Bits a second that it demands, in each direction.
    pub demand: u64,
    /// Where that comes from: `pattern`, `traffic`, `declared` or `assumed`.
    pub source: &'static str,
    /// Why it stays, if the link is drained and it has no other tree.
    pub stays: Option<String>,
}

/// The link of a host to a switch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AccessView {
    /// The host's name in the topology, or its address.
    pub host: String,
    /// The switch's name.
    pub switch: String,
    /// Workers on this host that send to this switch, in all trees of all jobs.
    pub workers: u32,
    /// Its traffic, once one of them has reported any.
    pub traffic: Option<LinkTraffic>,
}

/// Traffic over a link in the last seconds, computed from the counters of the workers whose packets it carries: no switch measures it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LinkTraffic {
    /// Bytes a second towards the roots of trees, without headers of UDP and below: what the workers of a host send, or one packet for each
    /// chunk of a tree. From the roots come about as many.
    pub bytes_per_second: u64,
    /// Packets a second, in the same direction.
    pub packets_per_second: u64,
    /// The fraction, 0 to 1, of the packets sent by these workers, or by the workers of these trees, that were retransmissions.
    pub retransmission_ratio: f64,
}

/// Something that happened, for logs, people and watchers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ControllerEvent {
    /// Counts up from 1 since the controller started.
    pub number: u64,
    /// Unix time, in milliseconds.
    pub at_ms: u64,
    /// A stable name: `job_started`, `job_ended`, `job_moved`, `job_banded`, `job_scheduled`, `job_placed`, `group_placed`, `job_not_started`, `group_started`, `group_ended`, `group_moved`,
    /// `group_not_started`, `member_left`, `member_away`, `member_back`,
    /// `job_slowed`, `job_recovered`, `group_slowed`, `group_recovered`, `job_stalled`, `job_continued`, `group_stalled`, `group_continued`,
    /// `refused`, `switch_up`, `switch_down`, `switch_failed`, `switch_repaired`, `tenant_changed`, `job_changed`, `switch_changed`, `link_changed`.
    pub kind: &'static str,
    /// The job, if it is about one.
    pub job: Option<JobName>,
    /// The job's group, if it is about one; else empty.
    pub group: String,
    /// The switch, if it is about one.
    pub switch: Option<String>,
    /// Epoch of the job's place, if it is about one.
    pub epoch: Option<u32>,
    /// A refusal's reason.
    pub reason: Option<&'static str>,
    /// One sentence.
    pub message: String,
}

/// Which jobs a snapshot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotScope {
    /// Those that form or run.
    Live,
    /// Those that are kept, too.
    All,
}
