//! Weighted elastic shares: jobs grow into idle slots, and give them up when others come.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

use super::{AlignedRange, Arena, Decision, Demand, Denied, Holding, JobId, Order, Policy};

/// Shares that follow demand, by halves and doubles.
///
/// An arriving job is given the largest free range that it wants. If there is none of the least size, that size is cleared: jobs
/// in the way move or shrink, none below its own least. Of all ranges that can be cleared the policy takes the one that disturbs
/// the fewest jobs, then the one that leaves them the most slots for their weight.
///
/// When no job waits, jobs grow, those with the fewest slots for their weight first: into free slots, or else into those of jobs
/// that keep more slots for their weight than the growing job has before it grows. The range that such a reallocation clears is
/// reserved for the job that it was cleared for. A job that was moved rests before it grows again.
///
/// # Termination
///
/// Between an arrival or departure and the next one, the policy makes finitely many reallocations. The potential is the list of
/// all jobs' shares (slots divided by weight) in ascending order, compared lexicographically, where a job counts with the range
/// reserved for it, else with the one that it moves to, else with the one that it holds. Growth into free slots raises one share
/// and lowers none. A reallocation raises the share `s` of the growing job, and every share that it lowers stays above `s`, so
/// the list now has one share of at most `s` fewer. Either increases the potential strictly, carrying orders out leaves it as it
/// is, and it has finitely many values. Without the reservation another job could take the cleared range, and the same
/// reallocation could repeat for ever.
#[derive(Debug)]
pub struct Elastic {
    arena: Arena,
    rest_ms: u64,
    jobs: BTreeMap<JobId, Job>,
    waiting: VecDeque<Demand>,
    reserved: Option<Reservation>,
    orders: Vec<Order>,
}

/// The range that other jobs are leaving so that one job can grow into it.
#[derive(Debug, Clone, Copy)]
struct Reservation {
    job: JobId,
    to: AlignedRange,
}

#[derive(Debug)]
struct Job {
    demand: Demand,
    held: AlignedRange,
    next: Option<AlignedRange>,
    /// When it was resized last.
    resized_ms: Option<u64>,
}

impl Job {
    /// Its slots for its weight, were it to have so many; a fraction to be compared.
    fn share(&self, slots: u32) -> Share {
        Share { slots, weight: self.demand.weight }
    }

    fn has(&self, range: AlignedRange) -> bool {
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
    fn cmp(self, other: Self) -> Ordering {
        let cross = |one: Self, other: Self| u64::from(one.slots) * u64::from(other.weight);
        cross(self, other).cmp(&cross(other, self))
    }

    fn exceeds(self, other: Self) -> bool {
        self.cmp(other).is_gt()
    }
}

/// The moves that make a range free.
struct Clearing {
    moves: Vec<(JobId, AlignedRange)>,
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
            reserved: None,
            orders: Vec::new(),
        }
    }

    fn start(&mut self, demand: Demand, range: AlignedRange) {
        self.arena.take(range);
        self.jobs.insert(demand.job, Job { demand, held: range, next: None, resized_ms: None });
    }

    fn resize(&mut self, now_ms: u64, id: JobId, to: AlignedRange) {
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

    /// Gives slots to waiting jobs, and orders others to free slots for them. Returns whether the last has some, or will.
    fn serve(&mut self, now_ms: u64) -> bool {
        let mut later = self.later();
        let mut still = VecDeque::new();
        let mut served = true;
        while let Some(demand) = self.waiting.pop_front() {
            served = true;
            let Demand { job, wanted, least, .. } = demand;
            // No job overtakes: an earlier one that still waits may be waiting for these slots.
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
    fn clear(
        &self,
        slots: u32,
        later: &Arena,
        may: impl Fn(Share) -> bool,
    ) -> Option<(AlignedRange, Clearing)> {
        let mut best: Option<(AlignedRange, Clearing)> = None;
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
    fn clearing(&self, range: AlignedRange, later: &Arena, may: &impl Fn(Share) -> bool) -> Option<Clearing> {
        let within = || self.jobs.iter().filter(|(_, job)| job.has(range));
        // No job gains by a move: what must not be left to it now will not be then. Most ranges are ruled out here, without copies.
        if within().any(|(_, job)| job.next.is_some() || !may(job.share(job.held.slots()))) {
            return None;
        }
        let mut clearing = Clearing { moves: Vec::new(), smallest: None };
        // Slots that are neither held nor promised: jobs may move there.
        let mut free = self.arena.clone();
        free.take_all(later);
        free.take(range);
        let mut left = later.clone();
        for (id, job) in within() {
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
        // What is still not free is promised to a waiting job.
        left.is_free(range).then_some(clearing)
    }

    /// Lets jobs grow, when none waits. Returns how many reallocations it has decided on.
    fn grow(&mut self, now_ms: u64) -> usize {
        self.use_reservation(now_ms);
        let mut decided = 0;
        // The smallest size for which no range could be cleared: those after ask for as much, and more of the others must be left.
        let mut hopeless = u32::MAX;
        let mut order: Vec<(JobId, Share)> =
            self.jobs.iter().map(|(id, job)| (*id, job.share(job.held.slots()))).collect();
        order.sort_by(|(_, one), (_, other)| one.cmp(*other));
        for (id, share) in order {
            let Some(job) = self.jobs.get(&id) else { continue };
            let rests = job.resized_ms.is_some_and(|at| now_ms.saturating_sub(at) < self.rest_ms);
            let slots = job.held.slots();
            let waits = self.reserved.is_some_and(|reserved| reserved.job == id);
            if job.next.is_some() || rests || waits || slots >= job.demand.wanted {
                continue;
            }
            let open = self.open();
            let double = job.held.double().filter(|double| self.arena.exists(*double));
            let beside = double.filter(|double| is_free_beside(&open, job.held, *double));
            if let Some(to) = beside.or_else(|| open.find(slots * 2)) {
                self.resize(now_ms, id, to);
                decided += 1;
            } else if self.reserved.is_none() && self.jobs.values().all(|job| job.next.is_none()) {
                // One at a time at the cost of others, so that each sees what the last has changed.
                let may_clear = slots.saturating_mul(2) < hopeless;
                let grows = self.grow_into_others(now_ms, id, double, share, may_clear);
                if !grows && may_clear {
                    hopeless = slots.saturating_mul(2);
                }
                decided += usize::from(grows);
            }
        }
        decided
    }

    /// Free slots that are not reserved.
    fn open(&self) -> Arena {
        let mut open = self.arena.clone();
        if let Some(reserved) = self.reserved {
            open.take(reserved.to);
        }
        open
    }

    /// Resizes the job that a range is reserved for once the range is free.
    fn use_reservation(&mut self, now_ms: u64) {
        let Some(Reservation { job: id, to }) = self.reserved else { return };
        let Some(job) = self.jobs.get(&id) else { return };
        let free = self.arena.is_free(to) || is_free_beside(&self.arena, job.held, to);
        if free && job.next.is_none() {
            self.reserved = None;
            self.resize(now_ms, id, to);
        }
    }

    /// Has slots freed that a job can grow into, beside its own or, if `elsewhere`, anywhere, and reserves them. False where there are none.
    fn grow_into_others(
        &mut self,
        now_ms: u64,
        id: JobId,
        double: Option<AlignedRange>,
        share: Share,
        elsewhere: bool,
    ) -> bool {
        let may = |left: Share| left.exceeds(share);
        let later = self.later();
        let beside = double.and_then(|double| {
            let held = self.jobs.get(&id)?.held;
            let half = double.halves()?.into_iter().find(|half| *half != held)?;
            Some((double, self.clearing(half, &later, &may)?))
        });
        let anywhere = || {
            let slots = self.jobs.get(&id).filter(|_| elsewhere)?.held.slots().checked_mul(2)?;
            self.clear(slots, &later, may)
        };
        let Some((to, clearing)) = beside.or_else(anywhere) else { return false };
        for (id, to) in clearing.moves {
            self.resize(now_ms, id, to);
        }
        self.reserved = Some(Reservation { job: id, to });
        true
    }

    /// The potential that every reallocation increases; see [`Elastic`].
    fn potential(&self) -> Vec<Share> {
        let assigned = |(id, job): (&JobId, &Job)| {
            let reserved = self.reserved.filter(|reserved| reserved.job == *id).map(|reserved| reserved.to);
            job.share(reserved.or(job.next).unwrap_or(job.held).slots())
        };
        let mut shares: Vec<Share> = self.jobs.iter().map(assigned).collect();
        shares.sort_by(|one, other| one.cmp(*other));
        shares
    }

    fn settle(&mut self, now_ms: u64) {
        self.serve(now_ms);
        if self.waiting.is_empty() {
            let before = cfg!(debug_assertions).then(|| self.potential());
            let decided = self.grow(now_ms);
            if let Some(before) = before {
                let change = compare_potentials(&self.potential(), &before);
                let expected = if decided > 0 { Ordering::Greater } else { Ordering::Equal };
                debug_assert_eq!(change, expected, "{decided} reallocations: {self:?}");
            }
        }
    }
}

/// Whether twice the range that a job holds is free but for what it holds.
fn is_free_beside(arena: &Arena, held: AlignedRange, double: AlignedRange) -> bool {
    double.contains(held)
        && double.halves().into_iter().flatten().all(|half| half == held || arena.is_free(half))
}

/// Compares two potentials of the same jobs.
fn compare_potentials(one: &[Share], other: &[Share]) -> Ordering {
    let differences = one.iter().zip(other).map(|(one, other)| one.cmp(*other));
    differences.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

impl Policy for Elastic {
    fn name(&self) -> &'static str {
        "elastic"
    }

    fn capacity(&self) -> u32 {
        self.arena.capacity()
    }

    fn ask(&mut self, now_ms: u64, demand: Demand) -> Result<Decision, Denied> {
        demand.check()?;
        let Demand { job, wanted, least, .. } = demand;
        if self.jobs.contains_key(&job) || self.waiting.iter().any(|waiting| waiting.job == job) {
            return Err(Denied::Known(job));
        }
        if self.waiting.is_empty()
            && let Some(range) = self.arena.largest(wanted, least)
        {
            self.start(demand, range);
            self.reserved = None;
            return Ok(Decision::Granted(range));
        }
        self.reserved = None;
        self.waiting.push_back(demand);
        if self.serve(now_ms) {
            return Ok(Decision::Waits);
        }
        self.waiting.retain(|waiting| waiting.job != job);
        Err(Denied::Slots { least, free: self.arena.free(), capacity: self.capacity() })
    }

    fn hold(&mut self, _: u64, demand: Demand, range: AlignedRange) -> bool {
        let known = self.jobs.contains_key(&demand.job)
            || self.waiting.iter().any(|waiting| waiting.job == demand.job);
        let may = demand.check().is_ok() && !known && self.arena.is_free(range);
        if may {
            self.reserved = None;
            self.start(demand, range);
        }
        may
    }

    fn block(&mut self, range: AlignedRange) {
        if self.arena.exists(range) {
            self.reserved = None;
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
        self.reserved = self.reserved.filter(|reserved| reserved.job != job);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Carries out one order at a time until there are none. Returns how many there were.
    fn carry_out(elastic: &mut Elastic, now_ms: &mut u64) -> usize {
        let mut pending = VecDeque::new();
        for done in 0.. {
            *now_ms += 2_000;
            let before = elastic.potential();
            pending.extend(elastic.poll(*now_ms));
            let served = elastic.potential().len() > before.len();
            let change = compare_potentials(&elastic.potential(), &before);
            assert!(served || !elastic.waiting.is_empty() || change.is_ge(), "{elastic:?}");
            let Some(order) = pending.pop_front() else { return done };
            elastic.done(*now_ms, order.job());
        }
        unreachable!("counting ends with an order that is not there")
    }

    proptest! {
        /// Each reallocation raises the potential (`settle` asserts it), so their number between two events is finite. This asserts that it
        /// is also small: at most 16 orders for each job.
        #[test]
        fn reallocations_end_after_every_arrival_and_departure(
            capacity in 8_u32..200,
            rest_ms in prop_oneof![Just(0), Just(5_000)],
            asks in prop::collection::vec((0_u32..8, 0_u32..4, 1_u32..5, any::<prop::sample::Index>(), prop::bool::weighted(0.3)), 1..24),
        ) {
            let mut elastic = Elastic::new(capacity, rest_ms);
            let mut now_ms = 0;
            for (job, (wanted, spread, weight, index, leaves)) in asks.into_iter().enumerate() {
                let demand = Demand { weight, ..Demand::new(JobId(job as u64), 1 << wanted, 1 << wanted.saturating_sub(spread)) };
                let _ = elastic.ask(now_ms, demand);
                if leaves && !elastic.jobs.is_empty() {
                    let leaver = *elastic.jobs.keys().nth(index.index(elastic.jobs.len())).unwrap();
                    elastic.leave(now_ms, leaver);
                }
                let moves = carry_out(&mut elastic, &mut now_ms);
                // Rests pass between polls, so that each poll counts as one.
                let most = 16 * (elastic.jobs.len() + 1);
                prop_assert!(moves <= most, "{moves} orders for {} jobs: {elastic:?}", elastic.jobs.len());
            }
        }
    }
}
