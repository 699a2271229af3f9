//! Operations whose exponents are predicted, so that their data chunks are sent together with the descriptor. The rule by which results are
//! delivered is that of [`prediction`](crate::prediction).

use netfold_wire::Numerics;

use super::incoming::Fitting;
use super::{Codec, Worker};
use crate::slot::{LossCause, Slot, SlotState};
use crate::stream::Piece;
use crate::{Ignored, OpId, OpSpec, Sharing};

impl Worker {
    /// Whether the exponents of an operation are predicted: follows from what all ranks know, as it decides where its chunks are.
    pub(super) fn predicts(&self, spec: &OpSpec) -> bool {
        let most = self.descriptors.predictions_max(self.config.admission.lane_words);
        self.config.predict
            && self.config.numerics == Numerics::Word
            && spec.exponents
            && (1..=most).contains(&(spec.data_chunks as usize))
            && !spec.descriptor.tolerance.any()
            && matches!(spec.sharing, Sharing::All | Sharing::To(_) | Sharing::ToEach(_))
    }

    /// Predicts the exponents of an operation that predicts them, before its first packet.
    pub(super) fn predict(&mut self, number: u64, codec: &mut impl Codec) {
        let op = self.stream.op_mut(number);
        let OpSpec { descriptor, data_chunks, .. } = op.spec;
        let Some(mut prediction) = op.prediction.filter(|prediction| !prediction.is_made()) else { return };
        let own = std::array::from_fn(|ordinal| match ordinal as u32 {
            ordinal if ordinal < data_chunks => codec.exponent(OpId(number), self.chunk_at(number, ordinal)),
            _ => 0,
        });
        let key = codec.tensor_key(OpId(number));
        prediction.make(key, own, self.history.recall(descriptor, key));
        self.stream.op_mut(number).prediction = Some(prediction);
    }

    /// Writes the predictions of an operation, if it has any, to its descriptor chunk.
    pub(super) fn write_predictions(&self, number: u64, lanes: &mut [u8]) {
        let op = self.stream.op(number);
        if let Some(prediction) = &op.prediction {
            prediction.write(op.spec.data_chunks, &mut lanes[self.descriptors.predictions_at()..]);
        }
    }

    /// Reads all ranks' predictions, and requests the results that came before them.
    pub(super) fn compare_predictions(&mut self, number: u64, lanes: &[u8]) {
        let (at, world) = (self.descriptors.predictions_at(), self.config.world);
        let op = self.stream.op_mut(number);
        let data_chunks = op.spec.data_chunks;
        let (_, first) = op.starts();
        let Some(prediction) = &mut op.prediction else { return };
        prediction.compare(data_chunks, world, &lanes[at..]);
        for position in first..first + u64::from(data_chunks) {
            let index = self.slots.at(position);
            let slot = self.slots.slot_mut(index);
            if slot.position == position && slot.early && slot.state() == SlotState::InFlight {
                slot.loss = LossCause::Early;
                self.slots.shift(index, SlotState::Lost);
            }
        }
    }

    /// Keeps what an operation has agreed on when all its results are there.
    pub(super) fn remember_exponents(&mut self, number: u64) {
        let op = self.stream.op(number);
        if let (Some(prediction), (0, _)) = (&op.prediction, op.missing()) {
            self.history.remember(op.spec.descriptor, prediction.key(), op.agreed());
        }
    }

    /// Whether the slot's packet is a data chunk by a predicted exponent.
    pub(super) fn is_guess(&self, slot: &Slot, piece: &Piece) -> bool {
        piece.data.is_some() && slot.redo.is_none() && self.stream.op(slot.op).prediction.is_some()
    }

    /// Whether all ranks are known to have sent the slot's data chunk by the same exponent.
    pub(super) fn is_alike(&self, slot: &Slot, piece: &Piece) -> bool {
        let prediction = self.stream.op(slot.op).prediction.as_ref();
        piece.data.zip(prediction).is_some_and(|(chunk, prediction)| prediction.is_alike(chunk))
    }

    /// Whether the slot's result is to be repeated: not all ranks have used the exponent that it has agreed on. All ranks decide by the same bytes.
    pub(super) fn is_mispredicted(&self, slot: &Slot, piece: &Piece, agreed: u8) -> bool {
        let (_, exp) = self.piece(slot);
        self.is_guess(slot, piece) && !(self.is_alike(slot, piece) && exp == agreed)
    }

    /// Whether the slot's chunk is packed with all headroom, because its first sum has saturated.
    pub(super) fn has_full_headroom(&self, slot: &Slot) -> bool {
        slot.redo.is_some() && self.config.numerics == Numerics::Saturating
    }

    /// Refuses the result of a predicted chunk before the descriptor's.
    pub(super) fn check_descriptor_first(&mut self, fitting: &Fitting) -> Result<(), Ignored> {
        let slot = self.slots.slot(fitting.index);
        if !self.is_guess(slot, &fitting.piece) || self.stream.op(slot.op).is_verified() {
            return Ok(());
        }
        self.slots.slot_mut(fitting.index).early = true;
        Err(Ignored::Early)
    }
}
