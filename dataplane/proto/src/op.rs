//! Operations: what a rank submits, and the descriptor with which all ranks verify that they submitted the same.

use core::fmt;

use netfold_wire::{Collective, DType, LaneOp, Mode, ReduceOp};

use crate::error::OpSpecError;
use crate::{Importance, Sharing};

/// Most data chunks in one operation.
pub const DATA_CHUNKS_MAX: u32 = 1 << 30;

/// Most elements that a descriptor can announce: 36 bits.
pub const ELEMENTS_MAX: u64 = (1 << 36) - 1;

/// How many of each rank's contributions may be left out of the sums of an operation, and how sums that lack some are treated.
///
/// On the wire 15 bits of the descriptor, the low 13 for the number; the next is set where stragglers' contributions may be left out, the highest where
/// sums are not rescaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tolerance {
    /// Eightieths of a percent of a rank's chunks, at most [`Self::PARTS`].
    pub parts: u16,
    /// Sums that lack contributions are multiplied by the number of ranks and divided by that of the contributors, which makes them unbiased
    /// if contributions are lost at random. Otherwise missing contributions count as zero.
    pub rescale: bool,
    /// Stragglers' contributions may be left out, too: ranks whose timers expire close a slot without them. Three quarters of the
    /// number are for those, one quarter for contributions that queues trim.
    pub stragglers: bool,
}

impl Tolerance {
    /// Every contribution is in every sum.
    pub const NONE: Self = Self { parts: 0, rescale: true, stragglers: false };

    /// Parts that a tolerance is counted in.
    pub const PARTS: u16 = 8_000;

    const STRAGGLERS: u16 = 1 << 13;
    const UNSCALED: u16 = 1 << 14;

    /// Up to this fraction of each rank's contributions, rescaled: to the nearest eightieth of a percent. `None` when it is not from
    /// 0 to 1.
    pub fn fraction(fraction: f64) -> Option<Self> {
        let parts = (fraction * f64::from(Self::PARTS)).round();
        (0.0..=1.0).contains(&fraction).then_some(Self { parts: parts as u16, ..Self::NONE })
    }

    /// The same, with stragglers' contributions left out, too.
    #[must_use]
    pub const fn with_stragglers(self) -> Self {
        Self { stragglers: true, ..self }
    }

    /// The fraction of a rank's contributions that may be missing, 0 to 1.
    pub fn as_fraction(self) -> f64 {
        f64::from(self.parts) / f64::from(Self::PARTS)
    }

    /// Whether any contribution may be left out.
    pub const fn any(self) -> bool {
        self.parts > 0
    }

    /// Whether a slot may be closed without stragglers' contributions.
    pub const fn tolerates_stragglers(self) -> bool {
        self.any() && self.stragglers
    }

    /// The bits of the descriptor: 0 where no contribution may be left out.
    pub const fn to_word(self) -> u16 {
        if self.parts == 0 {
            return 0;
        }
        let unscaled = if self.rescale { 0 } else { Self::UNSCALED };
        self.parts | unscaled | if self.stragglers { Self::STRAGGLERS } else { 0 }
    }

    const fn from_word(word: u16) -> Self {
        match word & (Self::STRAGGLERS - 1) {
            0 => Self::NONE,
            parts => {
                Self { parts, rescale: word & Self::UNSCALED == 0, stragglers: word & Self::STRAGGLERS != 0 }
            }
        }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stragglers = if self.stragglers { ", stragglers too" } else { "" };
        let kept = if self.rescale { "" } else { ", not rescaled" };
        let percent = 100.0 * self.as_fraction();
        write!(f, "up to {percent} % of contributions left out{stragglers}{kept}")
    }
}

/// An operation of one [`Worker`](crate::Worker): 0 for the first submitted, then 1, 2 and so on. The same operation
/// has the same number on every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub u64);

/// What a rank says about an operation in its descriptor: must be equal on all ranks.
///
/// On the wire two big-endian words: word 0 = low 32 bits of `elements`; word 1 = bits 0..=2 collective
/// ([`CollectiveInfo::descriptor_code`](netfold_wire::vocabulary::collective::CollectiveInfo)), 3..=6 dtype, 7..=9 mode,
/// 10..=11 the low bits of the reduction's code, 12..=26 root, or tolerance of collectives without one, 27 the high bit of the
/// reduction's code, 28..=31 bits 32..=35 of `elements`. Codes of reductions: `reduction_code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// What to do. The root is below 32,768.
    pub collective: Collective,
    /// Element type of the tensor.
    pub dtype: DType,
    /// How the elements travel.
    pub mode: Mode,
    /// The reduction; the sum where nothing is reduced.
    pub op: ReduceOp,
    /// How many of each rank's contributions may be left out of the sums, and how such sums are treated: [`Tolerance::NONE`]
    /// but for an all-reduce and a reduce-scatter.
    pub tolerance: Tolerance,
    /// Elements of the tensor, at most [`ELEMENTS_MAX`].
    pub elements: u64,
}

impl Descriptor {
    /// A barrier: no tensor.
    pub const BARRIER: Self = Self {
        collective: Collective::Barrier,
        dtype: DType::None,
        mode: Mode::I32,
        op: ReduceOp::Sum,
        tolerance: Tolerance::NONE,
        elements: 0,
    };

    /// The two words of the wire. A collective that switches do not do has no code: such words describe no operation.
    pub fn to_words(self) -> [u32; 2] {
        let root = self.collective.root().unwrap_or_else(|| self.tolerance.to_word());
        let reduction = reduction_code(self.op);
        let word = u32::from(self.collective.info().descriptor_code.unwrap_or(0))
            | u32::from(self.dtype.code()) << 3
            | u32::from(self.mode.code()) << 7
            | (reduction & 3) << 10
            | u32::from(root & 0x7fff) << 12
            | (reduction >> 2) << 27
            | (((self.elements >> 32) & 0xf) as u32) << 28;
        [self.elements as u32, word]
    }

    /// Reads the two words of the wire; `None` when they describe no operation.
    pub fn from_words([low, word]: [u32; 2]) -> Option<Self> {
        let bits = |at: u32, count: u32| (word >> at & ((1 << count) - 1)) as u16;
        let root = bits(12, 15);
        let collective = Collective::from_descriptor_code(bits(0, 3) as u8, root)?;
        let tolerance = match collective {
            Collective::AllReduce | Collective::ReduceScatter => Tolerance::from_word(root),
            _ => Tolerance::NONE,
        };
        let descriptor = Self {
            collective,
            dtype: DType::from_code(bits(3, 4) as u8)?,
            mode: Mode::from_code(bits(7, 3) as u8)?,
            op: reduction_of(u32::from(bits(10, 2) | bits(27, 1) << 2))?,
            tolerance,
            elements: u64::from(word >> 28) << 32 | u64::from(low),
        };
        // One form for each descriptor, so that ranks that agree send the same words.
        (descriptor.to_words() == [low, word]).then_some(descriptor)
    }
}

/// The code of a reduction in descriptors, 3 bits: 0 sum, 1 min, 2 max, 3 and, 4 average, 5 or, 6 exclusive or, 7 product.
const fn reduction_code(op: ReduceOp) -> u32 {
    match op {
        ReduceOp::Sum => 0,
        ReduceOp::Min => 1,
        ReduceOp::Max => 2,
        ReduceOp::BitAnd => 3,
        ReduceOp::Avg => 4,
        ReduceOp::BitOr => 5,
        ReduceOp::BitXor => 6,
        ReduceOp::Product => 7,
    }
}

fn reduction_of(code: u32) -> Option<ReduceOp> {
    ReduceOp::ALL.iter().copied().find(|op| reduction_code(*op) == code)
}

impl fmt::Display for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { collective, dtype, mode, elements, tolerance, .. } = self;
        f.write_str(collective.name())?;
        if *collective == Collective::Barrier {
            return Ok(());
        }
        if collective.reduces() {
            write!(f, "({})", self.op)?;
        }
        write!(f, " of {elements} {dtype}")?;
        match collective {
            Collective::Broadcast { root } => write!(f, " from rank {root}")?,
            Collective::Reduce { root } => write!(f, " to rank {root}")?,
            _ => {}
        }
        write!(f, " as {mode}")?;
        if *tolerance == Tolerance::NONE { Ok(()) } else { write!(f, " with {tolerance}") }
    }
}

/// An operation to submit: the descriptor and how its data travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpSpec {
    /// What all ranks must agree on.
    pub descriptor: Descriptor,
    /// Data chunks: 0 for a barrier or an empty tensor, at most [`DATA_CHUNKS_MAX`].
    pub data_chunks: u32,
    /// Whether data chunks carry a block exponent, agreed one look-ahead earlier (bfp16, bfp32).
    pub exponents: bool,
    /// The lowest class of its packets, 0 to 15.
    pub class: u8,
    /// The packet classes from [`Self::class`] on over which its chunks are spread by the size of their blocks, none above 15. Of an operation
    /// without exponents all chunks have the lowest.
    pub importance: Importance,
    /// How the switch folds data lanes. Must follow from the descriptor, which all ranks compare.
    pub lane_op: LaneOp,
    /// Which ranks contribute to a data chunk, and which receive its lanes. Must follow from the descriptor, too. Where not all contribute,
    /// the descriptor tolerates no loss.
    pub sharing: Sharing,
}

impl OpSpec {
    /// A barrier of class 0.
    pub const BARRIER: Self = Self {
        descriptor: Descriptor::BARRIER,
        data_chunks: 0,
        exponents: false,
        class: 0,
        importance: Importance::NONE,
        lane_op: LaneOp::Sum,
        sharing: Sharing::All,
    };

    /// The data chunk that comes `ordinal`-th in the stream of `world` ranks.
    pub fn chunk_at(&self, ordinal: u32, world: u16) -> u32 {
        self.sharing.chunk_at(ordinal, self.data_chunks, world)
    }

    /// How many of its own contributions a rank may have left out.
    pub fn contributions_to_spare(&self) -> u32 {
        let parts = u64::from(self.data_chunks) * u64::from(self.descriptor.tolerance.parts);
        (parts / u64::from(Tolerance::PARTS)) as u32
    }

    /// How many slots may be closed without a rank: each closing costs its contribution to that chunk, and where blocks have exponents
    /// perhaps another, because the exponent that it proposed was not received.
    pub(crate) fn closings(&self) -> u32 {
        match self.descriptor.tolerance.tolerates_stragglers() {
            true => self.contributions_to_spare() * 3 / 4 / self.contributions_per_closing(),
            false => 0,
        }
    }

    /// How many of its own contributions a rank may have trimmed.
    pub(crate) fn contributions_to_trim(&self) -> u32 {
        self.contributions_to_spare() - self.closings() * self.contributions_per_closing()
    }

    fn contributions_per_closing(&self) -> u32 {
        1 + u32::from(self.exponents)
    }

    pub(crate) fn check(&self) -> Result<(), OpSpecError> {
        if self.data_chunks > DATA_CHUNKS_MAX {
            return Err(OpSpecError::Chunks(self.data_chunks));
        }
        if self.descriptor.elements > ELEMENTS_MAX {
            return Err(OpSpecError::Elements(self.descriptor.elements));
        }
        let collective = self.descriptor.collective;
        if collective.info().descriptor_code.is_none() {
            return Err(OpSpecError::Collective(collective));
        }
        if let Some(root) = collective.root().filter(|root| *root >= netfold_wire::WORLD_MAX) {
            return Err(OpSpecError::Root(root));
        }
        let Tolerance { parts, .. } = self.descriptor.tolerance;
        if parts > Tolerance::PARTS {
            return Err(OpSpecError::Tolerance(parts));
        }
        let last = self.class.saturating_add(self.importance.span() - 1);
        if last >= netfold_wire::CLASSES_MAX {
            return Err(OpSpecError::Class(last));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tolerance_of_nothing_closes_no_slot() {
        assert!(!Tolerance::NONE.with_stragglers().tolerates_stragglers());
        assert!(Tolerance::fraction(0.1).unwrap().with_stragglers().tolerates_stragglers());
    }

    #[test]
    fn words_are_as_documented() {
        let descriptor = Descriptor {
            collective: Collective::Broadcast { root: 0x7fff },
            dtype: DType::Bf16,
            mode: Mode::Bfp16,
            op: ReduceOp::BitXor,
            tolerance: Tolerance::NONE,
            elements: ELEMENTS_MAX - 0xffff_fffe,
        };
        // 0b1111_1_111111111111111_10_010_0011_010: elements, xor, root, xor, bfp16, bf16, broadcast.
        assert_eq!(descriptor.to_words(), [0x0000_0001, 0xffff_f91a]);
        assert_eq!(Descriptor::from_words(descriptor.to_words()), Some(descriptor));
    }

    proptest! {
        #[test]
        fn any_two_words_read_back_or_describe_nothing(low: u32, word: u32) {
            if let Some(descriptor) = Descriptor::from_words([low, word]) {
                prop_assert_eq!(descriptor.to_words(), [low, word]);
                prop_assert!(!descriptor.to_string().is_empty());
            }
        }
    }
}
