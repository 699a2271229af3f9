//! The worker of one job.

mod closing;
mod incoming;
mod input;
mod predicting;
mod probe;
mod progress;
#[cfg(test)]
mod tests;

use core::time::Duration;

use netfold_wire::{Flags, Kind, LaneOp, LaneOwner, Packet, Reason, Repr, header};

use closing::Proof;
use input::AwaitedInput;
pub use progress::OutstandingChunk;

use crate::congestion::{CongestionControl, Gate, congestion_control};
use crate::descriptors::Descriptors;
use crate::importance::Magnitudes;
use crate::prediction::History;
use crate::recovery::Recovery;
use crate::rtt::Rtt;
use crate::slot::{ClosingState, LossCause, Slot, SlotState, Slots};
use crate::stream::{Piece, Stream};
use crate::{
    AbortReason, Ignored, Instant, OpId, OpSpec, SubmitError, WorkerConfig, WorkerConfigError, WorkerStats,
};

/// A data chunk, and how its lanes are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodedChunk {
    /// The operation.
    pub op: OpId,
    /// Counted from 0 within the operation.
    pub chunk: u32,
    /// The agreed exponent; 255 where some rank's block holds a NaN or an infinity, 0 in operations without exponents.
    pub exp: u8,
    /// With so much headroom that the sum of all ranks' contributions cannot leave the range: of a chunk whose first sum has saturated at a
    /// switch of [`Numerics::Saturating`](netfold_wire::Numerics::Saturating). Same input, same exponent.
    pub full_headroom: bool,
}

/// The ranks whose contributions are in a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contributors {
    /// Their number: that of all ranks unless the operation tolerates loss. The lanes are zeros where it is 0.
    pub count: u16,
    /// Whether this rank is one of them. Otherwise a later operation may make up for it.
    pub own: bool,
}

/// How a worker reads and writes the caller's tensors. Called from inside [`Worker::poll_transmit`] and
/// [`Worker::handle_packet`], on data chunks only: `chunk` counts from 0 within the operation.
///
/// A chunk may be packed several times (retransmissions) and must then yield the same bytes; it is unpacked exactly once, and
/// never packed or asked for its exponent after that. Where exponents are [predicted](WorkerConfig::predict) it may be packed by another
/// exponent than the agreed one, which is none below this rank's own, and is then packed again before it is unpacked.
pub trait Codec {
    /// This rank's block exponent of `chunk`: 0 to 254, or 255 when the block holds a NaN or an infinity. Asked for
    /// operations with exponents only, before the chunk is first packed.
    fn exponent(&mut self, op: OpId, chunk: u32) -> u8;

    /// Quantises a chunk into the packet. Must write all of `lanes` (the words of the job's packets, big-endian), padding
    /// included. Where some rank's block is not finite, every lane must hold the value zero.
    fn pack(&mut self, coded: CodedChunk, lanes: &mut [u8]);

    /// Takes the result of a chunk, the fold of the contributors' lanes, big-endian; delivers NaN where some rank's block is not
    /// finite. May overwrite the input.
    fn unpack(&mut self, coded: CodedChunk, contributors: Contributors, lanes: &[u8]);

    /// How many chunks of the operation hold this rank's input, from the first on: `u32::MAX` where all do. It never becomes less. The worker asks for
    /// the exponent of a chunk, and has it packed, only when the chunk is one of them; whenever there may be more,
    /// [`Worker::poll_transmit`] is to be called.
    fn readable(&mut self, op: OpId) -> u32 {
        let _ = op;
        u32::MAX
    }

    /// Every rank has submitted this operation: results of it that were unpacked before, and those that come, are what was asked for.
    fn verified(&mut self, op: OpId) {
        let _ = op;
    }

    /// What this rank knows the operation's tensor by, such as its address: exponents are predicted from the last operation with the same
    /// key. Other ranks may have other keys. Called once an operation, before it is first packed.
    fn tensor_key(&mut self, op: OpId) -> u64 {
        let _ = op;
        0
    }

    /// Takes the result of a chunk whose lanes another rank receives ([`Sharing`](crate::Sharing)): this rank's contribution is folded, or left
    /// out if it is not among the contributors. The caller's tensor stays as it is.
    fn pass(&mut self, coded: CodedChunk, contributors: Contributors) {
        let _ = (coded, contributors);
    }

    /// Whether this rank's contribution to `chunk`, of an operation that tolerates loss, may be lost rather than others. Called once,
    /// before the chunk is first packed.
    fn is_expendable(&mut self, op: OpId, chunk: u32) -> bool {
        let _ = (op, chunk);
        true
    }
}

/// The effect of an incoming datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handled {
    /// A result was taken: there may be more to send, and an event.
    Result,
    /// The switch reported its contributors, and waits for others: there may be more to send.
    Heard,
    /// Nothing changed but a counter.
    Ignored(Ignored),
    /// The job is over: an event says why.
    Aborted,
}

/// What the caller learns from [`Worker::poll_event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerEvent {
    /// The operation is finished on this rank: every result was unpacked, and every rank submitted the same operation
    /// at this place. Operations are reported in the order of submission.
    OpDone(OpId),
    /// The job is over; comes once, after every finished operation. Operations not reported as done never will be, and
    /// their tensors hold an unspecified mix of inputs and results.
    Aborted(AbortReason),
}

/// The worker of one job: the state of each slot, the stream of operations, timers.
///
/// Operations lie end to end in one stream of positions. Position `k` uses slot `k mod W` and set `(k / W) mod 2`, and
/// is sent only when the result of `k - W` has arrived, so each slot steps through its own positions and none waits for
/// another slot, with two exceptions: a data chunk waits for its block exponent, and what depends on input waits until that is
/// [there](Codec::readable). One slot:
///
/// ```text
///                 position submitted,
///  +------+       exponent not agreed      +---------+
///  | Idle |------------------------------->| Blocked |<---------+
///  +------+                                +---------+          | its input
///   ^    |             exponent arrives in      |               | is not
///   |    | position    another slot's result,   |               | there
///   |    | submitted,  or more input arrives    v               |
///   |    | exponent agreed or not needed   +---------+----------+
///   |    +-------------------------------->|  Ready  |<----------------+
///   |                                      +---------+                 |
///   |                                           | poll_transmit        |
///   |                                           v                      |
///   |   RESULT, stream ends before k + W   +---------+  RESULT         |
///   +--------------------------------------| Flying  |-----------------+ step to k + W,
///   |                                      +---------+                 | exponent agreed
///   |                 timer expires, or it  |       ^                  | (else to Blocked)
///   |                 was overtaken         v       | poll_transmit    |
///   |                                      +---------+                 |
///   +--------------------------------------|  Lost   |-----------------+
///       RESULT after all                   +---------+  RESULT after all
/// ```
///
/// An abort ends the job from any state.
///
/// At a switch whose sums saturate, ranks may pack data chunks with less headroom than the worst case needs. A RESULT of
/// exponent-coded data that carries the flag `saturated` is not delivered: the slot goes back to `Ready` with the same
/// position, under its next chunk number (a window later), and the chunk is packed again with all headroom. All ranks get
/// the same bytes, so all do so. That result is delivered whether or not its flag is set: its sums cannot leave the range, and one
/// that ends exactly at an end of it is right. From then on the slot's chunk numbers are a window ahead of its positions.
///
/// Where exponents are [predicted](WorkerConfig::predict), a data chunk is sent in the flight of its operation's descriptor. Its RESULT is delivered
/// if the descriptor's result shows that every rank has used the exponent which the RESULT carries; otherwise the chunk is repeated by that
/// exponent, in the same way. A RESULT that precedes the descriptor's is ignored, and requested again when that is there.
#[derive(Debug)]
pub struct Worker {
    config: WorkerConfig,
    slots: Slots,
    stream: Stream,
    rtt: Rtt,
    recovery: Recovery,
    /// Releases chunks by a congestion-control algorithm; without one each slot advances independently.
    gate: Option<Gate>,
    /// The network marked the packet that comes next.
    marked: bool,
    descriptors: Descriptors,
    /// Slots wait for input.
    awaited_input: Option<AwaitedInput>,
    history: History,
    /// The sizes of recent blocks, where importance classes depend on them.
    magnitudes: Magnitudes,
    proof: Proof,
    /// When a result was last taken, or the first chunk sent after nothing was outstanding.
    progress_at: Instant,
    /// When a packet of this job was last received.
    received_at: Option<Instant>,
    /// The chunk whose result was last taken.
    last_result: Option<u32>,
    /// When a packet was last handed out.
    handed_out_at: Option<Instant>,
    /// The earliest operation found to differ between ranks, held back until every operation before it is known to be
    /// the same: one that differs there moves all later ones, and is the one to report.
    mismatch: Option<(u64, AbortReason)>,
    aborted: Option<AbortReason>,
    abort_reported: bool,
    stats: WorkerStats,
}

impl Worker {
    /// A worker that has nothing to do yet.
    ///
    /// # Errors
    ///
    /// [`WorkerConfigError`] when the configuration (part of which came over the network) is out of range.
    pub fn new(config: WorkerConfig) -> Result<Self, WorkerConfigError> {
        Self::starting_at(0, config)
    }

    /// A worker as after `position` positions of its stream, for simulations of long streams; all ranks and the switch's slots must
    /// be as far.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn starting_at(position: u64, config: WorkerConfig) -> Result<Self, WorkerConfigError> {
        config.check()?;
        let slots = config.share.count;
        let rtt = Rtt::new(config.rto_min, config.rto_initial, config.rto_max);
        Ok(Self {
            slots: Slots::new(slots, config.admission.first_chunk, position),
            stream: Stream::new(slots, position),
            recovery: Recovery::default(),
            gate: congestion_control(config.admission.congestion, slots)
                .map(|control| Gate::starting_at(position, control)),
            marked: false,
            descriptors: Descriptors::new(config.world, config.admission.lane_words, config.numerics),
            awaited_input: None,
            history: History::default(),
            magnitudes: Magnitudes::default(),
            proof: Proof::starting_at(position),
            progress_at: Instant::ZERO,
            received_at: None,
            last_result: None,
            handed_out_at: None,
            mismatch: None,
            aborted: None,
            abort_reported: false,
            stats: WorkerStats { rto: rtt.rto(), window: slots, ..WorkerStats::default() },
            rtt,
            config,
        })
    }

    /// Separates the next datagram from the previous ones: it does not count as sent together with them, even at the same time.
    pub fn part(&mut self) {
        self.handed_out_at = None;
    }

    /// Uses the caller's congestion-control algorithm instead of that of the admission.
    #[must_use]
    pub fn with_congestion_control(mut self, control: Box<dyn CongestionControl>) -> Self {
        self.gate = Some(Gate::starting_at(self.stream.end(), control));
        self
    }

    /// Appends an operation to the stream. All ranks must submit the same operations in the same order.
    ///
    /// Allocates the operation's bookkeeping: one bit a chunk.
    ///
    /// # Errors
    ///
    /// [`SubmitError::QueueFull`], [`SubmitError::Spec`] or [`SubmitError::Aborted`]; nothing was submitted then.
    pub fn submit(&mut self, spec: OpSpec) -> Result<OpId, SubmitError> {
        if let Some(reason) = self.aborted {
            return Err(SubmitError::Aborted(reason));
        }
        spec.check()?;
        if self.stream.pending() >= self.config.ops_max {
            return Err(SubmitError::QueueFull { ops_max: self.config.ops_max });
        }
        let start = self.stream.end();
        if spec.exponents {
            self.rtt.expect_classes(spec.importance.classes());
        }
        let id = self.stream.submit(spec, self.predicts(&spec));
        self.expect_closings(&spec, id.0);
        // An idle slot is less than a window behind the old end of the stream.
        let reach = self.stream.end().min(start + u64::from(self.slots.count()));
        for position in start..reach {
            let index = self.slots.at(position);
            let slot = self.slots.slot(index);
            if slot.position == position && slot.state() == SlotState::Idle {
                self.enter(index, Some(id.0));
            }
        }
        Ok(id)
    }

    /// Writes the next datagram to send to the front of `buffer` and returns its length; `None` when there is nothing
    /// to send now. Retransmissions come first. Call it until it returns `None` after each [`Self::submit`],
    /// [`Self::handle_packet`] and [`Self::handle_timeout`]; calls with nothing to do are cheap.
    ///
    /// # Panics
    ///
    /// When `buffer` is shorter than [`WorkerConfig::datagram_len_max`].
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        codec: &mut impl Codec,
    ) -> Option<usize> {
        assert!(buffer.len() >= self.config.datagram_len_max(), "the buffer holds any datagram of the job");
        let index = self.next_with_input(codec)?;
        let closes = self.closes_next(self.slots.slot(index));
        let len = if closes { self.emit_close(index, buffer) } else { self.emit(index, buffer, codec) };
        self.note_sent(now, index, len, closes);
        Some(len)
    }

    /// The slot that sends next.
    fn next_to_send(&mut self) -> Option<u16> {
        if self.aborted.is_some() {
            return None;
        }
        if let Some(lost) = self.slots.front(SlotState::Lost) {
            return Some(lost);
        }
        match &mut self.gate {
            None => self.slots.front(SlotState::Ready),
            Some(gate) => gate.next(&self.slots, self.proof.end(self.slots.count())),
        }
    }

    /// Schedules chunks whose timers have expired for retransmission, or aborts a stalled job. Harmless when called early.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.aborted.is_some() || self.outstanding() == 0 {
            return;
        }
        let silent = now - self.progress_at;
        if silent >= self.config.stall_timeout {
            let last_received = self.received_at.map(|at| now - at);
            self.abort(AbortReason::Stalled { silent, outstanding: self.outstanding(), last_received });
            return;
        }
        self.find_lost(now);
        let before = self.lost();
        self.recovery.expire(now, &mut self.slots, &mut self.rtt);
        self.report_loss(now, before);
        self.recovery.probe(now, &mut self.slots, &self.rtt);
        self.stats.rto = self.rtt.rto();
    }

    fn find_lost(&mut self, now: Instant) {
        let before = self.lost();
        self.recovery.detect(now, &mut self.slots, &self.rtt);
        self.report_loss(now, before);
    }

    /// Lost chunks, without those for which the switch is first queried about stragglers.
    fn lost(&self) -> u32 {
        let lost = self.slots.len(SlotState::Lost);
        if self.gate.is_none() || lost == 0 {
            return lost;
        }
        let asked = self.slots.all(SlotState::Lost).filter(|index| self.closes_next(self.slots.slot(*index)));
        lost - asked.count() as u32
    }

    /// Reports to the congestion control that there are more lost chunks than before.
    fn report_loss(&mut self, now: Instant, before: u32) {
        let lost = self.lost();
        if let Some(gate) = &mut self.gate
            && lost > before
        {
            gate.on_loss(now);
            self.stats.window = gate.window();
        }
    }

    /// The next thing to report. Call it until it returns `None`.
    pub fn poll_event(&mut self) -> Option<WorkerEvent> {
        if let Some(id) = self.stream.pop_done() {
            self.stats.ops_done += 1;
            return Some(WorkerEvent::OpDone(id));
        }
        let reason = self.aborted?;
        (!core::mem::replace(&mut self.abort_reported, true)).then_some(WorkerEvent::Aborted(reason))
    }

    /// Ends the job from this side, for example because the control session lost a peer. The first reason stands.
    pub fn abort(&mut self, reason: AbortReason) {
        self.aborted.get_or_insert(reason);
    }

    /// When [`Self::handle_timeout`] must be called next; `None` while nothing is outstanding.
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.aborted.is_some() || self.outstanding() == 0 {
            return None;
        }
        let stall = self.progress_at + self.config.stall_timeout;
        let expiry = self.recovery.next_deadline(&self.slots, &self.rtt);
        Some(expiry.map_or(stall, |at| at.min(stall)))
    }

    /// Counters and round-trip estimates.
    pub fn stats(&self) -> &WorkerStats {
        &self.stats
    }

    /// The configuration it was made with.
    pub fn config(&self) -> &WorkerConfig {
        &self.config
    }

    /// Operations submitted and not yet reported as done.
    pub fn pending(&self) -> usize {
        self.stream.pending()
    }

    /// Chunks sent whose results have not arrived.
    pub fn outstanding(&self) -> u32 {
        self.slots.len(SlotState::InFlight) + self.slots.len(SlotState::Lost)
    }

    /// Puts a slot whose position is new into its initial state; `op` is the operation that holds the position.
    fn enter(&mut self, index: u16, op: Option<u64>) {
        let slot = self.slots.slot_mut(index);
        (slot.sends, slot.redo, slot.droppable, slot.early) = (0, None, false, false);
        slot.class = None;
        slot.closing = ClosingState::default();
        let state = match op {
            None => SlotState::Idle,
            Some(op) => {
                slot.op = op;
                if self.stream.op(op).may_send(slot.position) { SlotState::Ready } else { SlotState::Blocked }
            }
        };
        self.slots.shift(index, state);
    }

    /// Writes the slot's packet and returns its length.
    fn emit(&mut self, index: u16, buffer: &mut [u8], codec: &mut impl Codec) -> usize {
        let slot = *self.slots.slot(index);
        self.predict(slot.op, codec);
        let (piece, exp) = self.piece(&slot);
        let id = OpId(slot.op);
        let op = self.stream.op(slot.op);
        let importance = op.spec.importance;
        let guess = self.is_guess(&slot, &piece);
        let empty = piece.data.is_some_and(|chunk| op.is_unfit(chunk)) || !self.contributes(&slot, &piece);
        let class = self.choose_class(index, &piece, exp);
        let (mut len, mut flags) = self.shape(&piece, exp);
        if guess && exp == NOT_FINITE {
            (len, flags) = (header::LEN, Flags::BARE);
        } else if empty {
            (len, flags) = (header::LEN, Flags::TRIMMED.with(Flags::BARE));
        } else if self.put_at_risk(index, &piece, exp, codec) {
            flags = flags.with(Flags::DROPPABLE);
            // If it is trimmed, its header overtakes what is in any queue.
            let slot = self.slots.slot_mut(index);
            slot.lowest &= importance.classes() == 1;
        }
        let mut packet = Packet::new_unchecked(&mut buffer[..len]);
        let lanes = packet.payload_mut();
        if piece.descriptor {
            let descriptor = self.stream.op(slot.op).spec.descriptor;
            self.descriptors.write(self.config.rank, descriptor, lanes);
            self.write_predictions(slot.op, lanes);
        } else if let Some(chunk) = piece.data.filter(|_| !empty && !lanes.is_empty()) {
            let (chunk, full_headroom) = (self.chunk_at(slot.op, chunk), self.has_full_headroom(&slot));
            codec.pack(CodedChunk { op: id, chunk, exp, full_headroom }, lanes);
        }
        let proposed = piece.proposes.map_or(0, |chunk| match &self.stream.op(slot.op).prediction {
            Some(prediction) => prediction.own(chunk),
            None => codec.exponent(id, self.chunk_at(slot.op, chunk)),
        });
        self.slots.slot_mut(index).proposed = proposed;
        self.slots.slot_mut(index).closing.asked = false;
        Repr {
            flags: if slot.sends == 0 { flags } else { flags.with(Flags::RESEND) },
            count: u16::from(!empty),
            ..self.header(index, &piece, exp, class)
        }
        .emit(&mut packet);
        len
    }

    /// The header of the DATA of a slot, without flags.
    fn header(&self, index: u16, piece: &Piece, exp: u8, class: u8) -> Repr {
        let chunk = self.slots.chunk(index);
        let slot = self.slots.slot(index);
        let admission = &self.config.admission;
        Repr {
            kind: Kind::Data,
            flags: Flags::default(),
            op: self.lane_op(piece, self.stream.op(slot.op).spec.lane_op),
            class,
            reason: Reason::None,
            job: admission.job,
            slot: self.config.share.first as u16 + index,
            set: self.slots.set(chunk),
            epoch: admission.epoch,
            key: admission.key,
            chunk,
            // A switch knows its children and writes both itself.
            bitmap: 1 << (self.config.rank % 32),
            count: 1,
            exp,
            exp_next: slot.proposed,
            owner: self.owner(slot, piece),
        }
    }

    /// The class of the slot's packets, chosen before its chunk is first sent: where the operation has several, by the size of its block.
    fn choose_class(&mut self, index: u16, piece: &Piece, exp: u8) -> u8 {
        let slot = *self.slots.slot(index);
        if let Some(chosen) = slot.class {
            return chosen;
        }
        let OpSpec { class: first, importance, exponents, .. } = self.stream.op(slot.op).spec;
        let above = match piece.data {
            _ if importance.classes() == 1 || !exponents => 0,
            Some(_) if exp != NOT_FINITE && slot.redo.is_none() => {
                self.magnitudes.classify(importance, exp, slot.position)
            }
            _ => importance.highest(),
        };
        let slot = self.slots.slot_mut(index);
        (slot.class, slot.lowest) = (Some(first + above), above == 0);
        first + above
    }

    /// The class of the packet that [`Self::poll_transmit`] would write; `None` when there is none.
    pub fn next_class(&mut self, codec: &mut impl Codec) -> Option<u8> {
        let index = self.next_with_input(codec)?;
        let slot = *self.slots.slot(index);
        let op = self.stream.op(slot.op);
        if op.prediction.as_ref().is_some_and(|prediction| !prediction.is_made()) {
            // Not known before the operation's first packet, its descriptor.
            return Some(op.spec.class + op.spec.importance.highest());
        }
        let (piece, exp) = self.piece(&slot);
        Some(self.choose_class(index, &piece, exp))
    }

    /// Whether the slot's chunk is sent as one that may be trimmed. What an operation tolerates is bounded here, by the rank
    /// whose contribution it is: never are more at risk than may still be lost.
    fn put_at_risk(&mut self, index: u16, piece: &Piece, exp: u8, codec: &mut impl Codec) -> bool {
        let slot = *self.slots.slot(index);
        if slot.sends > 0 {
            return slot.droppable;
        }
        let droppable = match piece.data {
            Some(chunk) if exp != NOT_FINITE && self.may_lack_contributions(&slot, piece) => {
                self.stream.op(slot.op).has_spare()
                    && codec.is_expendable(OpId(slot.op), self.chunk_at(slot.op, chunk))
                    && self.stream.op_mut(slot.op).put_at_risk()
            }
            _ => false,
        };
        self.slots.slot_mut(index).droppable = droppable;
        droppable
    }

    /// Whether the result of the slot's chunk may lack contributions.
    fn may_lack_contributions(&self, slot: &Slot, piece: &Piece) -> bool {
        let tolerant = self.stream.op(slot.op).spec.descriptor.tolerance.any();
        tolerant && piece.data.is_some() && slot.redo.is_none() && self.config.admission.own_bit != 0
    }

    /// What the slot's packet carries, and by which exponent. An exponent is proposed only once.
    fn piece(&self, slot: &Slot) -> (Piece, u8) {
        let op = self.stream.op(slot.op);
        let mut piece = op.piece(slot.position);
        piece.proposes = piece.proposes.filter(|_| slot.redo.is_none());
        let exp = |chunk| match (&op.prediction, slot.redo) {
            (Some(_), Some(agreed)) => agreed,
            (Some(prediction), None) => prediction.used(chunk),
            (None, _) => op.exponent(chunk),
        };
        (piece, piece.data.map_or(0, exp))
    }

    /// The chunk of the tensor that comes `ordinal`-th in the stream.
    fn chunk_at(&self, op: u64, ordinal: u32) -> u32 {
        self.stream.op(op).spec.chunk_at(ordinal, self.config.world)
    }

    /// How many ranks contribute to the slot's chunk, where others send headers alone; `None` where all contribute, or send zeros.
    fn contributor_count(&self, slot: &Slot, piece: &Piece) -> Option<u16> {
        let spec = &self.stream.op(slot.op).spec;
        // Headers are accepted in programs for bounded loss, and stand for zeros.
        let accepted = self.config.admission.own_bit != 0 && spec.lane_op == LaneOp::Sum;
        let chunk = self.chunk_at(slot.op, piece.data.filter(|_| accepted)?);
        let ranks = spec.sharing.contributors(chunk, self.config.world);
        let count = ranks.end() - ranks.start() + 1;
        (count < self.config.world).then_some(count)
    }

    /// Whether this rank's packet of the slot's chunk has lanes.
    fn contributes(&self, slot: &Slot, piece: &Piece) -> bool {
        let (Some(_), Some(chunk)) = (self.contributor_count(slot, piece), piece.data) else { return true };
        let sharing = self.stream.op(slot.op).spec.sharing;
        let chunk = self.chunk_at(slot.op, chunk);
        sharing.contributors(chunk, self.config.world).contains(&self.config.rank)
    }

    /// Who receives the lanes of the slot's chunk.
    fn owner(&self, slot: &Slot, piece: &Piece) -> LaneOwner {
        let sharing = self.stream.op(slot.op).spec.sharing;
        let owner = |chunk| sharing.owner(self.chunk_at(slot.op, chunk), self.config.world);
        piece.data.map_or(LaneOwner::All, owner)
    }

    fn lane_op(&self, piece: &Piece, data: LaneOp) -> LaneOp {
        if piece.data.is_some() { data } else { self.descriptors.lane_op() }
    }

    fn note_sent(&mut self, now: Instant, index: u16, len: usize, closes: bool) {
        if self.outstanding() == 0 {
            self.progress_at = now;
        }
        let slot = self.slots.slot_mut(index);
        match (slot.state(), slot.loss) {
            _ if closes => self.stats.asked += 1,
            (SlotState::Lost, LossCause::Timeout) => self.stats.retransmitted_timeout += 1,
            (SlotState::Lost, LossCause::Overtaken | LossCause::NotReceived | LossCause::Early) => {
                self.stats.retransmitted_early += 1
            }
            (SlotState::Lost, LossCause::Probed) => self.stats.retransmitted_probe += 1,
            (SlotState::Lost, LossCause::Repeated) => self.recovery.sent(now),
            _ => self.recovery.sent(now),
        }
        self.stats.retransmitted = self.stats.retransmitted_timeout
            + self.stats.retransmitted_early
            + self.stats.retransmitted_probe;
        self.stats.sent += 1;
        self.stats.sent_bytes += len as u64;
        slot.together = self.handed_out_at.replace(now) == Some(now);
        self.stats.sent_together += u64::from(slot.together);
        slot.sent_at = now;
        if slot.sends == 0 {
            slot.first_sent_at = now;
        }
        slot.sends = slot.sends.saturating_add(1);
        if let Some(gate) = &mut self.gate {
            gate.sent(slot.position);
        }
        self.slots.shift(index, SlotState::InFlight);
    }

    /// Length and flags of the slot's packet, and of its result.
    fn shape(&self, piece: &Piece, exp: u8) -> (usize, Flags) {
        if piece.is_bare() {
            (header::LEN, Flags::BARE)
        } else if exp == NOT_FINITE {
            (self.config.datagram_len_max(), Flags::NON_FINITE)
        } else {
            (self.config.datagram_len_max(), Flags::default())
        }
    }

    fn note_rtt(&mut self) {
        self.stats.rtt_smoothed = self.rtt.smoothed().unwrap_or(Duration::ZERO);
        self.stats.rtt_variation = self.rtt.variation();
        self.stats.rtt_low = self.rtt.low().unwrap_or(Duration::ZERO);
        self.stats.rto = self.rtt.rto();
    }
}

/// The exponent of a block that holds a NaN or an infinity.
const NOT_FINITE: u8 = 255;
