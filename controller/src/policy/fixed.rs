//! Static partitions: what a job gets at its start it keeps to its end.

use std::collections::BTreeMap;

use super::{AlignedRange, Decision, Demand, Denied, Holding, JobId, Order, Policy};
use crate::slots::{SlotAllocator, SlotRange};

/// Static partitions, first fit: as many slots as are free, up to those wanted; nothing changes until the job ends.
#[derive(Debug)]
pub struct Fixed {
    slots: SlotAllocator,
    jobs: BTreeMap<JobId, SlotRange>,
}

impl Fixed {
    /// Over so many slots.
    pub fn new(slots: u32) -> Self {
        Self { slots: SlotAllocator::new(slots), jobs: BTreeMap::new() }
    }
}

fn range(held: &SlotRange) -> AlignedRange {
    AlignedRange::new(held.first(), held.slots()).expect("the allocator's ranges are aligned")
}

impl Policy for Fixed {
    fn name(&self) -> &'static str {
        "static"
    }

    fn capacity(&self) -> u32 {
        self.slots.capacity()
    }

    fn ask(&mut self, _: u64, demand: Demand) -> Result<Decision, Denied> {
        demand.check()?;
        if self.jobs.contains_key(&demand.job) {
            return Err(Denied::Known(demand.job));
        }
        let (free, capacity) = (self.slots.free_slots(), self.slots.capacity());
        let held = self.slots.allocate(demand.wanted, demand.least);
        let held = held.ok_or(Denied::Slots { least: demand.least, free, capacity })?;
        let granted = range(&held);
        self.jobs.insert(demand.job, held);
        Ok(Decision::Granted(granted))
    }

    fn hold(&mut self, _: u64, demand: Demand, range: AlignedRange) -> bool {
        if demand.check().is_err() || self.jobs.contains_key(&demand.job) {
            return false;
        }
        match self.slots.take(range.first(), range.slots()) {
            Some(held) => self.jobs.insert(demand.job, held).is_none(),
            None => false,
        }
    }

    fn block(&mut self, range: AlignedRange) {
        // Never given back.
        let _ = self.slots.take(range.first(), range.slots());
    }

    fn done(&mut self, _: u64, _: JobId) {}

    fn leave(&mut self, _: u64, job: JobId) {
        if let Some(held) = self.jobs.remove(&job) {
            self.slots.free(held);
        }
    }

    fn poll(&mut self, _: u64) -> Vec<Order> {
        Vec::new()
    }

    fn holdings(&self) -> Vec<Holding> {
        let holding =
            |(job, held): (&JobId, &SlotRange)| Holding { job: *job, range: Some(range(held)), next: None };
        self.jobs.iter().map(holding).collect()
    }
}
