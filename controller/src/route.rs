//! The choice of trees: which switches fold a job, and which links carry its folds.
//!
//! [`choose`] is given the [`Topology`], what is up, free and loaded right now ([`NetworkState`]), and what is asked for
//! ([`RouteRequest`]): where each worker is, and the job's other trees. It returns a [`ChosenTree`] tree, as [`crate::tree`] plans it, or a
//! [`RouteError`] that names the workers or the switch it fails at. It is a function of its arguments alone.
//!
//! # Rules
//!
//! Workers at one switch are folded there, and by nothing else. Otherwise the tree is the switches that workers are at, a root
//! above them, and, where the root is not next to all of them, switches in between: three levels at most. Every switch that
//! is neither a leaf nor unfit is tried as the root, and the best tree is taken, by the first of these that differs:
//!
//! 1. the root is that of no other tree of the job, then: few links are used by its other trees;
//! 2. few workers are reached in another plane than that of the tree: tree `i` prefers plane `i` modulo the host's planes;
//! 3. few levels;
//! 4. the load of the most loaded link, relative to its rate and with the tree placed, then the sum of these loads;
//! 5. free slots at the root, the more the better; then the root's name.
//!
//! Links between the same switches, and switches in between, are chosen by the same order. A tree uses nothing that is down,
//! being emptied, or too small; no switch has more than [`netfold_wire::CHILDREN_MAX`] children. Where numerics shift sums on
//! their way ([`Numerics::Wide`]), all workers are at the same depth.
//!
//! # Sources
//!
//! Several trees a job over different roots: PANAMA (MLSys 2021). Least loaded of equal paths, job by job: Crux (SIGCOMM
//! 2024). Splitting evenly over paths, [`even_split`]: Ethereal (arXiv 2407.00550).

pub mod ecmp;
mod error;
pub mod even_split;
mod grow;

pub use error::{RouteError, Unfit};

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use netfold_control::Numerics;
use netfold_wire::WORLD_MAX;

use crate::topology::{LinkId, Member, SwitchId, Topology};
use crate::tree::Shape;

/// Whether a switch takes jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SwitchAvailability {
    /// It does.
    #[default]
    Up,
    /// It answers, and is being emptied: no new tree goes over it.
    Draining,
    /// It does not answer.
    Down,
}

/// What a switch has left. Ports and groups that a switch does not count are `usize::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchState {
    /// Whether it takes jobs.
    pub availability: SwitchAvailability,
    /// Slots of the largest range that a job could be given.
    pub slots_free: u32,
    /// Ports that are not bound.
    pub ports_free: usize,
    /// Multicast groups that are not set.
    pub groups_free: usize,
    /// How it folds lanes.
    pub numerics: Numerics,
    /// 32-bit words of lanes in its packets; those of one tree are equal.
    pub lane_words: u32,
}

impl SwitchState {
    /// A switch that is up, with so many slots, ports and groups without end, and words.
    pub const fn idle(slots_free: u32, lane_words: u32) -> Self {
        Self {
            availability: SwitchAvailability::Up,
            slots_free,
            ports_free: usize::MAX,
            groups_free: usize::MAX,
            numerics: Numerics::Word,
            lane_words,
        }
    }
}

/// What is known of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkState {
    /// Whether packets get through.
    pub up: bool,
    /// What it bears, in the unit of [`RouteRequest::load`]: edges of trees, or reserved bits a second.
    pub load: u64,
}

/// What is up, free and loaded in a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkState {
    /// By [`SwitchId`].
    pub switches: Vec<SwitchState>,
    /// By [`LinkId`].
    pub links: Vec<LinkState>,
}

impl NetworkState {
    /// A network in which every switch is like this one, and every link is up and bears nothing.
    pub fn idle(topology: &Topology, switch: SwitchState) -> Self {
        Self {
            switches: vec![switch; topology.switches().len()],
            links: vec![LinkState { up: true, load: 0 }; topology.links().len()],
        }
    }

    /// Adds a tree's load to its links.
    ///
    /// # Panics
    ///
    /// When the tree is of another topology.
    pub fn place(&mut self, tree: &ChosenTree, load: u64) {
        for edge in &tree.edges {
            let link = &mut self.links[edge.link.index()];
            link.load = link.load.saturating_add(load);
        }
    }

    /// Takes a tree's load off its links again.
    ///
    /// # Panics
    ///
    /// When the tree is of another topology.
    pub fn remove(&mut self, tree: &ChosenTree, load: u64) {
        for edge in &tree.edges {
            let link = &mut self.links[edge.link.index()];
            link.load = link.load.saturating_sub(load);
        }
    }

    /// What a link bears relative to its rate, and with more on it. Comparable with that of others alone.
    fn relative(&self, topology: &Topology, link: LinkId, more: u64) -> u128 {
        let load = u128::from(self.links[link.index()].load) + u128::from(more);
        (load << 60) / u128::from(topology.link(link).rate_bps)
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct RouteRequest<'a> {
    /// Where the workers are, by rank.
    pub members: &'a [Member],
    /// Number of this tree among the job's.
    pub tree: u8,
    /// The least slots that will do at every switch.
    pub slots: u32,
    /// What the tree adds to the load of every link that it uses: 1, or bits a second.
    pub load: u64,
    /// The numerics that its switches must have; `None`: those of the first worker's switch.
    pub numerics: Option<Numerics>,
    /// The job's other trees.
    pub siblings: &'a [ChosenTree],
}

impl<'a> RouteRequest<'a> {
    /// A job's only tree, with a load of one on each link.
    pub const fn new(members: &'a [Member], slots: u32) -> Self {
        Self { members, tree: 0, slots, load: 1, numerics: None, siblings: &[] }
    }
}

/// A link of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The lower switch, by its place in [`ChosenTree::switches`].
    pub child: usize,
    /// The upper one.
    pub parent: usize,
    /// The link between them.
    pub link: LinkId,
}

/// A tree of switches for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenTree {
    /// The switches, the root first; the numbers of [`ChosenTree::shape`] are places in this list.
    pub switches: Vec<SwitchId>,
    /// Parents and children.
    pub shape: Shape,
    /// The link of every switch to the one above it, in order of the lower one's number.
    pub edges: Vec<Edge>,
    /// The plane of its host in which each worker is reached, by rank.
    pub planes: Vec<usize>,
}

impl ChosenTree {
    /// The root.
    ///
    /// # Panics
    ///
    /// When there is no switch; [`choose`] makes no such tree.
    pub fn root(&self) -> SwitchId {
        self.switches[0]
    }

    /// Whether all that the tree uses is still up: if not, the job needs another. A switch that is being emptied is up.
    pub fn is_up(&self, network: &NetworkState) -> bool {
        let switch = |id: &SwitchId| network.switches[id.index()].availability != SwitchAvailability::Down;
        self.switches.iter().all(switch) && self.edges.iter().all(|edge| network.links[edge.link.index()].up)
    }
}

/// Chooses a tree for a job.
///
/// Determinism: the same arguments give the same tree.
///
/// # Errors
///
/// [`RouteError`] when there is none: [`RouteError::refusal`] is the reason that is sent to workers.
///
/// # Panics
///
/// When a member, a sibling or the network is of another topology.
pub fn choose(
    topology: &Topology,
    network: &NetworkState,
    request: &RouteRequest<'_>,
) -> Result<ChosenTree, RouteError> {
    let workers = request.members.len();
    if workers == 0 || workers > usize::from(WORLD_MAX) {
        return Err(RouteError::Workers(workers));
    }
    let search = Search::new(topology, network, request)?;
    if let Some(only) = search.at_one_switch()? {
        return search.check_ports(only);
    }
    let mut best: Option<(Cost<'_>, ChosenTree)> = None;
    let mut worst = None;
    for root in topology.switch_ids().filter(|root| search.may_fold_folds(*root)) {
        match search.grow(root) {
            Ok((cost, tree)) if best.as_ref().is_none_or(|(least, _)| cost < *least) => {
                best = Some((cost, tree))
            }
            Ok(_) => {}
            Err(error) => worst = Some(RouteError::more_specific(worst, error)),
        }
    }
    let none = || worst.unwrap_or_else(|| search.no_root());
    search.check_ports(best.map(|(_, tree)| tree).ok_or_else(none)?)
}

/// What is compared between trees, least first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cost<'a> {
    root_shared: bool,
    links_shared: usize,
    off_plane: usize,
    levels: usize,
    load_max: u128,
    load_sum: u128,
    slots_free: Reverse<u32>,
    name: &'a str,
}

/// One choice of a tree.
struct Search<'a> {
    topology: &'a Topology,
    network: &'a NetworkState,
    request: &'a RouteRequest<'a>,
    /// Roots and links of the job's other trees.
    roots: BTreeSet<SwitchId>,
    links: BTreeSet<LinkId>,
    /// For each worker the planes in which it can be reached, the preferred one first.
    planes: Vec<Vec<usize>>,
    numerics: Numerics,
    lane_words: u32,
}

impl<'a> Search<'a> {
    fn new(
        topology: &'a Topology,
        network: &'a NetworkState,
        request: &'a RouteRequest<'a>,
    ) -> Result<Self, RouteError> {
        let mut search = Self {
            topology,
            network,
            request,
            roots: request.siblings.iter().map(ChosenTree::root).collect(),
            links: request.siblings.iter().flat_map(|tree| &tree.edges).map(|edge| edge.link).collect(),
            planes: Vec::with_capacity(request.members.len()),
            numerics: request.numerics.unwrap_or(Numerics::Word),
            lane_words: 0,
        };
        let mut unfit: Option<(SwitchId, Unfit, Vec<u16>)> = None;
        for (rank, member) in request.members.iter().enumerate() {
            let mut planes: Vec<usize> = member.planes.iter().collect();
            let turn = usize::from(request.tree) % planes.len().max(1);
            planes.rotate_left(turn);
            if rank == 0 {
                // What its switch folds is what all have to fold, be it the one of another plane.
                let states = planes.iter().map(|plane| search.state(search.leaf(0, *plane)));
                let up = states.clone().find(|state| state.availability == SwitchAvailability::Up);
                let Some(state) = up.or(states.clone().next()) else { continue };
                search.numerics = request.numerics.unwrap_or(state.numerics);
                search.lane_words = state.lane_words;
            }
            let first = planes.first().copied();
            planes.retain(|plane| search.unfit(search.leaf(rank, *plane)).is_none());
            if planes.is_empty() {
                let leaf = search.leaf(rank, first.unwrap_or(0));
                let why = search.unfit(leaf).unwrap_or(Unfit::Down);
                match &mut unfit {
                    None => unfit = Some((leaf, why, vec![rank as u16])),
                    Some((switch, _, ranks)) if *switch == leaf => ranks.push(rank as u16),
                    Some(_) => {}
                }
            }
            search.planes.push(planes);
        }
        match unfit {
            None => Ok(search),
            Some((switch, why, ranks)) => Err(RouteError::Switch { switch: search.name(switch), why, ranks }),
        }
    }

    fn state(&self, switch: SwitchId) -> &'a SwitchState {
        &self.network.switches[switch.index()]
    }

    fn name(&self, switch: SwitchId) -> String {
        self.topology.switch(switch).name.clone()
    }

    fn leaf(&self, rank: usize, plane: usize) -> SwitchId {
        self.topology.host(self.request.members[rank].host).planes[plane].switch
    }

    /// Whether sums are shifted on the way, so that all workers must be at one depth.
    fn level(&self) -> bool {
        self.numerics == Numerics::Wide
    }

    /// Why a switch can be no part of the tree, independently of its children.
    fn unfit(&self, switch: SwitchId) -> Option<Unfit> {
        let state = self.state(switch);
        match state.availability {
            SwitchAvailability::Down => return Some(Unfit::Down),
            SwitchAvailability::Draining => return Some(Unfit::Draining),
            SwitchAvailability::Up => {}
        }
        if state.numerics != self.numerics {
            return Some(Unfit::Numerics { found: state.numerics, need: self.numerics });
        }
        if state.lane_words != self.lane_words {
            return Some(Unfit::LaneWords { found: state.lane_words, need: self.lane_words });
        }
        let short = |what, free, need| Some(Unfit::Short { what, free, need });
        if state.slots_free < self.request.slots {
            short("slots", state.slots_free as usize, self.request.slots as usize)
        } else if state.groups_free == 0 {
            short("multicast groups", 0, 1)
        } else {
            None
        }
    }

    /// The tree of one switch, if all workers are at it in one of their planes.
    fn at_one_switch(&self) -> Result<Option<ChosenTree>, RouteError> {
        let workers = self.planes.len();
        let mut leaves = Vec::new();
        for (turn, plane) in self.planes[0].iter().enumerate() {
            let leaf = self.leaf(0, *plane);
            if (0..workers).all(|rank| self.plane_at(rank, leaf).is_some()) {
                leaves.push((self.roots.contains(&leaf), turn, leaf));
            }
        }
        leaves.sort_unstable();
        let mut first = Ok(None);
        for (_, _, leaf) in leaves {
            let room = self.check_children(leaf, workers, false);
            if room.is_ok() {
                let planes = (0..workers).filter_map(|rank| self.plane_at(rank, leaf)).collect();
                let shape = Shape { above: vec![None], workers: vec![0; workers] };
                return Ok(Some(ChosenTree { switches: vec![leaf], shape, edges: Vec::new(), planes }));
            }
            first = first.and(room.map(|()| None));
        }
        first
    }

    /// Checks that switches can distinguish the tree's workers: those with ports of their own do so by the port alone.
    fn check_ports(&self, tree: ChosenTree) -> Result<ChosenTree, RouteError> {
        let mut taken = BTreeMap::new();
        for (rank, plane) in (0_u16..).zip(&tree.planes) {
            let host = self.request.members[usize::from(rank)].host;
            let at = &self.topology.host(host).planes[*plane];
            if !self.topology.switch(at.switch).has_ethernet() {
                continue;
            }
            if let Some(first) = taken.insert((at.switch, at.port), rank) {
                let (switch, port) = (self.name(at.switch), at.port.unwrap_or_default());
                return Err(RouteError::SharedPort { switch, port, ranks: vec![first, rank] });
            }
        }
        Ok(tree)
    }

    /// The plane in which a worker is at a switch.
    fn plane_at(&self, rank: usize, switch: SwitchId) -> Option<usize> {
        self.planes[rank].iter().copied().find(|plane| self.leaf(rank, *plane) == switch)
    }

    fn no_root(&self) -> RouteError {
        RouteError::Path { root: None, ranks: (0..self.planes.len() as u16).collect() }
    }
}
