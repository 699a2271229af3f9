//! The quantiser in a device's memory: launches of its kernels.
#![expect(unsafe_code, reason = "launches kernels on memory that callers vouch for")]

use std::sync::Arc;

use netfold_cuda::quantize::{BlockArgs, FloatFormat, QuantizeKernel, QuantizeKernels};
use netfold_cuda::{CudaError, Current, RawStream};
use netfold_wire::{DType, Lanes};

/// Elements of a block, at most.
const BLOCK_MAX: usize = 8192;

/// Bytes of a packet's lanes where no rank exchanges any with a switch.
const LANE_BYTES: usize = 1408;

/// How tensors are cut into blocks and quantised in a device's memory: as by [`Quantizer`](crate::quantize::Quantizer), with the same bits. A method returns when
/// its kernel was appended to the stream.
///
/// Lanes are words of 32 bits in the device's byte order, a lane each or two of 16 bits: the mantissa and 2^(bits - 1 - headroom). Sums of all ranks' words do not
/// carry from one lane to the next.
#[derive(Debug, Clone)]
pub struct DeviceQuantizer {
    kernels: Arc<QuantizeKernels>,
    lanes: Lanes,
    world: u16,
    block: usize,
    stochastic: bool,
}

/// A tensor in a device's memory, or a part of one that begins with a block, and what belongs to it there. All are addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceBlocks {
    /// Type of the elements.
    pub dtype: DType,
    /// How many.
    pub elements: usize,
    /// The elements.
    pub tensor: u64,
    /// A binary32 number for each element, or 0 for none: error feedback.
    pub residual: u64,
    /// A byte for each block.
    pub exponents: u64,
    /// The lanes, at a multiple of 8: [`DeviceQuantizer::lane_bytes`].
    pub lanes: u64,
    /// Number of the first block in the operation.
    pub number: u32,
}

impl DeviceQuantizer {
    /// Loads the kernels on the current device, for a job of `world` ranks with blocks of `block` elements, an even number of at most 8,192. `None` for
    /// lanes that are not made on devices, and other numbers.
    ///
    /// # Errors
    ///
    /// [`CudaError::Kernels`], [`CudaError::Call`].
    pub fn new(
        current: &Current<'_>,
        lanes: Lanes,
        world: u16,
        block: usize,
        stochastic: bool,
    ) -> Result<Option<Self>, CudaError> {
        let good = matches!(lanes, Lanes::Bfp16 | Lanes::Bfp32)
            && (1..=lanes.world_max()).contains(&world)
            && (1..=BLOCK_MAX).contains(&block)
            && block.is_multiple_of(2);
        if !good {
            return Ok(None);
        }
        let kernels = QuantizeKernels::load(current)?;
        Ok(Some(Self { kernels, lanes, world, block, stochastic }))
    }

    /// Whether tensors of this type are quantised on devices in a mode of these lanes: those whose lanes are no longer than their elements.
    pub fn takes(lanes: Lanes, dtype: DType) -> bool {
        format_of(dtype).is_some_and(|format| QuantizeKernel::lanes(format, lanes.bits(), false).is_some())
    }

    /// Elements of a block, where packets have `lane_bytes` bytes of lanes; 0 where there are none.
    pub(crate) fn block_for(lanes: Lanes, lane_bytes: usize) -> usize {
        let bytes = if lane_bytes == 0 { LANE_BYTES } else { lane_bytes };
        let mut block = bytes / lanes.element_bytes();
        while block > BLOCK_MAX {
            block /= 2;
        }
        (block - block % 2).max(2)
    }

    /// Elements of a block.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Bytes of the lanes of so many elements: whole words.
    pub fn lane_bytes(&self, elements: usize) -> usize {
        (elements * self.lanes.element_bytes()).next_multiple_of(4)
    }

    /// Writes this rank's exponents of all blocks. The residual, if there is one, is added to the tensor first.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Safety
    ///
    /// What `blocks` names, but the lanes, is of the current device, aligned, and as long as it says, until the stream has done this. Until then nothing
    /// else writes to it, or reads what is written. `stream` exists.
    pub unsafe fn exponents(
        &self,
        current: &Current<'_>,
        stream: RawStream,
        blocks: &DeviceBlocks,
    ) -> Result<(), CudaError> {
        let feedback = blocks.residual != 0;
        let kernel = format_of(blocks.dtype).and_then(|format| QuantizeKernel::exponents(format, feedback));
        // SAFETY: by this function's contract.
        unsafe { self.launch(current, stream, kernel, blocks, |args| args.flags = self.rounding()) }
    }

    /// Writes the lanes by the agreed exponents, and to the residual, if there is one, what they leave out. `key`: of the
    /// [random numbers](crate::quantize::RoundingRng::key) of the operation.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Safety
    ///
    /// As for [`Self::exponents`], for the lanes, too.
    pub unsafe fn quantize(
        &self,
        current: &Current<'_>,
        stream: RawStream,
        blocks: &DeviceBlocks,
        key: u64,
    ) -> Result<(), CudaError> {
        let (bits, feedback) = (self.lanes.bits(), blocks.residual != 0);
        let kernel = format_of(blocks.dtype).and_then(|format| QuantizeKernel::lanes(format, bits, feedback));
        let set = |args: &mut BlockArgs| (args.flags, args.key) = (self.rounding(), key);
        // SAFETY: by this function's contract.
        unsafe { self.launch(current, stream, kernel, blocks, set) }
    }

    /// Writes to the tensor what the sums of all ranks' lanes stand for, or their average. NaN for blocks with the exponent 255, and for lanes with all bits
    /// set, which no sum of two or more ranks has.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Safety
    ///
    /// As for [`Self::quantize`], but for the residual.
    pub unsafe fn dequantize(
        &self,
        current: &Current<'_>,
        stream: RawStream,
        blocks: &DeviceBlocks,
        average: bool,
    ) -> Result<(), CudaError> {
        let bits = self.lanes.bits();
        let kernel = format_of(blocks.dtype).and_then(|format| QuantizeKernel::results(format, bits));
        let checked = if self.world > 1 { BlockArgs::CHECKED } else { 0 };
        let average = if average { BlockArgs::AVERAGE } else { 0 };
        // SAFETY: by this function's contract.
        unsafe { self.launch(current, stream, kernel, blocks, |args| args.flags = checked | average) }
    }

    /// Copies so many bytes, a multiple of 8, by a kernel: what the rates of the others are compared with.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Safety
    ///
    /// As for [`Self::exponents`], for both addresses, which are multiples of 8.
    pub unsafe fn copy(
        &self,
        current: &Current<'_>,
        stream: RawStream,
        (to, from): (u64, u64),
        bytes: usize,
    ) -> Result<(), CudaError> {
        let args = BlockArgs {
            tensor: from,
            lanes: to,
            length: (bytes / 4) as u64,
            blocks: 1,
            ..BlockArgs::default()
        };
        // SAFETY: by this function's contract.
        unsafe { self.kernels.launch(current, stream, QuantizeKernel::CopyWords, &args) }
    }

    fn rounding(&self) -> u32 {
        if self.stochastic { BlockArgs::STOCHASTIC } else { 0 }
    }

    /// # Safety
    ///
    /// As for the kernel.
    unsafe fn launch(
        &self,
        current: &Current<'_>,
        stream: RawStream,
        kernel: Option<QuantizeKernel>,
        blocks: &DeviceBlocks,
        set: impl FnOnce(&mut BlockArgs),
    ) -> Result<(), CudaError> {
        // Callers ask first what is quantised.
        let Some(kernel) = kernel.filter(|_| blocks.elements > 0) else { return Ok(()) };
        let mut args = BlockArgs {
            tensor: blocks.tensor,
            residual: blocks.residual,
            exponents: blocks.exponents,
            lanes: blocks.lanes,
            length: blocks.elements as u64,
            key: 0,
            number: blocks.number,
            blocks: blocks.elements.div_ceil(self.block) as u32,
            block: self.block as u32,
            bits: self.lanes.bits(),
            headroom: self.world.next_power_of_two().trailing_zeros(),
            world: self.world.into(),
            flags: 0,
        };
        set(&mut args);
        // SAFETY: by this function's contract.
        unsafe { self.kernels.launch(current, stream, kernel, &args) }
    }
}

fn format_of(dtype: DType) -> Option<FloatFormat> {
    match dtype {
        DType::F32 => Some(FloatFormat::F32),
        DType::F16 => Some(FloatFormat::F16),
        DType::Bf16 => Some(FloatFormat::Bf16),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_those_of_packets_up_to_the_longest() {
        assert_eq!(DeviceQuantizer::block_for(Lanes::Bfp16, 1408), 704);
        assert_eq!(DeviceQuantizer::block_for(Lanes::Bfp32, 1408), 352);
        assert_eq!(DeviceQuantizer::block_for(Lanes::Bfp16, 0), 704);
        assert_eq!(DeviceQuantizer::block_for(Lanes::Bfp16, 65_536), 8192);
        assert_eq!(DeviceQuantizer::block_for(Lanes::Bfp32, 4), 2);
    }

    #[test]
    fn only_lanes_that_are_no_longer_than_elements_are_made() {
        let taken = |lanes| {
            [DType::F32, DType::F16, DType::Bf16, DType::F64, DType::I32]
                .map(|dtype| DeviceQuantizer::takes(lanes, dtype))
        };
        assert_eq!(taken(Lanes::Bfp16), [true, true, true, false, false]);
        assert_eq!(taken(Lanes::Bfp32), [true, false, false, false, false]);
    }
}
