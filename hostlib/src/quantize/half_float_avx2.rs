//! The AVX2 kernel of the modes whose lanes are binary16 and binary32 numbers.
#![expect(unsafe_code, reason = "as in the module above")]

use std::arch::x86_64::*;

use super::{Avx2, Float, scalar, swap_bytes_of_u16, swap_bytes_of_u32};

#[inline]
pub(crate) fn pack_half<T: Float>(_: Avx2, block: &[T], scale: f32, lanes: &mut [u8]) {
    // SAFETY: `Avx2` proves the features.
    unsafe { pack_half_avx2(block, scale, lanes) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn pack_half_avx2<T: Float>(block: &[T], scale: f32, lanes: &mut [u8]) {
    assert_eq!(lanes.len(), 2 * block.len());
    let factor = _mm256_set1_ps(scale);
    let swap = _mm256_castsi256_si128(swap_bytes_of_u16());
    let mut blocks = block.chunks_exact(8);
    let mut packed = lanes.chunks_exact_mut(16);
    for (from, to) in (&mut blocks).zip(&mut packed) {
        // SAFETY: `from` holds 8 elements and `to` 16 bytes.
        unsafe {
            let scaled = _mm256_mul_ps(T::load(from.as_ptr()), factor);
            let halves = _mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(scaled);
            _mm_storeu_si128(to.as_mut_ptr().cast(), _mm_shuffle_epi8(halves, swap));
        }
    }
    scalar::pack_half(blocks.remainder(), scale, packed.into_remainder());
}

#[inline]
pub(crate) fn unpack_half<T: Float>(_: Avx2, lanes: &[u8], scale: f32, block: &mut [T]) {
    // SAFETY: `Avx2` proves the features.
    unsafe { unpack_half_avx2(lanes, scale, block) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn unpack_half_avx2<T: Float>(lanes: &[u8], scale: f32, block: &mut [T]) {
    assert_eq!(lanes.len(), 2 * block.len());
    let factor = _mm256_set1_ps(scale);
    let swap = _mm256_castsi256_si128(swap_bytes_of_u16());
    let mut packed = lanes.chunks_exact(16);
    let mut blocks = block.chunks_exact_mut(8);
    for (from, to) in (&mut packed).zip(&mut blocks) {
        // SAFETY: `from` holds 16 bytes and `to` 8 elements.
        unsafe {
            let halves = _mm_shuffle_epi8(_mm_loadu_si128(from.as_ptr().cast()), swap);
            let values = _mm256_mul_ps(_mm256_cvtph_ps(halves), factor);
            if size_of::<T>() == 2 && is_nan_among(values) {
                scalar::unpack_half(from, scale, to);
            } else {
                T::store(to.as_mut_ptr(), values);
            }
        }
    }
    scalar::unpack_half(packed.remainder(), scale, blocks.into_remainder());
}

#[inline]
pub(crate) fn pack_float<T: Float>(_: Avx2, block: &[T], lanes: &mut [u8]) {
    // SAFETY: `Avx2` proves the features.
    unsafe { pack_float_avx2(block, lanes) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn pack_float_avx2<T: Float>(block: &[T], lanes: &mut [u8]) {
    assert_eq!(lanes.len(), 4 * block.len());
    let swap = swap_bytes_of_u32();
    let mut blocks = block.chunks_exact(8);
    let mut packed = lanes.chunks_exact_mut(32);
    for (from, to) in (&mut blocks).zip(&mut packed) {
        // SAFETY: `from` holds 8 elements and `to` 32 bytes.
        unsafe {
            let words = _mm256_castps_si256(T::load(from.as_ptr()));
            _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_shuffle_epi8(words, swap));
        }
    }
    scalar::pack_float(blocks.remainder(), packed.into_remainder());
}

#[inline]
pub(crate) fn unpack_float<T: Float>(_: Avx2, lanes: &[u8], block: &mut [T]) {
    // SAFETY: `Avx2` proves the features.
    unsafe { unpack_float_avx2(lanes, block) }
}

#[target_feature(enable = "avx2,fma,f16c")]
fn unpack_float_avx2<T: Float>(lanes: &[u8], block: &mut [T]) {
    assert_eq!(lanes.len(), 4 * block.len());
    let swap = swap_bytes_of_u32();
    let mut packed = lanes.chunks_exact(32);
    let mut blocks = block.chunks_exact_mut(8);
    for (from, to) in (&mut packed).zip(&mut blocks) {
        // SAFETY: `from` holds 32 bytes and `to` 8 elements.
        unsafe {
            let words = _mm256_shuffle_epi8(_mm256_loadu_si256(from.as_ptr().cast()), swap);
            let values = _mm256_castsi256_ps(words);
            if size_of::<T>() == 2 && is_nan_among(values) {
                scalar::unpack_float(from, to);
            } else {
                T::store(to.as_mut_ptr(), values);
            }
        }
    }
    scalar::unpack_float(packed.remainder(), blocks.into_remainder());
}

/// Whether one of the numbers is NaN, which [`Vector::store`](super::Vector::store) does not round to 16 bits as the portable kernel does.
#[target_feature(enable = "avx2")]
fn is_nan_among(values: __m256) -> bool {
    _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_UNORD_Q>(values, values)) != 0
}
