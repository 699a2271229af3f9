//! From a window in chunks to the chunk that may be sent next.

use core::time::Duration;

use super::{Ack, CongestionControl, Round};
use crate::Instant;
use crate::slot::{SlotState, Slots};

/// Releases the chunks of a stream in order, as many as the algorithm allows.
#[derive(Debug)]
pub(crate) struct Gate {
    control: Box<dyn CongestionControl>,
    /// The first position whose result is missing, as of the last check.
    first: u64,
    /// The first position that was never sent.
    next: u64,
    /// The round ends when a position from here on is acknowledged.
    round_end: u64,
    round: Round,
    /// Upper bound of the chunks in flight, regardless of the algorithm.
    most: u32,
    /// A loss of this round was reported.
    lost: bool,
}

impl Gate {
    /// Begins with the stream's first position.
    pub(crate) fn starting_at(position: u64, control: Box<dyn CongestionControl>) -> Self {
        Self {
            control,
            first: position,
            next: position,
            round_end: position,
            round: Round::default(),
            most: u32::MAX,
            lost: false,
        }
    }

    /// Begins in the middle of a stream that was sent without a gate.
    pub(crate) fn resume(control: Box<dyn CongestionControl>, slots: &Slots) -> Self {
        let first = (0..slots.count()).map(|index| slots.slot(index as u16).position).min();
        Self::starting_at(first.unwrap_or_default(), control)
    }

    /// Chunks that may be in flight, at least 1.
    pub(crate) fn window(&self) -> u32 {
        // Windows are far below 2^32.
        (self.control.window().max(1.0) as u32).min(self.most)
    }

    /// Limits the chunks in flight to `most`, which is above 0, from now on.
    pub(crate) fn bound(&mut self, most: u32) {
        self.most = self.most.min(most);
    }

    /// The slot of the next chunk, if it may be sent and lies before `end`.
    pub(crate) fn next(&mut self, slots: &Slots, end: u64) -> Option<u16> {
        // Positions that were sent before there was a gate are behind it.
        while self.is_behind(slots) {
            self.next += 1;
        }
        let index = slots.at(self.next);
        let slot = slots.slot(index);
        while self.first < self.next && slots.slot(slots.at(self.first)).position > self.first {
            self.first += 1;
        }
        // Chunks that were sent before there was a gate may fill the window; the first missing one may be sent regardless.
        let in_flight = slots.len(SlotState::InFlight) + slots.len(SlotState::Lost);
        let may = slot.position == self.next
            && slot.state() == SlotState::Ready
            && self.next < end
            && (self.next == self.first || in_flight < self.window());
        may.then_some(index)
    }

    fn is_behind(&self, slots: &Slots) -> bool {
        let slot = slots.slot(slots.at(self.next));
        slot.position > self.next || (slot.position == self.next && (slot.sends > 0 || slot.redo.is_some()))
    }

    /// A position was sent or retransmitted.
    pub(crate) fn sent(&mut self, position: u64) {
        if position == self.next {
            self.next += 1;
        }
    }

    /// A position was acknowledged.
    pub(crate) fn on_ack(&mut self, position: u64, ack: &Ack) {
        self.round.acks += 1;
        self.round.marked += u32::from(ack.marked);
        self.control.on_ack(ack);
        if position >= self.round_end {
            self.control.on_round(&self.round);
            (self.round, self.round_end, self.lost) = (Round::default(), self.next, false);
        }
    }

    /// Chunks were detected as lost.
    pub(crate) fn on_loss(&mut self, now: Instant) {
        if !std::mem::replace(&mut self.lost, true) {
            self.control.on_loss(now);
        }
    }
}

impl Ack {
    pub(crate) fn new(now: Instant, sent_once_at: Option<Instant>, marked: bool, smoothed: Duration) -> Self {
        Self { now, round_trip: sent_once_at.map(|at| now - at), marked, smoothed }
    }
}
