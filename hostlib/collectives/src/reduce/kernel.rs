//! The loops: every element type and operation, in place and out of place.
//!
//! Loops load and store arrays of bytes, which costs nothing over aligned loads on the processors of the last decade and
//! frees callers from alignment. Everything is inlined into its caller, so that it is compiled once for each instruction set.

use crate::DType;

use crate::ReduceOp;
use crate::reduce::float16::{narrow_bf16, widen_bf16};
#[cfg(any(test, not(target_arch = "aarch64")))]
use crate::reduce::float16::{narrow_f16, widen_f16};

/// Elements of binary16 converted at a time: two such blocks of binary32 stay in the first-level cache.
const BLOCK: usize = 256;

/// A block of binary16, widened.
pub(crate) type Block = [f32; BLOCK];

/// Conversion of blocks of binary16.
pub(crate) trait HalfConvert: Copy {
    /// Widens up to [`BLOCK`] elements (`from.len() / 2`) into the front of `into`.
    fn widen(self, from: &[u8], into: &mut Block);
    /// Rounds as many elements as fit into `into`; NaN must be canonical.
    fn narrow(self, from: &Block, into: &mut [u8]);
}

/// Conversion by integer arithmetic.
#[cfg(any(test, not(target_arch = "aarch64")))]
#[derive(Clone, Copy)]
pub(crate) struct Soft;

#[cfg(any(test, not(target_arch = "aarch64")))]
impl HalfConvert for Soft {
    fn widen(self, from: &[u8], into: &mut Block) {
        for (to, bits) in into.iter_mut().zip(from.as_chunks::<2>().0) {
            *to = widen_f16(*bits);
        }
    }

    fn narrow(self, from: &Block, into: &mut [u8]) {
        for (to, value) in into.as_chunks_mut::<2>().0.iter_mut().zip(from) {
            *to = narrow_f16(*value);
        }
    }
}

/// Two inputs and an output that go through the same loop.
pub(crate) trait Operands {
    /// Applies `f` to every pair of elements of N bytes.
    fn each<const N: usize>(self, f: impl Fn([u8; N], [u8; N]) -> [u8; N]);
    /// Applies `f` to every pair of binary16 elements, widened.
    fn each_half(self, f: impl Fn(f32, f32) -> f32);
}

/// `into = into op from`.
pub(crate) struct InPlace<'a, H> {
    pub(crate) into: &'a mut [u8],
    pub(crate) from: &'a [u8],
    pub(crate) half: H,
}

/// `into = a op b`.
pub(crate) struct OutOfPlace<'a, H> {
    pub(crate) into: &'a mut [u8],
    pub(crate) a: &'a [u8],
    pub(crate) b: &'a [u8],
    pub(crate) half: H,
}

impl<H: HalfConvert> Operands for InPlace<'_, H> {
    #[inline(always)]
    fn each<const N: usize>(self, f: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
        for (a, b) in self.into.as_chunks_mut::<N>().0.iter_mut().zip(self.from.as_chunks::<N>().0) {
            *a = f(*a, *b);
        }
    }

    #[inline(always)]
    fn each_half(self, f: impl Fn(f32, f32) -> f32) {
        let (mut x, mut y) = ([0.0; BLOCK], [0.0; BLOCK]);
        for (into, from) in self.into.chunks_mut(2 * BLOCK).zip(self.from.chunks(2 * BLOCK)) {
            self.half.widen(into, &mut x);
            self.half.widen(from, &mut y);
            for (x, y) in x.iter_mut().zip(&y) {
                *x = f(*x, *y);
            }
            self.half.narrow(&x, into);
        }
    }
}

impl<H: HalfConvert> Operands for OutOfPlace<'_, H> {
    #[inline(always)]
    fn each<const N: usize>(self, f: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
        let inputs = self.a.as_chunks::<N>().0.iter().zip(self.b.as_chunks::<N>().0);
        for (into, (a, b)) in self.into.as_chunks_mut::<N>().0.iter_mut().zip(inputs) {
            *into = f(*a, *b);
        }
    }

    #[inline(always)]
    fn each_half(self, f: impl Fn(f32, f32) -> f32) {
        let (mut x, mut y) = ([0.0; BLOCK], [0.0; BLOCK]);
        let inputs = self.a.chunks(2 * BLOCK).zip(self.b.chunks(2 * BLOCK));
        for (into, (a, b)) in self.into.chunks_mut(2 * BLOCK).zip(inputs) {
            self.half.widen(a, &mut x);
            self.half.widen(b, &mut y);
            for (x, y) in x.iter_mut().zip(&y) {
                *x = f(*x, *y);
            }
            self.half.narrow(&x, into);
        }
    }
}

macro_rules! float_steps {
    ($($name:ident, $float:ty);+ $(;)?) => { $(
        /// One step of every operation on one float type. NaN results are canonical.
        mod $name {
            #[inline(always)]
            pub(super) fn canonical(x: $float) -> $float {
                if x.is_nan() { <$float>::NAN } else { x }
            }

            #[inline(always)]
            pub(super) fn sum(a: $float, b: $float) -> $float {
                canonical(a + b)
            }

            #[inline(always)]
            pub(super) fn product(a: $float, b: $float) -> $float {
                canonical(a * b)
            }

            #[inline(always)]
            pub(super) fn min(a: $float, b: $float) -> $float {
                // Equal values differ in the sign of zero at most, and the union of their bits has it.
                let equal = <$float>::from_bits(a.to_bits() | b.to_bits());
                let less = if a < b { a } else { b };
                let ordered = if a == b { equal } else { less };
                if a.is_nan() | b.is_nan() { <$float>::NAN } else { ordered }
            }

            #[inline(always)]
            pub(super) fn max(a: $float, b: $float) -> $float {
                let equal = <$float>::from_bits(a.to_bits() & b.to_bits());
                let more = if a > b { a } else { b };
                let ordered = if a == b { equal } else { more };
                if a.is_nan() | b.is_nan() { <$float>::NAN } else { ordered }
            }
        }
    )+ };
}

float_steps! { single, f32; double, f64 }

macro_rules! each_float {
    ($op:ident, $steps:ident, |$f:ident| $apply:expr) => {
        match $op {
            ReduceOp::Sum | ReduceOp::Avg => {
                let $f = $steps::sum;
                $apply
            }
            ReduceOp::Product => {
                let $f = $steps::product;
                $apply
            }
            ReduceOp::Min => {
                let $f = $steps::min;
                $apply
            }
            ReduceOp::Max => {
                let $f = $steps::max;
                $apply
            }
            // `supports` refuses them.
            ReduceOp::BitAnd | ReduceOp::BitOr | ReduceOp::BitXor => {}
        }
    };
}

macro_rules! each_integer {
    ($op:ident, $int:ty, |$f:ident| $apply:expr) => {
        match $op {
            ReduceOp::Sum | ReduceOp::Avg => {
                let $f = <$int>::wrapping_add;
                $apply
            }
            ReduceOp::Product => {
                let $f = <$int>::wrapping_mul;
                $apply
            }
            ReduceOp::Min => {
                let $f = <$int as Ord>::min;
                $apply
            }
            ReduceOp::Max => {
                let $f = <$int as Ord>::max;
                $apply
            }
            ReduceOp::BitAnd => {
                let $f = |a: $int, b: $int| a & b;
                $apply
            }
            ReduceOp::BitOr => {
                let $f = |a: $int, b: $int| a | b;
                $apply
            }
            ReduceOp::BitXor => {
                let $f = |a: $int, b: $int| a ^ b;
                $apply
            }
        }
    };
}

/// Applies `op` to every pair of elements. Bit operations on floats do nothing; lengths are the caller's to check.
#[inline(always)]
pub(crate) fn fold<O: Operands>(op: ReduceOp, dtype: DType, operands: O) {
    macro_rules! integer {
        ($int:ty) => {
            each_integer!(op, $int, |f| operands.each(|a, b| f(
                <$int>::from_ne_bytes(a),
                <$int>::from_ne_bytes(b)
            )
            .to_ne_bytes()))
        };
    }
    match dtype {
        DType::None => {}
        DType::F32 => {
            each_float!(op, single, |f| operands
                .each(|a, b| f(f32::from_ne_bytes(a), f32::from_ne_bytes(b)).to_ne_bytes()))
        }
        DType::F64 => {
            each_float!(op, double, |f| operands
                .each(|a, b| f(f64::from_ne_bytes(a), f64::from_ne_bytes(b)).to_ne_bytes()))
        }
        DType::Bf16 => {
            each_float!(op, single, |f| operands.each(|a, b| narrow_bf16(f(widen_bf16(a), widen_bf16(b)))))
        }
        DType::F16 => each_float!(op, single, |f| operands.each_half(f)),
        DType::I8 => integer!(i8),
        DType::I16 => integer!(i16),
        DType::I32 => integer!(i32),
        DType::I64 => integer!(i64),
        DType::U8 => integer!(u8),
        DType::U16 => integer!(u16),
        DType::U32 => integer!(u32),
        DType::U64 => integer!(u64),
    }
}

#[inline(always)]
fn map<const N: usize>(bytes: &mut [u8], f: impl Fn([u8; N]) -> [u8; N]) {
    for element in bytes.as_chunks_mut::<N>().0 {
        *element = f(*element);
    }
}

/// Divides every element; `by` is not zero.
#[inline(always)]
pub(crate) fn divide<H: HalfConvert>(dtype: DType, bytes: &mut [u8], by: u32, half: H) {
    let (single_by, double_by) = (by as f32, f64::from(by));
    macro_rules! integer {
        ($t:ty, $wide:ty) => {
            map(bytes, |x| ((<$t>::from_ne_bytes(x) as $wide / by as $wide) as $t).to_ne_bytes())
        };
    }
    match dtype {
        DType::None => {}
        DType::F32 => map(bytes, |x| single::canonical(f32::from_ne_bytes(x) / single_by).to_ne_bytes()),
        DType::F64 => map(bytes, |x| double::canonical(f64::from_ne_bytes(x) / double_by).to_ne_bytes()),
        DType::Bf16 => map(bytes, |x| narrow_bf16(single::canonical(widen_bf16(x) / single_by))),
        DType::F16 => {
            let mut block = [0.0; BLOCK];
            for bytes in bytes.chunks_mut(2 * BLOCK) {
                half.widen(bytes, &mut block);
                for x in &mut block {
                    *x = single::canonical(*x / single_by);
                }
                half.narrow(&block, bytes);
            }
        }
        DType::I8 => integer!(i8, i64),
        DType::I16 => integer!(i16, i64),
        DType::I32 => integer!(i32, i64),
        DType::I64 => integer!(i64, i64),
        DType::U8 => integer!(u8, u32),
        DType::U16 => integer!(u16, u32),
        DType::U32 => integer!(u32, u32),
        DType::U64 => integer!(u64, u64),
    }
}
