//! The AVX2 kernel's stochastic rounding, and what rounding leaves out.
#![expect(unsafe_code, reason = "as in the module above")]

use std::arch::x86_64::*;

use super::super::rounding::{BlockRng, DRAW_BITS, DRAW_RANGE, FACTORS, Range, STRIDE};
use super::super::{Float, residual as portable, scalar};
use super::{Avx2, swap_bytes_of_u16, swap_bytes_of_u32};

/// Mantissas of eight numbers at a time.
trait Mantissas {
    /// Those of the next eight numbers.
    ///
    /// # Safety
    ///
    /// The processor has AVX2 and FMA.
    unsafe fn next(&mut self, values: __m256) -> __m256i;
}

/// Stochastic, from the block's first element on.
struct ByChance {
    scale: __m256,
    low: __m256,
    high: __m256,
    counters: __m256i,
    twist: __m256i,
}

impl ByChance {
    #[target_feature(enable = "avx2,fma,f16c")]
    fn new(range: Range, rng: BlockRng) -> Self {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let strides = _mm256_mullo_epi32(lanes, _mm256_set1_epi32(STRIDE.cast_signed()));
        Self {
            scale: _mm256_set1_ps(range.scale),
            low: _mm256_set1_ps(range.low),
            high: _mm256_set1_ps(range.high),
            counters: _mm256_add_epi32(strides, _mm256_set1_epi32(rng.start.cast_signed())),
            twist: _mm256_set1_epi32(rng.twist.cast_signed()),
        }
    }
}

impl Mantissas for ByChance {
    #[inline(always)]
    unsafe fn next(&mut self, values: __m256) -> __m256i {
        // SAFETY: the caller's contract.
        unsafe {
            let factor = |i: usize| _mm256_set1_epi32(FACTORS[i].cast_signed());
            let x = self.counters;
            self.counters = _mm256_add_epi32(x, _mm256_set1_epi32(STRIDE.wrapping_mul(8).cast_signed()));
            let x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32::<16>(x)), factor(0));
            let x = _mm256_xor_si256(x, self.twist);
            let x = _mm256_mullo_epi32(_mm256_xor_si256(x, _mm256_srli_epi32::<15>(x)), factor(1));
            let x = _mm256_xor_si256(x, _mm256_srli_epi32::<16>(x));
            let draw = _mm256_cvtepi32_ps(_mm256_srli_epi32::<{ 32 - DRAW_BITS as i32 }>(x));
            // Both give the second operand when the first is NaN, as the portable comparisons do.
            let scaled = _mm256_max_ps(_mm256_mul_ps(values, self.scale), self.low);
            let scaled = _mm256_min_ps(scaled, self.high);
            let below = _mm256_floor_ps(scaled);
            let distance = _mm256_mul_ps(_mm256_sub_ps(scaled, below), _mm256_set1_ps(DRAW_RANGE));
            let up = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_LT_OQ>(draw, distance));
            _mm256_sub_epi32(_mm256_cvtps_epi32(below), up)
        }
    }
}

/// To the nearest, as the lanes of bfp16 have them.
struct Nearest16 {
    scale: __m256,
    rounder: __m256,
    zero: __m256i,
    top: __m256i,
    bias: __m256i,
}

impl Nearest16 {
    #[target_feature(enable = "avx2,fma,f16c")]
    fn new(scale: f32, headroom: u32) -> Self {
        Self {
            scale: _mm256_set1_ps(scale),
            rounder: _mm256_set1_ps(scalar::rounder16(headroom)),
            zero: _mm256_set1_epi32(scalar::ROUND_BITS),
            top: _mm256_set1_epi32(i32::from(scalar::top16(headroom))),
            bias: _mm256_set1_epi32(1 << (15 - headroom)),
        }
    }
}

impl Mantissas for Nearest16 {
    #[inline(always)]
    unsafe fn next(&mut self, values: __m256) -> __m256i {
        // SAFETY: the caller's contract.
        unsafe {
            let rounded = _mm256_castps_si256(_mm256_fmadd_ps(values, self.scale, self.rounder));
            let biased = _mm256_sub_epi32(_mm256_max_epi32(rounded, self.zero), self.zero);
            _mm256_sub_epi32(_mm256_min_epi32(biased, self.top), self.bias)
        }
    }
}

/// To the nearest, as the lanes of bfp32 have them.
struct Nearest32 {
    scale: __m256,
    limit: __m256,
    low: __m256,
    top: __m256,
}

impl Nearest32 {
    #[target_feature(enable = "avx2,fma,f16c")]
    fn new(scale: f32, headroom: u32) -> Self {
        Self {
            scale: _mm256_set1_ps(scale),
            limit: _mm256_set1_ps(scalar::limit32(headroom)),
            low: _mm256_set1_ps(-scalar::limit32(headroom)),
            top: _mm256_castsi256_ps(_mm256_set1_epi32(i32::MAX >> headroom)),
        }
    }
}

impl Mantissas for Nearest32 {
    #[inline(always)]
    unsafe fn next(&mut self, values: __m256) -> __m256i {
        // SAFETY: the caller's contract.
        unsafe {
            let scaled = _mm256_mul_ps(values, self.scale);
            let over = _mm256_cmp_ps::<_CMP_GE_OQ>(scaled, self.limit);
            let rounded = _mm256_castsi256_ps(_mm256_cvtps_epi32(_mm256_max_ps(scaled, self.low)));
            _mm256_castps_si256(_mm256_blendv_ps(rounded, self.top, over))
        }
    }
}

#[inline]
pub(in super::super) fn pack16<T: Float>(
    _: Avx2,
    block: &[T],
    (range, bias): (Range, i32),
    rng: BlockRng,
    lanes: &mut [u8],
) {
    // SAFETY: `Avx2` proves the features.
    unsafe { pack16_avx2(block, (range, bias), rng, lanes) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn pack16_avx2<T: Float>(block: &[T], (range, bias): (Range, i32), rng: BlockRng, lanes: &mut [u8]) {
    assert_eq!(lanes.len(), 2 * block.len());
    let mut mantissas = ByChance::new(range, rng);
    let offset = _mm256_set1_epi32(bias);
    let swap = swap_bytes_of_u16();
    let mut blocks = block.chunks_exact(16);
    let mut packed = lanes.chunks_exact_mut(32);
    for (from, to) in (&mut blocks).zip(&mut packed) {
        // SAFETY: `from` holds 16 elements and `to` 32 bytes.
        unsafe {
            let low = _mm256_add_epi32(mantissas.next(T::load(from.as_ptr())), offset);
            let high = _mm256_add_epi32(mantissas.next(T::load(from.as_ptr().add(8))), offset);
            let both = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(low, high));
            _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_shuffle_epi8(both, swap));
        }
    }
    let rest = blocks.remainder();
    let first = (block.len() - rest.len()) as u32;
    scalar::pack16_stochastic(rest, (range, bias), (rng, first), packed.into_remainder());
}

#[inline]
pub(in super::super) fn pack32<T: Float>(
    _: Avx2,
    block: &[T],
    range: Range,
    rng: BlockRng,
    lanes: &mut [u8],
) {
    // SAFETY: `Avx2` proves the features.
    unsafe { pack32_avx2(block, range, rng, lanes) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn pack32_avx2<T: Float>(block: &[T], range: Range, rng: BlockRng, lanes: &mut [u8]) {
    assert_eq!(lanes.len(), 4 * block.len());
    let mut mantissas = ByChance::new(range, rng);
    let swap = swap_bytes_of_u32();
    let mut blocks = block.chunks_exact(8);
    let mut packed = lanes.chunks_exact_mut(32);
    for (from, to) in (&mut blocks).zip(&mut packed) {
        // SAFETY: `from` holds 8 elements and `to` 32 bytes.
        unsafe {
            let lanes = _mm256_shuffle_epi8(mantissas.next(T::load(from.as_ptr())), swap);
            _mm256_storeu_si256(to.as_mut_ptr().cast(), lanes);
        }
    }
    let rest = blocks.remainder();
    let first = (block.len() - rest.len()) as u32;
    scalar::pack32_stochastic(rest, range, (rng, first), packed.into_remainder());
}

/// `value - mantissa * quantum` of whole groups of eight; the number of elements done. A fused operation rounds once, as
/// the portable code does.
///
/// # Safety
///
/// The processor has AVX2 and FMA.
#[inline(always)]
unsafe fn subtract(
    mut mantissas: impl Mantissas,
    block: &[f32],
    quantum: f32,
    residual: &mut [f32],
) -> usize {
    assert_eq!(block.len(), residual.len());
    // SAFETY: each group holds 8 elements; the rest is the caller's contract.
    unsafe {
        let quanta = _mm256_set1_ps(quantum);
        for (from, to) in block.chunks_exact(8).zip(residual.chunks_exact_mut(8)) {
            let values = _mm256_loadu_ps(from.as_ptr());
            let sent = _mm256_cvtepi32_ps(mantissas.next(values));
            _mm256_storeu_ps(to.as_mut_ptr(), _mm256_fnmadd_ps(sent, quanta, values));
        }
    }
    block.len() / 8 * 8
}

/// [`portable::nearest16`].
#[inline]
pub(in super::super) fn left_of_nearest16(
    _: Avx2,
    block: &[f32],
    scales: (f32, f32),
    headroom: u32,
    residual: &mut [f32],
) {
    #[target_feature(enable = "avx2,fma,f16c")]
    fn groups(block: &[f32], (scale, quantum): (f32, f32), headroom: u32, residual: &mut [f32]) -> usize {
        // SAFETY: this function has the features.
        unsafe { subtract(Nearest16::new(scale, headroom), block, quantum, residual) }
    }
    // SAFETY: `Avx2` proves the features.
    let done = unsafe { groups(block, scales, headroom, residual) };
    portable::nearest16(&block[done..], scales, headroom, &mut residual[done..]);
}

/// [`portable::nearest32`].
#[inline]
pub(in super::super) fn left_of_nearest32(
    _: Avx2,
    block: &[f32],
    scales: (f32, f32),
    headroom: u32,
    residual: &mut [f32],
) {
    #[target_feature(enable = "avx2,fma,f16c")]
    fn groups(block: &[f32], (scale, quantum): (f32, f32), headroom: u32, residual: &mut [f32]) -> usize {
        // SAFETY: this function has the features.
        unsafe { subtract(Nearest32::new(scale, headroom), block, quantum, residual) }
    }
    // SAFETY: `Avx2` proves the features.
    let done = unsafe { groups(block, scales, headroom, residual) };
    portable::nearest32(&block[done..], scales, headroom, &mut residual[done..]);
}

/// [`portable::stochastic`] from the block's first element on.
#[inline]
pub(in super::super) fn left_of_chance(
    _: Avx2,
    block: &[f32],
    (range, quantum): (Range, f32),
    rng: BlockRng,
    residual: &mut [f32],
) {
    #[target_feature(enable = "avx2,fma,f16c")]
    fn groups(block: &[f32], (range, quantum): (Range, f32), rng: BlockRng, residual: &mut [f32]) -> usize {
        // SAFETY: this function has the features.
        unsafe { subtract(ByChance::new(range, rng), block, quantum, residual) }
    }
    // SAFETY: `Avx2` proves the features.
    let done = unsafe { groups(block, (range, quantum), rng, residual) };
    let rng = (rng, done as u32);
    portable::stochastic(&block[done..], (range, quantum), rng, &mut residual[done..]);
}
