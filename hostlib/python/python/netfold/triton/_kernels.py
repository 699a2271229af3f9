"""The quantiser of ``hostlib/src/quantize`` as kernels: the same bits as its portable code.

A program of the grid has one block. Tensors are passed as integers of their elements' size, so that NaN have the same bits on every device, and
bfloat16 is converted here: interpreters and devices differ in both.

Products by powers of two are exact, or far below what is rounded, so a fused multiply-add rounds as a product and a sum do. Subnormal numbers
must not be flushed; ``test_triton.py`` looks for that, and for approximate divisions, in the code for NVIDIA's devices.
"""

from __future__ import annotations

import triton
import triton.language as tl

#: Element types.
F32 = tl.constexpr(0)
F16 = tl.constexpr(1)
BF16 = tl.constexpr(2)

#: As in ``quantize.rs`` and ``quantize/{scalar,rounding}.rs``.
EXPONENT_MIN = tl.constexpr(30)
NON_FINITE = tl.constexpr(255)
ROUND_BITS = tl.constexpr(0x4B400000)
NAN_F32 = tl.constexpr(0x7FC00000)
NAN_F16 = tl.constexpr(0x7E00)
NAN_BF16 = tl.constexpr(0x7FC0)


@triton.jit
def _widen(raw, FORMAT: tl.constexpr):
    """Elements in binary32, from their bits. Exact."""
    if FORMAT == F32:
        return raw.to(tl.float32, bitcast=True)
    elif FORMAT == F16:
        return raw.to(tl.float16, bitcast=True).to(tl.float32)
    else:
        return (raw.to(tl.int32) << 16).to(tl.float32, bitcast=True)


@triton.jit
def _narrow(value, FORMAT: tl.constexpr):
    """The bits of the nearest elements, ties to even; of numbers, not of NaN."""
    if FORMAT == F32:
        return value.to(tl.int32, bitcast=True)
    elif FORMAT == F16:
        return value.to(tl.float16).to(tl.int16, bitcast=True)
    else:
        bits = value.to(tl.int32, bitcast=True)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).to(tl.int16)


@triton.jit
def _nan(FORMAT: tl.constexpr):
    if FORMAT == F32:
        return NAN_F32
    elif FORMAT == F16:
        return NAN_F16
    else:
        return NAN_BF16


@triton.jit
def _power_of_two(power):
    """2^power for -127..=127."""
    return tl.where(power >= -126, (power + 127) << 23, 1 << 22).to(tl.float32, bitcast=True)


@triton.jit
def _power(exponent, BITS: tl.constexpr, HEADROOM: tl.constexpr):
    """The quantum is 2^this."""
    return tl.maximum(exponent, EXPONENT_MIN) - (126 + BITS - 1 - HEADROOM)


@triton.jit
def _mix(number):
    """SplitMix64: one step and the finaliser."""
    z = number + 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@triton.jit
def _draws(key_low, key_high, block, element):
    """A random number for each element of a block: a whole number of 24 bits."""
    low = key_low.to(tl.uint32, bitcast=True).to(tl.uint64)
    high = key_high.to(tl.uint32, bitcast=True).to(tl.uint64)
    key = _mix(((high << 32) | low) ^ block.to(tl.uint64))
    x = key.to(tl.uint32) + element.to(tl.uint32) * 0x9E3779B9
    x = ((x ^ (x >> 16)) * 0x7FEB352D) ^ (key >> 32).to(tl.uint32)
    x = (x ^ (x >> 15)) * 0x846CA68B
    return ((x ^ (x >> 16)) >> 8).to(tl.int32).to(tl.float32)


@triton.jit
def _nearest16(value, scale, HEADROOM: tl.constexpr):
    rounder = 12582912.0 + (1 << (15 - HEADROOM))
    bits = (value * scale + rounder).to(tl.int32, bitcast=True)
    lane = tl.minimum(tl.maximum(bits, ROUND_BITS) - ROUND_BITS, 0xFFFF >> HEADROOM)
    return lane - (1 << (15 - HEADROOM))


@triton.jit
def _nearest32(value, scale, LIMIT: tl.constexpr, HEADROOM: tl.constexpr):
    scaled = value * scale
    low = tl.where(scaled > -LIMIT, scaled, -LIMIT)
    fits = low < LIMIT
    low = tl.where(fits, low, 0.0)
    magnitude = tl.abs(low)
    # Between 2^23 and 2^24 the last bit is worth 1. What is larger is an integer already.
    small = (tl.minimum(magnitude, 8388608.0) + 8388608.0).to(tl.int32, bitcast=True) - 0x4B000000
    rounded = tl.where(low < 0.0, -small, small)
    integer = tl.where(magnitude < 8388608.0, rounded, low.to(tl.int32))
    return tl.where(fits, integer, 0x7FFFFFFF >> HEADROOM)


@triton.jit
def _stochastic(value, scale, draw, LOW: tl.constexpr, HIGH: tl.constexpr):
    scaled = value * scale
    scaled = tl.where(scaled > LOW, scaled, LOW)
    scaled = tl.where(scaled < HIGH, scaled, HIGH)
    # Not by tl.floor, which flushes subnormal numbers on NVIDIA's devices.
    towards_zero = scaled.to(tl.int32)
    above = towards_zero.to(tl.float32) > scaled
    below = towards_zero - above.to(tl.int32)
    up = draw < (scaled - below.to(tl.float32)) * 16777216.0
    return below + up.to(tl.int32)


@triton.jit(do_not_specialize=["first", "length"])
def exponents(
    tensor,
    residual,
    found,
    first,
    length,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    TAIL: tl.constexpr,
    FORMAT: tl.constexpr,
    BITS: tl.constexpr,
    HEADROOM: tl.constexpr,
    HIGHEST: tl.constexpr,
    STOCHASTIC: tl.constexpr,
    FEEDBACK: tl.constexpr,
):
    """The exponent of each block from ``first`` on. With FEEDBACK, ``residual`` is added to ``tensor`` first. TAIL: the block ends at ``length``."""
    block = first + tl.program_id(0)
    element = tl.arange(0, WIDTH)
    start = block.to(tl.int64) * BLOCK
    mask = element < BLOCK
    if TAIL:
        mask = mask & (start + element < length)
    raw = tl.load(tensor + start + element, mask=mask, other=0)
    value = _widen(raw, FORMAT)
    if FEEDBACK:
        left = tl.load(residual + start + element, mask=mask, other=0).to(tl.float32, bitcast=True)
        value = value + left
        tl.store(tensor + start + element, value.to(tl.int32, bitcast=True), mask=mask)
    largest = tl.max(value.to(tl.int32, bitcast=True) & 0x7FFFFFFF, axis=0)
    exponent = tl.maximum(largest >> 23, EXPONENT_MIN)
    if STOCHASTIC:
        # There is no room above the highest mantissa.
        magnitude = largest.to(tl.float32, bitcast=True).to(tl.float64)
        room = _power_of_two(_power(exponent, BITS, HEADROOM)).to(tl.float64) * HIGHEST
        exponent += ((magnitude > room) & (exponent < NON_FINITE - 1)).to(tl.int32)
    tl.store(found + block, exponent.to(tl.uint8))


@triton.jit(do_not_specialize=["first", "number", "length", "key_low", "key_high"])
def quantize(
    tensor,
    residual,
    agreed,
    lanes,
    first,
    number,
    length,
    key_low,
    key_high,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    TAIL: tl.constexpr,
    FORMAT: tl.constexpr,
    BITS: tl.constexpr,
    HEADROOM: tl.constexpr,
    LIMIT: tl.constexpr,
    BIAS: tl.constexpr,
    LOW: tl.constexpr,
    HIGH: tl.constexpr,
    STOCHASTIC: tl.constexpr,
    FEEDBACK: tl.constexpr,
):
    """The biased lanes of each block from ``first`` on, by its agreed exponent. ``number`` is that of block 0 in its operation. With FEEDBACK,
    ``residual`` becomes what the lanes leave out."""
    block = first + tl.program_id(0)
    element = tl.arange(0, WIDTH)
    start = block.to(tl.int64) * BLOCK
    mask = element < BLOCK
    filled = mask
    if TAIL:
        mask = mask & (start + element < length)
        # Two lanes of 16 bits are a word.
        filled = filled & (start + element < (length + 1) // 2 * 2)
    exponent = tl.load(agreed + block).to(tl.int32)
    value = _widen(tl.load(tensor + start + element, mask=mask, other=0), FORMAT)
    power = _power(exponent, BITS, HEADROOM)
    scale = _power_of_two(-power)
    if STOCHASTIC:
        mantissa = _stochastic(value, scale, _draws(key_low, key_high, number + block, element), LOW, HIGH)
    elif BITS == 16:
        mantissa = _nearest16(value, scale, HEADROOM)
    else:
        mantissa = _nearest32(value, scale, LIMIT, HEADROOM)
    finite = exponent != NON_FINITE
    mantissa = tl.where(finite & mask, mantissa, 0)
    lane = mantissa + BIAS
    if BITS == 16:
        tl.store(lanes + start + element, lane.to(tl.int16), mask=filled)
    else:
        tl.store(lanes + start + element, lane, mask=mask)
    if FEEDBACK:
        sent = mantissa.to(tl.float32).to(tl.float64) * _power_of_two(power).to(tl.float64)
        left = tl.where(finite, (value.to(tl.float64) - sent).to(tl.float32), 0.0)
        tl.store(residual + start + element, left.to(tl.int32, bitcast=True), mask=mask)


@triton.jit(do_not_specialize=["first", "length", "bias", "divisor", "factor"])
def dequantize(
    lanes,
    agreed,
    tensor,
    first,
    length,
    bias,
    divisor,
    factor,
    BLOCK: tl.constexpr,
    WIDTH: tl.constexpr,
    TAIL: tl.constexpr,
    FORMAT: tl.constexpr,
    BITS: tl.constexpr,
    HEADROOM: tl.constexpr,
    CHECKED: tl.constexpr,
    RESCALE: tl.constexpr,
    AVERAGE: tl.constexpr,
):
    """The sums of each block from ``first`` on. ``bias`` is that of all contributions. RESCALE: times ``factor``; AVERAGE: through ``divisor``.
    CHECKED: lanes with every bit set, which no sum is, were not received and become NaN."""
    block = first + tl.program_id(0)
    element = tl.arange(0, WIDTH)
    start = block.to(tl.int64) * BLOCK
    mask = element < BLOCK
    if TAIL:
        mask = mask & (start + element < length)
    exponent = tl.load(agreed + block).to(tl.int32)
    lane = tl.load(lanes + start + element, mask=mask, other=0).to(tl.int32)
    lost = lane == -1
    if BITS == 16:
        lane = lane & 0xFFFF
    value = (lane - bias).to(tl.float32) * _power_of_two(_power(exponent, BITS, HEADROOM))
    raw = _narrow(value, FORMAT)
    if RESCALE:
        raw = _narrow(_widen(raw, FORMAT) * factor, FORMAT)
    if AVERAGE:
        raw = _narrow(tl.math.div_rn(_widen(raw, FORMAT), tl.zeros([WIDTH], tl.float32) + divisor), FORMAT)
    bad = exponent == NON_FINITE
    if CHECKED:
        bad = bad | lost
    tl.store(tensor + start + element, tl.where(bad, _nan(FORMAT), raw).to(raw.dtype), mask=mask)


@triton.jit(do_not_specialize=["length"])
def copy(source, target, length, WIDTH: tl.constexpr):
    """What the others are compared with: reads and writes words."""
    at = tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
    tl.store(target + at, tl.load(source + at, mask=at < length, other=0), mask=at < length)
