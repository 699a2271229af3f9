//! Priorities: a job of higher priority takes the slots of jobs of lower priority.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{AlignedRange, Arena, Decision, Demand, Denied, Holding, JobId, Order, Policy};

/// Static partitions, of which a job of higher priority displaces jobs of lower.
///
/// For the largest size that can be had, of all ranges the one is cleared that holds jobs of the lowest priority, then the fewest
/// jobs, then the fewest slots beyond it. A job that was displaced, and has come back, is not displaced again before the guard
/// time is over: so two priorities cannot displace a job repeatedly.
#[derive(Debug)]
pub struct Preempt {
    arena: Arena,
    guard_ms: u64,
    jobs: BTreeMap<JobId, Job>,
    /// Slots whose holders cannot be displaced.
    blocked: Vec<AlignedRange>,
    /// When a job was displaced last.
    displaced: BTreeMap<JobId, u64>,
    orders: Vec<Order>,
}

#[derive(Debug)]
struct Job {
    demand: Demand,
    range: AlignedRange,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Runs,
    /// Until these have left its range.
    Waits(BTreeSet<JobId>),
    /// Is to leave, for this job.
    Leaves(JobId),
}

impl Preempt {
    /// Over so many slots; no job is displaced twice within the guard time, in milliseconds.
    pub fn new(slots: u32, guard_ms: u64) -> Self {
        Self {
            arena: Arena::new(slots),
            guard_ms,
            jobs: BTreeMap::new(),
            blocked: Vec::new(),
            displaced: BTreeMap::new(),
            orders: Vec::new(),
        }
    }

    /// The range to clear for a demand, and who is in it.
    fn victims(&self, demand: &Demand) -> Option<(AlignedRange, BTreeSet<JobId>)> {
        let mut slots = demand.wanted;
        while slots >= demand.least {
            let choices = self.arena.ranges(slots).filter_map(|range| {
                if self.blocked.iter().any(|blocked| blocked.overlaps(range)) {
                    return None;
                }
                let mut harm = (0, 0, 0);
                let mut victims = BTreeSet::new();
                for (id, job) in self.jobs.iter().filter(|(_, job)| job.range.overlaps(range)) {
                    let may = job.state == State::Runs
                        && job.demand.priority < demand.priority
                        && !self.displaced.contains_key(id);
                    if !may {
                        return None;
                    }
                    harm = (harm.0.max(job.demand.priority), harm.1 + 1, harm.2 + job.range.slots());
                    victims.insert(*id);
                }
                Some((harm, Reverse(slots), range, victims))
            });
            if let Some((_, _, range, victims)) = choices.min() {
                return Some((range, victims));
            }
            slots /= 2;
        }
        None
    }

    /// A job no longer uses its range: the part that no job waits for becomes free.
    fn vacate(&mut self, id: JobId, range: AlignedRange) {
        self.arena.release(range);
        let mut started = Vec::new();
        for (waiting, job) in &mut self.jobs {
            if let State::Waits(victims) = &mut job.state {
                if job.range.overlaps(range) {
                    self.arena.take(job.range);
                }
                if victims.remove(&id) && victims.is_empty() {
                    job.state = State::Runs;
                    started.push(Order::Start { job: *waiting, range: job.range });
                }
            }
        }
        // A job that is still in a range that another waits for has not given it up.
        for job in self.jobs.values().filter(|job| matches!(job.state, State::Leaves(_))) {
            self.arena.take(job.range);
        }
        self.orders.extend(started);
    }
}

impl Policy for Preempt {
    fn name(&self) -> &'static str {
        "priority"
    }

    fn capacity(&self) -> u32 {
        self.arena.capacity()
    }

    fn ask(&mut self, now_ms: u64, demand: Demand) -> Result<Decision, Denied> {
        demand.check()?;
        let Demand { job, wanted, least, .. } = demand;
        if self.jobs.contains_key(&job) {
            return Err(Denied::Known(job));
        }
        let guard_ms = self.guard_ms;
        self.displaced.retain(|_, at| now_ms.saturating_sub(*at) < guard_ms);
        if let Some(range) = self.arena.largest(wanted, least) {
            self.arena.take(range);
            self.jobs.insert(job, Job { demand, range, state: State::Runs });
            return Ok(Decision::Granted(range));
        }
        let denied = Denied::Slots { least, free: self.arena.free(), capacity: self.capacity() };
        let (range, victims) = self.victims(&demand).ok_or(denied)?;
        for victim in &victims {
            if let Some(victim) = self.jobs.get_mut(victim) {
                victim.state = State::Leaves(job);
            }
            self.displaced.insert(*victim, now_ms);
            self.orders.push(Order::Displace { job: *victim, by: job });
        }
        self.arena.take(range);
        self.jobs.insert(job, Job { demand, range, state: State::Waits(victims) });
        Ok(Decision::Waits)
    }

    fn hold(&mut self, _: u64, demand: Demand, range: AlignedRange) -> bool {
        let may = demand.check().is_ok() && !self.jobs.contains_key(&demand.job) && self.arena.is_free(range);
        if may {
            self.arena.take(range);
            self.jobs.insert(demand.job, Job { demand, range, state: State::Runs });
        }
        may
    }

    fn block(&mut self, range: AlignedRange) {
        if self.arena.exists(range) {
            self.arena.take(range);
            self.blocked.push(range);
        }
    }

    fn done(&mut self, _: u64, job: JobId) {
        if self.jobs.get(&job).is_some_and(|job| matches!(job.state, State::Leaves(_)))
            && let Some(left) = self.jobs.remove(&job)
        {
            self.vacate(job, left.range);
        }
    }

    fn leave(&mut self, _: u64, job: JobId) {
        let Some(left) = self.jobs.remove(&job) else { return };
        self.orders.retain(|order| order.job() != job);
        self.vacate(job, left.range);
    }

    fn poll(&mut self, _: u64) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    fn holdings(&self) -> Vec<Holding> {
        let holding = |(job, Job { range, state, .. }): (&JobId, &Job)| match state {
            State::Waits(_) => Holding { job: *job, range: None, next: Some(*range) },
            State::Runs | State::Leaves(_) => Holding { job: *job, range: Some(*range), next: None },
        };
        self.jobs.iter().map(holding).collect()
    }
}
