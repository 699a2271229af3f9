//! The reductions.

use core::fmt;

/// The reduction of a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum ReduceOp {
    /// Sum of all ranks' elements.
    Sum = 0,
    /// Sum divided by the number of ranks.
    Avg = 1,
    /// Product.
    Product = 2,
    /// Smallest; NaN if any is NaN.
    Min = 3,
    /// Largest; NaN if any is NaN.
    Max = 4,
    /// Bitwise and; integers only.
    BitAnd = 5,
    /// Bitwise or; integers only.
    BitOr = 6,
    /// Bitwise exclusive or; integers only.
    BitXor = 7,
}

impl ReduceOp {
    /// Every operation, by code.
    pub const ALL: &'static [Self] =
        &[Self::Sum, Self::Avg, Self::Product, Self::Min, Self::Max, Self::BitAnd, Self::BitOr, Self::BitXor];

    /// The name used in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Product => "product",
            Self::Min => "min",
            Self::Max => "max",
            Self::BitAnd => "bit_and",
            Self::BitOr => "bit_or",
            Self::BitXor => "bit_xor",
        }
    }

    /// Whether this works on bits and not on numbers.
    pub const fn is_bitwise(self) -> bool {
        matches!(self, Self::BitAnd | Self::BitOr | Self::BitXor)
    }

    /// The operation with this code (the enum's value), for messages between ranks; `None` when there is none.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
