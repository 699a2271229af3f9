//! The kernels that quantise on a device, compiled for this processor, against the portable quantiser, bit for bit.
#![expect(unsafe_code, reason = "loads a compiled library, and calls its kernels with addresses")]

use std::ffi::CStr;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use libloading::Library;
use netfold::quantize::{Float, Kernel, Lanes, Quantizer, RoundingRng, fold_words};
use netfold::{DType, bf16, f16};
use netfold_cuda::quantize::{BlockArgs, FloatFormat, QuantizeKernel, SOURCE};
use netfold_testkit::directory::TemporaryDirectory;

type KernelAddress = unsafe extern "C" fn();
type Launch = unsafe extern "C" fn(KernelAddress, *const BlockArgs, u32, u32, bool);

const RANK: u16 = 3;
const OPERATION: u64 = 5;

/// The kernels' library; `None` where there is no compiler of C++.
fn compiled() -> Option<&'static Library> {
    static COMPILED: OnceLock<Option<Library>> = OnceLock::new();
    COMPILED.get_or_init(compile).as_ref()
}

fn compile() -> Option<Library> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        println!("skipped: there is no {compiler}; install a compiler of C++, or name one in CXX");
        return None;
    }
    let directory = TemporaryDirectory::new("device-kernels");
    let library = directory.path().join("kernels.so");
    std::fs::write(directory.path().join("kernels.cu"), SOURCE).unwrap();
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/device_kernels/host.cpp");
    std::fs::copy(host, directory.path().join("host.cpp")).unwrap();
    let options = ["-std=c++17", "-O2", "-fPIC", "-shared", "-ffp-contract=off", "-fno-strict-aliasing"];
    // The pragma that unrolls loops is for devices, and a check of jumps knows one stack only.
    let output = Command::new(&compiler)
        .args(options)
        .args(["-Wno-unknown-pragmas", "-U_FORTIFY_SOURCE", "host.cpp", "-o", "kernels.so"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // SAFETY: the library has no initialisers.
    Some(unsafe { Library::new(library) }.unwrap())
}

/// Executes a kernel.
fn run(library: &Library, kernel: Option<QuantizeKernel>, args: &BlockArgs) {
    let kernel: &CStr = kernel.unwrap().name();
    // More warps than there are blocks, as on a device.
    let (grid, threads) = (args.blocks.div_ceil(2), 64);
    // SAFETY: the library has these functions; callers pass addresses of memory that is as long as the kernels document.
    unsafe {
        let address = *library.get::<KernelAddress>(kernel.to_bytes_with_nul()).unwrap();
        let launch = library.get::<Launch>(b"launch\0").unwrap();
        launch(address, args, grid, threads, kernel.to_bytes().starts_with(b"exponents"));
    }
}

/// How tensors are quantised in a case.
#[derive(Debug, Clone, Copy)]
struct Setting {
    lanes: Lanes,
    world: u16,
    block: usize,
    seed: Option<u64>,
}

impl Setting {
    fn format(dtype: DType) -> FloatFormat {
        match dtype {
            DType::F16 => FloatFormat::F16,
            DType::Bf16 => FloatFormat::Bf16,
            _ => FloatFormat::F32,
        }
    }

    fn rng(&self) -> Option<RoundingRng> {
        self.seed.map(|seed| RoundingRng::new(seed, RANK).operation(OPERATION))
    }

    fn reference(&self) -> Quantizer {
        let quantizer = Quantizer::with_kernel(self.lanes, self.world, Kernel::SCALAR);
        self.rng().map_or(quantizer, |rng| quantizer.stochastic(rng))
    }

    fn width(&self) -> usize {
        self.lanes.element_bytes()
    }

    fn args(&self, elements: usize) -> BlockArgs {
        let rng = self.rng();
        BlockArgs {
            length: elements as u64,
            key: rng.map_or(0, RoundingRng::key),
            blocks: elements.div_ceil(self.block) as u32,
            block: self.block as u32,
            bits: self.lanes.bits(),
            headroom: self.world.next_power_of_two().trailing_zeros(),
            world: self.world.into(),
            flags: if rng.is_some() { BlockArgs::STOCHASTIC } else { 0 },
            ..BlockArgs::default()
        }
    }

    /// The lanes of packets in the device's form: biased, in native byte order.
    fn native(&self, packed: &[u8]) -> Vec<u8> {
        let bias = 1u32 << (self.lanes.bits() - 1 - self.world.next_power_of_two().trailing_zeros());
        match self.lanes {
            Lanes::Bfp16 => packed.chunks_exact(2).flat_map(|lane| [lane[1], lane[0]]).collect(),
            _ => {
                let words = packed.as_chunks::<4>().0.iter().map(|word| u32::from_be_bytes(*word));
                words.flat_map(|word| word.wrapping_add(bias).to_ne_bytes()).collect()
            }
        }
    }
}

/// The address of what a kernel writes or reads.
fn address<T>(memory: &mut [T]) -> u64 {
    memory.as_mut_ptr() as u64
}

fn bits<T: Float>(elements: &[T]) -> &[u8] {
    // SAFETY: numbers have no padding.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }
}

/// A tensor whose first element is at a multiple of 8, or behind one.
struct Placed<T> {
    memory: Vec<T>,
    first: usize,
}

impl<T: Float> Placed<T> {
    fn new(elements: &[T], aligned: bool) -> Self {
        let mut memory = vec![T::default(); elements.len() + 8];
        let offset = memory.as_ptr().align_offset(8);
        let first = offset + usize::from(!aligned);
        memory[first..first + elements.len()].copy_from_slice(elements);
        Self { memory, first }
    }

    fn slice(&mut self, elements: usize) -> &mut [T] {
        &mut self.memory[self.first..self.first + elements]
    }

    /// Nothing is written beside it.
    fn check(&self, elements: usize) {
        let (before, rest) = self.memory.split_at(self.first);
        assert!(bits(before).iter().chain(bits(&rest[elements..])).all(|byte| *byte == 0));
    }
}

/// All kernels on a tensor of one rank, whose result is then its own contribution as often as there are ranks.
fn compare<T: Float>(library: &Library, setting: Setting, elements: &[T], aligned: bool) {
    let (format, length, reference) = (Setting::format(T::DTYPE), elements.len(), setting.reference());
    let what = || format!("{setting:?}, {length} of {}, aligned {aligned}", T::DTYPE);
    let mut tensor = Placed::new(elements, aligned);
    let mut exponents = vec![0u8; length.div_ceil(setting.block) + 1];
    let args = BlockArgs { tensor: address(tensor.slice(length)), ..setting.args(length) };
    let args = BlockArgs { exponents: address(&mut exponents), ..args };
    run(library, QuantizeKernel::exponents(format, false), &args);
    let expected: Vec<u8> = elements.chunks(setting.block).map(|block| reference.exponent(block)).collect();
    assert_eq!(exponents.pop(), Some(0));
    assert!(exponents == expected, "exponents, {}", what());

    let block_bytes = setting.block * setting.width();
    let mut packed = vec![0u8; exponents.len() * block_bytes];
    let blocks = elements.chunks(setting.block).zip(packed.chunks_mut(block_bytes));
    for (number, ((block, lanes), exponent)) in (0..).zip(blocks.zip(&exponents)) {
        reference.pack_block(number, block, *exponent, lanes);
    }
    let used = (length * setting.width()).next_multiple_of(4);
    let mut lanes = vec![0x5A5A_5A5Au32; used / 4 + 2];
    let offset = lanes.as_ptr().align_offset(8);
    let args = BlockArgs { lanes: address(&mut lanes[offset..]), ..args };
    run(library, QuantizeKernel::lanes(format, setting.lanes.bits(), false), &args);
    let made: Vec<u8> = lanes[offset..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    assert!(made[..used] == setting.native(&packed)[..used], "lanes, {}", what());
    assert!(made[used..].iter().all(|byte| *byte == 0x5A), "lanes behind the end, {}", what());
    if T::DTYPE == DType::F32 {
        let numbers: Vec<f32> = elements.iter().map(|element| element.to_f32()).collect();
        feedback(library, setting, &numbers, args);
    }

    let mut sum = packed.clone();
    for _ in 1..setting.world {
        fold_words(&mut sum, &packed);
    }
    lanes.iter_mut().for_each(|word| *word = word.wrapping_mul(setting.world.into()));
    for average in [false, true] {
        let flags =
            BlockArgs::CHECKED * u32::from(setting.world > 1) + BlockArgs::AVERAGE * u32::from(average);
        run(library, QuantizeKernel::results(format, setting.lanes.bits()), &BlockArgs { flags, ..args });
        let mut result = vec![T::default(); length];
        let blocks = result.chunks_mut(setting.block).zip(sum.chunks(block_bytes));
        for ((block, lanes), exponent) in blocks.zip(&exponents) {
            reference.unpack(lanes, *exponent, setting.world, block);
            for element in block.iter_mut().filter(|_| average && *exponent != 255) {
                *element = T::from_f32(element.to_f32() / f32::from(setting.world));
            }
        }
        assert!(bits(tensor.slice(length)) == bits(&result), "results, average {average}, {}", what());
    }
    tensor.check(length);
}

/// What the lanes leave out, after adding what earlier ones have left out.
fn feedback(library: &Library, setting: Setting, elements: &[f32], args: BlockArgs) {
    let reference = setting.reference();
    let mut residual: Vec<f32> = elements.iter().rev().map(|element| element * 0.25).collect();
    let fed: Vec<f32> = elements.iter().zip(&residual).map(|(element, left)| element + left).collect();
    let mut tensor = elements.to_vec();
    let mut exponents = vec![0u8; elements.len().div_ceil(setting.block)];
    let mut lanes = vec![0u64; elements.len().div_ceil(2)];
    let args = BlockArgs {
        tensor: address(&mut tensor),
        residual: address(&mut residual),
        exponents: address(&mut exponents),
        lanes: address(&mut lanes),
        ..args
    };
    run(library, QuantizeKernel::exponents(FloatFormat::F32, true), &args);
    assert!(bits_without_nan(&tensor) == bits_without_nan(&fed), "{setting:?}");
    let expected: Vec<u8> = fed.chunks(setting.block).map(|block| reference.exponent(block)).collect();
    assert!(exponents == expected, "exponents with feedback, {setting:?}");
    run(library, QuantizeKernel::lanes(FloatFormat::F32, setting.lanes.bits(), true), &args);
    let mut left = vec![0.0; elements.len()];
    let blocks = fed.chunks(setting.block).zip(left.chunks_mut(setting.block));
    for (number, ((block, left), exponent)) in (0..).zip(blocks.zip(&exponents)) {
        reference.residual(number, block, *exponent, left);
    }
    assert!(bits(&residual) == bits(&left), "residuals, {setting:?}");
}

/// A NaN of a sum has no bits that all machines agree on.
fn bits_without_nan(elements: &[f32]) -> Vec<u32> {
    elements.iter().map(|element| if element.is_nan() { 0x7fc0_0000 } else { element.to_bits() }).collect()
}

/// Mantissas that are tried with every exponent and both signs.
const MANTISSAS: [u32; 12] =
    [0, 1, 0xFF, 0x100, 0x8000, 0x18000, 0x3F_FFFF, 0x40_0000, 0x40_0001, 0x7F_C000, 0x7F_FFFF, 0x2A_C917];

/// Exponents below a block's own of which all patterns are in it: of the rest nothing but a sign can be seen in lanes of 32 bits.
const NEAR: u32 = 40;

/// Elements of a block of [`every_pattern`].
const PATTERNS: usize = NEAR as usize * 2 * MANTISSAS.len() + 256;

/// A block for each exponent of binary32, with patterns of that and of lower exponents.
fn every_pattern() -> Vec<f32> {
    let mut elements = Vec::with_capacity(256 * PATTERNS);
    for exponent in 0..256u32 {
        let near = exponent.saturating_sub(NEAR - 1);
        let all = (near..=exponent).flat_map(|exponent| {
            let each = MANTISSAS.into_iter().map(move |mantissa| exponent << 23 | mantissa);
            each.flat_map(|bits| [bits, bits | 1 << 31])
        });
        let far = (0..near).map(|lower| lower << 23 | MANTISSAS[exponent as usize % MANTISSAS.len()]);
        let block = elements.len();
        elements.extend(all.chain(far).map(f32::from_bits));
        elements.resize(block + PATTERNS, 0.0);
    }
    elements
}

#[test]
fn every_exponent_gives_the_bits_of_the_portable_code() {
    let Some(library) = compiled() else { return };
    let elements = every_pattern();
    for lanes in [Lanes::Bfp16, Lanes::Bfp32] {
        for world in 1..=32 {
            for seed in [None, Some(u64::from(world))] {
                compare(library, Setting { lanes, world, block: PATTERNS, seed }, &elements, true);
            }
        }
    }
}

/// Every value of a type of 16 bits, such that blocks have neighbours, and such that they have numbers far apart.
fn every_half() -> impl Iterator<Item = u16> {
    (0..=u16::MAX).chain((0..=u16::MAX).map(|at| at.wrapping_mul(40_503)))
}

#[test]
fn every_value_of_16_bits_gives_the_bits_of_the_portable_code() {
    let Some(library) = compiled() else { return };
    let halves: Vec<f16> = every_half().map(f16::from_bits).collect();
    let finite: Vec<f16> = halves.iter().copied().filter(|half| half.is_finite()).collect();
    let brain: Vec<bf16> = every_half().map(bf16::from_bits).collect();
    let finite_brain: Vec<bf16> = brain.iter().copied().filter(|half| half.is_finite()).collect();
    for world in 1..=32 {
        for seed in [None, Some(7)] {
            let setting = Setting { lanes: Lanes::Bfp16, world, block: 96, seed };
            compare(library, setting, &halves, true);
            compare(library, setting, &finite, false);
            compare(library, setting, &brain, false);
            compare(library, setting, &finite_brain, true);
        }
    }
}

/// Results of sums that no rank's contribution gives alone: all sums of 16 bits by exponents for which they are subnormal to infinite.
fn every_sum<T: Float>(library: &Library) {
    let setting = Setting { lanes: Lanes::Bfp16, world: 5, block: 1 << 16, seed: None };
    let mut lanes: Vec<u16> = (0..=u16::MAX).collect();
    let packed: Vec<u8> = lanes.iter().flat_map(|lane| lane.to_be_bytes()).collect();
    let format = Setting::format(T::DTYPE);
    for exponent in 0..=255u8 {
        let mut tensor = vec![T::default(); 1 << 16];
        let args = BlockArgs {
            tensor: address(&mut tensor),
            exponents: address(&mut [exponent]),
            lanes: address(&mut lanes),
            ..setting.args(1 << 16)
        };
        run(library, QuantizeKernel::results(format, 16), &args);
        let mut result = vec![T::default(); 1 << 16];
        setting.reference().unpack(&packed, exponent, 5, &mut result);
        assert!(bits(&tensor) == bits(&result), "{} by exponent {exponent}", T::DTYPE);
    }
}

#[test]
fn every_sum_of_16_bits_gives_the_bits_of_the_portable_code() {
    let Some(library) = compiled() else { return };
    every_sum::<f32>(library);
    every_sum::<f16>(library);
    every_sum::<bf16>(library);
}

#[test]
fn ends_of_tensors_and_addresses_make_no_difference() {
    let Some(library) = compiled() else { return };
    for length in [1, 2, 3, 63, 64, 65, 255, 256, 257, 703, 704, 705, 1407, 1408, 10_007] {
        for block in [2, 64, 704].into_iter().filter(|block| length <= 500 * block) {
            let numbers: Vec<f32> = (0..length).map(|at| (at as f32 - 300.5) * 1.37e-3).collect();
            for (seed, aligned) in [(None, true), (None, false), (Some(1), true), (Some(2), false)] {
                for lanes in [Lanes::Bfp16, Lanes::Bfp32] {
                    compare(library, Setting { lanes, world: 3, block, seed }, &numbers, aligned);
                }
                let setting = Setting { lanes: Lanes::Bfp16, world: 3, block, seed };
                let halves: Vec<f16> = numbers.iter().map(|number| f16::from_f32(*number)).collect();
                compare(library, setting, &halves, aligned);
                let halves: Vec<bf16> = numbers.iter().map(|number| bf16::from_f32(*number)).collect();
                compare(library, setting, &halves, aligned);
            }
        }
    }
}

#[test]
fn sums_that_were_not_received_are_not_numbers() {
    let Some(library) = compiled() else { return };
    for (lanes, world) in [(Lanes::Bfp16, 2), (Lanes::Bfp32, 2), (Lanes::Bfp16, 32), (Lanes::Bfp32, 32)] {
        let setting = Setting { lanes, world, block: 64, seed: None };
        let (mut tensor, mut words) = (vec![0f32; 64], vec![u64::MAX; 32]);
        let args = BlockArgs {
            tensor: address(&mut tensor),
            exponents: address(&mut [130u8]),
            lanes: address(&mut words),
            flags: BlockArgs::CHECKED,
            ..setting.args(64)
        };
        run(library, QuantizeKernel::results(FloatFormat::F32, lanes.bits()), &args);
        assert!(tensor.iter().all(|number| number.is_nan()), "{setting:?}");
    }
}

/// A part of a tensor has the random numbers of its place in the whole.
#[test]
fn parts_of_a_tensor_give_the_lanes_of_the_whole() {
    let Some(library) = compiled() else { return };
    let setting = Setting { lanes: Lanes::Bfp16, world: 4, block: 64, seed: Some(9) };
    let mut tensor: Vec<f32> = (0..640).map(|at| at as f32 * 0.37).collect();
    let (mut exponents, mut whole, mut part) = ([135u8; 10], [0u64; 160], [0u64; 80]);
    let args = BlockArgs {
        tensor: address(&mut tensor),
        exponents: address(&mut exponents),
        lanes: address(&mut whole),
        ..setting.args(640)
    };
    let kernel = QuantizeKernel::lanes(FloatFormat::F32, 16, false);
    run(library, kernel, &args);
    let rest = BlockArgs {
        tensor: address(&mut tensor[320..]),
        exponents: address(&mut exponents[5..]),
        lanes: address(&mut part),
        number: 5,
        ..setting.args(320)
    };
    run(library, kernel, &rest);
    assert_eq!(part, whole[80..]);
    run(library, kernel, &BlockArgs { number: 0, ..rest });
    assert_ne!(part, whole[80..]);
}
