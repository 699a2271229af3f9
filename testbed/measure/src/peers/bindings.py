"""All-reduces through the Python package, timed as `netfold bench perf` does; one rank. Arguments: rank world address bytes iterations
warmup slots, and the switch if there is one."""

import json
import os
import sys
import threading
import time

import numpy

import netfold

# The measuring process holds the other end of standard input: when it ends, so does this one.
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(1)), daemon=True).start()

rank, world, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
size, iterations, warmup, slots = map(int, sys.argv[4:8])
through = {"switch": sys.argv[8], "shared_memory": False, "fall_back": False, "slots": slots} if len(sys.argv) > 8 else {}
comm = netfold.Communicator(rank, world, job="bench-python", rendezvous=address, **through)
tensor = numpy.empty(size // 4, numpy.float32)
times = numpy.zeros(iterations)
wrong = 0
for iteration in range(iterations + warmup):
    tensor.fill(rank + 1)
    comm.barrier()
    comm.barrier()
    started = time.perf_counter()
    comm.all_reduce(tensor)
    took = time.perf_counter() - started
    if iteration >= warmup:
        times[iteration - warmup] = took
    comm.barrier()
    wrong += int((tensor != world * (world + 1) / 2).sum())
comm.all_reduce(times, op="max")
if rank == 0:
    print(json.dumps({"times": times.tolist(), "wrong": wrong}), flush=True)
comm.close()
