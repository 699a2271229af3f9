"""What one rank does in the checks of the backend ``netfold`` on a GPU: ``python -m netfold.gpu_check._tensor_ranks SCENARIO OPTIONS``.

It has the scenarios of ``_ranks``, over the backend ``netfold`` in place of NCCL's, and those below.
"""

from __future__ import annotations

from typing import Dict, List, Tuple

import torch
import torch.distributed as dist

import netfold
import netfold.torch

from . import _ranks
from ._ranks import DEVICE, OPTIONS, RANK, WORLD, contribution, median_seconds, report, synchronize, wrong_elements

#: Bytes of a tensor for which time is measured.
SIZES = tuple(1 << power for power in range(16, 29, 2))

#: Clock cycles of the kernel before an operation: about 10 ms.
KERNEL_CYCLES = 15_000_000


def streams() -> None:
    """Operations in flight on streams of their own, behind long kernels, with memory that is freed and used again at once."""
    checked: List[Tuple[torch.Tensor, List[torch.Tensor]]] = []
    steps = OPTIONS.get("steps", 60)
    for step in range(steps):
        count = (1, 1_001, 300_007, 3_000_001)[step % 4]
        inputs = [contribution(torch.float32, count, rank, step) for rank in range(WORLD)]
        producer, consumer = torch.cuda.Stream(), torch.cuda.Stream()
        producer.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(producer):
            torch.cuda._sleep(KERNEL_CYCLES)
            tensor = inputs[RANK].clone()
            work = dist.all_reduce(tensor, async_op=True)
        with torch.cuda.stream(consumer):
            if step % 2 == 0:
                work.wait()
            else:
                work.get_future().wait()
            checked.append((tensor.clone(), inputs))
        tensor.record_stream(consumer)
        del tensor, work
        with torch.cuda.stream(producer):
            # Where the allocator believes that the tensor's memory is free, this overwrites it.
            torch.full((count,), float("nan"), device=DEVICE)
    synchronize()
    wrong = sum(wrong_elements(result, inputs, "SUM")[0] for result, inputs in checked)
    report(cases=steps, wrong=wrong, failed=[f"{wrong} elements"] if wrong else [])


def refusals() -> None:
    """What cannot be done is an error that says so, and the group goes on."""
    tensor = torch.ones(1000, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    refused = ""
    try:
        with torch.cuda.graph(graph):
            dist.all_reduce(tensor)
    except netfold.Error as error:
        refused = str(error)
    synchronize()
    tensor.fill_(1.0)
    dist.all_reduce(tensor)
    right = bool((tensor == WORLD).all())
    report(refused=refused, wrong=0 if right and "graph" in refused else 1, failed=[refused])


def rates() -> None:
    """Times of all-reduces on the device and in host memory, of copies of pinned memory, and of staging alone, by bytes."""
    found: Dict[str, Dict[int, float]] = {name: {} for name in ("device", "host", "copy_in", "copy_out", "staging", "both_copies")}
    alone = netfold.Communicator(0, 1, job=f"alone-{RANK}", exchange=lambda own: [own])
    others = torch.cuda.Stream()
    for size in OPTIONS.get("sizes", SIZES):
        tensor = torch.ones(size // 4, device=DEVICE)
        host = torch.ones(size // 4)
        pinned, more = (torch.ones(size // 4, pin_memory=True) for _ in range(2))
        apart = torch.ones(size // 4, device=DEVICE)

        def both() -> None:
            others.wait_stream(torch.cuda.current_stream())
            pinned.copy_(tensor, non_blocking=True)
            with torch.cuda.stream(others):
                apart.copy_(more, non_blocking=True)

        found["device"][size] = median_seconds(lambda: dist.all_reduce(tensor), size)
        found["host"][size] = median_seconds(lambda: dist.all_reduce(host), size)
        for rank in range(WORLD):
            dist.barrier()
            if rank == RANK:
                found["copy_in"][size] = median_seconds(lambda: pinned.copy_(tensor, non_blocking=True), size, False)
                found["copy_out"][size] = median_seconds(lambda: tensor.copy_(pinned, non_blocking=True), size, False)
                found["both_copies"][size] = median_seconds(both, size, False)
                found["staging"][size] = median_seconds(lambda: alone.all_reduce(tensor), size, False)
        dist.barrier()
    alone.close()
    report(**{name: list(times.items()) for name, times in found.items()})


_ranks.SCENARIOS.update({"streams": streams, "refusals": refusals, "tensor_rates": rates})

if __name__ == "__main__":
    _ranks.main()
