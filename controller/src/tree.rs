//! A job's tree of switches: which switch folds which members, and what each switch needs for it.
//!
//! [`TreePlan::new`] works out, without any I/O, what a job needs at every switch of its tree: the node and its children as the
//! pipeline's tables take them, the multicast groups, the peers of the ports. [`install`] carries a plan out on the
//! switches, all of it or nothing, in the order that makes it safe:
//!
//! 1. ports, everywhere;
//! 2. ADVANCE over the job's slots everywhere: the job's first chunk is newer than all that any of its switches holds;
//! 3. challenges, by which workers show that they receive packets at their addresses; they are deleted when all have;
//! 4. multicast groups, everywhere;
//! 5. table entries, from the root down, so that every packet that a switch admits finds all switches above it ready.
//!
//! [`prepare`] does the first three, [`Installed::complete`] the others, and [`install`] all but the challenges.
//!
//! It is withdrawn in the opposite order, so no slot is advanced or given away while an entry admits packets to it.
//!
//! A best-effort job shares slots at some switches ([`SlotUse::Shared`]), each of which has an aggregator above it. These slots are not advanced, since what a job finds there
//! does not matter to it; when its entries are withdrawn, those that it occupies are released.

mod install;
mod shape;
#[cfg(test)]
mod tests;

pub use install::{Drivers, InstallError, InstallStep, Installed, InstalledEntity, install, prepare};
pub(crate) use shape::ChildRef;
pub use shape::Shape;
use shape::shift_for;

use crate::ticket::{PacketSender, TicketKey};
use netfold_control::{Admission, Numerics};
use netfold_p4::allreduce::{Behind, Child, Node, Parent};
use netfold_p4::entry::Replica;
use netfold_wire::{CHILDREN_MAX, JobKeys, LEVELS_MAX, LaneOps, PortKeys, WORLD_MAX};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

use crate::driver::Limits;

/// What is the same at every switch of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeJob {
    /// Job number, not 0.
    pub job: u16,
    /// Epoch of the membership.
    pub epoch: u32,
    /// Job key.
    pub key: u32,
    /// Slots, a power of two up to 2^15: the window of every worker.
    pub slots: u32,
    /// UDP ports of each worker.
    pub udp_ports: u8,
}

/// A switch, and what the job is given there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The switch's capacity.
    pub limits: Limits,
    /// Where its own packets come from and where packets for it go; `None` where ports need no peers (rings).
    pub address: Option<SocketAddr>,
    /// First slot of the range, a multiple of the job's slots.
    pub first_slot: u32,
    /// First of the ports that the job takes: one for each child, in order, then one for the parent.
    pub first_port: u16,
    /// First of the multicast groups that the job takes: the children's, then the parent's.
    pub first_group: u16,
    /// The range that jobs share here, of which the job's slots are part. The switch's parent is its aggregator, which has no other child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedRange>,
}

/// Slots that best-effort jobs share at a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedRange {
    /// The first.
    pub first_slot: u32,
    /// How many there are, a power of two.
    pub slots: u32,
}

/// Whose slots a job uses at a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotUse {
    /// Its own.
    Own,
    /// Those that best-effort jobs share.
    Shared,
    /// Its own, at the aggregator of a switch where it shares slots.
    Aggregator,
}

/// A port of a switch and its peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortBinding {
    /// The port.
    pub port: u16,
    /// Where its packets come from; `None` where ports need no peers.
    pub peer: Option<SocketAddr>,
    /// The keys of the job's packets there, if it is authenticated.
    pub keys: Option<JobKeys>,
}

/// A multicast group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MulticastGroup {
    /// Its number.
    pub group: u16,
    /// Its copies.
    pub replicas: Vec<Replica>,
}

/// What a job needs at one switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchPlan {
    /// Steps from the root, which is at 0.
    pub depth: usize,
    /// Whose slots the job uses.
    pub slot_use: SlotUse,
    /// The job as this switch sees it. At an aggregator its children are those of the switch below.
    pub node: Node,
    /// Its children; the rank of a child is its place in this list. At an aggregator the switch below.
    pub children: Vec<Child>,
    /// The children's ports and the parent's.
    pub ports: Vec<PortBinding>,
    /// The children's group and, below a parent, the group of one copy to it.
    pub groups: Vec<MulticastGroup>,
}

/// What a job needs at every switch of its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreePlan {
    job: TreeJob,
    lane_words: u32,
    /// Those that every switch has.
    lane_ops: LaneOps,
    switch_plans: Vec<SwitchPlan>,
    /// Switches, parents before children.
    order: Vec<usize>,
    /// For each worker its switch and its port there.
    workers: Vec<(usize, u16)>,
    /// Bits by which sums are shifted in all.
    shift: u8,
}

/// Why a job cannot have such a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// World size out of range.
    #[error("{0} workers: a job has 1 to {WORLD_MAX}")]
    World(usize),
    /// Another number of sites, or of workers' addresses, than the shape has.
    #[error("the tree has {want} {what} and {given} were described")]
    Count {
        /// Switches or workers.
        what: &'static str,
        /// As many as the shape has.
        want: usize,
        /// As many as were given.
        given: usize,
    },
    /// A switch or a worker hangs at a switch that does not exist.
    #[error("{what} {index} hangs at switch {at}, which does not exist")]
    Absent {
        /// Switch or worker.
        what: &'static str,
        /// Its number.
        index: usize,
        /// The parent, as given.
        at: usize,
    },
    /// Not exactly one switch without a parent, or switches that are their own ancestors.
    #[error(
        "a tree has one root and every switch below it; {reached} of {switches} switches are below one of {roots} roots"
    )]
    Root {
        /// Switches without a parent.
        roots: usize,
        /// Switches that a walk from the only root reaches; 0 when there is not exactly one.
        reached: usize,
        /// Switches in all.
        switches: usize,
    },
    /// Too many levels.
    #[error("{0} levels of switches: at most {LEVELS_MAX}")]
    Levels(usize),
    /// Too many children, or none.
    #[error(
        "switch {switch} has {children} children: a switch folds 1 to {CHILDREN_MAX}; give it others or leave it out"
    )]
    Children {
        /// The switch.
        switch: usize,
        /// Its children.
        children: usize,
    },
    /// The range of slots is no power of two, not aligned to its size, or does not lie in the switch.
    #[error(
        "slots {first}..{first}+{slots} of switch {switch}, which has {capacity}: a power of two, aligned to its size"
    )]
    Slots {
        /// The switch.
        switch: usize,
        /// First slot.
        first: u32,
        /// Slots.
        slots: u32,
        /// Slots of the switch.
        capacity: u32,
    },
    /// The switch has too few ports or groups from the first one on.
    #[error("switch {switch} has {free} {what} from the first one given on and needs {need}")]
    Short {
        /// The switch.
        switch: usize,
        /// Ports or groups.
        what: &'static str,
        /// As many as there are.
        free: usize,
        /// As many as are needed.
        need: usize,
    },
    /// Sums that are shifted on their way are in different units below one switch.
    #[error(
        "switch {switch} sums shares that were shifted differently: in wide numerics all workers must be at the same depth"
    )]
    Shift {
        /// The switch.
        switch: usize,
    },
    /// Switches of one tree carry packets of different lengths.
    #[error(
        "switch {switch} has {found} lane words a packet and the root {root}: all switches of a tree need the same"
    )]
    LaneWords {
        /// The switch.
        switch: usize,
        /// Its lane words.
        found: u32,
        /// The root's.
        root: u32,
    },
    /// Slots are shared where they cannot be.
    #[error(
        "slots are shared at switch {switch}, which is not the only child of a switch with slots of its own, in a range that has the job's, of words"
    )]
    Shared {
        /// The switch.
        switch: usize,
    },
    /// The pipeline matches source addresses, and a peer's is not known.
    #[error(
        "switch {switch} sees IPv4 source addresses, and the one of the peer at port {port} is not given"
    )]
    Source {
        /// The switch.
        switch: usize,
        /// The port.
        port: u16,
    },
}

impl TreePlan {
    /// Works out a job's places at the switches of a tree: one site for each switch of the shape, and the address of each
    /// worker (`None` where ports need no peers).
    ///
    /// # Errors
    ///
    /// [`TreeError`]: the first thing that is wrong.
    pub fn new(
        job: TreeJob,
        shape: &Shape,
        sites: &[Site],
        workers: &[Option<SocketAddr>],
    ) -> Result<Self, TreeError> {
        let depths = shape.depths()?;
        let count = |what, want, given| Err(TreeError::Count { what, want, given });
        if sites.len() != shape.above.len() {
            return count("switches", shape.above.len(), sites.len());
        }
        if workers.len() != shape.workers.len() {
            return count("workers", shape.workers.len(), workers.len());
        }
        let below = shape.below();
        check_shared(shape, sites, &below)?;
        check_levels(shape, sites, &depths)?;
        let mut order: Vec<usize> = (0..sites.len()).collect();
        order.sort_by_key(|switch| depths[*switch]);
        let draft = PlanBuilder { job, shape, sites, workers, below };
        // Workers below each switch, counted from the leaves up.
        let mut beneath = vec![0_u16; sites.len()];
        shape.workers.iter().for_each(|leaf| beneath[*leaf] += 1);
        for switch in order.iter().rev() {
            if let Some(above) = shape.above[*switch] {
                beneath[above] += beneath[*switch];
            }
        }
        let lane_words = sites[order[0]].limits.lane_words;
        let lane_ops = sites.iter().fold(LaneOps::ALL, |all, site| all.and(site.limits.lane_ops));
        let mut places = Vec::with_capacity(sites.len());
        for (switch, site) in sites.iter().enumerate() {
            if site.limits.lane_words != lane_words {
                let found = site.limits.lane_words;
                return Err(TreeError::LaneWords { switch, found, root: lane_words });
            }
            places.push(draft.place(switch, depths[switch], beneath[switch])?);
        }
        let mut worker_ports = vec![(0, 0); workers.len()];
        for (switch, below) in draft.below.iter().enumerate() {
            for (below, child) in below.iter().zip(&places[switch].children) {
                if let ChildRef::Worker(rank) = below {
                    worker_ports[*rank] = (switch, child.port);
                }
            }
        }
        Ok(Self { job, lane_words, lane_ops, switch_plans: places, order, workers: worker_ports, shift: 0 })
    }

    /// The plan for switches that fold lanes like this: tells those of wide numerics how far to shift sums. All switches
    /// of one depth shift alike, since their sums are added.
    ///
    /// # Errors
    ///
    /// [`TreeError::Shift`] when workers are at different depths of a tree of wide numerics.
    pub fn with_numerics(mut self, numerics: Numerics) -> Result<Self, TreeError> {
        let shares = self.switch_plans.iter().position(|place| place.slot_use == SlotUse::Shared);
        if let Some(switch) = shares.filter(|_| numerics != Numerics::Word) {
            return Err(TreeError::Shared { switch });
        }
        if numerics == Numerics::Saturating {
            self.deliver_to_all_switches();
        }
        if numerics != Numerics::Wide {
            return Ok(self);
        }
        let deepest = self.switch_plans.iter().map(|place| place.depth).max().unwrap_or(0);
        if let Some((switch, _)) =
            self.workers.iter().find(|(switch, _)| self.switch_plans[*switch].depth != deepest)
        {
            return Err(TreeError::Shift { switch: *switch });
        }
        for depth in 0..=deepest {
            let level = || self.switch_plans.iter().filter(|place| place.depth == depth);
            let shift = level().map(|place| shift_for(place.node.children.into())).max().unwrap_or(0);
            self.shift += shift;
            for place in self.switch_plans.iter_mut().filter(|place| place.depth == depth) {
                place.node.shift = Some(shift);
            }
        }
        Ok(self)
    }

    /// Gives every switch the lanes of all results, from which it derives the flag `saturated` of those that it repeats.
    fn deliver_to_all_switches(&mut self) {
        let ports_of_workers: Vec<(usize, u16)> = self.workers.clone();
        for (switch, place) in self.switch_plans.iter_mut().enumerate() {
            for child in &mut place.children {
                if !ports_of_workers.contains(&(switch, child.port)) {
                    child.behind = None;
                }
            }
        }
    }

    /// The plan of an authenticated job, whose packets have keys derived from `secret`. A worker and a switch have each a key for what they send
    /// towards the root; a switch has one for all that it sends to its children, so that their copies of a result have the same bytes.
    #[must_use]
    pub fn authenticated(mut self, shape: &Shape, secret: &TicketKey) -> Self {
        let TreeJob { job, epoch, .. } = self.job;
        let (below, sender) = (shape.below(), |sender| secret.packet_key(sender));
        for (switch, place) in self.switch_plans.iter_mut().enumerate() {
            let to_children = sender(PacketSender::Results(switch));
            let up = |child: &ChildRef| match *child {
                ChildRef::Worker(rank) => sender(PacketSender::Worker(rank)),
                ChildRef::Switch(switch) => sender(PacketSender::Switch(switch)),
            };
            let children = below[switch].iter().map(|child| (up(child), to_children.clone()));
            let parent = shape.above[switch]
                .map(|parent| (sender(PacketSender::Results(parent)), sender(PacketSender::Switch(switch))));
            // The children's ports and the parent's, in this order.
            for (port, (receive, send)) in place.ports.iter_mut().zip(children.chain(parent)) {
                port.keys = Some(JobKeys { job, epoch, keys: PortKeys { receive, send } });
            }
        }
        self
    }

    /// The keys of a worker's packets, if the job is authenticated: those of its switch, the other way round.
    ///
    /// # Panics
    ///
    /// When the job has no such rank.
    pub fn worker_keys(&self, rank: u16) -> Option<PortKeys> {
        let (switch, port) = self.workers[usize::from(rank)];
        let binding = self.switch_plans[switch].ports.iter().find(|binding| binding.port == port)?;
        let PortKeys { receive, send } = binding.keys.as_ref()?.keys.clone();
        Some(PortKeys { receive: send, send: receive })
    }

    /// The job.
    pub fn job(&self) -> &TreeJob {
        &self.job
    }

    /// What the job needs at each switch.
    pub fn switch_plans(&self) -> &[SwitchPlan] {
        &self.switch_plans
    }

    /// The switches, parents before children.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The switches where the job shares slots with others, and the job's group at each of one copy to its aggregator.
    pub fn shared(&self) -> impl Iterator<Item = (usize, u16)> {
        let places = self.switch_plans.iter().enumerate();
        let shared = places.filter(|(_, place)| place.slot_use == SlotUse::Shared);
        shared.filter_map(|(switch, place)| Some((switch, place.node.parent?.group)))
    }

    /// Whether the job shares slots with others.
    pub fn shares_slots(&self) -> bool {
        self.shared().next().is_some()
    }

    /// For each worker its switch and its port there.
    pub fn workers(&self) -> &[(usize, u16)] {
        &self.workers
    }

    /// What is sent to a worker, once the plan is installed.
    ///
    /// # Panics
    ///
    /// When the job has no such rank.
    pub fn admission(&self, rank: u16, first_chunk: u32, udp_port: u16) -> Admission {
        let TreeJob { job, epoch, key, slots, .. } = self.job;
        let (switch, port) = self.workers[usize::from(rank)];
        let bitmap = self.switch_plans[switch].node.full();
        let bounded_loss = self.switch_plans.iter().all(|place| place.node.bounded_loss);
        let own = self.switch_plans[switch].children.iter().find(|child| bounded_loss && child.port == port);
        Admission {
            first_chunk,
            udp_port,
            own_bit: own.map_or(0, |child| 1 << child.rank),
            lane_ops: self.lane_ops,
            shift: self.shift,
            ..Admission::new((job, epoch, key), slots, self.lane_words, bitmap)
        }
    }
}

/// Slots are shared below an aggregator only, a switch with slots of its own and no other child, and within their range.
fn check_shared(shape: &Shape, sites: &[Site], below: &[Vec<ChildRef>]) -> Result<(), TreeError> {
    for (switch, site) in sites.iter().enumerate() {
        let Some(range) = site.shared else { continue };
        let end = range.first_slot.checked_add(range.slots);
        let is_within = site.first_slot >= range.first_slot && end.is_some_and(|end| site.first_slot < end);
        let is_aggregator = |above: usize| sites[above].shared.is_none() && below[above].len() == 1;
        if !is_within || !shape.above[switch].is_some_and(is_aggregator) {
            return Err(TreeError::Shared { switch });
        }
    }
    Ok(())
}

/// Aggregators apart, a tree has [`LEVELS_MAX`] levels at most.
fn check_levels(shape: &Shape, sites: &[Site], depths: &[usize]) -> Result<(), TreeError> {
    let levels = |leaf: usize| {
        let path = std::iter::successors(Some(leaf), |switch| shape.above[*switch]);
        depths[leaf] + 1 - path.filter(|switch| sites[*switch].shared.is_some()).count()
    };
    match (0..sites.len()).map(levels).max() {
        Some(levels) if levels > LEVELS_MAX => Err(TreeError::Levels(levels)),
        _ => Ok(()),
    }
}

/// The replica instance of a port's copies: each port is one peer's alone.
const fn instance(port: u16) -> u16 {
    port + 1
}

struct PlanBuilder<'a> {
    job: TreeJob,
    shape: &'a Shape,
    sites: &'a [Site],
    workers: &'a [Option<SocketAddr>],
    below: Vec<Vec<ChildRef>>,
}

impl PlanBuilder<'_> {
    fn place(&self, switch: usize, depth: usize, workers: u16) -> Result<SwitchPlan, TreeError> {
        let site = &self.sites[switch];
        let below = &self.below[switch];
        let parent = self.shape.above[switch];
        self.check(switch, below.len(), parent.is_some())?;
        let child_count = below.len() as u16;
        let mut ports = Vec::with_capacity(below.len() + 1);
        let mut children = Vec::with_capacity(below.len());
        for (index, below) in below.iter().enumerate() {
            let peer = match *below {
                ChildRef::Worker(rank) => self.workers[rank],
                ChildRef::Switch(switch) => self.sites[switch].address,
            };
            let port = site.first_port + index as u16;
            ports.push(PortBinding { port, peer, keys: None });
            children.push(Child {
                port,
                source: self.source(switch, port, peer)?,
                rank: index as u8,
                behind: self.ranks_behind(*below).map(|(first, last)| Behind {
                    instance: instance(port),
                    first,
                    last,
                }),
            });
        }
        let replica = |port: u16| Replica { port, instance: instance(port) };
        let mut groups = vec![MulticastGroup {
            group: site.first_group,
            replicas: children.iter().map(|child| replica(child.port)).collect(),
        }];
        let mut above = None;
        if let Some(parent) = parent {
            let (port, group) = (site.first_port + child_count, site.first_group + 1);
            let peer = self.sites[parent].address;
            ports.push(PortBinding { port, peer, keys: None });
            groups.push(MulticastGroup { group, replicas: vec![replica(port)] });
            let rank = self.below[parent]
                .iter()
                .position(|child| matches!(child, ChildRef::Switch(s) if *s == switch));
            let rank = rank.unwrap_or_default() as u8;
            above = Some(Parent { port, source: self.source(switch, port, peer)?, group, rank });
        }
        let TreeJob { job, epoch, key, slots, .. } = self.job;
        let slot_use = self.slot_use(switch);
        let contributors = match (slot_use, &self.below[switch][..]) {
            (SlotUse::Aggregator, [ChildRef::Switch(shared)]) => self.below[*shared].len(),
            (_, below) => below.len(),
        };
        let node = Node {
            job,
            epoch,
            key,
            base: site.first_slot,
            slots,
            children: contributors as u8,
            workers,
            world: self.workers.len() as u16,
            group: site.first_group,
            parent: above,
            shift: None,
            bounded_loss: site.limits.bounded_loss,
            owners: site.limits.owners,
        };
        Ok(SwitchPlan { depth, slot_use, node, children, ports, groups })
    }

    fn slot_use(&self, switch: usize) -> SlotUse {
        let shares = |below: &ChildRef| match *below {
            ChildRef::Switch(below) => self.sites[below].shared.is_some(),
            ChildRef::Worker(_) => false,
        };
        if self.sites[switch].shared.is_some() {
            SlotUse::Shared
        } else if self.below[switch].iter().any(shares) {
            SlotUse::Aggregator
        } else {
            SlotUse::Own
        }
    }

    /// The lowest and the highest rank of the workers behind a child.
    fn ranks_behind(&self, child: ChildRef) -> Option<(u16, u16)> {
        match child {
            ChildRef::Worker(rank) => Some((rank as u16, rank as u16)),
            ChildRef::Switch(switch) => {
                let behind = self.below[switch].iter().filter_map(|child| self.ranks_behind(*child));
                behind.reduce(|(first, last), (low, high)| (first.min(low), last.max(high)))
            }
        }
    }

    fn check(&self, switch: usize, children: usize, has_parent: bool) -> Result<(), TreeError> {
        let Site { limits, first_slot: first, first_port, first_group, .. } = self.sites[switch].clone();
        if children == 0 || children > CHILDREN_MAX {
            return Err(TreeError::Children { switch, children });
        }
        let (slots, capacity) = (self.job.slots, limits.slots);
        let within = first.checked_add(slots).is_some_and(|end| end <= capacity);
        if !slots.is_power_of_two() || slots > 1 << 15 || first % slots != 0 || !within {
            return Err(TreeError::Slots { switch, first, slots, capacity });
        }
        // A port has an instance one above its number.
        let free = usize::from(limits.ports_max.min(u16::MAX - 1).saturating_sub(first_port));
        let need = children + usize::from(has_parent);
        if free < need {
            return Err(TreeError::Short { switch, what: "ports", free, need });
        }
        let free = if first_group == 0 {
            0
        } else {
            (usize::from(limits.groups_max) + 1).saturating_sub(first_group.into())
        };
        let need = 1 + usize::from(has_parent);
        if free < need {
            Err(TreeError::Short { switch, what: "multicast groups", free, need })
        } else {
            Ok(())
        }
    }

    /// The source address by which the pipeline identifies a peer; 0 where it does not see it.
    fn source(&self, switch: usize, port: u16, peer: Option<SocketAddr>) -> Result<u32, TreeError> {
        match peer.map(|peer| peer.ip()) {
            _ if !self.sites[switch].limits.sees_source => Ok(0),
            Some(IpAddr::V4(address)) => Ok(address.to_bits()),
            _ => Err(TreeError::Source { switch, port }),
        }
    }
}
