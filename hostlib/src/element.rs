//! Element types of tensors.

use half::{bf16, f16};
use netfold_proto::DType;

use crate::buffer::{Storage, Tensor};

/// A type that tensors may be made of: `f32`, [`f16`](struct@f16), [`bf16`] or `i32`.
///
/// Sealed: each one has its own coding on the wire.
pub trait Element: Copy + Default + Send + Sync + 'static + sealed::Sealed {
    /// The type's name at run time.
    const DTYPE: DType;
}

pub(crate) mod sealed {
    use super::{Storage, Tensor};

    pub trait Sealed: Sized {
        /// Writes the element's bits, big-endian, to exactly its own number of bytes.
        fn store_be(self, to: &mut [u8]);
        /// Reads the element's bits, big-endian, from exactly its own number of bytes.
        fn load_be(from: &[u8]) -> Self;
        /// Forgets the type.
        fn tensor(storage: Storage<Self>) -> Tensor;
        /// Remembers the type, when it is the right one.
        fn storage(tensor: Tensor) -> Option<Storage<Self>>;
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
                fn tensor(storage: Storage<Self>) -> Tensor {
                    Tensor::$dtype(storage)
                }
                fn storage(tensor: Tensor) -> Option<Storage<Self>> {
                    match tensor {
                        Tensor::$dtype(storage) => Some(storage),
                        _ => None,
                    }
                }
            }
        )+
    };
}

elements! { f32 => F32, f16 => F16, bf16 => Bf16, i32 => I32 }
