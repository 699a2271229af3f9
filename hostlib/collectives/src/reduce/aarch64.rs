//! Conversion of binary16 by NEON. The loops need no second build: every processor of this architecture that runs Linux has NEON, so compilers
//! use it everywhere.
//!
//! The conversions belong to the base instruction set, but the standard library has no stable function for them, hence the assembly.
#![expect(unsafe_code, reason = "vector loads and stores, and instructions of the base instruction set")]

use core::arch::aarch64::{
    float32x4_t, uint16x4_t, uint16x8_t, vcombine_u16, vld1q_f32, vld1q_u16, vst1q_f32, vst1q_u16,
};
use core::arch::asm;

use crate::reduce::float16::{narrow_f16, widen_f16};
use crate::reduce::kernel::{Block, HalfConvert};

/// Conversion by NEON.
#[derive(Clone, Copy)]
pub(crate) struct Neon;

impl HalfConvert for Neon {
    #[inline]
    fn widen(self, from: &[u8], into: &mut Block) {
        let (eights, rest) = from.as_chunks::<16>();
        let (to_eights, _) = into.as_chunks_mut::<8>();
        for (to, eight) in to_eights.iter_mut().zip(eights) {
            // SAFETY: `eight` is 16 readable bytes and `to` 8 writable floats; no access needs alignment. The processor has NEON, without
            // which the standard library does not start.
            unsafe {
                let [low, high] = widen_eight(vld1q_u16(eight.as_ptr().cast()));
                vst1q_f32(to.as_mut_ptr(), low);
                vst1q_f32(to.as_mut_ptr().add(4), high);
            }
        }
        for (to, bits) in into.iter_mut().skip(8 * eights.len()).zip(rest.as_chunks::<2>().0) {
            *to = widen_f16(*bits);
        }
    }

    #[inline]
    fn narrow(self, from: &Block, into: &mut [u8]) {
        let (eights, rest) = into.as_chunks_mut::<16>();
        let done = 8 * eights.len();
        for (eight, from) in eights.iter_mut().zip(from.as_chunks::<8>().0) {
            // SAFETY: `from` is 8 readable floats and `eight` 16 writable bytes; no access needs alignment. The processor has NEON, as above.
            unsafe {
                let (low, high) = (vld1q_f32(from.as_ptr()), vld1q_f32(from.as_ptr().add(4)));
                vst1q_u16(eight.as_mut_ptr().cast(), narrow_eight(low, high));
            }
        }
        for (bits, value) in rest.as_chunks_mut::<2>().0.iter_mut().zip(from.iter().skip(done)) {
            *bits = narrow_f16(*value);
        }
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn widen_eight(halves: uint16x8_t) -> [float32x4_t; 2] {
    let (low, high);
    // SAFETY: both instructions read and write registers only, and belong to the base instruction set.
    unsafe {
        asm!("fcvtl {0:v}.4s, {1:v}.4h", out(vreg) low, in(vreg) halves, options(pure, nomem, nostack));
        asm!("fcvtl2 {0:v}.4s, {1:v}.8h", out(vreg) high, in(vreg) halves, options(pure, nomem, nostack));
    }
    [low, high]
}

#[inline]
#[target_feature(enable = "neon")]
fn narrow_eight(low: float32x4_t, high: float32x4_t) -> uint16x8_t {
    let (first, second): (uint16x4_t, uint16x4_t);
    // SAFETY: both instructions read and write registers only, and belong to the base instruction set.
    unsafe {
        asm!("fcvtn {0:v}.4h, {1:v}.4s", out(vreg) first, in(vreg) low, options(pure, nomem, nostack));
        asm!("fcvtn {0:v}.4h, {1:v}.4s", out(vreg) second, in(vreg) high, options(pure, nomem, nostack));
    }
    vcombine_u16(first, second)
}
