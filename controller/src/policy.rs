//! How a switch's slots are shared: interchangeable policies, and a simulator that compares them.
//!
//! A [`Policy`] decides over the slots of one switch. It is asked for slots ([`Policy::ask`]), and answers at once: granted, to
//! wait, to go elsewhere meanwhile, or [`Denied`] with the reason. What it wants of jobs that run, it says as
//! [`Order`]s ([`Policy::poll`]); a job carries an order out at its next chunk boundary, where nothing of it is in flight, and
//! this is acknowledged ([`Policy::done`]). Until then the slots that it is to give up are still its own, and those that it is to
//! get are given to no other job, so that a slow job delays others and never corrupts them.
//!
//! | policy | on shortage | takes slots from jobs that run |
//! |---|---|---|
//! | [`Fixed`] | refuses | never |
//! | [`Elastic`] | shrinks those with the most slots for their weight | down to the least that they asked for |
//! | [`Preempt`] | displaces jobs of lower priority | all of them |
//! | [`Spill`] | lets the job run elsewhere until there are slots | never |
//!
//! All ranges are powers of two, aligned to their size ([`AlignedRange`]), as the job table wants them. Time is a number of
//! milliseconds; policies have no clock and are deterministic: the same calls give the same answers.
//!
//! # Life cycle of a job
//!
//! ```
//! use netfold_controller::policy::{Decision, Demand, Elastic, JobId, Order, Policy};
//! let mut policy = Elastic::new(1024, 0);
//! let all = policy.ask(0, Demand::new(JobId(1), 1024, 64))?;
//! assert!(matches!(all, Decision::Granted(range) if range.slots() == 1024));
//! // The second has to wait until the first is at a boundary, and has given up half.
//! assert_eq!(policy.ask(0, Demand::new(JobId(2), 1024, 64))?, Decision::Waits);
//! let orders = policy.poll(0);
//! assert!(matches!(orders[..], [Order::Resize { job: JobId(1), to }] if to.slots() == 512));
//! policy.done(7, JobId(1));
//! assert!(matches!(policy.poll(7)[..], [Order::Start { job: JobId(2), range }] if range.slots() == 512));
//! policy.leave(9, JobId(1));
//! assert!(matches!(policy.poll(9)[..], [Order::Resize { job: JobId(2), to }] if to.slots() == 1024));
//! # Ok::<(), netfold_controller::policy::Denied>(())
//! ```

mod arena;
mod elastic;
mod fit;
mod fixed;
mod preempt;
mod quota;
pub mod simulate;
mod spill;

pub use arena::{AlignedRange, Arena};
pub use elastic::Elastic;
pub use fit::{Fit, Reallocation, RunningJob, fit, growth};
pub use fixed::Fixed;
pub use preempt::Preempt;
pub use quota::{FirstGrant, Supply, leaves_others, portion, within};
pub use spill::Spill;

use netfold_control::Refusal;

/// A job, by the number that its owner gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// Slots that a job asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Demand {
    /// The job.
    pub job: JobId,
    /// Most slots that it can use, a power of two.
    pub wanted: u32,
    /// Fewest slots that it can run with, a power of two.
    pub least: u32,
    /// Its share where there is not enough for all, relative to others', not 0.
    pub weight: u32,
    /// A job may displace those of lower priority.
    pub priority: u8,
}

impl Demand {
    /// A demand with weight 1 and priority 0.
    pub const fn new(job: JobId, wanted: u32, least: u32) -> Self {
        Self { job, wanted, least, weight: 1, priority: 0 }
    }

    fn check(&self) -> Result<(), Denied> {
        let Self { wanted, least, weight, .. } = *self;
        if wanted.is_power_of_two() && least.is_power_of_two() && least <= wanted && weight > 0 {
            Ok(())
        } else {
            Err(Denied::Argument { wanted, least, weight })
        }
    }
}

/// What a policy answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// These slots are the job's from now on.
    Granted(AlignedRange),
    /// The job gets slots by [`Order::Start`], as soon as others have given them up.
    Waits,
    /// The job may run elsewhere, on a software switch or on its hosts, until [`Order::Resize`] calls it back.
    Spilled,
}

/// What a policy tells the controller to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// A job that waits has these slots now. There is nothing to acknowledge.
    Start {
        /// The job.
        job: JobId,
        /// Its slots.
        range: AlignedRange,
    },
    /// From its next boundary on the job is to use these slots, in place of those that it has.
    Resize {
        /// The job.
        job: JobId,
        /// Its new slots; they may overlap the old ones.
        to: AlignedRange,
    },
    /// From its next boundary on the job is to use no slots. When this is acknowledged the policy forgets it; it may ask again.
    Displace {
        /// The job.
        job: JobId,
        /// For whom.
        by: JobId,
    },
}

impl Order {
    /// The job that it is for.
    pub const fn job(&self) -> JobId {
        match *self {
            Self::Start { job, .. } | Self::Resize { job, .. } | Self::Displace { job, .. } => job,
        }
    }
}

/// What a job has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holding {
    /// The job.
    pub job: JobId,
    /// The slots that it may use; `None` while it waits, or runs elsewhere.
    pub range: Option<AlignedRange>,
    /// The slots that it was ordered to use instead, and that are kept for it.
    pub next: Option<AlignedRange>,
}

/// The allocation of one switch's slots.
pub trait Policy: Send {
    /// Its name, as on the command line.
    fn name(&self) -> &'static str;

    /// Slots in all.
    fn capacity(&self) -> u32;

    /// Asks for slots.
    ///
    /// # Errors
    ///
    /// [`Denied`] when the job is to have none; nothing has changed then.
    fn ask(&mut self, now_ms: u64, demand: Demand) -> Result<Decision, Denied>;

    /// Registers slots that a job already has: how a policy takes over slots that are in use. `false`, and nothing has
    /// changed, when the demand is none, the job is known, or not all of these slots exist and are free.
    fn hold(&mut self, now_ms: u64, demand: Demand, range: AlignedRange) -> bool;

    /// Excludes these slots from allocation and reallocation; slots that do not exist are ignored.
    fn block(&mut self, range: AlignedRange);

    /// The job has carried out the [`Order::Resize`] or [`Order::Displace`] that it was given last. Without one nothing happens.
    fn done(&mut self, now_ms: u64, job: JobId);

    /// The job has ended, or waits no longer; the switch admits no packet of it. Unknown jobs are ignored.
    fn leave(&mut self, now_ms: u64, job: JobId);

    /// The orders to carry out, each returned once. Call it after every other call, and periodically.
    fn poll(&mut self, now_ms: u64) -> Vec<Order>;

    /// What every job has, by its number.
    fn holdings(&self) -> Vec<Holding>;
}

/// Names of the policies, for command lines and files.
pub const NAMES: [&str; 4] = ["static", "elastic", "priority", "spill"];

/// The policy of that name over so many slots, with times that suit a training cluster; `None` when there is none.
pub fn by_name(name: &str, slots: u32) -> Option<Box<dyn Policy>> {
    Some(match name {
        "static" => Box::new(Fixed::new(slots)),
        "elastic" => Box::new(Elastic::new(slots, 1_000)),
        "priority" => Box::new(Preempt::new(slots, 60_000)),
        "spill" => Box::new(Spill::new(slots, slots)),
        _ => return None,
    })
}

/// How a control plane shares slots among jobs that want more than there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sharing {
    /// A job keeps its slots to its end; later jobs that do not fit are refused. See [`Fixed`].
    #[default]
    Static,
    /// The job with the most slots for its weight gives some up, and jobs grow into idle slots. See [`Elastic`].
    Elastic,
    /// Jobs of lower priority make room. See [`Preempt`].
    Priority,
    /// Where a switch has an aggregator, jobs that want more slots than they can have for themselves share them, packet by packet. Elsewhere as
    /// [`Self::Static`].
    BestEffort,
}

impl Sharing {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Static, Self::Elastic, Self::Priority, Self::BestEffort];

    /// The name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Elastic => "elastic",
            Self::Priority => "priority",
            Self::BestEffort => "best-effort",
        }
    }

    /// The one of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sharing| sharing.name() == name)
    }

    /// Its policy over so many slots, to be asked at one moment; `None` where nothing is ever taken away.
    pub(crate) fn policy(self, slots: u32) -> Option<Box<dyn Policy>> {
        match self {
            Self::Static | Self::BestEffort => None,
            Self::Elastic => Some(Box::new(Elastic::new(slots, 0))),
            Self::Priority => Some(Box::new(Preempt::new(slots, 0))),
        }
    }
}

/// Why a job is to have no slots.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// Sizes that cannot be had at all.
    #[error(
        "{wanted} slots wanted, {least} at least, weight {weight}: sizes are powers of two, the least is not above the wanted, and a weight is not 0"
    )]
    Argument {
        /// Wanted.
        wanted: u32,
        /// At least.
        least: u32,
        /// Weight.
        weight: u32,
    },
    /// The job has slots, or waits for some.
    #[error("job {} has its slots already", .0.0)]
    Known(JobId),
    /// There are no free slots, and no job is to give some up.
    #[error(
        "no aligned range of {least} slots is free or can be freed ({free} of {capacity} slots are free): end another job, or ask for fewer slots"
    )]
    Slots {
        /// As few as would do.
        least: u32,
        /// Free slots.
        free: u32,
        /// Slots in all.
        capacity: u32,
    },
    /// The tenant has as much as it may have.
    #[error(
        "the tenant has {used} {what} of {max} and asks for {asked} more: end one of its jobs, or raise its quota"
    )]
    Quota {
        /// Of what.
        what: &'static str,
        /// As many as it has.
        used: u32,
        /// As many as it asks for.
        asked: u32,
        /// As many as it may have.
        max: u32,
    },
}

impl Denied {
    /// The reason as sent to workers.
    pub const fn refusal(&self) -> Refusal {
        match self {
            Self::Argument { .. } => Refusal::Argument,
            Self::Known(_) => Refusal::JobRunning,
            Self::Slots { .. } => Refusal::Slots,
            Self::Quota { .. } => Refusal::Quota,
        }
    }
}
