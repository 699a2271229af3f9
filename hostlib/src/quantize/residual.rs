//! What a block's mantissas leave out, in portable code: what the vector kernel must equal bit for bit.
//!
//! `value - mantissa * quantum` is computed in binary64, where the product is exact, and rounded once. Of mantissas that
//! are nearest it is exact: the difference is a multiple of the value's last place and no larger than the value.

use half::f16;

use super::rounding::{BlockRng, Range};
use super::scalar::{biased16, limit32, mantissa32, rounder16, top16};

/// Mantissas of up to 32 bits have no more significant bits than the binary32 numbers they were made of.
#[inline(always)]
fn left(value: f32, mantissa: i32, quantum: f32) -> f32 {
    (f64::from(value) - f64::from(mantissa as f32) * f64::from(quantum)) as f32
}

pub(super) fn nearest16(block: &[f32], (scale, quantum): (f32, f32), headroom: u32, residual: &mut [f32]) {
    let (rounder, top) = (rounder16(headroom), i32::from(top16(headroom)));
    let bias = 1 << (15 - headroom);
    for (value, residual) in block.iter().zip(residual) {
        *residual = left(*value, biased16(*value, scale, rounder, top) - bias, quantum);
    }
}

pub(super) fn nearest32(block: &[f32], (scale, quantum): (f32, f32), headroom: u32, residual: &mut [f32]) {
    let (limit, top) = (limit32(headroom), i32::MAX >> headroom);
    for (value, residual) in block.iter().zip(residual) {
        *residual = left(*value, mantissa32(*value, scale, limit, top), quantum);
    }
}

/// `first` is the number of the slice's first element in its block.
pub(super) fn stochastic(
    block: &[f32],
    (range, quantum): (Range, f32),
    (rng, first): (BlockRng, u32),
    residual: &mut [f32],
) {
    for ((value, residual), element) in block.iter().zip(residual).zip(first..) {
        *residual = left(*value, range.mantissa(*value, rng.draw(element)), quantum);
    }
}

pub(super) fn half(block: &[f32], (scale, quantum): (f32, f32), residual: &mut [f32]) {
    for (value, residual) in block.iter().zip(residual) {
        let sent = f16::from_f32(value * scale).to_f64() * f64::from(quantum);
        *residual = (f64::from(*value) - sent) as f32;
    }
}
