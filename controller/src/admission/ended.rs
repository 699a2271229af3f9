//! Jobs that have ended and are remembered, up to a number.

use crate::record::JobName;
use std::collections::{BTreeMap, BTreeSet};

/// The records of ended jobs that were not declared, by tenant, and of each in the order in which they ended.
#[derive(Debug, Default)]
pub(super) struct EndedJobs {
    /// Unix time of the end, in seconds, and the job. No tenant has an empty set.
    tenants: BTreeMap<String, BTreeSet<(u64, JobName)>>,
    len: usize,
}

impl EndedJobs {
    /// Adds a job that ended at `at`.
    pub(super) fn insert(&mut self, at: u64, name: JobName) {
        let jobs = self.tenants.entry(name.tenant.clone()).or_default();
        self.len += usize::from(jobs.insert((at, name)));
    }

    /// Removes a job, if it is there with this time.
    pub(super) fn remove(&mut self, at: u64, name: &JobName) {
        let Some(jobs) = self.tenants.get_mut(&name.tenant) else { return };
        self.len -= usize::from(jobs.remove(&(at, name.clone())));
        if jobs.is_empty() {
            self.tenants.remove(&name.tenant);
        }
    }

    /// Takes the job to be forgotten out if there are more than `most`: the oldest of the tenant that has most, so that no tenant's jobs
    /// displace what is remembered of another tenant that has fewer.
    pub(super) fn pop_beyond(&mut self, most: usize) -> Option<JobName> {
        if self.len <= most {
            return None;
        }
        let jobs = self.tenants.values().max_by_key(|jobs| jobs.len())?;
        let (at, name) = jobs.first()?.clone();
        self.remove(at, &name);
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(tenant: &str, job: u64) -> JobName {
        JobName { tenant: tenant.into(), job: format!("job{job:03}") }
    }

    #[test]
    fn a_tenant_that_ends_many_jobs_displaces_its_own() {
        let mut ended = EndedJobs::default();
        for at in 0..3 {
            ended.insert(at, name("blue", at));
        }
        for at in 3..100 {
            ended.insert(at, name("red", at));
            while let Some(forgotten) = ended.pop_beyond(10) {
                assert_eq!(forgotten, name("red", at - 7));
            }
        }
        assert_eq!((ended.len, ended.tenants["blue"].len()), (10, 3));
        ended.remove(0, &name("blue", 0));
        ended.remove(7, &name("blue", 1));
        assert_eq!((ended.len, ended.tenants["blue"].len()), (9, 2), "only what is there");
        for at in [1, 2] {
            ended.remove(at, &name("blue", at));
        }
        assert!(!ended.tenants.contains_key("blue"));
    }
}
