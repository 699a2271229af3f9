//! The stream: operations laid end to end over positions, and which positions of each have been received.

use std::collections::VecDeque;

use bitvec::vec::BitVec;

use crate::prediction::{Exponents, Prediction};
use crate::{OpId, OpSpec};

// One bit for each of 2^30 chunks must be addressable.
const _: () = assert!(usize::BITS >= 64);

/// What a position of an operation carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Whether the lanes hold descriptors.
    pub(crate) descriptor: bool,
    /// The data chunk in the lanes. A piece with neither descriptor nor data is bare.
    pub(crate) data: Option<u32>,
    /// The data chunk whose exponent it proposes.
    pub(crate) proposes: Option<u32>,
}

impl Piece {
    pub(crate) fn is_bare(&self) -> bool {
        !self.descriptor && self.data.is_none()
    }
}

/// One operation: `lead` look-ahead positions (the descriptor first), then one position a data chunk.
///
/// With exponents, position `i` proposes the exponent of data chunk `i` for every `i` below the number of data chunks,
/// whatever else it carries; data chunk `j` lies at position `lead + j`. Without, the lead is the descriptor alone. Where exponents are
/// predicted it is the descriptor alone, too, and each data chunk proposes its own exponent.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) spec: OpSpec,
    /// Stream position of the descriptor.
    base: u64,
    lead: u32,
    /// Positions.
    len: u64,
    /// Positions whose result is missing.
    missing: u64,
    /// One bit a position: its result was taken.
    received: BitVec<u64>,
    /// Agreed exponents, of data chunk `j` at `j % lead`. A look-ahead longer than the window would not be needed: data
    /// chunk `j` is acknowledged before position `lead + j`, which proposes the next exponent in the same entry.
    exponents: Box<[u8]>,
    /// Every rank submitted this operation.
    verified: bool,
    /// Contributions of this rank that may still be put at risk of trimming.
    spare: u32,
    /// Slots that this rank may still have closed.
    closings: u32,
    /// Of data chunk `j` at `j % lead`: its exponent was agreed without this rank, whose block does not fit. Empty where that cannot occur.
    exponent_unfit: BitVec<u64>,
    /// Where exponents are predicted: for no more data chunks than fit.
    pub(crate) prediction: Option<Prediction>,
}

impl Op {
    fn new(spec: OpSpec, base: u64, window: u32, predicted: bool) -> Self {
        let lead = if spec.exponents && !predicted { spec.data_chunks.clamp(1, window) } else { 1 };
        let kept = if predicted { spec.data_chunks } else { lead };
        let len = u64::from(lead) + u64::from(spec.data_chunks);
        Self {
            spec,
            base,
            lead,
            len,
            missing: len,
            received: BitVec::repeat(false, len as usize),
            exponents: vec![0; if spec.exponents { kept as usize } else { 0 }].into(),
            prediction: predicted.then(Prediction::default),
            verified: false,
            spare: spec.contributions_to_trim(),
            closings: 0,
            exponent_unfit: BitVec::repeat(
                false,
                if spec.exponents && spec.closings() > 0 { lead as usize } else { 0 },
            ),
        }
    }

    /// Sets how many slots this rank may close at most.
    pub(crate) fn allow_closings(&mut self, closings: u32) {
        self.closings = closings;
    }

    /// Counts a slot that this rank closes; false when it may close no more.
    pub(crate) fn close(&mut self) -> bool {
        let left = self.closings.checked_sub(1);
        self.closings = left.unwrap_or_default();
        left.is_some()
    }

    /// The exponent of a data chunk was agreed without this rank: its block does not fit, or does.
    pub(crate) fn note_fit(&mut self, chunk: u32, fits: bool) {
        if let Some(mut exponent_unfit) = self.exponent_unfit.get_mut((chunk % self.lead) as usize) {
            *exponent_unfit = !fits;
        }
    }

    /// Whether this rank's block of a data chunk cannot be expressed by the exponent that was agreed without it.
    pub(crate) fn is_unfit(&self, chunk: u32) -> bool {
        self.exponent_unfit.get((chunk % self.lead) as usize).is_some_and(|exponent_unfit| *exponent_unfit)
    }

    pub(crate) fn has_spare(&self) -> bool {
        self.spare > 0
    }

    /// Marks a contribution as one that may be trimmed; false when no more may.
    pub(crate) fn put_at_risk(&mut self) -> bool {
        let left = self.spare.checked_sub(1);
        self.spare = left.unwrap_or_default();
        left.is_some()
    }

    /// A contribution that was at risk has arrived.
    pub(crate) fn restore_spare(&mut self) {
        self.spare += 1;
    }

    fn end(&self) -> u64 {
        self.base + self.len
    }

    /// Positions of the descriptor and of the first data chunk.
    pub(crate) fn starts(&self) -> (u64, u64) {
        (self.base, self.base + u64::from(self.lead))
    }

    /// Positions whose result is missing, and all positions.
    pub(crate) fn missing(&self) -> (u64, u64) {
        (self.missing, self.len)
    }

    fn offset(&self, position: u64) -> u32 {
        (position - self.base) as u32
    }

    /// What the stream position carries.
    pub(crate) fn piece(&self, position: u64) -> Piece {
        let offset = self.offset(position);
        Piece {
            descriptor: offset == 0,
            data: offset.checked_sub(self.lead),
            proposes: match self.prediction {
                Some(_) => offset.checked_sub(self.lead),
                None => (self.spec.exponents && offset < self.spec.data_chunks).then_some(offset),
            },
        }
    }

    /// The exponents agreed on, in the order of the stream. Complete when no result is missing, of operations that predict.
    pub(crate) fn agreed(&self) -> Exponents {
        std::array::from_fn(|chunk| self.exponents.get(chunk).copied().unwrap_or(0))
    }

    /// Whether every rank is known to have submitted this operation.
    pub(crate) fn is_verified(&self) -> bool {
        self.verified
    }

    /// Whether the position's exponent, if it needs one, has been agreed.
    pub(crate) fn may_send(&self, position: u64) -> bool {
        !self.spec.exponents
            || self.prediction.is_some()
            || self.piece(position).data.is_none_or(|chunk| self.received[chunk as usize])
    }

    /// The agreed exponent of a data chunk; 0 for operations without exponents.
    pub(crate) fn exponent(&self, chunk: u32) -> u8 {
        if self.spec.exponents { self.exponents[(chunk % self.lead) as usize] } else { 0 }
    }

    /// Marks the position as received, with the exponent that its result carried, and returns the position which that
    /// exponent allows to be sent.
    pub(crate) fn receive(&mut self, position: u64, exp_next: u8) -> Option<u64> {
        let offset = self.offset(position);
        assert!(
            !self.received.replace(offset as usize, true),
            "a slot leaves a position once it is received"
        );
        self.missing -= 1;
        let chunk = self.piece(position).proposes?;
        if self.prediction.is_some() {
            self.exponents[chunk as usize] = exp_next;
            return None;
        }
        self.exponents[(chunk % self.lead) as usize] = exp_next;
        Some(self.base + u64::from(self.lead) + u64::from(chunk))
    }
}

/// The operations that are not yet reported as done, in order of submission.
#[derive(Debug)]
pub(crate) struct Stream {
    ops: VecDeque<Op>,
    /// Number of the first operation in `ops`.
    first: u64,
    /// Operations verified without a gap, counted from the start of the stream.
    verified: u64,
    /// One past the last position submitted.
    end: u64,
    window: u32,
}

impl Stream {
    /// Operations begin at position `start`.
    pub(crate) fn new(window: u32, start: u64) -> Self {
        Self { ops: VecDeque::new(), first: 0, verified: 0, end: start, window }
    }

    pub(crate) fn pending(&self) -> usize {
        self.ops.len()
    }

    /// One past the last position submitted.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Appends an operation, whose exponents are `predicted` or not.
    pub(crate) fn submit(&mut self, spec: OpSpec, predicted: bool) -> OpId {
        let op = Op::new(spec, self.end, self.window, predicted);
        self.end = op.end();
        self.ops.push_back(op);
        OpId(self.first + self.ops.len() as u64 - 1)
    }

    /// The operation `number`, if it is pending.
    pub(crate) fn get(&self, number: u64) -> Option<&Op> {
        self.ops.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The operation `number`, which must be pending.
    pub(crate) fn op(&self, number: u64) -> &Op {
        &self.ops[(number - self.first) as usize]
    }

    /// The operation `number`, which must be pending.
    pub(crate) fn op_mut(&mut self, number: u64) -> &mut Op {
        &mut self.ops[(number - self.first) as usize]
    }

    /// Number of the operation that holds `position`, which must not have been received; `None` behind the end of the
    /// stream. O(log operations).
    pub(crate) fn find(&self, position: u64) -> Option<u64> {
        if position >= self.end {
            return None;
        }
        Some(self.first + self.ops.partition_point(|op| op.end() <= position) as u64)
    }

    /// Like [`Self::find`], and O(1) when `position` lies in operation `hint`, which must be pending.
    pub(crate) fn find_near(&self, position: u64, hint: u64) -> Option<u64> {
        if position < self.op(hint).end() { Some(hint) } else { self.find(position) }
    }

    /// Notes that every rank submitted operation `number`.
    pub(crate) fn verify(&mut self, number: u64) {
        self.op_mut(number).verified = true;
        while self.ops.get((self.verified - self.first) as usize).is_some_and(|op| op.verified) {
            self.verified += 1;
        }
    }

    /// Number of the first operation that is not known to be the same on every rank.
    pub(crate) fn unverified(&self) -> u64 {
        self.verified
    }

    /// Takes the oldest operation out if it is finished.
    pub(crate) fn pop_done(&mut self) -> Option<OpId> {
        self.ops.front().filter(|op| op.missing == 0 && op.verified)?;
        self.ops.pop_front();
        self.first += 1;
        Some(OpId(self.first - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Descriptor, Importance, Sharing};
    use netfold_wire::{Collective, LaneOp};
    use proptest::prelude::*;

    fn spec(data_chunks: u32, exponents: bool) -> OpSpec {
        let descriptor = Descriptor { collective: Collective::AllReduce, ..Descriptor::BARRIER };
        OpSpec {
            descriptor,
            data_chunks,
            exponents,
            class: 0,
            importance: Importance::NONE,
            lane_op: LaneOp::Sum,
            sharing: Sharing::All,
        }
    }

    #[test]
    fn look_ahead_is_a_window_or_all_chunks() {
        let mut stream = Stream::new(4, 0);
        for (data_chunks, exponents, lead) in
            [(0, true, 1), (1, true, 1), (3, true, 3), (9, true, 4), (9, false, 1)]
        {
            let start = stream.end();
            let OpId(number) = stream.submit(spec(data_chunks, exponents), false);
            let op = stream.op(number);
            let pieces: Vec<_> = (start..stream.end()).map(|position| op.piece(position)).collect();
            assert_eq!(pieces.len() as u32, lead + data_chunks);
            assert!(pieces[0].descriptor && pieces[0].data.is_none());
            assert_eq!(pieces.iter().filter(|piece| piece.is_bare()).count() as u32, lead - 1);
            let data: Vec<_> = pieces.iter().filter_map(|piece| piece.data).collect();
            assert_eq!(data, (0..data_chunks).collect::<Vec<_>>());
            let proposed: Vec<_> = pieces.iter().filter_map(|piece| piece.proposes).collect();
            assert_eq!(proposed, if exponents { data } else { Vec::new() });
        }
    }

    #[test]
    fn predicted_chunks_propose_their_own_exponents() {
        for (data_chunks, window) in [(1, 1), (3, 1), (8, 4), (8, 64)] {
            let mut op = Op::new(spec(data_chunks, true), 10, window, true);
            assert_eq!(
                (op.starts(), op.missing()),
                ((10, 11), (u64::from(data_chunks) + 1, u64::from(data_chunks) + 1))
            );
            let descriptor = op.piece(10);
            assert!(descriptor.descriptor && descriptor.data.is_none() && descriptor.proposes.is_none());
            assert_eq!(op.receive(10, 0), None);
            for chunk in 0..data_chunks {
                let position = 11 + u64::from(chunk);
                let piece = op.piece(position);
                assert_eq!((piece.data, piece.proposes), (Some(chunk), Some(chunk)));
                assert!(op.may_send(position));
                assert_eq!(op.receive(position, chunk as u8 + 1), None);
            }
            assert_eq!(op.agreed()[..data_chunks as usize], [1, 2, 3, 4, 5, 6, 7, 8][..data_chunks as usize]);
        }
    }

    proptest! {
        /// Any order in which positions may be sent and received gives every data chunk its own exponent.
        #[test]
        fn exponents_reach_their_chunks(data_chunks in 0u32..40, window in 0u32..4, order in any::<u64>()) {
            let window = 1 << window;
            let mut op = Op::new(spec(data_chunks, true), 0, window, false);
            let mut order = order;
            // Slots step by themselves: the next position of each.
            let mut next: Vec<u64> = (0..u64::from(window)).collect();
            while op.missing > 0 {
                let open: Vec<_> = next.iter().copied().filter(|at| *at < op.len && op.may_send(*at)).collect();
                prop_assert!(!open.is_empty(), "deadlock");
                order = order.wrapping_mul(6364136223846793005).wrapping_add(1);
                let position = open[(order >> 33) as usize % open.len()];
                let piece = op.piece(position);
                if let Some(chunk) = piece.data {
                    prop_assert_eq!(op.exponent(chunk), chunk as u8 + 1);
                }
                let freed = op.receive(position, piece.proposes.map_or(0, |chunk| chunk as u8 + 1));
                prop_assert_eq!(freed.and_then(|at| op.piece(at).data), piece.proposes);
                next[position as usize % window as usize] += u64::from(window);
            }
        }

        #[test]
        fn positions_find_their_operation(sizes in proptest::collection::vec(0u32..20, 1..30)) {
            let mut stream = Stream::new(8, 0);
            let mut owners = Vec::new();
            for (number, size) in sizes.iter().enumerate() {
                stream.submit(spec(*size, size % 2 == 0), false);
                owners.resize(stream.end() as usize, number as u64);
            }
            for (position, owner) in owners.iter().enumerate() {
                prop_assert_eq!(stream.find(position as u64), Some(*owner));
                prop_assert_eq!(stream.find_near(position as u64, 0), Some(*owner));
            }
            prop_assert_eq!(stream.find(stream.end()), None);
        }
    }
}
