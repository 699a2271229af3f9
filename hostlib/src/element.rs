//! Element types of tensors.

use std::fmt;

use half::{bf16, f16};

/// A type that tensors may be made of: `f32`, [`f16`], [`bf16`] or `i32`.
///
/// Sealed: each one has its own coding on the wire.
pub trait Element: Copy + Default + Send + Sync + 'static + sealed::Sealed {
    /// The type's name at run time.
    const DTYPE: Dtype;
}

/// Element type of a tensor, at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Dtype {
    /// IEEE 754 binary32.
    F32 = 1,
    /// IEEE 754 binary16.
    F16 = 2,
    /// The upper half of binary32.
    Bf16 = 3,
    /// 32-bit two's complement.
    I32 = 4,
}

impl Dtype {
    /// Every element type.
    pub const ALL: &'static [Self] = &[Self::F32, Self::F16, Self::Bf16, Self::I32];

    /// The name in reports and error messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I32 => "i32",
        }
    }

    /// Size of one element in bytes.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// The code in operation descriptors (4 bits, never 0).
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The type of a descriptor's code, if it is one.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|dtype| dtype.code() == code)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! elements {
    ($($ty:ty => $dtype:ident),+ $(,)?) => {
        $(
            impl Element for $ty {
                const DTYPE: Dtype = Dtype::$dtype;
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

elements! { f32 => F32, f16 => F16, bf16 => Bf16, i32 => I32 }

pub(crate) mod sealed {
    pub trait Sealed: Sized {
        /// Writes the element's bits, big-endian, to exactly its own number of bytes.
        fn store_be(self, to: &mut [u8]);
        /// Reads the element's bits, big-endian, from exactly its own number of bytes.
        fn load_be(from: &[u8]) -> Self;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_fit_a_descriptor_and_come_back() {
        for &dtype in Dtype::ALL {
            assert!((1..16).contains(&dtype.code()), "{dtype}");
            assert_eq!(Dtype::from_code(dtype.code()), Some(dtype));
        }
        assert_eq!(Dtype::from_code(0), None);
        assert_eq!(<i32 as Element>::DTYPE.size_bytes(), size_of::<i32>());
        assert_eq!(<bf16 as Element>::DTYPE.size_bytes(), size_of::<bf16>());
    }
}
