//! What a controller keeps over its own restarts, as data: records, changes of them, and the seam to whatever stores them.
//!
//! The control plane decides and says what is to be kept; a [`Store`] makes it durable before any peer is notified. Kept are tenants,
//! jobs, the places of jobs that run, and which switches and links are drained. Everything else is recovered: sessions by workers that
//! resume, the contents of switches by reading them.

use crate::ticket::TicketKey;
use crate::tree::{Shape, Site};
use netfold_control::{Iteration, Mode};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::net::SocketAddr;

/// What a tenant may have at one time. `u32::MAX` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// Slots of all its jobs together, those of each tree counted.
    pub slots: u32,
    /// Jobs that form or run.
    pub jobs: u32,
    /// Workers of those jobs.
    pub workers: u32,
}

impl Quota {
    /// No limit at all.
    pub const UNLIMITED: Self = Self { slots: u32::MAX, jobs: u32::MAX, workers: u32::MAX };
}

/// SHA-256 of a token. Tokens are 256 random bits, so that a hash without salt gives nothing away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// The hash of a token.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Whether two are the same, in a time that does not depend on where they differ.
    pub fn equals(&self, other: &Self) -> bool {
        let differing = self.0.iter().zip(&other.0).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differing) == 0
    }
}

/// An owner of jobs that share the switches with other tenants' jobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantRecord {
    /// Name, 1 to 64 bytes without control characters.
    pub name: String,
    /// What it may have.
    pub quota: Quota,
    /// Its share where there is not enough for all, relative to others'; at least 1.
    pub weight: u32,
    /// Who may displace whom, where that is how slots are shared: a job those of lower priority.
    #[serde(default)]
    pub priority: u8,
    /// The token that authorizes a worker to act for it; `None`: giving the tenant's name is enough.
    pub token: Option<TokenHash>,
}

/// Name of a job among all tenants'.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobName {
    /// The tenant; empty where there are none.
    pub tenant: String,
    /// The tenant's name for the job.
    pub job: String,
}

impl std::fmt::Display for JobName {
    /// `tenant/job`, or the job alone where there are no tenants.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.tenant.as_str() {
            "" => f.write_str(&self.job),
            tenant => write!(f, "{tenant}/{}", self.job),
        }
    }
}

/// What all members of a job must agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Number of workers.
    pub world: u16,
    /// Numeric mode.
    pub mode: Mode,
    /// Slots wanted of each tree, a power of two.
    pub slots: u32,
    /// Classes of operations, a power of two.
    pub classes: u8,
    /// Number of trees.
    pub trees: u8,
    /// Whether its packets are authenticated.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub authenticated: bool,
    /// From how many UDP ports each worker sends. It follows from the paths to the switches, and is not declared.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub udp_ports: u8,
    /// What it does in an iteration, by its own account. It comes from the job's declaration, not from workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<Iteration>,
}

const fn one() -> u8 {
    1
}

const fn is_one(number: &u8) -> bool {
    *number == 1
}

/// State of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Known, and none of its workers is here.
    Declared,
    /// Some of its workers are here, or all, and it has not begun.
    Forming,
    /// It has begun in at least one tree.
    Running,
    /// It has run and is over.
    Ended,
}

impl JobState {
    /// The name in messages and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::Forming => "forming",
            Self::Running => "running",
            Self::Ended => "ended",
        }
    }
}

/// A job that was declared, or has had a place. [`JobState::Forming`] is never stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobRecord {
    /// Its name.
    pub name: JobName,
    /// What its workers must agree on; of an undeclared job, that of its last run.
    pub spec: JobSpec,
    /// Whether it was declared, so that workers who ask for anything else are refused.
    pub declared: bool,
    /// Its state.
    pub state: JobState,
    /// Epoch of its last place, 0 if it never had one.
    pub epoch: u32,
    /// Unix time of its last change, in seconds.
    pub changed_s: u64,
    /// Why it ended, or came to nothing, the last time.
    pub last: Option<String>,
}

/// A tree of a job at the switches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlaceRecord {
    /// Whose.
    pub name: JobName,
    /// The job's group that has it; empty for the job itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Which of the trees.
    pub tree: u8,
    /// What its workers agreed on.
    pub spec: JobSpec,
    /// Job number, unique among the places that exist.
    pub number: u16,
    /// Epoch, greater than every one before.
    pub epoch: u32,
    /// Job key.
    pub key: u32,
    /// From which its members' resume tickets are derived.
    pub ticket_key: TicketKey,
    /// Slots, the same number at every switch.
    pub slots: u32,
    /// First chunk number of its stream, once it is installed.
    pub first_chunk: Option<u32>,
    /// Whether the job is over and the place is about to be free.
    pub over: bool,
    /// Whether its workers can continue without the switch when the place is taken away, and join again.
    #[serde(default)]
    pub movable: bool,
    /// Names of the switches of the tree; `shape` and `sites` number them in this order.
    pub switches: Vec<String>,
    /// The shape of the tree: the parent of each switch and worker.
    pub shape: Shape,
    /// What it holds at each switch.
    pub sites: Vec<Site>,
    /// Where each rank sends from.
    pub members: Vec<SocketAddr>,
    /// Ranks that have left gracefully.
    pub left: Vec<u16>,
}

/// The membership of a resizable job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MembershipRecord {
    /// Whose.
    pub name: JobName,
    /// From which its members' tickets are derived.
    pub key: TicketKey,
    /// The generation, from 1.
    pub generation: u32,
    /// Number of ranks of the generation.
    pub world: u16,
    /// Ranks in the former generation of those that survive from it, by their ranks in this one; none in the first.
    #[serde(default)]
    pub former: Vec<u16>,
    /// Ranks of the former generation that are not in this one.
    #[serde(default)]
    pub excluded: Vec<u16>,
    /// Where linked ranks meet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meeting: Option<SocketAddr>,
}

/// What is kept of a switch beside the topology file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchRecord {
    /// Its name.
    pub name: String,
    /// Whether it takes no more jobs.
    pub drained: bool,
    /// Which start of the switch it was last known by, as the switch names it.
    pub boot: Option<String>,
}

/// The links between two switches, which are drained together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkName {
    /// Name of the switch at one end, the first in the order of names.
    pub a: String,
    /// Name of the switch at the other end.
    pub b: String,
}

impl LinkName {
    /// The links between two switches, in whichever order these are named.
    pub fn new(one: &str, other: &str) -> Self {
        let (a, b) = if one <= other { (one, other) } else { (other, one) };
        Self { a: a.to_owned(), b: b.to_owned() }
    }
}

impl std::fmt::Display for LinkName {
    /// Both ends, as in messages.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} - {}", self.a, self.b)
    }
}

/// One change of what is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A tenant is new or other than before.
    Tenant(TenantRecord),
    /// A tenant is removed.
    TenantGone(String),
    /// A job is new or other than before.
    Job(JobRecord),
    /// A job is deleted.
    JobGone(JobName),
    /// A place is taken or other than before.
    Place(Box<PlaceRecord>),
    /// The place of this number is free.
    PlaceGone(u16),
    /// The membership of a resizable job is new, or has another generation.
    Membership(Box<MembershipRecord>),
    /// A resizable job has no members any more.
    MembershipGone(JobName),
    /// The next epoch to be used is this one; never less than before.
    EpochNext(u32),
    /// A switch is other than before.
    Switch(SwitchRecord),
    /// The links between two switches take no more jobs.
    LinkDrained(LinkName),
    /// The links between two switches take jobs again.
    LinkUndrained(LinkName),
}

/// All that is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredRecords {
    /// By name.
    pub tenants: BTreeMap<String, TenantRecord>,
    /// By name.
    pub jobs: BTreeMap<JobName, JobRecord>,
    /// By number.
    pub places: BTreeMap<u16, PlaceRecord>,
    /// By name.
    pub memberships: BTreeMap<JobName, MembershipRecord>,
    /// The next epoch to be used.
    pub epoch_next: u32,
    /// By name.
    pub switches: BTreeMap<String, SwitchRecord>,
    /// Links that are drained.
    pub links_drained: BTreeSet<LinkName>,
}

impl StoredRecords {
    /// Makes one change.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Tenant(record) => drop(self.tenants.insert(record.name.clone(), record)),
            Change::TenantGone(name) => drop(self.tenants.remove(&name)),
            Change::Job(record) => drop(self.jobs.insert(record.name.clone(), record)),
            Change::JobGone(name) => drop(self.jobs.remove(&name)),
            Change::Place(record) => drop(self.places.insert(record.number, *record)),
            Change::PlaceGone(number) => drop(self.places.remove(&number)),
            Change::Membership(record) => drop(self.memberships.insert(record.name.clone(), *record)),
            Change::MembershipGone(name) => drop(self.memberships.remove(&name)),
            Change::EpochNext(epoch) => self.epoch_next = self.epoch_next.max(epoch),
            Change::Switch(record) => drop(self.switches.insert(record.name.clone(), record)),
            Change::LinkDrained(link) => drop(self.links_drained.insert(link)),
            Change::LinkUndrained(link) => drop(self.links_drained.remove(&link)),
        }
    }
}

/// Why something was not kept.
#[derive(Debug, thiserror::Error)]
#[error("the controller's database fails: {what}")]
pub struct StoreError {
    /// What was tried.
    pub what: String,
    /// The database's error.
    #[source]
    pub source: Box<dyn Error + Send + Sync>,
}

/// Reads the records as they were at one time, on any thread and while they change; may block for as long as a disk takes.
pub type RecordReader = Box<dyn FnOnce() -> Result<StoredRecords, StoreError> + Send>;

/// Keeps records. Called from one thread; may block for as long as a disk takes.
pub trait Store: Send {
    /// A reader of all that is kept now: all of each [`apply`](Self::apply) before this call, and nothing of any after it.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    fn reader(&mut self) -> Result<RecordReader, StoreError>;

    /// All that is kept.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read; then the controller does not start.
    fn load(&mut self) -> Result<StoredRecords, StoreError> {
        self.reader()?()
    }

    /// Makes changes, in order, all or none; durable when it returns.
    ///
    /// # Errors
    /// [`StoreError`]; then all of the changes may be kept or none, and the controller stops: it must not announce what may not be kept. The next one
    /// reads which.
    fn apply(&mut self, changes: &[Change]) -> Result<(), StoreError>;
}

/// Keeps records as long as the process lives: for a switch that is its own control plane.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore(StoredRecords);

impl Store for MemoryStore {
    fn reader(&mut self) -> Result<RecordReader, StoreError> {
        let records = self.0.clone();
        Ok(Box::new(move || Ok(records)))
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        changes.iter().cloned().for_each(|change| self.0.apply(change));
        Ok(())
    }
}
