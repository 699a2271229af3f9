//! The kernels of the program under test, by the host's quantiser.

use netfold::quantize::{EXPONENT_NON_FINITE, Float, Kernel, Lanes, Quantizer, RoundingRng};
use netfold::{bf16, f16};
use netfold_cuda::quantize::{BlockArgs, FloatFormat, QuantizeKernel};

use crate::memory::Memory;

/// Threads of a warp, which has a block.
const WARP: u32 = 32;

/// A launch, of which some blocks are done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch {
    kernel: QuantizeKernel,
    args: BlockArgs,
    done: u32,
}

/// Number `handle - 1` of all kernels.
pub(crate) fn kernel_of(handle: usize) -> Option<QuantizeKernel> {
    QuantizeKernel::ALL.get(handle.checked_sub(1)?).copied()
}

/// The handle of the kernel of this name.
pub(crate) fn handle_of(name: &std::ffi::CStr) -> Option<usize> {
    QuantizeKernel::ALL.iter().position(|kernel| kernel.name() == name).map(|number| number + 1)
}

/// Elements in memory of the device.
trait Raw: Float {
    fn of_bytes(bytes: &[u8]) -> Self;
    fn to_bytes(self, to: &mut [u8]);
}

macro_rules! raw {
    ($($type:ty),*) => {
        $(impl Raw for $type {
            fn of_bytes(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<Self>()];
                own.copy_from_slice(bytes);
                Self::from_ne_bytes(own)
            }

            fn to_bytes(self, to: &mut [u8]) {
                to.copy_from_slice(&self.to_ne_bytes());
            }
        })*
    };
}

raw!(f32, f16, bf16);

/// Addresses of a block.
struct Block {
    /// In the launch.
    number: u32,
    /// Elements before it.
    first: u64,
    count: usize,
}

impl Launch {
    /// Refuses launches with too few threads.
    pub(crate) fn new(
        kernel: QuantizeKernel,
        args: BlockArgs,
        (grid, threads): (u32, u32),
    ) -> Result<Self, String> {
        let warps = u64::from(grid) * u64::from(threads / WARP);
        if kernel != QuantizeKernel::CopyWords
            && (warps < args.blocks.into() || !args.block.is_multiple_of(2))
        {
            return Err(format!("{warps} warps for {args:?}"));
        }
        Ok(Self { kernel, args, done: 0 })
    }

    /// Blocks that are left.
    pub(crate) fn left(&self) -> u32 {
        self.args.blocks - self.done
    }

    /// Executes so many blocks; whether all are done. The error says what is wrong with the addresses.
    pub(crate) fn execute(&mut self, blocks: u32, memory: &mut Memory) -> Result<bool, String> {
        for _ in 0..blocks.min(self.left()) {
            self.block(memory)?;
            self.done += 1;
        }
        Ok(self.left() == 0)
    }

    fn block(&self, memory: &mut Memory) -> Result<(), String> {
        use QuantizeKernel as K;
        let (args, first) = (&self.args, u64::from(self.done) * u64::from(self.args.block));
        let count = args.length.saturating_sub(first).min(args.block.into()) as usize;
        let block = Block { number: self.done, first, count };
        let format = match self.kernel {
            K::ExponentsF16 | K::LanesF16Bfp16 | K::ResultsF16Bfp16 => FloatFormat::F16,
            K::ExponentsBf16 | K::LanesBf16Bfp16 | K::ResultsBf16Bfp16 => FloatFormat::Bf16,
            _ => FloatFormat::F32,
        };
        match format {
            FloatFormat::F32 => self.block_of::<f32>(&block, memory),
            FloatFormat::F16 => self.block_of::<f16>(&block, memory),
            FloatFormat::Bf16 => self.block_of::<bf16>(&block, memory),
        }
    }

    fn block_of<T: Raw>(&self, block: &Block, memory: &mut Memory) -> Result<(), String> {
        use QuantizeKernel as K;
        match self.kernel {
            K::ExponentsF32 | K::ExponentsF16 | K::ExponentsBf16 => self.exponent::<T>(block, memory, false),
            K::ExponentsF32Feedback => self.exponent::<T>(block, memory, true),
            K::LanesF32Bfp16Feedback | K::LanesF32Bfp32Feedback => self.lanes::<T>(block, memory, true),
            K::LanesF32Bfp16 | K::LanesF32Bfp32 | K::LanesF16Bfp16 | K::LanesBf16Bfp16 => {
                self.lanes::<T>(block, memory, false)
            }
            K::ResultsF32Bfp16 | K::ResultsF32Bfp32 | K::ResultsF16Bfp16 | K::ResultsBf16Bfp16 => {
                self.results::<T>(block, memory)
            }
            K::CopyWords => {
                let bytes = self.args.length as usize * 4;
                let copy = at(memory, self.args.tensor, bytes)?.to_vec();
                at(memory, self.args.lanes, bytes)?.copy_from_slice(&copy);
                Ok(())
            }
        }
    }

    fn lanes_of(&self) -> Lanes {
        if self.args.bits == 16 { Lanes::Bfp16 } else { Lanes::Bfp32 }
    }

    fn quantizer(&self) -> Quantizer {
        let quantizer = Quantizer::with_kernel(self.lanes_of(), self.args.world as u16, Kernel::detect());
        let stochastic = self.args.flags & BlockArgs::STOCHASTIC != 0;
        if stochastic { quantizer.stochastic(RoundingRng::of_key(self.args.key)) } else { quantizer }
    }

    fn exponent<T: Raw>(&self, block: &Block, memory: &mut Memory, feedback: bool) -> Result<(), String> {
        let mut tensor = read::<T>(memory, self.args.tensor, block)?;
        if feedback {
            let residual = read::<f32>(memory, self.args.residual, block)?;
            for (element, left) in tensor.iter_mut().zip(residual) {
                *element = T::from_f32(element.to_f32() + left);
            }
            write(memory, self.args.tensor, block, &tensor)?;
        }
        let exponent = self.quantizer().exponent(&tensor);
        at(memory, self.args.exponents + u64::from(block.number), 1)?[0] = exponent;
        Ok(())
    }

    fn lanes<T: Raw>(&self, block: &Block, memory: &mut Memory, feedback: bool) -> Result<(), String> {
        let exponent = at(memory, self.args.exponents + u64::from(block.number), 1)?[0];
        let (tensor, quantizer) = (read::<T>(memory, self.args.tensor, block)?, self.quantizer());
        let mut packed = vec![0; (block.count * quantizer.lanes().element_bytes()).next_multiple_of(4)];
        let number = self.args.number + block.number;
        quantizer.pack_block(number, &tensor, exponent, &mut packed);
        let lanes = at(memory, self.lanes_at(block), packed.len())?;
        match quantizer.lanes() {
            Lanes::Bfp16 => {
                for (lane, packed) in lanes.chunks_exact_mut(2).zip(packed.chunks_exact(2)) {
                    lane.copy_from_slice(&u16::from_be_bytes([packed[0], packed[1]]).to_ne_bytes());
                }
            }
            _ => {
                let bias = 1u32 << (31 - self.args.headroom);
                for (lane, packed) in lanes.as_chunks_mut::<4>().0.iter_mut().zip(packed.as_chunks().0) {
                    *lane = u32::from_be_bytes(*packed).wrapping_add(bias).to_ne_bytes();
                }
            }
        }
        if feedback {
            let tensor: Vec<f32> = tensor.iter().map(|element| element.to_f32()).collect();
            let mut left = vec![0.0; block.count];
            quantizer.residual(number, &tensor, exponent, &mut left);
            write(memory, self.args.residual, block, &left)?;
        }
        Ok(())
    }

    fn results<T: Raw>(&self, block: &Block, memory: &mut Memory) -> Result<(), String> {
        let (world, quantizer) = (self.args.world as u16, self.quantizer());
        let exponent = at(memory, self.args.exponents + u64::from(block.number), 1)?[0];
        let width = quantizer.lanes().element_bytes();
        let bytes = (block.count * width).next_multiple_of(4);
        let mut sums = at(memory, self.lanes_at(block), bytes)?.to_vec();
        let checked = self.args.flags & BlockArgs::CHECKED != 0;
        let lost: Vec<bool> =
            sums.chunks_exact(width).map(|lane| checked && lane.iter().all(|byte| *byte == 0xFF)).collect();
        match quantizer.lanes() {
            Lanes::Bfp16 => sums.chunks_exact_mut(2).for_each(|lane| {
                lane.copy_from_slice(&u16::from_ne_bytes([lane[0], lane[1]]).to_be_bytes());
            }),
            _ => {
                let bias = self.args.world << (31 - self.args.headroom);
                for lane in sums.as_chunks_mut::<4>().0 {
                    *lane = u32::from_ne_bytes(*lane).wrapping_sub(bias).to_be_bytes();
                }
            }
        }
        let mut result = vec![T::default(); block.count];
        quantizer.unpack(&sums, exponent, world, &mut result);
        for (element, lost) in result.iter_mut().zip(lost) {
            if self.args.flags & BlockArgs::AVERAGE != 0 && exponent != EXPONENT_NON_FINITE {
                *element = T::from_f32(element.to_f32() / f32::from(world));
            }
            if lost {
                *element = T::NAN;
            }
        }
        write(memory, self.args.tensor, block, &result)
    }

    fn lanes_at(&self, block: &Block) -> u64 {
        self.args.lanes + block.first * self.lanes_of().element_bytes() as u64
    }
}

fn at(memory: &mut Memory, address: u64, bytes: usize) -> Result<&mut [u8], String> {
    memory.device(address, bytes).ok_or_else(|| format!("a kernel used {bytes} bytes at {address:#x}"))
}

fn read<T: Raw>(memory: &mut Memory, start: u64, block: &Block) -> Result<Vec<T>, String> {
    let size = size_of::<T>();
    let bytes = at(memory, start + block.first * size as u64, block.count * size)?;
    Ok(bytes.chunks_exact(size).map(T::of_bytes).collect())
}

fn write<T: Raw>(memory: &mut Memory, start: u64, block: &Block, elements: &[T]) -> Result<(), String> {
    let size = size_of::<T>();
    let bytes = at(memory, start + block.first * size as u64, block.count * size)?;
    for (element, to) in elements.iter().zip(bytes.chunks_exact_mut(size)) {
        element.to_bytes(to);
    }
    Ok(())
}
