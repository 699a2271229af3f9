"""What one rank does in the checks of the library's own quantisation on a GPU: ``python -m netfold.gpu_check._library_ranks SCENARIO OPTIONS``."""

from __future__ import annotations

import itertools
import os
from typing import Any, List, Optional, Tuple

import torch

import netfold
import netfold.torch
from netfold import _netfold

from . import _ranks
from ._comparison import MODES, Comparison, compare_kernels, measure_rates, raw, takes
from ._ranks import DEVICE, FLOATS, OPTIONS, RANK, WORLD, contribution, report, synchronize


class Quantizer:
    """The library's kernels, with the interface of ``netfold.triton.Quantizer``."""

    def __init__(self, mode: str, world: int, block: int, stochastic: bool) -> None:
        self._native = _netfold.DeviceQuantizer(mode, world, block, stochastic, DEVICE.index or 0)
        self._block = block
        self._wide = mode == "bfp32"

    def new_lanes(self, tensor: torch.Tensor) -> torch.Tensor:
        words = tensor.numel() if self._wide else (tensor.numel() + 1) // 2
        return torch.empty(words, dtype=torch.int32, device=tensor.device)

    def new_exponents(self, tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty(-(-tensor.numel() // self._block), dtype=torch.uint8, device=tensor.device)

    def exponents(self, tensor: torch.Tensor, found: torch.Tensor, residual: Optional[torch.Tensor] = None) -> None:
        self._native.exponents(tensor, found, residual)

    def quantize(
        self,
        tensor: torch.Tensor,
        agreed: torch.Tensor,
        lanes: torch.Tensor,
        residual: Optional[torch.Tensor] = None,
        number: int = 0,
        key: int = 0,
    ) -> None:
        self._native.quantize(tensor, agreed, lanes, residual, number, key)

    def dequantize(self, lanes: torch.Tensor, agreed: torch.Tensor, tensor: torch.Tensor, average: bool = False) -> None:
        self._native.dequantize(lanes, agreed, tensor, average)




def kernels() -> None:
    """Every kernel against the library's quantiser on the host."""
    compare_kernels(Quantizer, takes)


def rates() -> None:
    """Bytes a second that each kernel reads and writes."""
    quantizer = _netfold.DeviceQuantizer("bfp16", 4, 704, False, DEVICE.index or 0)
    measure_rates(Quantizer, quantizer.copy)


def communicator(job: str, **options: Any) -> netfold.Communicator:
    """One of both ranks, at the switch that the check has started."""
    return netfold.Communicator(RANK, WORLD, job=job, controller=os.environ["NETFOLD_CONTROLLER"], **options)


def reductions() -> None:
    """All-reduces that the device quantises against the same in host memory, bit for bit; residuals; and many in flight."""
    found = Comparison(Quantizer)
    for mode in MODES:
        job = f"library-{mode}"
        with communicator(job, mode=mode, device_quantization=True) as group:
            types = [dtype for dtype in FLOATS if takes(mode, dtype)]
            counts = OPTIONS.get("counts", (1, 704, 5_000, 131_073, 6_000_001, 30_000_000))
            for dtype, op, count in itertools.product(types, ("sum", "avg"), counts):
                tensor = contribution(dtype, count, RANK, count)
                expected = tensor.cpu().clone()
                group.all_reduce(tensor, op)
                group.all_reduce(expected, op)
                found.same(f"{op} of {count} {dtype}, {mode}", raw(tensor), raw(expected))
            feedback(found, group, mode)
            in_flight(found, group)
    report(cases=found.cases, elements=found.elements, wrong=found.wrong, failed=found.failed[:8])


def feedback(found: Comparison, group: netfold.Communicator, mode: str) -> None:
    """Steps with error feedback, on the device and on the host."""
    count = 100_003
    left = torch.zeros(count, device=DEVICE)
    expected_left = torch.zeros(count)
    for step in range(4):
        tensor = contribution(torch.float32, count, RANK, step)
        expected = tensor.cpu().clone()
        group.all_reduce(tensor, "avg", residual=left)
        group.all_reduce(expected, "avg", residual=expected_left)
        found.same(f"step {step} with feedback, {mode}", raw(tensor), raw(expected))
        found.same(f"residuals of step {step}, {mode}", raw(left), raw(expected_left))


def in_flight(found: Comparison, group: netfold.Communicator) -> None:
    """Many in flight, each behind a kernel that takes a while; their results are read behind them in the stream."""
    results: List[Tuple[torch.Tensor, torch.Tensor]] = []
    works = []
    for step in range(OPTIONS.get("steps", 40)):
        tensor = contribution(torch.float32, (1, 1_001, 300_007, 3_000_001)[step % 4], RANK, step)
        expected = tensor.cpu()
        if DEVICE.type == "cuda":
            torch.cuda._sleep(2_000_000)
        tensor = tensor * 1.0
        works.append(group.all_reduce_async(tensor))
        results.append((tensor, expected))
    for work in works:
        work.wait()
    synchronize()
    for tensor, expected in results:
        group.all_reduce(expected)
        found.same("in flight", raw(tensor), raw(expected))


_ranks.SCENARIOS.update({"library_kernels": kernels, "library_reductions": reductions, "library_rates": rates})

if __name__ == "__main__":
    _ranks.main()
