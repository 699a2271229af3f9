//! Closing slots without ranks that are late, in operations that tolerate it.
//!
//! # Why this is safe
//!
//! A slot has two sets, so a chunk replaces the one two windows before it: its result must have reached all ranks by then. In an exact
//! stream the result in between proves that, because all ranks sent that chunk only once they had the one before. A result that was
//! closed proves nothing of those who are missing. So three rules hold in streams of such operations:
//!
//! 1. Every rank sends in the order of the stream, and position `q` only when it has all results up to `q - W` (the
//!    [gate](crate::congestion) does both). So whoever was heard at `p` has every result up to `p - W`.
//! 2. A rank sends `q` only when it has a result at `q - W` or later that was *not* closed: by that, all ranks have the results up to
//!    `q - 2W`, and `q` replaces none that is needed.
//! 3. A rank that knows no such result after `p` closes no position from `p + W` on. So that one is waited for until all are heard, and rule 2
//!    never stops the stream.
//!
//! # How much is left out
//!
//! The number of slots that may be closed is shared out evenly among the children of a switch, and a rank counts each CLOSE that it sends
//! against its part. Who closes a chunk goes round among those heard, by the chunk's number and by how often it was asked about: if the
//! first may close no more, the second does. So no rank lacks more than was tolerated, without any agreement.
//!
//! A rank that was not heard has not proposed the exponent of a later block, either. If its block there does not fit the one that was agreed, it
//! sends that chunk's header alone, as if it had been trimmed.

use netfold_control::Numerics;
use netfold_wire::{Flags, Kind, Packet, Reason, Repr, header};

use super::{NOT_FINITE, Worker};
use crate::congestion::{Fixed, Gate};
use crate::slot::{Closing, Loss, Slot, State};
use crate::stream::Piece;
use crate::{Ignored, OpSpec};

/// What a worker knows beyond its slots, for closing them.
#[derive(Debug, Default)]
pub(super) struct Proof {
    /// One past the last position whose result shows that all ranks were heard.
    whole: u64,
    /// Children that were missing when a slot last told.
    suspects: u32,
}

impl Proof {
    /// All ranks were heard at `position`.
    pub(super) fn heard_all(&mut self, position: u64) {
        self.whole = self.whole.max(position + 1);
    }

    /// Positions below may be sent, at a window of `slots`.
    pub(super) fn end(&self, slots: u32) -> u64 {
        self.whole + u64::from(slots)
    }
}

impl Worker {
    /// Makes ready for an operation whose slots may be closed. From then on the stream goes in order, and has no more under way than a
    /// quarter of its slots: it takes about three round trips to close a slot, and what is behind it goes on meanwhile.
    pub(super) fn expect_closings(&mut self, spec: &OpSpec, number: u64) {
        let (full, own) = (self.config.admission.bitmap, self.config.admission.share);
        if !spec.descriptor.tolerance().late {
            return;
        }
        let window = self.slots.count();
        let gate = self.gate.get_or_insert_with(|| Gate::resume(Box::new(Fixed(window)), &self.slots));
        gate.bound((window / 4).max(1));
        if own != 0 {
            let (children, elders) = (full.count_ones(), (full & (own - 1)).count_ones());
            self.stream.op_mut(number).allow_closings((spec.closings() + children - 1 - elders) / children);
        }
    }

    /// Whether a slot may be closed with what it holds.
    pub(super) fn may_be_closed(&self, slot: &Slot, piece: &Piece, exp: u8) -> bool {
        self.stream.op(slot.op).spec.descriptor.tolerance().late
            && exp != NOT_FINITE
            // A sum that left the range is made again, by the result that all ranks have.
            && self.config.numerics != Numerics::Saturating
            && self.may_lack_shares(slot, piece)
    }

    /// Whether what the slot sends next is a CLOSE, rather than its chunk again.
    pub(super) fn closes_next(&self, slot: &Slot) -> bool {
        let (piece, exp) = self.piece(slot);
        slot.state() == State::Lost
            && slot.sends > 0
            && self.may_be_closed(slot, &piece, exp)
            && match slot.loss {
                Loss::Unheard => false,
                Loss::Quorum => true,
                _ => !slot.closing.asked,
            }
    }

    /// Whether this rank may close the slot when the switch has heard `seen`.
    fn may_close(&self, index: u16, seen: u32) -> bool {
        let (full, own) = (self.config.admission.bitmap, self.config.admission.share);
        let slot = self.slots.slot(index);
        let missing = (full & !seen).count_ones();
        missing > 0
            && missing <= (full.count_ones() / 4).max(1)
            && slot.position + 1 < self.proof.end(self.slots.count())
            && own
                == in_turn(
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

    /// Writes a CLOSE for the slot and returns its length: a question to which the switch answers whom it has heard, unless it has heard
    /// all whom the packet names.
    pub(super) fn emit_close(&mut self, index: u16, buffer: &mut [u8]) -> usize {
        let slot = *self.slots.slot(index);
        let full = self.config.admission.bitmap;
        let guess = full & !self.proof.suspects;
        let named = match slot.closing.quorum {
            0 if self.may_close(index, guess) && self.count(index) => guess,
            0 => full,
            heard => heard,
        };
        let closing = &mut self.slots.slot_mut(index).closing;
        *closing = Closing { asked: true, quorum: 0, asks: closing.asks.saturating_add(1), ..*closing };
        let (piece, exp) = self.piece(&slot);
        let op = self.stream.op(slot.op);
        let packet = self.header(index, &piece, exp, op.spec.class);
        let flags = Flags::TRIMMED.with(Flags::BARE);
        let close = Repr { kind: Kind::Close, flags, bitmap: named, count: 0, ..packet };
        close.emit(&mut Packet::new_unchecked(&mut buffer[..header::LEN]));
        header::LEN
    }

    /// A slot that holds the chunk, and has not heard all, tells whom.
    pub(super) fn hear(&mut self, repr: &Repr) -> Result<(), Ignored> {
        let index = self.current(repr)?;
        let slot = *self.slots.slot(index);
        let (piece, exp) = self.piece(&slot);
        let Repr { bitmap: seen, reason: Reason::None | Reason::Duplicate, .. } = *repr else {
            return Err(Ignored::Shape);
        };
        if slot.state() != State::Flying || !self.may_be_closed(&slot, &piece, exp) {
            return Err(Ignored::Waiting);
        }
        let full = self.config.admission.bitmap;
        if seen & self.config.admission.share == 0 {
            self.lose(index, Loss::Unheard);
            return Ok(());
        }
        self.proof.suspects = full & !seen;
        self.slots.slot_mut(index).closing.asked = false;
        if self.may_close(index, seen) && self.count(index) {
            self.slots.slot_mut(index).closing.quorum = seen & full;
            self.lose(index, Loss::Quorum);
        }
        Ok(())
    }

    fn lose(&mut self, index: u16, loss: Loss) {
        self.slots.slot_mut(index).loss = loss;
        self.slots.shift(index, State::Lost);
    }
}

/// Of the children heard, the one who closes a chunk.
fn in_turn(heard: u32, chunk: u32) -> u32 {
    let turn = chunk.checked_rem(heard.count_ones()).unwrap_or_default();
    let behind = (0..turn).fold(heard, |left, _| left & left.wrapping_sub(1));
    behind & behind.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closers_take_turns() {
        let closers: Vec<_> = (0..6).map(|chunk| in_turn(0b1101_0010, chunk)).collect();
        assert_eq!(closers, [0b10, 0b1_0000, 0b100_0000, 0b1000_0000, 0b10, 0b1_0000]);
        assert_eq!((in_turn(0, 3), in_turn(1, 3)), (0, 1));
    }
}
