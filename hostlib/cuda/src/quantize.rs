//! Kernels that quantise tensors on a device, block by block: the arithmetic of `netfold::quantize`, with the same bits.
//!
//! They are written in [CUDA C++](https://docs.nvidia.com/cuda/cuda-c-programming-guide/), in `quantize/kernels.cu`, and are part of this library as PTX, an
//! assembly language of NVIDIA's that every driver from version 12.0 on compiles for its devices; see ADR 59.
#![expect(unsafe_code, reason = "calls the driver")]

use std::ffi::CStr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::device::{Current, Device};
use crate::driver::Driver;
use crate::error::CudaError;
use crate::module::{Function, Module};
use crate::stream::RawStream;

/// The kernels' code, for devices of [`CAPABILITY`] and later.
pub const PTX: &str = include_str!("quantize/kernels.ptx");

/// What [`PTX`] was made of.
pub const SOURCE: &str = include_str!("quantize/kernels.cu");

/// The compute capability that devices need, major and minor.
pub const CAPABILITY: (i32, i32) = (7, 0);

/// Threads of a group: eight warps, each of which has a block.
const THREADS: u32 = 256;

/// Blocks of a group of threads.
const GROUP: u32 = THREADS / 32;

/// Element types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FloatFormat {
    /// binary32.
    F32,
    /// binary16.
    F16,
    /// bfloat16.
    Bf16,
}

/// What a launch works on: a tensor, or a part of one that begins with a block. Addresses are of the device's memory. Each kernel documents which fields it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct BlockArgs {
    /// Elements.
    pub tensor: u64,
    /// What is added to the tensor and what its lanes leave out: as many binary32 numbers as elements. 0 for none.
    pub residual: u64,
    /// A byte for each block.
    pub exponents: u64,
    /// Words of 32 bits, in the device's byte order: a lane each, or two of 16 bits of which the lower half is the first; then one for each begun pair.
    pub lanes: u64,
    /// Elements of the tensor.
    pub length: u64,
    /// Of the random numbers of the operation.
    pub key: u64,
    /// Number of the first block in the operation.
    pub number: u32,
    /// Blocks of the tensor, at least one.
    pub blocks: u32,
    /// Elements of a block but the last one: an even number.
    pub block: u32,
    /// Bits of a mantissa, sign included: 16 or 32.
    pub bits: u32,
    /// ceil(log2(world)), less than `bits - 1`.
    pub headroom: u32,
    /// Ranks that are in the sums.
    pub world: u32,
    /// [`Self::STOCHASTIC`] and others.
    pub flags: u32,
}

impl BlockArgs {
    /// Mantissas are rounded stochastically.
    pub const STOCHASTIC: u32 = 1;
    /// Results are divided by the number of ranks.
    pub const AVERAGE: u32 = 2;
    /// Lanes with all bits set, which no sum of two or more ranks has, were not received, and become NaN.
    pub const CHECKED: u32 = 4;
}

macro_rules! kernels {
    ($($(#[$doc:meta])* $kernel:ident = $name:literal;)*) => {
        /// A kernel.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum QuantizeKernel {
            $($(#[$doc])* $kernel,)*
        }

        impl QuantizeKernel {
            /// All kernels.
            pub const ALL: &[Self] = &[$(Self::$kernel),*];

            /// Its name in [`PTX`].
            pub const fn name(self) -> &'static CStr {
                match self {
                    $(Self::$kernel => $name,)*
                }
            }
        }
    };
}

kernels! {
    /// Writes the exponent of each block of `f32`.
    ExponentsF32 = c"exponents_f32";
    /// The same, after adding the residual to the tensor.
    ExponentsF32Feedback = c"exponents_f32_feedback";
    /// Of binary16.
    ExponentsF16 = c"exponents_f16";
    /// Of bfloat16.
    ExponentsBf16 = c"exponents_bf16";
    /// Writes biased lanes by the agreed exponents.
    LanesF32Bfp16 = c"lanes_f32_bfp16";
    /// The same, and the residual.
    LanesF32Bfp16Feedback = c"lanes_f32_bfp16_feedback";
    /// Lanes of 32 bits.
    LanesF32Bfp32 = c"lanes_f32_bfp32";
    /// The same, and the residual.
    LanesF32Bfp32Feedback = c"lanes_f32_bfp32_feedback";
    /// Of binary16.
    LanesF16Bfp16 = c"lanes_f16_bfp16";
    /// Of bfloat16.
    LanesBf16Bfp16 = c"lanes_bf16_bfp16";
    /// Writes the tensor of the sums' lanes.
    ResultsF32Bfp16 = c"results_f32_bfp16";
    /// Of lanes of 32 bits.
    ResultsF32Bfp32 = c"results_f32_bfp32";
    /// Of binary16.
    ResultsF16Bfp16 = c"results_f16_bfp16";
    /// Of bfloat16.
    ResultsBf16Bfp16 = c"results_bf16_bfp16";
    /// Copies `length` words, an even number, from `tensor` to `lanes`, both at multiples of 8: what the others are compared with.
    CopyWords = c"copy_words";
}

impl QuantizeKernel {
    /// What writes exponents.
    pub const fn exponents(format: FloatFormat, feedback: bool) -> Option<Self> {
        match (format, feedback) {
            (FloatFormat::F32, false) => Some(Self::ExponentsF32),
            (FloatFormat::F32, true) => Some(Self::ExponentsF32Feedback),
            (FloatFormat::F16, false) => Some(Self::ExponentsF16),
            (FloatFormat::Bf16, false) => Some(Self::ExponentsBf16),
            _ => None,
        }
    }

    /// What writes lanes of so many bits.
    pub const fn lanes(format: FloatFormat, bits: u32, feedback: bool) -> Option<Self> {
        match (format, bits, feedback) {
            (FloatFormat::F32, 16, false) => Some(Self::LanesF32Bfp16),
            (FloatFormat::F32, 16, true) => Some(Self::LanesF32Bfp16Feedback),
            (FloatFormat::F32, 32, false) => Some(Self::LanesF32Bfp32),
            (FloatFormat::F32, 32, true) => Some(Self::LanesF32Bfp32Feedback),
            (FloatFormat::F16, 16, false) => Some(Self::LanesF16Bfp16),
            (FloatFormat::Bf16, 16, false) => Some(Self::LanesBf16Bfp16),
            _ => None,
        }
    }

    /// What writes results of lanes of so many bits.
    pub const fn results(format: FloatFormat, bits: u32) -> Option<Self> {
        match (format, bits) {
            (FloatFormat::F32, 16) => Some(Self::ResultsF32Bfp16),
            (FloatFormat::F32, 32) => Some(Self::ResultsF32Bfp32),
            (FloatFormat::F16, 16) => Some(Self::ResultsF16Bfp16),
            (FloatFormat::Bf16, 16) => Some(Self::ResultsBf16Bfp16),
            _ => None,
        }
    }
}

/// The kernels on one device, which all users of it in the process share.
pub struct QuantizeKernels {
    module: Module,
    /// In the order of [`QuantizeKernel::ALL`].
    functions: Vec<Function>,
}

impl std::fmt::Debug for QuantizeKernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuantizeKernels").field("device", self.module.device()).finish_non_exhaustive()
    }
}

/// Kernels that are in use.
static LOADED: Mutex<Vec<Weak<QuantizeKernels>>> = Mutex::new(Vec::new());

impl QuantizeKernels {
    /// Checks that the devices of the process can execute the kernels. Makes no context.
    ///
    /// # Errors
    ///
    /// [`CudaError::OldDevice`], and [`CudaError::Call`] when there is no device.
    pub fn check(driver: &Driver) -> Result<(), CudaError> {
        for ordinal in 0..driver.device_count()?.max(1) {
            let capability = driver.capability(ordinal)?;
            if capability < CAPABILITY {
                return Err(CudaError::OldDevice { ordinal, capability, needed: CAPABILITY });
            }
        }
        Ok(())
    }

    /// The kernels, loaded on the current device unless they are already.
    ///
    /// # Errors
    ///
    /// [`CudaError::Kernels`], [`CudaError::Call`].
    pub fn load(current: &Current<'_>) -> Result<Arc<Self>, CudaError> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.retain(|kernels| kernels.strong_count() > 0);
        let known = loaded.iter().filter_map(Weak::upgrade);
        if let Some(kernels) = known.into_iter().find(|kernels| kernels.device().is(current.device())) {
            return Ok(kernels);
        }
        let text = std::ffi::CString::new(PTX).unwrap_or_default();
        let module = Module::load(current, &text)?;
        let functions = QuantizeKernel::ALL.iter().map(|kernel| module.function(current, kernel.name()));
        let functions = functions.collect::<Result<_, _>>()?;
        let kernels = Arc::new(Self { module, functions });
        loaded.push(Arc::downgrade(&kernels));
        Ok(kernels)
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.module.device()
    }

    /// Appends a launch to a stream.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Safety
    ///
    /// The memory in `args` that the kernel documents has the bytes that it needs until the stream has done this, and is aligned to its elements, lanes to 8. Until
    /// then nothing else writes to it, or reads what the kernel writes. `stream` exists.
    pub unsafe fn launch(
        &self,
        current: &Current<'_>,
        stream: RawStream,
        kernel: QuantizeKernel,
        args: &BlockArgs,
    ) -> Result<(), CudaError> {
        let grid = match kernel {
            QuantizeKernel::CopyWords => (args.length / 2).div_ceil(THREADS.into()) as u32,
            _ => args.blocks.div_ceil(GROUP),
        };
        let function = self.functions[kernel as usize];
        // SAFETY: all kernels have one parameter of this type; all else by this function's contract.
        unsafe { self.module.launch(current, stream, function, (grid, THREADS), args) }
    }
}
