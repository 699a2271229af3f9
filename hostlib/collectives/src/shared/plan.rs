//! What a collective does with each segment: which bytes a rank puts into its slot, what it computes from all ranks' slots, and
//! what it takes from the result. No synchronisation here; [`pipeline`](crate::shared::pipeline) decides when each is allowed.

use std::ops::Range;

use crate::reduce::{finish, reduce, reduce_from};
use crate::shared::error::SharedError;
use crate::shared::layout::LINE;
use crate::shared::mapping::Area;
use crate::{Buffers, CallKind, CallSignature, Collective, DType, Extent, ReduceOp};

/// The areas of all ranks for one segment, readable.
pub(crate) trait Inputs {
    /// What `rank` put into its slot.
    fn of(&self, rank: u16) -> Area<'_>;
}

/// One collective over one caller's buffers.
#[derive(Debug)]
pub(crate) struct SharedPlan<'a> {
    pub(crate) call: CallSignature,
    pub(crate) rank: u16,
    pub(crate) world: u16,
    buffers: Buffers<'a>,
    /// Bytes that segments count through: of the tensor, or of one rank's part.
    total: usize,
    /// Bytes of `total` a segment.
    stride: usize,
    /// Every rank has all inputs at once, and computes its result by itself.
    flat: bool,
    input_at: usize,
    output_at: usize,
}

impl<'a> SharedPlan<'a> {
    /// Checks the arguments. `segment_bytes` and `flat_bytes_max` are lengths of areas.
    pub(crate) fn new(
        mut call: CallSignature,
        (rank, world): (u16, u16),
        buffers: Buffers<'a>,
        segment_bytes: usize,
        flat_bytes_max: usize,
    ) -> Result<Self, SharedError> {
        let parts = usize::from(world);
        let collective = call.kind.collective();
        if let Some(root) = collective.root().filter(|root| *root >= world) {
            return Err(SharedError::Root { root, world });
        }
        if collective.reduces() && !crate::reduce::supports(call.op, call.dtype) {
            return Err(SharedError::Unsupported { op: call.op, dtype: call.dtype });
        }
        let size = call.dtype.size().max(1);
        if call.dtype == DType::None && collective != Collective::Barrier {
            return Err(SharedError::Unsupported { op: call.op, dtype: call.dtype });
        }
        let total = total(&call, rank, parts, &buffers)?;
        if !total.is_multiple_of(size) {
            return Err(SharedError::Length { expected: "a whole number of elements fits", found: total });
        }
        call.count = (total / size) as u64;
        let scatters = collective.info().input == Extent::CountPerRank;
        let input = if scatters { total.saturating_mul(parts) } else { total };
        let flat = input <= flat_bytes_max;
        let stride = match scatters {
            _ if flat => total.max(1),
            true => (segment_bytes / parts / LINE * LINE).max(LINE),
            false => segment_bytes,
        };
        let in_place = matches!(buffers, Buffers::InPlace(_));
        let offset = |of| if in_place && collective == of { usize::from(rank) * total } else { 0 };
        let (input_at, output_at) = (offset(Collective::AllGather), offset(Collective::ReduceScatter));
        Ok(Self { call, rank, world, buffers, total, stride, flat, input_at, output_at })
    }

    pub(crate) fn is_flat(&self) -> bool {
        self.flat
    }

    pub(crate) fn segments(&self) -> usize {
        self.total.div_ceil(self.stride)
    }

    /// Whether results go through the result areas, to be drained.
    pub(crate) fn drains(&self) -> bool {
        !self.flat && matches!(self.call.kind.collective(), Collective::AllReduce | Collective::Reduce { .. })
    }

    /// The bytes of the tensor, or of each part, that segment `index` is about.
    pub(crate) fn range(&self, index: usize) -> Range<usize> {
        let start = (index * self.stride).min(self.total);
        start..(start + self.stride).min(self.total)
    }

    /// The bytes of a segment of `len` that `rank` reduces for all.
    pub(crate) fn part(&self, rank: u16, len: usize) -> Range<usize> {
        let part = len.div_ceil(usize::from(self.world)).next_multiple_of(LINE);
        let start = (usize::from(rank) * part).min(len);
        start..(start + part).min(len)
    }

    fn input(&self, range: Range<usize>) -> &[u8] {
        let range = range.start + self.input_at..range.end + self.input_at;
        match &self.buffers {
            Buffers::InPlace(bytes) => &bytes[range],
            Buffers::Split { input, .. } => &input[range],
        }
    }

    fn output(&mut self, range: Range<usize>) -> &mut [u8] {
        let range = range.start + self.output_at..range.end + self.output_at;
        match &mut self.buffers {
            Buffers::InPlace(bytes) => &mut bytes[range],
            Buffers::Split { output, .. } => &mut output[range],
        }
    }

    /// Copies this rank's input of segment `index` into its slot.
    pub(crate) fn fill(&self, index: usize, slot: Area<'_>) {
        let range = self.range(index);
        let len = range.len();
        match self.call.kind.collective() {
            Collective::AllReduce | Collective::Reduce { .. } if !self.flat => {
                // The part that this rank reduces itself is read from the tensor.
                let mine = self.part(self.rank, len);
                let input = self.input(range);
                slot.part(0..mine.start).write(&input[..mine.start]);
                slot.part(mine.end..len).write(&input[mine.end..]);
            }
            Collective::Broadcast { root } if self.rank != root => {}
            Collective::ReduceScatter | Collective::AllToAll => {
                for peer in 0..usize::from(self.world) {
                    let from = peer * self.total;
                    let input = self.input(from + range.start..from + range.end);
                    let at = peer * self.stride;
                    slot.part(at..at + len).write(input);
                }
            }
            Collective::Barrier => {}
            _ => slot.part(0..len).write(self.input(range)),
        }
    }

    /// Computes this rank's part of `result`, or its own output, from all ranks' slots.
    pub(crate) fn consume(
        &mut self,
        index: usize,
        inputs: &dyn Inputs,
        result: Area<'_>,
        scratch: &mut Scratch,
    ) {
        let range = self.range(index);
        let len = range.len();
        let mine = usize::from(self.rank) * self.stride;
        match self.call.kind.collective() {
            Collective::AllReduce | Collective::Reduce { .. } if !self.flat => {
                let part = self.part(self.rank, len);
                let own = self.input(range.start + part.start..range.start + part.end);
                let input = |rank| inputs.of(rank).part(part.clone());
                Fold::of(&self.call, self.world).to_shared(result, (self.rank, own), input, scratch);
            }
            Collective::AllReduce => self.fold_flat(range, |rank| inputs.of(rank).part(0..len), scratch),
            Collective::Reduce { root } => {
                if self.rank == root {
                    self.fold_flat(range, |rank| inputs.of(rank).part(0..len), scratch);
                }
            }
            Collective::ReduceScatter => {
                self.fold_flat(range, |rank| inputs.of(rank).part(mine..mine + len), scratch);
            }
            Collective::Broadcast { root } => {
                if self.rank != root || matches!(self.buffers, Buffers::Split { .. }) {
                    inputs.of(root).part(0..len).read(self.output(range));
                }
            }
            Collective::AllGather => self.collect(range, |rank| inputs.of(rank).part(0..len)),
            Collective::AllToAll => self.collect(range, |rank| inputs.of(rank).part(mine..mine + len)),
            Collective::Barrier => {}
        }
    }

    /// Takes segment `index` from the finished result, which has the segment's length.
    pub(crate) fn drain(&mut self, index: usize, result: Area<'_>) {
        if matches!(self.call.kind.collective(), Collective::Reduce { root } if root != self.rank) {
            return;
        }
        result.read(self.output(self.range(index)));
    }

    fn fold_flat<'i>(&mut self, range: Range<usize>, input: impl Fn(u16) -> Area<'i>, scratch: &mut Scratch) {
        let fold = Fold::of(&self.call, self.world);
        fold.to_output(self.output(range), input, scratch);
    }

    fn collect<'i>(&mut self, range: Range<usize>, input: impl Fn(u16) -> Area<'i>) {
        for rank in 0..self.world {
            let to = usize::from(rank) * self.total;
            input(rank).read(self.output(to + range.start..to + range.end));
        }
    }
}

/// The bytes that a call's segments count through, with the lengths of both buffers checked.
fn total(call: &CallSignature, rank: u16, parts: usize, buffers: &Buffers<'_>) -> Result<usize, SharedError> {
    let collective = call.kind.collective();
    let is_root = collective.root() == Some(rank);
    let fail = |expected, found| Err(SharedError::Length { expected, found });
    let split = |len: usize| {
        if len.is_multiple_of(parts) {
            Ok(len / parts)
        } else {
            fail("a multiple of the number of ranks is needed", len)
        }
    };
    match (collective, buffers) {
        (
            Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll,
            Buffers::InPlace(bytes),
        ) => split(bytes.len()),
        (_, Buffers::InPlace(bytes)) => Ok(bytes.len()),
        (Collective::AllGather, Buffers::Split { input, output }) => {
            if split(output.len())? == input.len() {
                Ok(input.len())
            } else {
                fail("ranks times the input is needed", output.len())
            }
        }
        (Collective::ReduceScatter, Buffers::Split { input, output }) => {
            if split(input.len())? == output.len() {
                Ok(output.len())
            } else {
                fail("ranks times the output is needed", input.len())
            }
        }
        (Collective::AllToAll, Buffers::Split { input, output }) if input.len() == output.len() => {
            split(input.len())
        }
        // Only the root has both buffers.
        (Collective::Reduce { .. }, Buffers::Split { input, .. }) if !is_root => Ok(input.len()),
        (Collective::Broadcast { .. }, Buffers::Split { output, .. }) if !is_root => Ok(output.len()),
        (_, Buffers::Split { input, output }) if input.len() == output.len() => Ok(input.len()),
        (_, Buffers::Split { output, .. }) => fail("as many as the input has are needed", output.len()),
    }
}

/// Reduction in order of rank.
struct Fold {
    op: ReduceOp,
    dtype: DType,
    world: u16,
    /// Whether averages are divided by the number of local ranks.
    divides: bool,
}

impl Fold {
    fn of(call: &CallSignature, world: u16) -> Self {
        let divides = call.kind != CallKind::Hierarchical;
        Self { op: call.op, dtype: call.dtype, world, divides }
    }

    /// `out[i] = input(0)[i] op input(1)[i] op ...`, from the left. Inputs are as long as `out`.
    fn to_output<'i>(&self, out: &mut [u8], input: impl Fn(u16) -> Area<'i>, scratch: &mut Scratch) {
        let mut start = 0;
        for sum in out.chunks_mut(FOLD_BLOCK_BYTES) {
            let block = start..start + sum.len();
            start = block.end;
            input(0).part(block.clone()).read(sum);
            for rank in 1..self.world {
                self.add(sum, scratch.operand.read(input(rank).part(block.clone())));
            }
            self.finish(sum);
        }
    }

    /// As [`to_output`](Self::to_output), into shared memory; the input of rank `own.0` is `own.1`.
    fn to_shared<'i>(
        &self,
        out: Area<'_>,
        own: (u16, &[u8]),
        input: impl Fn(u16) -> Area<'i>,
        scratch: &mut Scratch,
    ) {
        let Scratch { sum, operand } = scratch;
        for start in (0..out.len()).step_by(FOLD_BLOCK_BYTES) {
            let block = start..(start + FOLD_BLOCK_BYTES).min(out.len());
            let sum = &mut sum.0[..block.len()];
            let mine = &own.1[block.clone()];
            let shared = |rank| input(rank).part(block.clone());
            let next = match own.0 {
                0 if self.world > 1 => {
                    let done = reduce_from(self.op, self.dtype, sum, mine, operand.read(shared(1)));
                    done.expect(CHECKED);
                    2
                }
                0 => {
                    sum.copy_from_slice(mine);
                    1
                }
                _ => {
                    shared(0).read(sum);
                    1
                }
            };
            for rank in next..self.world {
                self.add(sum, if rank == own.0 { mine } else { operand.read(shared(rank)) });
            }
            self.finish(sum);
            out.part(block).write(sum);
        }
    }

    fn add(&self, sum: &mut [u8], operand: &[u8]) {
        reduce(self.op, self.dtype, sum, operand).expect(CHECKED);
    }

    fn finish(&self, sum: &mut [u8]) {
        if self.divides {
            finish(self.op, self.dtype, sum, u32::from(self.world)).expect(CHECKED);
        }
    }
}

const CHECKED: &str = "operation, type and lengths were checked before the first segment";

/// Blocks of this length are folded one after the other, so that the sum and an operand stay in the first cache; a multiple of every
/// element's size.
const FOLD_BLOCK_BYTES: usize = 8 << 10;

/// Memory of this process into which operands are copied: what is folded must not change meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    sum: Block,
    operand: Block,
}

#[derive(Debug)]
struct Block(Box<[u8; FOLD_BLOCK_BYTES]>);

impl Block {
    /// A copy of an area of at most this block's length.
    fn read(&mut self, area: Area<'_>) -> &[u8] {
        let bytes = &mut self.0[..area.len()];
        area.read(bytes);
        bytes
    }
}

impl Default for Block {
    fn default() -> Self {
        Self(Box::new([0; FOLD_BLOCK_BYTES]))
    }
}
