//! The tenants that own jobs, and how much each may have.

use super::Coordinator;
use crate::jobs::TreeName;
use crate::message::Refused;
use crate::record::{JobSpec, Quota, TokenHash};
use netfold_control::{Credentials, Refusal};
use std::collections::BTreeMap;

impl Coordinator {
    /// The tenant that a worker acts for.
    pub(super) fn tenant_of(&self, credentials: Option<&Credentials>) -> Result<String, Refused> {
        if !self.config.tenants {
            return Ok(String::new());
        }
        let refuse = |message: &str| Err(Refused::new(Refusal::Credentials, message));
        let Some(Credentials { tenant, token }) = credentials else {
            return refuse(
                "this controller wants to know whose job it is: give a tenant (NETFOLD_TENANT), and its token (NETFOLD_TOKEN)",
            );
        };
        if self.is_proven(tenant, (!token.is_empty()).then(|| TokenHash::of(token)).as_ref()) {
            Ok(tenant.clone())
        } else {
            // Which of the two is wrong is not disclosed.
            refuse(
                "no such tenant, or not its token: check both (NETFOLD_TENANT, NETFOLD_TOKEN); the controller's administrator has them",
            )
        }
    }

    /// Whether there is such a tenant, and the token is its own.
    pub fn is_proven(&self, tenant: &str, token: Option<&TokenHash>) -> bool {
        match self.tenants.get(tenant).map(|record| &record.token) {
            None => false,
            Some(None) => true,
            Some(Some(own)) => token.is_some_and(|token| own.equals(token)),
        }
    }

    /// What a tenant has at the moment.
    pub(super) fn used(&self, tenant: &str) -> Quota {
        let mut used = Quota { slots: 0, jobs: 0, workers: 0 };
        let mut jobs = BTreeMap::new();
        for job in self.active.values().filter(|job| !job.is_over() && job.name.name.tenant == tenant) {
            used.slots += job.placement.job().slots;
            jobs.insert(&job.name.name, job.spec.world);
        }
        for job in self.forming.values().filter(|job| job.name.name.tenant == tenant) {
            jobs.insert(&job.name.name, job.spec.world);
        }
        used.jobs = jobs.len() as u32;
        used.workers = jobs.values().map(|world| u32::from(*world)).sum();
        used
    }

    /// Whether a tenant may have one more job like this.
    pub(super) fn check_quota(&self, tenant: &str, spec: &JobSpec) -> Result<(), Refused> {
        let Some(record) = self.tenants.get(tenant) else { return Ok(()) };
        let (used, quota) = (self.used(tenant), record.quota);
        if used.jobs >= quota.jobs {
            return quota_refused(tenant, format!("has {} of {} jobs", used.jobs, quota.jobs));
        }
        let workers = u32::from(spec.world);
        if used.workers.saturating_add(workers) > quota.workers {
            return quota_refused(
                tenant,
                format!("has {} of {} workers and the job needs {workers}", used.workers, quota.workers),
            );
        }
        Ok(())
    }

    /// How many slots a tree may be given: `most`, or what is left of its tenant's.
    pub(super) fn within_quota(&self, tenant: &str, most: u32, fewest: u32) -> Result<u32, Refused> {
        let Some(record) = self.tenants.get(tenant) else { return Ok(most) };
        let (used, quota) = (self.used(tenant).slots, record.quota.slots);
        let left = quota.saturating_sub(used);
        if left < fewest {
            return quota_refused(
                tenant,
                format!("has {used} of {quota} slots and the job needs {fewest} more at least"),
            );
        }
        // A power of two, as `most` is; `left` is at least one.
        Ok(most.min(1 << left.ilog2()))
    }

    /// The trees of a job that form or run.
    pub(super) fn trees_of(
        &self,
        name: &crate::record::JobName,
    ) -> impl Iterator<Item = (&TreeName, super::Named)> {
        let tree = |tree| TreeName { name: name.clone(), tree };
        self.names.range(tree(0)..=tree(u8::MAX)).map(|(name, named)| (name, *named))
    }

    /// The other trees of a job that have a place.
    pub(super) fn siblings(&self, name: &TreeName) -> impl Iterator<Item = &crate::jobs::ActiveTree> {
        let others = self.trees_of(&name.name).filter(move |(other, _)| other.tree != name.tree);
        others.filter_map(|(_, named)| match named {
            super::Named::Active(job) => self.active.get(&job),
            super::Named::Forming(_) => None,
        })
    }
}

fn quota_refused<T>(tenant: &str, what: String) -> Result<T, Refused> {
    let message = format!("tenant '{tenant}' {what}: end another of its jobs, or have its quota raised");
    Err(Refused::new(Refusal::Quota, message))
}
