"""Collectives over gloo, timed as `netfold bench perf` does; one rank. Arguments: rank world address bytes iterations warmup, and
all-reduce (without it), reduce-scatter, all-gather, broadcast, or overlap: a reduce-scatter and an all-gather at the same time."""

import json
import os
import sys
import threading
import time

import torch
import torch.distributed as dist

# The measuring process holds the other end of standard input: when it ends, so does this one.
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(1)), daemon=True).start()

rank, world, address, size, iterations, warmup = sys.argv[1], sys.argv[2], sys.argv[3], *map(int, sys.argv[4:7])
dist.init_process_group("gloo", init_method=f"tcp://{address}", rank=int(rank), world_size=int(world))
collective = sys.argv[7] if len(sys.argv) > 7 else "all-reduce"
rank, world = int(rank), int(world)
count = size // 4 // world * world
tensor, part = torch.empty(count), torch.empty(count // world)
gathered, own = torch.empty(count), torch.empty(count // world)
total = world * (world + 1) / 2


def scatter():
    return dist.reduce_scatter(part, list(tensor.chunk(world)), async_op=True)


def gather():
    return dist.all_gather(list(gathered.chunk(world)), own, async_op=True)


def run():
    started = {
        "all-reduce": lambda: [dist.all_reduce(tensor, async_op=True)],
        "reduce-scatter": lambda: [scatter()],
        "all-gather": lambda: [gather()],
        "broadcast": lambda: [dist.broadcast(tensor, 0, async_op=True)],
        "overlap": lambda: [scatter(), gather()],
    }[collective]()
    for work in started:
        work.wait()


def mistakes():
    parts = torch.arange(1, world + 1).repeat_interleave(count // world)
    wrong = {
        "all-reduce": lambda: (tensor != total).sum(),
        "reduce-scatter": lambda: (part != total).sum(),
        "all-gather": lambda: (gathered != parts).sum(),
        "broadcast": lambda: (tensor != 1).sum(),
        "overlap": lambda: (part != total).sum() + (gathered != parts).sum(),
    }
    return int(wrong[collective]())


times = torch.zeros(iterations, dtype=torch.float64)
wrong = 0
for iteration in range(iterations + warmup):
    tensor.fill_(float(rank + 1))
    own.fill_(float(rank + 1))
    dist.barrier()
    dist.barrier()
    started = time.perf_counter()
    run()
    took = time.perf_counter() - started
    if iteration >= warmup:
        times[iteration - warmup] = took
    dist.barrier()
    wrong += mistakes()
dist.all_reduce(times, op=dist.ReduceOp.MAX)
if rank == 0:
    print(json.dumps({"times": times.tolist(), "wrong": wrong}), flush=True)
dist.destroy_process_group()
