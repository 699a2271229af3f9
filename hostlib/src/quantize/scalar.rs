//! The portable kernel: what the others must equal bit for bit.
//!
//! `scale` is a power of two, so `v * scale` is exact, except that a tiny `v` may lose bits far below one half; the
//! only rounding that matters is the one to an integer.

use half::f16;

use super::Float;
use super::rounding::{BlockRng, Range};

/// The bits of 1.5 * 2^23: between 2^23 and 2^24 the last bit of a binary32 is worth 1, so adding this number rounds
/// to an integer, half to even, and leaves it in the low bits.
pub(super) const ROUND_BITS: i32 = 0x4b40_0000;

/// The number that rounds to an integer and adds the bias of bfp16 in one go. The bias is even, so ties stay even.
#[inline(always)]
pub(super) fn rounder16(headroom: u32) -> f32 {
    f32::from_bits(ROUND_BITS as u32) + (1u32 << (15 - headroom)) as f32
}

/// The largest biased lane of bfp16.
#[inline(always)]
pub(super) fn top16(headroom: u32) -> u16 {
    u16::MAX >> headroom
}

/// The least magnitude that rounds, half to even, to 2^(31-h), which is out of a bfp32 lane's range when positive.
///
/// That is 2^(31-h) - 1/2 where binary32 can represent it (h >= 8); below, where all numbers so large are integers, the
/// subtraction rounds to 2^(31-h) itself. Either rounds to 2^(31-h).
#[inline(always)]
pub(super) fn limit32(headroom: u32) -> f32 {
    (1u32 << (31 - headroom)) as f32 - 0.5
}

#[inline(always)]
pub(super) fn magnitude_max<T: Float>(block: &[T]) -> u32 {
    block.iter().fold(0, |max, element| max.max(element.magnitude_bits()))
}

/// The biased lane of bfp16.
#[inline(always)]
pub(super) fn biased16(value: f32, scale: f32, rounder: f32, top: i32) -> i32 {
    // As integers, the bits of floats order like the floats, all negative ones below the positive ones.
    let bits = (value * scale + rounder).to_bits().cast_signed();
    (bits.max(ROUND_BITS) - ROUND_BITS).min(top)
}

/// The lane of bfp32.
#[inline(always)]
pub(super) fn mantissa32(value: f32, scale: f32, limit: f32, top: i32) -> i32 {
    let scaled = value * scale;
    let low = if scaled > -limit { scaled } else { -limit };
    if scaled >= limit { top } else { low.round_ties_even() as i32 }
}

pub(super) fn pack16<T: Float>(block: &[T], scale: f32, headroom: u32, lanes: &mut [u8]) {
    let (rounder, top) = (rounder16(headroom), i32::from(top16(headroom)));
    for (element, lane) in block.iter().zip(lanes.chunks_exact_mut(2)) {
        let biased = biased16(element.to_f32(), scale, rounder, top) as u16;
        lane.copy_from_slice(&biased.to_be_bytes());
    }
}

pub(super) fn pack32<T: Float>(block: &[T], scale: f32, headroom: u32, lanes: &mut [u8]) {
    let limit = limit32(headroom);
    let top = i32::MAX >> headroom;
    for (element, lane) in block.iter().zip(lanes.chunks_exact_mut(4)) {
        let mantissa = mantissa32(element.to_f32(), scale, limit, top);
        lane.copy_from_slice(&mantissa.to_be_bytes());
    }
}

/// As [`pack16`], with stochastic rounding; `first` is the number of the slice's first element in its block.
pub(super) fn pack16_stochastic<T: Float>(
    block: &[T],
    (range, bias): (Range, i32),
    (rng, first): (BlockRng, u32),
    lanes: &mut [u8],
) {
    for ((element, lane), number) in block.iter().zip(lanes.chunks_exact_mut(2)).zip(first..) {
        let biased = (range.mantissa(element.to_f32(), rng.draw(number)) + bias) as u16;
        lane.copy_from_slice(&biased.to_be_bytes());
    }
}

/// As [`pack32`], with stochastic rounding; `first` is the number of the slice's first element in its block.
pub(super) fn pack32_stochastic<T: Float>(
    block: &[T],
    range: Range,
    (rng, first): (BlockRng, u32),
    lanes: &mut [u8],
) {
    for ((element, lane), number) in block.iter().zip(lanes.chunks_exact_mut(4)).zip(first..) {
        let mantissa = range.mantissa(element.to_f32(), rng.draw(number));
        lane.copy_from_slice(&mantissa.to_be_bytes());
    }
}

pub(super) fn unpack16<T: Float>(lanes: &[u8], scale: f32, bias: i32, block: &mut [T]) {
    for (element, lane) in block.iter_mut().zip(lanes.chunks_exact(2)) {
        let sum = i32::from(u16::from_be_bytes([lane[0], lane[1]])) - bias;
        *element = T::from_f32(sum as f32 * scale);
    }
}

pub(super) fn unpack32<T: Float>(lanes: &[u8], scale: f32, block: &mut [T]) {
    for (element, lane) in block.iter_mut().zip(lanes.chunks_exact(4)) {
        let sum = i32::from_be_bytes([lane[0], lane[1], lane[2], lane[3]]);
        *element = T::from_f32(sum as f32 * scale);
    }
}

/// Numbers of so small a magnitude that a scaled product could be rounded twice do not matter: the switch's units are
/// larger.
pub(super) fn pack_half<T: Float>(block: &[T], scale: f32, lanes: &mut [u8]) {
    for (element, lane) in block.iter().zip(lanes.chunks_exact_mut(2)) {
        lane.copy_from_slice(&f16::from_f32(element.to_f32() * scale).to_be_bytes());
    }
}

pub(super) fn unpack_half<T: Float>(lanes: &[u8], scale: f32, block: &mut [T]) {
    for (element, lane) in block.iter_mut().zip(lanes.chunks_exact(2)) {
        *element = T::from_f32(f16::from_be_bytes([lane[0], lane[1]]).to_f32() * scale);
    }
}

pub(super) fn pack_float<T: Float>(block: &[T], lanes: &mut [u8]) {
    for (element, lane) in block.iter().zip(lanes.chunks_exact_mut(4)) {
        lane.copy_from_slice(&element.to_f32().to_be_bytes());
    }
}

pub(super) fn unpack_float<T: Float>(lanes: &[u8], block: &mut [T]) {
    for (element, lane) in block.iter_mut().zip(lanes.chunks_exact(4)) {
        *element = T::from_f32(f32::from_be_bytes([lane[0], lane[1], lane[2], lane[3]]));
    }
}
