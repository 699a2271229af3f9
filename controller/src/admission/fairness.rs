//! What jobs that form share: addresses, and places to form in. None is held against an owner that has fewer. And what jobs that have a place
//! share beside slots: no tenant takes all of it.

use super::{Coordinator, SessionId, Stage};
use crate::fleet::{Placement, Shortage};
use crate::jobs::{FormingTree, Owner, TreeName, TreePhase};
use crate::message::Refused;
use crate::policy::{Supply, leaves_others};
use crate::record::TenantRecord;
use crate::tree::SwitchPlan;
use netfold_control::Refusal;
use netfold_p4::profile::entries_of_job;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

impl Coordinator {
    /// Whose a job is that this session begins.
    pub(super) fn owner_of(&self, name: &TreeName, id: SessionId) -> Owner {
        if self.config.tenants {
            return Owner::Tenant(name.name.tenant.clone());
        }
        Owner::Address(self.sessions[&id].peer.ip().to_canonical())
    }

    /// Ends the claim to an endpoint of a worker on another host, if the worker that asks for it now is on the host of that address.
    /// Before an address is validated anyone may name it; a member of a running job has validated it, and keeps it.
    pub(super) fn yield_endpoint(&mut self, id: SessionId, endpoint: SocketAddr) {
        let is_native = |id: &SessionId| self.sessions[id].peer.ip().to_canonical() == endpoint.ip();
        let Some(holder) = self.endpoints.get(&endpoint).copied() else { return };
        let validated = match self.sessions[&holder].stage {
            Stage::Active { job, .. } => self.active[&job].phase == TreePhase::Running,
            Stage::Greeting | Stage::Forming { .. } | Stage::Enrolled { .. } | Stage::Entering { .. } => {
                false
            }
        };
        if validated || is_native(&holder) || !is_native(&id) {
            return;
        }
        let message =
            format!("a worker on the host of {endpoint} sends from there: give this one its own address");
        self.refuse(holder, Refused::new(Refusal::Argument, message));
    }

    /// Makes room for one more worker of an owner that waits for its peers, in the formation `own` or a new one: at the limits, the oldest
    /// formation of the owner that has most is ended, if that owner will still have no fewer than this one.
    ///
    /// # Errors
    /// [`Refusal::Busy`] when no owner has more.
    pub(super) fn make_room_to_form(&mut self, owner: &Owner, own: Option<u64>) -> Result<(), Refused> {
        let one = |_: &FormingTree| 1;
        let running = self.active.values().filter(|job| !job.is_over()).count();
        if own.is_none() && running + self.forming.len() >= self.config.jobs_max {
            let busy = || {
                let jobs = running + self.forming.len();
                Refused::new(Refusal::Busy, format!("{jobs} jobs run or form already: wait for one to end"))
            };
            let formation = self.excess_formation(owner, own, one).ok_or_else(busy)?;
            self.end_in_favour(formation);
        }
        let members = |job: &FormingTree| job.members.len();
        let pending: usize = self.forming.values().map(members).sum();
        if pending >= self.config.pending_joins_max {
            let message = format!("{pending} workers wait for their peers already: try again later");
            let busy = || Refused::new(Refusal::Busy, message);
            let formation = self.excess_formation(owner, own, members).ok_or_else(busy)?;
            self.end_in_favour(formation);
        }
        Ok(())
    }

    /// The oldest formation of the owner that has most of what `weight` counts, if it would have no less than `owner` without it.
    fn excess_formation(
        &self,
        owner: &Owner,
        own: Option<u64>,
        weight: impl Fn(&FormingTree) -> usize,
    ) -> Option<u64> {
        let mut held = BTreeMap::<&Owner, usize>::new();
        for job in self.forming.values() {
            *held.entry(&job.owner).or_default() += weight(job);
        }
        let wanted = held.get(owner).copied().unwrap_or_default() + 1;
        let (most, amount) = held.into_iter().max_by_key(|(_, amount)| *amount)?;
        // Formations are numbered in the order of their first joins.
        let mut theirs = self.forming.iter().filter(|(id, job)| job.owner == *most && Some(**id) != own);
        let (formation, job) = theirs.next()?;
        (most != owner && amount.saturating_sub(weight(job)) >= wanted).then_some(*formation)
    }

    /// Whether a placement, which was taken already, leaves to other tenants what is theirs of ports, groups and table entries at each of its
    /// switches, and of jobs.
    ///
    /// # Errors
    /// [`Shortage::Kept`] for the first that the placement does not leave.
    pub(super) fn check_reserves(&self, tenant: &str, placement: &Placement) -> Result<(), Shortage> {
        let Some(share) = self.share_of(tenant) else { return Ok(()) };
        let own = || {
            let own = self.active.values().filter(|job| job.name.name.tenant == tenant);
            own.map(|job| &job.placement)
        };
        let kept = |Supply { all, held, .. }: Supply, what: String| {
            Err(Shortage::Kept { tenant: tenant.into(), what, held, all })
        };
        let jobs = Supply {
            all: u32::try_from(self.config.jobs_max).unwrap_or(u32::MAX),
            used: self.active.len() as u32,
            held: own().count() as u32,
        };
        if !leaves_others(jobs, 1, share) {
            return kept(jobs, "jobs that may run".into());
        }
        for (&switch, site) in placement.switches.iter().zip(placement.plan.switch_plans()) {
            let limits = self.fleet.info(switch).limits;
            let at = |placement: &Arc<Placement>| {
                let mut sites = placement.switches.iter().zip(placement.plan.switch_plans());
                let site = sites.find(|(at, _)| **at == switch);
                site.map_or([0; 3], |(_, site)| amounts(limits.bounded_loss, site))
            };
            let [ports, groups, entries] =
                own().map(at).fold([0; 3], |sum, at| std::array::from_fn(|kind| sum[kind] + at[kind]));
            let [ports_asked, groups_asked, entries_asked] = amounts(limits.bounded_loss, site);
            let (entries_used, entries_all) = self.fleet.entries_used(switch);
            let [_, (ports_used, ports_all), (groups_used, groups_all)] = self.fleet.used(switch);
            let kinds = [
                ("ports", ports, ports_asked, ports_used, ports_all),
                ("multicast groups", groups, groups_asked, groups_used, groups_all),
                ("entries of the job table", entries, entries_asked, entries_used, entries_all),
            ];
            for (what, held, asked, used, all) in kinds {
                let supply = Supply { all, used: used.saturating_sub(asked), held };
                if !leaves_others(supply, asked, share) {
                    return kept(supply, format!("{what} of switch '{}'", self.fleet.info(switch).name));
                }
            }
        }
        Ok(())
    }

    /// A tenant's share of what all have: its weight, of the weights of all. `None` where there are no tenants.
    pub(super) fn share_of(&self, tenant: &str) -> Option<(u32, u64)> {
        let weight = |record: &TenantRecord| record.weight.max(1);
        let own = weight(self.tenants.get(tenant)?);
        Some((own, self.tenants.values().map(|record| u64::from(weight(record))).sum()))
    }

    fn end_in_favour(&mut self, formation: u64) {
        let message = "too many workers wait for their peers, and this job's owner has most of them: start all ranks at once";
        self.refuse_formation(formation, Refused::new(Refusal::Busy, message));
    }
}

/// Ports, groups and entries of the job table that a tree holds at a switch.
fn amounts(bounded_loss: bool, site: &SwitchPlan) -> [u32; 3] {
    let entries = entries_of_job(site.children.len() as u32, site.node.parent.is_some(), bounded_loss);
    [site.ports.len() as u32, site.groups.len() as u32, entries]
}
