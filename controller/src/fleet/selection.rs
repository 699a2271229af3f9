//! The choice of a tree's switches, as a fleet asks for it.

use super::NoRoute;
use crate::route::{
    self, ChosenTree, Edge, LinkState, NetworkState, RouteError, RouteRequest, SwitchAvailability,
    SwitchState,
};
use crate::topology::{Link, LinkId, Member, SwitchId, Topology};
use crate::tree::Shape;
use netfold_control::{Numerics, Refusal};
use netfold_wire::header;
use std::cmp::Reverse;
use std::net::{IpAddr, SocketAddr};

/// What a tree is wanted for.
#[derive(Debug, Clone, Copy)]
pub struct TreeRequest<'a> {
    /// Where each rank sends from.
    pub members: &'a [SocketAddr],
    /// Which of the job's trees.
    pub tree: u8,
    /// The least slots that will do at every switch.
    pub slots: u32,
    /// What its switches must run.
    pub numerics: Numerics,
    /// The job's other trees.
    pub siblings: &'a [ChosenTree],
    /// Whether its packets are to be authenticated.
    pub authenticated: bool,
    /// UDP ports of each worker.
    pub udp_ports: u8,
    /// Longest datagram in bytes that the paths of all members to the control port carry; 0 where that is not known.
    pub datagram_max: u32,
    /// By what links are compared.
    pub load: TreeLoad<'a>,
}

/// By what links are compared where a tree could use either.
#[derive(Debug, Clone, Copy)]
pub enum TreeLoad<'a> {
    /// The number of trees over each.
    Trees,
    /// The demand of the jobs over each, in bits a second.
    Demand {
        /// Of each link of the fleet, without the tree.
        links: &'a [u64],
        /// Of the tree on each of its links.
        own: u64,
    },
}

impl TreeRequest<'_> {
    /// Whether packets of so many lane words are known to reach all members.
    fn carries(&self, lane_words: u32) -> bool {
        let tag = if self.authenticated { netfold_wire::TAG_LEN } else { 0 };
        u64::from(self.datagram_max) >= (header::LEN + tag) as u64 + u64::from(lane_words) * 4
    }
}

/// The aggregator below which jobs share a switch's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedBelow {
    /// The aggregator.
    pub aggregator: SwitchId,
    /// The link to it.
    pub link: LinkId,
}

/// What there is at the moment.
#[derive(Debug, Clone, Copy)]
pub struct Loads<'a> {
    /// Of each switch of the fleet.
    pub switches: &'a [SwitchState],
    /// What each link of the fleet carries, in the unit of [`TreeRequest::load`].
    pub links: &'a [u64],
    /// Whether each link takes no more trees.
    pub drained: &'a [bool],
}

/// Chooses the switches of trees. Switches and links are numbered as those of the fleet are.
pub trait Route: Send {
    /// Chooses switches for a tree.
    ///
    /// # Errors
    /// [`NoRoute`] when no tree reaches all workers.
    fn choose(&mut self, request: &TreeRequest<'_>, loads: &Loads<'_>) -> Result<ChosenTree, NoRoute>;

    /// Most workers of a tree, whatever the switches' own limits.
    fn world_max(&self) -> u16 {
        netfold_wire::WORLD_MAX
    }

    /// The tree of these switches, which was chosen earlier, perhaps by another process.
    fn recall(&mut self, switches: Vec<SwitchId>, shape: Shape) -> ChosenTree {
        let planes = vec![0; shape.workers.len()];
        ChosenTree { switches, shape, edges: Vec::new(), planes }
    }

    /// The aggregator below which jobs share the slots of a switch, if it has one.
    fn shared_below(&self, _switch: SwitchId) -> Option<SharedBelow> {
        None
    }

    /// Whether a switch exchanges packets with those only to which it has links.
    fn needs_links(&self, _switch: SwitchId) -> bool {
        false
    }

    /// The name of the host that has an address, where hosts have names.
    fn host_name(&self, _address: IpAddr) -> Option<&str> {
        None
    }
}

/// All workers at one switch. Of several, such as the queues of one, those count that have the longest packets that all paths carry, or the
/// shortest of all; of these each tree of a job takes another as far as there are as many, and of those that are left the one with the fewest trees: work
/// is spread by counts, so an order of joins has one outcome.
#[derive(Debug, Clone, Copy, Default)]
pub struct OneSwitch;

impl Route for OneSwitch {
    fn choose(&mut self, request: &TreeRequest<'_>, loads: &Loads<'_>) -> Result<ChosenTree, NoRoute> {
        let shortest = loads.switches.iter().map(|state| state.lane_words).min().unwrap_or(0);
        let least_used = loads.switches.iter().enumerate().min_by_key(|(index, state)| {
            let too_long = state.lane_words > shortest && !request.carries(state.lane_words);
            let other = |chosen: &&ChosenTree| chosen.switches.first().is_some_and(|at| at.index() == *index);
            let others = request.siblings.iter().filter(other).count();
            let fits = state.availability == SwitchAvailability::Up && state.slots_free >= request.slots;
            // Each tree has a group.
            let longest = Reverse(state.lane_words);
            (too_long, !fits, longest, others, Reverse(state.groups_free), Reverse(state.slots_free))
        });
        let index = least_used.map_or(0, |(index, _)| index);
        let shape = Shape { above: vec![None], workers: vec![0; request.members.len()] };
        Ok(self.recall(vec![SwitchId(index as u16)], shape))
    }

    fn world_max(&self) -> u16 {
        netfold_wire::CHILDREN_MAX as u16
    }
}

impl Route for Topology {
    fn choose(&mut self, request: &TreeRequest<'_>, loads: &Loads<'_>) -> Result<ChosenTree, NoRoute> {
        let place = |(rank, address): (usize, &SocketAddr)| {
            self.member(address.ip()).ok_or_else(|| NoRoute {
                reason: Refusal::Path,
                message: format!(
                    "rank {rank} sends from {}, which belongs to no host of the topology: enter it there, or have the worker \
                     send from another address",
                    address.ip()
                ),
            })
        };
        let members: Result<Vec<Member>, NoRoute> = request.members.iter().enumerate().map(place).collect();
        let up = |link: &Link| {
            link.ends
                .iter()
                .all(|end| loads.switches[end.switch.index()].availability != SwitchAvailability::Down)
        };
        let links = self.links().iter().zip(loads.links).zip(loads.drained);
        let links = links.map(|((link, load), drained)| LinkState { up: up(link) && !drained, load: *load });
        let network = NetworkState { switches: loads.switches.to_vec(), links: links.collect() };
        let members = members?;
        let request = RouteRequest {
            tree: request.tree,
            numerics: Some(request.numerics),
            siblings: request.siblings,
            load: match request.load {
                TreeLoad::Trees => 1,
                TreeLoad::Demand { own, .. } => own,
            },
            ..RouteRequest::new(&members, request.slots)
        };
        route::choose(self, &network, &request).map_err(|error| {
            let down = |switch: &SwitchState| switch.availability == SwitchAvailability::Down;
            let drained = loads.drained.contains(&true);
            match error {
                // Those that lead to all workers may be among the links that are drained, or the switches that are down.
                RouteError::Path { .. } if drained => NoRoute {
                    reason: Refusal::Unavailable,
                    message: format!("{error}; some links are drained: undrain them"),
                },
                RouteError::Path { .. } if network.switches.iter().any(down) => {
                    NoRoute { reason: Refusal::Unavailable, message: error.to_string() }
                }
                _ => NoRoute { reason: error.refusal(), message: error.to_string() },
            }
        })
    }

    fn recall(&mut self, switches: Vec<SwitchId>, shape: Shape) -> ChosenTree {
        let above = shape.above.iter().enumerate();
        let edges = above.filter_map(|(child, parent)| {
            let parent = (*parent)?;
            let between = |switch: usize| self.links_between(switches[switch], switches[parent]).next();
            // An aggregator without a link to the parent is reached as the switch below it is.
            let below = || shape.above.iter().position(|above| *above == Some(child));
            let link = between(child).or_else(|| between(below()?))?;
            Some(Edge { child, parent, link })
        });
        ChosenTree { edges: edges.collect(), planes: vec![0; shape.workers.len()], switches, shape }
    }

    fn shared_below(&self, switch: SwitchId) -> Option<SharedBelow> {
        let aggregator = self.aggregator(switch)?;
        Some(SharedBelow { aggregator: aggregator.switch, link: aggregator.link })
    }

    fn needs_links(&self, switch: SwitchId) -> bool {
        self.switch(switch).has_ethernet()
    }

    fn host_name(&self, address: IpAddr) -> Option<&str> {
        Some(&self.host(self.host_of(address)?).name)
    }
}
