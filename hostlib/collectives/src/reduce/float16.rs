//! The 16-bit floats as binary32 values. Rounding is to nearest even, NaN is canonical.

use half::f16;

/// The value of a bfloat16: exact.
#[inline(always)]
pub(crate) fn widen_bf16(bits: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_ne_bytes(bits)) << 16)
}

/// Rounds to bfloat16. A NaN must be canonical already, which keeps the addition from running over.
#[inline(always)]
pub(crate) fn narrow_bf16(value: f32) -> [u8; 2] {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
    ((rounded >> 16) as u16).to_ne_bytes()
}

/// The value of a binary16: exact. Without instructions for it.
#[inline]
pub(crate) fn widen_f16(bits: [u8; 2]) -> f32 {
    f16::from_ne_bytes(bits).to_f32_const()
}

/// Rounds to binary16. Without instructions for it.
#[inline]
pub(crate) fn narrow_f16(value: f32) -> [u8; 2] {
    f16::from_f32_const(value).to_ne_bytes()
}
