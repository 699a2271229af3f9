//! What jobs share at all switches of a control plane: slot ranges, ports, multicast groups, job numbers, epochs and keys.
//!
//! A [`Fleet`] records what is free at each switch. A [`Route`] chooses which switches a tree of a job is to use; the fleet
//! takes what the tree needs at each of them, all or nothing.

mod shortage;

pub(crate) use shortage::cannot_authenticate;
pub use shortage::{NoRoute, Shortage};

use crate::driver::Limits;
use crate::endpoints::overlapping;
use crate::policy::portion;
use crate::record::PlaceRecord;
use crate::route::{
    self, ChosenTree, Edge, LinkState, NetworkState, RouteError, RouteRequest, SwitchAvailability,
    SwitchState,
};
use crate::slots::{SlotAllocator, SlotRange};
use crate::ticket::TicketKey;
use crate::topology::{Link, Member, SwitchId, Topology};
use crate::tree::{Shape, Site, SwitchPlan, TreeError, TreeJob, TreePlan};
use bitvec::vec::BitVec;
use netfold_control::{Numerics, Refusal};
use netfold_p4::profile::entries_of_job;
use netfold_wire::header;
use rand::RngExt;
use rand::rngs::StdRng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// A switch, as described to the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchInfo {
    /// Its name, unique in the fleet.
    pub name: String,
    /// What is shared out of it.
    pub limits: Limits,
    /// How it folds lanes.
    pub numerics: Numerics,
    /// Where packets for it go and its own come from; `None`: the address of the control port.
    pub data: Option<SocketAddr>,
    /// Its role, for people.
    pub role: String,
    /// What kind of switch it is, for people.
    pub kind: String,
    /// Where it is controlled, for people.
    pub control: String,
}

impl SwitchInfo {
    /// A switch that is its own control plane.
    pub fn own(limits: Limits, numerics: Numerics) -> Self {
        let none = String::new;
        Self {
            name: "switch".into(),
            limits,
            numerics,
            data: None,
            role: none(),
            kind: none(),
            control: none(),
        }
    }
}

/// A link between two switches, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkInfo {
    /// One end, by its place in the fleet.
    pub a: usize,
    /// The other.
    pub b: usize,
    /// Bits a second, if that is known.
    pub rate: Option<u64>,
}

/// The links of a topology, whose switches are the fleet's.
pub fn links(topology: &Topology) -> Vec<LinkInfo> {
    let info = |link: &Link| LinkInfo {
        a: link.ends[0].switch.index(),
        b: link.ends[1].switch.index(),
        rate: Some(link.rate_bps),
    };
    topology.links().iter().map(info).collect()
}

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
}

impl TreeRequest<'_> {
    /// Whether packets of so many lane words are known to reach all members.
    fn carries(&self, lane_words: u32) -> bool {
        let tag = if self.authenticated { netfold_wire::TAG_LEN } else { 0 };
        u64::from(self.datagram_max) >= (header::LEN + tag) as u64 + u64::from(lane_words) * 4
    }
}

/// How many slots a tree is to be given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// At most, a power of two.
    pub(crate) most: u32,
    /// At least, a power of two.
    pub(crate) fewest: u32,
    /// Of the free slots of a switch at most one in so many, unless that is less than [`Self::fewest`].
    pub(crate) of_free: u32,
    /// Slots that are about to be free, by the number of the switch: [`Self::of_free`] counts them as free. None at switches beyond its length.
    pub(crate) leaving: &'a [u32],
}

/// What there is at the moment.
#[derive(Debug, Clone, Copy)]
pub struct Loads<'a> {
    /// Of each switch of the fleet.
    pub switches: &'a [SwitchState],
    /// Trees over each link of the fleet.
    pub links: &'a [u64],
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
        let links = self.links().iter().zip(loads.links);
        let links = links.map(|(link, load)| LinkState { up: up(link), load: *load });
        let network = NetworkState { switches: loads.switches.to_vec(), links: links.collect() };
        let members = members?;
        let request = RouteRequest {
            tree: request.tree,
            numerics: Some(request.numerics),
            siblings: request.siblings,
            ..RouteRequest::new(&members, request.slots)
        };
        route::choose(self, &network, &request).map_err(|error| {
            let down = |switch: &SwitchState| switch.availability == SwitchAvailability::Down;
            let reason = match error {
                // The switches that are down may be those that lead to all workers.
                RouteError::Path { .. } if network.switches.iter().any(down) => Refusal::Unavailable,
                _ => error.refusal(),
            };
            NoRoute { reason, message: error.to_string() }
        })
    }

    fn recall(&mut self, switches: Vec<SwitchId>, shape: Shape) -> ChosenTree {
        let above = shape.above.iter().enumerate();
        let edges = above.filter_map(|(child, parent)| {
            let parent = (*parent)?;
            let link = self.links_between(switches[child], switches[parent]).next()?;
            Some(Edge { child, parent, link })
        });
        ChosenTree { edges: edges.collect(), planes: vec![0; shape.workers.len()], switches, shape }
    }

    fn host_name(&self, address: IpAddr) -> Option<&str> {
        Some(&self.host(self.host_of(address)?).name)
    }
}

/// Everything that a tree of a job is given, apart from its first chunk number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The switches, by their place in the fleet; the plan numbers them in this order.
    pub switches: Vec<usize>,
    /// Who hangs where, over which links.
    pub chosen: ChosenTree,
    /// What it holds at each switch.
    pub sites: Vec<Site>,
    /// Where each rank sends from.
    pub members: Vec<SocketAddr>,
    /// What each switch must know.
    pub plan: TreePlan,
}

impl Placement {
    /// Who hangs where.
    pub fn shape(&self) -> &Shape {
        &self.chosen.shape
    }

    /// Number, epoch, key and slots.
    pub fn job(&self) -> &TreeJob {
        self.plan.job()
    }
}

/// The ranges of slots that a placement holds: their owner must return them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HeldRanges(Vec<SlotRange>);

struct Switch {
    info: SwitchInfo,
    /// Why it is down; `None` while it is up.
    down: Option<String>,
    drained: bool,
    slots: SlotAllocator,
    ports: BitVec,
    groups: BitVec,
    /// Entries of the job table that jobs hold.
    entries: u32,
}

impl Switch {
    fn entries_free(&self) -> u32 {
        self.info.limits.entries.saturating_sub(self.entries)
    }
}

/// Slots whose packets of `lane_words` words hold about as many bytes as `slots` packets of the shortest that the switches have: a power of two.
fn of_length(slots: u32, shortest: u32, lane_words: u32) -> u32 {
    let bytes = u64::from(slots) * u64::from(shortest);
    let of_them = bytes.div_ceil(u64::from(lane_words.max(1))).next_power_of_two();
    u32::try_from(of_them).map_or(slots, |of_them| of_them.min(slots))
}

/// Entries of the job table that a job holds at a switch.
fn entries_of(limits: &Limits, place: &SwitchPlan) -> u32 {
    entries_of_job(place.children.len() as u32, place.node.parent.is_some(), limits.bounded_loss)
}

/// Allocator of all that jobs share.
pub struct Fleet {
    switches: Vec<Switch>,
    links: Vec<LinkInfo>,
    /// Trees over each link.
    loads: Vec<u64>,
    route: Box<dyn Route>,
    jobs: BTreeSet<u16>,
    peers: BTreeMap<SocketAddr, u8>,
    job_last: u16,
    /// `None` when 2^32 is reached.
    epoch_next: Option<u32>,
    keys: StdRng,
}

impl Fleet {
    /// The switches of a control plane, all up and empty. Job keys are drawn from `keys`, which must be unpredictable.
    pub fn new(switches: Vec<SwitchInfo>, route: Box<dyn Route>, epoch_floor: u32, keys: StdRng) -> Self {
        let switch = |info: SwitchInfo| Switch {
            slots: SlotAllocator::new(info.limits.slots),
            ports: BitVec::repeat(false, usize::from(info.limits.ports_max)),
            groups: BitVec::repeat(false, usize::from(info.limits.groups_max)),
            entries: 0,
            down: None,
            drained: false,
            info,
        };
        Self {
            switches: switches.into_iter().map(switch).collect(),
            links: Vec::new(),
            loads: Vec::new(),
            route,
            jobs: BTreeSet::new(),
            peers: BTreeMap::new(),
            job_last: 0,
            epoch_next: Some(epoch_floor),
            keys,
        }
    }

    /// The same switches, none of which has been reached yet.
    #[must_use]
    pub fn unreached(mut self) -> Self {
        self.switches.iter_mut().for_each(|switch| switch.down = Some("not reached yet".into()));
        self
    }

    /// The same switches, linked like this: the links that its [`Route`] knows, in its order.
    #[must_use]
    pub fn linked(mut self, links: Vec<LinkInfo>) -> Self {
        self.loads = vec![0; links.len()];
        self.links = links;
        self
    }

    /// The links, and how many trees go over each.
    pub(crate) fn links(&self) -> impl Iterator<Item = (&LinkInfo, u64)> {
        self.links.iter().zip(self.loads.iter().copied())
    }

    /// The name of the host that has an address, where hosts have names.
    pub(crate) fn host_name(&self, address: IpAddr) -> Option<&str> {
        self.route.host_name(address)
    }

    /// Bits a second of a link, if that is known.
    pub(crate) fn link_rate(&self, link: usize) -> Option<u64> {
        self.links.get(link)?.rate
    }

    /// Switches.
    pub fn len(&self) -> usize {
        self.switches.len()
    }

    /// Whether there is no switch at all.
    pub fn is_empty(&self) -> bool {
        self.switches.is_empty()
    }

    /// The description of a switch.
    pub fn info(&self, switch: usize) -> &SwitchInfo {
        &self.switches[switch].info
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.switches.iter().position(|switch| switch.info.name == name)
    }

    pub(crate) fn down(&self, switch: usize) -> Option<&str> {
        self.switches[switch].down.as_deref()
    }

    pub(crate) fn set_down(&mut self, switch: usize, why: Option<String>) {
        self.switches[switch].down = why;
    }

    /// A switch has reported where its packets go.
    pub(crate) fn set_data(&mut self, switch: usize, data: SocketAddr) {
        self.switches[switch].info.data = Some(data);
    }

    pub(crate) fn is_drained(&self, switch: usize) -> bool {
        self.switches[switch].drained
    }

    pub(crate) fn set_drained(&mut self, switch: usize, drained: bool) {
        self.switches[switch].drained = drained;
    }

    /// The next epoch that will be used.
    pub fn epoch_next(&self) -> u32 {
        self.epoch_next.unwrap_or(u32::MAX)
    }

    pub(crate) fn raise_epoch(&mut self, least: u32) {
        self.epoch_next = self.epoch_next.map(|next| next.max(least));
    }

    /// Most workers that a job may have.
    pub(crate) fn world_max(&self) -> usize {
        match &self.switches[..] {
            [one] => netfold_wire::CHILDREN_MAX.min(usize::from(one.info.limits.ports_max)),
            _ => self.route.world_max().into(),
        }
    }

    /// How the switches fold lanes; `None` where they differ.
    pub(crate) fn numerics(&self) -> Option<Numerics> {
        let mut all = self.switches.iter().map(|switch| switch.info.numerics);
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    }

    /// Whether there is a switch that authenticates packets.
    pub(crate) fn authenticates(&self) -> bool {
        self.switches.iter().any(|switch| switch.info.limits.authenticates)
    }

    pub(crate) fn folds(&self, numerics: Numerics) -> bool {
        self.switches.iter().any(|switch| switch.info.numerics == numerics)
    }

    /// Used and all of slots, ports and groups.
    pub(crate) fn used(&self, switch: usize) -> [(u32, u32); 3] {
        let Switch { slots, ports, groups, .. } = &self.switches[switch];
        [
            (slots.capacity() - slots.free_slots(), slots.capacity()),
            (ports.count_ones() as u32, ports.len() as u32),
            (groups.count_ones() as u32, groups.len() as u32),
        ]
    }

    /// Whether workers may send from several UDP ports, to whichever switch.
    pub(crate) fn has_multipath(&self) -> bool {
        self.switches.iter().all(|switch| switch.info.limits.multipath)
    }

    /// Entries of a switch's job table: those in use and all.
    pub(crate) fn entries_used(&self, switch: usize) -> (u32, u32) {
        (self.switches[switch].entries, self.switches[switch].info.limits.entries)
    }

    /// A new key for the resume tickets of a place.
    pub(crate) fn ticket_key(&mut self) -> TicketKey {
        TicketKey::generate(&mut self.keys)
    }

    /// Reserves a place for a tree of a job, all or nothing: at least the slots of the request, unless it is to have fewer. The keys of
    /// authenticated packets are derived from `secret`.
    pub(crate) fn reserve(
        &mut self,
        request: &TreeRequest<'_>,
        wanted: Wanted<'_>,
        secret: &TicketKey,
    ) -> Result<(Placement, HeldRanges), Shortage> {
        if let Some(peer) = self.held_peer(request.members, request.udp_ports) {
            return Err(Shortage::Address(peer));
        }
        let chosen = self.choose(request, |switch| switch.slots.largest(u32::MAX, 1).unwrap_or(0))?;
        let number = self.free_job().ok_or_else(|| Shortage::Groups("the control plane".into()))?;
        let epoch = self.epoch_next.ok_or(Shortage::Epochs)?;
        let slots = self.largest(&chosen, wanted, request.slots)?;
        let sites = self.sites(&chosen, slots)?;
        let job = TreeJob {
            job: number,
            epoch,
            key: self.keys.random_range(1..=u32::MAX),
            slots,
            udp_ports: request.udp_ports,
        };
        let members = request.members.to_vec();
        let secret = request.authenticated.then_some(secret);
        let placement = place(job, chosen, sites, members, request.numerics, secret)?;
        let ranges = self.take(&placement).ok_or_else(|| Shortage::Slots {
            switch: self.info(placement.switches[0]).name.clone(),
            least: slots,
            free: 0,
            capacity: 0,
        })?;
        self.epoch_next = epoch.checked_add(1);
        self.job_last = number;
        Ok((placement, ranges))
    }

    /// The switches of the tree that would be chosen if no slot were taken.
    pub(crate) fn tree_if_empty(&mut self, request: &TreeRequest<'_>) -> Option<Vec<usize>> {
        let chosen = self.choose(request, |switch| switch.slots.capacity()).ok()?;
        Some(chosen.switches.iter().map(|switch| switch.index()).collect())
    }

    /// Takes the place of a record again, as it was before a restart. `None` when the switches are others than they were.
    pub(crate) fn restore(&mut self, record: &PlaceRecord) -> Option<(Placement, HeldRanges)> {
        let switch = |name: &String| self.find(name).map(|switch| SwitchId(switch as u16));
        let switches: Option<Vec<SwitchId>> = record.switches.iter().map(switch).collect();
        let switches = switches?;
        if record.shape.above.len() != switches.len() || record.shape.depths().is_err() {
            return None;
        }
        let chosen = self.route.recall(switches, record.shape.clone());
        let job = TreeJob {
            job: record.number,
            epoch: record.epoch,
            key: record.key,
            slots: record.slots,
            udp_ports: record.spec.udp_ports,
        };
        if job.job == 0 || self.jobs.contains(&job.job) || record.sites.len() != chosen.switches.len() {
            return None;
        }
        let fits = chosen
            .switches
            .iter()
            .zip(&record.sites)
            // What was known of switches before they had several UDP ports for a peer says nothing of it.
            .all(|(at, site)| {
                let limits = self.info(at.index()).limits;
                limits == Limits { multipath: limits.multipath, ..site.limits }
            });
        if !fits || self.held_peer(&record.members, record.spec.udp_ports).is_some() {
            return None;
        }
        let numerics = self.info(chosen.switches.first()?.index()).numerics;
        let secret = record.spec.authenticated.then_some(&record.ticket_key);
        let (sites, members) = (record.sites.clone(), record.members.clone());
        let placement = place(job, chosen, sites, members, numerics, secret).ok()?;
        let ranges = self.take(&placement)?;
        self.raise_epoch(record.epoch.saturating_add(1));
        self.job_last = self.job_last.max(record.number);
        Some((placement, ranges))
    }

    /// Chooses switches, each of which counts for as many free slots as `slots_free` says.
    fn choose(
        &mut self,
        request: &TreeRequest<'_>,
        slots_free: impl Fn(&Switch) -> u32,
    ) -> Result<ChosenTree, Shortage> {
        let unfit = |info: &SwitchInfo| request.authenticated && !info.limits.authenticates;
        let state = |switch: &Switch| SwitchState {
            availability: match (&switch.down, switch.drained) {
                _ if unfit(&switch.info) => SwitchAvailability::Down,
                (Some(_), _) => SwitchAvailability::Down,
                (None, true) => SwitchAvailability::Draining,
                (None, false) => SwitchAvailability::Up,
            },
            slots_free: slots_free(switch),
            ports_free: switch.ports.count_zeros(),
            groups_free: switch.groups.count_zeros(),
            numerics: switch.info.numerics,
            lane_words: switch.info.limits.lane_words,
        };
        let states: Vec<SwitchState> = self.switches.iter().map(state).collect();
        // Members know their paths to the control port: those to switches elsewhere are others.
        let own = self.switches.iter().all(|switch| switch.info.data.is_none());
        let request = &TreeRequest { datagram_max: if own { request.datagram_max } else { 0 }, ..*request };
        let chosen = self.route.choose(request, &Loads { switches: &states, links: &self.loads });
        let chosen = chosen.map_err(|none| {
            // To the route, a switch that does not authenticate packets is down.
            let is_down = self.switches.iter().any(|switch| switch.down.is_some());
            let unfit = self.switches.iter().find(|switch| unfit(&switch.info)).filter(|_| !is_down);
            match unfit.filter(|_| none.reason == Refusal::Unavailable) {
                Some(switch) => NoRoute {
                    reason: Refusal::Authentication,
                    message: cannot_authenticate(&self.called(&switch.info.name)),
                },
                None => none,
            }
        })?;
        for switch in &chosen.switches {
            let Switch { info, down, drained, .. } = &self.switches[switch.index()];
            if unfit(info) {
                let message = cannot_authenticate(&self.called(&info.name));
                return Err(NoRoute { reason: Refusal::Authentication, message }.into());
            }
            let message = match down {
                Some(why) => format!("switch '{}' is down ({why}): start it, or wait for it", info.name),
                None if *drained => format!("switch '{}' is drained: undrain it, or use another", info.name),
                None => continue,
            };
            return Err(NoRoute { reason: Refusal::Unavailable, message }.into());
        }
        Ok(chosen)
    }

    /// The largest power of two of slots that every switch has an aligned range of.
    fn largest(&self, chosen: &ChosenTree, wanted: Wanted<'_>, least: u32) -> Result<u32, Shortage> {
        let mut slots = wanted.most;
        let shortest = self.switches.iter().map(|switch| switch.info.limits.lane_words).min().unwrap_or(0);
        for switch in &chosen.switches {
            let Switch { slots: free, info, .. } = &self.switches[switch.index()];
            slots = of_length(slots, shortest, info.limits.lane_words).max(wanted.fewest.min(slots));
            let leaving = wanted.leaving.get(switch.index()).copied().unwrap_or(0);
            let available = free.free_slots().saturating_add(leaving);
            slots = portion(slots, wanted.fewest, available, wanted.of_free);
            let least = least.min(slots);
            slots = free.largest(slots, least).ok_or_else(|| Shortage::Slots {
                switch: self.called(&info.name),
                least,
                free: free.free_slots(),
                capacity: free.capacity(),
            })?;
        }
        Ok(slots)
    }

    /// A switch's name as messages have it.
    fn called(&self, name: &str) -> String {
        if self.switches.len() == 1 { "the switch".into() } else { format!("switch '{name}'") }
    }

    /// Where a tree fits at each switch: nothing is taken yet.
    fn sites(&self, chosen: &ChosenTree, slots: u32) -> Result<Vec<Site>, Shortage> {
        let mut children = vec![0_usize; chosen.switches.len()];
        chosen.shape.workers.iter().for_each(|leaf| children[*leaf] += 1);
        chosen.shape.above.iter().flatten().for_each(|above| children[*above] += 1);
        let mut sites = Vec::with_capacity(chosen.switches.len());
        for (index, switch) in chosen.switches.iter().enumerate() {
            let at = &self.switches[switch.index()];
            let Switch { info, slots: free, ports, groups, .. } = at;
            let name = || self.called(&info.name);
            let has_parent = usize::from(chosen.shape.above[index].is_some());
            let need = entries_of_job(children[index] as u32, has_parent > 0, info.limits.bounded_loss);
            if need > at.entries_free() {
                return Err(Shortage::Entries { switch: name(), free: at.entries_free(), need });
            }
            let need = children[index] + has_parent;
            let first_port = run(ports, need).ok_or_else(|| Shortage::Ports {
                switch: name(),
                free: ports.count_zeros(),
                need,
            })?;
            let first_group = run(groups, 1 + has_parent).ok_or_else(|| Shortage::Groups(name()))? + 1;
            let first_slot = free.first_fit(slots).ok_or_else(|| Shortage::Slots {
                switch: name(),
                least: slots,
                free: free.free_slots(),
                capacity: free.capacity(),
            })?;
            sites.push(Site {
                limits: info.limits,
                address: info.data,
                first_slot,
                first_port: first_port as u16,
                first_group: first_group as u16,
            });
        }
        Ok(sites)
    }

    /// One of the bound peers that has UDP ports of one of these.
    fn held_peer(&self, members: &[SocketAddr], udp_ports: u8) -> Option<SocketAddr> {
        members.iter().find_map(|peer| overlapping(&self.peers, (*peer, udp_ports), |count| *count))
    }

    /// Takes all that a placement says, or nothing.
    fn take(&mut self, placement: &Placement) -> Option<HeldRanges> {
        let mut ranges = Vec::with_capacity(placement.switches.len());
        for (&switch, site) in placement.switches.iter().zip(&placement.sites) {
            match self.switches[switch].slots.take(site.first_slot, placement.job().slots) {
                Some(range) => ranges.push(range),
                None => {
                    let taken = placement.switches.iter().zip(ranges);
                    taken.for_each(|(at, range)| self.switches[*at].slots.free(range));
                    return None;
                }
            }
        }
        for (&switch, place) in placement.switches.iter().zip(placement.plan.switch_plans()) {
            let Switch { info, ports, groups, entries, .. } = &mut self.switches[switch];
            *entries = entries.saturating_add(entries_of(&info.limits, place));
            place.ports.iter().for_each(|at| ports.set(usize::from(at.port), true));
            place.groups.iter().for_each(|group| groups.set(usize::from(group.group) - 1, true));
        }
        for edge in &placement.chosen.edges {
            self.loads[edge.link.index()] += 1;
        }
        self.jobs.insert(placement.job().job);
        let udp_ports = placement.job().udp_ports;
        self.peers.extend(placement.members.iter().map(|peer| (*peer, udp_ports)));
        Some(HeldRanges(ranges))
    }

    /// Frees one worker's port and endpoint.
    pub(crate) fn release_member(&mut self, placement: &Placement, rank: u16) {
        let (at, port) = placement.plan.workers()[usize::from(rank)];
        self.switches[placement.switches[at]].ports.set(usize::from(port), false);
        self.peers.remove(&placement.members[usize::from(rank)]);
    }

    /// Frees all that a placement holds, but for the ports and endpoints of the ranks in `released`, which are free already.
    pub(crate) fn release(&mut self, placement: &Placement, ranges: HeldRanges, released: &BTreeSet<u16>) {
        for (&switch, range) in placement.switches.iter().zip(ranges.0) {
            self.switches[switch].slots.free(range);
        }
        let gone: BTreeSet<(usize, u16)> =
            released.iter().map(|rank| placement.plan.workers()[usize::from(*rank)]).collect();
        for (index, (&switch, place)) in
            placement.switches.iter().zip(placement.plan.switch_plans()).enumerate()
        {
            let Switch { info, ports, groups, entries, .. } = &mut self.switches[switch];
            *entries = entries.saturating_sub(entries_of(&info.limits, place));
            let held = place.ports.iter().filter(|at| !gone.contains(&(index, at.port)));
            held.for_each(|at| ports.set(usize::from(at.port), false));
            place.groups.iter().for_each(|group| groups.set(usize::from(group.group) - 1, false));
        }
        for (rank, peer) in placement.members.iter().enumerate() {
            if !released.contains(&(rank as u16)) {
                self.peers.remove(peer);
            }
        }
        for edge in &placement.chosen.edges {
            self.loads[edge.link.index()] -= 1;
        }
        self.jobs.remove(&placement.job().job);
    }

    /// The next unused job number after the last one given, so that a number comes back as late as possible.
    fn free_job(&self) -> Option<u16> {
        let all = 1..=u16::MAX;
        let after = all.clone().filter(|job| *job > self.job_last);
        after.chain(all).find(|job| !self.jobs.contains(job))
    }

    /// Whether nothing is held.
    pub(crate) fn is_unused(&self) -> bool {
        let unused = |switch: &Switch| {
            switch.slots.free_slots() == switch.slots.capacity()
                && switch.ports.not_any()
                && switch.groups.not_any()
                && switch.entries == 0
        };
        self.switches.iter().all(unused) && self.jobs.is_empty() && self.peers.is_empty()
    }
}

fn place(
    job: TreeJob,
    chosen: ChosenTree,
    sites: Vec<Site>,
    members: Vec<SocketAddr>,
    numerics: Numerics,
    packet_secret: Option<&TicketKey>,
) -> Result<Placement, TreeError> {
    let peers: Vec<Option<SocketAddr>> = members.iter().copied().map(Some).collect();
    let mut plan = TreePlan::new(job, &chosen.shape, &sites, &peers)?.with_numerics(numerics)?;
    if let Some(secret) = packet_secret {
        plan = plan.authenticated(&chosen.shape, secret);
    }
    let switches = chosen.switches.iter().map(|switch| switch.index()).collect();
    Ok(Placement { switches, chosen, sites, members, plan })
}

/// The first of `count` clear bits in a row.
fn run(bits: &BitVec, count: usize) -> Option<usize> {
    let mut free = 0;
    for (index, taken) in bits.iter().by_vals().enumerate() {
        free = if taken { 0 } else { free + 1 };
        if free == count {
            return Some(index + 1 - count);
        }
    }
    None
}

#[cfg(test)]
mod tests;
