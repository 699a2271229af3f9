//! How the elements of an operation lie in the lanes of packets, and into how many chunks that cuts them.

use netfold_proto::Descriptor;
use netfold_wire::{DType, LaneOp, Lanes, Mode, ReduceOp};

use crate::quantize::{ElementCoding, Extreme, Format, Rounding, RoundingRng};

/// How the elements of an operation lie in the lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// Quantised in blocks, to the nearest or with this rank's random numbers.
    Blocks(Lanes, Option<RoundingRng>),
    /// As they are.
    Words,
    /// For a fold that is exact, in integers.
    Elements(ElementCoding),
    /// Not at all: hosts execute the operation.
    Nothing,
    /// As they are, and only to be received: this rank sends zeros.
    WordsFromRoot,
    /// As they are, and only to be sent: this rank is the root of a broadcast and has the result already.
    WordsOfRoot,
}

impl Coding {
    /// The coding of reductions in a mode.
    pub(crate) fn of(mode: Mode) -> Self {
        mode.lanes().map_or(Self::Words, |lanes| Self::Blocks(lanes, None))
    }

    /// The same with blocks rounded so by this rank.
    pub(crate) fn rounded(self, rounding: Rounding, rank: u16) -> Self {
        match (self, rounding) {
            (Self::Blocks(lanes, _), Rounding::Stochastic { seed }) => {
                Self::Blocks(lanes, Some(RoundingRng::new(seed, rank)))
            }
            (coding, _) => coding,
        }
    }

    /// Elements of `element_bytes` bytes that one chunk of `lane_bytes` bytes of lanes carries.
    pub(crate) fn chunk_elements(self, element_bytes: usize, lane_bytes: usize) -> usize {
        match self {
            Self::Blocks(lanes, _) => lane_bytes / lanes.element_bytes(),
            Self::Elements(coding) => {
                coding.chunk_elements(lane_bytes) * coding.element_bytes() / element_bytes
            }
            Self::Nothing => 0,
            Self::Words | Self::WordsFromRoot | Self::WordsOfRoot => lane_bytes / element_bytes,
        }
    }
}

impl Coding {
    /// What the lanes of one chunk carry, in [units](units) of an element type; at least 1.
    pub(crate) fn chunk_units(self, dtype: DType, lane_bytes: usize) -> u64 {
        self.chunk_elements(lane_size(dtype), lane_bytes).max(1) as u64
    }
}

/// How a switch of plain words does a reduction exactly, among `world` ranks: the lane operation, and how the elements lie in the lanes. `None` where it
/// does not: of block sums of floating-point numbers, products, averages, and what takes more than 32 bits to compare.
pub(crate) fn exact(dtype: DType, op: ReduceOp, world: u16) -> Option<(LaneOp, Coding)> {
    use ElementCoding::{Integer8, Integer16, Integer32, Limbs, Ordered};
    let lane_op = match (op, dtype.size()) {
        (ReduceOp::BitAnd, _) => LaneOp::And,
        (ReduceOp::BitOr, _) => LaneOp::Or,
        (ReduceOp::BitXor, _) => LaneOp::Xor,
        (ReduceOp::Sum, 1) => LaneOp::Sum8,
        (ReduceOp::Sum, 2) => LaneOp::Sum16,
        (ReduceOp::Sum, 4 | 8) => LaneOp::Sum,
        (ReduceOp::Min, 1) => LaneOp::Min8,
        (ReduceOp::Max, 1) => LaneOp::Max8,
        (ReduceOp::Min, 2) => LaneOp::Min16,
        (ReduceOp::Max, 2) => LaneOp::Max16,
        (ReduceOp::Min, 4) => LaneOp::Min,
        (ReduceOp::Max, 4) => LaneOp::Max,
        _ => return None,
    };
    let compares = matches!(op, ReduceOp::Min | ReduceOp::Max);
    let nan = if op == ReduceOp::Min { Extreme::Least } else { Extreme::Greatest };
    let coding = match dtype {
        DType::F32 if compares => Coding::Elements(Ordered { format: Format::F32, nan }),
        DType::F16 if compares => Coding::Elements(Ordered { format: Format::F16, nan }),
        DType::Bf16 if compares => Coding::Elements(Ordered { format: Format::Bf16, nan }),
        DType::F32 | DType::F16 | DType::Bf16 | DType::F64 | DType::None => return None,
        // Bits are folded where they are.
        _ if op.is_bitwise() => Coding::Words,
        DType::U8 if compares => Coding::Elements(Integer8 { flip: 1 << 7 }),
        DType::U16 if compares => Coding::Elements(Integer16 { flip: 1 << 15 }),
        DType::U32 if compares => Coding::Elements(Integer32 { flip: 1 << 31 }),
        DType::I8 | DType::U8 | DType::I32 | DType::U32 => Coding::Words,
        DType::I16 | DType::U16 => Coding::Elements(Integer16 { flip: 0 }),
        DType::I64 | DType::U64 => {
            let spread = world.max(1).next_power_of_two().trailing_zeros() as u8;
            Coding::Elements(Limbs { spread })
        }
    };
    Some((lane_op, coding))
}

/// Data chunks of an operation in packets of `lane_bytes` bytes of lanes.
pub(crate) fn chunks(descriptor: &Descriptor, coding: Coding, lane_bytes: usize) -> u64 {
    if coding == Coding::Nothing {
        return 0;
    }
    let (elements, units) = (descriptor.elements, units(descriptor.dtype));
    (elements * units).div_ceil(coding.chunk_units(descriptor.dtype, lane_bytes))
}

/// Elements that begin a chunk are multiples of this; `None` where chunks cut elements apart.
pub(crate) fn cut(descriptor: &Descriptor, coding: Coding, lane_bytes: usize) -> Option<u64> {
    let chunk = coding.chunk_elements(lane_size(descriptor.dtype), lane_bytes) as u64;
    let units = units(descriptor.dtype);
    (chunk > 0 && chunk.is_multiple_of(units)).then(|| chunk / units)
}

/// Bytes of what a switch's lanes take for an element.
fn lane_size(dtype: DType) -> usize {
    lanes_type(dtype).size().max(1)
}

/// How many of them an element is.
pub(crate) fn units(dtype: DType) -> u64 {
    (dtype.size() / lane_size(dtype)) as u64
}

/// The type as which a switch's lanes know the elements: itself, or bytes.
pub(crate) fn lanes_type(dtype: DType) -> DType {
    match dtype {
        DType::None | DType::F32 | DType::F16 | DType::Bf16 | DType::I32 => dtype,
        DType::U32 => DType::I32,
        _ => DType::U8,
    }
}
