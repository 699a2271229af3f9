//! What jobs share at all switches of a control plane: slot ranges, ports, multicast groups, job numbers, epochs and keys.
//!
//! A [`Fleet`] records what is free at each switch. A [`Route`] chooses which switches a tree of a job is to use; the fleet
//! takes what the tree needs at each of them, all or nothing.

mod selection;
mod sharing;
mod shortage;

pub use selection::{Loads, OneSwitch, Route, SharedBelow, TreeLoad, TreeRequest};
pub use sharing::{SharedAt, SharingDecision, UnusableAggregator};
pub(crate) use shortage::cannot_authenticate;
pub use shortage::{NoRoute, Shortage};

use crate::driver::Limits;
use crate::endpoints::overlapping;
use crate::policy::portion;
use crate::record::PlaceRecord;
use crate::route::{ChosenTree, SwitchAvailability, SwitchState};
use crate::slots::{SlotAllocator, SlotRange};
use crate::ticket::TicketKey;
use crate::topology::{Link, SwitchId, Topology};
use crate::tree::{Shape, Site, SwitchPlan, TreeError, TreeJob, TreePlan};
use bitvec::vec::BitVec;
use netfold_control::{Numerics, Refusal};
use netfold_p4::profile::entries_of_job;
use rand::RngExt;
use rand::rngs::StdRng;
use sharing::{OF_FREE_WITH_AGGREGATOR, Selection, Shared};
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
    /// Whether it may share slots with others, where switches have aggregators.
    pub(crate) may_share: bool,
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
    /// Whether it shares slots with others, and why; where jobs can share them. Of trees that had their place before a restart only if they share.
    pub sharing: Option<SharingDecision>,
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
pub(crate) struct HeldRanges(Vec<HeldRange>);

/// What a placement holds of a switch's slots.
#[derive(Debug, PartialEq, Eq)]
enum HeldRange {
    /// Slots of its own.
    Own(SlotRange),
    /// Part of the range that jobs share there: first slot and number of slots.
    Shared((u32, u32)),
}

struct Switch {
    info: SwitchInfo,
    /// Why it is down; `None` while it is up.
    down: Option<String>,
    drained: bool,
    slots: SlotAllocator,
    /// The range that jobs share, while there are such jobs.
    shared: Option<Shared>,
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
    /// Whether each link takes no more trees.
    drained: Vec<bool>,
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
            shared: None,
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
            drained: Vec::new(),
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
        self.drained = vec![false; links.len()];
        self.links = links;
        self
    }

    /// The links, and how many trees go over each.
    pub(crate) fn links(&self) -> impl Iterator<Item = (&LinkInfo, u64)> {
        self.links.iter().zip(self.loads.iter().copied())
    }

    /// All links between two switches, by number, in whichever order the switches are named; none if a name or a link is unknown.
    pub(crate) fn links_between(&self, a: &str, b: &str) -> Vec<usize> {
        let joins = |link: &LinkInfo| {
            let ends = [link.a, link.b].map(|end| self.switches[end].info.name.as_str());
            ends == [a, b] || ends == [b, a]
        };
        (0..self.links.len()).filter(|link| joins(&self.links[*link])).collect()
    }

    /// The names of the switches at the ends of a link.
    pub(crate) fn ends(&self, link: usize) -> [&str; 2] {
        [self.links[link].a, self.links[link].b].map(|end| self.switches[end].info.name.as_str())
    }

    pub(crate) fn is_link_drained(&self, link: usize) -> bool {
        self.drained.get(link).copied().unwrap_or(false)
    }

    /// Whether there is a link that takes no more trees.
    pub(crate) fn has_drained_links(&self) -> bool {
        self.drained.contains(&true)
    }

    pub(crate) fn set_link_drained(&mut self, link: usize, drained: bool) {
        self.drained[link] = drained;
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
        let shared = wanted.may_share.then(|| self.select_shared(request, wanted));
        let (selection, sites, decided) = match shared {
            Some(Ok((shared, sites, unusable))) => (shared, sites, Ok(unusable)),
            other => {
                let (own, sites) = self.select_own(request, wanted)?;
                (own, sites, Err(other.and_then(Result::err)))
            }
        };
        let number = self.free_job().ok_or_else(|| Shortage::Groups("the control plane".into()))?;
        let epoch = self.epoch_next.ok_or(Shortage::Epochs)?;
        let Selection { chosen, slots, .. } = selection;
        let job = TreeJob {
            job: number,
            epoch,
            key: self.keys.random_range(1..=u32::MAX),
            slots,
            udp_ports: request.udp_ports,
        };
        let members = request.members.to_vec();
        let secret = request.authenticated.then_some(secret);
        let mut placement = place(job, chosen, sites, members, request.numerics, secret)?;
        placement.sharing = decided.map_or_else(|why| why, |out| self.where_shared(&placement, out));
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

    /// Where a tree has slots of its own, and where each site is.
    fn select_own(
        &mut self,
        request: &TreeRequest<'_>,
        wanted: Wanted<'_>,
    ) -> Result<(Selection, Vec<Site>), Shortage> {
        let chosen = self.choose(request, |_, switch| largest_range(switch), None)?;
        let slots = self.largest(&chosen, wanted, request.slots)?;
        let own = Selection { shared: vec![None; chosen.switches.len()], chosen, slots };
        let sites = self.sites(&own)?;
        Ok((own, sites))
    }

    /// The switches of the tree that would be chosen if no slot were taken.
    pub(crate) fn tree_if_empty(&mut self, request: &TreeRequest<'_>) -> Option<Vec<usize>> {
        let chosen = self.choose(request, |_, switch| switch.slots.capacity(), None).ok()?;
        Some(chosen.switches.iter().map(|switch| switch.index()).collect())
    }

    /// The tree that would be chosen if what `own` holds were free.
    ///
    /// # Errors
    /// [`Shortage`] if there is none.
    pub(crate) fn tree_instead_of(
        &mut self,
        own: &Placement,
        request: &TreeRequest<'_>,
    ) -> Result<ChosenTree, Shortage> {
        self.choose(request, |_, switch| largest_range(switch), Some(own))
    }

    /// Takes the place of a record again, as it was before a restart. `None` when the switches are others than they were.
    pub(crate) fn restore(&mut self, record: &PlaceRecord) -> Option<(Placement, HeldRanges)> {
        let switch = |name: &String| self.find(name).map(|switch| SwitchId(switch as u16));
        let switches: Option<Vec<SwitchId>> = record.switches.iter().map(switch).collect();
        let switches = switches?;
        if record.shape.above.len() != switches.len() || record.shape.depths().is_err() {
            return None;
        }
        if !self.can_share_again(&switches, record) {
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
        let mut placement = place(job, chosen, sites, members, numerics, secret).ok()?;
        placement.sharing = self.where_shared(&placement, Vec::new());
        let ranges = self.take(&placement)?;
        self.raise_epoch(record.epoch.saturating_add(1));
        self.job_last = self.job_last.max(record.number);
        Some((placement, ranges))
    }

    /// Chooses switches, each of which counts for as many free slots as `slots_free` says. What `own` holds counts as free.
    fn choose(
        &mut self,
        request: &TreeRequest<'_>,
        slots_free: impl Fn(usize, &Switch) -> u32,
        own: Option<&Placement>,
    ) -> Result<ChosenTree, Shortage> {
        let unfit = |info: &SwitchInfo| request.authenticated && !info.limits.authenticates;
        let own_at = |switch: usize| {
            let own = own?;
            let at = own.switches.iter().position(|held| *held == switch)?;
            Some((own.job().slots, own.plan.switch_plans().get(at)?))
        };
        let state = |(number, switch): (usize, &Switch)| SwitchState {
            availability: match (&switch.down, switch.drained) {
                _ if unfit(&switch.info) => SwitchAvailability::Down,
                (Some(_), _) => SwitchAvailability::Down,
                (None, true) => SwitchAvailability::Draining,
                (None, false) => SwitchAvailability::Up,
            },
            slots_free: slots_free(number, switch),
            ports_free: switch.ports.count_zeros(),
            groups_free: switch.groups.count_zeros(),
            numerics: switch.info.numerics,
            lane_words: switch.info.limits.lane_words,
        };
        let mut states: Vec<SwitchState> = self.switches.iter().enumerate().map(state).collect();
        for (switch, state) in states.iter_mut().enumerate() {
            if let Some((slots, plan)) = own_at(switch) {
                state.slots_free = state.slots_free.max(slots);
                state.ports_free += plan.ports.len();
                state.groups_free += plan.groups.len();
            }
        }
        // Members know their paths to the control port: those to switches elsewhere are others.
        let own = self.switches.iter().all(|switch| switch.info.data.is_none());
        let request = &TreeRequest { datagram_max: if own { request.datagram_max } else { 0 }, ..*request };
        let links = match request.load {
            TreeLoad::Trees => &self.loads[..],
            TreeLoad::Demand { links, .. } => links,
        };
        let loads = Loads { switches: &states, links, drained: &self.drained };
        let chosen = self.route.choose(request, &loads);
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
        chosen.switches.iter().try_fold(wanted.most, |slots, at| self.largest_at(*at, slots, wanted, least))
    }

    /// The same at one switch, of at most so many slots.
    fn largest_at(
        &self,
        switch: SwitchId,
        slots: u32,
        wanted: Wanted<'_>,
        least: u32,
    ) -> Result<u32, Shortage> {
        let shortest = self.switches.iter().map(|switch| switch.info.limits.lane_words).min().unwrap_or(0);
        let Switch { slots: free, info, .. } = &self.switches[switch.index()];
        let slots = of_length(slots, shortest, info.limits.lane_words).max(wanted.fewest.min(slots));
        let leaving = wanted.leaving.get(switch.index()).copied().unwrap_or(0);
        let available = free.free_slots().saturating_add(leaving);
        let shares = wanted.may_share && self.route.shared_below(switch).is_some();
        let of_free = if shares { OF_FREE_WITH_AGGREGATOR } else { wanted.of_free };
        let slots = portion(slots, wanted.fewest, available, of_free);
        let least = least.min(slots);
        free.largest(slots, least).ok_or_else(|| Shortage::Slots {
            switch: self.called(&info.name),
            least,
            free: free.free_slots(),
            capacity: free.capacity(),
        })
    }

    /// A switch's name as messages have it.
    fn called(&self, name: &str) -> String {
        if self.switches.len() == 1 { "the switch".into() } else { format!("switch '{name}'") }
    }

    /// Where a tree fits at each switch: nothing is taken yet.
    fn sites(&self, selection: &Selection) -> Result<Vec<Site>, Shortage> {
        let Selection { chosen, slots, shared } = selection;
        let slots = *slots;
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
            let shared = shared[index];
            let fit = shared.map(|(_, first)| first).or_else(|| free.first_fit(slots));
            let first_slot = fit.ok_or_else(|| Shortage::Slots {
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
                shared: shared.map(|(range, _)| range),
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
            let (at, slots) = (&mut self.switches[switch], placement.job().slots);
            let held = match site.shared {
                Some(range) => at.share(range, (site.first_slot, slots)),
                None => at.slots.take(site.first_slot, slots).map(HeldRange::Own),
            };
            match held {
                Some(range) => ranges.push(range),
                None => {
                    let taken = placement.switches.iter().zip(ranges);
                    taken.for_each(|(at, range)| self.switches[*at].give_back(range));
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
            self.switches[switch].give_back(range);
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
    Ok(Placement { switches, chosen, sites, members, plan, sharing: None })
}

/// Slots of the largest range of a switch that is free.
fn largest_range(switch: &Switch) -> u32 {
    switch.slots.largest(u32::MAX, 1).unwrap_or(0)
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
