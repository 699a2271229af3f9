//! The bound: a plain loop of the arithmetic of each numerics over the same bytes, and nothing else.

use netfold_p4::profile::Numerics;
use netfold_switch::SimdLevel;

/// Bits by which `wide` sums of the benchmark's workers are shifted.
const WIDE_SHIFT: u32 = super::WORKERS.next_power_of_two().trailing_zeros();

/// One slot's sums, and for `float` their exponents; as many as a packet has lanes of 16 bits, so that every numerics has room.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    sums: Vec<u32>,
    powers: Vec<u16>,
}

impl Slot {
    /// Zeros, for packets of so many bytes of lanes.
    pub(super) fn new(payload: usize) -> Self {
        Self { sums: vec![0; payload / 2], powers: vec![0; payload / 2] }
    }
}

/// What a packet does to the slot of its chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Overwrites it.
    First,
    /// Is added to it.
    Next,
    /// Is added to it and carries the sums away.
    Last,
}

/// Folds a packet's lanes into a slot. Returns whether a sum that leaves is at an end of its range, in `saturating`.
pub(super) type Fold = fn(&mut Slot, &mut [u8], Step) -> bool;

/// A function that is compiled for each level.
macro_rules! built {
    ($simd:expr, $body:ident) => {{
        #[cfg(target_arch = "x86_64")]
        {
            #[target_feature(enable = "avx2,bmi1,bmi2")]
            fn avx2(slot: &mut Slot, packet: &mut [u8], step: Step) -> bool {
                $body(slot, packet, step)
            }
            #[target_feature(enable = "avx2,bmi1,bmi2,avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512(slot: &mut Slot, packet: &mut [u8], step: Step) -> bool {
                $body(slot, packet, step)
            }
            #[expect(unsafe_code, reason = "the plain loop gets the instruction set that the pipeline uses")]
            match $simd.min(SimdLevel::detect()) {
                // SAFETY: detect() found every feature that the function is compiled for on this processor.
                SimdLevel::Avx512 => return |slot, packet, step| unsafe { avx512(slot, packet, step) },
                // SAFETY: detect() found every feature that the function is compiled for on this processor.
                SimdLevel::Avx2 => return |slot, packet, step| unsafe { avx2(slot, packet, step) },
                SimdLevel::Portable => {}
            }
        }
        let _ = $simd;
        $body
    }};
}

/// The loop of some numerics in the instruction set that the pipeline uses.
pub(super) fn fold(numerics: Numerics, simd: SimdLevel) -> Fold {
    match numerics {
        Numerics::Word => built!(simd, word),
        Numerics::Saturating => built!(simd, saturating),
        Numerics::Wide => built!(simd, wide),
        Numerics::Half => built!(simd, half),
        Numerics::Float => built!(simd, float),
    }
}

/// A loop over lanes of `N` bytes: a packet's lane and the cell of its slot are combined, and the result is written to the packet if it leaves.
#[inline(always)]
fn each<const N: usize>(
    cells: &mut [u32],
    packet: &mut [u8],
    step: Step,
    load: impl Fn([u8; N]) -> u32,
    add: impl Fn(u32, u32) -> u32,
    leave: impl Fn(u32) -> [u8; N],
) {
    let (lanes, _) = packet.as_chunks_mut::<N>();
    let both = cells.iter_mut().zip(lanes);
    match step {
        Step::First => both.for_each(|(cell, lane)| *cell = load(*lane)),
        Step::Next => both.for_each(|(cell, lane)| *cell = add(*cell, load(*lane))),
        Step::Last => both.for_each(|(cell, lane)| {
            *cell = add(*cell, load(*lane));
            *lane = leave(*cell);
        }),
    }
}

#[inline(always)]
fn word(slot: &mut Slot, packet: &mut [u8], step: Step) -> bool {
    each(&mut slot.sums, packet, step, u32::from_be_bytes, u32::wrapping_add, u32::to_be_bytes);
    false
}

#[inline(always)]
fn saturating(slot: &mut Slot, packet: &mut [u8], step: Step) -> bool {
    let is_end = |value: u32| (value == 0x8000_0000) | (value == 0x7fff_ffff);
    let add = |cell: u32, lane: u32| {
        let sum = cell.cast_signed().saturating_add(lane.cast_signed()).cast_unsigned();
        let sum = if is_end(lane) { lane } else { sum };
        if is_end(cell) { cell } else { sum }
    };
    each(&mut slot.sums, packet, step, u32::from_be_bytes, add, u32::to_be_bytes);
    let (lanes, _) = packet.as_chunks::<4>();
    step == Step::Last && lanes.iter().fold(false, |any, lane| any | is_end(u32::from_be_bytes(*lane)))
}

#[inline(always)]
fn wide(slot: &mut Slot, packet: &mut [u8], step: Step) -> bool {
    let load = |lane| u32::from(u16::from_be_bytes(lane));
    let leave = |sum: u32| ((sum.wrapping_add((1 << WIDE_SHIFT) >> 1) >> WIDE_SHIFT) as u16).to_be_bytes();
    each(&mut slot.sums, packet, step, load, u32::wrapping_add, leave);
    false
}

/// `value / 2^shift`, to nearest, ties to even; both below 32 bits together.
#[inline(always)]
fn rounded(value: u32, shift: u32) -> u32 {
    let half = (1u32 << (shift & 31)) >> 1;
    let odd = (value >> (shift & 31)) & 1;
    if shift == 0 { value } else { value.wrapping_add(half + odd).wrapping_sub(1) >> (shift & 31) }
}

/// Position of the highest bit, 0 for 0.
#[inline(always)]
fn highest(value: u32) -> u32 {
    31 - (value | 1).leading_zeros()
}

#[inline(always)]
fn signed(is_negative: bool, size: u32) -> u32 {
    if is_negative { size.wrapping_neg() } else { size }
}

/// binary16 and fixed point of 15 bits behind the point.
#[inline(always)]
fn half(slot: &mut Slot, packet: &mut [u8], step: Step) -> bool {
    let load = |lane| {
        let lane = u32::from(u16::from_be_bytes(lane));
        let exponent = (lane >> 10) & 31;
        let size = lane & 0x3ff | if exponent == 0 { 0 } else { 0x400 };
        let size = rounded(size, 10u32.saturating_sub(exponent.max(1)));
        signed(lane & 0x8000 != 0, size << exponent.saturating_sub(10))
    };
    let leave = |sum: u32| {
        let size = sum.cast_signed().unsigned_abs();
        let position = highest(size);
        let fraction = rounded(size << 10u32.saturating_sub(position), position.saturating_sub(10));
        let normal = (position << 10).wrapping_add(fraction).wrapping_sub(1 << 10);
        let sign = (sum >> 16) & 0x8000;
        let number = match size {
            0 => 0,
            1 => 1 << 9 | sign,
            _ => normal | sign,
        };
        (number as u16).to_be_bytes()
    };
    each(&mut slot.sums, packet, step, load, u32::wrapping_add, leave);
    false
}

/// A binary32 number as signed significand and exponent field, that of subnormal numbers being 1.
#[inline(always)]
fn parts(lane: u32) -> (u32, u16) {
    let exponent = (lane >> 23) & 255;
    let size = lane & 0x7f_ffff | if exponent == 0 { 0 } else { 1 << 23 };
    (signed(lane >> 31 != 0, size), exponent.max(1) as u16)
}

/// The binary32 number of a sum in units of its exponent.
#[inline(always)]
fn number(sum: u32, power: u16) -> u32 {
    let size = sum.cast_signed().unsigned_abs();
    let position = highest(size);
    let room = u32::from(power).wrapping_sub(1);
    let left = 23u32.saturating_sub(position).min(room);
    let right = position.saturating_sub(23);
    let fraction = rounded(size << (left & 31), right);
    let number = (room.wrapping_sub(left).wrapping_add(right) << 23).wrapping_add(fraction);
    let finite = if number >= 0x7f80_0000 { 0x7f80_0000 } else { number };
    if size == 0 { 0 } else { finite | sum & 0x8000_0000 }
}

#[inline(always)]
fn float(slot: &mut Slot, packet: &mut [u8], step: Step) -> bool {
    let (lanes, _) = packet.as_chunks_mut::<4>();
    let cells = slot.sums.iter_mut().zip(&mut slot.powers).zip(lanes);
    let add = |sum: &mut u32, power: &mut u16, lane: [u8; 4]| {
        let (value, exponent) = parts(u32::from_be_bytes(lane));
        let aligned = |value: u32, by: u16| (value.cast_signed() >> by.min(31)).cast_unsigned();
        let old = aligned(*sum, exponent.saturating_sub(*power));
        *sum = old.wrapping_add(aligned(value, power.saturating_sub(exponent)));
        *power = exponent.max(*power);
    };
    match step {
        Step::First => {
            cells.for_each(|((sum, power), lane)| (*sum, *power) = parts(u32::from_be_bytes(*lane)))
        }
        Step::Next => cells.for_each(|((sum, power), lane)| add(sum, power, *lane)),
        Step::Last => cells.for_each(|((sum, power), lane)| {
            add(sum, power, *lane);
            *lane = number(*sum, *power).to_be_bytes();
        }),
    }
    false
}
