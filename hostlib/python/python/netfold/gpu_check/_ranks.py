"""What one rank does in the checks of NCCL: ``python -m netfold.gpu_check._ranks SCENARIO OPTIONS``, OPTIONS as JSON.

It uses torch.distributed alone, as a training does: whether NCCL uses Netfold is decided by its environment variables. Rank and
world size are in ``RANK`` and ``WORLD_SIZE``; the option ``store`` is a file for the rendezvous. Values are reported by lines
``RESULT {...}``.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import statistics
import sys
import time
from typing import Any, Callable, Dict, List, Tuple

import torch
import torch.distributed as dist

from ._children import end_with_parent

RANK = int(os.environ["RANK"])
WORLD = int(os.environ["WORLD_SIZE"])
OPTIONS: Dict[str, Any] = json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
#: ``cuda``, and ``nccl``; the tests of this file use ``cpu`` and ``gloo``.
DEVICE = torch.device(OPTIONS.get("device", "cuda:0"))

FLOATS = (torch.float32, torch.float16, torch.bfloat16)

#: What a plugin in mode ``bfp32`` reduces in the network: types, operations.
REDUCTIONS = [(dtype, op) for dtype in FLOATS for op in ("SUM", "AVG", "MIN", "MAX")]
REDUCTIONS += [(dtype, op) for dtype in (torch.int8, torch.uint8, torch.int32) for op in ("SUM", "MIN", "MAX")]
REDUCTIONS += [(torch.int64, "SUM")]

#: What it leaves to NCCL's own algorithms, over the plugin's net.
OTHER_REDUCTIONS = [(torch.float64, "SUM"), (torch.float64, "MAX"), (torch.int64, "MIN"), (torch.float32, "PRODUCT")]

#: Elements of an all-reduce: less and more than a packet, a step of NCCL's pipeline, and its buffers.
COUNTS = (1, 7, 352, 353, 5_000, 65_536, 131_073, 1_048_577, 6_000_001)

#: Bits behind the leading one of a mantissa.
PRECISION = {torch.float16: 10, torch.bfloat16: 7, torch.float32: 23, torch.float64: 52}

#: Bytes of a tensor for which time is measured.
RATE_SIZES = (8, 64 << 10, 1 << 20, 16 << 20, 64 << 20)


def report(**values: Any) -> None:
    print("RESULT " + json.dumps(values), flush=True)


def contribution(dtype: torch.dtype, count: int, rank: int, seed: int = 0) -> torch.Tensor:
    """A rank's tensor, which every rank can compute. Integers take all values of their type, so that sums wrap."""
    generator = torch.Generator(device=DEVICE).manual_seed(1 + seed * 1009 + rank)
    if dtype.is_floating_point:
        return torch.randn(count, generator=generator, device=DEVICE, dtype=torch.float64).to(dtype)
    limits = torch.iinfo(dtype)
    low, high = max(limits.min, -(2**62)), min(limits.max, 2**62)
    return torch.randint(low, high, (count,), generator=generator, device=DEVICE, dtype=torch.int64).to(dtype)


def wrong_elements(result: torch.Tensor, inputs: List[torch.Tensor], op: str) -> Tuple[int, float]:
    """How many elements of an all-reduce are wrong, and the largest error as a part of what is allowed."""
    wide = torch.float64 if result.dtype.is_floating_point else torch.int64
    stacked = torch.stack([each.to(wide) for each in inputs])
    if op in ("MIN", "MAX"):
        expected = stacked.amin(0) if op == "MIN" else stacked.amax(0)
    elif op == "PRODUCT":
        expected = stacked.prod(0)
    else:
        expected = stacked.sum(0) / (len(inputs) if op == "AVG" else 1) if wide == torch.float64 else stacked.sum(0)
    if wide == torch.int64 or op in ("MIN", "MAX"):
        return int((result != expected.to(result.dtype)).sum()), 0.0
    bound = allowed(result.dtype, stacked, expected)
    part = (result.to(wide) - expected).abs() / bound
    # A comparison with NaN is false.
    return int((~(part <= 1.0)).sum()), float(part.max()) if result.numel() else 0.0


def allowed(dtype: torch.dtype, inputs: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """The error bound of a sum of blocks with 32-bit mantissas (docs/numerics.md), and of its rounding to ``dtype``."""
    headroom = (len(inputs) - 1).bit_length()
    largest = inputs.abs().amax() if inputs.numel() else torch.zeros((), device=DEVICE)
    blocks = len(inputs) * (2.0 ** (1 + headroom - 32) + 2.0**-24) * largest
    # Each of NCCL's own additions, and the scaling of an average, may round once.
    return blocks + len(inputs) * expected.abs() * 2.0 ** -(PRECISION[dtype] + 1) + 2.0**-24


def reduce_and_compare(dtype: torch.dtype, op: str, count: int, seed: int, group: Any = None) -> Tuple[int, float]:
    inputs = [contribution(dtype, count, rank, seed) for rank in range(WORLD)]
    result = inputs[RANK].clone()
    dist.all_reduce(result, op=getattr(dist.ReduceOp, op), group=group)
    return wrong_elements(result, inputs, op)


def in_flight(seed: int) -> int:
    """64 all-reduces in flight; returns how many elements are wrong."""
    inputs = [[contribution(torch.float32, 1 + 997 * index, rank, seed + index) for rank in range(WORLD)] for index in range(64)]
    results = [each[RANK].clone() for each in inputs]
    for work in [dist.all_reduce(result, async_op=True) for result in results]:
        work.wait()
    return sum(wrong_elements(result, each, "SUM")[0] for result, each in zip(results, inputs))


def in_graph(seed: int) -> int:
    """An all-reduce in a CUDA graph, replayed with several inputs; returns how many elements are wrong."""
    if DEVICE.type != "cuda" or not OPTIONS.get("graph", True):
        return 0
    tensor = contribution(torch.float32, 100_003, RANK, seed)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(tensor)
    wrong = 0
    for replay in range(5):
        inputs = [contribution(torch.float32, 100_003, rank, seed + replay) for rank in range(WORLD)]
        tensor.copy_(inputs[RANK])
        graph.replay()
        wrong += wrong_elements(tensor, inputs, "SUM")[0]
    return wrong


def all_reduce() -> None:
    """All-reduces of all types, operations and sizes, and many in flight; every element is compared."""
    cases = wrong = elements = 0
    largest = 0.0
    failed: List[str] = []
    for (dtype, op), count in itertools.product(REDUCTIONS, OPTIONS.get("counts", COUNTS)):
        if op == "AVG" and not OPTIONS.get("average", True):
            continue
        bad, part = reduce_and_compare(dtype, op, count, cases)
        cases, elements, wrong, largest = cases + 1, elements + count, wrong + bad, max(largest, part)
        if bad:
            failed.append(f"{op} of {count} {str(dtype).removeprefix('torch.')}: {bad} wrong elements")
    # A second communicator has a group of its own.
    group = dist.new_group(list(range(WORLD)))
    more = {
        "64 sums in flight": in_flight(cases),
        "sums of a second group": sum(reduce_and_compare(torch.float32, "SUM", count, cases, group)[0] for count in (1, 5_000, 131_073)),
        "sums in a CUDA graph": in_graph(cases),
    }
    failed += [f"{name}: {bad} wrong elements" for name, bad in more.items() if bad]
    report(
        cases=cases + 64 + 3 + 5,
        elements=elements,
        wrong=wrong + sum(more.values()),
        error_of_bound=largest,
        failed=failed[:8],
    )


def exact(name: str, result: torch.Tensor, expected: torch.Tensor, failed: List[str]) -> int:
    bad = int((result != expected).sum())
    if bad:
        failed.append(f"{name} of {result.numel()} elements: {bad} wrong")
    return bad


def messages() -> None:
    """All-gathers, reduce-scatters, sends, broadcasts, all-to-alls, and reductions that no switch does; every element is compared."""
    cases = wrong = 0
    failed: List[str] = []
    for dtype, count in itertools.product((torch.float32, torch.bfloat16, torch.uint8), OPTIONS.get("counts", COUNTS)):
        parts = [contribution(dtype, count, rank, count) for rank in range(WORLD)]
        whole = torch.cat(parts)
        gathered = torch.empty_like(whole)
        dist.all_gather_into_tensor(gathered, parts[RANK])
        wrong += exact("all-gather", gathered, whole, failed)
        wholes = [contribution(dtype, count * WORLD, rank, count) for rank in range(WORLD)]
        scattered = torch.empty_like(parts[RANK])
        dist.reduce_scatter_tensor(scattered, wholes[RANK])
        part = [each[RANK * count : (RANK + 1) * count] for each in wholes]
        bad = wrong_elements(scattered, part, "SUM")[0]
        wrong += bad
        if bad:
            failed.append(f"reduce-scatter of {count} {dtype}: {bad} wrong")
        received = torch.empty_like(parts[RANK])
        work = [dist.P2POp(dist.isend, parts[RANK], (RANK + 1) % WORLD), dist.P2POp(dist.irecv, received, (RANK - 1) % WORLD)]
        for each in dist.batch_isend_irecv(work):
            each.wait()
        wrong += exact("send", received, parts[(RANK - 1) % WORLD], failed)
        copied = parts[RANK].clone()
        dist.broadcast(copied, WORLD - 1)
        wrong += exact("broadcast", copied, parts[WORLD - 1], failed)
        cases += 4
        if OPTIONS.get("all_to_all", True):
            exchanged = torch.empty_like(whole)
            dist.all_to_all_single(exchanged, wholes[RANK])
            wrong += exact("all-to-all", exchanged, torch.cat(part), failed)
            cases += 1
    for (dtype, op), count in itertools.product(OTHER_REDUCTIONS, (1, 5_000, 131_073)):
        bad = reduce_and_compare(dtype, op, count, cases)[0]
        cases, wrong = cases + 1, wrong + bad
        if bad:
            failed.append(f"{op} of {count} {dtype}: {bad} wrong")
    report(cases=cases, wrong=wrong, failed=failed[:8])


def synchronize() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def median_seconds(action: Callable[[], Any], size: int, together: bool = True) -> float:
    """The median time of an operation on a tensor of ``size`` bytes; all ranks begin ``together``, or this one does it alone."""
    times = []
    for _ in range(6 if size > 16 << 20 else 21):
        if together:
            dist.barrier()
        synchronize()
        started = time.perf_counter()
        action()
        synchronize()
        times.append(time.perf_counter() - started)
    return statistics.median(times[1:])


def rates() -> None:
    """The time of all-reduces of float32, and of messages in both directions, by bytes."""
    reduced: Dict[int, float] = {}
    sent: Dict[int, float] = {}
    for size in OPTIONS.get("rate_sizes", RATE_SIZES):
        tensor = torch.ones(size // 4, device=DEVICE)
        reduced[size] = median_seconds(lambda: dist.all_reduce(tensor), size)
        other = torch.empty_like(tensor)

        def exchange() -> None:
            peer = (RANK + 1) % WORLD
            for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, peer), dist.P2POp(dist.irecv, other, peer)]):
                work.wait()

        sent[size] = median_seconds(exchange, size)
    report(all_reduce=list(reduced.items()), exchange=list(sent.items()))


def network() -> torch.nn.Sequential:
    torch.manual_seed(1)
    width = OPTIONS.get("width", 512)
    middle = [layer for _ in range(3) for layer in (torch.nn.Linear(width, width), torch.nn.GELU())]
    return torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.GELU(), *middle, torch.nn.Linear(width, 10)).to(DEVICE)


def losses(model: torch.nn.Module, steps: int) -> List[float]:
    """Trains on batches that differ by rank; the losses of this rank."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    found = []
    for step in range(steps):
        generator = torch.Generator().manual_seed(1000 * step + RANK)
        inputs = torch.randn(64, 64, generator=generator)
        labels = inputs[:, :10].argmax(1)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs.to(DEVICE)), labels.to(DEVICE))
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return [float(loss) for loss in found]


def train() -> None:
    """DDP and FSDP2: the losses of this rank in each step."""
    steps = OPTIONS.get("steps", 40)
    devices = [DEVICE.index] if DEVICE.type == "cuda" else None
    ddp = losses(torch.nn.parallel.DistributedDataParallel(network(), device_ids=devices, bucket_cap_mb=1), steps)
    report(ddp=ddp)
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        report(fsdp2_missing=f"torch {torch.__version__} has no torch.distributed.fsdp.fully_shard")
        return
    model = network()
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    report(fsdp2=losses(model, steps))


def lose_switch() -> None:
    """Sums in a loop, every element compared, until 20 steps after the file ``killed`` appeared at any rank."""
    killed = pathlib.Path(OPTIONS["killed"])
    inputs = [contribution(torch.float32, OPTIONS.get("count", 2_000_000), rank) for rank in range(WORLD)]
    left, step, wrong = None, 0, 0
    longest = 0.0
    while left != 0:
        result = inputs[RANK].clone()
        stop = torch.tensor([float(killed.exists())], device=DEVICE)
        synchronize()
        started = time.perf_counter()
        dist.all_reduce(result)
        dist.all_reduce(stop)
        synchronize()
        longest = max(longest, time.perf_counter() - started)
        wrong += wrong_elements(result, inputs, "SUM")[0]
        step += 1
        if left is None and float(stop) > 0:
            left = 20
        elif left is not None:
            left -= 1
        report(step=step, stopping=left is not None)
    report(steps=step, wrong=wrong, longest_seconds=longest)


def until_killed() -> None:
    """All-reduces without end."""
    tensor = torch.ones(1_000_000, device=DEVICE)
    while True:
        dist.all_reduce(tensor)
        synchronize()
        tensor.fill_(1.0)
        report(done=1)


SCENARIOS: Dict[str, Callable[[], None]] = {
    "all_reduce": all_reduce,
    "messages": messages,
    "rates": rates,
    "train": train,
    "lose_switch": lose_switch,
    "until_killed": until_killed,
}


def main() -> None:
    end_with_parent()
    options: Dict[str, Any] = {}
    if DEVICE.type == "cuda":
        torch.cuda.set_device(DEVICE)
        if OPTIONS.get("bind", True):
            # NCCL's communicator is made at once, and those of groups by ncclCommSplit.
            options["device_id"] = DEVICE
    backend = OPTIONS.get("backend", "nccl")
    dist.init_process_group(backend, init_method=f"file://{OPTIONS['store']}", rank=RANK, world_size=WORLD, **options)
    SCENARIOS[sys.argv[1]]()
    synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
