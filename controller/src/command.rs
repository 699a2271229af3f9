//! Commands of people and programs to a control plane.

use crate::record::{JobName, JobSpec, Quota, TenantRecord, TokenHash};

/// A change that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A new tenant.
    AddTenant(TenantRecord),
    /// Other settings of a tenant that exists; what is `None` stays.
    SetTenant {
        /// Its name.
        name: String,
        /// What it may have from now on.
        quota: Option<Quota>,
        /// Its share from now on.
        weight: Option<u32>,
        /// Its priority from now on.
        priority: Option<u8>,
        /// Hash of the token that it is to show from now on.
        token: Option<TokenHash>,
    },
    /// Removes a tenant that has no job here.
    RemoveTenant(String),
    /// Declares in advance what a job's workers must agree on. Workers that join under the name with other parameters are refused.
    DeclareJob {
        /// The job.
        name: JobName,
        /// What its workers must agree on.
        spec: JobSpec,
    },
    /// Ends a job that forms or runs: its workers lose their place, and are sent the reason.
    EndJob {
        /// The job.
        name: JobName,
        /// Why, for the workers.
        message: String,
    },
    /// Forgets a job that neither forms nor runs.
    ForgetJob(JobName),
    /// Whether a switch takes jobs. Those that run there lose their place when `evict`, and can have another elsewhere.
    Drain {
        /// Name of the switch.
        switch: String,
        /// Takes no more jobs.
        drained: bool,
        /// Those that run lose their place.
        evict: bool,
    },
    /// Whether the links between two switches take jobs. Those that run there are moved to other trees, where there are any, a few at a time.
    DrainLink {
        /// Name of the switch at one end.
        a: String,
        /// Name of the switch at the other end.
        b: String,
        /// Takes no more jobs.
        drained: bool,
        /// Those that have no other tree lose their place.
        evict: bool,
    },
}

/// Why a command was not carried out; nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// There is no such tenant, job or switch.
    #[error("there is no {what} '{name}'")]
    NotFound {
        /// What was looked for: `tenant`, `job`, `switch`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// There is no link between two switches.
    #[error("there is no link '{a} - {b}'; {}", Links(links, *more))]
    NoLink {
        /// Name of one switch.
        a: String,
        /// Name of the other.
        b: String,
        /// Links that there are: those of the switches that were named, or any.
        links: Vec<String>,
        /// How many more there are.
        more: usize,
    },
    /// It is there already.
    #[error("there is a {what} '{name}' already")]
    Exists {
        /// What: `tenant`, `job`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// Something is wrong with the arguments.
    #[error("{0}")]
    Invalid(String),
    /// It cannot be done as things stand.
    #[error("{0}")]
    Conflict(String),
    /// The control plane is shutting down, or its database has failed.
    #[error("the controller is shutting down")]
    Gone,
}

/// Links, in a sentence.
struct Links<'a>(&'a [String], usize);

impl std::fmt::Display for Links<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self([], _) => f.write_str("the topology has no links"),
            Self(links, 0) => write!(f, "there are {}", links.join(", ")),
            Self(links, more) => write!(f, "there are {} and {more} more", links.join(", ")),
        }
    }
}

/// A caller's proof that it holds a tenant's token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The tenant.
    pub tenant: String,
    /// Hash of the token that was given, if one was.
    pub token: Option<TokenHash>,
}
