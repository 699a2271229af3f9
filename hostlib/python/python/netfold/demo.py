"""A demonstration: ``python -m netfold.demo``.

Starts a software switch in this process and workers as processes, all-reduces tensors over the switch, and compares every
element of the results with sums that are computed here.
"""

from __future__ import annotations

import argparse
import array
import hashlib
import math
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

import netfold

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]

#: Elements after which a worker's tensor repeats itself; no divisor of a packet's, so blocks differ.
PERIOD = 2003

#: Bits of a mantissa, by mode.
MANTISSA_BITS = {"bfp16": 16, "bfp32": 32}

EXAMPLES = """\
examples:
  python -m netfold.demo
  python -m netfold.demo --workers 8 --mode bfp32 --size 1
"""


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the demonstration; returns the exit code: 0, 1 if something failed or a result is wrong, 2 for invalid arguments."""
    options = parse(arguments)
    if options.rank is not None:
        return work(options)
    with netfold.Switch() as switch:
        return lead(options, switch.address)


def parse(arguments: Optional[List[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m netfold.demo",
        description="All-reduce tensors of several worker processes over a software switch in this process, and check the results.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workers", type=within(1, 32), default=4, help="worker processes, 1 to 32 (default: %(default)s)")
    parser.add_argument("--size", type=within(1, 256), default=4, help="MiB of float32 of each worker, 1 to 256 (default: %(default)s)")
    parser.add_argument("--mode", choices=sorted(MANTISSA_BITS), default="bfp16", help="numeric mode (default: %(default)s)")
    parser.add_argument("--iterations", type=within(1, 1000), default=10, help="timed all-reduces (default: %(default)s)")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--switch", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def within(first: int, last: int) -> Any:
    """A parser of numbers from ``first`` to ``last``."""

    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = first - 1
        if not first <= value <= last:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number from {first} to {last}")
        return value

    return number


# -- The parent: starts workers and prints what they report --


def lead(options: argparse.Namespace, switch: str) -> int:
    """Starts the workers, waits for their reports, prints the result."""
    print(
        f"netfold {netfold.__version__}: {options.workers} workers, a software switch at {switch}, "
        f"{options.size} MiB of float32 each, mode {options.mode}",
        flush=True,
    )
    command = [sys.executable, "-m", "netfold.demo", "--switch", switch]
    for name in ("workers", "size", "mode", "iterations"):
        command += [f"--{name}", str(getattr(options, name))]
    workers = [
        subprocess.Popen([*command, "--rank", str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(options.workers)
    ]
    try:
        outputs = [worker.communicate()[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    if any(worker.returncode for worker in workers):
        failed = [rank for rank, worker in enumerate(workers) if worker.returncode]
        print(f"error: the workers of ranks {failed} failed; their messages are above", file=sys.stderr)
        return 1
    return report(options, [dict(line.split("=") for line in output.splitlines()) for output in outputs])


def report(options: argparse.Namespace, reports: List[Dict[str, str]]) -> int:
    """Prints the measurements of all workers; returns the exit code."""
    seconds = max(float(each["seconds"]) for each in reports)
    errors = [float(each["error"]) for each in reports]
    error = math.nan if any(map(math.isnan, errors)) else max(errors)
    bound = error_bound(options.mode, options.workers)
    digests = {each["digest"] for each in reports}
    rate = options.size * 2**20 / seconds / 1e6
    print(f"  time        {seconds * 1e3:.2f} ms an all-reduce (median of {options.iterations}, slowest worker)")
    print(f"  throughput  {rate:.1f} MB/s of tensor a worker")
    print(f"  error       {error:.2e} at most, compared with sums by {'numpy' if numpy else 'Python'}; bound {bound:.2e}")
    same = "the same on all workers, bit for bit" if len(digests) == 1 else "NOT the same on all workers"
    print(f"  results     {same} ({min(digests)})")
    if error <= bound and len(digests) == 1:
        print("The results are correct.")
        return 0
    print("error: the results are wrong; this is a bug, please report it", file=sys.stderr)
    return 1


def error_bound(mode: str, workers: int) -> float:
    """The largest error of a sum of numbers below 1: each contribution errs by less than the quantum, and the sum is rounded to float32."""
    headroom = math.ceil(math.log2(workers)) if workers > 1 else 0
    return workers * (2.0 ** (1 + headroom - MANTISSA_BITS[mode]) + 2.0**-24)


# -- A worker --


def work(options: argparse.Namespace) -> int:
    """One rank: all-reduces, and prints its time, largest error and a digest of its result."""
    count = options.size * 2**20 // 4
    tensor = expand(contribution(options.rank), count)
    times = []
    with netfold.Communicator(
        options.rank, options.workers, job="demo", switch=options.switch, mode=options.mode, shared_memory=False
    ) as comm:
        for _ in range(1 + options.iterations):
            result = tensor[:] if numpy is None else tensor.copy()
            comm.barrier()
            started = time.perf_counter()
            comm.all_reduce(result)
            times.append(time.perf_counter() - started)
    seconds = sorted(times[1:])[options.iterations // 2]
    print(f"seconds={seconds!r}\nerror={largest_error(result, options.workers)!r}")
    print(f"digest={hashlib.sha256(memoryview(result).cast('B')).hexdigest()[:16]}")
    return 0


def contribution(rank: int) -> array.array:
    """The first ``PERIOD`` elements of a rank's tensor: numbers between -1 and 1, some above 1/2 in each packet."""
    return array.array("f", (((7919 * index + 104729 * rank) % 1999 - 999) / 1000 for index in range(PERIOD)))


def expand(pattern: array.array, count: int) -> Any:
    """``count`` elements that repeat a pattern: an array of numpy's where it is installed, else of Python's."""
    if numpy is not None:
        return numpy.resize(numpy.frombuffer(pattern, dtype=numpy.float32), count)
    return (pattern * (count // len(pattern) + 1))[:count]


def largest_error(result: Any, workers: int) -> float:
    """The largest difference of a result's elements from sums in double precision."""
    columns = zip(*(contribution(rank) for rank in range(workers)))
    exact = array.array("d", (math.fsum(column) for column in columns))
    if numpy is not None:
        difference = result.astype(numpy.float64) - numpy.resize(numpy.frombuffer(exact, dtype=numpy.float64), len(result))
        return float(numpy.abs(difference).max())
    if math.isnan(sum(result)):
        return math.nan
    starts = range(0, len(result), PERIOD)
    return max(abs(got - want) for start in starts for got, want in zip(result[start : start + PERIOD], exact))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
