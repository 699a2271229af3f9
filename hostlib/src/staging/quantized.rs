//! All-reduces of floats that the device quantises.
//!
//! A call is an operation on the exponents of its blocks and one or more on their lanes, all on integers, so that half of the bytes cross the bus in mode `bfp16`.
//! Lanes and exponents are in memory of the device that is used in turn, as the staging buffers are. Two more streams launch kernels, one on what goes out
//! and one on what comes back, so that neither waits for the other's.
//!
//! | what waits | for | by |
//! |---|---|---|
//! | kernels on what goes out | what the caller's stream has done before the call | an event of the caller's stream |
//! | the kernels that make lanes | the agreed exponents to be copied out | an event of the stream that copies out |
//! | kernels on what goes out | the results of the earlier user of their memory | an event of the stream with the results |
//! | copying in | the exponents, or the lanes | an event of the stream on what goes out |
//! | the kernels that make results | the sums to be copied out | an event of the stream that copies out |
//! | the caller's streams | the last results | an event of the stream with the results |
//! | the caller's threads | the same | a function that another stream calls, behind that event |
//!
//! Between copying in and copying out, a piece waits as any other.
#![expect(unsafe_code, reason = "launches kernels on memory of a device that callers vouch for")]

use netfold_cuda::{CudaError, Current, DeviceMemory, Event, Stream};
use netfold_wire::{Collective, DType, Lanes, ReduceOp};

use crate::call::Call;
use crate::quantize::{Rounding, RoundingRng};
use crate::staging::blocks::{DeviceBlocks, DeviceQuantizer};
use crate::staging::buffers::{BufferClass, LONG, SHORT};
use crate::staging::plan::{Plan, StagedPiece};

/// Where the class of an operation is in its number.
const CLASS_SHIFT: u32 = 56;

/// Parts of a call, and pieces of lanes, that may be in flight in memory of the device. Of long pieces one is made, up to three are in staging buffers.
const SHORT_SPANS: usize = 16;
const LONG_SPANS: usize = 4;

/// An all-reduce of floats in the memory of a device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuantizedCall {
    pub(crate) call: Call,
    pub(crate) send: u64,
    pub(crate) recv: u64,
    /// 0 for none.
    pub(crate) residual: u64,
}

/// What a communicator quantises by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantization {
    pub(crate) lanes: Lanes,
    pub(crate) rank: u16,
    pub(crate) world: u16,
    /// Elements of a block.
    pub(crate) block: usize,
    pub(crate) rounding: Rounding,
}

/// Elements of a call: those whose exponents are agreed on together, or whose lanes are summed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: usize,
    pub(super) count: usize,
}

impl Span {
    /// Spans of at most so many elements, all whole blocks but for the last one's end, and as equal as these allow.
    fn cut(self, longest: usize, block: usize) -> impl Iterator<Item = Self> {
        let longest = (longest - longest % block).max(block);
        let equal =
            self.count.div_ceil(self.count.div_ceil(longest).max(1)).next_multiple_of(block).max(block);
        let (first, end) = (self.first, self.first + self.count);
        (first..end).step_by(equal).map(move |first| Self { first, count: equal.min(end - first) })
    }
}

/// Parts of memory of the device, which are used in turn.
struct Spans {
    memory: DeviceMemory,
    bytes: usize,
    /// The results of each part's last user have been made.
    free: Vec<Event>,
    used: usize,
}

impl Spans {
    fn new(current: &Current<'_>, bytes: usize, count: usize) -> Result<Self, CudaError> {
        let free = (0..count).map(|_| Event::new(current)).collect::<Result<_, _>>()?;
        Ok(Self { memory: DeviceMemory::new(current, bytes * count)?, bytes, free, used: 0 })
    }

    /// The next part: its number, and its address.
    fn take(&mut self) -> (usize, u64) {
        let number = self.used % self.free.len();
        self.used += 1;
        (number, self.memory.span(number * self.bytes, self.bytes))
    }
}

/// What quantises a communicator's calls on a device.
pub(super) struct Quantizing {
    pub(super) quantizer: DeviceQuantizer,
    rng: Option<RoundingRng>,
    /// Calls of each class so far: they have random numbers of their own.
    numbers: [u64; 16],
    /// Launches kernels on what goes out.
    pub(super) out: Stream,
    /// Launches kernels on what comes back.
    pub(super) back: Stream,
    /// What is copied in next was made.
    made: Event,
    exponents: Spans,
    short: Spans,
    /// Allocated when it is first needed.
    long: Option<Spans>,
}

impl Quantizing {
    /// `None` where the device does not quantise so.
    pub(super) fn new(current: &Current<'_>, by: &Quantization) -> Result<Option<Self>, CudaError> {
        let rng = match by.rounding {
            Rounding::Stochastic { seed } => Some(RoundingRng::new(seed, by.rank)),
            _ => None,
        };
        let made = DeviceQuantizer::new(current, by.lanes, by.world, by.block, rng.is_some())?;
        let Some(quantizer) = made else { return Ok(None) };
        Ok(Some(Self {
            quantizer,
            rng,
            numbers: [0; 16],
            out: Stream::new(current)?,
            back: Stream::new(current)?,
            made: Event::new(current)?,
            exponents: Spans::new(current, SHORT.bytes, SHORT_SPANS)?,
            short: Spans::new(current, SHORT.bytes, SHORT_SPANS)?,
            long: None,
        }))
    }

    /// The elements of a call whose exponents are agreed on together.
    pub(super) fn parts(&self, call: &QuantizedCall) -> impl Iterator<Item = Span> + use<> {
        let block = self.quantizer.block();
        Span { first: 0, count: call.call.count }.cut(block * SHORT.bytes, block)
    }

    /// The pieces of a part.
    pub(super) fn pieces(&self, part: Span) -> impl Iterator<Item = Span> + use<> {
        let block = self.quantizer.block();
        let longest = LONG.bytes * block / self.quantizer.lane_bytes(block);
        part.cut(longest, block)
    }

    /// Whether a call is one piece.
    pub(super) fn is_one_piece(&self, call: &QuantizedCall) -> bool {
        self.parts(call).flat_map(|part| self.pieces(part)).nth(1).is_none()
    }

    /// Allocates the memory that a call needs; the class of the staging buffers of its longest piece.
    pub(super) fn prepare(
        &mut self,
        current: &Current<'_>,
        call: &QuantizedCall,
    ) -> Result<BufferClass, CudaError> {
        let mut pieces = self.parts(call).flat_map(|part| self.pieces(part));
        let long = pieces.any(|piece| self.quantizer.lane_bytes(piece.count) > SHORT.bytes);
        if long && self.long.is_none() {
            self.long = Some(Spans::new(current, LONG.bytes, LONG_SPANS)?);
        }
        Ok(if long { LONG } else { SHORT })
    }

    /// The key of the random numbers of the next call of a class.
    pub(super) fn key(&mut self, class: u8) -> u64 {
        let Some(number) = self.numbers.get_mut(usize::from(class)) else { return 0 };
        let operation = *number | u64::from(class) << CLASS_SHIFT;
        *number += 1;
        self.rng.map_or(0, |rng| rng.operation(operation).key())
    }

    /// Makes what is appended to a stream wait for what the stream on what goes out was given so far.
    ///
    /// # Safety
    ///
    /// `stream` exists.
    pub(super) unsafe fn order(&self, current: &Current<'_>, streams: &[&Stream]) -> Result<(), CudaError> {
        // SAFETY: all are streams that live.
        unsafe {
            self.made.record(current, self.out.raw())?;
            streams.iter().try_for_each(|stream| self.made.make_wait(current, stream.raw()))
        }
    }

    /// Appends the kernel that finds a part's exponents; where they are, and in which span.
    ///
    /// # Safety
    ///
    /// As for `Communicator::submit_cuda_with_feedback`.
    pub(super) unsafe fn find(
        &mut self,
        current: &Current<'_>,
        call: &QuantizedCall,
        part: Span,
    ) -> Result<(usize, DeviceBlocks), CudaError> {
        let (span, exponents) = self.exponents.take();
        let size = call.call.dtype.size();
        let at = |start: u64, bytes: usize| start + (part.first * bytes) as u64;
        let blocks = DeviceBlocks {
            dtype: call.call.dtype,
            elements: part.count,
            tensor: at(call.send, size),
            residual: if call.residual == 0 { 0 } else { at(call.residual, size_of::<f32>()) },
            exponents,
            lanes: 0,
            number: (part.first / self.quantizer.block()) as u32,
        };
        // SAFETY: the span's earlier user is done; all else by this function's contract.
        unsafe {
            self.exponents.free[span].make_wait(current, self.out.raw())?;
            self.quantizer.exponents(current, self.out.raw(), &blocks)?;
        }
        Ok((span, blocks))
    }

    /// Appends the kernel that makes the lanes of a piece of a part.
    ///
    /// # Safety
    ///
    /// As for `Communicator::submit_cuda_with_feedback`.
    pub(super) unsafe fn make(
        &mut self,
        current: &Current<'_>,
        (part, of_part): (Span, &DeviceBlocks),
        piece: Span,
        key: u64,
    ) -> Result<MadeLanes, CudaError> {
        let (ahead, block) = (piece.first - part.first, self.quantizer.block());
        let at = |start: u64, bytes: usize| start + (ahead * bytes) as u64;
        let mut blocks = DeviceBlocks {
            elements: piece.count,
            tensor: at(of_part.tensor, of_part.dtype.size()),
            residual: if of_part.residual == 0 { 0 } else { at(of_part.residual, size_of::<f32>()) },
            exponents: of_part.exponents + (ahead / block) as u64,
            number: of_part.number + (ahead / block) as u32,
            ..*of_part
        };
        let bytes = self.quantizer.lane_bytes(piece.count);
        let long = bytes > SHORT.bytes;
        let Self { quantizer, out, .. } = self;
        let spans = match &mut self.long {
            Some(spans) if long => spans,
            _ => &mut self.short,
        };
        let (span, lanes) = spans.take();
        blocks.lanes = lanes;
        // SAFETY: the span's earlier user is done; all else by this function's contract.
        unsafe {
            spans.free[span].make_wait(current, out.raw())?;
            quantizer.quantize(current, out.raw(), &blocks, key)?;
        }
        Ok(MadeLanes { blocks, long, span, words: bytes / size_of::<u32>() })
    }

    /// Appends the kernel that makes the results of a piece.
    ///
    /// # Safety
    ///
    /// As for `Communicator::submit_cuda_with_feedback`.
    pub(super) unsafe fn result(
        &self,
        current: &Current<'_>,
        made: &MadeLanes,
        call: &QuantizedCall,
        piece: Span,
    ) -> Result<(), CudaError> {
        let tensor = call.recv + (piece.first * call.call.dtype.size()) as u64;
        let blocks = DeviceBlocks { tensor, ..made.blocks };
        let spans = match &self.long {
            Some(spans) if made.long => spans,
            _ => &self.short,
        };
        // SAFETY: by this function's contract.
        unsafe {
            let average = call.call.op == ReduceOp::Avg;
            self.quantizer.dequantize(current, self.back.raw(), &blocks, average)?;
            spans.free[made.span].record(current, self.back.raw())
        }
    }

    /// The results of a part, and all that were made of its exponents, come before what the span is used for next.
    ///
    /// # Safety
    ///
    /// The span was taken by [`Self::find`].
    pub(super) unsafe fn give_back(&self, current: &Current<'_>, span: usize) -> Result<(), CudaError> {
        // SAFETY: the stream lives.
        unsafe { self.exponents.free[span].record(current, self.back.raw()) }
    }
}

/// Lanes that a kernel makes.
pub(super) struct MadeLanes {
    pub(super) blocks: DeviceBlocks,
    long: bool,
    span: usize,
    pub(super) words: usize,
}

/// The operation on exponents or on lanes: one piece of staging.
pub(super) fn integers(call: &QuantizedCall, dtype: DType, count: usize) -> (Plan, Option<StagedPiece>) {
    let op = if dtype == DType::U8 { ReduceOp::Max } else { ReduceOp::Sum };
    let call = Call::new(Collective::AllReduce, dtype, op, count).in_class(call.call.class);
    // Rank and world make no difference to an all-reduce.
    let plan = Plan::new(&call, 0, 1);
    let piece = plan.pieces().next();
    (plan, piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(count: usize, longest: usize, block: usize) -> Vec<(usize, usize)> {
        Span { first: 0, count }.cut(longest, block).map(|span| (span.first, span.count)).collect()
    }

    #[test]
    fn spans_are_whole_blocks_and_cover_all_once() {
        assert_eq!(cut(1, 100, 10), [(0, 1)]);
        assert_eq!(cut(100, 100, 10), [(0, 100)]);
        assert_eq!(cut(101, 109, 10), [(0, 60), (60, 41)]);
        assert_eq!(cut(7, 3, 10), [(0, 7)]);
        for count in 1..2000 {
            let spans = cut(count, 160, 16);
            assert!(spans.iter().all(|(first, count)| first % 16 == 0 && (1..=160).contains(count)));
            assert_eq!(spans.iter().map(|(_, count)| count).sum::<usize>(), count);
            assert!(spans.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0));
        }
    }

    #[test]
    fn each_operation_is_one_piece() {
        let call = Call::new(Collective::AllReduce, DType::F32, ReduceOp::Sum, 1).in_class(3);
        let call = QuantizedCall { call, send: 0, recv: 0, residual: 0 };
        for (dtype, count) in
            [(DType::U8, 1), (DType::U8, SHORT.bytes), (DType::I32, 1), (DType::I32, LONG.bytes / 4)]
        {
            let (plan, piece) = integers(&call, dtype, count);
            assert_eq!((plan.pieces().count(), plan.bytes().0), (1, count * dtype.size()));
            assert_eq!(piece.map(|piece| plan.operation(&piece).call.class), Some(3));
        }
    }
}
