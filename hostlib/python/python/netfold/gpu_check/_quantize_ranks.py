"""What one rank does in the checks of quantisation on a GPU: ``python -m netfold.gpu_check._quantize_ranks SCENARIO OPTIONS``.

With the option ``device`` ``cpu``, and ``TRITON_INTERPRET=1``, the same runs on processors.
"""

from __future__ import annotations

import itertools
from typing import Any, List, Tuple

import torch
import torch.distributed as dist

import netfold
import netfold.torch
from netfold.triton import MODES, Quantizer, quantizable
from netfold.triton._quantizer import copy

from . import _ranks
from ._comparison import Comparison, compare_kernels, measure_rates, raw
from ._ranks import DEVICE, FLOATS, OPTIONS, RANK, contribution, losses, network, report, synchronize


def kernels() -> None:
    """Every kernel against the library's quantiser."""
    # The kernels take any type in any mode.
    compare_kernels(Quantizer, lambda mode, dtype: True)


def group(quantize: str, **options: Any) -> netfold.torch.HookState:
    """A group beside the default one, for the hook."""
    return netfold.torch.HookState(options=netfold.torch.Options(quantize=quantize, **options), error_feedback=options.get("mode") == "bfp16")


def reduced(state: netfold.torch.HookState, tensor: torch.Tensor, op: str) -> torch.Tensor:
    options = dist.AllreduceOptions()
    options.reduceOp = getattr(dist.ReduceOp, op)
    state.group.allreduce([tensor], options).wait()
    return tensor


def reductions() -> None:
    """All-reduces of tensors that are quantised on the device against copies in host memory, bit for bit; and DDP with error feedback."""
    found = Comparison(Quantizer)
    for mode in MODES:
        device, host = group("device", mode=mode), group("host", mode=mode)
        types = [dtype for dtype in FLOATS if quantizable(dtype, mode)]
        for dtype, op, count in itertools.product(types, ("SUM", "AVG"), OPTIONS.get("counts", (1, 704, 5_000, 131_073, 6_000_001, 30_000_000))):
            tensor = contribution(dtype, count, RANK, count)
            expected = reduced(host, tensor.cpu().clone(), op)
            found.same(f"{op} of {count} {dtype}, {mode}", raw(reduced(device, tensor, op)), raw(expected))
    in_flight(found)
    report(cases=found.cases, elements=found.elements, wrong=found.wrong, failed=found.failed[:8])
    trained = losses(hooked(group("device", mode="bfp16")), OPTIONS.get("steps", 40))
    report(feedback=trained, plain=losses(torch.nn.parallel.DistributedDataParallel(network()), OPTIONS.get("steps", 40)))


def hooked(state: netfold.torch.HookState) -> torch.nn.Module:
    model = torch.nn.parallel.DistributedDataParallel(network(), bucket_cap_mb=1)
    model.register_comm_hook(state, netfold.torch.all_reduce_hook)
    return model


def in_flight(found: Comparison) -> None:
    """Many in flight, whose memory is given up at once; each behind a kernel that takes a while."""
    device, host = group("device", mode="bfp16"), group("host", mode="bfp16")
    options = dist.AllreduceOptions()
    results: List[Tuple[torch.Tensor, torch.Tensor]] = []
    for step in range(OPTIONS.get("steps", 40)):
        count = (1, 1_001, 300_007, 3_000_001)[step % 4] if DEVICE.type == "cuda" else 1_001
        tensor = contribution(torch.float32, count, RANK, step)
        expected = tensor.cpu()
        if DEVICE.type == "cuda":
            torch.cuda._sleep(2_000_000)
        tensor = tensor * 1.0
        work = device.group.allreduce([tensor], options)
        # Where the allocator believes that memory is free, this overwrites it.
        torch.full((count,), float("nan"), device=DEVICE)
        work.wait()
        results.append((tensor.clone(), expected))
        del tensor, work
    synchronize()
    for result, expected in results:
        found.same("in flight", raw(result), raw(reduced(host, expected, "SUM")))


def rates() -> None:
    """Bytes a second that each kernel reads and writes."""
    measure_rates(Quantizer, copy)
    dist.barrier()


_ranks.SCENARIOS.update({"kernels": kernels, "reductions": reductions, "quantize_rates": rates})

if __name__ == "__main__":
    _ranks.main()
