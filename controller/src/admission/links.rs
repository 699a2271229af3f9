//! Links that are drained: no new tree uses them, and those that do are moved to others.

use super::Coordinator;
use crate::command::CommandError;
use crate::fleet::TreeLoad;
use crate::jobs::{ActiveTree, EndReason, TreePhase};
use crate::message::Refused;
use crate::rebalance::PlacementPolicy;
use crate::record::{Change, LinkName};
use netfold_control::Refusal;
use std::collections::BTreeMap;
use std::time::Duration;

/// Most trees that are moved from drained links at a time: each continues without the switch until it has another place.
pub const DRAINED_AT_ONCE: usize = 4;

/// How often trees that stay at drained links are compared with others again.
const COMPARED_AGAIN: Duration = Duration::from_secs(2);

/// Most links that an error names.
const NAMED_MAX: usize = 16;

impl Coordinator {
    /// Whether the links between two switches take jobs. With `evict` jobs that have no other tree lose their place, too.
    pub(super) fn drain_link(
        &mut self,
        (one, other): (&str, &str),
        drained: bool,
        evict: bool,
    ) -> Result<(), CommandError> {
        let links = self.fleet.links_between(one, other);
        if links.is_empty() {
            return Err(self.no_link(one, other));
        }
        let name = LinkName::new(one, other);
        if links.iter().any(|link| self.fleet.is_link_drained(*link) != drained) {
            links.iter().for_each(|link| self.fleet.set_link_drained(*link, drained));
            let change = if drained { Change::LinkDrained } else { Change::LinkUndrained };
            self.keep(change(name.clone()));
            let message = if drained { "takes no more jobs" } else { "takes jobs again" };
            self.changed("link", name.to_string(), message);
        }
        self.tree_moves.compared_at = Duration::ZERO;
        self.leave_drained_links();
        if drained && evict {
            self.evict_from(&links, &name);
        }
        self.place_waiting(self.now);
        Ok(())
    }

    fn no_link(&self, one: &str, other: &str) -> CommandError {
        let all: Vec<LinkName> = (0..self.fleet.links().count())
            .map(|link| {
                let [a, b] = self.fleet.ends(link);
                LinkName::new(a, b)
            })
            .collect();
        // Those of the switches that were named, if there are any.
        let named: Vec<&LinkName> = all
            .iter()
            .filter(|link| [&link.a, &link.b].iter().any(|end| *end == one || *end == other))
            .collect();
        let mut shown: Vec<String> = match named.is_empty() {
            true => all.iter().map(ToString::to_string).collect(),
            false => named.iter().map(ToString::to_string).collect(),
        };
        shown.dedup();
        let more = shown.len().saturating_sub(NAMED_MAX);
        shown.truncate(NAMED_MAX);
        CommandError::NoLink { a: one.to_owned(), b: other.to_owned(), links: shown, more }
    }

    /// Takes up which links are drained.
    pub(super) fn restore_links(&mut self, drained: impl IntoIterator<Item = LinkName>) {
        for LinkName { a, b } in drained {
            for link in self.fleet.links_between(&a, &b) {
                self.fleet.set_link_drained(link, true);
            }
        }
    }

    /// Trees over drained links, by number.
    fn at_drained_links(&self) -> Vec<u16> {
        let there = |active: &ActiveTree| {
            !active.is_over()
                && active
                    .placement
                    .chosen
                    .edges
                    .iter()
                    .any(|edge| self.fleet.is_link_drained(edge.link.index()))
        };
        self.active.iter().filter(|(_, active)| there(active)).map(|(job, _)| *job).collect()
    }

    /// Moves trees from drained links to others, a few at a time, and notes why others stay.
    pub(super) fn leave_drained_links(&mut self) {
        if !self.fleet.has_drained_links() || self.shut_down {
            self.tree_moves.staying.clear();
            return;
        }
        let trees = self.at_drained_links();
        self.tree_moves.staying.retain(|job, _| trees.contains(job));
        let again = self.now >= self.tree_moves.compared_at;
        if again {
            self.tree_moves.compared_at = self.now + COMPARED_AGAIN;
        }
        for job in trees {
            if self.trees_away() >= DRAINED_AT_ONCE {
                return;
            }
            if !again && self.tree_moves.staying.contains_key(&job) {
                continue;
            }
            match self.obstacle(job) {
                Obstacle::None => {
                    self.tree_moves.staying.remove(&job);
                    let links = self.drained_links_of(job);
                    self.change_tree(job, format!("{links} is drained: this job goes on with another tree"));
                }
                Obstacle::Passes => drop(self.tree_moves.staying.remove(&job)),
                Obstacle::Lasts(why) => drop(self.tree_moves.staying.insert(job, why)),
            }
        }
    }

    /// The drained links of a tree, as the subject of a sentence.
    fn drained_links_of(&self, job: u16) -> String {
        let edges = &self.active[&job].placement.chosen.edges;
        let drained =
            edges.iter().map(|edge| edge.link.index()).find(|link| self.fleet.is_link_drained(*link));
        let [a, b] = drained.map_or(["", ""], |link| self.fleet.ends(link));
        format!("link '{}'", LinkName::new(a, b))
    }

    /// What is in the way of moving a tree from its drained links.
    fn obstacle(&mut self, job: u16) -> Obstacle {
        let Some(active) = self.active.get(&job) else { return Obstacle::Passes };
        if active.phase.is_starting() {
            return Obstacle::Passes;
        }
        if !active.movable {
            let why = "its workers are not connected with each other, so that they cannot continue without a switch";
            return Obstacle::Lasts(why.into());
        }
        if !active.left.is_empty() {
            return Obstacle::Lasts("some of its workers have left, and it ends soon".into());
        }
        if !self.can_change_tree(active) {
            return Obstacle::Passes;
        }
        let own = self.demand_of(active).bits_per_second;
        let demands = self.demands_without(job);
        let load = match self.config.placement {
            PlacementPolicy::Measured => TreeLoad::Demand { links: &demands, own },
            PlacementPolicy::Static => TreeLoad::Trees,
        };
        match self.other_tree(job, load) {
            Ok(_) => Obstacle::None,
            Err(_) if self.others_make_room(job) => Obstacle::None,
            Err(short) => Obstacle::Lasts(format!("no other tree is possible: {short}")),
        }
    }

    /// The demand of each link without a tree.
    fn demands_without(&self, job: u16) -> Vec<u64> {
        let Some(mut demands) = self.placement_demands() else { return Vec::new() };
        let active = &self.active[&job];
        let own = self.demand_of(active).bits_per_second;
        for edge in &active.placement.chosen.edges {
            let demand = &mut demands[edge.link.index()];
            *demand = demand.saturating_sub(own);
        }
        demands
    }

    /// Takes their place from trees that stay at links.
    fn evict_from(&mut self, links: &[usize], name: &LinkName) {
        let message = format!("link '{name}' is being drained");
        let there = |active: &ActiveTree| {
            active.placement.chosen.edges.iter().any(|edge| links.contains(&edge.link.index()))
        };
        let trees: BTreeMap<u16, TreePhase> = self
            .active
            .iter()
            .filter(|(_, active)| there(active))
            .map(|(job, active)| (*job, active.phase))
            .collect();
        for (job, phase) in trees {
            match phase {
                TreePhase::Running if matches!(self.obstacle(job), Obstacle::Lasts(_)) => {
                    self.end(job, EndReason::Displaced { message: message.clone() });
                }
                TreePhase::Installing | TreePhase::Validating { .. } => {
                    self.abandon(job, Refused::new(Refusal::Unavailable, format!("{message}: join again")));
                }
                TreePhase::Running | TreePhase::Cancelled | TreePhase::Closing { .. } => {}
            }
        }
    }
}

/// What is in the way of moving a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Obstacle {
    /// Nothing.
    None,
    /// Something that passes by itself, or ends the job.
    Passes,
    /// Something that lasts.
    Lasts(String),
}
