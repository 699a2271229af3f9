//! Which rank may access which area, and when.
//!
//! Every rank counts its steps, and publishes the count with release order; a rank that has acquired it sees all that was
//! written before. Steps of an operation are the same on all ranks, so that counts alone give each rank's position. One operation of
//! `n` segments, shown for LEAD = 2 (shorter operations go ahead less):
//!
//! ```text
//! iteration   fill        consume   drain          (this rank)
//!     0       0, 1        -         -              then step 1; all must arrive and agree on the call
//!     i       i + 1       i - 1     i - 1 - LEAD   after all have done iteration i - LEAD; then step i + 1
//! ```
//!
//! - *Slots.* `fill(t)` happens at iteration `t - LEAD + 1` and overwrites segment `t - SLOTS`, which others consumed at their
//!   iteration `t - SLOTS + 1`; all have done iteration `t - 2 LEAD + 1` by then, and SLOTS is 2 LEAD.
//! - *Results.* `consume(j)` happens at iteration `j + 1` and overwrites segment `j - RESULTS`, which others drained at
//!   iteration `j - RESULTS + LEAD + 1` (through the network: `j - RESULTS + 2 LEAD + IN_FLIGHT + 1`); all have done iteration
//!   `j + 1 - LEAD`, and RESULTS is 3 LEAD + IN_FLIGHT.
//! - *Between operations.* Results: a rank arrives at the next operation only when it has drained the last one, and no rank
//!   consumes before all have arrived. Slots: the first are filled before that, so an operation that ends with others still
//!   consuming records the step at which they are done, and the next waits for it.
//! - *Small inputs* are of two kinds, for odd and even operations. A rank fills one when all have arrived at the operation
//!   before, so no rank is reading the one before that.
//! - *The network* has a result from `start` to `finish`, between the iterations at which all have consumed it and at which it is
//!   drained.
#![expect(unsafe_code, reason = "areas of the mapping change hands by the rules above")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::CallSignature;
use crate::shared::error::SharedError;
use crate::shared::group::SharedGroup;
use crate::shared::hierarchy::{Network, Segment};
use crate::shared::layout::{IN_FLIGHT, LEAD, Layout};
use crate::shared::mapping::Mapping;
use crate::shared::plan::{Inputs, SharedPlan};
use crate::shared::state::GroupFailure;

/// Which area of each rank an operation reads.
#[derive(Clone, Copy)]
enum Area {
    Small { parity: usize },
    Slot { index: usize },
}

struct Filled<'m> {
    mapping: &'m Mapping,
    layout: Layout,
    area: Area,
}

impl Filled<'_> {
    fn place(layout: Layout, area: Area, rank: u16) -> (usize, usize) {
        match area {
            Area::Small { parity } => (layout.small(rank, parity), layout.small_bytes),
            Area::Slot { index } => (layout.slot(rank, index), layout.segment_bytes),
        }
    }
}

impl Inputs for Filled<'_> {
    fn of(&self, rank: u16) -> &[u8] {
        let (at, len) = Self::place(self.layout, self.area, rank);
        // SAFETY: a `Filled` is made only when all ranks have filled this area (arrived, or done the iteration), and they
        // write it again only when this rank has published a later step, which it does when the `Filled` is gone.
        unsafe { self.mapping.area(at, len) }
    }
}

/// The lags of an operation's stages, in iterations.
#[derive(Clone, Copy)]
struct Lags {
    lead: usize,
    /// From the start of a segment on the network to its finish; `None` without a network.
    in_flight: Option<usize>,
}

impl Lags {
    /// The iteration at which segment `index` is started on the network.
    fn start(self, index: usize) -> usize {
        index + 1 + self.lead
    }

    fn finish(self, index: usize) -> usize {
        self.start(index) + self.in_flight.unwrap_or(0)
    }

    /// The iteration at which segment `index` is drained.
    fn drain(self, index: usize) -> usize {
        if self.in_flight.is_some() { self.finish(index) + self.lead } else { index + 1 + self.lead }
    }

    /// The last iteration that others wait for.
    fn last_published(self, segments: usize) -> usize {
        if self.in_flight.is_some() { self.finish(segments - 1) } else { segments }
    }
}

impl SharedGroup {
    /// Executes a plan.
    pub(crate) fn run_plan(
        &mut self,
        plan: &mut SharedPlan<'_>,
        network: Option<&mut dyn Network>,
    ) -> Result<(), SharedError> {
        if !self.state.mapping.is_own_process() {
            return Err(SharedError::Forked);
        }
        self.state.check(self.rank)?;
        if std::mem::replace(&mut self.in_call, true) {
            // A panic of the caller's network ended the last operation in the middle.
            self.state.fail(GroupFailure::Lost(self.rank), &[]);
            self.state.check(self.rank)?;
        }
        let done = self.wait_joined().and_then(|()| match network {
            Some(network) => self.run_with_network(plan, network),
            None if plan.is_flat() => self.run_flat(plan),
            None => self.run_segments(plan, Lags { lead: lead(plan.segments()), in_flight: None }, None),
        });
        self.in_call = false;
        done
    }

    fn run_flat(&mut self, plan: &mut SharedPlan<'_>) -> Result<(), SharedError> {
        let parity = self.parity();
        self.fill(plan, 0, Area::Small { parity });
        self.arrive(plan.call)?;
        self.consume_flat(plan, parity);
        Ok(())
    }

    /// Reduces the small inputs of `parity` into the caller's output.
    fn consume_flat(&self, plan: &mut SharedPlan<'_>, parity: usize) {
        let area = Area::Small { parity };
        // All have arrived, hence filled; this rank's next step is that of the next operation.
        plan.consume(0, &Filled { mapping: &self.state.mapping, layout: self.layout, area }, &mut []);
    }

    fn run_with_network(
        &mut self,
        plan: &mut SharedPlan<'_>,
        network: &mut dyn Network,
    ) -> Result<(), SharedError> {
        let segments = plan.segments();
        let leader = (self.rank == 0).then_some(&mut *network);
        if segments == 0 {
            return self.arrive(plan.call);
        }
        let lags = Lags { lead: lead(segments), in_flight: Some(IN_FLIGHT.min(segments - 1)) };
        let done = self.run_segments(plan, lags, leader);
        if done.is_err() && self.rank == 0 {
            network.abandon();
        }
        done
    }

    fn run_segments<'n>(
        &mut self,
        plan: &mut SharedPlan<'_>,
        lags: Lags,
        mut network: Option<&mut (dyn Network + 'n)>,
    ) -> Result<(), SharedError> {
        let segments = plan.segments();
        // Usually true already.
        self.wait_all(self.slots_free_at)?;
        for index in 0..lags.lead.min(segments) {
            self.fill(plan, index, Area::Slot { index });
        }
        let base = self.step.wrapping_add(1);
        self.arrive(plan.call)?;
        let published = lags.last_published(segments);
        let last = if plan.drains() { lags.drain(segments - 1) } else { published };
        for iteration in 1..=last {
            let done = iteration.saturating_sub(lags.lead).min(published);
            self.wait_all(base.wrapping_add(done as u32))?;
            self.state.check(self.rank)?;
            if (1..=segments).contains(&iteration) {
                self.consume(plan, iteration - 1);
            }
            if (lags.lead..segments).contains(&(iteration + lags.lead - 1)) {
                let index = iteration + lags.lead - 1;
                self.fill(plan, index, Area::Slot { index });
            }
            if let Some(network) = network.as_deref_mut() {
                self.serve(plan, lags, iteration, network)?;
            }
            if let Some(index) = iteration.checked_sub(lags.drain(0)).filter(|_| plan.drains()) {
                self.drain(plan, index);
            }
            if iteration <= published {
                self.publish();
            }
        }
        self.slots_free_at = base.wrapping_add(segments as u32);
        Ok(())
    }

    /// What the leader does for the network at `iteration`.
    fn serve(
        &self,
        plan: &SharedPlan<'_>,
        lags: Lags,
        iteration: usize,
        network: &mut dyn Network,
    ) -> Result<(), SharedError> {
        let segments = plan.segments();
        let fail = |message: Vec<u8>| {
            self.state.fail(GroupFailure::Network, &message);
            self.state.check(self.rank)
        };
        if let Some(index) = iteration.checked_sub(lags.start(0)).filter(|index| *index < segments) {
            let range = plan.range(index);
            let segment = Segment::new(Arc::clone(&self.state), self.layout.result(index), range);
            network.start(index, segment).or_else(fail)?;
        }
        if let Some(index) = iteration.checked_sub(lags.finish(0)).filter(|index| *index < segments) {
            network.finish(index).or_else(fail)?;
        }
        Ok(())
    }

    fn parity(&self) -> usize {
        self.operations as usize & 1
    }

    /// Publishes what this rank calls, waits until all have, and compares.
    fn arrive(&mut self, call: CallSignature) -> Result<(), SharedError> {
        let parity = self.parity();
        for (index, word) in call.to_words().into_iter().enumerate() {
            self.state
                .mapping
                .long(Layout::descriptor(self.rank, parity, index))
                .store(word, Ordering::Relaxed);
        }
        self.operations = self.operations.wrapping_add(1);
        self.publish();
        self.wait_all(self.step)?;
        for peer in (0..self.layout.world).filter(|peer| *peer != self.rank) {
            let word = |index| {
                self.state.mapping.long(Layout::descriptor(peer, parity, index)).load(Ordering::Relaxed)
            };
            let words = [word(0), word(1)];
            if words != call.to_words() {
                return Err(self.differs(peer, call, words));
            }
        }
        Ok(())
    }

    #[cold]
    fn differs(&self, peer: u16, mine: CallSignature, words: [u64; 2]) -> SharedError {
        match CallSignature::from_words(words) {
            Some(theirs) => SharedError::Mismatch { local_rank: peer, mine, theirs },
            None => {
                self.state.fail(GroupFailure::Corrupt(peer), &[]);
                SharedError::Corrupt { local_rank: peer }
            }
        }
    }

    fn fill(&self, plan: &SharedPlan<'_>, index: usize, area: Area) {
        let (at, len) = Filled::place(self.layout, area, self.rank);
        // SAFETY: only this rank writes its slots and small inputs, and by the rules above no rank reads what was in them
        // any more.
        plan.fill(index, unsafe { self.state.mapping.area_mut(at, len) });
    }

    fn consume(&self, plan: &mut SharedPlan<'_>, index: usize) {
        let mapping = &self.state.mapping;
        let part: Range<usize> =
            if plan.drains() { plan.part(self.rank, plan.range(index).len()) } else { 0..0 };
        let at = self.layout.result(index) + part.start;
        // SAFETY: parts of ranks are disjoint; by the rules above what was there has been drained by all.
        let result = unsafe { mapping.area_mut(at, part.len()) };
        plan.consume(index, &Filled { mapping, layout: self.layout, area: Area::Slot { index } }, result);
    }

    fn drain(&self, plan: &mut SharedPlan<'_>, index: usize) {
        let (at, len) = (self.layout.result(index), plan.range(index).len());
        // SAFETY: all parts of this segment were folded (and came back from the network) before steps that this rank has
        // waited for, and no rank writes here again before this rank's arrival at a later iteration.
        plan.drain(index, unsafe { self.state.mapping.area(at, len) });
    }
}

/// The lead for an operation: short ones gain nothing from running ahead.
fn lead(segments: usize) -> usize {
    (segments / 2).clamp(1, LEAD)
}
