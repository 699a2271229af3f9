//! Slots of a switch that best-effort jobs share, below an aggregator that has slots for each of them.
//!
//! A job has slots of its own if as many as it asks for are free and half of the switch's are left for jobs that share. Otherwise it shares: the first
//! such job takes the largest range that is free, and the last one returns it. Of that range each job uses an aligned part, of as many slots as it asks for,
//! where the fewest others are. A job that can do neither is given half of what is free at most.

use super::{Fleet, HeldRange, Placement, SharedBelow, Switch, TreeRequest, Wanted, largest_range, run};
use crate::record::PlaceRecord;
use crate::route::{ChosenTree, Edge};
use crate::slots::SlotRange;
use crate::topology::SwitchId;
use crate::tree::{Shape, SharedRange, Site};
use netfold_p4::profile::entries_of_job;
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
    /// It shares those of a switch.
    Shares {
        /// The switch.
        switch: String,
        /// Its aggregator.
        aggregator: String,
    },
    /// As many as it asks for are free, and half of the switch's are left.
    Own {
        /// The switch.
        switch: String,
    },
    /// It does not, because its packets are authenticated.
    Authenticated,
    /// It does not, because its workers are at several switches.
    SeveralSwitches,
    /// It does not, because the switch names no aggregator.
    NoAggregator {
        /// The switch.
        switch: String,
    },
    /// It does not, because the aggregator cannot be used, or has no room.
    AggregatorUnusable {
        /// The aggregator.
        aggregator: String,
        /// What is wrong with it.
        message: String,
    },
    /// It does not, because nothing of the switch is left that could be shared.
    NothingFree {
        /// The switch.
        switch: String,
    },
    /// It has no place.
    NoPlace,
}

impl fmt::Display for SharingDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shares { switch, aggregator } => write!(
                f,
                "shares slots of '{switch}' below aggregator '{aggregator}': as many as it asks for are not free there, or fewer than half of all \
                 would be left for jobs that share"
            ),
            Self::Own { switch } => write!(
                f,
                "has slots of its own at '{switch}': as many as it asks for are free, and half of all are left for jobs that share"
            ),
            Self::Authenticated => f.write_str(
                "shares no slots: its packets are authenticated, and no tags are defined for packets that are sent on to an aggregator",
            ),
            Self::SeveralSwitches => {
                f.write_str("shares no slots: its workers are not all at one switch, and only jobs at one switch share")
            }
            Self::NoAggregator { switch } => {
                write!(f, "shares no slots: switch '{switch}' names no aggregator in the topology")
            }
            Self::AggregatorUnusable { aggregator, message } => {
                write!(f, "shares no slots: aggregator '{aggregator}' cannot be used: {message}")
            }
            Self::NothingFree { switch } => {
                write!(f, "shares no slots: all of switch '{switch}' are jobs' own")
            }
            Self::NoPlace => f.write_str("shares no slots: no switch leads to all of its workers"),
        }
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
    /// The range that the job shares at the lower of two switches, and its first slot there.
    pub(super) shared: Option<(SharedRange, u32)>,
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
    /// Where a job shares slots, and where each site is, if it is to share any.
    ///
    /// # Errors
    /// Why it is not; nothing is taken.
    pub(super) fn select_shared(
        &mut self,
        request: &TreeRequest<'_>,
        wanted: Wanted<'_>,
    ) -> Result<(Selection, Vec<Site>), SharingDecision> {
        if request.authenticated {
            return Err(SharingDecision::Authenticated);
        }
        let below: Vec<Option<SharedBelow>> =
            (0..self.len()).map(|switch| self.usable_aggregator(switch).ok()).collect();
        let free = |number: usize, switch: &Switch| {
            let shareable = || switch.shareable().map_or(0, |range| range.slots);
            if below[number].is_some() { shareable() } else { largest_range(switch) }
        };
        let chosen = self.choose(request, free, None).map_err(|_| SharingDecision::NoPlace)?;
        let [at] = chosen.switches[..] else { return Err(SharingDecision::SeveralSwitches) };
        let SharedBelow { aggregator, link } = self.usable_aggregator(at.index())?;
        let named = |switch: SwitchId| self.info(switch.index()).name.clone();
        let switch = &self.switches[at.index()];
        if switch.has_own(wanted.most) {
            return Err(SharingDecision::Own { switch: named(at) });
        }
        let range = switch.shareable().ok_or_else(|| SharingDecision::NothingFree { switch: named(at) })?;
        let slots = wanted.most.min(range.slots);
        let unusable =
            |message| SharingDecision::AggregatorUnusable { aggregator: named(aggregator), message };
        let above = &self.switches[aggregator.index()].slots;
        let free = above.largest(slots, request.slots.min(slots)).filter(|slots| *slots >= request.slots);
        let slots = free.ok_or_else(|| {
            unusable(format!("it has {} slots free, and no range of {slots}", above.free_slots()))
        })?;
        let first = switch.least_shared(range, slots);
        let chosen = ChosenTree {
            switches: vec![aggregator, at],
            shape: Shape { above: vec![None, Some(0)], workers: vec![1; chosen.planes.len()] },
            edges: vec![Edge { child: 1, parent: 0, link }],
            planes: chosen.planes,
        };
        let selection = Selection { chosen, slots, shared: Some((range, first)) };
        let sites = self.sites(&selection).map_err(|short| unusable(short.to_string()))?;
        Ok((selection, sites))
    }

    /// The aggregator of a switch, if both can be used, and the link between them.
    fn usable_aggregator(&self, switch: usize) -> Result<SharedBelow, SharingDecision> {
        let below = u16::try_from(switch).ok().and_then(|at| self.route.shared_below(SwitchId(at)));
        let below =
            below.ok_or_else(|| SharingDecision::NoAggregator { switch: self.info(switch).name.clone() })?;
        let Switch { info, down, drained, .. } = &self.switches[below.aggregator.index()];
        let unusable = |message: String| {
            Err(SharingDecision::AggregatorUnusable { aggregator: info.name.clone(), message })
        };
        match down {
            Some(why) => unusable(format!("it is down ({why})")),
            None if *drained => unusable("it is drained: undrain it".into()),
            None if self.is_link_drained(below.link.index()) => {
                unusable("the link to it is drained: undrain it".into())
            }
            None => Ok(below),
        }
    }

    /// Whether a tree that has slots of its own, because its aggregator could not be used, could share instead, with so many slots at the aggregator.
    pub(crate) fn can_share_now(&self, placement: &Placement, wanted: u32) -> bool {
        let kept = matches!(placement.sharing, Some(SharingDecision::AggregatorUnusable { .. }));
        let [at] = placement.switches[..] else { return false };
        // Of what it has not there: a port, a group and entries for the other one.
        let has_more = |switch: &Switch, entries: u32| {
            let found = run(&switch.ports, 1).is_some() && run(&switch.groups, 1).is_some();
            found && switch.entries_free() >= entries
        };
        let has_room = |below: SharedBelow| {
            let above = &self.switches[below.aggregator.index()];
            above.slots.largest(wanted, wanted).is_some()
                && has_more(above, entries_of_job(1, false, false))
                && has_more(&self.switches[at], entries_of_job(0, true, false))
        };
        kept && self.usable_aggregator(at).is_ok_and(has_room)
    }

    /// Of a tree whose place is that of a record: what was decided earlier is known only of those that share.
    pub(super) fn sharing_again(&self, placement: &Placement) -> Option<SharingDecision> {
        let (at, _) = placement.plan.shared()?;
        let above = placement.shape().above[at]?;
        let named = |at: usize| self.info(placement.switches[at]).name.clone();
        Some(SharingDecision::Shares { switch: named(at), aggregator: named(above) })
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
