//! Processors without a kernel of their own.

use super::rounding::{BlockRng, Range};
use super::{ElementCoding, Float};
use crate::element::Element;

/// Instructions that no processor has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Simd {}

impl Simd {
    pub(super) const NAME: &str = "none";

    pub(super) fn detect() -> Option<Self> {
        None
    }
}

/// Nothing more is asked of an element type.
pub trait Vector {}

impl<T> Vector for T {}

pub(super) fn magnitude_max<T: Float>(simd: Simd, _: &[T]) -> u32 {
    match simd {}
}

pub(super) fn pack16<T: Float>(simd: Simd, _: &[T], _: f32, _: u32, _: &mut [u8]) {
    match simd {}
}

pub(super) fn pack32<T: Float>(simd: Simd, _: &[T], _: f32, _: u32, _: &mut [u8]) {
    match simd {}
}

pub(super) fn unpack16<T: Float>(simd: Simd, _: &[u8], _: f32, _: i32, _: &mut [T]) {
    match simd {}
}

pub(super) fn unpack32<T: Float>(simd: Simd, _: &[u8], _: f32, _: &mut [T]) {
    match simd {}
}

pub(super) fn pack16_stochastic<T: Float>(simd: Simd, _: &[T], _: (Range, i32), _: BlockRng, _: &mut [u8]) {
    match simd {}
}

pub(super) fn pack32_stochastic<T: Float>(simd: Simd, _: &[T], _: Range, _: BlockRng, _: &mut [u8]) {
    match simd {}
}

pub(super) fn left_of_nearest16(simd: Simd, _: &[f32], _: (f32, f32), _: u32, _: &mut [f32]) {
    match simd {}
}

pub(super) fn left_of_nearest32(simd: Simd, _: &[f32], _: (f32, f32), _: u32, _: &mut [f32]) {
    match simd {}
}

pub(super) fn left_of_chance(simd: Simd, _: &[f32], _: (Range, f32), _: BlockRng, _: &mut [f32]) {
    match simd {}
}

pub(super) fn pack_half<T: Float>(simd: Simd, _: &[T], _: f32, _: &mut [u8]) {
    match simd {}
}

pub(super) fn unpack_half<T: Float>(simd: Simd, _: &[u8], _: f32, _: &mut [T]) {
    match simd {}
}

pub(super) fn pack_float<T: Float>(simd: Simd, _: &[T], _: &mut [u8]) {
    match simd {}
}

pub(super) fn unpack_float<T: Float>(simd: Simd, _: &[u8], _: &mut [T]) {
    match simd {}
}

pub(super) fn pack_words<T: Element>(simd: Simd, _: &[T], _: &mut [u8]) {
    match simd {}
}

pub(super) fn unpack_words<T: Element>(simd: Simd, _: &[u8], _: &mut [T]) {
    match simd {}
}

pub(super) fn pack_elements(simd: Simd, _: ElementCoding, _: &[u8], _: &mut [u8]) {
    match simd {}
}

pub(super) fn unpack_elements(simd: Simd, _: ElementCoding, _: &[u8], _: &mut [u8]) {
    match simd {}
}
