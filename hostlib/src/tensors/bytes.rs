//! Tensors as bytes: what ranks pass to each other after failover.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use netfold_proto::OpId;
use netfold_wire::{Collective, DType, LaneOwner, ReduceOp};

use super::{PendingOp, Tensors};
use crate::error::Error;
use crate::lower::SwitchOperation;
use crate::peers::{self, Peers};
use crate::slot_positions::{OwnedChunk, Reconciliation, RetainedResults};

/// Bytes that are gathered, folded and scattered at a time: bounds the memory that it takes.
const PIECE_BYTES: usize = 8 << 20;

impl Tensors {
    /// From now on keeps copies of the newest `slots` results.
    pub(crate) fn retain_results(&mut self, slots: usize) {
        // An element has at most twice the bytes that it has on the wire.
        self.retained = Some(RetainedResults::new(slots, 2 * self.lane_bytes));
    }

    /// The result at a stream position, as bytes: of a pending operation, or of one that was finished with this slot's newest
    /// result. `None` for positions without data.
    pub(crate) fn result_at(&mut self, position: u64) -> Option<&[u8]> {
        let holds = |pending: &PendingOp| pending.chunk_at(position).is_some();
        match self.pending.iter_mut().find(|pending| holds(pending)) {
            Some(pending) => pending.bytes_at(position).map(|bytes| &*bytes),
            None => self.retained.as_ref()?.get(position),
        }
    }

    /// The memory of a pending operation's result at a stream position, to be overwritten with the result that another rank has.
    pub(crate) fn memory_at(&mut self, position: u64) -> Option<&mut [u8]> {
        let pending = self.pending.iter_mut().find(|pending| pending.chunk_at(position).is_some())?;
        let chunk = pending.chunk_at(position)?;
        // That result contains this rank's contribution as it was packed.
        pending.keep_residual_of_last(chunk);
        pending.bytes_at(position)
    }

    /// Whose chunk a stream position is, if it is data that one rank receives.
    pub(crate) fn owned_at(&self, position: u64) -> Option<OwnedChunk> {
        match self.pending.iter().find(|pending| pending.chunk_at(position).is_some()) {
            Some(pending) => pending.owned_at(position, self.world),
            None => self.retained.as_ref()?.owned(position),
        }
    }

    /// This rank's contribution at a stream position that another rank receives, as bytes: what is in the sums where the result has been
    /// acknowledged, else the input.
    pub(crate) fn contribution_at(&mut self, position: u64, acknowledged: bool) -> Vec<u8> {
        match self.pending.iter_mut().find(|pending| pending.chunk_at(position).is_some()) {
            Some(pending) => pending.contribution_at(position, acknowledged),
            None => {
                self.retained.as_ref().and_then(|retained| retained.get(position)).unwrap_or_default().into()
            }
        }
    }

    /// Takes what the chunk at a stream position comes to in another reduction of all ranks' inputs, where this rank receives it. Where its
    /// first result was `lacking` here, nothing of the input is left out.
    pub(crate) fn take_again(&mut self, position: u64, result: Option<&[u8]>, lacking: bool) {
        let Some(pending) = self.pending.iter_mut().find(|pending| pending.chunk_at(position).is_some())
        else {
            return;
        };
        if lacking && let Some(chunk) = pending.chunk_at(position) {
            pending.leave_nothing_out(chunk);
        }
        if let (Some(result), Some(memory)) = (result, pending.bytes_at(position)) {
            let len = memory.len().min(result.len());
            memory[..len].copy_from_slice(&result[..len]);
        }
    }

    /// Executes the rest of the oldest pending operation, if there is one, among the ranks, and finishes it.
    pub(crate) fn finish_oldest(
        &mut self,
        peers: &mut dyn Peers,
        reconciled: &Reconciliation,
    ) -> Result<(), Error> {
        let Some(pending) = self.pending.front_mut() else { return Ok(()) };
        let begins_here = reconciled.is_undone(pending.starts.0);
        if begins_here {
            peers::check_same_op(pending.operation.request.spec.descriptor, peers)?;
        }
        let undone = pending.undone(|position| reconciled.is_undone(position));
        // A barrier whose one result another rank has is over: all had called, and the ranks that have it do not call again.
        if begins_here || pending.operation.request.spec.descriptor.collective != Collective::Barrier {
            pending.reduce_among(peers, &undone)?;
        }
        if let Some(pending) = self.pending.pop_front() {
            self.first += 1;
            pending.finish();
        }
        Ok(())
    }

    /// Executes an operation that the worker never had among the ranks, which have agreed that it is the same.
    pub(crate) fn execute(&mut self, peers: &mut dyn Peers, operation: SwitchOperation) -> Result<(), Error> {
        if let Err(error) = operation.buffer.wait_for_input() {
            operation.fail(error.clone());
            return Err(error);
        }
        let mut pending = self.pending(OpId(0), (0, 0), operation);
        let undone = pending.undone(|_| true);
        match pending.reduce_among(peers, &undone) {
            Ok(()) => {
                pending.finish();
                Ok(())
            }
            Err(error) => {
                pending.operation.fail(error.clone());
                Err(error)
            }
        }
    }
}

/// A stretch of a tensor's bytes.
type ByteRange = std::ops::Range<usize>;

impl PendingOp {
    /// The data chunk at a stream position.
    fn chunk_at(&self, position: u64) -> Option<u32> {
        let spec = self.operation.request.spec;
        let ordinal = position.checked_sub(self.starts.1)?;
        (ordinal < u64::from(spec.data_chunks)).then(|| spec.chunk_at(ordinal as u32, self.world))
    }

    pub(super) fn chunk_bytes(&self) -> usize {
        self.chunk_elements * self.operation.buffer.folded_size()
    }

    fn bytes_at(&mut self, position: u64) -> Option<&mut [u8]> {
        let chunk = self.chunk_at(position)? as usize;
        let len = self.chunk_bytes();
        Some(self.operation.buffer.block_bytes_mut(chunk, len))
    }

    /// Whose chunk a stream position is, if one rank of `world` receives it.
    fn owned_at(&self, position: u64, world: u16) -> Option<OwnedChunk> {
        let spec = self.operation.request.spec;
        match spec.sharing.owner(self.chunk_at(position)?, world) {
            LaneOwner::All => None,
            LaneOwner::Rank(owner) => {
                Some(OwnedChunk { owner, op: self.reduce_op(), dtype: spec.descriptor.dtype })
            }
        }
    }

    /// This rank's input at a stream position, without what is left out of the sums where the result has been acknowledged. The memory must
    /// still hold it.
    fn contribution_at(&mut self, position: u64, acknowledged: bool) -> Vec<u8> {
        let mut bytes = self.bytes_at(position).map(|bytes| bytes.to_vec()).unwrap_or_default();
        let len = self.chunk_elements;
        if acknowledged
            && let Some(chunk) = self.chunk_at(position)
            && let Some((_, residual)) = self.operation.buffer.elements_and_residual()
        {
            let left_out = super::block(residual, chunk, len);
            for (element, left_out) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(left_out) {
                *element = (f32::from_ne_bytes(*element) - left_out).to_ne_bytes();
            }
        }
        bytes
    }

    /// Nothing of a chunk is left out.
    fn leave_nothing_out(&mut self, chunk: u32) {
        let len = self.chunk_elements;
        if let Some((_, residual)) = self.operation.buffer.elements_and_residual() {
            super::block_mut(residual, chunk, len).fill(0.0);
        }
    }

    /// How hosts reduce this operation.
    fn reduce_op(&self) -> ReduceOp {
        let descriptor = self.operation.request.spec.descriptor;
        match (descriptor.collective, descriptor.op) {
            (Collective::AllGather, _) => ReduceOp::BitOr,
            // Every rank divides at the end.
            (_, ReduceOp::Avg) => ReduceOp::Sum,
            (_, op) => op,
        }
    }

    /// Copies the results that other ranks may still lack, and contributions to those that only one of them receives.
    pub(super) fn retain_tail(&mut self, retained: &mut RetainedResults, world: u16) {
        let end = self.starts.1 + u64::from(self.operation.request.spec.data_chunks);
        let start = end.saturating_sub(retained.slots() as u64).max(self.starts.1);
        for position in start..end {
            if let Some(owned) = self.owned_at(position, world) {
                let contribution = self.contribution_at(position, true);
                retained.keep(position, &contribution, Some(owned));
            } else if let Some(bytes) = self.bytes_at(position) {
                retained.keep(position, bytes, None);
            }
        }
    }

    /// The stretches of the tensor whose positions are undone, as long as can be.
    fn undone(&mut self, undone: impl Fn(u64) -> bool) -> Vec<ByteRange> {
        let (len, total) = (self.chunk_bytes(), self.operation.buffer.bytes_mut().len());
        let positions = self.starts.1..self.starts.1 + u64::from(self.operation.request.spec.data_chunks);
        let mut chunks: Vec<u32> =
            positions.filter(|at| undone(*at)).filter_map(|position| self.chunk_at(position)).collect();
        chunks.sort_unstable();
        let mut ranges: Vec<ByteRange> = Vec::new();
        for chunk in chunks {
            let start = (chunk as usize * len).min(total);
            let end = (start + len).min(total);
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// Does the operation on these stretches, the same on all ranks.
    fn reduce_among(&mut self, peers: &mut dyn Peers, undone: &[ByteRange]) -> Result<(), Error> {
        let descriptor = self.operation.request.spec.descriptor;
        if descriptor.collective == Collective::Barrier {
            return peers.barrier();
        }
        let whole = self.operation.buffer.bytes_mut();
        if let [all] = undone
            && *all == (0..whole.len())
            && !matches!(descriptor.dtype, DType::F16 | DType::Bf16)
        {
            return self.reduce_piece(peers, None);
        }
        let mut rest = undone.iter().cloned();
        let mut open = rest.next();
        while open.is_some() {
            let mut piece = Vec::new();
            let mut room = PIECE_BYTES;
            while let Some(range) = open.take() {
                let cut = range.end.min(range.start + room);
                room -= cut - range.start;
                piece.push(range.start..cut);
                open = if cut < range.end { Some(cut..range.end) } else { rest.next() };
                if room == 0 {
                    break;
                }
            }
            self.reduce_piece(peers, Some(&piece))?;
        }
        Ok(())
    }

    /// Does the operation on some stretches, or on all in place.
    fn reduce_piece(&mut self, peers: &mut dyn Peers, piece: Option<&[ByteRange]>) -> Result<(), Error> {
        let descriptor = self.operation.request.spec.descriptor;
        let op = self.reduce_op();
        let bytes = self.operation.buffer.bytes_mut();
        let mut gathered: Vec<u8> =
            piece.unwrap_or_default().iter().flat_map(|range| &bytes[range.clone()]).copied().collect();
        let part = if piece.is_some() { &mut gathered[..] } else { bytes };
        match (descriptor.collective, descriptor.dtype) {
            (Collective::Broadcast { root }, _) => peers.broadcast(part, root)?,
            (Collective::AllGather, _) => peers.all_reduce(op, DType::U8, part)?,
            (_, dtype) => all_reduce(peers, op, dtype, part)?,
        }
        let mut from = &gathered[..];
        let bytes = self.operation.buffer.bytes_mut();
        for range in piece.unwrap_or_default() {
            let (now, later) = from.split_at(range.len());
            bytes[range.clone()].copy_from_slice(now);
            from = later;
        }
        Ok(())
    }
}

/// Replaces elements by the reduction over all ranks, of 16-bit floats as binary32.
pub(crate) fn all_reduce(
    peers: &mut dyn Peers,
    op: ReduceOp,
    dtype: DType,
    bytes: &mut [u8],
) -> Result<(), Error> {
    match dtype {
        DType::F16 => in_binary32::<f16>(bytes, |wide| peers.all_reduce(op, DType::F32, wide)),
        DType::Bf16 => in_binary32::<bf16>(bytes, |wide| peers.all_reduce(op, DType::F32, wide)),
        dtype => peers.all_reduce(op, dtype, bytes),
    }
}

/// A 16-bit float.
pub(crate) trait HalfFloat: Copy + Default {
    fn from_ne(bytes: [u8; 2]) -> Self;
    fn to_ne(self) -> [u8; 2];
    fn widen(from: &[Self], to: &mut [f32]);
    fn narrow(from: &[f32], to: &mut [Self]);
}

macro_rules! half_floats {
    ($($ty:ty),+) => { $(impl HalfFloat for $ty {
        fn from_ne(bytes: [u8; 2]) -> Self {
            Self::from_ne_bytes(bytes)
        }
        fn to_ne(self) -> [u8; 2] {
            self.to_ne_bytes()
        }
        fn widen(from: &[Self], to: &mut [f32]) {
            from.convert_to_f32_slice(to);
        }
        fn narrow(from: &[f32], to: &mut [Self]) {
            to.convert_from_f32_slice(from);
        }
    })+ };
}

half_floats! { f16, bf16 }

/// Runs `fold` on 16-bit floats as binary32, and rounds once at the end: the error bound of folding them at a switch.
pub(crate) fn in_binary32<T: HalfFloat>(
    bytes: &mut [u8],
    fold: impl FnOnce(&mut [u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut narrow: Vec<T> = bytes.as_chunks::<2>().0.iter().map(|bytes| T::from_ne(*bytes)).collect();
    let mut wide = vec![0f32; narrow.len()];
    T::widen(&narrow, &mut wide);
    let mut wide_bytes: Vec<u8> = wide.iter().flat_map(|value| value.to_ne_bytes()).collect();
    fold(&mut wide_bytes)?;
    for (value, bytes) in wide.iter_mut().zip(wide_bytes.as_chunks::<4>().0) {
        *value = f32::from_ne_bytes(*bytes);
    }
    T::narrow(&wide, &mut narrow);
    for (bytes, value) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(&narrow) {
        *bytes = value.to_ne();
    }
    Ok(())
}
