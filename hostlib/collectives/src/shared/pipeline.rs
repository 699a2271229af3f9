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
//! - *The network* has a copy of a result from `start` to `finish`, between the iterations at which all have consumed it and at
//!   which it is drained. The leader alone writes it meanwhile.

use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::CallSignature;
use crate::shared::error::SharedError;
use crate::shared::group::SharedGroup;
use crate::shared::hierarchy::{Network, Segment};
use crate::shared::layout::{IN_FLIGHT, LEAD, Layout};
use crate::shared::mapping::{Area, Mapping};
use crate::shared::plan::{Inputs, SharedPlan};
use crate::shared::state::GroupFailure;

/// Which area of each rank an operation reads.
#[derive(Clone, Copy)]
enum Place {
    Small { parity: usize },
    Slot { index: usize },
}

struct Filled<'m> {
    mapping: &'m Mapping,
    layout: Layout,
    place: Place,
}

impl Place {
    /// Where `rank` has its area.
    fn of(self, mapping: &Mapping, layout: Layout, rank: u16) -> Area<'_> {
        match self {
            Self::Small { parity } => mapping.area(layout.small(rank, parity), layout.small_bytes),
            Self::Slot { index } => mapping.area(layout.slot(rank, index), layout.segment_bytes),
        }
    }
}

impl Inputs for Filled<'_> {
    fn of(&self, rank: u16) -> Area<'_> {
        self.place.of(self.mapping, self.layout, rank)
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
        self.fill(plan, 0, Place::Small { parity });
        self.arrive(plan.call)?;
        // All have arrived, hence filled; this rank's next step is that of the next operation.
        self.consume(plan, 0, Place::Small { parity });
        Ok(())
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
            self.fill(plan, index, Place::Slot { index });
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
                self.consume(plan, iteration - 1, Place::Slot { index: iteration - 1 });
            }
            if (lags.lead..segments).contains(&(iteration + lags.lead - 1)) {
                let index = iteration + lags.lead - 1;
                self.fill(plan, index, Place::Slot { index });
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
        &mut self,
        plan: &SharedPlan<'_>,
        lags: Lags,
        iteration: usize,
        network: &mut dyn Network,
    ) -> Result<(), SharedError> {
        let segments = plan.segments();
        if let Some(index) = iteration.checked_sub(lags.start(0)).filter(|index| *index < segments) {
            let range = plan.range(index);
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.resize(range.len(), 0);
            self.result(index, range.len()).read(&mut bytes);
            let started = network.start(index, Segment::new(bytes, range.start));
            started.or_else(|message| self.network_failed(&message))?;
        }
        if let Some(index) = iteration.checked_sub(lags.finish(0)).filter(|index| *index < segments) {
            let len = plan.range(index).len();
            match network.finish(index) {
                Ok(segment) if segment.len() == len => {
                    let bytes = segment.into_bytes();
                    self.result(index, len).write(&bytes);
                    self.spare.push(bytes);
                }
                Ok(_) => self.network_failed(b"the network gave back another segment")?,
                Err(message) => self.network_failed(&message)?,
            }
        }
        Ok(())
    }

    #[cold]
    fn network_failed(&self, message: &[u8]) -> Result<(), SharedError> {
        self.state.fail(GroupFailure::Network, message);
        self.state.check(self.rank)
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

    /// Only this rank writes its slots and small inputs, and by the rules above no rank reads what was in them any more.
    fn fill(&self, plan: &SharedPlan<'_>, index: usize, place: Place) {
        plan.fill(index, place.of(&self.state.mapping, self.layout, self.rank));
    }

    /// All ranks have filled their areas at `place` (arrived, or done the iteration), and write them again only when this rank has
    /// published a later step. Parts of ranks are disjoint; by the rules above what was in the result has been drained by all.
    fn consume(&mut self, plan: &mut SharedPlan<'_>, index: usize, place: Place) {
        let mapping = &self.state.mapping;
        let part: Range<usize> =
            if plan.drains() { plan.part(self.rank, plan.range(index).len()) } else { 0..0 };
        let result = mapping.area(self.layout.result(index) + part.start, part.len());
        plan.consume(index, &Filled { mapping, layout: self.layout, place }, result, &mut self.scratch);
    }

    /// All parts of this segment were folded (and came back from the network) before steps that this rank has waited for, and no
    /// rank writes here again before this rank's arrival at a later iteration.
    fn drain(&self, plan: &mut SharedPlan<'_>, index: usize) {
        plan.drain(index, self.result(index, plan.range(index).len()));
    }

    fn result(&self, index: usize, len: usize) -> Area<'_> {
        self.state.mapping.area(self.layout.result(index), len)
    }
}

/// The lead for an operation: short ones gain nothing from running ahead.
fn lead(segments: usize) -> usize {
    (segments / 2).clamp(1, LEAD)
}
