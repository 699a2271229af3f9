//! The NEON kernel's mantissas: to the nearest, stochastic, and what rounding leaves out.
#![expect(unsafe_code, reason = "as in the module above")]

use std::arch::aarch64::*;

use super::super::rounding::{BlockRng, DRAW_BITS, DRAW_RANGE, FACTORS, Range, STRIDE};
use super::super::{Float, residual as portable, scalar};
use super::{Neon, store_words, swap_bytes_of_u16};

/// Mantissas of four numbers at a time.
trait Mantissas {
    /// Those of the next four numbers.
    ///
    /// # Safety
    ///
    /// The processor has NEON.
    unsafe fn next(&mut self, values: float32x4_t) -> int32x4_t;
}

/// Stochastic, from the block's first element on.
struct ByChance {
    scale: float32x4_t,
    low: float32x4_t,
    high: float32x4_t,
    counters: uint32x4_t,
    twist: uint32x4_t,
}

impl ByChance {
    #[target_feature(enable = "neon")]
    fn new(range: Range, rng: BlockRng) -> Self {
        let starts: [u32; 4] = std::array::from_fn(|i| rng.start.wrapping_add(STRIDE.wrapping_mul(i as u32)));
        Self {
            scale: vdupq_n_f32(range.scale),
            low: vdupq_n_f32(range.low),
            high: vdupq_n_f32(range.high),
            // SAFETY: 16 bytes are read.
            counters: unsafe { vld1q_u32(starts.as_ptr()) },
            twist: vdupq_n_u32(rng.twist),
        }
    }
}

impl Mantissas for ByChance {
    #[inline(always)]
    unsafe fn next(&mut self, values: float32x4_t) -> int32x4_t {
        // SAFETY: the caller's contract.
        unsafe {
            let x = self.counters;
            self.counters = vaddq_u32(x, vdupq_n_u32(STRIDE.wrapping_mul(4)));
            let x = vmulq_u32(veorq_u32(x, vshrq_n_u32::<16>(x)), vdupq_n_u32(FACTORS[0]));
            let x = veorq_u32(x, self.twist);
            let x = vmulq_u32(veorq_u32(x, vshrq_n_u32::<15>(x)), vdupq_n_u32(FACTORS[1]));
            let x = veorq_u32(x, vshrq_n_u32::<16>(x));
            let draw = vcvtq_f32_u32(vshrq_n_u32::<{ 32 - DRAW_BITS as i32 }>(x));
            // Comparisons and not minima: those of this architecture are NaN when the number is.
            let scaled = vmulq_f32(values, self.scale);
            let scaled = vbslq_f32(vcgtq_f32(scaled, self.low), scaled, self.low);
            let scaled = vbslq_f32(vcltq_f32(scaled, self.high), scaled, self.high);
            let below = vrndmq_f32(scaled);
            let distance = vmulq_f32(vsubq_f32(scaled, below), vdupq_n_f32(DRAW_RANGE));
            // All ones, so -1, where the mantissa is the next higher one.
            let up = vreinterpretq_s32_u32(vcltq_f32(draw, distance));
            vsubq_s32(vcvtq_s32_f32(below), up)
        }
    }
}

/// To the nearest, as the lanes of bfp16 have them.
struct Nearest16 {
    scale: float32x4_t,
    rounder: float32x4_t,
    zero: int32x4_t,
    top: int32x4_t,
    bias: int32x4_t,
}

impl Nearest16 {
    #[target_feature(enable = "neon")]
    fn new(scale: f32, headroom: u32) -> Self {
        Self {
            scale: vdupq_n_f32(scale),
            rounder: vdupq_n_f32(scalar::rounder16(headroom)),
            zero: vdupq_n_s32(scalar::ROUND_BITS),
            top: vdupq_n_s32(i32::from(scalar::top16(headroom))),
            bias: vdupq_n_s32(1 << (15 - headroom)),
        }
    }
}

impl Mantissas for Nearest16 {
    #[inline(always)]
    unsafe fn next(&mut self, values: float32x4_t) -> int32x4_t {
        // SAFETY: the caller's contract.
        unsafe {
            let rounded = vreinterpretq_s32_f32(vfmaq_f32(self.rounder, values, self.scale));
            let biased = vsubq_s32(vmaxq_s32(rounded, self.zero), self.zero);
            vsubq_s32(vminq_s32(biased, self.top), self.bias)
        }
    }
}

/// To the nearest, as the lanes of bfp32 have them.
#[derive(Clone, Copy)]
pub(super) struct Nearest32 {
    scale: float32x4_t,
    limit: float32x4_t,
    low: float32x4_t,
    top: int32x4_t,
}

impl Nearest32 {
    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn new(scale: f32, headroom: u32) -> Self {
        Self {
            scale: vdupq_n_f32(scale),
            limit: vdupq_n_f32(scalar::limit32(headroom)),
            low: vdupq_n_f32(-scalar::limit32(headroom)),
            top: vdupq_n_s32(i32::MAX >> headroom),
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn mantissas(self, values: float32x4_t) -> int32x4_t {
        let scaled = vmulq_f32(values, self.scale);
        let over = vcgeq_f32(scaled, self.limit);
        let clamped = vbslq_f32(vcgtq_f32(scaled, self.low), scaled, self.low);
        vbslq_s32(over, self.top, vcvtnq_s32_f32(clamped))
    }
}

impl Mantissas for Nearest32 {
    #[inline(always)]
    unsafe fn next(&mut self, values: float32x4_t) -> int32x4_t {
        // SAFETY: the caller's contract.
        unsafe { self.mantissas(values) }
    }
}

#[inline]
pub(in super::super) fn pack16<T: Float>(
    _: Neon,
    block: &[T],
    (range, bias): (Range, i32),
    rng: BlockRng,
    lanes: &mut [u8],
) {
    // SAFETY: `Neon` proves the feature.
    unsafe { pack16_neon(block, (range, bias), rng, lanes) }
}

#[target_feature(enable = "neon")]
fn pack16_neon<T: Float>(block: &[T], (range, bias): (Range, i32), rng: BlockRng, lanes: &mut [u8]) {
    assert_eq!(lanes.len(), 2 * block.len());
    let mut mantissas = ByChance::new(range, rng);
    let offset = vdupq_n_s32(bias);
    let mut blocks = block.chunks_exact(8);
    let mut packed = lanes.chunks_exact_mut(16);
    for (from, to) in (&mut blocks).zip(&mut packed) {
        // SAFETY: `from` holds 8 elements and `to` 16 bytes, and this function has the feature.
        unsafe {
            let [low, high] = T::load(from.as_ptr());
            let low = vqmovun_s32(vaddq_s32(mantissas.next(low), offset));
            let high = vqmovun_s32(vaddq_s32(mantissas.next(high), offset));
            vst1q_u16(to.as_mut_ptr().cast(), swap_bytes_of_u16(vcombine_u16(low, high)));
        }
    }
    let rest = blocks.remainder();
    let first = (block.len() - rest.len()) as u32;
    scalar::pack16_stochastic(rest, (range, bias), (rng, first), packed.into_remainder());
}

#[inline]
pub(in super::super) fn pack32<T: Float>(
    _: Neon,
    block: &[T],
    range: Range,
    rng: BlockRng,
    lanes: &mut [u8],
) {
    // SAFETY: `Neon` proves the feature.
    unsafe { pack32_neon(block, range, rng, lanes) }
}

#[target_feature(enable = "neon")]
fn pack32_neon<T: Float>(block: &[T], range: Range, rng: BlockRng, lanes: &mut [u8]) {
    assert_eq!(lanes.len(), 4 * block.len());
    let mut mantissas = ByChance::new(range, rng);
    let mut blocks = block.chunks_exact(8);
    let mut packed = lanes.chunks_exact_mut(32);
    for (from, to) in (&mut blocks).zip(&mut packed) {
        // SAFETY: `from` holds 8 elements and `to` 32 bytes, and this function has the feature.
        unsafe {
            let [low, high] = T::load(from.as_ptr());
            let low = mantissas.next(low);
            store_words(to.as_mut_ptr(), [low, mantissas.next(high)]);
        }
    }
    let rest = blocks.remainder();
    let first = (block.len() - rest.len()) as u32;
    scalar::pack32_stochastic(rest, range, (rng, first), packed.into_remainder());
}

/// `value - mantissa * quantum` of whole groups of four; the number of elements done. A fused operation rounds once, as
/// the portable code does.
#[target_feature(enable = "neon")]
fn subtract(mut mantissas: impl Mantissas, block: &[f32], quantum: f32, residual: &mut [f32]) -> usize {
    assert_eq!(block.len(), residual.len());
    let quanta = vdupq_n_f32(quantum);
    for (from, to) in block.chunks_exact(4).zip(residual.chunks_exact_mut(4)) {
        // SAFETY: each group holds 4 elements, and this function has the feature.
        unsafe {
            let values = vld1q_f32(from.as_ptr());
            let sent = vcvtq_f32_s32(mantissas.next(values));
            vst1q_f32(to.as_mut_ptr(), vfmsq_f32(values, sent, quanta));
        }
    }
    block.len() / 4 * 4
}

/// [`portable::nearest16`].
#[inline]
pub(in super::super) fn left_of_nearest16(
    _: Neon,
    block: &[f32],
    scales: (f32, f32),
    headroom: u32,
    residual: &mut [f32],
) {
    // SAFETY: `Neon` proves the feature.
    let done = unsafe { subtract(Nearest16::new(scales.0, headroom), block, scales.1, residual) };
    portable::nearest16(&block[done..], scales, headroom, &mut residual[done..]);
}

/// [`portable::nearest32`].
#[inline]
pub(in super::super) fn left_of_nearest32(
    _: Neon,
    block: &[f32],
    scales: (f32, f32),
    headroom: u32,
    residual: &mut [f32],
) {
    // SAFETY: `Neon` proves the feature.
    let done = unsafe { subtract(Nearest32::new(scales.0, headroom), block, scales.1, residual) };
    portable::nearest32(&block[done..], scales, headroom, &mut residual[done..]);
}

/// [`portable::stochastic`] from the block's first element on.
#[inline]
pub(in super::super) fn left_of_chance(
    _: Neon,
    block: &[f32],
    (range, quantum): (Range, f32),
    rng: BlockRng,
    residual: &mut [f32],
) {
    // SAFETY: `Neon` proves the feature.
    let done = unsafe { subtract(ByChance::new(range, rng), block, quantum, residual) };
    let rng = (rng, done as u32);
    portable::stochastic(&block[done..], (range, quantum), rng, &mut residual[done..]);
}
