//! The AVX2 kernel: 16 elements at a time, the rest by the portable kernel.
//!
//! Functions that run in the hot loops are generic over the element type through [`Vector`], whose methods are
//! `inline(always)`: they are compiled as part of the `target_feature` function around them.
#![expect(
    unsafe_code,
    reason = "vector loads and stores, and calls that need AVX2; `Avx2` proves the processor has it"
)]

#[path = "half_float_avx2.rs"]
mod half_float;
#[path = "rounded_avx2.rs"]
mod rounded;

use std::arch::x86_64::*;

use half::{bf16, f16};

use super::{ElementCoding, Float, elements, raw, scalar};
use crate::element::Element;

pub(super) use half_float::{pack_float, pack_half, unpack_float, unpack_half};
pub(super) use rounded::{
    left_of_chance, left_of_nearest16, left_of_nearest32, pack16 as pack16_stochastic,
    pack32 as pack32_stochastic,
};

/// Proof that this processor has AVX2, FMA and F16C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Avx2(());

pub(crate) use Avx2 as Simd;

impl Avx2 {
    /// The name in reports.
    pub(super) const NAME: &str = "avx2";

    pub(super) fn detect() -> Option<Self> {
        let has = std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma")
            && std::arch::is_x86_feature_detected!("f16c");
        has.then_some(Self(()))
    }
}

/// Eight elements to and from eight binary32 lanes, and the scan of a block.
pub trait Vector: Sized {
    /// Loads 8 elements, exactly.
    ///
    /// # Safety
    ///
    /// `from` is readable for 8 elements (any alignment); the processor has AVX2 and F16C.
    unsafe fn load(from: *const Self) -> __m256;

    /// Stores 8 numbers, each rounded half to even. None of them is NaN.
    ///
    /// # Safety
    ///
    /// `to` is writable for 8 elements (any alignment); the processor has AVX2 and F16C.
    unsafe fn store(to: *mut Self, values: __m256);

    /// The largest magnitude of each lane over the 32 bytes at `from` and those in `max`, compared as integers.
    ///
    /// # Safety
    ///
    /// `from` is readable for 32 bytes (any alignment); the processor has AVX2.
    unsafe fn magnitude_max(from: *const Self, max: __m256i) -> __m256i;
}

impl Vector for f32 {
    #[inline(always)]
    unsafe fn load(from: *const Self) -> __m256 {
        // SAFETY: the caller's contract.
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut Self, values: __m256) {
        // SAFETY: the caller's contract.
        unsafe { _mm256_storeu_ps(to, values) }
    }
    #[inline(always)]
    unsafe fn magnitude_max(from: *const Self, max: __m256i) -> __m256i {
        // SAFETY: the caller's contract.
        unsafe {
            let bits = _mm256_loadu_si256(from.cast());
            _mm256_max_epu32(max, _mm256_and_si256(bits, _mm256_set1_epi32(0x7fff_ffff)))
        }
    }
}

impl Vector for f16 {
    #[inline(always)]
    unsafe fn load(from: *const Self) -> __m256 {
        // SAFETY: the caller's contract; f16 is 2 bytes.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut Self, values: __m256) {
        // SAFETY: the caller's contract; f16 is 2 bytes.
        unsafe { _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values)) }
    }
    #[inline(always)]
    unsafe fn magnitude_max(from: *const Self, max: __m256i) -> __m256i {
        // SAFETY: the caller's contract, handed on.
        unsafe { magnitude_max_u16(from.cast(), max) }
    }
}

impl Vector for bf16 {
    #[inline(always)]
    unsafe fn load(from: *const Self) -> __m256 {
        // SAFETY: the caller's contract; bf16 is 2 bytes.
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }
    }
    #[inline(always)]
    unsafe fn store(to: *mut Self, values: __m256) {
        // SAFETY: the caller's contract; bf16 is 2 bytes.
        unsafe {
            // Adding 0x7fff, and one more when the last kept bit is odd, carries into the upper half exactly when
            // half-even rounding goes up.
            let bits = _mm256_castps_si256(values);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let half = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), odd);
            let upper = _mm256_srli_epi32::<16>(_mm256_add_epi32(bits, half));
            let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(upper, upper));
            _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(packed));
        }
    }
    #[inline(always)]
    unsafe fn magnitude_max(from: *const Self, max: __m256i) -> __m256i {
        // SAFETY: the caller's contract, handed on.
        unsafe { magnitude_max_u16(from.cast(), max) }
    }
}

/// [`Vector::magnitude_max`] of both 16-bit types: lanes of 16 bits.
///
/// # Safety
///
/// As there.
#[inline(always)]
unsafe fn magnitude_max_u16(from: *const __m256i, max: __m256i) -> __m256i {
    // SAFETY: the caller's contract.
    unsafe { _mm256_max_epu16(max, _mm256_and_si256(_mm256_loadu_si256(from), _mm256_set1_epi16(0x7fff))) }
}

#[inline]
pub(super) fn magnitude_max<T: Float>(_: Avx2, block: &[T]) -> u32 {
    // SAFETY: `Avx2` proves the features.
    unsafe { magnitude_max_avx2(block) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn magnitude_max_avx2<T: Float>(block: &[T]) -> u32 {
    let step = 32 / size_of::<T>();
    let mut max = [_mm256_setzero_si256(); 4];
    let mut groups = block.chunks_exact(4 * step);
    for group in &mut groups {
        for (i, max) in max.iter_mut().enumerate() {
            // SAFETY: a group is 4 x 32 bytes long.
            *max = unsafe { T::magnitude_max(group.as_ptr().add(i * step), *max) };
        }
    }
    // Bits 0 to 30 (or 0 to 14 of each half) are set at most, so both widths may merge as unsigned lanes of theirs.
    let merge = |a, b| if size_of::<T>() == 4 { _mm256_max_epu32(a, b) } else { _mm256_max_epu16(a, b) };
    let all = merge(merge(max[0], max[1]), merge(max[2], max[3]));
    let mut words = [0u32; 8];
    // SAFETY: `words` is 32 bytes long.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), all) };
    let rest = scalar::magnitude_max(groups.remainder());
    words.into_iter().fold(rest, |max, word| {
        if size_of::<T>() == 4 { max.max(word) } else { max.max(word & 0xffff).max(word >> 16) }
    })
}

#[inline]
pub(super) fn pack16<T: Float>(_: Avx2, block: &[T], scale: f32, headroom: u32, lanes: &mut [u8]) {
    // SAFETY: `Avx2` proves the features.
    unsafe { pack16_avx2(block, scale, headroom, lanes) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn pack16_avx2<T: Float>(block: &[T], scale: f32, headroom: u32, lanes: &mut [u8]) {
    assert_eq!(lanes.len(), 2 * block.len());
    let factor = _mm256_set1_ps(scale);
    let rounder = _mm256_set1_ps(scalar::rounder16(headroom));
    let zero = _mm256_set1_epi32(scalar::ROUND_BITS);
    let top = _mm256_set1_epi16(scalar::top16(headroom).cast_signed());
    let swap = swap_bytes_of_u16();
    let mut blocks = block.chunks_exact(16);
    let mut packed = lanes.chunks_exact_mut(32);
    for (from, to) in (&mut blocks).zip(&mut packed) {
        // SAFETY: `from` holds 16 elements and `to` 32 bytes.
        unsafe {
            let biased = |from| {
                // v * scale is exact or rounds to the rounder itself, so a fused addition rounds as a separate one.
                let rounded = _mm256_castps_si256(_mm256_fmadd_ps(T::load(from), factor, rounder));
                _mm256_sub_epi32(_mm256_max_epi32(rounded, zero), zero)
            };
            let (low, high) = (biased(from.as_ptr()), biased(from.as_ptr().add(8)));
            let both = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(low, high));
            let both = _mm256_shuffle_epi8(_mm256_min_epu16(both, top), swap);
            _mm256_storeu_si256(to.as_mut_ptr().cast(), both);
        }
    }
    scalar::pack16(blocks.remainder(), scale, headroom, packed.into_remainder());
}

#[inline]
pub(super) fn pack32<T: Float>(_: Avx2, block: &[T], scale: f32, headroom: u32, lanes: &mut [u8]) {
    // SAFETY: `Avx2` proves the features.
    unsafe { pack32_avx2(block, scale, headroom, lanes) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn pack32_avx2<T: Float>(block: &[T], scale: f32, headroom: u32, lanes: &mut [u8]) {
    assert_eq!(lanes.len(), 4 * block.len());
    let factor = _mm256_set1_ps(scale);
    let limit = _mm256_set1_ps(scalar::limit32(headroom));
    let low = _mm256_set1_ps(-scalar::limit32(headroom));
    let top = _mm256_castsi256_ps(_mm256_set1_epi32(i32::MAX >> headroom));
    let swap = swap_bytes_of_u32();
    let mut blocks = block.chunks_exact(8);
    let mut packed = lanes.chunks_exact_mut(32);
    for (from, to) in (&mut blocks).zip(&mut packed) {
        // SAFETY: `from` holds 8 elements and `to` 32 bytes.
        unsafe {
            let scaled = _mm256_mul_ps(T::load(from.as_ptr()), factor);
            let over = _mm256_cmp_ps::<_CMP_GE_OQ>(scaled, limit);
            let rounded = _mm256_castsi256_ps(_mm256_cvtps_epi32(_mm256_max_ps(scaled, low)));
            let mantissas = _mm256_castps_si256(_mm256_blendv_ps(rounded, top, over));
            _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_shuffle_epi8(mantissas, swap));
        }
    }
    scalar::pack32(blocks.remainder(), scale, headroom, packed.into_remainder());
}

#[inline]
pub(super) fn unpack16<T: Float>(_: Avx2, lanes: &[u8], scale: f32, bias: i32, block: &mut [T]) {
    // SAFETY: `Avx2` proves the features.
    unsafe { unpack16_avx2(lanes, scale, bias, block) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn unpack16_avx2<T: Float>(lanes: &[u8], scale: f32, bias: i32, block: &mut [T]) {
    assert_eq!(lanes.len(), 2 * block.len());
    let factor = _mm256_set1_ps(scale);
    let offset = _mm256_set1_epi32(bias);
    let swap = swap_bytes_of_u16();
    let mut packed = lanes.chunks_exact(32);
    let mut blocks = block.chunks_exact_mut(16);
    for (from, to) in (&mut packed).zip(&mut blocks) {
        // SAFETY: `from` holds 32 bytes and `to` 16 elements.
        unsafe {
            let both = _mm256_shuffle_epi8(_mm256_loadu_si256(from.as_ptr().cast()), swap);
            let result = |half| {
                let sum = _mm256_sub_epi32(_mm256_cvtepu16_epi32(half), offset);
                _mm256_mul_ps(_mm256_cvtepi32_ps(sum), factor)
            };
            T::store(to.as_mut_ptr(), result(_mm256_castsi256_si128(both)));
            T::store(to.as_mut_ptr().add(8), result(_mm256_extracti128_si256::<1>(both)));
        }
    }
    scalar::unpack16(packed.remainder(), scale, bias, blocks.into_remainder());
}

#[inline]
pub(super) fn unpack32<T: Float>(_: Avx2, lanes: &[u8], scale: f32, block: &mut [T]) {
    // SAFETY: `Avx2` proves the features.
    unsafe { unpack32_avx2(lanes, scale, block) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn unpack32_avx2<T: Float>(lanes: &[u8], scale: f32, block: &mut [T]) {
    assert_eq!(lanes.len(), 4 * block.len());
    let factor = _mm256_set1_ps(scale);
    let swap = swap_bytes_of_u32();
    let mut packed = lanes.chunks_exact(32);
    let mut blocks = block.chunks_exact_mut(8);
    for (from, to) in (&mut packed).zip(&mut blocks) {
        // SAFETY: `from` holds 32 bytes and `to` 8 elements.
        unsafe {
            let sum = _mm256_shuffle_epi8(_mm256_loadu_si256(from.as_ptr().cast()), swap);
            T::store(to.as_mut_ptr(), _mm256_mul_ps(_mm256_cvtepi32_ps(sum), factor));
        }
    }
    scalar::unpack32(packed.remainder(), scale, blocks.into_remainder());
}

#[inline]
pub(super) fn pack_words<T: Element>(_: Avx2, block: &[T], lanes: &mut [u8]) {
    // SAFETY: `Avx2` proves the features.
    unsafe { pack_words_avx2(block, lanes) }
}

/// The portable loop, compiled with byte shuffles.
#[target_feature(enable = "avx2")]
fn pack_words_avx2<T: Element>(block: &[T], lanes: &mut [u8]) {
    raw::pack(block, lanes);
}

#[inline]
pub(super) fn unpack_words<T: Element>(_: Avx2, lanes: &[u8], block: &mut [T]) {
    // SAFETY: `Avx2` proves the features.
    unsafe { unpack_words_avx2(lanes, block) }
}

/// The portable loop, compiled with byte shuffles.
#[target_feature(enable = "avx2")]
fn unpack_words_avx2<T: Element>(lanes: &[u8], block: &mut [T]) {
    raw::unpack(lanes, block);
}

#[inline]
pub(super) fn pack_elements(_: Avx2, coding: ElementCoding, elements: &[u8], lanes: &mut [u8]) {
    // SAFETY: `Avx2` proves the features.
    unsafe { pack_elements_avx2(coding, elements, lanes) }
}

/// The portable loops.
#[target_feature(enable = "avx2")]
fn pack_elements_avx2(coding: ElementCoding, elements: &[u8], lanes: &mut [u8]) {
    elements::pack(coding, elements, lanes);
}

#[inline]
pub(super) fn unpack_elements(_: Avx2, coding: ElementCoding, lanes: &[u8], elements: &mut [u8]) {
    // SAFETY: `Avx2` proves the features.
    unsafe { unpack_elements_avx2(coding, lanes, elements) }
}

/// The portable loops.
#[target_feature(enable = "avx2")]
fn unpack_elements_avx2(coding: ElementCoding, lanes: &[u8], elements: &mut [u8]) {
    elements::unpack(coding, lanes, elements);
}

#[target_feature(enable = "avx2")]
fn swap_bytes_of_u16() -> __m256i {
    _mm256_set_epi64x(
        0x0e0f_0c0d_0a0b_0809,
        0x0607_0405_0203_0001,
        0x0e0f_0c0d_0a0b_0809,
        0x0607_0405_0203_0001,
    )
}

#[target_feature(enable = "avx2")]
fn swap_bytes_of_u32() -> __m256i {
    _mm256_set_epi64x(
        0x0c0d_0e0f_0809_0a0b,
        0x0405_0607_0001_0203,
        0x0c0d_0e0f_0809_0a0b,
        0x0405_0607_0001_0203,
    )
}
