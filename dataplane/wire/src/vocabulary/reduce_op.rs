//! Reductions.

use super::coded_enum;

coded_enum! {
    /// The reduction of a collective.
    ReduceOp {
        /// Sum of all ranks' elements.
        Sum = 0 "sum",
        /// Sum divided by the number of ranks.
        Avg = 1 "avg",
        /// Product.
        Product = 2 "product",
        /// Smallest; NaN if any is NaN.
        Min = 3 "min",
        /// Largest; NaN if any is NaN.
        Max = 4 "max",
        /// Bitwise and; integers only.
        BitAnd = 5 "bit_and",
        /// Bitwise or; integers only.
        BitOr = 6 "bit_or",
        /// Bitwise exclusive or; integers only.
        BitXor = 7 "bit_xor",
    }
}

impl ReduceOp {
    /// Whether this works on bits and not on numbers.
    pub const fn is_bitwise(self) -> bool {
        matches!(self, Self::BitAnd | Self::BitOr | Self::BitXor)
    }
}
