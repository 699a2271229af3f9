//! The records of stalls that are over, up to a number.

use super::FlightRecord;
use crate::record::JobName;
use std::collections::{BTreeMap, VecDeque};

/// Most records of a job: the newest.
const JOB_MAX: usize = 4;

/// Most records in all. One of 32 ranks with all their events has 50 kB.
const RECORDS_MAX: usize = 256;

/// Records of stalls that are over, also of jobs that have ended.
#[derive(Debug, Default)]
pub(crate) struct FlightRecords {
    /// The oldest first; no job has none.
    jobs: BTreeMap<JobName, VecDeque<FlightRecord>>,
    len: usize,
}

impl FlightRecords {
    /// Adds a record. If there are too many, the oldest of the tenant that has most are forgotten, so that no tenant's jobs displace the records of one
    /// that has fewer.
    pub(crate) fn insert(&mut self, name: JobName, record: FlightRecord) {
        let of_job = self.jobs.entry(name).or_default();
        of_job.push_back(record);
        self.len += 1;
        if of_job.len() > JOB_MAX {
            of_job.pop_front();
            self.len -= 1;
        }
        if self.len > RECORDS_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, records) in &self.jobs {
            *counts.entry(&name.tenant).or_default() += records.len();
        }
        let Some((most, _)) = counts.into_iter().max_by_key(|(_, count)| *count) else { return };
        let of_tenant = self.jobs.iter().filter(|(name, _)| name.tenant == most);
        let oldest = of_tenant.min_by_key(|(_, records)| records.front().map(|record| record.as_of_ms));
        let Some(name) = oldest.map(|(name, _)| name.clone()) else { return };
        if let Some(records) = self.jobs.get_mut(&name) {
            records.pop_front();
            self.len -= 1;
            if records.is_empty() {
                self.jobs.remove(&name);
            }
        }
    }

    /// Forgets those of a job.
    pub(crate) fn forget(&mut self, name: &JobName) {
        self.len -= self.jobs.remove(name).map_or(0, |records| records.len());
    }

    /// Those of a job, the newest first.
    pub(crate) fn of(&self, name: &JobName) -> impl Iterator<Item = &FlightRecord> {
        self.jobs.get(name).into_iter().flatten().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(tenant: &str, job: u64) -> JobName {
        JobName { tenant: tenant.into(), job: format!("job{job:03}") }
    }

    fn record(as_of_ms: u64) -> FlightRecord {
        FlightRecord {
            group: String::new(),
            tree: 0,
            epoch: 1,
            began_ms: as_of_ms,
            as_of_ms,
            ended: Some("over".into()),
            chunks: Vec::new(),
            unread: Vec::new(),
            ranks: Vec::new(),
            ranks_more: 0,
            conclusion: String::new(),
        }
    }

    #[test]
    fn a_job_keeps_its_newest_records() {
        let mut records = FlightRecords::default();
        (0..10).for_each(|at| records.insert(name("red", 1), record(at)));
        let kept: Vec<_> = records.of(&name("red", 1)).map(|record| record.as_of_ms).collect();
        assert_eq!((kept, records.len), (vec![9, 8, 7, 6], 4));
        records.forget(&name("red", 1));
        assert_eq!((records.of(&name("red", 1)).count(), records.len), (0, 0));
    }

    #[test]
    fn a_tenant_whose_jobs_stall_displaces_its_own_records() {
        let mut records = FlightRecords::default();
        (0..3).for_each(|at| records.insert(name("blue", at), record(at)));
        (3..1000).for_each(|at| records.insert(name("red", at), record(at)));
        assert_eq!(records.len, RECORDS_MAX);
        assert!((0..3).all(|job| records.of(&name("blue", job)).count() == 1));
        assert_eq!(records.of(&name("red", 999)).count(), 1);
        assert_eq!(records.of(&name("red", 3)).count(), 0);
    }
}
