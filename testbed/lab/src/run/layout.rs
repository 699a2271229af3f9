//! The job of a run and its groups: who belongs to each, its tree, and what it is given at the switches.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use netfold_controller::tree::{Shape, Site, TreeJob, TreePlan};
use netfold_controller::{Limits, SwitchDriver};

use super::{RunConfig, RunError};

/// Key of the job. Groups have the next ones.
const KEY: u32 = 0x7e57_bed1;

/// The job, or a group of it: its tree, without switches that have no member below them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) shape: Shape,
    /// For each switch of the shape its number in the run.
    pub(super) switches: Vec<usize>,
    /// For each rank its end. Ends of the job come first, one for each worker, then those of groups, one for each worker.
    pub(super) ends: Vec<usize>,
    /// Workers of the job.
    world: usize,
}

impl Layout {
    /// For each rank that in the job.
    pub(super) fn ranks(&self) -> impl Iterator<Item = usize> {
        self.ends.iter().map(|end| end % self.world)
    }

    /// The last rank that has another at its switch: one that can be late, because the other can close its slots.
    pub(super) fn late_rank(&self) -> Option<usize> {
        let leaves = &self.shape.workers;
        let shares = |rank: &usize| leaves.iter().filter(|leaf| **leaf == leaves[*rank]).count() > 1;
        (0..leaves.len()).rev().find(shares)
    }
}

/// The job, then its groups.
pub(super) fn layouts(config: &RunConfig) -> Vec<Layout> {
    let world = config.shape.workers.len();
    let switches = (0..config.shape.above.len()).collect();
    let job = Layout { shape: config.shape.clone(), switches, ends: (0..world).collect(), world };
    let groups = usize::from(config.groups);
    let group = |number: usize| {
        let members: Vec<usize> = (number..world).step_by(groups.max(1)).collect();
        group_layout(&config.shape, &members)
    };
    std::iter::once(job).chain((0..groups).map(group)).collect()
}

fn group_layout(shape: &Shape, members: &[usize]) -> Layout {
    let mut used = vec![false; shape.above.len()];
    for member in members {
        let mut at = Some(shape.workers[*member]);
        while let Some(switch) = at {
            used[switch] = true;
            at = shape.above[switch];
        }
    }
    let switches: Vec<usize> = (0..used.len()).filter(|switch| used[*switch]).collect();
    // Everything above a used switch is used.
    let number = |switch: usize| switches.iter().position(|used| *used == switch).unwrap_or_default();
    let above = switches.iter().map(|switch| shape.above[*switch].map(number)).collect();
    let workers = members.iter().map(|member| number(shape.workers[*member])).collect();
    let world = shape.workers.len();
    let ends = members.iter().map(|member| world + member).collect();
    Layout { shape: Shape { above, workers }, switches, ends, world }
}

/// The job or a group at the switches.
pub(super) struct Placed {
    pub(super) layout: Layout,
    pub(super) plan: TreePlan,
}

/// Plans the job and its groups, each with slots of its own, at switches of these addresses; `ends` has those of workers.
pub(super) fn place(
    config: &RunConfig,
    limits: Limits,
    switches: &[Option<SocketAddr>],
    ends: &[Option<SocketAddr>],
) -> Result<Vec<Placed>, RunError> {
    let slots = config.slots.saturating_mul(config.classes.into());
    let mut ports = vec![0; switches.len()];
    let mut groups = vec![1; switches.len()];
    let mut placed = Vec::new();
    for (number, layout) in (0..).zip(layouts(config)) {
        let site = |switch: &usize| Site {
            limits,
            address: switches[*switch],
            first_slot: slots.saturating_mul(number),
            first_port: ports[*switch],
            first_group: groups[*switch],
            shared: None,
        };
        let sites: Vec<Site> = layout.switches.iter().map(site).collect();
        let workers: Vec<_> = layout.ends.iter().map(|end| ends[*end]).collect();
        let job = TreeJob { job: 1 + number as u16, epoch: 1, key: KEY + number, slots, udp_ports: 1 };
        let plan = TreePlan::new(job, &layout.shape, &sites, &workers)?;
        let plan = plan.with_numerics(config.mode.numerics())?;
        for (switch, at) in layout.switches.iter().zip(plan.switch_plans()) {
            ports[*switch] += at.ports.len() as u16;
            groups[*switch] += at.groups.len() as u16;
        }
        placed.push(Placed { layout, plan });
    }
    Ok(placed)
}

/// What is at the other end of a switch's port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Neighbour {
    Switch(usize),
    End(usize),
}

/// A switch's own ports: its neighbours in order, and to which of them the port numbers of plans belong. The job and its groups share links between switches.
#[derive(Debug, Default)]
pub(super) struct Ports {
    pub(super) neighbours: Vec<Neighbour>,
    /// By the number in plans.
    pub(super) own: BTreeMap<u16, u16>,
}

/// The ports of every switch.
pub(super) fn ports(placed: &[Placed], switches: usize) -> Vec<Ports> {
    let mut all: Vec<Ports> = (0..switches).map(|_| Ports::default()).collect();
    for Placed { layout: Layout { shape, switches, ends, .. }, plan } in placed {
        for (local, at) in plan.switch_plans().iter().enumerate() {
            let below = |above: &Option<usize>| *above == Some(local);
            let children = (0..switches.len()).filter(|child| below(&shape.above[*child]));
            let ranks = (0..ends.len()).filter(|rank| shape.workers[*rank] == local);
            let neighbours = children
                .map(|child| Neighbour::Switch(switches[child]))
                .chain(ranks.map(|rank| Neighbour::End(ends[rank])))
                .chain(shape.above[local].map(|above| Neighbour::Switch(switches[above])));
            let ports = &mut all[switches[local]];
            for (neighbour, binding) in neighbours.zip(&at.ports) {
                let known = ports.neighbours.iter().position(|known| *known == neighbour);
                let own = known.unwrap_or_else(|| {
                    ports.neighbours.push(neighbour);
                    ports.neighbours.len() - 1
                });
                ports.own.insert(binding.port, own as u16);
            }
        }
    }
    all
}

/// The drivers of a layout's switches.
pub(super) struct DriversOf<'a> {
    pub(super) drivers: &'a mut [Box<dyn SwitchDriver>],
    pub(super) layout: &'a Layout,
}

impl netfold_controller::tree::Drivers for DriversOf<'_> {
    fn with<R>(&mut self, switch: usize, call: impl FnOnce(&mut dyn SwitchDriver) -> R) -> R {
        call(self.drivers[self.layout.switches[switch]].as_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks 0 and 1 at switch 1, 2 and 3 at switch 2.
    fn two_leaves() -> Shape {
        Shape::regular(2, 2, 4).unwrap()
    }

    #[test]
    fn groups_have_the_switches_above_their_members() {
        let group = group_layout(&two_leaves(), &[2, 3]);
        assert_eq!(group.shape, Shape { above: vec![None, Some(0)], workers: vec![1, 1] });
        assert_eq!((group.switches.clone(), group.ends.clone()), (vec![0, 2], vec![6, 7]));
        assert_eq!(group.late_rank(), Some(1));
        let apart = group_layout(&two_leaves(), &[1, 3]);
        assert_eq!((apart.switches.clone(), apart.shape.workers.clone()), (vec![0, 1, 2], vec![1, 2]));
        assert_eq!(apart.late_rank(), None, "no member has another at its switch");
    }
}
