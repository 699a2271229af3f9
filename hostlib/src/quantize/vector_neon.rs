//! The NEON kernel: 8 elements at a time, the rest by the portable kernel. Every processor of this architecture that runs Linux has NEON.
//!
//! Functions that run in the hot loops are generic over the element type through [`Vector`], as those of the AVX2 kernel are.
//! Conversions between binary16 and binary32 belong to the base instruction set, but the standard library has no stable function for
//! them, hence the assembly.
#![expect(
    unsafe_code,
    reason = "vector loads and stores, and instructions; `Neon` proves the processor has them"
)]

#[path = "half_float_neon.rs"]
mod half_float;
#[path = "rounded_neon.rs"]
mod rounded;

use std::arch::aarch64::*;
use std::arch::asm;

use half::{bf16, f16};

use super::{ElementCoding, Float, elements, raw, scalar};
use crate::element::Element;

pub(super) use half_float::{pack_float, pack_half, unpack_float, unpack_half};
pub(super) use rounded::{
    left_of_chance, left_of_nearest16, left_of_nearest32, pack16 as pack16_stochastic,
    pack32 as pack32_stochastic,
};

/// Proof that this processor has NEON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Neon(());

pub(crate) use Neon as Simd;

impl Neon {
    /// The name in reports.
    pub(super) const NAME: &str = "neon";

    pub(super) fn detect() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Self(()))
    }
}

/// Eight numbers in binary32.
type Eight = [float32x4_t; 2];

/// Eight elements to and from binary32, and the scan of a block.
pub trait Vector: Sized {
    /// Loads 8 elements, exactly.
    ///
    /// # Safety
    ///
    /// `from` is readable for 8 elements (any alignment); the processor has NEON.
    unsafe fn load(from: *const Self) -> Eight;

    /// Stores 8 numbers, each rounded half to even. None of them is NaN.
    ///
    /// # Safety
    ///
    /// `to` is writable for 8 elements (any alignment); the processor has NEON.
    unsafe fn store(to: *mut Self, values: Eight);

    /// The largest magnitude of each lane over the 16 bytes at `from` and those in `max`, compared as integers.
    ///
    /// # Safety
    ///
    /// `from` is readable for 16 bytes (any alignment); the processor has NEON.
    unsafe fn magnitude_max(from: *const Self, max: uint32x4_t) -> uint32x4_t;

    /// The largest of all lanes.
    ///
    /// # Safety
    ///
    /// The processor has NEON.
    unsafe fn largest(max: uint32x4_t) -> u32;
}

impl Vector for f32 {
    #[inline(always)]
    unsafe fn load(from: *const Self) -> Eight {
        // SAFETY: the caller's contract.
        unsafe { [vld1q_f32(from), vld1q_f32(from.add(4))] }
    }
    #[inline(always)]
    unsafe fn store(to: *mut Self, [low, high]: Eight) {
        // SAFETY: the caller's contract.
        unsafe {
            vst1q_f32(to, low);
            vst1q_f32(to.add(4), high);
        }
    }
    #[inline(always)]
    unsafe fn magnitude_max(from: *const Self, max: uint32x4_t) -> uint32x4_t {
        // SAFETY: the caller's contract.
        unsafe { vmaxq_u32(max, vandq_u32(vld1q_u32(from.cast()), vdupq_n_u32(0x7fff_ffff))) }
    }
    #[inline(always)]
    unsafe fn largest(max: uint32x4_t) -> u32 {
        // SAFETY: the caller's contract.
        unsafe { vmaxvq_u32(max) }
    }
}

impl Vector for f16 {
    #[inline(always)]
    unsafe fn load(from: *const Self) -> Eight {
        // SAFETY: the caller's contract; f16 is 2 bytes.
        unsafe { widen(vld1q_u16(from.cast())) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut Self, values: Eight) {
        // SAFETY: the caller's contract; f16 is 2 bytes.
        unsafe { vst1q_u16(to.cast(), narrow(values)) }
    }
    #[inline(always)]
    unsafe fn magnitude_max(from: *const Self, max: uint32x4_t) -> uint32x4_t {
        // SAFETY: the caller's contract, handed on.
        unsafe { magnitude_max_u16(from.cast(), max) }
    }
    #[inline(always)]
    unsafe fn largest(max: uint32x4_t) -> u32 {
        // SAFETY: the caller's contract.
        unsafe { u32::from(vmaxvq_u16(vreinterpretq_u16_u32(max))) }
    }
}

impl Vector for bf16 {
    #[inline(always)]
    unsafe fn load(from: *const Self) -> Eight {
        // SAFETY: the caller's contract; bf16 is 2 bytes.
        unsafe {
            let bits = vld1q_u16(from.cast());
            let (low, high) = (vmovl_u16(vget_low_u16(bits)), vmovl_high_u16(bits));
            [vreinterpretq_f32_u32(vshlq_n_u32::<16>(low)), vreinterpretq_f32_u32(vshlq_n_u32::<16>(high))]
        }
    }
    #[inline(always)]
    unsafe fn store(to: *mut Self, values: Eight) {
        // SAFETY: the caller's contract; bf16 is 2 bytes.
        unsafe {
            // Adding 0x7fff, and one more when the last kept bit is odd, carries into the upper half exactly when
            // half-even rounding goes up.
            let upper = |values| {
                let bits = vreinterpretq_u32_f32(values);
                let odd = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
                vshrn_n_u32::<16>(vaddq_u32(bits, vaddq_u32(vdupq_n_u32(0x7fff), odd)))
            };
            vst1q_u16(to.cast(), vcombine_u16(upper(values[0]), upper(values[1])));
        }
    }
    #[inline(always)]
    unsafe fn magnitude_max(from: *const Self, max: uint32x4_t) -> uint32x4_t {
        // SAFETY: the caller's contract, handed on.
        unsafe { magnitude_max_u16(from.cast(), max) }
    }
    #[inline(always)]
    unsafe fn largest(max: uint32x4_t) -> u32 {
        // SAFETY: the caller's contract.
        unsafe { u32::from(vmaxvq_u16(vreinterpretq_u16_u32(max))) }
    }
}

/// [`Vector::magnitude_max`] of both 16-bit types: lanes of 16 bits.
///
/// # Safety
///
/// As there.
#[inline(always)]
unsafe fn magnitude_max_u16(from: *const u16, max: uint32x4_t) -> uint32x4_t {
    // SAFETY: the caller's contract.
    unsafe {
        let magnitudes = vandq_u16(vld1q_u16(from), vdupq_n_u16(0x7fff));
        vreinterpretq_u32_u16(vmaxq_u16(vreinterpretq_u16_u32(max), magnitudes))
    }
}

/// Eight binary16 numbers in binary32, exactly.
#[inline]
#[target_feature(enable = "neon")]
fn widen(halves: uint16x8_t) -> Eight {
    let (low, high);
    // SAFETY: both instructions read and write registers only, and belong to the base instruction set.
    unsafe {
        asm!("fcvtl {0:v}.4s, {1:v}.4h", out(vreg) low, in(vreg) halves, options(pure, nomem, nostack));
        asm!("fcvtl2 {0:v}.4s, {1:v}.8h", out(vreg) high, in(vreg) halves, options(pure, nomem, nostack));
    }
    [low, high]
}

/// Eight numbers rounded half to even to binary16.
#[inline]
#[target_feature(enable = "neon")]
fn narrow([low, high]: Eight) -> uint16x8_t {
    let (first, second): (uint16x4_t, uint16x4_t);
    // SAFETY: both instructions read and write registers only, and belong to the base instruction set.
    unsafe {
        asm!("fcvtn {0:v}.4h, {1:v}.4s", out(vreg) first, in(vreg) low, options(pure, nomem, nostack));
        asm!("fcvtn {0:v}.4h, {1:v}.4s", out(vreg) second, in(vreg) high, options(pure, nomem, nostack));
    }
    vcombine_u16(first, second)
}

/// Big-endian lanes of 16 bits from native ones, and back.
#[inline]
#[target_feature(enable = "neon")]
fn swap_bytes_of_u16(lanes: uint16x8_t) -> uint16x8_t {
    vreinterpretq_u16_u8(vrev16q_u8(vreinterpretq_u8_u16(lanes)))
}

/// Big-endian lanes of 32 bits from native ones, and back.
#[inline]
#[target_feature(enable = "neon")]
fn swap_bytes_of_u32(lanes: uint32x4_t) -> uint32x4_t {
    vreinterpretq_u32_u8(vrev32q_u8(vreinterpretq_u8_u32(lanes)))
}

#[inline]
pub(super) fn magnitude_max<T: Float>(_: Neon, block: &[T]) -> u32 {
    // SAFETY: `Neon` proves the feature.
    unsafe { magnitude_max_neon(block) }
}

#[target_feature(enable = "neon")]
fn magnitude_max_neon<T: Float>(block: &[T]) -> u32 {
    let step = 16 / size_of::<T>();
    let mut max = [vdupq_n_u32(0); 4];
    let mut groups = block.chunks_exact(4 * step);
    for group in &mut groups {
        for (i, max) in max.iter_mut().enumerate() {
            // SAFETY: a group is 4 x 16 bytes long, and this function has the feature.
            *max = unsafe { T::magnitude_max(group.as_ptr().add(i * step), *max) };
        }
    }
    let rest = scalar::magnitude_max(groups.remainder());
    // SAFETY: this function has the feature.
    max.into_iter().fold(rest, |largest, max| largest.max(unsafe { T::largest(max) }))
}

#[inline]
pub(super) fn pack16<T: Float>(_: Neon, block: &[T], scale: f32, headroom: u32, lanes: &mut [u8]) {
    // SAFETY: `Neon` proves the feature.
    unsafe { pack16_neon(block, scale, headroom, lanes) }
}

#[target_feature(enable = "neon")]
fn pack16_neon<T: Float>(block: &[T], scale: f32, headroom: u32, lanes: &mut [u8]) {
    assert_eq!(lanes.len(), 2 * block.len());
    let factor = vdupq_n_f32(scale);
    let rounder = vdupq_n_f32(scalar::rounder16(headroom));
    let zero = vdupq_n_s32(scalar::ROUND_BITS);
    let top = vdupq_n_u16(scalar::top16(headroom));
    let biased = |values| {
        // v * scale is exact or rounds to the rounder itself, so a fused addition rounds as a separate one.
        let rounded = vreinterpretq_s32_f32(vfmaq_f32(rounder, values, factor));
        vqmovun_s32(vsubq_s32(vmaxq_s32(rounded, zero), zero))
    };
    let mut blocks = block.chunks_exact(8);
    let mut packed = lanes.chunks_exact_mut(16);
    for (from, to) in (&mut blocks).zip(&mut packed) {
        // SAFETY: `from` holds 8 elements and `to` 16 bytes, and this function has the feature.
        unsafe {
            let [low, high] = T::load(from.as_ptr()).map(biased);
            let lanes = vminq_u16(vcombine_u16(low, high), top);
            vst1q_u16(to.as_mut_ptr().cast(), swap_bytes_of_u16(lanes));
        }
    }
    scalar::pack16(blocks.remainder(), scale, headroom, packed.into_remainder());
}

#[inline]
pub(super) fn pack32<T: Float>(_: Neon, block: &[T], scale: f32, headroom: u32, lanes: &mut [u8]) {
    // SAFETY: `Neon` proves the feature.
    unsafe { pack32_neon(block, scale, headroom, lanes) }
}

#[target_feature(enable = "neon")]
fn pack32_neon<T: Float>(block: &[T], scale: f32, headroom: u32, lanes: &mut [u8]) {
    assert_eq!(lanes.len(), 4 * block.len());
    let nearest = rounded::Nearest32::new(scale, headroom);
    let mut blocks = block.chunks_exact(8);
    let mut packed = lanes.chunks_exact_mut(32);
    for (from, to) in (&mut blocks).zip(&mut packed) {
        // SAFETY: `from` holds 8 elements and `to` 32 bytes, and this function has the feature.
        unsafe {
            store_words(to.as_mut_ptr(), T::load(from.as_ptr()).map(|values| nearest.mantissas(values)))
        };
    }
    scalar::pack32(blocks.remainder(), scale, headroom, packed.into_remainder());
}

/// Stores eight integers as big-endian lanes.
///
/// # Safety
///
/// `to` is writable for 32 bytes (any alignment); the processor has NEON.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn store_words(to: *mut u8, [low, high]: [int32x4_t; 2]) {
    // SAFETY: the caller's contract.
    unsafe {
        vst1q_u32(to.cast(), swap_bytes_of_u32(vreinterpretq_u32_s32(low)));
        vst1q_u32(to.cast::<u32>().add(4), swap_bytes_of_u32(vreinterpretq_u32_s32(high)));
    }
}

/// Loads eight words from big-endian lanes.
///
/// # Safety
///
/// `from` is readable for 32 bytes (any alignment); the processor has NEON.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_words(from: *const u8) -> [uint32x4_t; 2] {
    // SAFETY: the caller's contract.
    let words = unsafe { [vld1q_u32(from.cast()), vld1q_u32(from.cast::<u32>().add(4))] };
    [swap_bytes_of_u32(words[0]), swap_bytes_of_u32(words[1])]
}

#[inline]
pub(super) fn unpack16<T: Float>(_: Neon, lanes: &[u8], scale: f32, bias: i32, block: &mut [T]) {
    // SAFETY: `Neon` proves the feature.
    unsafe { unpack16_neon(lanes, scale, bias, block) }
}

#[target_feature(enable = "neon")]
fn unpack16_neon<T: Float>(lanes: &[u8], scale: f32, bias: i32, block: &mut [T]) {
    assert_eq!(lanes.len(), 2 * block.len());
    let factor = vdupq_n_f32(scale);
    let offset = vdupq_n_s32(bias);
    let result = |sum| {
        let sum = vsubq_s32(vreinterpretq_s32_u32(sum), offset);
        vmulq_f32(vcvtq_f32_s32(sum), factor)
    };
    let mut packed = lanes.chunks_exact(16);
    let mut blocks = block.chunks_exact_mut(8);
    for (from, to) in (&mut packed).zip(&mut blocks) {
        // SAFETY: `from` holds 16 bytes and `to` 8 elements, and this function has the feature.
        unsafe {
            let sums = swap_bytes_of_u16(vld1q_u16(from.as_ptr().cast()));
            let (low, high) = (vmovl_u16(vget_low_u16(sums)), vmovl_high_u16(sums));
            T::store(to.as_mut_ptr(), [result(low), result(high)]);
        }
    }
    scalar::unpack16(packed.remainder(), scale, bias, blocks.into_remainder());
}

#[inline]
pub(super) fn unpack32<T: Float>(_: Neon, lanes: &[u8], scale: f32, block: &mut [T]) {
    // SAFETY: `Neon` proves the feature.
    unsafe { unpack32_neon(lanes, scale, block) }
}

#[target_feature(enable = "neon")]
fn unpack32_neon<T: Float>(lanes: &[u8], scale: f32, block: &mut [T]) {
    assert_eq!(lanes.len(), 4 * block.len());
    let factor = vdupq_n_f32(scale);
    let result = |sum| vmulq_f32(vcvtq_f32_s32(vreinterpretq_s32_u32(sum)), factor);
    let mut packed = lanes.chunks_exact(32);
    let mut blocks = block.chunks_exact_mut(8);
    for (from, to) in (&mut packed).zip(&mut blocks) {
        // SAFETY: `from` holds 32 bytes and `to` 8 elements, and this function has the feature.
        unsafe { T::store(to.as_mut_ptr(), load_words(from.as_ptr()).map(result)) };
    }
    scalar::unpack32(packed.remainder(), scale, blocks.into_remainder());
}

/// The portable loop: compilers use NEON everywhere.
#[inline]
pub(super) fn pack_words<T: Element>(_: Neon, block: &[T], lanes: &mut [u8]) {
    raw::pack(block, lanes);
}

/// The portable loop.
#[inline]
pub(super) fn unpack_words<T: Element>(_: Neon, lanes: &[u8], block: &mut [T]) {
    raw::unpack(lanes, block);
}

/// The portable loops.
#[inline]
pub(super) fn pack_elements(_: Neon, coding: ElementCoding, elements: &[u8], lanes: &mut [u8]) {
    elements::pack(coding, elements, lanes);
}

/// The portable loops.
#[inline]
pub(super) fn unpack_elements(_: Neon, coding: ElementCoding, lanes: &[u8], elements: &mut [u8]) {
    elements::unpack(coding, lanes, elements);
}
