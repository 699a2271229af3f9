//! The NEON kernel of the modes whose lanes are binary16 and binary32 numbers.
#![expect(unsafe_code, reason = "as in the module above")]

use std::arch::aarch64::*;

use super::{Eight, Float, Neon, load_words, narrow, scalar, store_words, swap_bytes_of_u16, widen};

#[inline]
pub(crate) fn pack_half<T: Float>(_: Neon, block: &[T], scale: f32, lanes: &mut [u8]) {
    // SAFETY: `Neon` proves the feature.
    unsafe { pack_half_neon(block, scale, lanes) }
}

#[target_feature(enable = "neon")]
fn pack_half_neon<T: Float>(block: &[T], scale: f32, lanes: &mut [u8]) {
    assert_eq!(lanes.len(), 2 * block.len());
    let factor = vdupq_n_f32(scale);
    let mut blocks = block.chunks_exact(8);
    let mut packed = lanes.chunks_exact_mut(16);
    for (from, to) in (&mut blocks).zip(&mut packed) {
        // SAFETY: `from` holds 8 elements and `to` 16 bytes, and this function has the feature.
        unsafe {
            let halves = narrow(T::load(from.as_ptr()).map(|values| vmulq_f32(values, factor)));
            vst1q_u16(to.as_mut_ptr().cast(), swap_bytes_of_u16(halves));
        }
    }
    scalar::pack_half(blocks.remainder(), scale, packed.into_remainder());
}

#[inline]
pub(crate) fn unpack_half<T: Float>(_: Neon, lanes: &[u8], scale: f32, block: &mut [T]) {
    // SAFETY: `Neon` proves the feature.
    unsafe { unpack_half_neon(lanes, scale, block) }
}

#[target_feature(enable = "neon")]
fn unpack_half_neon<T: Float>(lanes: &[u8], scale: f32, block: &mut [T]) {
    assert_eq!(lanes.len(), 2 * block.len());
    let factor = vdupq_n_f32(scale);
    let mut packed = lanes.chunks_exact(16);
    let mut blocks = block.chunks_exact_mut(8);
    for (from, to) in (&mut packed).zip(&mut blocks) {
        // SAFETY: `from` holds 16 bytes and `to` 8 elements, and this function has the feature.
        unsafe {
            let halves = swap_bytes_of_u16(vld1q_u16(from.as_ptr().cast()));
            let values = widen(halves).map(|values| vmulq_f32(values, factor));
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
pub(crate) fn pack_float<T: Float>(_: Neon, block: &[T], lanes: &mut [u8]) {
    // SAFETY: `Neon` proves the feature.
    unsafe { pack_float_neon(block, lanes) }
}

#[target_feature(enable = "neon")]
fn pack_float_neon<T: Float>(block: &[T], lanes: &mut [u8]) {
    assert_eq!(lanes.len(), 4 * block.len());
    let mut blocks = block.chunks_exact(8);
    let mut packed = lanes.chunks_exact_mut(32);
    for (from, to) in (&mut blocks).zip(&mut packed) {
        // SAFETY: `from` holds 8 elements and `to` 32 bytes, and this function has the feature.
        unsafe {
            let words = T::load(from.as_ptr()).map(|values| vreinterpretq_s32_f32(values));
            store_words(to.as_mut_ptr(), words);
        }
    }
    scalar::pack_float(blocks.remainder(), packed.into_remainder());
}

#[inline]
pub(crate) fn unpack_float<T: Float>(_: Neon, lanes: &[u8], block: &mut [T]) {
    // SAFETY: `Neon` proves the feature.
    unsafe { unpack_float_neon(lanes, block) }
}

#[target_feature(enable = "neon")]
fn unpack_float_neon<T: Float>(lanes: &[u8], block: &mut [T]) {
    assert_eq!(lanes.len(), 4 * block.len());
    let mut packed = lanes.chunks_exact(32);
    let mut blocks = block.chunks_exact_mut(8);
    for (from, to) in (&mut packed).zip(&mut blocks) {
        // SAFETY: `from` holds 32 bytes and `to` 8 elements, and this function has the feature.
        unsafe {
            let values = load_words(from.as_ptr()).map(|word| vreinterpretq_f32_u32(word));
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
#[target_feature(enable = "neon")]
fn is_nan_among([low, high]: Eight) -> bool {
    // Only numbers equal themselves.
    let numbers = vandq_u32(vceqq_f32(low, low), vceqq_f32(high, high));
    vminvq_u32(numbers) == 0
}
