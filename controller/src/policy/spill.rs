//! Best effort: a job that finds no slots runs elsewhere until there are some.

use std::collections::BTreeMap;

use super::{AlignedRange, Arena, Decision, Demand, Denied, Holding, JobId, Order, Policy};

/// Static partitions with a second home: a job that finds no slots runs on a software switch, or on its hosts, and is called
/// back, the oldest first, when slots are free. No job gives up slots before its end.
#[derive(Debug)]
pub struct Spill {
    arena: Arena,
    /// Slots of jobs that run elsewhere, and the most of them.
    spilled: u32,
    spill_max: u32,
    jobs: BTreeMap<JobId, Job>,
    arrivals: u64,
    orders: Vec<Order>,
}

#[derive(Debug)]
struct Job {
    demand: Demand,
    /// Order of arrival.
    arrival: u64,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Here(AlignedRange),
    Elsewhere,
    /// Elsewhere, and called back.
    Called(AlignedRange),
}

impl Spill {
    /// Over so many slots, and as many elsewhere as `spill_max`, counted by what jobs can do with at least.
    pub fn new(slots: u32, spill_max: u32) -> Self {
        Self {
            arena: Arena::new(slots),
            spilled: 0,
            spill_max,
            jobs: BTreeMap::new(),
            arrivals: 0,
            orders: Vec::new(),
        }
    }

    /// Slots that jobs elsewhere are counted with.
    pub fn spilled(&self) -> u32 {
        self.spilled
    }

    fn call_back(&mut self) {
        let mut elsewhere: Vec<(u64, JobId)> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.place == Place::Elsewhere)
            .map(|(id, job)| (job.arrival, *id))
            .collect();
        elsewhere.sort_unstable();
        for (_, id) in elsewhere {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            // A job that fits may start before an older one that does not: this delays no job that runs elsewhere.
            if let Some(range) = self.arena.largest(job.demand.wanted, job.demand.least) {
                self.arena.take(range);
                job.place = Place::Called(range);
                self.orders.push(Order::Resize { job: id, to: range });
            }
        }
    }
}

impl Policy for Spill {
    fn name(&self) -> &'static str {
        "spill"
    }

    fn capacity(&self) -> u32 {
        self.arena.capacity()
    }

    fn ask(&mut self, _: u64, demand: Demand) -> Result<Decision, Denied> {
        demand.check()?;
        let Demand { job, wanted, least, .. } = demand;
        if self.jobs.contains_key(&job) {
            return Err(Denied::Known(job));
        }
        let (place, answer) = match self.arena.largest(wanted, least) {
            Some(range) => {
                self.arena.take(range);
                (Place::Here(range), Decision::Granted(range))
            }
            None if least <= self.spill_max - self.spilled => {
                self.spilled += least;
                (Place::Elsewhere, Decision::Spilled)
            }
            None => {
                return Err(Denied::Slots { least, free: self.arena.free(), capacity: self.capacity() });
            }
        };
        self.arrivals += 1;
        self.jobs.insert(job, Job { demand, arrival: self.arrivals, place });
        Ok(answer)
    }

    fn hold(&mut self, _: u64, demand: Demand, range: AlignedRange) -> bool {
        let may = demand.check().is_ok() && !self.jobs.contains_key(&demand.job) && self.arena.is_free(range);
        if may {
            self.arena.take(range);
            self.arrivals += 1;
            let job = Job { demand, arrival: self.arrivals, place: Place::Here(range) };
            self.jobs.insert(demand.job, job);
        }
        may
    }

    fn block(&mut self, range: AlignedRange) {
        if self.arena.exists(range) {
            self.arena.take(range);
        }
    }

    fn done(&mut self, _: u64, job: JobId) {
        if let Some(Job { place, demand, .. }) = self.jobs.get_mut(&job)
            && let Place::Called(range) = *place
        {
            *place = Place::Here(range);
            self.spilled -= demand.least;
        }
    }

    fn leave(&mut self, _: u64, job: JobId) {
        let Some(Job { place, demand, .. }) = self.jobs.remove(&job) else { return };
        self.orders.retain(|order| order.job() != job);
        if let Place::Here(range) | Place::Called(range) = place {
            self.arena.release(range);
        }
        if !matches!(place, Place::Here(_)) {
            self.spilled -= demand.least;
        }
        self.call_back();
    }

    fn poll(&mut self, _: u64) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    fn holdings(&self) -> Vec<Holding> {
        let holding = |(job, Job { place, .. }): (&JobId, &Job)| {
            let (range, next) = match *place {
                Place::Here(range) => (Some(range), None),
                Place::Elsewhere => (None, None),
                Place::Called(range) => (None, Some(range)),
            };
            Holding { job: *job, range, next }
        };
        self.jobs.iter().map(holding).collect()
    }
}
