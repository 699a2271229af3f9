//! Block quantisation: tensors to packet lanes and back.
//!
//! A *block* is the part of a tensor that one packet carries. Its elements share one exponent, agreed between all
//! workers before the block is sent; each lane is then an integer mantissa, and the switch only ever adds integers.
//! Rounding, byte order and packing happen in one pass from the tensor to the packet's bytes, and back.
//!
//! ```text
//! E  biased binary32 exponent of the block's largest magnitude over all workers, clamped to 30..=254;
//!    255 when any element of any worker is NaN or infinite
//! e  = E - 126, so that every |v| < 2^e             h  = ceil(log2(workers)), bits of headroom
//! b  = 32 (bfp32) or 16 (bfp16), bits of a mantissa  q  = 2^(e - b + 1 + h), the quantum
//!
//! m  = round_half_even(v / q), clamped to -2^(b-1-h) ..= 2^(b-1-h) - 1
//! bfp32: lane = m                       result = f32(sum of lanes) * q
//! bfp16: lane = m + 2^(15-h), unsigned  result = (sum of lanes - workers * 2^(15-h)) * q
//! ```
//!
//! For switches with other numerics: *saturating* is bfp32 with half the headroom, and all of it for the blocks whose sum
//! turns out to saturate; *wide* is bfp16 with h = 0, whose sums come down shifted right; *half* and *float* carry binary16
//! and binary32 numbers.
//!
//! With [stochastic rounding](Rounding::Stochastic), *m* is the integer below *v / q* or the one above, the nearer one more often, so that its
//! expected value is *v / q*. Either way [`Quantizer::residual`] tells what the lanes leave out, for error feedback.
//!
//! A bfp16 lane is below `2^(16-h)`, so the sum of up to `2^h` of them fits 16 bits: a switch that adds whole 32-bit
//! words adds both halves of each word and no carry crosses.
//!
//! Every function here is deterministic: the same input gives the same bytes on every machine, with and without
//! vector instructions, provided that the thread runs in the default floating-point environment (round to nearest
//! even, no flushing of subnormals).
//!
//! Source: block floating point as in SwitchML (NSDI 2021, section 3.7), with the exponent agreed one window ahead;
//! the biased 16-bit packing keeps the adders of [`netfold_wire::LaneOp::Sum`] unchanged.

#[cfg(test)]
mod element_tests;
mod elements;
mod raw;
mod residual;
mod rounding;
#[cfg(test)]
mod rounding_tests;
mod scalar;
mod simulate;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
#[path = "quantize/vector_avx2.rs"]
mod vector;
#[cfg(target_arch = "aarch64")]
#[path = "quantize/vector_neon.rs"]
mod vector;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "quantize/vector_none.rs"]
mod vector;

use half::{bf16, f16};
pub use netfold_wire::Lanes;
pub use netfold_wire::vocabulary::mode::MANTISSA_BITS_MIN;

pub use elements::{ElementCoding, Extreme, Format};
use rounding::{BlockRng, Range};
pub use rounding::{Rounding, RoundingRng};
pub use simulate::{fold_words, simulate};

use crate::element::Element;

/// Smallest block exponent: blocks of smaller magnitudes use this one, so that every scale is a finite power of two.
pub const EXPONENT_MIN: u8 = 30;

/// The block exponent that means: the block holds NaN or an infinity on some worker.
pub const EXPONENT_NON_FINITE: u8 = 255;

/// Floating-point element types that blocks are quantised from: `f32`, [`f16`](struct@f16) and [`bf16`].
pub trait Float: Element + vector::Vector {
    /// The same value in binary32. Exact.
    fn to_f32(self) -> f32;

    /// The nearest value of this type, ties to even; beyond the largest finite value, an infinity.
    fn from_f32(value: f32) -> Self;

    /// The bits of the magnitude, which order as the magnitudes do (infinities above numbers, NaN above infinities).
    fn magnitude_bits(self) -> u32;

    /// The biased binary32 exponent of the value whose magnitude has these bits.
    fn exponent_of(magnitude_bits: u32) -> u8;

    /// The magnitude that has these bits, in binary32.
    fn magnitude_of(magnitude_bits: u32) -> f32;

    /// A quiet NaN, the same on every machine.
    const NAN: Self;
}

impl Float for f32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }
    #[inline(always)]
    fn magnitude_bits(self) -> u32 {
        self.to_bits() & 0x7fff_ffff
    }
    #[inline(always)]
    fn exponent_of(magnitude_bits: u32) -> u8 {
        (magnitude_bits >> 23) as u8
    }
    #[inline(always)]
    fn magnitude_of(magnitude_bits: u32) -> f32 {
        f32::from_bits(magnitude_bits)
    }
    const NAN: Self = Self::from_bits(0x7fc0_0000);
}

impl Float for f16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self.to_f32()
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }
    #[inline(always)]
    fn magnitude_bits(self) -> u32 {
        u32::from(self.to_bits() & 0x7fff)
    }
    #[inline(always)]
    fn exponent_of(magnitude_bits: u32) -> u8 {
        f32::exponent_of(Self::from_bits(magnitude_bits as u16).to_f32().magnitude_bits())
    }
    #[inline(always)]
    fn magnitude_of(magnitude_bits: u32) -> f32 {
        Self::from_bits(magnitude_bits as u16).to_f32()
    }
    const NAN: Self = Self::from_bits(0x7e00);
}

impl Float for bf16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }
    #[inline(always)]
    fn magnitude_bits(self) -> u32 {
        u32::from(self.to_bits() & 0x7fff)
    }
    #[inline(always)]
    fn exponent_of(magnitude_bits: u32) -> u8 {
        (magnitude_bits >> 7) as u8
    }
    #[inline(always)]
    fn magnitude_of(magnitude_bits: u32) -> f32 {
        f32::from_bits(magnitude_bits << 16)
    }
    const NAN: Self = Self::from_bits(0x7fc0);
}

/// Which instructions the quantiser uses. All kernels give the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel(Instructions);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instructions {
    Scalar,
    Vector(vector::Simd),
}

impl Kernel {
    /// Portable code.
    pub const SCALAR: Self = Self(Instructions::Scalar);

    /// The vector kernel where this processor has one: AVX2 (with FMA and F16C) on x86-64, NEON on aarch64.
    pub fn vector() -> Option<Self> {
        vector::Simd::detect().map(|simd| Self(Instructions::Vector(simd)))
    }

    /// The fastest kernel of this processor.
    pub fn detect() -> Self {
        Self::vector().unwrap_or(Self::SCALAR)
    }

    /// Copies elements as they are into lanes, big-endian, and zeroes the rest of `lanes`.
    ///
    /// 32-bit elements take a word each; of 16-bit elements, number 2i is the upper half of word i.
    ///
    /// # Panics
    ///
    /// When the block does not fit `lanes`.
    #[inline]
    pub fn pack_words<T: Element>(self, block: &[T], lanes: &mut [u8]) {
        match self.0 {
            Instructions::Scalar => raw::pack(block, lanes),
            Instructions::Vector(simd) => vector::pack_words(simd, block, lanes),
        }
    }

    /// Copies big-endian lanes into elements as they are. Lanes behind the block's end are ignored.
    ///
    /// # Panics
    ///
    /// When `lanes` is too short for the block.
    #[inline]
    pub fn unpack_words<T: Element>(self, lanes: &[u8], block: &mut [T]) {
        match self.0 {
            Instructions::Scalar => raw::unpack(lanes, block),
            Instructions::Vector(simd) => vector::unpack_words(simd, lanes, block),
        }
    }

    /// Writes the elements of an exact reduction, in native order, to lanes, and zeroes the rest of `lanes`. What does not fit is left out.
    #[inline]
    pub fn pack_elements(self, coding: ElementCoding, elements: &[u8], lanes: &mut [u8]) {
        match self.0 {
            Instructions::Scalar => elements::pack(coding, elements, lanes),
            Instructions::Vector(simd) => vector::pack_elements(simd, coding, elements, lanes),
        }
    }

    /// Reads elements, in native order, from the lanes of a result. Lanes behind them are ignored, and elements behind the lanes stay as they are.
    #[inline]
    pub fn unpack_elements(self, coding: ElementCoding, lanes: &[u8], elements: &mut [u8]) {
        match self.0 {
            Instructions::Scalar => elements::unpack(coding, lanes, elements),
            Instructions::Vector(simd) => vector::unpack_elements(simd, coding, lanes, elements),
        }
    }

    /// The name in reports: `scalar`, `avx2` or `neon`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Instructions::Scalar => "scalar",
            Instructions::Vector(_) => vector::Simd::NAME,
        }
    }
}

/// The quantiser of one job: a lane layout, the headroom for its world size, and a kernel.
///
/// ```
/// use netfold::quantize::{Lanes, Quantizer};
///
/// let quantizer = Quantizer::new(Lanes::Bfp16, 2);
/// let (mine, theirs) = ([1.0f32, -2.0, 0.5], [0.25f32, 8.0, 0.5]);
/// // The exponent of a block is the largest that any worker proposes.
/// let exp = quantizer.exponent(&mine).max(quantizer.exponent(&theirs));
/// let (mut a, mut b) = ([0u8; 8], [0u8; 8]);
/// quantizer.pack(&mine, exp, &mut a);
/// quantizer.pack(&theirs, exp, &mut b);
/// netfold::quantize::fold_words(&mut a, &b); // what the switch does
/// let mut sum = [0.0f32; 3];
/// quantizer.unpack(&a, exp, 2, &mut sum);
/// assert_eq!(sum, [1.25, 6.0, 1.0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantizer {
    lanes: Lanes,
    /// ceil(log2(workers)).
    spread: u32,
    /// Bits of headroom of a contribution.
    headroom: u32,
    /// Bits by which a mantissa of the result is worth more than one without headroom.
    raised: u32,
    kernel: Kernel,
    /// Where mantissas are rounded stochastically.
    rng: Option<RoundingRng>,
}

impl Quantizer {
    /// A quantiser for `world` workers, 1 to [`Lanes::world_max`], with the fastest kernel of this processor.
    ///
    /// # Panics
    ///
    /// When `world` is out of range.
    pub fn new(lanes: Lanes, world: u16) -> Self {
        Self::with_kernel(lanes, world, Kernel::detect())
    }

    /// The same with a chosen kernel.
    ///
    /// # Panics
    ///
    /// When `world` is out of range.
    pub fn with_kernel(lanes: Lanes, world: u16, kernel: Kernel) -> Self {
        let world_max = lanes.world_max();
        assert!((1..=world_max).contains(&world), "world is 1 to {world_max}");
        let spread = world.next_power_of_two().trailing_zeros();
        let (headroom, raised) = match lanes {
            Lanes::Bfp32 | Lanes::Bfp16 => (spread, spread),
            Lanes::Saturating => (spread / 2, spread / 2),
            Lanes::Wide => (0, spread),
            Lanes::Half | Lanes::Float => (0, 0),
        };
        Self { lanes, spread, headroom, raised, kernel, rng: None }
    }

    /// The same with mantissas rounded [stochastically](Rounding::Stochastic) with these random numbers, where lanes
    /// [have mantissas](Lanes::has_mantissas).
    #[must_use]
    pub fn stochastic(self, rng: RoundingRng) -> Self {
        Self { rng: self.lanes.has_mantissas().then_some(rng), ..self }
    }

    /// The same for sums that come down shifted right by `shift` bits in all ([`Lanes::Wide`]; at most 15). By default
    /// they are shifted once, by ceil(log2(workers)).
    #[must_use]
    pub fn shifted(self, shift: u8) -> Self {
        if self.lanes == Lanes::Wide { Self { raised: u32::from(shift).min(15), ..self } } else { self }
    }

    /// The same for a block whose sum has saturated ([`Lanes::Saturating`]): with full headroom, so that it cannot saturate again.
    #[must_use]
    pub fn full_headroom(self) -> Self {
        match self.lanes {
            Lanes::Saturating => Self { headroom: self.spread, raised: self.spread, ..self },
            _ => self,
        }
    }

    /// The lane layout.
    pub const fn lanes(&self) -> Lanes {
        self.lanes
    }

    /// The kernel in use.
    pub const fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// Elements of a block that fills `lane_bytes` bytes of lanes.
    pub const fn block_elements(&self, lane_bytes: usize) -> usize {
        lane_bytes / self.lanes.element_bytes()
    }

    /// The quantum q of a block of exponent `exp`: the value of the lowest mantissa bit of a contribution, at least 2^-127. In
    /// [`Lanes::Half`] and [`Lanes::Float`], the value of a lane that holds 1.0.
    pub fn quantum(&self, exp: u8) -> f32 {
        power_of_two(self.power(exp, self.headroom))
    }

    /// Of what number 2^this is one unit of a lane with so much headroom.
    fn power(&self, exp: u8, headroom: u32) -> i32 {
        let e = i32::from(clamp(exp)) - 126;
        match self.lanes {
            Lanes::Bfp32 | Lanes::Bfp16 | Lanes::Saturating | Lanes::Wide => {
                e - (self.lanes.bits() - 1 - headroom) as i32
            }
            Lanes::Half => e + self.spread as i32 - 15,
            Lanes::Float => 0,
        }
    }

    /// This worker's exponent of a block: [`EXPONENT_MIN`]..=254, or [`EXPONENT_NON_FINITE`] when it holds NaN or an
    /// infinity. [`EXPONENT_MIN`] for an empty block.
    ///
    /// [Stochastic rounding](Self::stochastic) has no room above the highest mantissa: a block that holds more than that many
    /// quanta asks for the next larger exponent, if there is one.
    #[inline]
    pub fn exponent<T: Float>(&self, block: &[T]) -> u8 {
        let magnitude = match self.kernel.0 {
            Instructions::Scalar => scalar::magnitude_max(block),
            Instructions::Vector(simd) => vector::magnitude_max(simd, block),
        };
        let exponent = T::exponent_of(magnitude).max(EXPONENT_MIN);
        // Numbers that bring their own exponents have none in common.
        let finite = exponent != EXPONENT_NON_FINITE;
        match self.rng {
            _ if finite && self.lanes == Lanes::Float => EXPONENT_MIN,
            Some(_) if finite => self.raised_exponent(T::magnitude_of(magnitude), exponent),
            _ => exponent,
        }
    }

    /// The exponent by which a block of this largest magnitude can be rounded up, with all headroom too.
    fn raised_exponent(&self, magnitude: f32, exponent: u8) -> u8 {
        let all = self.full_headroom();
        let highest = (1u32 << (self.lanes.bits() - 1 - all.headroom)) - 1;
        let above = f64::from(magnitude) > f64::from(highest) * f64::from(all.quantum(exponent));
        if above && exponent < EXPONENT_NON_FINITE - 1 { exponent + 1 } else { exponent }
    }

    /// Quantises a block into a packet's lanes and fills every byte of `lanes`.
    ///
    /// `exp` is the exponent agreed for the block; below [`EXPONENT_MIN`] it counts as that. Lanes behind the block's
    /// end hold the value 0. With [`EXPONENT_NON_FINITE`] every lane holds the value 0. An element too large for the
    /// exponent (impossible for an agreed one) is clamped.
    ///
    /// # Panics
    ///
    /// When the block does not fit `lanes`.
    #[inline]
    pub fn pack<T: Float>(&self, block: &[T], exp: u8, lanes: &mut [u8]) {
        self.pack_block(0, block, exp, lanes);
    }

    /// The same for block `number` of an operation, which makes a difference where mantissas are rounded
    /// [stochastically](Self::stochastic): the same block of the same number gives the same bytes, and blocks of other numbers use
    /// their own.
    ///
    /// # Panics
    ///
    /// When the block does not fit `lanes`.
    #[inline]
    pub fn pack_block<T: Float>(&self, number: u32, block: &[T], exp: u8, lanes: &mut [u8]) {
        assert!(block.len() <= self.block_elements(lanes.len()), "the block fits the lanes");
        let block = if exp == EXPONENT_NON_FINITE { &[] } else { block };
        let (used, padding) = lanes.split_at_mut(block.len() * self.lanes.element_bytes());
        let scale = self.scale_down(exp);
        if let Some(rng) = self.rng {
            self.pack_by_chance(block, scale, rng.block(number), used);
        } else {
            self.pack_nearest(block, scale, used);
        }
        match self.lanes {
            Lanes::Bfp32 | Lanes::Saturating | Lanes::Half | Lanes::Float => padding.fill(0),
            Lanes::Bfp16 | Lanes::Wide => {
                let zero = (1u16 << (15 - self.headroom)).to_be_bytes();
                padding.chunks_mut(2).for_each(|lane| lane.copy_from_slice(&zero[..lane.len()]));
            }
        }
    }

    #[inline]
    fn pack_nearest<T: Float>(&self, block: &[T], scale: f32, lanes: &mut [u8]) {
        match (self.lanes, self.kernel.0) {
            (Lanes::Bfp32 | Lanes::Saturating, Instructions::Scalar) => {
                scalar::pack32(block, scale, self.headroom, lanes);
            }
            (Lanes::Bfp16 | Lanes::Wide, Instructions::Scalar) => {
                scalar::pack16(block, scale, self.headroom, lanes);
            }
            (Lanes::Bfp32 | Lanes::Saturating, Instructions::Vector(simd)) => {
                vector::pack32(simd, block, scale, self.headroom, lanes)
            }
            (Lanes::Bfp16 | Lanes::Wide, Instructions::Vector(simd)) => {
                vector::pack16(simd, block, scale, self.headroom, lanes)
            }
            (Lanes::Half, Instructions::Scalar) => scalar::pack_half(block, scale, lanes),
            (Lanes::Float, Instructions::Scalar) => scalar::pack_float(block, lanes),
            (Lanes::Half, Instructions::Vector(simd)) => vector::pack_half(simd, block, scale, lanes),
            (Lanes::Float, Instructions::Vector(simd)) => vector::pack_float(simd, block, lanes),
        }
    }

    fn pack_by_chance<T: Float>(&self, block: &[T], scale: f32, rng: BlockRng, lanes: &mut [u8]) {
        let range = Range::new(self.lanes.bits(), self.headroom, scale);
        let bias = 1 << (15 - self.headroom);
        match (self.lanes.element_bytes(), self.kernel.0) {
            (2, Instructions::Scalar) => scalar::pack16_stochastic(block, (range, bias), (rng, 0), lanes),
            (_, Instructions::Scalar) => scalar::pack32_stochastic(block, range, (rng, 0), lanes),
            (2, Instructions::Vector(simd)) => {
                vector::pack16_stochastic(simd, block, (range, bias), rng, lanes)
            }
            (_, Instructions::Vector(simd)) => vector::pack32_stochastic(simd, block, range, rng, lanes),
        }
    }

    /// What [`pack_block`](Self::pack_block) leaves out of a block: to each element what must be added to the value of its lane.
    ///
    /// Exact for mantissas rounded to the nearest; with stochastic rounding within 2^-25 of the [quantum](Self::quantum). What a switch of
    /// other numerics rounds on its way is not in it. Zero for blocks that are not finite, and in [`Lanes::Float`].
    ///
    /// # Panics
    ///
    /// When the lengths differ.
    pub fn residual(&self, number: u32, block: &[f32], exp: u8, residual: &mut [f32]) {
        assert_eq!(block.len(), residual.len(), "a residual for each element");
        if exp == EXPONENT_NON_FINITE || self.lanes == Lanes::Float {
            return residual.fill(0.0);
        }
        let scales = (self.scale_down(exp), self.quantum(exp));
        let (wide, headroom) = (self.lanes.element_bytes() == 4, self.headroom);
        match (self.rng, self.kernel.0) {
            _ if self.lanes == Lanes::Half => residual::half(block, scales, residual),
            (Some(rng), instructions) => {
                let range = (Range::new(self.lanes.bits(), headroom, scales.0), scales.1);
                let rng = rng.block(number);
                match instructions {
                    Instructions::Scalar => residual::stochastic(block, range, (rng, 0), residual),
                    Instructions::Vector(simd) => vector::left_of_chance(simd, block, range, rng, residual),
                }
            }
            (None, Instructions::Scalar) if wide => residual::nearest32(block, scales, headroom, residual),
            (None, Instructions::Scalar) => residual::nearest16(block, scales, headroom, residual),
            (None, Instructions::Vector(simd)) if wide => {
                vector::left_of_nearest32(simd, block, scales, headroom, residual);
            }
            (None, Instructions::Vector(simd)) => {
                vector::left_of_nearest16(simd, block, scales, headroom, residual);
            }
        }
    }

    /// Turns a packet's folded lanes into a block of results: the sums of `count` workers' blocks.
    ///
    /// Lanes behind the block's end are ignored. With [`EXPONENT_NON_FINITE`] every element becomes NaN. A sum beyond
    /// the largest finite value of `T` becomes an infinity; a sum of exactly zero is positive zero.
    ///
    /// # Panics
    ///
    /// When `lanes` is too short for the block.
    #[inline]
    pub fn unpack<T: Float>(&self, lanes: &[u8], exp: u8, count: u16, block: &mut [T]) {
        assert!(block.len() <= self.block_elements(lanes.len()), "the lanes hold the block");
        if exp == EXPONENT_NON_FINITE {
            block.fill(T::NAN);
            return;
        }
        let lanes = &lanes[..block.len() * self.lanes.element_bytes()];
        let scale = power_of_two(self.power(exp, self.raised));
        let bias = i32::from(count) << (15 - self.raised);
        match (self.lanes, self.kernel.0) {
            (Lanes::Bfp32 | Lanes::Saturating, Instructions::Scalar) => scalar::unpack32(lanes, scale, block),
            (Lanes::Bfp16 | Lanes::Wide, Instructions::Scalar) => scalar::unpack16(lanes, scale, bias, block),
            (Lanes::Bfp32 | Lanes::Saturating, Instructions::Vector(simd)) => {
                vector::unpack32(simd, lanes, scale, block)
            }
            (Lanes::Bfp16 | Lanes::Wide, Instructions::Vector(simd)) => {
                vector::unpack16(simd, lanes, scale, bias, block)
            }
            (Lanes::Half, Instructions::Scalar) => scalar::unpack_half(lanes, scale, block),
            (Lanes::Float, Instructions::Scalar) => scalar::unpack_float(lanes, block),
            (Lanes::Half, Instructions::Vector(simd)) => vector::unpack_half(simd, lanes, scale, block),
            (Lanes::Float, Instructions::Vector(simd)) => vector::unpack_float(simd, lanes, block),
        }
    }

    /// 1/q: finite and not zero for every exponent and headroom.
    fn scale_down(&self, exp: u8) -> f32 {
        power_of_two(-self.power(exp, self.headroom))
    }
}

const fn clamp(exp: u8) -> u8 {
    if exp < EXPONENT_MIN { EXPONENT_MIN } else { exp }
}

/// 2^power for -149..=127.
fn power_of_two(power: i32) -> f32 {
    debug_assert!((-149..=127).contains(&power));
    if power >= -126 {
        f32::from_bits(((power + 127) as u32) << 23)
    } else {
        f32::from_bits(1 << (power + 149))
    }
}
