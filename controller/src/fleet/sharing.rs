//! Slots of a switch that best-effort jobs share, below an aggregator that has slots for each of them.
//!
//! A job has slots of its own if as many as it asks for are free and half of the switch's are left for jobs that share. Otherwise it shares: the first
//! such job takes the largest range that is free, and the last one returns it. Of that range each job uses an aligned part, of as many slots as it asks for,
//! where the fewest others are. A job that can do neither is given half of what is free at most.
//!
//! That is decided for each switch of a job's tree. Where the job shares slots, the aggregator becomes the parent of the switch, and the child of what
//! was its parent.

use super::{
    Fleet, HeldRange, LinkInfo, NoRoute, Placement, SharedBelow, Shortage, Switch, TreeRequest, Wanted,
    largest_range, run,
};
use crate::record::PlaceRecord;
use crate::route::{ChosenTree, Edge};
use crate::slots::SlotRange;
use crate::topology::{LinkId, SwitchId};
use crate::tree::{Shape, SharedRange, Site, SlotUse};
use netfold_control::Refusal;
use netfold_p4::profile::entries_of_job;
use std::collections::BTreeMap;
use std::fmt;

/// Most slots of a range that jobs share: as many as a packet can name.
const SHARED_MAX: u32 = 1 << 15;

/// Where a switch has an aggregator, a job has at most one in so many of the free slots for itself, so that later ones find some, whether they can share or
/// not.
pub(super) const OF_FREE_WITH_AGGREGATOR: u32 = 2;

/// Whether a tree shares slots with others, and why: where jobs can share them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SharingDecision {
    /// It shares those of some switches. At others it has slots of its own.
    Shares {
        /// Where.
        at: Vec<SharedAt>,
        /// Switches with slots of its own, aggregators apart.
        own: Vec<String>,
        /// Those of them where it does not share because of the aggregator.
        unusable: Vec<UnusableAggregator>,
    },
    /// At each switch as many as it asks for are free, and half of the switch's are left.
    Own {
        /// The switches.
        switches: Vec<String>,
    },
    /// It does not, because its packets are authenticated.
    Authenticated,
    /// It does not, because a switch names no aggregator.
    NoAggregator {
        /// The switch.
        switch: String,
    },
    /// It does not, because aggregators cannot be used, or have no room.
    AggregatorsUnusable(Vec<UnusableAggregator>),
    /// It does not, because nothing of a switch is left that could be shared.
    NothingFree {
        /// The switch.
        switch: String,
    },
    /// It has no place.
    NoPlace,
}

/// A switch whose slots a tree shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedAt {
    /// The switch.
    pub switch: String,
    /// Its aggregator.
    pub aggregator: String,
}

/// An aggregator below which a tree cannot share slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableAggregator {
    /// The switch whose slots could be shared.
    pub switch: String,
    /// The aggregator.
    pub aggregator: String,
    /// What is wrong with it.
    pub message: String,
    /// Whether that is so as long as the topology is the same.
    pub is_lasting: bool,
}

impl fmt::Display for UnusableAggregator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "aggregator '{}' cannot be used: {}", self.aggregator, self.message)
    }
}

impl fmt::Display for SharingDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shares { at, own, unusable } => {
                let at = joined(at.iter().map(|SharedAt { switch, aggregator }| {
                    format!("of '{switch}' below aggregator '{aggregator}'")
                }));
                write!(
                    f,
                    "shares slots {at}: as many as it asks for are not free there, or fewer than half of all would be left for jobs that share"
                )?;
                if !own.is_empty() {
                    write!(f, "; it has slots of its own at {}", quoted(own))?;
                }
                unusable.iter().try_for_each(|unusable| write!(f, "; {unusable}"))
            }
            Self::Own { switches } => write!(
                f,
                "has slots of its own at {}: as many as it asks for are free, and half of all are left for jobs that share",
                quoted(switches)
            ),
            Self::Authenticated => f.write_str(
                "shares no slots: its packets are authenticated, and no tags are defined for packets that are sent on to an aggregator",
            ),
            Self::NoAggregator { switch } => {
                write!(f, "shares no slots: switch '{switch}' names no aggregator in the topology")
            }
            Self::AggregatorsUnusable(all) => {
                let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                write!(f, "shares no slots: {}", all.join("; "))
            }
            Self::NothingFree { switch } => {
                write!(f, "shares no slots: all of switch '{switch}' are jobs' own")
            }
            Self::NoPlace => f.write_str("shares no slots: no switch leads to all of its workers"),
        }
    }
}

fn quoted(names: &[String]) -> String {
    joined(names.iter().map(|name| format!("'{name}'")))
}

/// `a, b and c`.
fn joined(all: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = all.collect();
    match all.pop() {
        Some(last) if all.is_empty() => last,
        Some(last) => format!("{} and {last}", all.join(", ")),
        None => String::new(),
    }
}

/// The range that jobs share at a switch.
pub(super) struct Shared {
    range: SlotRange,
    /// First slot and number of slots of each job that uses it.
    jobs: Vec<(u32, u32)>,
}

/// What is to be reserved.
pub(super) struct Selection {
    pub(super) chosen: ChosenTree,
    pub(super) slots: u32,
    /// The range that the job shares at each switch, and its first slot there.
    pub(super) shared: Vec<Option<(SharedRange, u32)>>,
}

/// Whose slots a tree uses at a switch.
#[derive(Debug, Clone)]
enum Part {
    /// As many of its own as it asks for.
    Own,
    /// Its own, as many as there are: for which reason it does not share.
    Limited(SharingDecision),
    /// Part of a range that jobs share, below an aggregator. The link by which that reaches the parent of the switch, if there is one.
    Shared { below: SharedBelow, range: SharedRange, up: Option<LinkId> },
}

impl Switch {
    /// Whether a job can have so many slots of its own, so that half of all are left for jobs that share.
    fn has_own(&self, slots: u32) -> bool {
        let shared = self.shared.as_ref().map_or(0, |shared| shared.range.slots());
        let held = self.slots.capacity() - self.slots.free_slots() - shared;
        let left = self.slots.capacity().saturating_sub(held).saturating_sub(slots);
        left >= self.slots.capacity() / 2 && self.slots.first_fit(slots).is_some()
    }

    /// The range that jobs share, or would share.
    fn shareable(&self) -> Option<SharedRange> {
        if let Some(Shared { range, .. }) = &self.shared {
            return Some(SharedRange { first_slot: range.first(), slots: range.slots() });
        }
        let slots = self.slots.largest(SHARED_MAX, 1)?;
        Some(SharedRange { first_slot: self.slots.first_fit(slots)?, slots })
    }

    /// The part of a range, of so many slots, that the fewest jobs use, counted by slots.
    fn least_shared(&self, range: SharedRange, slots: u32) -> u32 {
        let jobs = self.shared.as_ref().map_or(&[][..], |shared| &shared.jobs[..]);
        let common = |first: u32, (other, count): (u32, u32)| {
            (first + slots).min(other + count).saturating_sub(first.max(other))
        };
        let load = |first: &u32| jobs.iter().map(|job| u64::from(common(*first, *job))).sum::<u64>();
        let parts = (0..range.slots / slots).map(|part| range.first_slot + part * slots);
        parts.min_by_key(|first| (load(first), *first)).unwrap_or(range.first_slot)
    }

    /// Takes part in a range that jobs share; `None`, and nothing has changed, if it is not free, or other jobs share another.
    pub(super) fn share(&mut self, range: SharedRange, job: (u32, u32)) -> Option<HeldRange> {
        match &mut self.shared {
            Some(shared) => {
                if (shared.range.first(), shared.range.slots()) != (range.first_slot, range.slots) {
                    return None;
                }
                shared.jobs.push(job);
            }
            None => {
                let range = self.slots.take(range.first_slot, range.slots)?;
                self.shared = Some(Shared { range, jobs: vec![job] });
            }
        }
        Some(HeldRange::Shared(job))
    }

    /// Returns what a placement held.
    pub(super) fn give_back(&mut self, held: HeldRange) {
        let job = match held {
            HeldRange::Own(range) => return self.slots.free(range),
            HeldRange::Shared(job) => job,
        };
        let Some(shared) = &mut self.shared else { return };
        if let Some(at) = shared.jobs.iter().position(|other| *other == job) {
            shared.jobs.swap_remove(at);
        }
        if shared.jobs.is_empty()
            && let Some(Shared { range, .. }) = self.shared.take()
        {
            self.slots.free(range);
        }
    }
}

impl Fleet {
    /// Where a job shares slots, and where each site is, if it is to share any; with the aggregators that it could not use.
    ///
    /// # Errors
    /// Why it is not; nothing is taken.
    pub(super) fn select_shared(
        &mut self,
        request: &TreeRequest<'_>,
        wanted: Wanted<'_>,
    ) -> Result<(Selection, Vec<Site>, Vec<UnusableAggregator>), SharingDecision> {
        if request.authenticated {
            return Err(SharingDecision::Authenticated);
        }
        let chosen = self.choose_shared(request, None).map_err(|_| SharingDecision::NoPlace)?;
        let parts = self.parts(&chosen, wanted)?;
        let slots = self.slots_of(&chosen, &parts, request, wanted)?;
        let shared = parts.iter().zip(&chosen.switches).map(|(part, at)| match part {
            Part::Shared { range, .. } => {
                Some((*range, self.switches[at.index()].least_shared(*range, slots)))
            }
            Part::Own | Part::Limited(_) => None,
        });
        let selection = with_aggregators(&chosen, &parts, shared.collect(), slots);
        let sites = self.sites(&selection).map_err(|short| {
            let shared = parts.iter().zip(&chosen.switches).find_map(|(part, at)| match part {
                Part::Shared { below, .. } => Some((*at, below.aggregator)),
                Part::Own | Part::Limited(_) => None,
            });
            let (switch, aggregator) = shared.unwrap_or((chosen.switches[0], chosen.switches[0]));
            self.unusable(switch, aggregator, short.to_string(), false)
        })?;
        let unusable = parts.into_iter().filter_map(|part| match part {
            Part::Limited(SharingDecision::AggregatorsUnusable(all)) => Some(all),
            _ => None,
        });
        Ok((selection, sites, unusable.flatten().collect()))
    }

    /// Chooses switches, without aggregators, by what could be shared at those that have usable ones.
    fn choose_shared(
        &mut self,
        request: &TreeRequest<'_>,
        own: Option<&Placement>,
    ) -> Result<ChosenTree, Shortage> {
        let below: Vec<bool> = (0..self.len()).map(|switch| self.usable_aggregator(switch).is_ok()).collect();
        let free = |number: usize, switch: &Switch| {
            let shareable = || switch.shareable().map_or(0, |range| range.slots);
            if below[number] { shareable() } else { largest_range(switch) }
        };
        self.choose(request, free, own)
    }

    /// The tree, without aggregators, that would be chosen if what `own` holds, which shares slots, were free: where `own` shares slots it does, at other switches
    /// it shares as many or has them for itself.
    ///
    /// # Errors
    /// [`Shortage`] if there is none.
    pub(crate) fn shared_tree_instead_of(
        &mut self,
        own: &Placement,
        request: &TreeRequest<'_>,
    ) -> Result<ChosenTree, Shortage> {
        let chosen = self.choose_shared(request, Some(own))?;
        let slots = own.job().slots;
        for at in &chosen.switches {
            let held = own.switches.iter().position(|held| *held == at.index());
            let slot_use = held.map(|held| own.plan.switch_plans()[held].slot_use);
            let why = match (slot_use, self.usable_aggregator(at.index())) {
                (Some(SlotUse::Own), _) | (Some(SlotUse::Shared), Ok(_)) => continue,
                (_, Ok(below)) => {
                    let above = &self.switches[below.aggregator.index()].slots;
                    if above.largest(slots, slots).is_some() {
                        continue;
                    }
                    self.unusable(
                        *at,
                        below.aggregator,
                        format!("it has no range of {slots} slots free"),
                        false,
                    )
                }
                (None, Err(_)) if largest_range(&self.switches[at.index()]) >= slots => continue,
                (_, Err(why)) => why,
            };
            return Err(NoRoute { reason: Refusal::Slots, message: format!("another {why}") }.into());
        }
        Ok(chosen)
    }

    /// Whose slots a tree uses at each of its switches.
    ///
    /// # Errors
    /// Why it shares none.
    fn parts(&self, chosen: &ChosenTree, wanted: Wanted<'_>) -> Result<Vec<Part>, SharingDecision> {
        let mut parts = Vec::with_capacity(chosen.switches.len());
        let mut aggregators = BTreeMap::new();
        for (index, at) in chosen.switches.iter().enumerate() {
            let part = match self.part(chosen, index, wanted)? {
                Part::Shared { below, .. } if aggregators.contains_key(&below.aggregator) => {
                    let message = format!("in this tree it is that of '{}'", aggregators[&below.aggregator]);
                    Part::Limited(self.unusable(*at, below.aggregator, message, true))
                }
                part => part,
            };
            if let Part::Shared { below, .. } = &part {
                aggregators.insert(below.aggregator, self.info(at.index()).name.clone());
            }
            parts.push(part);
        }
        if parts.iter().any(|part| matches!(part, Part::Shared { .. })) {
            return Ok(parts);
        }
        let mut unusable = Vec::new();
        let mut other = None;
        for part in parts {
            match part {
                Part::Limited(SharingDecision::AggregatorsUnusable(all)) => unusable.extend(all),
                Part::Limited(why) => other = other.or(Some(why)),
                Part::Own | Part::Shared { .. } => {}
            }
        }
        if !unusable.is_empty() {
            return Err(SharingDecision::AggregatorsUnusable(unusable));
        }
        let switches = chosen.switches.iter().map(|at| self.info(at.index()).name.clone()).collect();
        Err(other.unwrap_or(SharingDecision::Own { switches }))
    }

    /// Whose slots a tree uses at one of its switches, by itself.
    fn part(&self, chosen: &ChosenTree, index: usize, wanted: Wanted<'_>) -> Result<Part, SharingDecision> {
        let at = chosen.switches[index];
        let below = match self.usable_aggregator(at.index()) {
            Ok(below) => below,
            Err(why) => return Ok(Part::Limited(why)),
        };
        let switch = &self.switches[at.index()];
        if switch.has_own(wanted.most) {
            return Ok(Part::Own);
        }
        let name = || switch.info.name.clone();
        let range = switch.shareable().ok_or_else(|| SharingDecision::NothingFree { switch: name() })?;
        let mut up = None;
        if let Some(edge) = chosen.edges.iter().find(|edge| edge.child == index) {
            let parent = chosen.switches[edge.parent];
            let is_between = |link: &LinkInfo| {
                let ends = [below.aggregator.index(), parent.index()];
                [link.a, link.b] == ends || [link.b, link.a] == ends
            };
            let direct = (0..self.links.len())
                .find(|link| is_between(&self.links[*link]) && !self.is_link_drained(*link))
                .map(|link| LinkId(link as u32));
            if direct.is_none() && self.route.needs_links(parent) {
                let message = format!("no link leads from it to '{}' above", self.info(parent.index()).name);
                return Ok(Part::Limited(self.unusable(at, below.aggregator, message, true)));
            }
            up = direct.or(Some(edge.link));
        }
        Ok(Part::Shared { below, range, up })
    }

    /// How many slots a tree gets at each of its switches.
    ///
    /// # Errors
    /// Why they are too few.
    fn slots_of(
        &self,
        chosen: &ChosenTree,
        parts: &[Part],
        request: &TreeRequest<'_>,
        wanted: Wanted<'_>,
    ) -> Result<u32, SharingDecision> {
        let mut slots = wanted.most;
        for (part, at) in parts.iter().zip(&chosen.switches) {
            slots = match part {
                Part::Own => slots,
                Part::Limited(why) => {
                    let own = self.largest_at(*at, slots, wanted, request.slots);
                    own.ok().filter(|own| *own >= request.slots).ok_or_else(|| why.clone())?
                }
                Part::Shared { range, .. } => slots.min(range.slots),
            };
        }
        for (part, at) in parts.iter().zip(&chosen.switches) {
            let Part::Shared { below, .. } = part else { continue };
            let above = &self.switches[below.aggregator.index()].slots;
            let free = above.largest(slots, request.slots.min(slots)).filter(|free| *free >= request.slots);
            slots = free.ok_or_else(|| {
                let message = format!("it has {} slots free, and no range of {slots}", above.free_slots());
                self.unusable(*at, below.aggregator, message, false)
            })?;
        }
        Ok(slots)
    }

    fn unusable(
        &self,
        switch: SwitchId,
        aggregator: SwitchId,
        message: String,
        is_lasting: bool,
    ) -> SharingDecision {
        let [switch, aggregator] = [switch, aggregator].map(|at| self.info(at.index()).name.clone());
        let one = UnusableAggregator { switch, aggregator, message, is_lasting };
        SharingDecision::AggregatorsUnusable(vec![one])
    }

    /// The aggregator of a switch, if both can be used, and the link between them.
    fn usable_aggregator(&self, switch: usize) -> Result<SharedBelow, SharingDecision> {
        let below = u16::try_from(switch).ok().and_then(|at| self.route.shared_below(SwitchId(at)));
        let below =
            below.ok_or_else(|| SharingDecision::NoAggregator { switch: self.info(switch).name.clone() })?;
        let Switch { down, drained, .. } = &self.switches[below.aggregator.index()];
        let unusable =
            |message: String| Err(self.unusable(SwitchId(switch as u16), below.aggregator, message, false));
        match down {
            Some(why) => unusable(format!("it is down ({why})")),
            None if *drained => unusable("it is drained: undrain it".into()),
            None if self.is_link_drained(below.link.index()) => {
                unusable("the link to it is drained: undrain it".into())
            }
            None => Ok(below),
        }
    }

    /// Whether a tree that has slots of its own at some switches, because their aggregators could not be used, could share there instead, with so many
    /// slots at each aggregator.
    pub(crate) fn can_share_now(&self, placement: &Placement, wanted: u32) -> bool {
        let unusable = match &placement.sharing {
            Some(SharingDecision::AggregatorsUnusable(unusable)) => unusable,
            Some(SharingDecision::Shares { unusable, .. }) => unusable,
            _ => return false,
        };
        // Of what it has not there: a port, a group and entries for the other one.
        let has_more = |switch: &Switch, entries: u32| {
            let found = run(&switch.ports, 1).is_some() && run(&switch.groups, 1).is_some();
            found && switch.entries_free() >= entries
        };
        let has_room = |at: usize, below: SharedBelow| {
            let above = &self.switches[below.aggregator.index()];
            above.slots.largest(wanted, wanted).is_some()
                && has_more(above, entries_of_job(1, false, false))
                && has_more(&self.switches[at], entries_of_job(0, true, false))
        };
        let can_share = |unusable: &&UnusableAggregator| {
            let at = self.find(&unusable.switch);
            at.is_some_and(|at| self.usable_aggregator(at).is_ok_and(|below| has_room(at, below)))
        };
        let passing = || unusable.iter().filter(|unusable| !unusable.is_lasting);
        passing().next().is_some() && passing().all(|unusable| can_share(&unusable))
    }

    /// Where a tree shares slots, if it does. Of one whose place is that of a record no more than that is known of what was decided earlier.
    pub(super) fn where_shared(
        &self,
        placement: &Placement,
        unusable: Vec<UnusableAggregator>,
    ) -> Option<SharingDecision> {
        let named = |at: usize| self.info(placement.switches[at]).name.clone();
        let shared = placement.plan.shared();
        let at = shared.filter_map(|(at, _)| {
            Some(SharedAt { switch: named(at), aggregator: named(placement.shape().above[at]?) })
        });
        let at: Vec<SharedAt> = at.collect();
        let places = placement.plan.switch_plans().iter().enumerate();
        let own = places.filter(|(_, place)| place.slot_use == SlotUse::Own).map(|(at, _)| named(at));
        let own: Vec<String> = own.collect();
        (!at.is_empty()).then_some(SharingDecision::Shares { at, own, unusable })
    }

    /// Whether the aggregators of a record are those of the switches now.
    pub(super) fn can_share_again(&self, switches: &[SwitchId], record: &PlaceRecord) -> bool {
        let sites = switches.iter().zip(&record.sites).zip(&record.shape.above);
        let mut shared = sites.filter(|((_, site), _)| site.shared.is_some());
        shared.all(|((at, _), above)| {
            let parent = above.and_then(|above| switches.get(above));
            self.route.shared_below(*at).is_some_and(|below| Some(&below.aggregator) == parent)
        })
    }
}

/// A tree with the aggregators of those of its switches where slots are shared, each above its switch.
fn with_aggregators(
    chosen: &ChosenTree,
    parts: &[Part],
    shared: Vec<Option<(SharedRange, u32)>>,
    slots: u32,
) -> Selection {
    // Where each switch is, and what hangs below it or its parent.
    let (mut switches, mut ranges, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for ((at, part), range) in chosen.switches.iter().zip(parts).zip(shared) {
        let top = switches.len();
        if let Part::Shared { below, .. } = part {
            switches.push(below.aggregator);
            ranges.push(None);
        }
        places.push((top, switches.len()));
        switches.push(*at);
        ranges.push(range);
    }
    let mut above = vec![None; switches.len()];
    let mut edges = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let (top, place) = places[index];
        let parent = chosen.shape.above[index].map(|parent| places[parent].1);
        above[top] = parent;
        let edge = chosen.edges.iter().find(|edge| edge.child == index).map(|edge| edge.link);
        let mut up = edge;
        if let Part::Shared { below, up: direct, .. } = part {
            above[place] = Some(top);
            edges.push(Edge { child: place, parent: top, link: below.link });
            up = *direct;
        }
        edges.extend(parent.zip(up).map(|(parent, link)| Edge { child: top, parent, link }));
    }
    edges.sort_by_key(|edge| edge.child);
    let workers = chosen.shape.workers.iter().map(|leaf| places[*leaf].1).collect();
    let shape = Shape { above, workers };
    let chosen = ChosenTree { switches, shape, edges, planes: chosen.planes.clone() };
    Selection { chosen, slots, shared: ranges }
}
