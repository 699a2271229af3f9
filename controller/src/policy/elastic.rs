//! Weighted elastic shares: jobs grow into idle slots, and give them up when others come.

use std::collections::{BTreeMap, VecDeque};

use super::{Answer, Arena, Demand, Denied, Holding, JobId, Order, Policy, Range};

/// Shares that follow demand, by halves and doubles.
///
/// A job that comes is given the largest free range that it wants. If there is none of the least size, that size is cleared: jobs
/// in the way move or shrink, none below its own least; of all ranges that can be cleared the one that disturbs the fewest jobs is
/// taken, then the one that leaves them the most slots for their weight.
///
/// When nobody waits, jobs grow, those with the fewest slots for their weight first: into free slots, or else into those of jobs
/// that have more than twice as many for their weight, as long as this makes the smaller of the two shares larger. Every such
/// step improves the smaller shares, so they come to an end. A job that was moved rests before it grows again.
#[derive(Debug)]
pub struct Elastic {
    arena: Arena,
    rest_ms: u64,
    jobs: BTreeMap<JobId, Job>,
    waiting: VecDeque<Demand>,
    orders: Vec<Order>,
}

#[derive(Debug)]
struct Job {
    demand: Demand,
    held: Range,
    next: Option<Range>,
    /// When it was resized last.
    resized_ms: Option<u64>,
}

impl Job {
    /// Its slots for its weight, were it to have so many; a fraction to be compared.
    fn share(&self, slots: u32) -> Share {
        Share { slots, weight: self.demand.weight }
    }

    fn has(&self, range: Range) -> bool {
        self.held.overlaps(range) || self.next.is_some_and(|next| next.overlaps(range))
    }
}

/// Slots for a weight.
#[derive(Debug, Clone, Copy)]
struct Share {
    slots: u32,
    weight: u32,
}

impl Share {
    fn cmp(self, other: Self) -> std::cmp::Ordering {
        let cross = |one: Self, other: Self| u64::from(one.slots) * u64::from(other.weight);
        cross(self, other).cmp(&cross(other, self))
    }

    fn exceeds(self, other: Self) -> bool {
        self.cmp(other).is_gt()
    }
}

/// Who has to go where for a range to be free.
struct Clearing {
    moves: Vec<(JobId, Range)>,
    /// The smallest share that is left to one of them.
    smallest: Option<Share>,
}

impl Clearing {
    fn better_than(&self, other: &Self) -> bool {
        self.moves.len() < other.moves.len()
            || self.moves.len() == other.moves.len()
                && match (self.smallest, other.smallest) {
                    (Some(own), Some(other)) => own.exceeds(other),
                    _ => false,
                }
    }
}

impl Elastic {
    /// Over so many slots; a job that was resized grows again after `rest_ms` milliseconds at the earliest.
    pub fn new(slots: u32, rest_ms: u64) -> Self {
        Self {
            arena: Arena::new(slots),
            rest_ms,
            jobs: BTreeMap::new(),
            waiting: VecDeque::new(),
            orders: Vec::new(),
        }
    }

    fn start(&mut self, demand: Demand, range: Range) {
        self.arena.take(range);
        self.jobs.insert(demand.job, Job { demand, held: range, next: None, resized_ms: None });
    }

    fn resize(&mut self, now_ms: u64, id: JobId, to: Range) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        self.arena.take(to);
        job.next = Some(to);
        job.resized_ms = Some(now_ms);
        self.orders.push(Order::Resize { job: id, to });
    }

    /// Slots that will be free when all that was ordered is done.
    fn later(&self) -> Arena {
        let mut later = self.arena.clone();
        for job in self.jobs.values() {
            if let Some(next) = job.next {
                later.release(job.held);
                later.take(next);
            }
        }
        later
    }

    /// Gives slots to those who wait, and has slots freed for them. Returns whether the last has some, or will.
    fn serve(&mut self, now_ms: u64) -> bool {
        let mut later = self.later();
        let mut still = VecDeque::new();
        let mut served = true;
        while let Some(demand) = self.waiting.pop_front() {
            served = true;
            let Demand { job, wanted, least, .. } = demand;
            // Nobody overtakes: an earlier one that still waits may be waiting for just these.
            if still.is_empty()
                && let Some(range) = self.arena.largest(wanted, least)
            {
                self.start(demand, range);
                self.orders.push(Order::Start { job, range });
                later.take(range);
                continue;
            }
            still.push_back(demand);
            if let Some(claim) = later.find(least) {
                later.take(claim);
            } else if let Some((range, clearing)) = self.clear(least, &later, |_| true) {
                for (id, to) in clearing.moves {
                    if let Some(job) = self.jobs.get(&id) {
                        later.release(job.held);
                    }
                    later.take(to);
                    self.resize(now_ms, id, to);
                }
                later.take(range);
            } else {
                served = false;
            }
        }
        self.waiting = still;
        served
    }

    /// The best range of that size to clear, and how. `later` is what is free when all that was ordered is done; `may` is asked of
    /// the share that a job would be left with.
    fn clear(&self, slots: u32, later: &Arena, may: impl Fn(Share) -> bool) -> Option<(Range, Clearing)> {
        let mut best: Option<(Range, Clearing)> = None;
        for range in self.arena.ranges(slots) {
            if let Some(clearing) = self.clearing(range, later, &may)
                && best.as_ref().is_none_or(|(_, least)| clearing.better_than(least))
            {
                best = Some((range, clearing));
            }
        }
        best
    }

    /// How a range is cleared: every job in it shrinks out of it, or moves elsewhere. `None` when it cannot be.
    fn clearing(&self, range: Range, later: &Arena, may: &impl Fn(Share) -> bool) -> Option<Clearing> {
        let mut clearing = Clearing { moves: Vec::new(), smallest: None };
        // What nobody has, and nobody will: where jobs may move to.
        let mut free = self.arena.clone();
        free.take_all(later);
        free.take(range);
        let mut left = later.clone();
        for (id, job) in self.jobs.iter().filter(|(_, job)| job.has(range)) {
            if job.next.is_some() {
                return None;
            }
            left.release(job.held);
            let to = if job.held.slots() > range.slots() {
                // The largest part of its own that is beside the range.
                let halves = job.held.halves()?;
                halves.into_iter().find(|half| !half.overlaps(range))?
            } else {
                let mut slots = job.held.slots();
                loop {
                    if slots < job.demand.least {
                        return None;
                    }
                    if let Some(to) = free.find(slots) {
                        break to;
                    }
                    slots /= 2;
                }
            };
            let share = job.share(to.slots());
            if to.slots() < job.demand.least || !may(share) {
                return None;
            }
            free.take(to);
            if clearing.smallest.is_none_or(|smallest| smallest.exceeds(share)) {
                clearing.smallest = Some(share);
            }
            clearing.moves.push((*id, to));
        }
        // What is still not free is promised to somebody who waits.
        left.is_free(range).then_some(clearing)
    }

    /// Lets jobs grow, when nobody waits.
    fn grow(&mut self, now_ms: u64) {
        let mut order: Vec<(JobId, Share)> =
            self.jobs.iter().map(|(id, job)| (*id, job.share(job.held.slots()))).collect();
        order.sort_by(|(_, one), (_, other)| one.cmp(*other));
        for (id, share) in order {
            let Some(job) = self.jobs.get(&id) else { continue };
            let rests = job.resized_ms.is_some_and(|at| now_ms.saturating_sub(at) < self.rest_ms);
            let slots = job.held.slots();
            if job.next.is_some() || rests || slots >= job.demand.wanted {
                continue;
            }
            let other = |double: &Range| {
                let halves = double.halves().into_iter().flatten();
                halves.filter(|half| *half != job.held).all(|half| self.arena.is_free(half))
            };
            let double = job.held.double().filter(|double| self.arena.exists(*double));
            if let Some(to) = double.filter(other).or_else(|| self.arena.find(slots * 2)) {
                self.resize(now_ms, id, to);
            } else if self.jobs.values().all(|job| job.next.is_none()) {
                // One at a time at the cost of others, so that each sees what the last has changed.
                self.grow_into_others(now_ms, id, double, share);
            }
        }
    }

    /// Has slots freed that a job can grow into: beside its own, or elsewhere. It grows when they are free.
    fn grow_into_others(&mut self, now_ms: u64, id: JobId, double: Option<Range>, share: Share) {
        let may = |left: Share| left.exceeds(share);
        let later = self.later();
        let beside = double.and_then(|double| {
            let held = self.jobs.get(&id)?.held;
            let half = double.halves()?.into_iter().find(|half| *half != held)?;
            self.clearing(half, &later, &may)
        });
        let elsewhere = || {
            let slots = self.jobs.get(&id)?.held.slots().checked_mul(2)?;
            self.clear(slots, &later, may).map(|(_, clearing)| clearing)
        };
        let clearing = beside.or_else(elsewhere);
        for (id, to) in clearing.into_iter().flat_map(|clearing| clearing.moves) {
            self.resize(now_ms, id, to);
        }
    }

    fn settle(&mut self, now_ms: u64) {
        self.serve(now_ms);
        if self.waiting.is_empty() {
            self.grow(now_ms);
        }
    }
}

impl Policy for Elastic {
    fn name(&self) -> &'static str {
        "elastic"
    }

    fn capacity(&self) -> u32 {
        self.arena.capacity()
    }

    fn ask(&mut self, now_ms: u64, demand: Demand) -> Result<Answer, Denied> {
        demand.check()?;
        let Demand { job, wanted, least, .. } = demand;
        if self.jobs.contains_key(&job) || self.waiting.iter().any(|waiting| waiting.job == job) {
            return Err(Denied::Known(job));
        }
        if self.waiting.is_empty()
            && let Some(range) = self.arena.largest(wanted, least)
        {
            self.start(demand, range);
            return Ok(Answer::Granted(range));
        }
        self.waiting.push_back(demand);
        if self.serve(now_ms) {
            return Ok(Answer::Waits);
        }
        self.waiting.retain(|waiting| waiting.job != job);
        Err(Denied::Slots { least, free: self.arena.free(), capacity: self.capacity() })
    }

    fn hold(&mut self, _: u64, demand: Demand, range: Range) -> bool {
        let known = self.jobs.contains_key(&demand.job)
            || self.waiting.iter().any(|waiting| waiting.job == demand.job);
        let may = demand.check().is_ok() && !known && self.arena.is_free(range);
        if may {
            self.start(demand, range);
        }
        may
    }

    fn block(&mut self, range: Range) {
        if self.arena.exists(range) {
            self.arena.take(range);
        }
    }

    fn done(&mut self, now_ms: u64, job: JobId) {
        let Some(job) = self.jobs.get_mut(&job) else { return };
        let Some(next) = job.next.take() else { return };
        self.arena.release(job.held);
        self.arena.take(next);
        job.held = next;
        self.settle(now_ms);
    }

    fn leave(&mut self, now_ms: u64, job: JobId) {
        self.waiting.retain(|waiting| waiting.job != job);
        self.orders.retain(|order| order.job() != job);
        if let Some(job) = self.jobs.remove(&job) {
            self.arena.release(job.held);
            job.next.into_iter().for_each(|next| self.arena.release(next));
        }
        self.settle(now_ms);
    }

    fn poll(&mut self, now_ms: u64) -> Vec<Order> {
        self.settle(now_ms);
        std::mem::take(&mut self.orders)
    }

    fn holdings(&self) -> Vec<Holding> {
        let running = self.jobs.iter();
        let running = running.map(|(id, job)| Holding { job: *id, range: Some(job.held), next: job.next });
        let waiting = self.waiting.iter().map(|demand| Holding { job: demand.job, range: None, next: None });
        let mut all: Vec<Holding> = running.chain(waiting).collect();
        all.sort_unstable_by_key(|holding| holding.job);
        all
    }
}
