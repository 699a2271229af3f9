//! How a number becomes an integer: the nearest one, or one of the two next to it at random.
//!
//! A random number is a function of the element's position, not of a generator's state: a retransmitted packet must hold the
//! same bytes, packets are packed in no fixed order, and vector code needs eight numbers at a time. So each random number is a hash
//! of (seed, rank, operation, block, element): the first four by SplitMix64's finaliser (Steele, Lea and Flood, OOPSLA
//! 2014), once a block, the last by the 32-bit finaliser `lowbias32` (Wellons, Hash Prospector, 2018) with a second key
//! between its multiplications.

/// How contributions are rounded to mantissas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Rounding {
    /// To the nearest, ties to even: the smallest error of each contribution. The default.
    #[default]
    Nearest,
    /// Up or down, so that the expected value is the number itself: twice the largest error of each contribution, but errors of
    /// many contributions or steps cancel instead of adding up, and what is smaller than a quantum does not always vanish. The
    /// same seed gives the same results. It need not be the same on all ranks: every rank has its own random numbers.
    Stochastic {
        /// The seed. Ranks with the same seed still use different random numbers.
        seed: u64,
    },
}

/// The random numbers for the blocks of one operation of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RoundingRng(u64);

impl RoundingRng {
    /// Those of this rank with this seed, for operation 0.
    pub const fn new(seed: u64, rank: u16) -> Self {
        Self(mix(mix(seed) ^ rank as u64))
    }

    /// Those for operation `number` of the communicator, given those for operation 0.
    #[must_use]
    pub const fn operation(self, number: u64) -> Self {
        Self(mix(self.0 ^ number))
    }

    /// Those with this [key](Self::key).
    pub const fn of_key(key: u64) -> Self {
        Self(key)
    }

    /// The operation's key, with which other quantisers make the same random numbers.
    pub const fn key(self) -> u64 {
        self.0
    }

    /// Those for block `number` of the operation.
    #[inline]
    pub(super) const fn block(self, number: u32) -> BlockRng {
        let key = mix(self.0 ^ number as u64);
        BlockRng { start: key as u32, twist: (key >> 32) as u32 }
    }
}

/// SplitMix64: one step and the finaliser. Different numbers stay different.
const fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// By how much the counter of a block grows from one element to the next.
pub(super) const STRIDE: u32 = 0x9e37_79b9;
/// The multipliers of `lowbias32`.
pub(super) const FACTORS: [u32; 2] = [0x7feb_352d, 0x846c_a68b];
/// Bits of a random number that are used: as many as binary32 holds.
pub(super) const DRAW_BITS: u32 = 24;
/// 2^[`DRAW_BITS`].
pub(super) const DRAW_RANGE: f32 = (1u32 << DRAW_BITS) as f32;

/// The random numbers of one block.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockRng {
    pub(super) start: u32,
    pub(super) twist: u32,
}

impl BlockRng {
    /// A whole number, spread evenly over 0 to 2^24 - 1, as binary32.
    #[inline(always)]
    pub(super) fn draw(self, element: u32) -> f32 {
        let mut x = self.start.wrapping_add(element.wrapping_mul(STRIDE));
        x = (x ^ x >> 16).wrapping_mul(FACTORS[0]) ^ self.twist;
        x = (x ^ x >> 15).wrapping_mul(FACTORS[1]);
        ((x ^ x >> 16) >> (32 - DRAW_BITS)) as f32
    }
}

/// Scale and range of mantissas that are rounded stochastically.
#[derive(Debug, Clone, Copy)]
pub(super) struct Range {
    /// 1/q.
    pub(super) scale: f32,
    /// The lowest mantissa.
    pub(super) low: f32,
    /// The highest mantissa that is a binary32 number. No element of an agreed exponent is above it, since those have
    /// [`significant bits`](f32::MANTISSA_DIGITS) of their own, or the exponent is [raised](super::Quantizer::exponent).
    pub(super) high: f32,
}

impl Range {
    /// Of mantissas of `bits` bits, sign included, below so much headroom.
    pub(super) fn new(bits: u32, headroom: u32, scale: f32) -> Self {
        let span = 1u32 << (bits - 1 - headroom);
        let last_place = (span >> f32::MANTISSA_DIGITS).max(1);
        Self { scale, low: -(span as f32), high: (span - last_place) as f32 }
    }

    /// The mantissa of `value`: the next lower one, or with the probability of the distance to it the next higher one.
    #[inline(always)]
    pub(super) fn mantissa(self, value: f32, draw: f32) -> i32 {
        let scaled = value * self.scale;
        let scaled = if scaled > self.low { scaled } else { self.low };
        let scaled = if scaled < self.high { scaled } else { self.high };
        let below = scaled.floor();
        // The distance is exact, but of tiny negative numbers, whose distance is almost 1.
        let up = draw < (scaled - below) * DRAW_RANGE;
        below as i32 + i32::from(up)
    }
}
