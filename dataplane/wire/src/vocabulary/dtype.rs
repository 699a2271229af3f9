//! Element types of tensors.

use super::coded_enum;

coded_enum! {
    /// The element type of the caller's tensor.
    DType {
        /// No tensor (barrier).
        None = 0 "none",
        /// binary32.
        F32 = 1 "f32",
        /// binary16.
        F16 = 2 "f16",
        /// bfloat16.
        Bf16 = 3 "bf16",
        /// 32-bit two's complement.
        I32 = 4 "i32",
        /// binary64.
        F64 = 5 "f64",
        /// 8-bit two's complement.
        I8 = 6 "i8",
        /// 16-bit two's complement.
        I16 = 7 "i16",
        /// 64-bit two's complement.
        I64 = 8 "i64",
        /// 8 bits, unsigned.
        U8 = 9 "u8",
        /// 16 bits, unsigned.
        U16 = 10 "u16",
        /// 32 bits, unsigned.
        U32 = 11 "u32",
        /// 64 bits, unsigned.
        U64 = 12 "u64",
    }
}

impl DType {
    /// Bytes of one element; 0 for [`DType::None`].
    pub const fn size(self) -> usize {
        match self {
            Self::None => 0,
            Self::I8 | Self::U8 => 1,
            Self::F16 | Self::Bf16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }
}
