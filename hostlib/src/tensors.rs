//! The worker's view of the tensors in flight: which bytes of which tensor a chunk is.

mod bytes;
mod magnitude;
#[cfg(test)]
mod tests;

pub(crate) use bytes::{HalfFloat, all_reduce, in_binary32};

use std::collections::VecDeque;

use netfold_proto::{Codec, CodedChunk, Contributors, OpId, OpSpec};

use crate::buffer::{View, ViewMut};
use crate::coding::Coding;
use crate::confidential::Masks;
use crate::error::Error;
use crate::lower::{Lowered, SwitchOperation};
use crate::quantize::{EXPONENT_NON_FINITE, ElementCoding, Float, Kernel, Quantizer};
use crate::report::OpReport;
use crate::slot_positions::{Reconciliation, RetainedResults};
use magnitude::Magnitudes;

/// An operation that the worker has.
#[derive(Debug)]
struct PendingOp {
    operation: SwitchOperation,
    codec: OpCodec,
    /// Stream positions of the descriptor and of the first data chunk.
    starts: (u64, u64),
    /// Elements of a whole chunk.
    chunk_elements: usize,
    /// Number of ranks.
    world: u16,
    non_finite: u32,
    saturated: u32,
    partial: u32,
    left_out: u32,
    /// Of operations that keep residuals, how each chunk was last packed.
    packed: Vec<Option<Packed>>,
}

/// How a chunk was packed.
#[derive(Debug, Clone, Copy)]
struct Packed {
    exp: u8,
    /// With all headroom.
    full_headroom: bool,
}

/// A coding with what it needs.
#[derive(Debug, Clone, Copy)]
enum OpCodec {
    Blocks(Quantizer),
    Words { kernel: Kernel, send: bool, receive: bool },
    Elements(Kernel, ElementCoding),
}

/// The tensors of all operations that the worker has, in order of submission.
#[derive(Debug)]
pub(crate) struct Tensors {
    pending: VecDeque<PendingOp>,
    /// Number of the first pending operation.
    first: u64,
    world: u16,
    kernel: Kernel,
    lane_bytes: usize,
    /// Bits by which sums come down shifted; 0 for what follows from the world size.
    shift: u8,
    /// The newest results, where ranks can continue without the switch.
    retained: Option<RetainedResults>,
    /// Of a confidential job: what is added to lanes, and removed from results.
    masks: Option<Box<Masks>>,
    /// How large this rank's blocks are.
    magnitudes: Magnitudes,
    /// Bytes of the tensors of finished operations.
    finished_bytes: u64,
    /// Operations of earlier workers, whose attachments are lost: stochastic rounding continues its sequence.
    before: u64,
}

impl Tensors {
    /// No operations yet.
    ///
    /// # Panics
    ///
    /// When `world` is 0.
    pub(crate) fn new(world: u16, lane_bytes: usize) -> Self {
        Self {
            pending: VecDeque::new(),
            first: 0,
            world,
            kernel: Kernel::detect(),
            lane_bytes,
            shift: 0,
            retained: None,
            masks: None,
            magnitudes: Magnitudes::default(),
            finished_bytes: 0,
            before: 0,
        }
    }

    /// The same at switches that shift sums by so many bits in all.
    pub(crate) fn shifted(self, shift: u8) -> Self {
        Self { shift, ..self }
    }

    /// Masks lanes from now on.
    pub(crate) fn mask(&mut self, masks: Masks) {
        self.masks = Some(Box::new(masks));
    }

    /// Continues stochastic rounding as if so many operations had come before.
    pub(crate) fn continue_from(&mut self, before: u64) {
        self.before = before;
    }

    /// Takes the tensor of the operation that the worker has just numbered, the next one. Its descriptor
    /// and its first data chunk are at the stream positions `starts`.
    pub(crate) fn push(&mut self, op: OpId, starts: (u64, u64), operation: SwitchOperation) {
        debug_assert_eq!(op.0, self.first + self.pending.len() as u64, "operations are numbered in order");
        let pending = self.pending(op, starts, operation);
        self.pending.push_back(pending);
    }

    fn pending(&self, op: OpId, starts: (u64, u64), operation: SwitchOperation) -> PendingOp {
        let Lowered { spec, coding } = operation.request;
        let buffer = &operation.buffer;
        let kernel = self.kernel;
        let codec = match coding {
            Coding::Blocks(lanes, rng) => {
                let mut quantizer = Quantizer::with_kernel(lanes, self.world, kernel);
                if self.shift > 0 {
                    quantizer = quantizer.shifted(self.shift);
                }
                if let Some(rng) = rng {
                    // Every class numbers its own operations.
                    let number = (op.0 + self.before) | u64::from(spec.class) << 56;
                    quantizer = quantizer.stochastic(rng.operation(number));
                }
                OpCodec::Blocks(quantizer)
            }
            Coding::Elements(coding) => OpCodec::Elements(kernel, coding),
            Coding::Words => OpCodec::Words { kernel, send: true, receive: true },
            Coding::Nothing => OpCodec::Words { kernel, send: false, receive: false },
            Coding::WordsFromRoot => OpCodec::Words { kernel, send: false, receive: true },
            Coding::WordsOfRoot => OpCodec::Words { kernel, send: true, receive: false },
        };
        let chunk_elements = coding.chunk_elements(buffer.folded_size(), self.lane_bytes);
        let packed = if buffer.keeps_residual() { vec![None; spec.data_chunks as usize] } else { Vec::new() };
        PendingOp {
            starts,
            operation,
            codec,
            chunk_elements,
            world: self.world,
            non_finite: 0,
            saturated: 0,
            partial: 0,
            left_out: 0,
            packed,
        }
    }

    /// Operations not finished.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// Finishes the oldest operation.
    pub(crate) fn finish(&mut self, op: OpId) {
        debug_assert_eq!(op.0, self.first, "operations finish in order");
        let Some(mut pending) = self.pending.pop_front() else { return };
        self.first += 1;
        self.finished_bytes += pending.tensor_bytes();
        if let Some(retained) = &mut self.retained {
            pending.retain_tail(retained, self.world);
        }
        pending.finish();
    }

    /// Bytes of tensors of which the results are there: all of finished operations, and of pending ones the fraction that `missing` says,
    /// results that are missing and results in all.
    pub(crate) fn bytes_done(&self, missing: impl Fn(OpId) -> Option<(u64, u64)>) -> u64 {
        let pending = (self.first..).zip(&self.pending).map(|(number, pending)| {
            // What the worker does not have any more is done, and about to be finished.
            let (missing, all) = missing(OpId(number)).unwrap_or((0, 1));
            let done = u128::from(all.saturating_sub(missing)) * u128::from(pending.tensor_bytes());
            u64::try_from(done / u128::from(all.max(1))).unwrap_or_default()
        });
        self.finished_bytes + pending.sum::<u64>()
    }

    /// How many of the pending operations come no later than the last of which some rank has a result: all ranks have submitted
    /// those, and may have nothing but results where their inputs were.
    pub(crate) fn begun(&self, reconciled: &Reconciliation) -> usize {
        self.pending.iter().rposition(|pending| pending.has_begun(reconciled)).map_or(0, |last| last + 1)
    }

    /// Withdraws all operations, of which nothing was done.
    pub(crate) fn withdraw_all(&mut self) -> Vec<SwitchOperation> {
        self.first += self.pending.len() as u64;
        self.pending.drain(..).map(|pending| pending.operation).collect()
    }

    /// Blocks until all input is there.
    ///
    /// # Errors
    ///
    /// Why some of it never will be.
    pub(crate) fn wait_for_input(&self) -> Result<(), Error> {
        self.pending.iter().try_for_each(|pending| pending.operation.buffer.wait_for_input())
    }

    /// Settles all operations with an error.
    pub(crate) fn fail(&mut self, error: &Error) {
        for pending in self.pending.drain(..) {
            self.first += 1;
            pending.operation.fail(error.clone());
        }
    }

    #[inline]
    fn at(&mut self, op: OpId) -> Option<&mut PendingOp> {
        let index = op.0.checked_sub(self.first)?;
        self.pending.get_mut(usize::try_from(index).ok()?)
    }
}

impl PendingOp {
    /// Bytes of the tensor.
    fn tensor_bytes(&self) -> u64 {
        let descriptor = self.operation.request.spec.descriptor;
        descriptor.elements.saturating_mul(descriptor.dtype.size() as u64)
    }

    /// Whether some rank has the result of any chunk. The first of a slot says it for the slot; chunks of other slots may be done
    /// when the descriptor is not.
    fn has_begun(&self, reconciled: &Reconciliation) -> bool {
        let (descriptor, data) = self.starts;
        let firsts = u64::from(self.operation.request.spec.data_chunks).min(reconciled.slots());
        !reconciled.is_undone(descriptor)
            || (data..data + firsts).any(|position| !reconciled.is_undone(position))
    }

    /// Settles the operation with its report.
    fn finish(self) {
        let OpSpec { descriptor, data_chunks, .. } = self.operation.request.spec;
        self.operation.finish(OpReport {
            elements: descriptor.elements,
            chunks: data_chunks,
            non_finite: self.non_finite,
            saturated: self.saturated,
            partial: self.partial,
            left_out: self.left_out,
            ..OpReport::default()
        });
    }

    /// Writes what was left out of a chunk when it was packed like this to the caller's residual, if there is one. The tensor must
    /// still hold this rank's input.
    fn keep_residual(&mut self, quantizer: &Quantizer, chunk: u32, exp: u8) {
        let len = self.chunk_elements;
        if let Some((elements, residual)) = self.operation.buffer.elements_and_residual() {
            let left = block_mut(residual, chunk, len);
            quantizer.residual(chunk, block(elements, chunk, len), exp, left);
        }
    }

    /// Writes this rank's input to the caller's residual, if there is one: all of it was left out. The tensor must still hold it.
    fn keep_input(&mut self, chunk: u32) {
        let len = self.chunk_elements;
        if let Some((elements, residual)) = self.operation.buffer.elements_and_residual() {
            let residual = block_mut(residual, chunk, len);
            residual.copy_from_slice(block(elements, chunk, len));
        }
    }

    /// Counts the result of a chunk of `world` ranks, and keeps what it lacks of this rank's input, which the tensor must still hold.
    fn note_result(&mut self, coded: CodedChunk, contributors: Contributors, world: u16) {
        let CodedChunk { chunk, exp, full_headroom, .. } = coded;
        let Contributors { count, own } = contributors;
        self.saturated += u32::from(full_headroom);
        self.left_out += u32::from(!own);
        if let OpCodec::Blocks(quantizer) = self.codec(full_headroom) {
            self.non_finite += u32::from(exp == EXPONENT_NON_FINITE);
            if own {
                self.keep_residual(&quantizer, chunk, exp);
            } else {
                self.keep_input(chunk);
            }
            self.partial += u32::from(count < world);
        }
    }

    /// The factor that makes a sum of `count` ranks' contributions an estimate of the sum of all, where the tolerance asks for it.
    fn rescaling(&self, count: u16, world: u16) -> Option<f32> {
        let tolerance = self.operation.request.spec.descriptor.tolerance;
        let lacks = tolerance.any() && count < world && count > 0;
        (lacks && tolerance.rescale).then(|| f32::from(world) / f32::from(count))
    }

    /// The same of a chunk whose result comes from another rank.
    fn keep_residual_of_last(&mut self, chunk: u32) {
        let Some(Packed { exp, full_headroom }) = self.packed.get(chunk as usize).copied().flatten() else {
            return;
        };
        if let OpCodec::Blocks(quantizer) = self.codec(full_headroom) {
            self.keep_residual(&quantizer, chunk, exp);
        }
    }

    fn note_packed(&mut self, chunk: u32, exp: u8, full_headroom: bool) {
        if let Some(packed) = self.packed.get_mut(chunk as usize) {
            *packed = Some(Packed { exp, full_headroom });
        }
    }

    /// How the lanes of a chunk are coded.
    fn codec(&self, full_headroom: bool) -> OpCodec {
        match self.codec {
            OpCodec::Blocks(quantizer) if full_headroom => OpCodec::Blocks(quantizer.full_headroom()),
            codec => codec,
        }
    }
}

/// The elements of chunk `chunk`: none when it lies behind the tensor's end.
#[inline]
fn block<T>(elements: &[T], chunk: u32, chunk_elements: usize) -> &[T] {
    let rest = elements.get(chunk as usize * chunk_elements..).unwrap_or_default();
    &rest[..rest.len().min(chunk_elements)]
}

#[inline]
fn block_mut<T>(elements: &mut [T], chunk: u32, chunk_elements: usize) -> &mut [T] {
    let rest = elements.get_mut(chunk as usize * chunk_elements..).unwrap_or_default();
    let len = rest.len().min(chunk_elements);
    &mut rest[..len]
}

/// Multiplies a block by a factor, in binary32.
fn rescale<T: Float>(block: &mut [T], factor: f32) {
    for element in block {
        *element = T::from_f32(element.to_f32() * factor);
    }
}

/// Runs an expression on the elements of a view of floats.
macro_rules! with_floats {
    ($view:ident: $of:expr, $elements:ident => $run:expr, else $other:expr) => {
        match $of {
            $view::F32($elements) => $run,
            $view::F16($elements) => $run,
            $view::Bf16($elements) => $run,
            $view::I32(_) | $view::Bytes(_) | $view::None => $other,
        }
    };
}

/// Runs an expression on the elements of a view of any type.
macro_rules! with_elements {
    ($view:ident: $of:expr, $elements:ident => $run:expr, else $other:expr) => {
        match $of {
            $view::F32($elements) => $run,
            $view::F16($elements) => $run,
            $view::Bf16($elements) => $run,
            $view::I32($elements) => $run,
            $view::Bytes($elements) => $run,
            $view::None => $other,
        }
    };
}

impl Codec for Tensors {
    fn exponent(&mut self, op: OpId, chunk: u32) -> u8 {
        let Some(pending) = self.at(op) else { return 0 };
        let OpCodec::Blocks(q) = pending.codec else { return 0 };
        let len = pending.chunk_elements;
        with_floats!(
            View: pending.operation.buffer.block(chunk as usize, len),
            elements => q.exponent(elements),
            else 0
        )
    }

    fn tensor_key(&mut self, op: OpId) -> u64 {
        self.at(op).map_or(0, |pending| pending.operation.buffer.address() as u64)
    }

    fn readable(&mut self, op: OpId) -> u32 {
        let Some(pending) = self.at(op) else { return u32::MAX };
        let arrived = pending.operation.buffer.arrived();
        arrived.map_or(u32::MAX, |bytes| u32::try_from(bytes / pending.chunk_bytes()).unwrap_or(u32::MAX))
    }

    fn verified(&mut self, op: OpId) {
        self.at(op).iter().for_each(|pending| pending.operation.buffer.verify());
    }

    fn pack(&mut self, coded: CodedChunk, lanes: &mut [u8]) {
        self.pack_plain(coded, lanes);
        if let Some(masks) = &mut self.masks {
            masks.add(coded, lanes);
        }
    }

    fn is_expendable(&mut self, op: OpId, chunk: u32) -> bool {
        let exponent = self.exponent(op, chunk);
        self.magnitudes.is_small(exponent)
    }

    fn unpack(&mut self, coded: CodedChunk, contributors: Contributors, lanes: &[u8]) {
        let Some(mut masks) = self.masks.take() else { return self.unpack_plain(coded, contributors, lanes) };
        self.unpack_plain(coded, contributors, masks.remove(coded, lanes));
        self.masks = Some(masks);
    }

    fn pass(&mut self, coded: CodedChunk, contributors: Contributors) {
        let world = self.world;
        if let Some(pending) = self.at(coded.op) {
            pending.note_result(coded, contributors, world);
        }
    }
}

impl Tensors {
    /// Writes a chunk's lanes without masks.
    #[inline]
    fn pack_plain(&mut self, coded: CodedChunk, lanes: &mut [u8]) {
        let CodedChunk { op, chunk, exp, full_headroom } = coded;
        let Some(pending) = self.at(op) else { return lanes.fill(0) };
        pending.note_packed(chunk, exp, full_headroom);
        let view = pending.operation.buffer.block(chunk as usize, pending.chunk_elements);
        match pending.codec(full_headroom) {
            OpCodec::Blocks(q) => with_floats!(
                View: view,
                elements => q.pack_block(chunk, elements, exp, lanes),
                else lanes.fill(0)
            ),
            OpCodec::Words { kernel, send: true, .. } => with_elements!(
                View: view,
                elements => kernel.pack_words(elements, lanes),
                else lanes.fill(0)
            ),
            OpCodec::Words { send: false, .. } => lanes.fill(0),
            OpCodec::Elements(kernel, coding) => {
                let elements = pending.operation.buffer.block_bytes(chunk as usize, pending.chunk_bytes());
                kernel.pack_elements(coding, elements, lanes);
            }
        }
    }

    /// Takes a result's lanes without masks.
    #[inline]
    fn unpack_plain(&mut self, coded: CodedChunk, contributors: Contributors, lanes: &[u8]) {
        let CodedChunk { op, chunk, exp, full_headroom } = coded;
        let world = self.world;
        let Some(pending) = self.at(op) else { return };
        pending.note_result(coded, contributors, world);
        let (len, count) = (pending.chunk_elements, contributors.count);
        match pending.codec(full_headroom) {
            OpCodec::Blocks(q) => {
                let rescaling = pending.rescaling(count, world);
                with_floats!(
                    ViewMut: pending.operation.buffer.block_mut(chunk as usize, len),
                    elements => {
                        q.unpack(lanes, exp, count, elements);
                        if let Some(factor) = rescaling {
                            rescale(elements, factor);
                        }
                    },
                    else ()
                );
            }
            OpCodec::Words { kernel, receive: true, .. } => with_elements!(
                ViewMut: pending.operation.buffer.block_mut(chunk as usize, len),
                elements => kernel.unpack_words(lanes, elements),
                else ()
            ),
            OpCodec::Words { receive: false, .. } => {}
            OpCodec::Elements(kernel, coding) => {
                let bytes = pending.chunk_bytes();
                let elements = pending.operation.buffer.block_bytes_mut(chunk as usize, bytes);
                kernel.unpack_elements(coding, lanes, elements);
            }
        }
        pending.operation.buffer.finish_block(chunk as usize, pending.chunk_bytes());
    }
}
