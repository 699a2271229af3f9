//! What a collective does with each segment: which bytes a rank puts into its slot, what it computes from all ranks' slots, and
//! what it takes from the result. No synchronisation here; [`pipeline`](crate::shared::pipeline) decides when each is allowed.

use std::ops::Range;

use crate::reduce::{finish, reduce, reduce_from};
use crate::shared::error::SharedError;
use crate::shared::layout::LINE;
use crate::{Buffers, CallKind, CallSignature, Collective, DType, Extent, ReduceOp};

/// The areas of all ranks for one segment, readable.
pub(crate) trait Inputs {
    /// What `rank` put into its slot.
    fn of(&self, rank: u16) -> &[u8];
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
    pub(crate) fn fill(&self, index: usize, slot: &mut [u8]) {
        let range = self.range(index);
        let len = range.len();
        match self.call.kind.collective() {
            Collective::AllReduce | Collective::Reduce { .. } if !self.flat => {
                // The part that this rank reduces itself is read from the tensor.
                let mine = self.part(self.rank, len);
                let input = self.input(range);
                copy(&mut slot[..mine.start], &input[..mine.start]);
                copy(&mut slot[mine.end..len], &input[mine.end..]);
            }
            Collective::Broadcast { root } if self.rank != root => {}
            Collective::ReduceScatter | Collective::AllToAll => {
                for peer in 0..usize::from(self.world) {
                    let from = peer * self.total;
                    let input = self.input(from + range.start..from + range.end);
                    copy(&mut slot[peer * self.stride..][..len], input);
                }
            }
            Collective::Barrier => {}
            _ => copy(&mut slot[..len], self.input(range)),
        }
    }

    /// Computes this rank's part of `result`, or its own output, from all ranks' slots.
    pub(crate) fn consume(&mut self, index: usize, inputs: &dyn Inputs, result: &mut [u8]) {
        let range = self.range(index);
        let len = range.len();
        let mine = usize::from(self.rank) * self.stride;
        match self.call.kind.collective() {
            Collective::AllReduce | Collective::Reduce { .. } if !self.flat => {
                let part = self.part(self.rank, len);
                let fold = Fold::of(&self.call, self.world);
                fold.run(result, |rank, block| {
                    let block = part.start + block.start..part.start + block.end;
                    if rank == self.rank {
                        self.input(range.start + block.start..range.start + block.end)
                    } else {
                        &inputs.of(rank)[block]
                    }
                });
            }
            Collective::AllReduce => self.fold_flat(range, |rank, block| &inputs.of(rank)[block]),
            Collective::Reduce { root } => {
                if self.rank == root {
                    self.fold_flat(range, |rank, block| &inputs.of(rank)[block]);
                }
            }
            Collective::ReduceScatter => {
                self.fold_flat(range, |rank, block| &inputs.of(rank)[mine + block.start..mine + block.end]);
            }
            Collective::Broadcast { root } => {
                if self.rank != root || matches!(self.buffers, Buffers::Split { .. }) {
                    copy(self.output(range), &inputs.of(root)[..len]);
                }
            }
            Collective::AllGather => self.collect(range, |rank| &inputs.of(rank)[..len]),
            Collective::AllToAll => self.collect(range, |rank| &inputs.of(rank)[mine..mine + len]),
            Collective::Barrier => {}
        }
    }

    /// Takes segment `index` from the finished result.
    pub(crate) fn drain(&mut self, index: usize, result: &[u8]) {
        if matches!(self.call.kind.collective(), Collective::Reduce { root } if root != self.rank) {
            return;
        }
        let range = self.range(index);
        let len = range.len();
        copy(self.output(range), &result[..len]);
    }

    fn fold_flat<'i>(&mut self, range: Range<usize>, input: impl Fn(u16, Range<usize>) -> &'i [u8]) {
        let fold = Fold::of(&self.call, self.world);
        fold.run(self.output(range), input);
    }

    fn collect<'i>(&mut self, range: Range<usize>, input: impl Fn(u16) -> &'i [u8]) {
        for rank in 0..self.world {
            let to = usize::from(rank) * self.total;
            copy(self.output(to + range.start..to + range.end), input(rank));
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

/// Copies between slices of equal length, in blocks too short for the C library to use `rep movsb`: on AMD's Zen 3 and 4 that
/// is many times slower when the addresses are nearly equal modulo 4096, as those of tensors and page-aligned slots are
/// (glibc bug 30994).
fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.chunks_mut(COPY_BLOCK_BYTES).zip(from.chunks(COPY_BLOCK_BYTES)) {
        to.copy_from_slice(from);
    }
}

const COPY_BLOCK_BYTES: usize = 1 << 10;

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

    /// `out[i] = input(0)[i] op input(1)[i] op ...`, from the left; block by block, so that the sum stays in the first cache.
    fn run<'i>(&self, out: &mut [u8], input: impl Fn(u16, Range<usize>) -> &'i [u8]) {
        let mut start = 0;
        for block in out.chunks_mut(FOLD_BLOCK_BYTES) {
            let range = start..start + block.len();
            start = range.end;
            let done = if self.world == 1 {
                block.copy_from_slice(input(0, range));
                Ok(())
            } else {
                let first =
                    reduce_from(self.op, self.dtype, block, input(0, range.clone()), input(1, range.clone()));
                (2..self.world).fold(first, |done, rank| {
                    done.and(reduce(self.op, self.dtype, block, input(rank, range.clone())))
                })
            };
            let done = done.and_then(|()| {
                if self.divides { finish(self.op, self.dtype, block, u32::from(self.world)) } else { Ok(()) }
            });
            done.expect("operation, type and lengths were checked before the first segment");
        }
    }
}

/// A multiple of every element's size.
const FOLD_BLOCK_BYTES: usize = 8 << 10;
