//! How the elements of an operation lie in the lanes of packets, and into how many chunks that cuts them.

use netfold_proto::Descriptor;
use netfold_wire::{DType, Lanes, Mode};

use crate::quantize::{Rounding, RoundingRng};

/// How the elements of an operation lie in the lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// Quantised in blocks, to the nearest or with this rank's random numbers.
    Blocks(Lanes, Option<RoundingRng>),
    /// As they are.
    Words,
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

/// Data chunks of an operation in packets of `lane_bytes` bytes of lanes.
pub(crate) fn chunks(descriptor: &Descriptor, coding: Coding, lane_bytes: usize) -> u64 {
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
