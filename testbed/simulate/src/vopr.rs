//! The whole system in virtual time: workers, switches, controllers and their database, with everything that goes wrong between them.
//!
//! What runs is the product's code: the engine and the communicator of the host library, control sessions, path validation, admission and
//! executor of the controller, the database's file, and the software switch. Clock, network, threads, disk, election and drivers are
//! simulated. Everything follows from one seed: topology, jobs, the faults of links and processes, and what another tenant tries.
//!
//! # Invariants
//!
//! - **Correct sums.** Every sum that a rank is given is correct, so all ranks have the same. Where a job tolerates that contributions are left out,
//!   each chunk is the sum of some ranks' contributions, no rank lacks more than tolerated, and all ranks have the same.
//! - **Real causes.** A job ends with a typed error only where a fault of the plan can have ended it; what another tenant does, lost packets,
//!   and a controller that is replaced within the grace period cannot.
//! - **Durability.** What was acknowledged to an operator is there at the end, and no epoch is given to two jobs.
//! - **No amplification.** An address that has not shown that it receives packets is sent no result, and at most three times the bytes received from it.
//! - **Links of its own.** A switch sends a rank only results of the jobs that it takes part in.
//! - **Fair throughput.** The operations of a job take at most twice as long, and 10 ms, when another tenant sends as much as its link carries.
//! - **One writer.** A switch obeys no controller after one of a later term.
//! - **Convergence.** When faults have ceased, every rank ends in bounded time, a new job over all leaves runs, and nothing of any job is
//!   left at a switch, at the controller or in the database.
//!
//! A broken invariant is a [`Violation`] with the last events.

mod adversary;
mod controller;
mod coroutine;
mod database;
mod device;
mod engine;
mod fairness;
mod keeper;
mod links;
mod plan;
mod rank;
mod verdict;
mod world;

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use engine::locked;
use plan::Plan;
use world::World;

/// What a seed came to, without a violation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Summary {
    /// A digest of everything that happened: the same for the same seed and program.
    pub digest: u64,
    /// Events played.
    pub events: u64,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Virtual time at the end.
    pub elapsed: Duration,
    /// Faults of the plan.
    pub faults: u64,
    /// Jobs whose ranks all did all their operations.
    pub finished: u64,
    /// Jobs that a fault ended.
    pub ended: u64,
    /// Writes of superseded controllers that switches refused.
    pub stale_writes: u64,
    /// Starts of controller processes.
    pub controller_starts: u64,
    /// Jobs whose throughput another tenant attacked after all faults.
    pub attacked: u64,
    /// Chunks of sums that were delivered without some contributions, which their jobs tolerate.
    pub partial: u64,
    /// By which factor the attack lengthened the operations of such a job, at most.
    pub slowed: f64,
    /// Contributions of jobs that share slots which found none, since the last start of each switch.
    pub spilled: u64,
}

/// A broken invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The seed that shows it.
    pub seed: u64,
    /// What was found.
    pub message: String,
    /// The plan, and the last events with their times in seconds.
    pub timeline: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.timeline {
            writeln!(f, "{line}")?;
        }
        write!(f, "seed {}: {}", self.seed, self.message)
    }
}

impl std::error::Error for Violation {}

/// Plays the system of a seed.
///
/// # Errors
///
/// [`Violation`].
pub fn run(seed: u64) -> Result<Summary, Box<Violation>> {
    let plan = Plan::from_seed(seed);
    let described = format!("{plan:#?}");
    let mut world = World::new(plan);
    let played = panic::catch_unwind(AssertUnwindSafe(|| world.judge()));
    played.map_err(|panicked| {
        let text = panicked.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panicked.downcast_ref::<&str>().map(ToString::to_string));
        let mut timeline: Vec<String> = described.lines().map(str::to_owned).collect();
        timeline.extend(world.timeline());
        let message = text.unwrap_or_else(|| "a panic without a message".into());
        Box::new(Violation { seed, message, timeline })
    })
}

/// What many seeds came to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// Seeds played.
    pub seeds: u64,
    /// The sums of their summaries.
    pub sums: Summary,
}

impl Totals {
    fn add(&mut self, summary: &Summary) {
        let Summary {
            digest,
            events,
            datagrams,
            elapsed,
            faults,
            finished,
            ended,
            stale_writes,
            controller_starts,
            attacked,
            partial,
            slowed,
            spilled,
        } = summary;
        self.seeds += 1;
        self.sums.digest ^= digest;
        self.sums.events += events;
        self.sums.datagrams += datagrams;
        self.sums.elapsed += *elapsed;
        self.sums.faults += faults;
        self.sums.finished += finished;
        self.sums.ended += ended;
        self.sums.stale_writes += stale_writes;
        self.sums.controller_starts += controller_starts;
        self.sums.attacked += attacked;
        self.sums.partial += partial;
        self.sums.slowed = self.sums.slowed.max(*slowed);
        self.sums.spilled += spilled;
    }
}

/// Plays seeds on all cores, from `first` on, until `stop` returns true; it is asked before each seed, with the number of seeds begun.
/// `progress` is called after each.
///
/// # Errors
///
/// The [`Violation`] of the smallest seed that has one, of those that were played.
pub fn explore(
    first: u64,
    stop: impl Fn(u64) -> bool + Sync,
    progress: impl Fn(&Totals) + Sync,
) -> Result<Totals, Box<Violation>> {
    explore_by(run, first, stop, progress)
}

fn explore_by(
    run: impl Fn(u64) -> Result<Summary, Box<Violation>> + Sync,
    first: u64,
    stop: impl Fn(u64) -> bool + Sync,
    progress: impl Fn(&Totals) + Sync,
) -> Result<Totals, Box<Violation>> {
    let (next, totals) = (AtomicU64::new(0), Mutex::new(Totals::default()));
    let found: Mutex<Option<Box<Violation>>> = Mutex::new(None);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while locked(&found).is_none() {
                    let begun = next.fetch_add(1, Ordering::Relaxed);
                    if stop(begun) {
                        break;
                    }
                    match run(first.wrapping_add(begun)) {
                        Ok(summary) => {
                            let mut totals = locked(&totals);
                            totals.add(&summary);
                            progress(&totals);
                        }
                        Err(violation) => {
                            let mut found = locked(&found);
                            if found.as_ref().is_none_or(|other| violation.seed < other.seed) {
                                *found = Some(violation);
                            }
                        }
                    }
                }
            });
        }
    });
    match found.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(violation) => Err(violation),
        None => Ok(*locked(&totals)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_violation_of_the_smallest_seed_is_returned() {
        let play = |seed: u64| {
            let violation = || Violation { seed, message: "wrong".into(), timeline: vec!["history".into()] };
            if seed < 30 {
                Ok(Summary { faults: 2, ..Summary::default() })
            } else {
                Err(Box::new(violation()))
            }
        };
        let found = explore_by(play, 7, |_| false, |_| {}).unwrap_err();
        assert_eq!((found.seed, found.to_string().as_str()), (30, "history\nseed 30: wrong"));
        let totals = explore_by(play, 7, |begun| begun >= 20, |_| {}).unwrap();
        assert_eq!((totals.seeds, totals.sums.faults), (20, 40));
    }

    #[test]
    fn equal_seeds_give_equal_histories() {
        for seed in [3, 11, 39] {
            assert_eq!(run(seed), run(seed));
        }
    }
}
