//! Policies over slots that are in use: which jobs give up how many, so that one more job fits, and which may have more.
//!
//! These are functions of the current allocation. A control plane that keeps its own account of slots asks them when it is short, takes the
//! slots away from the jobs that they name, and grants what they say; between two questions it need not keep a policy.

use super::{AlignedRange, Decision, Demand, Denied, JobId, Order, Policy};

/// Slots of one switch that a job has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningJob {
    /// The job, and what it could use.
    pub demand: Demand,
    /// Its slots.
    pub range: AlignedRange,
    /// Whether they can be taken from it.
    pub movable: bool,
}

/// What a job is to have in place of what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reallocation {
    /// The job.
    pub job: JobId,
    /// So many slots, wherever they are; `None`: none, until there are some.
    pub slots: Option<u32>,
}

/// How a job fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fit {
    /// Slots that it can have once all moves are made.
    pub slots: u32,
    /// The moves that make room; empty when it fits as it is.
    pub moves: Vec<Reallocation>,
}

/// The moves that make room for a job at a switch, by an empty policy over its slots.
///
/// # Errors
///
/// [`Denied`] when the job cannot be made to fit, or only elsewhere.
pub fn fit(policy: &mut dyn Policy, standing: &[RunningJob], demand: Demand) -> Result<Fit, Denied> {
    take_over(policy, standing);
    let none = |policy: &dyn Policy| {
        let (least, capacity) = (demand.least, policy.capacity());
        let held: u32 = standing.iter().map(|standing| standing.range.slots()).sum();
        Denied::Slots { least, free: capacity.saturating_sub(held), capacity }
    };
    match policy.ask(0, demand)? {
        Decision::Granted(range) => return Ok(Fit { slots: range.slots(), moves: Vec::new() }),
        Decision::Spilled => return Err(none(policy)),
        Decision::Waits => {}
    }
    let mut moves = Vec::new();
    let mut orders = policy.poll(0);
    // Each round carries out what was ordered; a job is ordered about once, so there are not more rounds than jobs.
    for _ in 0..=standing.len() {
        let started = orders.iter().find_map(|order| match order {
            Order::Start { job, range } if *job == demand.job => Some(range.slots()),
            _ => None,
        });
        if let Some(slots) = started {
            return Ok(Fit { slots, moves });
        }
        for order in std::mem::take(&mut orders) {
            moves.extend(moved(order));
            policy.done(0, order.job());
        }
        orders = policy.poll(0);
    }
    Err(none(policy))
}

/// The jobs whose number of slots is to change at a switch at which no job waits, by an empty policy over its slots. What some are to
/// have more, others may have to give up first: then only these are named.
pub fn growth(policy: &mut dyn Policy, standing: &[RunningJob]) -> Vec<Reallocation> {
    take_over(policy, standing);
    policy.poll(0).into_iter().filter_map(moved).collect()
}

fn take_over(policy: &mut dyn Policy, standing: &[RunningJob]) {
    for RunningJob { demand, range, movable } in standing {
        if !(*movable && policy.hold(0, *demand, *range)) {
            policy.block(*range);
        }
    }
}

fn moved(order: Order) -> Option<Reallocation> {
    match order {
        Order::Start { .. } => None,
        Order::Resize { job, to } => Some(Reallocation { job, slots: Some(to.slots()) }),
        Order::Displace { job, .. } => Some(Reallocation { job, slots: None }),
    }
}
