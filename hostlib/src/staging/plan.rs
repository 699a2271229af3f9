//! How a call is cut into pieces.

use crate::call::Call;
use crate::staging::buffers::{BufferClass, LONG, SHORT};
use crate::staging::slices::{PieceSlices, Slices};
use netfold_wire::{Collective, ReduceOp};

/// Pieces begin at multiples of so many elements, where they are longer: of whole blocks in common profiles.
const ALIGNMENT: usize = 4096;

/// A call, and how it is cut. The same on all ranks, but for what is read and written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    call: Call,
    /// Parts of the input and of the output on this rank, each of `call.count` elements.
    input: usize,
    output: usize,
    /// Parts that are staged, on any rank; the output begins behind `output_at` of them.
    output_at: usize,
    /// The staged part that holds the first part of the input.
    input_at: usize,
    /// Elements of each part in a piece.
    length: usize,
    pub(crate) buffers: BufferClass,
}

/// Elements of each part of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StagedPiece {
    first: usize,
    count: usize,
}

/// Bytes that lie together in the device's memory and in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    /// Offset in the device's tensor.
    pub(crate) at: u64,
    /// Offset in the buffer.
    pub(crate) staged: usize,
    pub(crate) bytes: usize,
}

impl Row {
    /// Offsets of a slice of it in the tensor and in the buffer, and its bytes. A row of which there are several is not sliced.
    pub(crate) fn slice(&self, slices: &Slices, slice: usize) -> (u64, usize, usize) {
        if slices.count() == 1 {
            return (self.at, self.staged, self.bytes);
        }
        let range = slices.range(slice);
        (self.at + range.start as u64, self.staged + range.start, range.len())
    }
}

/// An operation on a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StagedCall {
    pub(crate) call: Call,
    /// Offsets in the buffer.
    pub(crate) send: usize,
    pub(crate) recv: usize,
    /// Bytes of the buffer that are used.
    pub(crate) used: usize,
}

impl Plan {
    pub(crate) fn new(call: &Call, rank: u16, world: u16) -> Self {
        let parts = |used: bool, elements: usize| if used { elements / call.count.max(1) } else { 0 };
        let input = parts(call.reads(rank), call.input_len(world));
        let output = parts(call.writes(rank), call.output_len(world));
        let everyone = usize::from(world);
        // Where the staged output is, and the input: in place wherever the library works in place without a copy.
        let (staged, output_at, input_at) = match call.collective {
            Collective::AllGather => (everyone, 0, usize::from(rank)),
            Collective::ReduceScatter => (everyone + 1, everyone, 0),
            Collective::AllToAll => (2 * everyone, everyone, 0),
            _ => (1, 0, 0),
        };
        let part_bytes = staged * call.dtype.size().max(1);
        let bytes = call.count.saturating_mul(part_bytes);
        let buffers = if bytes <= SHORT.bytes { SHORT } else { LONG };
        let longest = (buffers.bytes / part_bytes).max(1);
        // As equal as whole blocks allow.
        let equal = call.count.div_ceil(call.count.div_ceil(longest).max(1));
        let length = equal.next_multiple_of(ALIGNMENT).min(longest).max(1);
        let length = if length > ALIGNMENT { length - length % ALIGNMENT } else { length };
        Self { call: *call, input, output, output_at, input_at, length, buffers }
    }

    fn size(&self) -> usize {
        self.call.dtype.size()
    }

    /// Bytes of the input and the output on this rank.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        let part = self.call.count * self.size();
        (self.input * part, self.output * part)
    }

    /// In order.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = StagedPiece> + use<> {
        let (count, length) = (self.call.count, self.length);
        (0..count).step_by(length).map(move |first| StagedPiece { first, count: length.min(count - first) })
    }

    /// What is copied in.
    pub(crate) fn input(&self, piece: &StagedPiece) -> impl Iterator<Item = Row> + use<> {
        self.rows(piece, self.input, self.input_at)
    }

    /// What is copied out.
    pub(crate) fn output(&self, piece: &StagedPiece) -> impl Iterator<Item = Row> + use<> {
        self.rows(piece, self.output, self.output_at)
    }

    fn rows(&self, piece: &StagedPiece, parts: usize, staged_at: usize) -> impl Iterator<Item = Row> + use<> {
        let (size, whole, StagedPiece { first, count }) = (self.size(), self.call.count, *piece);
        (0..parts).map(move |part| Row {
            at: ((part * whole + first) * size) as u64,
            staged: (staged_at + part) * count * size,
            bytes: count * size,
        })
    }

    /// How a piece is copied while it is an operation, where that works on it block by block. Nothing may be in the network while the first piece begins
    /// to be copied in, and while the last one is still copied out: these have short slices there. Averages are divided when the operation is over.
    pub(crate) fn slices(&self, piece: &StagedPiece) -> PieceSlices {
        let bytes = piece.count * self.size();
        let PieceSlices { mut input, mut output } = self.whole(piece);
        if self.input == 1 && self.buffers == LONG {
            input = Slices::growing(bytes, piece.first == 0);
        }
        let is_last = piece.first + piece.count == self.call.count;
        if self.output == 1 && self.call.op != ReduceOp::Avg && self.buffers == LONG {
            output = Slices::shrinking(bytes, is_last);
        }
        PieceSlices { input, output }
    }

    /// The same of a piece that is copied as a whole.
    pub(crate) fn whole(&self, piece: &StagedPiece) -> PieceSlices {
        let whole = Slices::whole(piece.count * self.size());
        PieceSlices { input: whole, output: whole }
    }

    /// The operation on a staged piece.
    pub(crate) fn operation(&self, piece: &StagedPiece) -> StagedCall {
        let bytes = piece.count * self.size();
        let call = Call { count: piece.count, ..self.call };
        let used = bytes * (self.input_at + self.input.max(1)).max(self.output_at + self.output.max(1));
        StagedCall { call, send: self.input_at * bytes, recv: self.output_at * bytes, used }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netfold_wire::DType;

    const COLLECTIVES: [Collective; 6] = [
        Collective::AllReduce,
        Collective::Reduce { root: 1 },
        Collective::Broadcast { root: 1 },
        Collective::AllGather,
        Collective::ReduceScatter,
        Collective::AllToAll,
    ];

    #[test]
    fn pieces_cover_each_part_once_and_fit_their_buffers() {
        for collective in COLLECTIVES {
            for (count, dtype) in
                [(1, DType::F64), (4097, DType::U8), (3_000_001, DType::F32), (1 << 22, DType::Bf16)]
            {
                for (rank, world) in [(0, 2), (1, 3), (6, 7)] {
                    let call = Call::new(collective, dtype, ReduceOp::Sum, count);
                    let plan = Plan::new(&call, rank, world);
                    let (input, output) = plan.bytes();
                    let mut copied = (0, 0);
                    let mut next = 0;
                    for piece in plan.pieces() {
                        assert_eq!(piece.first, next);
                        next += piece.count;
                        let operation = plan.operation(&piece);
                        assert!(operation.used <= plan.buffers.bytes, "{collective:?} {operation:?}");
                        for (rows, sum) in [
                            (plan.input(&piece).collect::<Vec<_>>(), &mut copied.0),
                            (plan.output(&piece).collect(), &mut copied.1),
                        ] {
                            *sum += rows.iter().map(|row| row.bytes).sum::<usize>();
                            assert!(rows.iter().all(|row| row.staged + row.bytes <= operation.used));
                        }
                    }
                    assert_eq!((next, copied), (count, (input, output)), "{collective:?}");
                }
            }
        }
    }

    #[test]
    fn all_ranks_cut_alike() {
        for collective in COLLECTIVES {
            let call = Call::new(collective, DType::F32, ReduceOp::Sum, 5_000_000);
            let pieces = |rank| Plan::new(&call, rank, 8).pieces().collect::<Vec<_>>();
            assert!((1..8).all(|rank| pieces(rank) == pieces(0)), "{collective:?}");
        }
    }

    #[test]
    fn long_calls_have_equal_pieces_and_short_ones_one() {
        let pieces = |bytes: usize| {
            let call = Call::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, bytes / 4);
            let plan = Plan::new(&call, 0, 4);
            (plan.buffers == SHORT, plan.pieces().map(|piece| (piece.count * 4) >> 20).collect::<Vec<_>>())
        };
        assert_eq!(pieces(256 << 10), (true, vec![0]));
        assert_eq!(pieces(8 << 20), (false, vec![8]));
        assert_eq!(pieces(50 << 20), (false, vec![12, 12, 12, 12]));
        assert_eq!(pieces(256 << 20), (false, vec![16; 16]));
    }
}
