//! Element types of tensors.

use half::{bf16, f16};
use netfold_wire::DType;

/// A type that tensors may be made of: `f32`, `f64`, [`f16`](struct@f16), [`bf16`] and the integers of 8 to 64 bits.
///
/// Sealed: each one has its own coding on the wire.
pub trait Element: Copy + Default + Send + Sync + 'static + sealed::Sealed {
    /// The type's name at run time.
    const DTYPE: DType;
}

pub(crate) mod sealed {
    pub trait Sealed: Sized {
        /// Writes the element's bits, big-endian, to exactly its own number of bytes.
        fn store_be(self, to: &mut [u8]);
        /// Reads the element's bits, big-endian, from exactly its own number of bytes.
        fn load_be(from: &[u8]) -> Self;
    }
}

macro_rules! elements {
    ($($ty:ty => $dtype:ident),+ $(,)?) => {
        $(
            impl Element for $ty {
                const DTYPE: DType = DType::$dtype;
            }
            impl sealed::Sealed for $ty {
                #[inline(always)]
                fn store_be(self, to: &mut [u8]) {
                    to.copy_from_slice(&self.to_be_bytes());
                }
                #[inline(always)]
                fn load_be(from: &[u8]) -> Self {
                    let mut bytes = [0; size_of::<$ty>()];
                    bytes.copy_from_slice(from);
                    Self::from_be_bytes(bytes)
                }
            }
        )+
    };
}

elements! {
    f32 => F32, f64 => F64, f16 => F16, bf16 => Bf16,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
}
