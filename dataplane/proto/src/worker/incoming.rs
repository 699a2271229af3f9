//! Handling of datagrams from the switch. Everything is checked before anything changes.

use netfold_control::Admission;
use netfold_wire::{Flags, Kind, LaneOp, Numerics, Packet, Reason, Repr, header, serial};

use super::{Codec, CodedChunk, Contributors, Handled, NOT_FINITE, Worker};
use crate::congestion::Ack;
use crate::descriptors::DescriptorMatch;
use crate::slot::{LossCause, Slot, SlotState};
use crate::stream::Piece;
use crate::{AbortReason, Ignored, Instant, OpId};

/// Flags that the network or the switch may set or clear on the way without changing what the lanes mean.
const PASSING: Flags =
    Flags::RESEND.with(Flags::CONGESTION).with(Flags::DROPPABLE).with(Flags::SATURATED).with(Flags::PARTIAL);

/// A result that fits the slot's outstanding chunk in every field.
pub(super) struct Fitting {
    pub(super) index: u16,
    pub(super) piece: Piece,
    exp: u8,
}

impl Worker {
    /// Records that the next datagram was marked by the network: the ECN bits of its IP header are CE (RFC 3168).
    pub fn note_mark(&mut self) {
        self.marked = true;
    }

    /// Takes a datagram from the switch. Any bytes are harmless: what does not fit exactly is counted in
    /// [`WorkerStats::ignored`](crate::WorkerStats::ignored) and changes nothing else.
    pub fn handle_packet(&mut self, now: Instant, datagram: &[u8], codec: &mut impl Codec) -> Handled {
        match self.take(now, datagram, codec) {
            Ok(_) if self.aborted.is_some() => Handled::Aborted,
            Ok(handled) => handled,
            Err(cause) => {
                self.marked = false;
                self.stats.ignored[cause as usize] += 1;
                Handled::Ignored(cause)
            }
        }
    }

    fn take(&mut self, now: Instant, datagram: &[u8], codec: &mut impl Codec) -> Result<Handled, Ignored> {
        if self.aborted.is_some() {
            return Err(Ignored::Closed);
        }
        let packet = Packet::new_checked(datagram).map_err(|_| Ignored::Malformed)?;
        let repr = Repr::parse(&packet).map_err(|_| Ignored::Malformed)?;
        self.check_job(&repr)?;
        self.received_at = Some(now);
        match repr.kind {
            Kind::Result => {
                let fitting = self.check_result(&repr, packet.payload())?;
                self.check_descriptor_first(&fitting)?;
                self.accept(now, &repr, &fitting, packet.payload(), codec);
                Ok(Handled::Result)
            }
            Kind::Stale => {
                self.check_answer(packet.payload())?;
                self.current(&repr)?;
                self.abort(AbortReason::Stale { chunk: repr.chunk });
                Ok(Handled::Aborted)
            }
            // A REJECT of any chunk of this epoch stands for all that follow.
            Kind::Reject => {
                self.check_answer(packet.payload())?;
                // A delayed reply to a request of path validation, which preceded the admission.
                if repr.reason == Reason::Path {
                    return Err(Ignored::Late);
                }
                if matches!(repr.reason, Reason::None | Reason::Stale | Reason::Duplicate) {
                    return Err(Ignored::Shape);
                }
                self.abort(AbortReason::Rejected(repr.reason));
                Ok(Handled::Aborted)
            }
            Kind::Heard => self.handle_contributors(&repr).map(|()| Handled::Heard),
            Kind::Data | Kind::Close | Kind::Probe | Kind::Advance => Err(Ignored::Kind),
        }
    }

    /// Of this job, epoch and key, and with slot, set and chunk that belong together.
    fn check_job(&self, repr: &Repr) -> Result<(), Ignored> {
        let admission = &self.config.admission;
        if repr.job != admission.job {
            Err(Ignored::Job)
        } else if repr.epoch != admission.epoch {
            Err(Ignored::Epoch)
        } else if repr.key != admission.key {
            Err(Ignored::Key)
        } else if repr.slot != self.config.share.first as u16 + self.slots.index(repr.chunk)
            || repr.set != self.slots.set(repr.chunk)
        {
            Err(Ignored::Slot)
        } else {
            Ok(())
        }
    }

    /// A STALE or REJECT is a header alone, or the packet that caused it, returned.
    fn check_answer(&self, lanes: &[u8]) -> Result<(), Ignored> {
        let len = header::LEN + lanes.len();
        if len == header::LEN || len == self.config.datagram_len_max() { Ok(()) } else { Err(Ignored::Shape) }
    }

    /// The slot of the packet, if the packet's chunk is the one that slot has outstanding.
    pub(super) fn current(&self, repr: &Repr) -> Result<u16, Ignored> {
        let index = self.slots.index(repr.chunk);
        let slot = self.slots.slot(index);
        let chunk = self.slots.chunk(index);
        if serial::newer(chunk, repr.chunk) {
            Err(Ignored::Late)
        } else if chunk != repr.chunk
            || slot.sends == 0
            || !matches!(slot.state(), SlotState::InFlight | SlotState::Lost)
        {
            Err(Ignored::Unsent)
        } else {
            Ok(index)
        }
    }

    fn check_result(&self, repr: &Repr, lanes: &[u8]) -> Result<Fitting, Ignored> {
        let index = self.current(repr)?;
        let slot = self.slots.slot(index);
        let op = self.stream.op(slot.op);
        let (piece, exp) = self.piece(slot);
        let (len, flags) = self.shape(&piece, exp);
        let closed = repr.flags.contains(Flags::PARTIAL);
        // The agreed exponent is the largest of all ranks' proposals, this rank's among them unless the switch did not receive it.
        let exp_next_fits = match piece.proposes {
            Some(_) => closed || repr.exp_next >= slot.proposed,
            // A rank that submitted another operation may propose one where this rank does not: the descriptors will say so.
            None => repr.exp_next == 0 || piece.descriptor,
        };
        let complete = match self.contributor_count(slot, &piece) {
            Some(count) => self.has_contributors(repr, count, self.contributes(slot, &piece)),
            None => self.is_complete(repr, self.may_lack_contributions(slot, &piece)),
        };
        if !complete || closed && !self.may_be_closed(slot, &piece, exp) {
            return Err(Ignored::Incomplete);
        }
        let owner = self.owner(slot, &piece);
        let form = (header::LEN + lanes.len(), repr.flags.without(PASSING));
        // Ranks that predict differently send different headers, some of them alone; such a result is not delivered.
        let repeated = self.is_guess(slot, &piece) && !self.is_alike(slot, &piece);
        let either = [(header::LEN, Flags::BARE), (self.config.datagram_len_max(), Flags::default())];
        // Of a chunk that another rank receives, the header is enough.
        let passed = !owner.includes(self.config.rank) && lanes.is_empty();
        let shape = if passed { (header::LEN, flags.with(Flags::BARE)) } else { (len, flags) };
        let fits = (if repeated { either.contains(&form) } else { form == shape })
            && repr.owner == owner
            && repr.op == self.lane_op(&piece, op.spec.lane_op)
            && repr.reason == Reason::None
            && (repr.exp == exp || repeated)
            && exp_next_fits;
        if fits { Ok(Fitting { index, piece, exp }) } else { Err(Ignored::Shape) }
    }

    /// Whether the result has the contributions of so many ranks, with or without that of this one.
    fn has_contributors(&self, repr: &Repr, count: u16, own: bool) -> bool {
        let Admission { bitmap: full, own_bit, .. } = self.config.admission;
        repr.count == count
            && repr.bitmap & !full == 0
            && u32::from(count) >= repr.bitmap.count_ones()
            && (repr.bitmap & own_bit != 0) == own
            && !repr.flags.contains(Flags::TRIMMED)
    }

    /// Whether the result has all contributions, or as many as it must have.
    fn is_complete(&self, repr: &Repr, may_lack: bool) -> bool {
        let Admission { bitmap: full, .. } = self.config.admission;
        let enough = if may_lack {
            repr.bitmap & !full == 0
                && repr.count <= self.config.world
                && u32::from(repr.count) >= repr.bitmap.count_ones()
        } else {
            repr.bitmap == full && repr.count == self.config.world
        };
        enough && !repr.flags.contains(Flags::TRIMMED)
    }

    /// Counts a result that lacks contributions; the ranks whose contributions are in it.
    fn note_contributors(&mut self, slot: &Slot, repr: &Repr) -> Contributors {
        let own = self.config.admission.own_bit;
        let within = own == 0 || repr.bitmap & own != 0;
        self.stats.partial += u64::from(repr.count < self.config.world);
        if slot.droppable && within {
            self.stream.op_mut(slot.op).restore_spare();
        }
        self.stats.left_out += u64::from(!within);
        Contributors { count: repr.count, own: within }
    }

    /// Records whether all ranks contributed; if not, this rank's next block may not fit the agreed exponent.
    fn note_completeness(&mut self, slot: &Slot, repr: &Repr, piece: &Piece, codec: &mut impl Codec) {
        let closed = repr.flags.contains(Flags::PARTIAL);
        if closed {
            self.stats.closed += 1;
        } else {
            self.proof.note_complete(slot.position);
        }
        if let Some(chunk) = piece.proposes.filter(|_| slot.redo.is_none()) {
            let chunk_at = self.chunk_at(slot.op, chunk);
            let fits = !closed || codec.exponent(OpId(slot.op), chunk_at) <= repr.exp_next;
            self.stream.op_mut(slot.op).note_fit(chunk, fits);
        }
    }

    fn accept(&mut self, now: Instant, repr: &Repr, fitting: &Fitting, lanes: &[u8], codec: &mut impl Codec) {
        let Fitting { index, piece, exp } = *fitting;
        let slot = *self.slots.slot(index);
        self.note_result(now, index, repr, header::LEN + lanes.len());
        self.note_wait(now, &slot, &piece);
        let saturated = slot.redo.is_none() && self.left_the_range(repr, &piece, slot.op);
        let mispredicted = self.is_mispredicted(&slot, &piece, repr.exp_next);
        self.stats.saturated += u64::from(saturated);
        self.stats.mispredicted += u64::from(mispredicted);
        if saturated || mispredicted {
            self.slots.again(index, repr.exp_next);
            self.find_lost(now);
            return;
        }
        self.stats.predicted += u64::from(self.is_guess(&slot, &piece));
        if let Some(chunk) = piece.data {
            self.stats.non_finite += u64::from(exp == NOT_FINITE);
            let contributors = match self.contributor_count(&slot, &piece) {
                // All that were to contribute.
                Some(_) => Contributors { count: self.config.world, own: true },
                None => self.note_contributors(&slot, repr),
            };
            let (chunk, full_headroom) = (self.chunk_at(slot.op, chunk), self.has_full_headroom(&slot));
            let coded = CodedChunk { op: OpId(slot.op), chunk, exp, full_headroom };
            if self.owner(&slot, &piece).includes(self.config.rank) {
                codec.unpack(coded, contributors, lanes);
            } else {
                codec.pass(coded, contributors);
            }
        }
        self.note_completeness(&slot, repr, &piece, codec);
        let exp_next = slot.redo.unwrap_or(repr.exp_next);
        if let Some(position) = self.stream.op_mut(slot.op).receive(slot.position, exp_next) {
            self.unblock(position);
        }
        if piece.descriptor {
            self.compare_descriptors(slot.op, lanes);
            if self.stream.op(slot.op).is_verified() {
                codec.verified(OpId(slot.op));
            }
        }
        self.remember_exponents(slot.op);
        let position = slot.position + u64::from(self.slots.count());
        self.slots.slot_mut(index).position = position;
        self.enter(index, self.stream.find_near(position, slot.op));
        self.report_ack(now, &slot, &piece, repr);
        self.find_lost(now);
    }

    /// Reports to the congestion control that a position was acknowledged.
    fn report_ack(&mut self, now: Instant, slot: &Slot, piece: &Piece, repr: &Repr) {
        let marked = std::mem::take(&mut self.marked) || repr.flags.contains(Flags::CONGESTION);
        if let Some(gate) = &mut self.gate {
            // Headers are faster than full packets, and a closed slot includes a rank's timeout.
            let is_sample = slot.sends == 1 && !piece.is_bare() && !repr.flags.contains(Flags::PARTIAL);
            let once = is_sample.then_some(slot.sent_at);
            let smoothed = self.rtt.smoothed().unwrap_or_default();
            gate.on_ack(slot.position, &Ack::new(now, once, marked, smoothed));
            self.stats.window = gate.window();
        }
    }

    /// Whether a sum of quantised values in this result is invalid. All ranks receive the same flag.
    fn left_the_range(&self, repr: &Repr, piece: &Piece, op: u64) -> bool {
        let spec = &self.stream.op(op).spec;
        self.config.numerics == Numerics::Saturating
            && repr.flags.contains(Flags::SATURATED)
            && (piece.data.is_some() && spec.exponents && spec.lane_op == LaneOp::Sum)
    }

    fn note_result(&mut self, now: Instant, index: u16, repr: &Repr, len: usize) {
        self.progress_at = now;
        self.last_result = Some(repr.chunk);
        self.stats.results += 1;
        self.stats.result_bytes += len as u64;
        self.stats.congested += u64::from(self.marked || repr.flags.contains(Flags::CONGESTION));
        let slot = self.slots.slot(index);
        self.stats.results_together += u64::from(slot.together);
        match (slot.lowest, slot.sends) {
            (true, 1) => self.rtt.sample(now, slot.sent_at),
            (true, _) => self.rtt.on_ack_of_retransmission(now, slot.sent_at),
            (false, 1) => self.rtt.sample_of_higher_class(now, slot.sent_at),
            (false, _) => {}
        }
        self.recovery.on_ack(now, slot, &self.rtt);
        self.note_rtt();
    }

    /// Counts how long this rank waited for the others, unless the network lost its packet or the result.
    fn note_wait(&mut self, now: Instant, slot: &Slot, piece: &Piece) {
        if slot.sends == 1 || slot.loss == LossCause::Probed {
            let wait = now - slot.first_sent_at;
            self.stats.waits.note(wait);
            if piece.descriptor {
                self.stats.starts.note(wait);
            }
        }
    }

    /// Makes the slot at `position`, whose exponent has been agreed, ready to be sent.
    fn unblock(&mut self, position: u64) {
        let index = self.slots.at(position);
        let slot = self.slots.slot(index);
        if slot.position == position && slot.state() == SlotState::Blocked {
            self.slots.shift(index, SlotState::Ready);
        }
    }

    /// Compares all ranks' descriptors of operation `number` with this rank's.
    fn compare_descriptors(&mut self, number: u64, lanes: &[u8]) {
        let mine = self.stream.op(number).spec.descriptor;
        match self.descriptors.compare(mine, lanes) {
            DescriptorMatch::Same => {
                self.stream.verify(number);
                self.compare_predictions(number, lanes);
            }
            DescriptorMatch::Differs { rank, theirs } => {
                let reason = AbortReason::Mismatch { rank, mine, theirs };
                if self.mismatch.is_none_or(|(earlier, _)| number < earlier) {
                    self.mismatch = Some((number, reason));
                }
            }
        }
        if let Some((number, reason)) = self.mismatch
            && number == self.stream.unverified()
        {
            self.abort(reason);
        }
    }
}
