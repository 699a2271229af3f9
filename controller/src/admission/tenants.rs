//! The tenants that own jobs, and how much each may have.

use super::{Coordinator, SessionId};
use crate::fleet::Shortage;
use crate::jobs::TreeName;
use crate::message::Refused;
use crate::policy::portion;
use crate::record::{JobName, Quota, TokenHash};
use netfold_control::{Credentials, QuotaQuery, Refusal, SessionEvent};
use netfold_wire::VERSION;
use std::collections::BTreeMap;
use std::time::Duration;

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
        let workers = self.workers_by_job(tenant);
        let held = self.active.values().filter(|job| !job.is_over() && job.name.name.tenant == tenant);
        Quota {
            slots: held.map(|job| job.placement.job().slots).sum(),
            jobs: workers.len() as u32,
            workers: workers.values().sum(),
        }
    }

    /// The workers of each job of a tenant. A job's groups consist of its workers, so they count where they are more than it has alone.
    fn workers_by_job(&self, tenant: &str) -> BTreeMap<&JobName, u32> {
        let active = self.active.values().filter(|job| !job.is_over()).map(|job| (&job.name.name, &job.spec));
        let forming = self.forming.values().map(|job| (&job.name.name, &job.spec));
        let members = self.memberships.values().map(|membership| (&membership.name, membership.world));
        let placed = active.chain(forming).map(|(name, spec)| (name, spec.world));
        let mut jobs = BTreeMap::new();
        for (name, world) in placed.chain(members).filter(|(name, _)| name.tenant == tenant) {
            let workers = jobs.entry(name).or_default();
            *workers = u32::from(world).max(*workers);
        }
        jobs
    }

    /// Whether a tenant may have one more job like this, or a job of that name one more group.
    pub(super) fn check_quota(&self, name: &JobName, world: u16) -> Result<(), Refused> {
        let tenant = name.tenant.as_str();
        let Some(record) = self.tenants.get(tenant) else { return Ok(()) };
        let (used, quota) = (self.used(tenant), record.quota);
        let counted = self.workers_by_job(tenant).get(name).copied();
        if counted.is_none() && used.jobs >= quota.jobs {
            return quota_refused(tenant, format!("has {} of {} jobs", used.jobs, quota.jobs));
        }
        let workers = u32::from(world).saturating_sub(counted.unwrap_or(0));
        if workers > 0 && used.workers.saturating_add(workers) > quota.workers {
            return quota_refused(
                tenant,
                format!("has {} of {} workers and the job needs {workers}", used.workers, quota.workers),
            );
        }
        Ok(())
    }

    /// The most workers that a resizable job can have, by its tenant's quota.
    pub(super) fn workers_max(&self, name: &JobName) -> usize {
        let Some(record) = self.tenants.get(&name.tenant) else { return usize::MAX };
        let own = self.workers_by_job(&name.tenant).get(name).copied().unwrap_or(0);
        let others = self.used(&name.tenant).workers.saturating_sub(own);
        // A smaller quota takes no workers away.
        record.quota.workers.saturating_sub(others).max(own) as usize
    }

    /// Answers whether a tenant's quota has room for groups that are about to join.
    pub(super) fn answer_quota(&mut self, now: Duration, id: SessionId, query: &QuotaQuery) {
        match self.check_groups(query) {
            Ok(()) => self.send(id, SessionEvent::Quota {}),
            Err(refused) if refused.reason == Refusal::Credentials => {
                self.limit_credentials(now, id, refused, "requests without a tenant's token");
            }
            Err(refused) => self.refuse(id, refused),
        }
    }

    fn check_groups(&self, query: &QuotaQuery) -> Result<(), Refused> {
        let QuotaQuery { version, groups, slots, classes, trees, .. } = *query;
        if version != VERSION {
            return Err(Refused::version(version.into()));
        }
        let tenant = self.tenant_of(query.credentials.as_ref())?;
        let Some(record) = self.tenants.get(&tenant) else { return Ok(()) };
        let each = self.fewest_slots(slots, classes).saturating_mul(u32::from(trees));
        let needed = each.saturating_mul(groups);
        let (used, quota) = (self.used(&tenant).slots, record.quota.slots);
        let gained = self.quota_to_gain(&tenant, self.fewest_slots(slots, classes));
        let kept = used.saturating_sub(gained);
        if needed <= quota.saturating_sub(kept) {
            return Ok(());
        }
        let all = kept.saturating_add(needed);
        let can = if gained > 0 { format!(" ({gained} of them can be given up)") } else { String::new() };
        let noun = if groups == 1 { "group needs" } else { "groups need" };
        let message = format!(
            "tenant '{tenant}' has {used} of {quota} slots{can}, and {groups} {noun} {needed} more at least, {each} each: end another of its \
             jobs, or have its quota raised to {all} slots"
        );
        Err(Refused::new(Refusal::Quota, message))
    }

    /// The fewest slots that a tree is given that asks for `slots`: each class has one at least.
    pub(super) fn fewest_slots(&self, slots: u32, classes: u8) -> u32 {
        let most = slots.min(self.config.slots_max);
        self.config.slots_min.min(most).max(u32::from(classes)).min(most)
    }

    /// How many slots a tree may be given: `most`, or one in `divisor` of those that are left to its tenant.
    pub(super) fn within_quota(
        &self,
        tenant: &str,
        most: u32,
        fewest: u32,
        divisor: u32,
    ) -> Result<u32, Shortage> {
        let Some(record) = self.tenants.get(tenant) else { return Ok(most) };
        let (used, quota) = (self.used(tenant).slots, record.quota.slots);
        let left = quota.saturating_sub(used);
        if left < fewest {
            return Err(Shortage::Quota { tenant: tenant.into(), used, quota, need: fewest });
        }
        Ok(portion(most, fewest, left, divisor))
    }

    /// The trees of a job's group, or, if that is empty, of the job itself, that form or run.
    pub(super) fn trees_of(
        &self,
        name: &JobName,
        group: &str,
    ) -> impl Iterator<Item = (&TreeName, super::Named)> {
        let tree = |tree| TreeName { name: name.clone(), group: group.to_owned(), tree };
        self.names.range(tree(0)..=tree(u8::MAX)).map(|(name, named)| (name, *named))
    }

    /// The trees of a job and of all its groups that form or run.
    pub(super) fn trees_with_groups(
        &self,
        name: &JobName,
    ) -> impl Iterator<Item = (&TreeName, super::Named)> {
        let first = TreeName { name: name.clone(), group: String::new(), tree: 0 };
        let named = self.names.range(first..).map(|(name, named)| (name, *named));
        named.take_while(move |(other, _)| other.name == *name)
    }

    /// The other trees of a job or group that have a place.
    pub(super) fn siblings(&self, name: &TreeName) -> impl Iterator<Item = &crate::jobs::ActiveTree> {
        let others = self.trees_of(&name.name, &name.group);
        let others = others.filter(move |(other, _)| other.tree != name.tree);
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
