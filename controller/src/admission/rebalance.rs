//! Demand of links, and trees that are moved because of it.

use super::{Coordinator, Named};
use crate::fleet::{NoRoute, Shortage, TreeLoad, TreeRequest};
use crate::jobs::{ActiveTree, EndReason, FormingTree, JobEvent, Presence, TreeName, TreePhase};
use crate::rebalance::demand::{DemandMeter, Known};
use crate::rebalance::{Decision, Demand, Observed, Pace, PlacementPolicy, Rebalancer};
use crate::record::{JobName, JobSpec};
use crate::route::ChosenTree;
use crate::schedule::interleave::CONFIDENCE_MIN;
use netfold_control::Refusal;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How often demands are measured.
const MEASURE_INTERVAL: Duration = Duration::from_secs(2);

/// How long the demand of a tree that is gone is remembered: its job may be joining again.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Longest time between a move and the return of the job for which others wait.
const RETURN: Duration = Duration::from_secs(30);

/// What is known of the demand of trees, and of moves.
#[derive(Debug, Default)]
pub(super) struct TreeMoves {
    rebalancer: Rebalancer<TreeName>,
    /// The demand of each tree, and when it was last seen.
    meters: BTreeMap<TreeName, (DemandMeter, Duration)>,
    measured_at: Option<Duration>,
    /// Trees that were moved and have no new place yet, and since when.
    away: BTreeMap<TreeName, Duration>,
    /// Why trees stay at drained links, by job number.
    pub(super) staying: BTreeMap<u16, String>,
    /// When trees at drained links are compared with others again.
    pub(super) compared_at: Duration,
}

/// Demand of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LinkLoad {
    /// Bits a second, each way.
    pub(super) demand: u64,
    /// The part of it that is measured.
    pub(super) measured: u64,
}

impl Coordinator {
    /// What is known of a tree whose workers send from these addresses.
    fn known<'a>(&self, members: impl Iterator<Item = &'a SocketAddr>, spec: &JobSpec) -> Known {
        let mut at_host: BTreeMap<IpAddr, u64> = BTreeMap::new();
        members.for_each(|member| *at_host.entry(member.ip()).or_default() += 1);
        let host_rate = self.config.banding.link_bps.max(1);
        let shared = at_host.into_values().max().unwrap_or(1).max(1);
        let most = (host_rate / shared).max(1);
        Known { most, host_rate, pattern: None, traffic: None, declared: spec.iteration }
    }

    fn known_of(&self, active: &ActiveTree) -> Known {
        let pattern = active.patterns.combined(self.now).map(|combined| combined.pattern);
        Known {
            pattern: pattern.filter(|pattern| pattern.confidence() >= CONFIDENCE_MIN),
            traffic: active.traffic.demand(),
            ..self.known(active.placement.members.iter(), &active.spec)
        }
    }

    /// What a tree demands of each of its links.
    pub(super) fn demand_of(&self, active: &ActiveTree) -> Demand {
        let measured = self.tree_moves.meters.get(&active.name).and_then(|(meter, _)| meter.demand());
        measured.unwrap_or_else(|| self.known(active.placement.members.iter(), &active.spec).unmeasured())
    }

    /// The same of a tree that forms: what it demanded before, if it was moved.
    pub(super) fn demand_of_forming(&self, forming: &FormingTree) -> Demand {
        let measured = self.tree_moves.meters.get(&forming.name).and_then(|(meter, _)| meter.demand());
        measured.unwrap_or_else(|| self.known(self.peers(forming).iter(), &forming.spec).unmeasured())
    }

    /// Whether a tree uses its links, or is about to.
    fn uses_links(active: &ActiveTree) -> bool {
        active.phase.is_starting() || active.phase == TreePhase::Running
    }

    /// Trees that use links, those of a job one after the other.
    fn linked_trees(&self) -> impl Iterator<Item = (u16, &ActiveTree)> {
        self.names.values().filter_map(|named| match named {
            Named::Active(job) => {
                self.active.get(job).filter(|tree| Self::uses_links(tree)).map(|tree| (*job, tree))
            }
            Named::Forming(_) => None,
        })
    }

    /// The demand of each link: the sum over all jobs. A job counts for what its hosts' links carry at most, in all its trees and groups together.
    pub(super) fn link_loads(&self) -> Vec<LinkLoad> {
        let mut all = vec![LinkLoad::default(); self.fleet.links().count()];
        let mut of_job: BTreeMap<usize, (LinkLoad, u64)> = BTreeMap::new();
        let mut job: Option<&JobName> = None;
        let add = |all: &mut Vec<LinkLoad>, of_job: &mut BTreeMap<usize, (LinkLoad, u64)>| {
            for (link, (load, most)) in std::mem::take(of_job) {
                if let Some(sum) = all.get_mut(link) {
                    sum.demand = sum.demand.saturating_add(load.demand.min(most));
                    sum.measured = sum.measured.saturating_add(load.measured.min(most));
                }
            }
        };
        for (_, tree) in self.linked_trees() {
            if job.replace(&tree.name.name) != Some(&tree.name.name) {
                add(&mut all, &mut of_job);
            }
            let demand = self.demand_of(tree);
            for edge in &tree.placement.chosen.edges {
                let (load, most) = of_job.entry(edge.link.index()).or_default();
                load.demand = load.demand.saturating_add(demand.bits_per_second);
                if demand.source.is_measured() {
                    load.measured = load.measured.saturating_add(demand.bits_per_second);
                }
                *most = self.config.banding.link_bps.max(1);
            }
        }
        add(&mut all, &mut of_job);
        all
    }

    /// The demands by which a new tree is placed; none where trees are counted.
    pub(super) fn placement_demands(&self) -> Option<Vec<u64>> {
        let measured = self.config.placement == PlacementPolicy::Measured;
        measured.then(|| self.link_loads().into_iter().map(|load| load.demand).collect())
    }

    /// Measures what trees demand.
    fn measure_demands(&mut self) {
        if self.tree_moves.measured_at.is_some_and(|at| self.now.saturating_sub(at) < MEASURE_INTERVAL) {
            return;
        }
        self.tree_moves.measured_at = Some(self.now);
        let mut meters = std::mem::take(&mut self.tree_moves.meters);
        for (_, tree) in self.linked_trees().filter(|(_, tree)| tree.phase == TreePhase::Running) {
            let (meter, seen) = meters.entry(tree.name.clone()).or_default();
            *seen = self.now;
            meter.note(self.now, &self.known_of(tree));
        }
        meters.retain(|_, (_, seen)| self.now.saturating_sub(*seen) < REMEMBERED);
        self.tree_moves.meters = meters;
    }

    /// Measures demands, moves a tree if that helps, and those at drained links.
    pub(super) fn rebalance(&mut self) {
        if self.fleet.links().next().is_none() {
            return;
        }
        self.measure_demands();
        self.note_returns();
        if self.config.placement == PlacementPolicy::Measured && self.tree_moves.rebalancer.is_due(self.now) {
            self.move_for_demand();
        }
        self.leave_drained_links();
    }

    /// Forgets moves whose trees have a place again, or do not come back.
    fn note_returns(&mut self) {
        let running = |name: &TreeName| match self.names.get(name) {
            Some(Named::Active(job)) => self.active[job].phase == TreePhase::Running,
            _ => false,
        };
        let mut away = std::mem::take(&mut self.tree_moves.away);
        away.retain(|name, at| self.now.saturating_sub(*at) < RETURN && !running(name));
        self.tree_moves.away = away;
        self.forget_allowances();
    }

    /// Trees that were moved and are not back.
    pub(super) fn trees_away(&self) -> usize {
        self.tree_moves.away.len()
    }

    /// Whether all workers of a tree can be notified to change it.
    pub(super) fn can_change_tree(&self, active: &ActiveTree) -> bool {
        active.movable && active.left.is_empty() && active.retiring == 0 && self.all_present(active)
    }

    /// Whether a tree runs and all its workers have a session.
    pub(super) fn all_present(&self, active: &ActiveTree) -> bool {
        active.phase == TreePhase::Running
            && active.members.len() == usize::from(active.spec.world)
            && active.members.values().all(|presence| matches!(presence, Presence::Here(_)))
    }

    fn observe(&self, active: &ActiveTree) -> Observed {
        let links: Vec<usize> = active.placement.chosen.edges.iter().map(|edge| edge.link.index()).collect();
        let known = self.known_of(active);
        let slowest = links.iter().filter_map(|link| self.fleet.link_rate(*link)).min().unwrap_or(u64::MAX);
        let pace = known.pattern.zip(known.lost(slowest));
        Observed {
            demand: self.demand_of(active),
            pace: pace.map(|(pattern, lost)| Pace { period: Duration::from_micros(pattern.period_us), lost }),
            movable: self.can_change_tree(active) && active.since + self.config.settle <= self.now,
            links,
        }
    }

    /// Moves the tree whose move helps most, if the rules allow any.
    fn move_for_demand(&mut self) {
        let running = self.linked_trees().filter(|(_, tree)| tree.phase == TreePhase::Running);
        let numbers: BTreeMap<TreeName, u16> = running.map(|(job, tree)| (tree.name.clone(), job)).collect();
        let observed: BTreeMap<TreeName, Observed> =
            numbers.iter().map(|(name, job)| (name.clone(), self.observe(&self.active[job]))).collect();
        let demands: Vec<u64> = self.link_loads().into_iter().map(|load| load.demand).collect();
        let rate = |link: usize| self.fleet.link_rate(link).unwrap_or(self.config.banding.link_bps);
        let rates: Vec<u64> = (0..demands.len()).map(rate).collect();
        let mut rebalancer = std::mem::take(&mut self.tree_moves.rebalancer);
        let is_quiet = self.tree_moves.away.is_empty();
        let chosen = rebalancer.decide(self.now, &observed, (&demands, &rates), is_quiet, |name, links| {
            let own = observed.get(name)?.demand.bits_per_second;
            let job = *numbers.get(name)?;
            let tree = self.other_tree(job, TreeLoad::Demand { links, own }).ok()?;
            Some(tree.edges.iter().map(|edge| edge.link.index()).collect())
        });
        let news = rebalancer.news();
        self.tree_moves.rebalancer = rebalancer;
        for (TreeName { name, group, tree }, decision) in news {
            self.log(JobEvent::Rebalanced { name, group, tree, decision });
        }
        if let Some(chosen) = chosen
            && let Some(job) = numbers.get(&chosen.tree)
        {
            let moved = Decision::Moved { from: chosen.from, to: chosen.to };
            self.change_tree(*job, moved.to_string());
        }
    }

    /// The tree that a job would have now if it gave up its own: with as many slots, at drained links with as few as it can do with.
    pub(super) fn other_tree(&mut self, job: u16, load: TreeLoad<'_>) -> Result<ChosenTree, Shortage> {
        let active = &self.active[&job];
        let drained =
            active.placement.chosen.edges.iter().any(|edge| self.fleet.is_link_drained(edge.link.index()));
        let shares = active.placement.plan.shares_slots();
        if shares && !drained {
            let message = "it shares slots of switches that its workers are at or below".into();
            return Err(NoRoute { reason: Refusal::Path, message }.into());
        }
        let siblings: Vec<_> = self.siblings(&active.name).map(|job| job.placement.chosen.clone()).collect();
        let held = active.placement.job().slots;
        let fewest = self.fewest_slots(active.spec.slots, active.spec.classes).min(held);
        let request = TreeRequest {
            members: &active.placement.members,
            tree: active.name.tree,
            slots: if drained { fewest } else { held },
            numerics: active.spec.mode.numerics(),
            siblings: &siblings,
            authenticated: active.spec.authenticated,
            udp_ports: active.spec.udp_ports,
            datagram_max: 0,
            load,
        };
        if shares {
            return self.fleet.shared_tree_instead_of(&active.placement, &request);
        }
        self.fleet.tree_instead_of(&active.placement, &request)
    }

    /// Ends the place of a tree, whose workers join again and are placed on another.
    pub(super) fn change_tree(&mut self, job: u16, message: String) {
        let Some(active) = self.active.get(&job) else { return };
        let (name, slots) = (active.name.clone(), active.placement.job().slots);
        self.tree_moves.away.insert(name.clone(), self.now);
        self.keep_allowance(name, slots);
        self.end(job, EndReason::Moved { message });
    }

    /// What is decided about the trees of a job, not of its groups, in one sentence; where trees are placed by demand.
    pub(super) fn placement_of(&self, name: &JobName) -> Option<String> {
        if self.config.placement != PlacementPolicy::Measured {
            return None;
        }
        let decisions = self.trees_of(name, "").filter_map(|(tree, named)| match named {
            Named::Active(_) => Some((tree.tree, self.tree_moves.rebalancer.decision(tree)?)),
            Named::Forming(_) => None,
        });
        let decisions: Vec<(u8, Decision)> = decisions.collect();
        let (_, first) = decisions.first()?;
        if decisions.iter().all(|(_, decision)| decision == first) {
            return Some(first.to_string());
        }
        let texts = decisions.iter().map(|(tree, decision)| format!("tree {tree} {decision}"));
        Some(texts.collect::<Vec<_>>().join("; "))
    }
}
