//! Closing slots without stragglers, in operations that tolerate it.
//!
//! # Why this is safe
//!
//! A slot has two sets, so a chunk replaces the one two windows before it: its result must have reached all ranks by then. In an exact
//! stream the result in between proves that, because all ranks sent that chunk only once they had the one before. A result that was
//! closed proves nothing about the missing ranks. So three rules hold in streams of such operations:
//!
//! 1. Every rank sends in the order of the stream, and position `q` only when it has all results up to `q - W` (the
//!    [gate](crate::congestion) ensures both). So a rank that contributed at `p` has every result up to `p - W`.
//! 2. A rank sends `q` only when it has a result at `q - W` or later that was *not* closed: by that, all ranks have the results up to
//!    `q - 2W`, and `q` replaces none that is needed.
//! 3. A rank that knows no such result after `p` closes no position from `p + W` on. So that position waits for all ranks, and rule 2
//!    never stops the stream.
//!
//! # How much is left out
//!
//! The number of slots that may be closed is divided evenly among the children of a switch, and a rank counts each CLOSE that it sends
//! against its part. The contributors take turns in closing chunks, by the chunk's number and the number of CLOSE packets sent for it: if
//! the first may close no more, the second does. So no rank lacks more than was tolerated, without any agreement.
//!
//! A rank without a contribution has not proposed the exponent of a later block, either. If its block there does not fit the agreed
//! exponent, it sends that chunk's header alone, as if it had been trimmed.

use netfold_wire::{Flags, Kind, Numerics, Packet, Reason, Repr, header};

use super::{NOT_FINITE, Worker};
use crate::congestion::{Fixed, Gate};
use crate::slot::{ClosingState, LossCause, Slot, SlotState};
use crate::stream::Piece;
use crate::{Ignored, OpSpec};

/// What a worker knows about closed slots beyond their states.
#[derive(Debug)]
pub(super) struct Proof {
    /// One past the last position whose result contains all ranks.
    whole: u64,
    /// Children that were missing in the switch's last report.
    suspects: u32,
}

impl Proof {
    /// All ranks have the results before `position`.
    pub(super) fn starting_at(position: u64) -> Self {
        Self { whole: position, suspects: 0 }
    }

    /// The result at `position` contains all ranks.
    pub(super) fn note_complete(&mut self, position: u64) {
        self.whole = self.whole.max(position + 1);
    }

    /// Positions below may be sent, at a window of `slots`.
    pub(super) fn end(&self, slots: u32) -> u64 {
        self.whole + u64::from(slots)
    }
}

impl Worker {
    /// Prepares for an operation whose slots may be closed. From then on the stream is sent in order, and has no more in flight than a
    /// quarter of its slots: it takes about three round trips to close a slot, and later positions proceed meanwhile.
    pub(super) fn expect_closings(&mut self, spec: &OpSpec, number: u64) {
        let (full, own) = (self.config.admission.bitmap, self.config.admission.own_bit);
        if !spec.descriptor.tolerance.tolerates_stragglers() {
            return;
        }
        let window = self.slots.count();
        let gate = self.gate.get_or_insert_with(|| Gate::resume(Box::new(Fixed(window)), &self.slots));
        gate.bound((window / 4).max(1));
        if own != 0 {
            let (children, lower_children) = (full.count_ones(), (full & (own - 1)).count_ones());
            self.stream
                .op_mut(number)
                .allow_closings((spec.closings() + children - 1 - lower_children) / children);
        }
    }

    /// Whether a slot may be closed with the contributions that it holds.
    pub(super) fn may_be_closed(&self, slot: &Slot, piece: &Piece, exp: u8) -> bool {
        self.stream.op(slot.op).spec.descriptor.tolerance.tolerates_stragglers()
            && exp != NOT_FINITE
            // A sum that left the range is repeated, which all ranks decide by the same result.
            && self.config.numerics != Numerics::Saturating
            && self.may_lack_contributions(slot, piece)
    }

    /// Whether the slot sends a CLOSE next, rather than retransmitting its chunk.
    pub(super) fn closes_next(&self, slot: &Slot) -> bool {
        let (piece, exp) = self.piece(slot);
        slot.state() == SlotState::Lost
            && slot.sends > 0
            && self.may_be_closed(slot, &piece, exp)
            && match slot.loss {
                LossCause::NotReceived => false,
                LossCause::Quorum => true,
                _ => !slot.closing.asked,
            }
    }

    /// Whether this rank may close the slot with the contributors `seen`.
    fn may_close(&self, index: u16, seen: u32) -> bool {
        let (full, own) = (self.config.admission.bitmap, self.config.admission.own_bit);
        let slot = self.slots.slot(index);
        let missing = (full & !seen).count_ones();
        missing > 0
            && missing <= (full.count_ones() / 4).max(1)
            && slot.position + 1 < self.proof.end(self.slots.count())
            && own
                == designated_closer(
                    seen & full,
                    self.slots.chunk(index).wrapping_add(slot.closing.asks.saturating_sub(1)),
                )
    }

    /// Counts the slot among those that this rank closes; false when it may close no more.
    fn count(&mut self, index: u16) -> bool {
        let slot = self.slots.slot_mut(index);
        slot.closing.counted = slot.closing.counted || self.stream.op_mut(slot.op).close();
        slot.closing.counted
    }

    /// Writes a CLOSE for the slot and returns its length. The switch replies with its contributors, unless these include all that the
    /// packet names: then it closes the slot.
    pub(super) fn emit_close(&mut self, index: u16, buffer: &mut [u8]) -> usize {
        let slot = *self.slots.slot(index);
        let full = self.config.admission.bitmap;
        let guess = full & !self.proof.suspects;
        let named = match slot.closing.quorum {
            0 if self.may_close(index, guess) && self.count(index) => guess,
            0 => full,
            contributors => contributors,
        };
        let closing = &mut self.slots.slot_mut(index).closing;
        *closing = ClosingState { asked: true, quorum: 0, asks: closing.asks.saturating_add(1), ..*closing };
        let (piece, exp) = self.piece(&slot);
        let packet = self.header(index, &piece, exp, slot.class.unwrap_or_default());
        let flags = Flags::TRIMMED.with(Flags::BARE);
        let close = Repr { kind: Kind::Close, flags, bitmap: named, count: 0, ..packet };
        close.emit(&mut Packet::new_unchecked(&mut buffer[..header::LEN]));
        header::LEN
    }

    /// Handles the switch's report of the contributors of an incomplete slot.
    pub(super) fn handle_contributors(&mut self, repr: &Repr) -> Result<(), Ignored> {
        let index = self.current(repr)?;
        let slot = *self.slots.slot(index);
        let (piece, exp) = self.piece(&slot);
        let Repr { bitmap: seen, reason: Reason::None | Reason::Duplicate, .. } = *repr else {
            return Err(Ignored::Shape);
        };
        if slot.state() != SlotState::InFlight || !self.may_be_closed(&slot, &piece, exp) {
            return Err(Ignored::Waiting);
        }
        let full = self.config.admission.bitmap;
        if seen & self.config.admission.own_bit == 0 {
            self.lose(index, LossCause::NotReceived);
            return Ok(());
        }
        self.proof.suspects = full & !seen;
        self.slots.slot_mut(index).closing.asked = false;
        if self.may_close(index, seen) && self.count(index) {
            self.slots.slot_mut(index).closing.quorum = seen & full;
            self.lose(index, LossCause::Quorum);
        }
        Ok(())
    }

    fn lose(&mut self, index: u16, loss: LossCause) {
        self.slots.slot_mut(index).loss = loss;
        self.slots.shift(index, SlotState::Lost);
    }
}

/// The contributor that closes a chunk.
fn designated_closer(contributors: u32, chunk: u32) -> u32 {
    let turn = chunk.checked_rem(contributors.count_ones()).unwrap_or_default();
    let behind = (0..turn).fold(contributors, |left, _| left & left.wrapping_sub(1));
    behind & behind.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closers_take_turns() {
        let closers: Vec<_> = (0..6).map(|chunk| designated_closer(0b1101_0010, chunk)).collect();
        assert_eq!(closers, [0b10, 0b1_0000, 0b100_0000, 0b1000_0000, 0b10, 0b1_0000]);
        assert_eq!((designated_closer(0, 3), designated_closer(1, 3)), (0, 1));
    }
}
