//! Elements that a switch folds exactly: mapped to integers of the same order, cut into limbs with room for carries, or as they are.
//!
//! Every function here is a plain loop over bytes that compilers vectorise. Tensors are in native order, of any alignment.

/// Bytes of a lane word.
const LANE_BYTES: usize = 4;

/// How the elements of an exact reduction lie in the lanes. All ranks of a job use the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementCoding {
    /// Integers of 8 bits, whose bits are flipped where `flip` has ones: 0x80 gives unsigned numbers the order of signed ones.
    Integer8 {
        /// The bits.
        flip: u8,
    },
    /// Integers of 16 bits, big-endian, the same.
    Integer16 {
        /// The bits.
        flip: u16,
    },
    /// Integers of 32 bits, big-endian, the same.
    Integer32 {
        /// The bits.
        flip: u32,
    },
    /// Floating-point numbers as [keys](Format) of their order.
    Ordered {
        /// Their format.
        format: Format,
        /// Which end NaN has, so that it is the result wherever it occurs.
        nan: Extreme,
    },
    /// Integers of 64 bits in limbs for sums of up to 2^`spread` ranks: the upper halves in one word each, then the lower halves without their
    /// `spread` lowest bits, then these, several to a word.
    Limbs {
        /// Binary logarithm of the number of ranks, rounded up, at most 15.
        spread: u8,
    },
}

/// A floating-point format. The key of a number is an integer of the same width whose two's complement order is that of the numbers, -0 below +0:
/// the bits themselves, of negative numbers with all but the sign inverted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// binary32.
    F32,
    /// binary16.
    F16,
    /// bfloat16.
    Bf16,
}

/// The least or the greatest of all keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extreme {
    /// For minima.
    Least,
    /// For maxima.
    Greatest,
}

impl ElementCoding {
    /// Bytes of an element in the tensor.
    pub const fn element_bytes(self) -> usize {
        match self {
            Self::Integer8 { .. } => 1,
            Self::Integer16 { .. } | Self::Ordered { format: Format::F16 | Format::Bf16, .. } => 2,
            Self::Integer32 { .. } | Self::Ordered { format: Format::F32, .. } => 4,
            Self::Limbs { .. } => 8,
        }
    }

    /// Elements that `lane_bytes` bytes of lanes carry.
    pub const fn chunk_elements(self, lane_bytes: usize) -> usize {
        match self {
            Self::Limbs { spread } => Limbs::new(spread, lane_bytes).elements,
            _ => lane_bytes / self.element_bytes(),
        }
    }
}

/// Where the limbs of 64-bit integers lie, in words.
#[derive(Debug, Clone, Copy)]
struct Limbs {
    spread: u32,
    /// Elements, and words of upper and of lower halves.
    elements: usize,
    /// Words of lowest bits.
    lowest: usize,
}

impl Limbs {
    const fn new(spread: u8, lane_bytes: usize) -> Self {
        let (spread, words) = (if spread > 15 { 15 } else { spread as u32 }, lane_bytes / LANE_BYTES);
        if spread == 0 {
            return Self { spread, elements: words / 2, lowest: 0 };
        }
        // As many to a word as have room for their own sum.
        let together = (16 / spread) as usize;
        let elements = words * together / (2 * together + 1);
        Self { spread, elements, lowest: elements.div_ceil(together) }
    }

    /// The words of upper and lower halves and of lowest bits, and the rest of the lanes.
    fn parts(self, lanes: &[u8]) -> Option<[&[[u8; 4]]; 3]> {
        let (upper, rest) = lanes.as_chunks::<4>().0.split_at_checked(self.elements)?;
        let (lower, rest) = rest.split_at_checked(self.elements)?;
        Some([upper, lower, rest.get(..self.lowest)?])
    }

    fn mask(self) -> u32 {
        (1 << self.spread) - 1
    }
}

#[inline(always)]
fn pack_limbs(spread: u8, elements: &[[u8; 8]], lanes: &mut [u8]) {
    let limbs = Limbs::new(spread, lanes.len());
    lanes.fill(0);
    let words = lanes.as_chunks_mut::<4>().0;
    let Some((upper, rest)) = words.split_at_mut_checked(limbs.elements) else { return };
    let Some((lower, lowest)) = rest.split_at_mut_checked(limbs.elements) else { return };
    for ((element, upper), lower) in elements.iter().zip(upper).zip(lower) {
        let value = u64::from_ne_bytes(*element);
        *upper = ((value >> 32) as u32).to_be_bytes();
        *lower = (value as u32 >> limbs.spread).to_be_bytes();
    }
    if limbs.lowest == 0 {
        return;
    }
    for (run, elements) in elements.chunks(limbs.lowest).enumerate() {
        let up = 2 * limbs.spread * run as u32;
        for (element, word) in elements.iter().zip(lowest.iter_mut()) {
            let bits = u64::from_ne_bytes(*element) as u32 & limbs.mask();
            *word = (u32::from_be_bytes(*word) | bits << up).to_be_bytes();
        }
    }
}

#[inline(always)]
fn unpack_limbs(spread: u8, lanes: &[u8], elements: &mut [[u8; 8]]) {
    let limbs = Limbs::new(spread, lanes.len());
    let Some([upper, lower, lowest]) = limbs.parts(lanes) else { return };
    for ((element, upper), lower) in elements.iter_mut().zip(upper).zip(lower) {
        let upper = u64::from(u32::from_be_bytes(*upper)) << 32;
        let value = upper.wrapping_add(u64::from(u32::from_be_bytes(*lower)) << limbs.spread);
        *element = value.to_ne_bytes();
    }
    if limbs.lowest == 0 {
        return;
    }
    let mask = (1u64 << (2 * limbs.spread)) - 1;
    for (run, elements) in elements.chunks_mut(limbs.lowest).enumerate() {
        let up = 2 * limbs.spread * run as u32;
        for (element, word) in elements.iter_mut().zip(lowest) {
            let bits = u64::from(u32::from_be_bytes(*word)) >> up & mask;
            *element = u64::from_ne_bytes(*element).wrapping_add(bits).to_ne_bytes();
        }
    }
}

/// The bits of the infinity, and the quiet NaN that is the result wherever one occurs.
struct Special<T> {
    infinity: T,
    nan: T,
}

const F32: Special<u32> = Special { infinity: 0x7f80_0000, nan: 0x7fc0_0000 };
const F16: Special<u16> = Special { infinity: 0x7c00, nan: 0x7e00 };
const BF16: Special<u16> = Special { infinity: 0x7f80, nan: 0x7fc0 };

macro_rules! keys {
    ($key:ident, $value:ident, $bits:ty, $signed:ty) => {
        #[inline(always)]
        fn $key(bits: $bits, special: &Special<$bits>, nan: Extreme) -> $bits {
            const SIGN: $bits = 1 << (<$bits>::BITS - 1);
            let extreme = if nan == Extreme::Least { SIGN } else { !SIGN };
            let inverted = (bits.cast_signed() >> (<$bits>::BITS - 1)).cast_unsigned() & !SIGN;
            if bits & !SIGN > special.infinity { extreme } else { bits ^ inverted }
        }

        #[inline(always)]
        fn $value(key: $bits, special: &Special<$bits>) -> $bits {
            const SIGN: $bits = 1 << (<$bits>::BITS - 1);
            let inverted = (key.cast_signed() >> (<$bits>::BITS - 1)).cast_unsigned() & !SIGN;
            let bits = key ^ inverted;
            if bits & !SIGN > special.infinity { special.nan } else { bits }
        }
    };
}

keys!(key32, value32, u32, i32);
keys!(key16, value16, u16, i16);

/// Writes the elements to the lanes, and zeros behind them.
#[inline(always)]
pub(super) fn pack(coding: ElementCoding, elements: &[u8], lanes: &mut [u8]) {
    match coding {
        ElementCoding::Integer8 { flip } => each(elements, lanes, |[byte]: [u8; 1]| [byte ^ flip]),
        ElementCoding::Integer16 { flip } => {
            each(elements, lanes, |bytes| (u16::from_ne_bytes(bytes) ^ flip).to_be_bytes());
        }
        ElementCoding::Integer32 { flip } => {
            each(elements, lanes, |bytes| (u32::from_ne_bytes(bytes) ^ flip).to_be_bytes());
        }
        ElementCoding::Ordered { format: Format::F32, nan } => {
            each(elements, lanes, |bytes| key32(u32::from_ne_bytes(bytes), &F32, nan).to_be_bytes());
        }
        ElementCoding::Ordered { format: Format::F16, nan } => {
            each(elements, lanes, |bytes| key16(u16::from_ne_bytes(bytes), &F16, nan).to_be_bytes());
        }
        ElementCoding::Ordered { format: Format::Bf16, nan } => {
            each(elements, lanes, |bytes| key16(u16::from_ne_bytes(bytes), &BF16, nan).to_be_bytes());
        }
        ElementCoding::Limbs { spread } => pack_limbs(spread, elements.as_chunks().0, lanes),
    }
}

/// Reads the elements from the lanes. Lanes behind them are ignored.
#[inline(always)]
pub(super) fn unpack(coding: ElementCoding, lanes: &[u8], elements: &mut [u8]) {
    match coding {
        ElementCoding::Integer8 { flip } => each_back(lanes, elements, |[byte]: [u8; 1]| [byte ^ flip]),
        ElementCoding::Integer16 { flip } => {
            each_back(lanes, elements, |bytes| (u16::from_be_bytes(bytes) ^ flip).to_ne_bytes());
        }
        ElementCoding::Integer32 { flip } => {
            each_back(lanes, elements, |bytes| (u32::from_be_bytes(bytes) ^ flip).to_ne_bytes());
        }
        ElementCoding::Ordered { format: Format::F32, .. } => {
            each_back(lanes, elements, |bytes| value32(u32::from_be_bytes(bytes), &F32).to_ne_bytes());
        }
        ElementCoding::Ordered { format: Format::F16, .. } => {
            each_back(lanes, elements, |bytes| value16(u16::from_be_bytes(bytes), &F16).to_ne_bytes());
        }
        ElementCoding::Ordered { format: Format::Bf16, .. } => {
            each_back(lanes, elements, |bytes| value16(u16::from_be_bytes(bytes), &BF16).to_ne_bytes());
        }
        ElementCoding::Limbs { spread } => unpack_limbs(spread, lanes, elements.as_chunks_mut().0),
    }
}

#[inline(always)]
fn each<const N: usize>(elements: &[u8], lanes: &mut [u8], map: impl Fn([u8; N]) -> [u8; N]) {
    let (used, padding) = lanes.split_at_mut(elements.len().min(lanes.len()));
    each_back(elements, used, map);
    padding.fill(0);
}

#[inline(always)]
fn each_back<const N: usize>(from: &[u8], to: &mut [u8], map: impl Fn([u8; N]) -> [u8; N]) {
    for (to, from) in to.as_chunks_mut::<N>().0.iter_mut().zip(from.as_chunks::<N>().0) {
        *to = map(*from);
    }
}
