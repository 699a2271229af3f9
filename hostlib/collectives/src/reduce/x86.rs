//! The same loops, compiled for AVX2, and binary16 converted by F16C.
#![expect(unsafe_code, reason = "calls functions compiled for instructions that were found at run time")]

use core::arch::x86_64::{
    _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_cvtph_ps, _mm256_cvtps_ph,
    _mm256_loadu_ps, _mm256_storeu_ps,
};

use crate::DType;

use crate::ReduceOp;
use crate::reduce::float16::{narrow_f16, widen_f16};
use crate::reduce::kernel::{self, Block, HalfConvert, InPlace, OutOfPlace};

/// Proof that the processor has AVX2 and F16C: only [`Avx2::detect`] makes one.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// Looks at the processor; the answer is cached by the standard library.
    #[inline]
    pub(crate) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c")).then_some(Self(()))
    }

    /// As [`kernel::fold`] of [`InPlace`].
    pub(crate) fn reduce(self, op: ReduceOp, dtype: DType, into: &mut [u8], from: &[u8]) {
        // SAFETY: `self` exists, so the processor has AVX2 and F16C.
        unsafe { reduce(self, op, dtype, into, from) }
    }

    /// As [`kernel::fold`] of [`OutOfPlace`].
    pub(crate) fn reduce_from(self, op: ReduceOp, dtype: DType, into: &mut [u8], a: &[u8], b: &[u8]) {
        // SAFETY: as in `reduce`.
        unsafe { reduce_from(self, op, dtype, into, a, b) }
    }

    /// As [`kernel::divide`].
    pub(crate) fn divide(self, dtype: DType, bytes: &mut [u8], by: u32) {
        // SAFETY: as in `reduce`.
        unsafe { divide(self, dtype, bytes, by) }
    }
}

impl HalfConvert for Avx2 {
    #[inline]
    fn widen(self, from: &[u8], into: &mut Block) {
        // SAFETY: `self` exists, so the processor has AVX2 and F16C.
        unsafe { widen(from, into) }
    }

    #[inline]
    fn narrow(self, from: &Block, into: &mut [u8]) {
        // SAFETY: as in `widen`.
        unsafe { narrow(from, into) }
    }
}

#[target_feature(enable = "avx2,f16c")]
fn reduce(half: Avx2, op: ReduceOp, dtype: DType, into: &mut [u8], from: &[u8]) {
    kernel::fold(op, dtype, InPlace { into, from, half });
}

#[target_feature(enable = "avx2,f16c")]
fn reduce_from(half: Avx2, op: ReduceOp, dtype: DType, into: &mut [u8], a: &[u8], b: &[u8]) {
    kernel::fold(op, dtype, OutOfPlace { into, a, b, half });
}

#[target_feature(enable = "avx2,f16c")]
fn divide(half: Avx2, dtype: DType, bytes: &mut [u8], by: u32) {
    kernel::divide(dtype, bytes, by, half);
}

#[target_feature(enable = "avx2,f16c")]
fn widen(from: &[u8], into: &mut Block) {
    let (eights, rest) = from.as_chunks::<16>();
    let (to_eights, _) = into.as_chunks_mut::<8>();
    for (to, eight) in to_eights.iter_mut().zip(eights) {
        // SAFETY: `eight` is 16 readable bytes and `to` 8 writable floats; neither access needs alignment.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(eight.as_ptr().cast()))) };
    }
    for (to, bits) in into.iter_mut().skip(8 * eights.len()).zip(rest.as_chunks::<2>().0) {
        *to = widen_f16(*bits);
    }
}

#[target_feature(enable = "avx2,f16c")]
fn narrow(from: &Block, into: &mut [u8]) {
    let (eights, rest) = into.as_chunks_mut::<16>();
    let done = 8 * eights.len();
    for (eight, from) in eights.iter_mut().zip(from.as_chunks::<8>().0) {
        // SAFETY: `from` is 8 readable floats and `eight` 16 writable bytes; neither access needs alignment.
        unsafe {
            let bits = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(from.as_ptr()));
            _mm_storeu_si128(eight.as_mut_ptr().cast(), bits);
        }
    }
    for (bits, value) in rest.as_chunks_mut::<2>().0.iter_mut().zip(from.iter().skip(done)) {
        *bits = narrow_f16(*value);
    }
}
