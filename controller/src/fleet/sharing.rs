//! Slots of a switch that best-effort jobs share, below an aggregator that has slots for each of them.
//!
//! A job has slots of its own if as many as it asks for are free and half of the switch's are left for jobs that share. Otherwise it shares: the first
//! such job takes the largest range that is free, and the last one returns it. Of that range each job uses an aligned part, of as many slots as it asks for,
//! where the fewest others are. A job that can do neither is given half of what is free at most.

use super::{Fleet, HeldRange, SharedBelow, Switch, TreeRequest, Wanted, largest_range};
use crate::record::PlaceRecord;
use crate::route::{ChosenTree, Edge};
use crate::slots::SlotRange;
use crate::topology::SwitchId;
use crate::tree::{Shape, SharedRange};

/// Most slots of a range that jobs share: as many as a packet can name.
const SHARED_MAX: u32 = 1 << 15;

/// Where a switch has an aggregator, a job has at most one in so many of the free slots for itself, so that later ones find some, whether they can share or
/// not.
pub(super) const OF_FREE_WITH_AGGREGATOR: u32 = 2;

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
    /// Where a job shares slots, if it is to share any.
    pub(super) fn select_shared(
        &mut self,
        request: &TreeRequest<'_>,
        wanted: Wanted<'_>,
    ) -> Option<Selection> {
        // Tags of packets that are passed on are not defined.
        if !wanted.may_share || request.authenticated {
            return None;
        }
        let below: Vec<Option<SharedBelow>> =
            (0..self.len()).map(|switch| self.usable_aggregator(switch)).collect();
        let free = |number: usize, switch: &Switch| {
            let shareable = || switch.shareable().map_or(0, |range| range.slots);
            if below[number].is_some() { shareable() } else { largest_range(switch) }
        };
        let chosen = self.choose(request, free, None).ok()?;
        let [at] = chosen.switches[..] else { return None };
        let SharedBelow { aggregator, link } = below[at.index()]?;
        let switch = &self.switches[at.index()];
        if switch.has_own(wanted.most) {
            return None;
        }
        let range = switch.shareable()?;
        let slots = wanted.most.min(range.slots);
        let slots = self.switches[aggregator.index()].slots.largest(slots, request.slots.min(slots))?;
        if slots < request.slots {
            return None;
        }
        let first = switch.least_shared(range, slots);
        let chosen = ChosenTree {
            switches: vec![aggregator, at],
            shape: Shape { above: vec![None, Some(0)], workers: vec![1; chosen.planes.len()] },
            edges: vec![Edge { child: 1, parent: 0, link }],
            planes: chosen.planes,
        };
        Some(Selection { chosen, slots, shared: Some((range, first)) })
    }

    /// The aggregator of a switch, if both can be used, and the link between them.
    fn usable_aggregator(&self, switch: usize) -> Option<SharedBelow> {
        let below = self.route.shared_below(SwitchId(u16::try_from(switch).ok()?))?;
        let aggregator = &self.switches[below.aggregator.index()];
        let usable =
            aggregator.down.is_none() && !aggregator.drained && !self.is_link_drained(below.link.index());
        usable.then_some(below)
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
