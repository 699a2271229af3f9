"""All-reduces over gloo, timed as `netfold bench perf` does; one rank. Arguments: rank world address bytes iterations warmup."""

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
tensor = torch.empty(size // 4, dtype=torch.float32)
times = torch.zeros(iterations, dtype=torch.float64)
wrong = 0
for iteration in range(iterations + warmup):
    tensor.fill_(float(int(rank) + 1))
    dist.barrier()
    dist.barrier()
    started = time.perf_counter()
    dist.all_reduce(tensor)
    took = time.perf_counter() - started
    if iteration >= warmup:
        times[iteration - warmup] = took
    dist.barrier()
    wrong += int((tensor != int(world) * (int(world) + 1) / 2).sum())
dist.all_reduce(times, op=dist.ReduceOp.MAX)
if int(rank) == 0:
    print(json.dumps({"times": times.tolist(), "wrong": wrong}), flush=True)
dist.destroy_process_group()
