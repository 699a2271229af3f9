//! What a collective does with each segment: which bytes a rank puts into its slot, what it makes of all ranks' slots, and
//! what it takes from the result. No synchronisation here; [`pipeline`](crate::shared::pipeline) says when each is allowed.

use std::ops::Range;

use crate::reduce::{finish, reduce, reduce_from};
use crate::{DType, ReduceOp};

use crate::shared::call::{Called, Collective};
use crate::shared::error::SharedError;
use crate::shared::layout::LINE;

/// The caller's memory: one tensor that is read and overwritten, or two.
#[derive(Debug)]
pub enum Buffers<'a> {
    /// As NCCL has it: all-gather finds what this rank sends at part `rank`, reduce-scatter leaves its result there.
    InPlace(&'a mut [u8]),
    /// Input and output apart.
    Apart {
        /// What this rank gives.
        send: &'a [u8],
        /// What this rank gets.
        recv: &'a mut [u8],
    },
}

impl<'a> From<&'a mut [u8]> for Buffers<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        Self::InPlace(bytes)
    }
}

impl<'a> From<(&'a [u8], &'a mut [u8])> for Buffers<'a> {
    fn from((send, recv): (&'a [u8], &'a mut [u8])) -> Self {
        Self::Apart { send, recv }
    }
}

/// The areas of all ranks for one segment, readable.
pub(crate) trait Inputs {
    /// What `rank` put into its slot.
    fn of(&self, rank: u16) -> &[u8];
}

/// One collective over one caller's buffers.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) called: Called,
    pub(crate) rank: u16,
    pub(crate) world: u16,
    buffers: Buffers<'a>,
    /// Bytes that segments count through: of the tensor, or of one rank's part.
    total: usize,
    /// Bytes of `total` a segment.
    stride: usize,
    /// All ranks' inputs lie there whole, and every rank makes its result itself.
    flat: bool,
    send_at: usize,
    recv_at: usize,
}

impl<'a> Plan<'a> {
    /// Checks the arguments. `segment_bytes` and `flat_bytes_max` are lengths of areas.
    pub(crate) fn new(
        mut called: Called,
        (rank, world): (u16, u16),
        buffers: Buffers<'a>,
        segment_bytes: usize,
        flat_bytes_max: impl Fn(Collective) -> usize,
    ) -> Result<Self, SharedError> {
        let parts = usize::from(world);
        if called.root >= world {
            return Err(SharedError::Root { root: called.root, world });
        }
        if reduces(called.collective) && !crate::reduce::supports(called.op, called.dtype) {
            return Err(SharedError::Unsupported { op: called.op, dtype: called.dtype });
        }
        let size = called.dtype.size();
        if size == 0 {
            return Err(SharedError::Unsupported { op: called.op, dtype: called.dtype });
        }
        let total = total(&called, rank, parts, &buffers)?;
        if !total.is_multiple_of(size) {
            return Err(SharedError::Length { expected: "a whole number of elements fits", found: total });
        }
        called.count = (total / size) as u64;
        let scatters = matches!(called.collective, Collective::ReduceScatter | Collective::AllToAll);
        let input = if scatters { total.saturating_mul(parts) } else { total };
        let flat = input <= flat_bytes_max(called.collective);
        let stride = match scatters {
            _ if flat => total.max(1),
            true => (segment_bytes / parts / LINE * LINE).max(LINE),
            false => segment_bytes,
        };
        let in_place = matches!(buffers, Buffers::InPlace(_));
        let offset = |collective| {
            if in_place && called.collective == collective { usize::from(rank) * total } else { 0 }
        };
        let (send_at, recv_at) = (offset(Collective::AllGather), offset(Collective::ReduceScatter));
        Ok(Self { called, rank, world, buffers, total, stride, flat, send_at, recv_at })
    }

    pub(crate) fn is_flat(&self) -> bool {
        self.flat
    }

    pub(crate) fn segments(&self) -> usize {
        self.total.div_ceil(self.stride)
    }

    /// Whether results go through the result areas, to be drained.
    pub(crate) fn drains(&self) -> bool {
        !self.flat
            && matches!(
                self.called.collective,
                Collective::AllReduce | Collective::Reduce | Collective::Hierarchical
            )
    }

    /// The bytes of the tensor, or of each part, that segment `index` is about.
    pub(crate) fn range(&self, index: usize) -> Range<usize> {
        let start = (index * self.stride).min(self.total);
        start..(start + self.stride).min(self.total)
    }

    /// The bytes of a segment of `len` that `rank` folds for all.
    pub(crate) fn part(&self, rank: u16, len: usize) -> Range<usize> {
        let part = len.div_ceil(usize::from(self.world)).next_multiple_of(LINE);
        let start = (usize::from(rank) * part).min(len);
        start..(start + part).min(len)
    }

    fn send(&self, range: Range<usize>) -> &[u8] {
        let range = range.start + self.send_at..range.end + self.send_at;
        match &self.buffers {
            Buffers::InPlace(bytes) => &bytes[range],
            Buffers::Apart { send, .. } => &send[range],
        }
    }

    fn recv(&mut self, range: Range<usize>) -> &mut [u8] {
        let range = range.start + self.recv_at..range.end + self.recv_at;
        match &mut self.buffers {
            Buffers::InPlace(bytes) => &mut bytes[range],
            Buffers::Apart { recv, .. } => &mut recv[range],
        }
    }

    /// Puts this rank's share of segment `index` into its slot.
    pub(crate) fn fill(&self, index: usize, slot: &mut [u8]) {
        let range = self.range(index);
        let len = range.len();
        match self.called.collective {
            Collective::AllReduce | Collective::Reduce | Collective::Hierarchical if !self.flat => {
                // What this rank folds itself it takes from the tensor.
                let mine = self.part(self.rank, len);
                let input = self.send(range);
                copy(&mut slot[..mine.start], &input[..mine.start]);
                copy(&mut slot[mine.end..len], &input[mine.end..]);
            }
            Collective::Broadcast if self.rank != self.called.root => {}
            Collective::ReduceScatter | Collective::AllToAll => {
                for peer in 0..usize::from(self.world) {
                    let from = peer * self.total;
                    let input = self.send(from + range.start..from + range.end);
                    copy(&mut slot[peer * self.stride..][..len], input);
                }
            }
            Collective::Barrier => {}
            _ => copy(&mut slot[..len], self.send(range)),
        }
    }

    /// Makes of all ranks' slots what this rank has to: its part of `result`, or its own output.
    pub(crate) fn consume(&mut self, index: usize, inputs: &dyn Inputs, result: &mut [u8]) {
        let range = self.range(index);
        let len = range.len();
        let mine = usize::from(self.rank) * self.stride;
        match self.called.collective {
            Collective::AllReduce | Collective::Reduce | Collective::Hierarchical if !self.flat => {
                let part = self.part(self.rank, len);
                let fold = Fold::of(&self.called, self.world);
                fold.run(result, |rank, block| {
                    let block = part.start + block.start..part.start + block.end;
                    if rank == self.rank {
                        self.send(range.start + block.start..range.start + block.end)
                    } else {
                        &inputs.of(rank)[block]
                    }
                });
            }
            Collective::AllReduce | Collective::Hierarchical => {
                self.fold_flat(range, |rank, block| &inputs.of(rank)[block])
            }
            Collective::Reduce => {
                if self.rank == self.called.root {
                    self.fold_flat(range, |rank, block| &inputs.of(rank)[block]);
                }
            }
            Collective::ReduceScatter => {
                self.fold_flat(range, |rank, block| &inputs.of(rank)[mine + block.start..mine + block.end]);
            }
            Collective::Broadcast => {
                let root = self.called.root;
                if self.rank != root || matches!(self.buffers, Buffers::Apart { .. }) {
                    copy(self.recv(range), &inputs.of(root)[..len]);
                }
            }
            Collective::AllGather => self.collect(range, |rank| &inputs.of(rank)[..len]),
            Collective::AllToAll => self.collect(range, |rank| &inputs.of(rank)[mine..mine + len]),
            Collective::Barrier => {}
        }
    }

    /// Takes segment `index` from the finished result.
    pub(crate) fn drain(&mut self, index: usize, result: &[u8]) {
        if self.called.collective == Collective::Reduce && self.rank != self.called.root {
            return;
        }
        let range = self.range(index);
        let len = range.len();
        copy(self.recv(range), &result[..len]);
    }

    fn fold_flat<'i>(&mut self, range: Range<usize>, input: impl Fn(u16, Range<usize>) -> &'i [u8]) {
        let fold = Fold::of(&self.called, self.world);
        fold.run(self.recv(range), input);
    }

    fn collect<'i>(&mut self, range: Range<usize>, input: impl Fn(u16) -> &'i [u8]) {
        for rank in 0..self.world {
            let to = usize::from(rank) * self.total;
            copy(self.recv(to + range.start..to + range.end), input(rank));
        }
    }
}

fn reduces(collective: Collective) -> bool {
    matches!(
        collective,
        Collective::AllReduce | Collective::Reduce | Collective::ReduceScatter | Collective::Hierarchical
    )
}

/// The bytes that a call's segments count through, with the lengths of both buffers checked.
fn total(called: &Called, rank: u16, parts: usize, buffers: &Buffers<'_>) -> Result<usize, SharedError> {
    let is_root = rank == called.root;
    let fail = |expected, found| Err(SharedError::Length { expected, found });
    let split = |len: usize| {
        if len.is_multiple_of(parts) {
            Ok(len / parts)
        } else {
            fail("a multiple of the number of ranks is needed", len)
        }
    };
    match (called.collective, buffers) {
        (
            Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll,
            Buffers::InPlace(bytes),
        ) => split(bytes.len()),
        (_, Buffers::InPlace(bytes)) => Ok(bytes.len()),
        (Collective::AllGather, Buffers::Apart { send, recv }) => {
            if split(recv.len())? == send.len() {
                Ok(send.len())
            } else {
                fail("ranks times the input is needed", recv.len())
            }
        }
        (Collective::ReduceScatter, Buffers::Apart { send, recv }) => {
            if split(send.len())? == recv.len() {
                Ok(recv.len())
            } else {
                fail("ranks times the output is needed", send.len())
            }
        }
        (Collective::AllToAll, Buffers::Apart { send, recv }) if send.len() == recv.len() => {
            split(send.len())
        }
        // Only the root has both.
        (Collective::Reduce, Buffers::Apart { send, .. }) if !is_root => Ok(send.len()),
        (Collective::Broadcast, Buffers::Apart { recv, .. }) if !is_root => Ok(recv.len()),
        (_, Buffers::Apart { send, recv }) if send.len() == recv.len() => Ok(send.len()),
        (_, Buffers::Apart { recv, .. }) => fail("as many as the input has are needed", recv.len()),
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

/// Folding in rank order.
struct Fold {
    op: ReduceOp,
    dtype: DType,
    world: u16,
    /// Whether averages are divided here.
    divides: bool,
}

impl Fold {
    fn of(called: &Called, world: u16) -> Self {
        let divides = called.collective != Collective::Hierarchical;
        Self { op: called.op, dtype: called.dtype, world, divides }
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
