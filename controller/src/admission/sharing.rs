//! Reallocation of slots between jobs: a policy selects them, this module carries it out.
//!
//! A job whose ranks can go on by themselves for a while loses its place as it would with its switch; the ranks finish what is under
//! way among themselves, from the chunk at which each stream stood, and join again at once. What they are given then is bounded by what
//! the policy has left them. The job never stops, and what it held is given to no other job before the switches have released it.

use super::Coordinator;
use crate::jobs::{ActiveTree, EndReason, TreeName, TreePhase};
use crate::policy::{
    self, AlignedRange, Demand, FirstGrant, JobId, Policy, Reallocation, RunningJob, Sharing,
};
use crate::record::JobSpec;
use crate::timers::Timer;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Longest time between a move and the job's next join for which its allowance is kept.
const RETURN: Duration = Duration::from_secs(30);

/// The one that slots are wanted for; others go by their numbers, which have 16 bits.
const NEWCOMER: JobId = JobId(1 << 32);

/// Decisions about trees, for as long as they apply.
#[derive(Debug, Default)]
pub(super) struct Reallocations {
    moved: BTreeMap<TreeName, Moved>,
    armed: bool,
    budget: ReallocationBudget,
}

/// Reallocations, by which some jobs give up slots for others to grow, that are left until a job arrives or departs.
///
/// The elastic policy needs finitely many ([`policy::Elastic`]), but its reservation does not outlast a call: the jobs that it moves end and
/// join again, and what they are given then also depends on other switches. This bound holds whatever they are given.
#[derive(Debug, Default)]
struct ReallocationBudget {
    /// The trees at the last arrival or departure.
    trees: BTreeSet<TreeName>,
    left: usize,
}

impl ReallocationBudget {
    /// Reallocations for each tree that is active.
    const PER_TREE: usize = 2;

    /// Notes the trees that are active, and starts anew if they have changed.
    fn note(&mut self, trees: BTreeSet<TreeName>) {
        if self.trees != trees {
            self.left = Self::PER_TREE * trees.len();
            self.trees = trees;
        }
    }

    /// Spends one reallocation; false when none is left.
    fn spend(&mut self) -> bool {
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or(0);
        left.is_some()
    }
}

#[derive(Debug, Clone, Copy)]
struct Moved {
    at: Duration,
    /// Most slots that it is given when it joins.
    most: Option<u32>,
    /// Whether slots were taken from it, and not for it.
    displaced: bool,
}

impl Reallocations {
    fn forget(&mut self, before: Duration) {
        self.moved.retain(|_, moved| moved.at >= before);
    }
}

impl Coordinator {
    /// So many slots as a tree may be given at the moment, of those that it could have.
    pub(super) fn grantable(&self, name: &TreeName, wanted: u32) -> u32 {
        self.reallocations
            .moved
            .get(name)
            .and_then(|moved| moved.most)
            .map_or(wanted, |most| most.min(wanted))
    }

    /// Which part of the slots that are left a tree gets. One that was moved gets what the policy left it.
    pub(super) fn first_grant(&self, name: &TreeName, movable: bool) -> FirstGrant {
        match self.config.sharing {
            Sharing::Static | Sharing::Priority | Sharing::BestEffort => FirstGrant::ALL,
            Sharing::Elastic if !movable => FirstGrant::FIXED,
            Sharing::Elastic if self.reallocations.moved.contains_key(name) => FirstGrant::ALL,
            Sharing::Elastic => FirstGrant::MOVABLE,
        }
    }

    /// Has the job of the same tenant that has the most slots give up half of them for a formation for which too few are left of the quota. False
    /// where none can: then `fewest` slots are not to be had.
    pub(super) fn make_room_in_quota(&mut self, formation: u64, fewest: u32) -> bool {
        let name = self.forming[&formation].name.clone();
        if self.config.sharing != Sharing::Elastic {
            return false;
        }
        let gives = |job: &ActiveTree| {
            job.name.name.tenant == name.name.tenant
                && (&job.name.name, &job.name.group) != (&name.name, &name.group)
                && self.may_be_moved(job)
                && job.placement.job().slots / 2 >= self.least_for_others(job, fewest)
        };
        let candidates = self.active.iter().filter(|(_, job)| gives(job));
        let most =
            candidates.max_by_key(|(number, job)| (job.placement.job().slots, std::cmp::Reverse(**number)));
        let Some((&number, job)) = most else { return false };
        let half = job.placement.job().slots / 2;
        let message = format!("job '{}' needs slots of the tenant's quota", name.name);
        self.apply_moves(BTreeMap::from([(number, Some(half))]), &message);
        true
    }

    /// The fewest slots that a job keeps when others that need `fewest` take half of its slots, and half again.
    fn least_for_others(&self, job: &ActiveTree, fewest: u32) -> u32 {
        self.config.slots_min.max(job.spec.classes.into()).max(fewest).max(1)
    }

    /// So many slots of a tenant's quota as its jobs will give up for formations that need `fewest` each.
    pub(super) fn quota_to_gain(&self, tenant: &str, fewest: u32) -> u32 {
        if self.config.sharing != Sharing::Elastic {
            return 0;
        }
        let gives = |job: &ActiveTree| {
            let (slots, least) = (job.placement.job().slots, self.least_for_others(job, fewest));
            let halves = std::iter::successors(Some(slots), |slots| Some(slots / 2));
            slots - halves.take_while(|slots| *slots >= least).last().unwrap_or(slots)
        };
        let own = |job: &&ActiveTree| job.movable && !job.is_over() && job.name.name.tenant == tenant;
        self.active.values().filter(own).map(gives).sum()
    }

    /// Whether there are jobs from which slots can be taken once they are set up: jobs of its tenant for a formation for which too few are left of the quota.
    pub(super) fn may_make_room_soon(&self, in_quota: Option<u64>) -> bool {
        let tenant = in_quota.map(|formation| &self.forming[&formation].name.name.tenant);
        let soon = |job: &ActiveTree| {
            let of_tenant = tenant.is_none_or(|tenant| &job.name.name.tenant == tenant);
            of_tenant && job.movable && job.phase.is_starting()
        };
        let takes = match self.config.sharing {
            Sharing::Static | Sharing::BestEffort => false,
            Sharing::Priority => tenant.is_none(),
            Sharing::Elastic => true,
        };
        takes && self.active.values().any(soon)
    }

    /// Takes slots from others for a complete formation that finds too few, if the policy says so: then it is to wait.
    pub(super) fn make_room(&mut self, formation: u64, wanted: u32, fewest: u32) -> bool {
        self.forget_allowances();
        let forming = &self.forming[&formation];
        let name = forming.name.clone();
        let now = self.now;
        // A job that had to make room itself takes what is left, or two jobs would displace each other in turn. Where others shrink, each time at
        // least by half, there is an end to that: if later jobs have taken what it was left, it takes as few as it can do with. So does a job that will
        // never give them up again.
        let returns = self.reallocations.moved.contains_key(&name);
        let wanted = match self.config.sharing {
            Sharing::Static | Sharing::BestEffort => return false,
            Sharing::Priority if returns => return false,
            Sharing::Elastic if returns || !forming.movable => fewest,
            Sharing::Priority | Sharing::Elastic => wanted,
        };
        let spec = forming.spec;
        let members = self.peers(forming);
        let siblings: Vec<_> = self.siblings(&name).map(|job| job.placement.chosen.clone()).collect();
        let request = crate::fleet::TreeRequest {
            members: &members,
            tree: name.tree,
            slots: fewest,
            numerics: spec.mode.numerics(),
            siblings: &siblings,
            authenticated: spec.authenticated,
            udp_ports: spec.udp_ports,
            datagram_max: self.datagram_max(forming),
            load: crate::fleet::TreeLoad::Trees,
        };
        let Some(switches) = self.fleet.tree_if_empty(&request) else { return false };
        let demand = self.demand(NEWCOMER, &name, &spec, wanted, fewest);
        let Some((most, moves)) = self.room_at(&switches, &name, demand) else { return false };
        if moves.is_empty() {
            return false;
        }
        let message = format!("{} needs slots", name.subject());
        self.reallocations.moved.insert(name, Moved { at: now, most: Some(most), displaced: false });
        self.apply_moves(moves, &message);
        true
    }

    /// Whether other jobs would give up slots for a tree that gave up its place now and needed another.
    pub(super) fn others_make_room(&mut self, job: u16) -> bool {
        if self.config.sharing != Sharing::Elastic {
            return false;
        }
        let active = &self.active[&job];
        let (name, spec) = (active.name.clone(), active.spec);
        let siblings: Vec<_> = self.siblings(&name).map(|job| job.placement.chosen.clone()).collect();
        let fewest = self.fewest_slots(spec.slots, spec.classes);
        let request = crate::fleet::TreeRequest {
            members: &active.placement.members,
            tree: name.tree,
            slots: fewest,
            numerics: spec.mode.numerics(),
            siblings: &siblings,
            authenticated: spec.authenticated,
            udp_ports: spec.udp_ports,
            datagram_max: 0,
            load: crate::fleet::TreeLoad::Trees,
        };
        let Some(switches) = self.fleet.tree_if_empty(&request) else { return false };
        let demand = self.demand(NEWCOMER, &name, &spec, fewest, fewest);
        // Its own slots are free at switches that it stays at.
        let new: Vec<usize> =
            switches.into_iter().filter(|at| !self.active[&job].placement.switches.contains(at)).collect();
        self.room_at(&new, &name, demand).is_some()
    }

    /// Forgets what trees may have that did not join again in time.
    pub(super) fn forget_allowances(&mut self) {
        self.reallocations.forget(self.now.saturating_sub(RETURN.max(self.config.settle)));
    }

    /// Has a tree that is moved get as many slots as it has when it joins again.
    pub(super) fn keep_allowance(&mut self, name: TreeName, slots: u32) {
        self.reallocations.moved.insert(name, Moved { at: self.now, most: Some(slots), displaced: true });
    }

    /// The moves that are needed at all switches of a tree, and the number of slots that the tree then gets.
    fn room_at(
        &self,
        switches: &[usize],
        name: &TreeName,
        demand: Demand,
    ) -> Option<(u32, BTreeMap<u16, Option<u32>>)> {
        let mut most = demand.wanted;
        let mut moves = BTreeMap::new();
        for &switch in switches {
            let standing = self.standing(switch, |job| {
                // Neither a job nor a group makes room for itself.
                (&job.name.name, &job.name.group) != (&name.name, &name.group) && self.may_be_moved(job)
            });
            let mut policy = self.policy(switch)?;
            let room = policy::fit(&mut *policy, &standing, demand).ok()?;
            most = most.min(room.slots);
            merge(&mut moves, room.moves);
        }
        Some((most, moves))
    }

    fn may_be_moved(&self, job: &ActiveTree) -> bool {
        let guarded = || {
            let moved = self.reallocations.moved.get(&job.name);
            moved.is_some_and(|moved| moved.displaced && moved.at + self.config.settle > self.now)
        };
        job.movable
            && job.phase == TreePhase::Running
            && !(self.config.sharing == Sharing::Priority && guarded())
    }

    fn policy(&self, switch: usize) -> Option<Box<dyn Policy>> {
        self.config.sharing.policy(self.fleet.info(switch).limits.slots)
    }

    fn demand(&self, job: JobId, name: &TreeName, spec: &JobSpec, wanted: u32, least: u32) -> Demand {
        let tenant = self.tenants.get(&name.name.tenant);
        let weight = tenant.map_or(1, |tenant| tenant.weight.max(1));
        let priority = tenant.map_or(0, |tenant| tenant.priority);
        let least = least.max(u32::from(spec.classes)).min(wanted);
        Demand { job, wanted, least, weight, priority }
    }

    /// All slots of a switch that are taken, by whom, and which of them can be had.
    fn standing(&self, switch: usize, movable: impl Fn(&ActiveTree) -> bool) -> Vec<RunningJob> {
        let mut all = Vec::new();
        let mut used = BTreeMap::<&str, u32>::new();
        for (number, job) in &self.active {
            let Some(at) = job.placement.switches.iter().position(|held| *held == switch) else { continue };
            let tenant = job.name.name.tenant.as_str();
            let used = *used.entry(tenant).or_insert_with(|| self.used(tenant).slots);
            let slots = job.placement.job().slots;
            let Some(range) = AlignedRange::new(job.placement.sites[at].first_slot, slots) else { continue };
            let wanted = job.spec.slots.min(self.config.slots_max).min(self.quota_of(job, used)).max(slots);
            let least = self.config.slots_min.min(slots);
            let demand = self.demand(JobId((*number).into()), &job.name, &job.spec, wanted, least);
            all.push(RunningJob { demand, range, movable: movable(job) });
        }
        all
    }

    /// So many slots as a job could have by the quota of its tenant, who has `used` slots.
    fn quota_of(&self, job: &ActiveTree, used: u32) -> u32 {
        let tenant = &job.name.name.tenant;
        let Some(record) = self.tenants.get(tenant) else { return u32::MAX };
        let others = used.saturating_sub(job.placement.job().slots);
        let left = record.quota.slots.saturating_sub(others);
        let part =
            if self.config.sharing == Sharing::Elastic { FirstGrant::MOVABLE } else { FirstGrant::ALL };
        (left / part.of_quota).checked_ilog2().map_or(0, |log| 1 << log)
    }

    /// Takes their places from jobs, and notes what they may have instead.
    fn apply_moves(&mut self, moves: BTreeMap<u16, Option<u32>>, why: &str) {
        for (job, slots) in moves {
            let Some(name) = self.active.get(&job).map(|active| active.name.clone()) else { continue };
            let instead = match slots {
                Some(slots) => format!("this one goes on with {slots} slots"),
                None => "this one goes on when slots are free".to_owned(),
            };
            let displaced = true;
            self.reallocations.moved.insert(name, Moved { at: self.now, most: slots, displaced });
            self.end(job, EndReason::Moved { message: format!("{why}: {instead}") });
        }
    }

    /// Has jobs share slots that could not when they got their place, since their aggregator could not be used, and got fewer than they ask for: all at a
    /// switch at the same time, so that what they had can be shared.
    pub(super) fn share_again(&mut self) {
        if self.config.sharing != Sharing::BestEffort || self.shut_down {
            return;
        }
        let gains = |job: &ActiveTree| {
            let wanted = job.spec.slots.min(self.config.slots_max);
            self.may_be_moved(job)
                && job.since + self.config.settle <= self.now
                && job.placement.job().slots < wanted
                && self.fleet.can_share_now(&job.placement, wanted)
        };
        let moved: Vec<u16> =
            self.active.iter().filter(|(_, job)| gains(job)).map(|(number, _)| *number).collect();
        let message = "the aggregator can be used again: this one joins again to share slots below it";
        for job in moved {
            self.end(job, EndReason::Moved { message: message.into() });
        }
    }

    /// Schedules the periodic search for slots that jobs could grow into.
    pub(super) fn arm_growth_timer(&mut self) {
        if self.config.sharing == Sharing::Elastic && !self.reallocations.armed {
            self.reallocations.armed = true;
            self.timers.arm(self.now + self.config.settle / 4, Timer::Grow);
        }
    }

    /// Lets jobs grow into free slots.
    pub(super) fn grow(&mut self) {
        self.reallocations.armed = false;
        if self.shut_down || self.active.is_empty() {
            return;
        }
        self.arm_growth_timer();
        self.forget_allowances();
        let unsettled = self.active.values().any(|job| job.phase != TreePhase::Running || job.retiring > 0);
        let gone = |(name, moved): (&TreeName, &Moved)| moved.displaced && !self.names.contains_key(name);
        let awaited = self.reallocations.moved.iter().any(gone);
        if unsettled || awaited || self.forming.values().any(|job| job.is_complete()) {
            return;
        }
        let mut moves = self.growth();
        self.reallocations.budget.note(self.active.values().map(|job| job.name.clone()).collect());
        let grows = |job: &u16, slots: &u32| self.active[job].placement.job().slots < *slots;
        if !moves.iter().all(|(job, slots)| grows(job, slots)) && !self.reallocations.budget.spend() {
            moves.retain(|job, slots| grows(job, slots));
        }
        if !moves.is_empty() {
            let moves = moves.into_iter().map(|(job, slots)| (job, Some(slots))).collect();
            self.apply_moves(moves, "slots are shared anew");
        }
    }

    /// The number of slots that each job is to have; a tree of several switches grows where all of them have room.
    fn growth(&self) -> BTreeMap<u16, u32> {
        let settled = |job: &ActiveTree| job.movable && job.since + self.config.settle <= self.now;
        let mut wanted: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
        for switch in 0..self.fleet.len() {
            let standing = self.standing(switch, settled);
            let Some(mut policy) = self.policy(switch).filter(|_| !standing.is_empty()) else { continue };
            let moves = policy::growth(&mut *policy, &standing);
            let one_switch = |job: &JobId| {
                let job = u16::try_from(job.0).ok().and_then(|job| self.active.get(&job));
                job.is_some_and(|job| job.placement.switches.len() == 1)
            };
            let gives = |moved: &Reallocation| {
                let held = standing.iter().find(|standing| standing.demand.job == moved.job);
                held.is_none_or(|held| moved.slots.is_none_or(|slots| slots <= held.range.slots()))
            };
            // Slots that are given up at one switch of a tree may be of no use to any job at another.
            let all_alone = standing.iter().all(|standing| one_switch(&standing.demand.job));
            if moves.iter().any(gives) && !all_alone {
                continue;
            }
            for Reallocation { job, slots } in moves {
                if let (Ok(job), Some(slots)) = (u16::try_from(job.0), slots) {
                    wanted.entry(job).or_default().push(slots);
                }
            }
        }
        let everywhere = |(job, slots): (u16, Vec<u32>)| {
            let at = self.active.get(&job)?.placement.switches.len();
            (slots.len() == at).then(|| slots.into_iter().min().map(|least| (job, least)))?
        };
        let agreed: BTreeMap<u16, u32> = wanted.into_iter().filter_map(everywhere).collect();
        let idle: BTreeSet<u16> = agreed
            .iter()
            .filter(|(job, slots)| self.active[*job].placement.job().slots == **slots)
            .map(|(job, _)| *job)
            .collect();
        // A move to other slots of the same number helps only together with another that needs those it has.
        if idle.len() == agreed.len() { BTreeMap::new() } else { agreed }
    }
}

fn merge(all: &mut BTreeMap<u16, Option<u32>>, moves: Vec<Reallocation>) {
    for Reallocation { job, slots } in moves {
        let Ok(job) = u16::try_from(job.0) else { continue };
        let least = match (all.get(&job), slots) {
            (Some(None), _) | (_, None) => None,
            (Some(Some(other)), Some(slots)) => Some(slots.min(*other)),
            (None, Some(slots)) => Some(slots),
        };
        all.insert(job, least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::JobName;

    #[test]
    fn reallocations_are_bounded_until_a_job_arrives_or_departs() {
        let trees = |count: u16| {
            let name = |job| JobName { tenant: "blue".into(), job: format!("job{job}") };
            (0..count)
                .map(|job| TreeName { name: name(job), group: String::new(), tree: 0 })
                .collect::<BTreeSet<_>>()
        };
        let mut budget = ReallocationBudget::default();
        for (count, most) in [(3, 6), (2, 4), (0, 0), (1, 2)] {
            let mut spent = 0;
            for _ in 0..100 {
                budget.note(trees(count));
                spent += usize::from(budget.spend());
            }
            assert_eq!(spent, most, "{count} trees");
        }
    }
}
