"""Quantisers of devices, compared with the library's on the host, bit for bit, and measured."""

from __future__ import annotations

import itertools
import statistics
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from netfold import _netfold

from . import _ranks
from ._ranks import DEVICE, FLOATS, OPTIONS, RANK, contribution, report, synchronize

#: The modes that are quantised on devices.
MODES = ("bfp16", "bfp32")

#: Makes a quantiser, with the interface of ``netfold.triton.Quantizer``: mode, ranks, elements of a block, whether rounding is stochastic.
Make = Callable[[str, int, int, bool], Any]

#: Bytes of a tensor for which time is measured.
SIZES = tuple(1 << power for power in range(20, 31, 2))

#: Calls whose time is measured together: a single one is no longer than its launch.
TOGETHER = 10

#: Mantissas of binary32 that are tried with every exponent and both signs.
MANTISSAS = (0, 1, 0xFF, 0x100, 0x8000, 0x18000, 0x3FFFFF, 0x400000, 0x400001, 0x7FC000, 0x7FFFFF, 0x2AC917)

#: Exponents below a block's own of which all patterns are in it: of the rest nothing but a sign can be seen in lanes of 32 bits.
NEAR = 40


def every_pattern(near_by: int = NEAR) -> torch.Tensor:
    """256 blocks of equal length: block E has all patterns with exponents up to E that are near it, and one of each other."""
    mantissas = torch.tensor([sign << 31 | mantissa for sign in (0, 1) for mantissa in MANTISSAS], dtype=torch.int64)
    bits = torch.arange(256, dtype=torch.int64)[:, None] << 23 | mantissas[None, :]
    bits = torch.where(bits >= 1 << 31, bits - (1 << 32), bits).to(torch.int32)
    blocks = torch.zeros(256, near_by * len(mantissas) + 256, dtype=torch.int32)
    for exponent in range(256):
        first = max(0, exponent - near_by + 1)
        near, far = bits[first : exponent + 1].reshape(-1), bits[:first, exponent % len(mantissas)]
        blocks[exponent, : near.numel() + far.numel()] = torch.cat([near, far])
    return blocks.view(-1).view(torch.float32)


def raw(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().contiguous().view(torch.int32 if tensor.element_size() == 4 else torch.int16)


class Comparison:
    """Counts what has other bits on the device than in the library."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self.cases = self.wrong = self.elements = 0
        self.failed: List[str] = []

    def same(self, what: str, found: Any, expected: Any) -> None:
        wrong = int((found != expected).sum())
        self.cases, self.wrong, self.elements = self.cases + 1, self.wrong + wrong, self.elements + len(found)
        if wrong:
            self.failed.append(f"{what}: {wrong} of {len(found)}")

    def kernels(self, what: str, host: torch.Tensor, block: int, mode: str, world: int, seed: Optional[int]) -> None:
        """All kernels on a tensor of one rank of ``world``, whose result is then the rank's own contribution ``world`` times."""
        library = _netfold.Quantizer(mode, world, block, seed=seed, rank=RANK, operation=3)
        kernels = self._make(mode, world, block, seed is not None)
        tensor = host.to(DEVICE, copy=True)
        exponents = kernels.new_exponents(tensor)
        kernels.exponents(tensor, exponents)
        expected = library.exponents(host)
        self.same(f"exponents, {what}", exponents.cpu(), torch.tensor(list(expected), dtype=torch.uint8))
        residual = torch.zeros_like(tensor) if tensor.dtype == torch.float32 else None
        lanes = kernels.new_lanes(tensor)
        kernels.quantize(tensor, exponents, lanes, residual, 0, library.key)
        packed = library.pack(host, expected)
        biased = lanes.cpu().view(torch.int16 if mode == "bfp16" else torch.int32)[: host.numel()]
        self.same(f"lanes, {what}", biased, unpacked(packed, mode, world)[: host.numel()])
        if residual is not None:
            left = host.clone()
            library.residual(left, expected)
            self.same(f"residuals, {what}", raw(residual), raw(left))
        words = lanes * world
        kernels.dequantize(words, exponents, tensor)
        result = torch.zeros_like(host)
        library.unpack(result, summed(packed, mode, world), expected, world)
        self.same(f"results, {what}", raw(tensor), raw(result))


def words_of(packed: bytes, mode: str) -> torch.Tensor:
    """Lanes of packets as they are, in 64 bits."""
    width = 2 if mode == "bfp16" else 4
    parts = torch.frombuffer(bytearray(packed), dtype=torch.uint8).view(-1, width).to(torch.int64)
    value = torch.zeros(parts.shape[0], dtype=torch.int64)
    for index in range(width):
        value = value << 8 | parts[:, index]
    return value


def unpacked(packed: bytes, mode: str, world: int) -> torch.Tensor:
    """Lanes of packets as the device has them: biased, in this machine's byte order."""
    value = words_of(packed, mode)
    if mode == "bfp32":
        value = value + (1 << (31 - (world - 1).bit_length()))
    return value.to(torch.int16 if mode == "bfp16" else torch.int32)


def summed(packed: bytes, mode: str, times: int) -> bytes:
    """Packets whose lanes are so many times those of these."""
    width = 2 if mode == "bfp16" else 4
    value = words_of(packed, mode) * times
    parts = [(value >> 8 * (width - 1 - index) & 0xFF).to(torch.uint8) for index in range(width)]
    return bytes(torch.stack(parts, 1).view(-1).tolist())


def takes(mode: str, dtype: torch.dtype) -> bool:
    """Whether tensors of this type are quantised on devices in this mode."""
    return dtype == torch.float32 or mode == "bfp16"


def compare_kernels(make: Make, types: Callable[[str, torch.dtype], bool]) -> None:
    """Every kernel against the library's quantiser: every exponent, types, worlds, modes, roundings, tails."""
    found = Comparison(make)
    patterns = every_pattern(OPTIONS.get("near", NEAR))
    # Both ranks would find the same.
    for mode, world, seed in itertools.product(MODES, OPTIONS.get("worlds", (1, 2, 5, 32)) if RANK == 0 else (), (None, 11)):
        found.kernels(f"every exponent, {mode}, {world} ranks, seed {seed}", patterns, patterns.numel() // 256, mode, world, seed)
    for mode, dtype, elements in itertools.product(MODES, FLOATS, OPTIONS.get("elements", (1, 703, 704, 705, 100_003, 1_000_000))):
        for world, seed in ((2, None), (3, 5)) if types(mode, dtype) else ():
            numbers = contribution(dtype, elements, RANK, elements).cpu()
            found.kernels(f"{elements} {dtype}, {mode}, {world} ranks, seed {seed}", numbers, 704, mode, world, seed)
    report(cases=found.cases, elements=found.elements, wrong=found.wrong, failed=found.failed[:8])


def seconds(action: Callable[[], Any]) -> float:
    """The median time of a call, of many at a time."""
    times = []
    for _ in range(OPTIONS.get("rounds", 11)):
        synchronize()
        started = time.perf_counter()
        for _ in range(TOGETHER):
            action()
        synchronize()
        times.append((time.perf_counter() - started) / TOGETHER)
    return statistics.median(times[1:] or times)


def measure_rates(make: Make, copy: Callable[[torch.Tensor, torch.Tensor], Any]) -> None:
    """Bytes a second that each kernel reads and writes, of ``float32`` in mode ``bfp16``, and a kernel that copies; by bytes of the tensor."""
    found: Dict[str, Dict[int, float]] = {}
    kernels, chance = make("bfp16", 4, 704, False), make("bfp16", 4, 704, True)
    for size in OPTIONS.get("sizes", SIZES) if RANK == 0 else ():
        count = size // 4
        tensor = torch.randn(count, device=DEVICE)
        other, residual = torch.empty_like(tensor), torch.zeros_like(tensor)
        exponents, lanes = kernels.new_exponents(tensor), kernels.new_lanes(tensor)
        actions: Dict[str, Tuple[int, Callable[[], Any]]] = {
            "copy": (8, lambda: copy(tensor, other)),
            "torch_copy": (8, lambda: other.copy_(tensor)),
            "exponents": (4, lambda: kernels.exponents(tensor, exponents)),
            "quantize": (6, lambda: kernels.quantize(tensor, exponents, lanes)),
            "stochastic": (6, lambda: chance.quantize(tensor, exponents, lanes)),
            "feedback": (10, lambda: kernels.quantize(tensor, exponents, lanes, residual)),
            "dequantize": (6, lambda: kernels.dequantize(lanes, exponents, other)),
        }
        for name, (bytes_an_element, action) in actions.items():
            action()
            found.setdefault(name, {})[size] = bytes_an_element * count / seconds(action)
    report(**{name: list(rates.items()) for name, rates in found.items()})
