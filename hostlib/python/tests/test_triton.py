"""The kernels of ``netfold.triton``, interpreted (``TRITON_INTERPRET=1``), against the portable code of the library's quantiser, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from conftest import HERE, LIMIT

numpy = pytest.importorskip("numpy", reason="skipped: the kernels of netfold.triton, no numpy")
torch = pytest.importorskip("torch", reason="skipped: the kernels of netfold.triton, no torch")
pytest.importorskip("triton", reason="skipped: the kernels of netfold.triton, no triton (pip install triton)")

import netfold
import triton_interpreter
from netfold import _netfold
from netfold.triton import Quantizer, interpreted, rounding_key
from netfold.triton._format import mix

if not interpreted():
    pytest.skip("skipped: the kernels of netfold.triton, TRITON_INTERPRET was not set when triton was imported", allow_module_level=True)
triton_interpreter.prepare()

# Some numbers overflow on purpose, which numpy tells the interpreter.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

MODES = ["bfp16", "bfp32"]
ROUNDINGS = [None, 7]
FLOATS = [torch.float32, torch.float16, torch.bfloat16]

#: Mantissas of binary32: ends, ties of every width, and one without a pattern.
MANTISSAS = [0, 1, 2, 0xFF, 0x100, 0x1FF, 0x8000, 0x18000, 0x3FFFFF, 0x400000, 0x400001, 0x600000, 0x7FC000, 0x7FFF80, 0x7FFFFF, 0x2AC917]

SEED, RANK, OPERATION = 7, 3, 41


def patterns(exponent):
    """Numbers of binary32 with one exponent, each mantissa with both signs."""
    bits = numpy.array(MANTISSAS, numpy.uint32) | numpy.uint32(exponent << 23)
    return numpy.concatenate([bits, bits | numpy.uint32(1 << 31)])


def floats(bits):
    return torch.from_numpy(numpy.ascontiguousarray(bits).astype(numpy.uint32).view(numpy.float32))


class Pair:
    """The same quantiser as kernels and in the library."""

    def __init__(self, mode, world, block, seed=None, rank=RANK, operation=OPERATION):
        self.mode, self.world, self.block = mode, world, block
        self.kernels = Quantizer(mode, world, block, seed is not None)
        self.key = rounding_key(seed or 0, rank, operation)
        named = {"seed": seed, "rank": rank, "operation": operation, "portable": True}
        self.portable = _netfold.Quantizer(mode, world, block, **named)
        self.bits = 16 if mode == "bfp16" else 32
        self.bias = 1 << (self.bits - 1 - (world - 1).bit_length())

    def exponents(self, tensor):
        found = self.kernels.new_exponents(tensor)
        self.kernels.exponents(tensor, found)
        assert bytes(found.tolist()) == self.portable.exponents(tensor)
        return found

    def lanes(self, tensor, agreed, residual=None):
        """The lanes, compared, as unsigned numbers with their bias; the memory of the last block is that of the tensor's elements."""
        memory = self.kernels.new_lanes(tensor)
        memory.fill_(-1)
        self.kernels.quantize(tensor, agreed, memory, residual, 0, self.key)
        lanes = memory.numpy().view(numpy.uint16 if self.bits == 16 else numpy.uint32)
        packed = self.portable.pack(tensor, bytes(agreed.tolist()))
        expected = numpy.frombuffer(packed, ">u2" if self.bits == 16 else ">u4")
        if self.bits == 32:
            # Packets of this mode have no bias.
            expected = (expected + numpy.uint64(self.bias)).astype(numpy.uint32)
        assert (lanes == expected[: lanes.size]).all(), different(lanes, expected[: lanes.size], tensor)
        return lanes.copy()

    def sums(self, lanes, agreed, dtype, elements, count=None):
        """The results of summed lanes, compared."""
        words = numpy.frombuffer(lanes.tobytes(), numpy.int32).copy()
        results = torch.zeros(elements, dtype=dtype)
        self.kernels.dequantize(torch.from_numpy(words), agreed, results, contributions=count)
        whole = self.kernels.blocks(elements) * self.block
        packets = numpy.zeros(whole, numpy.uint64)
        packets[: lanes.size] = lanes
        count = self.world if count is None else count
        if self.bits == 32:
            packets -= numpy.uint64(count) * numpy.uint64(self.bias)
        expected = torch.ones(elements, dtype=dtype)
        packed = packets.astype(">u2" if self.bits == 16 else ">u4").tobytes()
        self.portable.unpack(expected, packed, bytes(agreed.tolist()), count)
        assert same(results, expected), different(raw(results), raw(expected), results)
        return results


def raw(tensor):
    return tensor.view(torch.int32 if tensor.element_size() == 4 else torch.int16).numpy()


def same(one, other):
    return bool((raw(one) == raw(other)).all())


def different(found, expected, of):
    at = numpy.flatnonzero(found != expected)
    return f"{at.size} differ, first at {at[:5]}: {found[at[:5]]} and not {expected[at[:5]]}, of {of.reshape(-1)[at[0]]}" if at.size else ""


#: Exponents below a block's own of which all patterns are in it: of the rest nothing but a sign can be seen in lanes of 32 bits.
NEAR = 40


def blocks_of_every_exponent():
    """A row for each exponent E: all patterns with exponents up to E that are near it, and one of each other."""
    block = NEAR * 2 * len(MANTISSAS) + 256
    rows = numpy.zeros((256, block), numpy.uint32)
    for exponent in range(256):
        near = [patterns(other) for other in range(max(0, exponent - NEAR + 1), exponent + 1)]
        far = [patterns(other)[(other + exponent) % (2 * len(MANTISSAS))] for other in range(max(0, exponent - NEAR + 1))]
        held = numpy.concatenate([*near, numpy.array(far, numpy.uint32)])
        rows[exponent, : held.size] = held
    assert all(len(numpy.unique(row >> 23 & 0xFF)) == index + 1 for index, row in enumerate(rows[1:], 1))
    return rows


#: Ranks and seeds. Each takes the interpreter some ten seconds, so the rest is for `cargo xtask test --long`.
WORLDS = [(1, 7), (5, None)] + ([(1, None), (32, 7)] if "NETFOLD_LONG" in os.environ else [])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("world, seed", WORLDS)
def test_every_exponent_pattern(mode, world, seed):
    rows = blocks_of_every_exponent()
    pair = Pair(mode, world, rows.shape[1], seed)
    own = pair.exponents(floats(rows.ravel()))
    assert own[255] == 255 and own[254] == 254 and own[0] == own[29] == 30
    # Another rank's exponent may be larger.
    for raised, step in ((0, 1), (1, 5), (9, 7)):
        chosen = [*range(0, 255, step), 255]
        tensor = floats(rows[chosen].ravel())
        agreed = torch.clamp(own[chosen].int() + raised, max=254).to(torch.uint8)
        agreed[-1] = 255
        residual = torch.full_like(tensor, 3.0)
        lanes = pair.lanes(tensor, agreed, residual)
        expected = tensor.clone()
        pair.portable.residual(expected, bytes(agreed.tolist()))
        assert same(residual, expected), different(raw(residual), raw(expected), tensor)
        if seed is None:
            check_nothing_is_lost(pair, tensor, lanes, agreed, residual)
        if world == 1:
            pair.sums(lanes, agreed, torch.float32, tensor.numel())


def check_nothing_is_lost(pair, tensor, lanes, agreed, residual):
    """The sum of lane and residual is the number."""
    finite = tensor.numel() - pair.block
    power = numpy.maximum(agreed.numpy().astype(int), 30) - 126 - (pair.bits - 1 - (pair.world - 1).bit_length())
    sent = (lanes.astype(numpy.int64) - pair.bias).astype(numpy.float64) * numpy.repeat(2.0**power, pair.block)[: lanes.size]
    whole = sent[:finite] + residual[:finite].double().numpy()
    assert (whole == tensor[:finite].double().numpy()).all()
    assert (residual[finite:] == 0).all()


@pytest.mark.parametrize("mode", MODES)
def test_what_is_too_large_for_its_exponent_is_clamped(mode):
    # Impossible for an agreed exponent; the library defines it all the same.
    numbers = numpy.concatenate([patterns(exponent) for exponent in range(90, 140)])
    for seed in ROUNDINGS:
        for world in (1, 3):
            pair = Pair(mode, world, numbers.size, seed)
            for exponent in (0, 100, 127, 130):
                pair.lanes(floats(numbers), torch.tensor([exponent], dtype=torch.uint8))


def ties(block, quantum_exponent):
    """Numbers around every tie of small mantissas, and around the ends of the range."""
    quantum = 2.0**quantum_exponent
    steps = numpy.arange(-block // 4, block // 4) * quantum / 2
    near = numpy.nextafter(steps.astype(numpy.float32), numpy.float32(numpy.inf))
    return torch.from_numpy(numpy.concatenate([steps.astype(numpy.float32), near]))


@pytest.mark.parametrize("seed", ROUNDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_ties_and_ends_of_the_range(mode, seed):
    bits = 16 if mode == "bfp16" else 32
    for world in (1, 2, 8, 128) if mode == "bfp16" else (1, 8, 129, 32_768):
        headroom = (world - 1).bit_length()
        exponent = 130
        quantum = exponent - 126 - (bits - 1 - headroom)
        inner = ties(1024, quantum)
        span = 2 ** (bits - 1 - headroom)
        places = numpy.arange(-256, 256) / 4
        ends = numpy.concatenate([sign * span + places for sign in (-1, 1)]) * 2.0**quantum
        for tensor in (inner, torch.from_numpy(ends.astype(numpy.float32))):
            pair = Pair(mode, world, tensor.numel(), seed)
            pair.exponents(tensor)
            agreed = torch.tensor([exponent], dtype=torch.uint8)
            residual = torch.zeros_like(tensor)
            pair.lanes(tensor, agreed, residual)
            expected = tensor.clone()
            pair.portable.residual(expected, bytes([exponent]))
            assert same(residual, expected)


def mixed(generator, elements, dtype):
    """Numbers of many magnitudes, with zeros."""
    numbers = torch.randn(elements, generator=generator) * torch.exp2(torch.randint(-12, 4, (elements,), generator=generator).float())
    numbers[torch.rand(elements, generator=generator) < 0.05] = 0.0
    return numbers.to(dtype)


@pytest.mark.parametrize("mode", MODES)
def test_only_what_is_above_the_highest_mantissa_raises_an_exponent(mode):
    for world in (1, 2, 5, 32):
        pair = Pair(mode, world, 2, seed=7)
        for exponent in (30, 127, 253, 254):
            # The highest mantissa, where it is a number of binary32, and the numbers next to it.
            highest = float(pair.bias - 1) * 2.0 ** (exponent - 126 - (pair.bits - 1 - (world - 1).bit_length()))
            top = numpy.float32(min(highest, float(numpy.finfo(numpy.float32).max)))
            near = [numpy.nextafter(top, numpy.float32(0)), top, numpy.nextafter(top, numpy.float32(numpy.inf))]
            tensor = torch.from_numpy(numpy.repeat(numpy.array(near, numpy.float32), 2))
            found = pair.exponents(tensor)
            assert exponent == 254 or mode == "bfp32" or found.tolist() == [exponent, exponent, exponent + 1]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", MODES)
def test_blocks_tails_and_types(mode, dtype):
    block = 44
    generator = torch.Generator().manual_seed(5)
    for elements in (1, 2, 3, block - 1, block, block + 1, 2 * block - 1, 3 * block + 7):
        for seed in ROUNDINGS:
            pair = Pair(mode, 3, block, seed)
            ranks = [mixed(generator, elements, dtype) for _ in range(3)]
            if elements > block:
                ranks[1][block] = float("nan")
                ranks[2][0] = float("-inf")
            agreed = torch.stack([pair.exponents(rank).int() for rank in ranks]).amax(0).to(torch.uint8)
            lanes = sum(pair.lanes(rank, agreed).astype(numpy.uint64) for rank in ranks)
            lanes = lanes.astype(numpy.uint16 if mode == "bfp16" else numpy.uint32)
            pair.sums(lanes, agreed, dtype, elements)


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_every_element_of_16_bits(dtype):
    numbers = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(dtype)
    # Sorted by magnitude, so that blocks have their own exponents.
    tensor = numbers[torch.argsort((numbers.view(torch.int16).int() & 0x7FFF), stable=True)].clone()
    for mode in MODES:
        for world in (1, 4):
            pair = Pair(mode, world, 2048)
            agreed = pair.exponents(tensor)
            lanes = pair.lanes(tensor, agreed)
            if world == 1:
                pair.sums(lanes, agreed, dtype, tensor.numel())


@pytest.mark.parametrize("mode", MODES)
def test_sums_and_averages_of_1_to_32_ranks(mode):
    block, elements = 64, 100
    generator = torch.Generator().manual_seed(8)
    for world in range(1, 33):
        dtype = FLOATS[world % 3]
        pair = Pair(mode, world, block, ROUNDINGS[world % 2])
        # Several ranks have the same numbers.
        ranks = [mixed(generator, elements, dtype) for _ in range(min(world, 3))]
        # All at the end of the range: nothing may carry.
        for rank in ranks:
            rank[:8] = 7.99
        agreed = torch.stack([pair.exponents(rank).int() for rank in ranks]).amax(0).to(torch.uint8)
        own = [pair.lanes(rank, agreed).astype(numpy.uint64) for rank in ranks]
        lanes = sum(own[rank % len(own)] for rank in range(world))
        assert int(lanes.max()) < 2**pair.bits - (world > 1), "a carry, or what marks lanes that were not received"
        lanes = lanes.astype(numpy.uint16 if mode == "bfp16" else numpy.uint32)
        sums = pair.sums(lanes, agreed, dtype, elements)
        average = torch.zeros(elements, dtype=dtype)
        words = torch.from_numpy(numpy.frombuffer(lanes.tobytes(), numpy.int32).copy())
        pair.kernels.dequantize(words, agreed, average, average=True)
        expected = torch.from_numpy(sums.float().numpy() / numpy.float32(world)).to(dtype)
        assert same(average, expected), world


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", MODES)
def test_sums_that_lack_contributions_are_rescaled(mode, dtype):
    block, elements, world = 64, 200, 5
    generator = torch.Generator().manual_seed(9)
    pair = Pair(mode, world, block)
    ranks = [mixed(generator, elements, dtype) for _ in range(world)]
    agreed = torch.stack([pair.exponents(rank).int() for rank in ranks]).amax(0).to(torch.uint8)
    for count in (1, 3, 5):
        lanes = sum(pair.lanes(rank, agreed).astype(numpy.uint64) for rank in ranks[:count])
        lanes = lanes.astype(numpy.uint16 if mode == "bfp16" else numpy.uint32)
        sums = pair.sums(lanes, agreed, dtype, elements, count)
        rescaled = torch.zeros(elements, dtype=dtype)
        words = torch.from_numpy(numpy.frombuffer(lanes.tobytes(), numpy.int32).copy())
        pair.kernels.dequantize(words, agreed, rescaled, contributions=count, rescale=True)
        factor = numpy.float32(world) / numpy.float32(count)
        assert same(rescaled, torch.from_numpy(sums.float().numpy() * factor).to(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", MODES)
def test_sums_beyond_the_largest_number_are_infinite_and_tiny_ones_exact(mode, dtype):
    """Every lane of the highest and of the lowest exponents, where results overflow or are subnormal."""
    world, block = 4, 2048
    pair = Pair(mode, world, block)
    top = (1 << pair.bits) - (1 << 2)
    lanes = numpy.linspace(0, top, block).astype(numpy.uint64)
    middle = world * pair.bias
    lanes[: block // 2] = middle + numpy.arange(-(block // 4), block // 4)
    exponents = [0, 30, 31, 40, 100, 103, 110, 127, 141, 142, 143, 253, 254, 255]
    whole = numpy.tile(lanes, len(exponents)).astype(numpy.uint16 if mode == "bfp16" else numpy.uint32)
    pair.sums(whole, torch.tensor(exponents, dtype=torch.uint8), dtype, whole.size)


@pytest.mark.parametrize("mode", MODES)
def test_feedback_adds_the_residual_first(mode):
    block = 64
    generator = torch.Generator().manual_seed(11)
    for seed in ROUNDINGS:
        pair = Pair(mode, 2, block, seed)
        residual = torch.zeros(150)
        for step in range(4):
            tensor = mixed(generator, 150, torch.float32)
            if step == 2:
                tensor[70] = float("inf")
            expected = tensor + residual
            found = pair.kernels.new_exponents(tensor)
            pair.kernels.exponents(tensor, found, residual)
            assert same(tensor, expected) and bytes(found.tolist()) == pair.portable.exponents(expected)
            pair.lanes(tensor, found, residual)
            pair.portable.residual(expected, bytes(found.tolist()))
            assert same(residual, expected)
            assert step != 2 or (residual[64:128] == 0).all()


def test_the_parts_of_an_operation_have_the_numbers_of_its_blocks():
    pair = Pair("bfp16", 2, 64, seed=3)
    tensor = mixed(torch.Generator().manual_seed(4), 64 * 6, torch.float32)
    agreed = pair.exponents(tensor)
    whole = pair.lanes(tensor, agreed)
    for first in (2, 5):
        part = tensor[64 * first :]
        memory = pair.kernels.new_lanes(part)
        pair.kernels.quantize(part, agreed[first:], memory, None, first, pair.key)
        assert (memory.numpy().view(numpy.uint16) == whole[64 * first :]).all()


@pytest.mark.parametrize("key", [(0, 0, 0), (2**64 - 1, 65_535, 2**64 - 1), (2**63, 1, 1 << 56), (12345678901234567890, 9, 77)])
def test_random_numbers_are_those_of_the_library(key):
    seed, rank, operation = key
    tensor = mixed(torch.Generator().manual_seed(seed % 1000), 1024, torch.float32)
    pair = Pair("bfp16", 2, 128, seed=seed, rank=rank, operation=operation)
    pair.lanes(tensor, pair.exponents(tensor))


@pytest.mark.parametrize("mode", MODES)
def test_a_number_is_rounded_up_from_the_draw_on_that_is_below_its_fraction(mode):
    pair = Pair(mode, 2, 64, seed=SEED)
    key = mix(pair.key ^ 0)
    elements = numpy.arange(64, dtype=numpy.uint32)
    x = numpy.uint32(key & 0xFFFFFFFF) + elements * numpy.uint32(0x9E3779B9)
    x = (x ^ x >> 16) * numpy.uint32(0x7FEB352D) ^ numpy.uint32(key >> 32)
    x = (x ^ x >> 15) * numpy.uint32(0x846CA68B)
    draws = (x ^ x >> 16) >> 8
    exponent = 127
    quantum = 2.0 ** (exponent - 126 - (pair.bits - 2))
    for more in (0, 1):
        tensor = torch.from_numpy(((draws + more) * 2.0**-24 * quantum).astype(numpy.float32))
        lanes = pair.lanes(tensor, torch.tensor([exponent], dtype=torch.uint8))
        assert (lanes == pair.bias + more).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", MODES)
def test_lanes_that_were_not_received_are_nan(mode, dtype):
    for world in (2, 3, 32):
        kernels = Quantizer(mode, world, 64)
        results = torch.zeros(100, dtype=dtype)
        lanes = kernels.new_lanes(results)
        exponents = torch.full((2,), 127, dtype=torch.uint8)
        lanes.fill_(-1)
        kernels.dequantize(lanes, exponents, results)
        assert results.isnan().all()
        lanes.fill_(0)
        kernels.dequantize(lanes, exponents, results, average=True)
        assert not results.isnan().any()
        exponents[1] = 255
        kernels.dequantize(lanes, exponents, results, average=True)
        assert results[64:].isnan().all() and not results[:64].isnan().any()


def test_what_cannot_be_quantised_is_refused():
    for mode, block in (("half", 704), ("i32", 704), ("bfp16", 0), ("bfp16", 3), ("bfp16", 1 << 20)):
        with pytest.raises(netfold.ArgumentError):
            Quantizer(mode, 2, block)
    with pytest.raises(netfold.ArgumentError, match="float64"):
        Quantizer("bfp16", 2, 64).exponents(torch.zeros(64, dtype=torch.float64), torch.zeros(1, dtype=torch.uint8))


def test_the_code_for_devices_flushes_and_approximates_nothing():
    """Compiled as they are launched, without a device: no subnormal number is flushed, no division approximate, whole vectors are loaded."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, str(HERE / "triton_code.py")], env=environment, capture_output=True, text=True, timeout=3 * LIMIT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[1]) > 60, done.stdout
