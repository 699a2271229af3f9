//! Numeric modes: how the elements of a tensor travel, and what a switch computes with them.

use serde::{Deserialize, Serialize};

use super::{coded_enum, one_of};
use crate::{LaneOp, WORLD_MAX};

coded_enum! {
    /// How floating-point tensors travel in a job.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    Mode {
        /// Integers as they are; floating-point tensors are refused.
        I32 = 0 "i32",
        /// Block floating point, 32-bit mantissas.
        Bfp32 = 1 "bfp32",
        /// Block floating point, two biased 16-bit mantissas in a word.
        Bfp16 = 2 "bfp16",
        /// Block floating point, 32-bit mantissas with half the headroom; chunks that saturate are repeated with full headroom.
        Saturating = 3 "saturating",
        /// Block floating point, two biased 16-bit mantissas in a word without headroom; sums are shifted on the way down.
        Wide = 4 "wide",
        /// `f16` tensors as they are.
        Half = 5 "half",
        /// `f32` tensors as they are, `f16` and `bf16` widened to it.
        Float = 6 "float",
    }
}

impl Mode {
    /// What a switch must run for a job of this mode, and how floating-point tensors lie in the lanes, if they may be sent: the mode's
    /// row of the table.
    const fn row(self) -> (Numerics, Option<Lanes>) {
        match self {
            Self::I32 => (Numerics::Word, None),
            Self::Bfp32 => (Numerics::Word, Some(Lanes::Bfp32)),
            Self::Bfp16 => (Numerics::Word, Some(Lanes::Bfp16)),
            Self::Saturating => (Numerics::Saturating, Some(Lanes::Saturating)),
            Self::Wide => (Numerics::Wide, Some(Lanes::Wide)),
            Self::Half => (Numerics::Half, Some(Lanes::Half)),
            Self::Float => (Numerics::Float, Some(Lanes::Float)),
        }
    }

    /// What a switch must run for a job of this mode.
    pub const fn numerics(self) -> Numerics {
        self.row().0
    }

    /// How floating-point tensors lie in the lanes; `None` where they are refused.
    pub const fn lanes(self) -> Option<Lanes> {
        self.row().1
    }

    /// Tensor elements that one 32-bit lane word carries.
    pub const fn elements_per_word(self) -> usize {
        match self.lanes() {
            Some(lanes) => 4 / lanes.element_bytes(),
            None => 1,
        }
    }
}

impl core::str::FromStr for Mode {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::from_name(text).ok_or_else(|| {
            format!("unknown mode '{text}': expected {}", one_of(Self::ALL.iter().map(|mode| mode.name())))
        })
    }
}

coded_enum! {
    /// How a switch folds lanes: a property of its program.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    Numerics {
        /// 32-bit words, wrapping: what the modes `i32`, `bfp32` and `bfp16` use.
        Word = 0 "word",
        /// 32-bit words whose sums stop at the ends of the range; a result with such a word is flagged.
        Saturating = 1 "saturating",
        /// 16-bit lanes with 32-bit sums, shifted right on the way out.
        Wide = 2 "wide",
        /// IEEE 754 binary16 lanes, summed in fixed point.
        Half = 3 "half",
        /// IEEE 754 binary32 lanes, summed as mantissas under a common exponent.
        Float = 4 "float",
    }
}

impl Numerics {
    /// Width of a lane on the wire in bits, and whether sums are not those of the lanes' bits: the row of the table.
    const fn row(self) -> (u32, bool) {
        match self {
            Self::Word | Self::Saturating => (32, false),
            Self::Wide | Self::Half => (16, true),
            Self::Float => (32, true),
        }
    }

    /// Width of a lane on the wire, in bits.
    pub const fn lane_bits(self) -> u32 {
        self.row().0
    }

    /// Whether sums are not those of the lanes' bits. The maximum is over unsigned bits then.
    pub const fn converts(self) -> bool {
        self.row().1
    }

    /// The operations on lanes that a program with these numerics may have.
    pub const fn lane_ops(self) -> &'static [LaneOp] {
        match self {
            Self::Word => LaneOp::ALL,
            Self::Saturating => &[LaneOp::Sum, LaneOp::Min, LaneOp::Max],
            Self::Wide | Self::Half | Self::Float => &[LaneOp::Sum, LaneOp::Max],
        }
    }

    /// The operation that carries bits unchanged when all ranks but one contribute zeros.
    pub const fn carrier(self) -> LaneOp {
        if self.converts() { LaneOp::Max } else { LaneOp::Sum }
    }

    /// The modes of a job at such a switch, as text: "i32, bfp32 or bfp16".
    pub fn modes(self) -> String {
        one_of(Mode::ALL.iter().filter(|mode| mode.numerics() == self).map(|mode| mode.name()))
    }
}

impl core::str::FromStr for Numerics {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Self::from_name(text).ok_or_else(|| {
            let names = one_of(Self::ALL.iter().map(|numerics| numerics.name()));
            format!("unknown numerics '{text}': expected {names}")
        })
    }
}

/// Fewest bits of a mantissa, its sign not counted, that headroom may leave: with fewer, sums would be noise.
pub const MANTISSA_BITS_MIN: u32 = 8;

/// How the elements of a block lie in the lanes. Where two share a word, element 2i is its upper half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lanes {
    /// One 32-bit two's complement mantissa in each big-endian word.
    Bfp32,
    /// Two biased 16-bit mantissas in each big-endian word.
    Bfp16,
    /// As `Bfp32`, with half the headroom, rounded down; for switches whose sums saturate and are flagged.
    Saturating,
    /// As `Bfp16`, without headroom; for switches that sum in 32 bits and shift sums to 16 on their way down.
    Wide,
    /// Two binary16 numbers in each big-endian word, the block scaled so that no sum reaches 2^15.
    Half,
    /// One binary32 number in each big-endian word.
    Float,
}

impl Lanes {
    /// Every layout.
    pub const ALL: &'static [Self] =
        &[Self::Bfp32, Self::Bfp16, Self::Saturating, Self::Wide, Self::Half, Self::Float];

    /// Bytes that one element takes on the wire, whether it is a mantissa, and most workers: the row of the table.
    const fn row(self) -> (usize, bool, u16) {
        match self {
            Self::Bfp32 | Self::Saturating => (4, true, WORLD_MAX),
            // As many as leave a mantissa its bits.
            Self::Bfp16 => (2, true, 1 << (15 - MANTISSA_BITS_MIN)),
            Self::Wide => (2, true, WORLD_MAX),
            // So that every scale is a finite number.
            Self::Half => (2, false, WORLD_MAX / 2),
            Self::Float => (4, false, WORLD_MAX),
        }
    }

    /// Bytes that one element takes on the wire.
    pub const fn element_bytes(self) -> usize {
        self.row().0
    }

    /// Bits of a mantissa or a number, sign included.
    pub const fn bits(self) -> u32 {
        8 * self.element_bytes() as u32
    }

    /// Whether lanes hold mantissas, integers in units of the block's quantum: what can be rounded stochastically.
    pub const fn has_mantissas(self) -> bool {
        self.row().1
    }

    /// Most workers: as many as leave a mantissa [`MANTISSA_BITS_MIN`] bits beside its sign, within what a job may have.
    pub const fn world_max(self) -> u16 {
        self.row().2
    }
}

// The largest job leaves a mantissa of 32 bits enough.
const _: () = assert!(31 - WORLD_MAX.trailing_zeros() >= MANTISSA_BITS_MIN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_numerics_have_names() {
        assert_eq!(Numerics::Word.modes(), "i32, bfp32 or bfp16");
        assert_eq!(Numerics::Float.modes(), "float");
        for mode in Mode::ALL {
            assert_eq!(mode.name().parse(), Ok(*mode));
            assert!(mode.numerics().modes().contains(mode.name()));
        }
        let refused = "f8".parse::<Mode>().unwrap_err();
        assert!(
            refused.ends_with("expected i32, bfp32, bfp16, saturating, wide, half or float"),
            "{refused}"
        );
    }

    #[test]
    fn a_lane_word_is_filled_by_whole_elements() {
        for mode in Mode::ALL {
            assert_eq!(mode.elements_per_word() * mode.lanes().map_or(4, Lanes::element_bytes), 4);
        }
    }
}
