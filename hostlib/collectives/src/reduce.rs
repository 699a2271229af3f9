//! Element-wise reductions of byte buffers: what a host computes when it reduces tensors itself.
//!
//! Buffers are bytes in native byte order and of any alignment, because they come from sockets, shared memory and foreign
//! languages. No I/O, no threads, no allocation. One loop for each element type and operation, which the compiler
//! vectorises; on x86-64 the loops exist twice, and the AVX2 ones are taken where the processor has AVX2 and F16C. On aarch64 they use NEON,
//! which every processor has.
//!
//! ```
//! use netfold_collectives::reduce::{finish, reduce};
//! use netfold_collectives::{DType, ReduceOp};
//!
//! let mut mine: Vec<u8> = [1.0f32, 2.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
//! let other: Vec<u8> = [3.0f32, 4.0].iter().flat_map(|x| x.to_ne_bytes()).collect();
//! reduce(ReduceOp::Avg, DType::F32, &mut mine, &other)?; // the sum so far
//! finish(ReduceOp::Avg, DType::F32, &mut mine, 2)?; // divides, for averages only
//! assert_eq!(mine, [2.0f32, 3.0].iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<_>>());
//! # Ok::<(), netfold_collectives::reduce::ReduceError>(())
//! ```
//!
//! # Arithmetic
//!
//! The result of a step has the same bits on every machine, whatever instructions computed it:
//!
//! - *Integers* wrap. An average is the wrapped sum divided by the number of ranks, truncated toward zero, as NCCL has it
//!   (`FuncSumPostDiv`, src/device/reduce_kernel.h).
//! - *binary32, binary64*: one rounding to nearest even a step. Errors of a sum of n values are those of n - 1 additions in the
//!   order of the calls, at most (n - 1) u times the sum of magnitudes to first order, with u = 2^-24 and 2^-53.
//! - *binary16, bfloat16*: computed in binary32 and rounded to nearest even, at every step. 24 bits are at least twice 11 (8)
//!   bits and 2 more, so sums and products round as if once (Figueroa 1995, "When is double rounding innocuous?"), except products
//!   and quotients among bfloat16's subnormals and quotients by numbers beyond 11 (8) bits, which may be off by one part in 2^13
//!   of a unit more than half a unit in the last place. So u = 2^-11 (2^-8): callers that reduce many ranks of such types lose
//!   log2(n) bits in the worst case.
//! - *Minimum, maximum* are those of IEEE 754-2019: NaN if either is NaN (as in PyTorch and NumPy), and -0 below +0.
//! - *NaN*: any NaN that a step computes is the canonical quiet one, positive and without payload. Sums, products, minima and
//!   maxima are therefore commutative to the bit.
//!
//! Bit operations are for integers alone; averages and everything else for every type. See [`supports`].

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod float16;
mod kernel;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use thiserror::Error;

use crate::{DType, ReduceOp};

#[cfg(target_arch = "aarch64")]
use aarch64::Neon as Base;
#[cfg(not(target_arch = "aarch64"))]
use kernel::Soft as Base;
use kernel::{InPlace, OutOfPlace};

/// Why buffers could not be reduced. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReduceError {
    /// The operation is not defined on this type; see [`supports`].
    #[error("{op} of {dtype} elements is not defined; convert the tensor or choose another operation")]
    Unsupported {
        /// The operation.
        op: ReduceOp,
        /// The element type.
        dtype: DType,
    },
    /// Buffers of different lengths, in bytes.
    #[error("buffers of {into} and {from} bytes cannot be reduced; they must have the same length")]
    Length {
        /// Length of the output.
        into: usize,
        /// Length of an input.
        from: usize,
    },
    /// A buffer that does not hold whole elements.
    #[error("{len} bytes are not a whole number of {dtype} elements")]
    Ragged {
        /// Length of the buffer in bytes.
        len: usize,
        /// The type of the elements.
        dtype: DType,
    },
    /// An average of nothing.
    #[error("cannot divide by zero; an average needs at least one rank")]
    DivisionByZero,
}

/// Whether `op` is defined on elements of `dtype`: bit operations on integers, everything else on every type but
/// [`DType::None`].
pub const fn supports(op: ReduceOp, dtype: DType) -> bool {
    match dtype {
        DType::None => false,
        DType::F32 | DType::F64 | DType::F16 | DType::Bf16 => !op.is_bitwise(),
        _ => true,
    }
}

/// `into[i] = into[i] op from[i]`, elements of `dtype` in native byte order, any alignment. [`ReduceOp::Avg`] adds: see
/// [`finish`]. The module's page defines the arithmetic.
///
/// # Errors
///
/// [`ReduceError`]: the operation is not defined, lengths differ, or are no multiple of the element's size.
pub fn reduce(op: ReduceOp, dtype: DType, into: &mut [u8], from: &[u8]) -> Result<(), ReduceError> {
    check(op, dtype, into.len(), from.len())?;
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = x86::Avx2::detect() {
        avx2.reduce(op, dtype, into, from);
        return Ok(());
    }
    kernel::fold(op, dtype, InPlace { into, from, half: Base });
    Ok(())
}

/// `into[i] = a[i] op b[i]`: saves a pass over memory where the result goes elsewhere. Otherwise as [`reduce`].
///
/// # Errors
///
/// As [`reduce`].
pub fn reduce_from(
    op: ReduceOp,
    dtype: DType,
    into: &mut [u8],
    a: &[u8],
    b: &[u8],
) -> Result<(), ReduceError> {
    check(op, dtype, into.len(), a.len())?;
    check(op, dtype, into.len(), b.len())?;
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = x86::Avx2::detect() {
        avx2.reduce_from(op, dtype, into, a, b);
        return Ok(());
    }
    kernel::fold(op, dtype, OutOfPlace { into, a, b, half: Base });
    Ok(())
}

/// Divides every element by `by`: floats with rounding to nearest even, integers truncated toward zero. Beyond 2^24 the
/// divisor of floats other than binary64 is itself rounded to binary32.
///
/// # Errors
///
/// [`ReduceError::DivisionByZero`] for `by == 0`; [`ReduceError::Unsupported`] for [`DType::None`];
/// [`ReduceError::Ragged`].
pub fn divide(dtype: DType, bytes: &mut [u8], by: u32) -> Result<(), ReduceError> {
    check(ReduceOp::Avg, dtype, bytes.len(), bytes.len())?;
    if by == 0 {
        return Err(ReduceError::DivisionByZero);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = x86::Avx2::detect() {
        avx2.divide(dtype, bytes, by);
        return Ok(());
    }
    kernel::divide(dtype, bytes, by, Base);
    Ok(())
}

/// The last step once the tensors of `ranks` ranks are reduced: divides for [`ReduceOp::Avg`], otherwise nothing.
///
/// # Errors
///
/// As [`divide`].
pub fn finish(op: ReduceOp, dtype: DType, bytes: &mut [u8], ranks: u32) -> Result<(), ReduceError> {
    match op {
        ReduceOp::Avg => divide(dtype, bytes, ranks),
        _ => Ok(()),
    }
}

fn check(op: ReduceOp, dtype: DType, into: usize, from: usize) -> Result<(), ReduceError> {
    if !supports(op, dtype) {
        return Err(ReduceError::Unsupported { op, dtype });
    }
    if into != from {
        return Err(ReduceError::Length { into, from });
    }
    if !into.is_multiple_of(dtype.size()) {
        return Err(ReduceError::Ragged { len: into, dtype });
    }
    Ok(())
}
