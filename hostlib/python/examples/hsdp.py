"""Trains a small transformer with hybrid sharding (HSDP) and tensor parallelism, over Netfold and over gloo.

    torchrun --nproc-per-node 4 hostlib/python/examples/hsdp.py --compare --mode bfp32

The ranks form a mesh of 2 x 2 (``replicate`` x ``shard``). Attention, embedding and head are sharded by FSDP2 along ``shard`` and replicated along
``replicate``. The feed-forward layers are tensor-parallel along ``shard``: their input is gathered from the ranks, their output is
scattered to them, and FSDP2 shards each rank's part along ``replicate``. So each step has reduce-scatters, all-gathers and all-reduces of
both kinds of groups.

It prints the loss of each step over both, the largest difference, and the number of collectives that went through the switch, and ends
with code 1 if the difference exceeds ``BOUNDS``. Rank 0 runs a software switch unless ``NETFOLD_CONTROLLER`` names another, or a
controller: then the groups of the mesh are groups of one job there.

A rank that does not finish a step within ``--timeout`` seconds prints what it waits for, in which group, and the stacks of its threads, and
ends with code 3. Needs torch 2.6 or later.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import faulthandler
import os
import sys
import threading
import time
from typing import Counter, List, Tuple

import torch
import torch.distributed as dist
from ddp import DATA, Digits

import netfold.torch

#: The largest relative difference of a loss from that over gloo, by mode.
BOUNDS = {"bfp32": 1e-5, "bfp16": 5e-3}

#: Images are sequences of 8 rows of 8 pixels.
ROWS, PIXELS, CLASSES = 8, 8, 10
WIDTH, HIDDEN, HEADS, BLOCKS = 64, 128, 4, 2


class Attention(torch.nn.Module):
    """Self-attention behind a normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.inputs = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.output = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        parts = self.inputs(self.norm(hidden)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        found = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        return self.output(found.transpose(1, 2).flatten(2))


class FeedForward(torch.nn.Module):
    """Two layers, which are tensor-parallel: the first by columns, the second by rows."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(WIDTH, HIDDEN)
        self.down = torch.nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        # A copy, because the layer returns a view, on which FSDP2's hooks are unreliable.
        return self.down(torch.nn.functional.gelu(self.up(hidden))).clone()


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.feed_forward = FeedForward()

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        hidden = hidden + self.attention(hidden)
        return hidden + self.feed_forward(self.norm(hidden))


class Classifier(torch.nn.Module):
    """A transformer over the rows of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Linear(PIXELS, WIDTH)
        self.places = torch.nn.Parameter(torch.randn(ROWS, WIDTH) / 10)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(BLOCKS))
        self.head = torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(images.unflatten(1, (ROWS, PIXELS))) + self.places
        for block in self.blocks:
            hidden = block(hidden)
        return self.head(hidden.mean(dim=1))


def parallelize(model: Classifier, mesh: "dist.DeviceMesh", average: bool) -> None:
    """Shards the model. ``average``: the backend has averages; otherwise gradients are summed and divided."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    for block in model.blocks:
        plan = {"up": ColwiseParallel(input_layouts=Shard(0)), "down": RowwiseParallel(output_layouts=Shard(0))}
        parallelize_module(block.feed_forward, mesh["shard"], plan)
        fully_shard(block.feed_forward, mesh=mesh["replicate"])
        # A rank's part of these layers has seen the images of all ranks along `shard`.
        block.feed_forward.set_force_sum_reduction_for_comms(True)
        block.feed_forward.set_gradient_divide_factor(float(mesh.size()))
        fully_shard(block.attention, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for module in [model, *(block.attention for block in model.blocks)]:
        module.set_force_sum_reduction_for_comms(not average)


class Watch:
    """Ends a process that makes no progress, after it has printed what it waits for."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._lock = threading.Lock()
        self._doing, self._since = "starts", time.monotonic()
        threading.Thread(target=self._run, daemon=True).start()

    def progress(self, doing: str) -> None:
        """What is done from now on, within the time limit."""
        with self._lock:
            self._doing, self._since = doing, time.monotonic()

    def _run(self) -> None:
        while True:
            time.sleep(min(1.0, self.seconds / 10))
            with self._lock:
                doing, age = self._doing, time.monotonic() - self._since
            if age > self.seconds:
                self._give_up(doing, age)

    def _give_up(self, doing: str, age: float) -> None:
        lines = [f"rank {os.environ.get('RANK')} has not finished within {age:.0f} s: {doing}"]
        lines += [f"  waits: {line}" for line in netfold.torch.waiting()] or ["  waits for no collective of Netfold"]
        print("\n".join(lines), file=sys.stderr, flush=True)
        faulthandler.dump_traceback(sys.stderr, all_threads=True)
        os._exit(3)


def train(backend: str, digits: Digits, options: argparse.Namespace, watch: Watch) -> Tuple[List[float], Counter[str]]:
    """Trains over groups of a backend; the mean loss of each step, and the collectives that went through the switch."""
    from torch.distributed.device_mesh import init_device_mesh

    watch.progress(f"{backend}: connects the world")
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=options.timeout))
    watch.progress(f"{backend}: connects the mesh")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    torch.manual_seed(options.seed)
    model = Classifier()
    watch.progress(f"{backend}: shards the model")
    parallelize(model, mesh, average=backend != "gloo")
    optimizer = torch.optim.SGD(model.parameters(), lr=options.rate, momentum=0.9)
    rank, world = dist.get_rank(), dist.get_world_size()
    images, labels = digits.train
    share = options.batch // world
    losses = []
    for step in range(options.steps):
        watch.progress(f"{backend}: step {step + 1} of {options.steps}")
        start = (step * options.batch + rank * share) % (len(images) - share)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images[start : start + share]), labels[start : start + share])
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    watch.progress(f"{backend}: averages the losses")
    means = torch.stack(losses).double()
    dist.all_reduce(means)
    counted: Counter[str] = collections.Counter()
    if backend == "netfold":
        for group in (None, mesh.get_group("replicate"), mesh.get_group("shard")):
            counted.update(netfold.torch.counts(group)["switch"])
        if rank == 0:
            print(f"world: {netfold.torch.path()}", flush=True)
    watch.progress(f"{backend}: leaves")
    dist.barrier()
    dist.destroy_process_group()
    return (means / world).tolist(), counted


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compare", action="store_true", help="train over gloo as well, and compare the losses")
    parser.add_argument("--mode", choices=tuple(BOUNDS), default="bfp32", help="how floating-point tensors travel over the switch")
    parser.add_argument("--path", choices=("switch", "auto"), default="switch", help="auto: ranks of one host use shared memory")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64, help="images of one step, over all ranks")
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds that a step and a collective may take")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    if int(os.environ.get("WORLD_SIZE", "1")) != 4:
        sys.exit("hsdp.py: the mesh is 2 x 2; start it by torchrun --nproc-per-node 4")
    torch.set_num_threads(1)
    os.environ["NETFOLD_MODE"] = options.mode
    os.environ["NETFOLD_SHARED_MEMORY"] = "0" if options.path == "switch" else "1"
    first = os.environ["RANK"] == "0"
    watch = Watch(options.timeout)
    digits = Digits(DATA)
    reference = train("gloo", digits, options, watch)[0] if options.compare else []
    losses, counted = train("netfold", digits, options, watch)
    differences = [abs(ours - theirs) / theirs for ours, theirs in zip(losses, reference)]
    if first:
        print("step" + f"{'gloo':>12}" * bool(reference) + f"{options.mode:>12}")
        for step, loss in enumerate(losses):
            print(f"{step + 1:4}" + "".join(f"{value:12.6f}" for value in (*reference[step : step + 1], loss)))
        if reference:
            print(f"largest difference: {max(differences):.1e} of the loss; bound of {options.mode}: {BOUNDS[options.mode]:.0e}")
        used = ", ".join(f"{count} x {name}" for name, count in sorted(counted.items()))
        print(f"through the switch, on rank 0: {used or 'nothing'}", flush=True)
    # Each, since `max` passes over a loss that is no number.
    return 0 if all(difference <= BOUNDS[options.mode] for difference in differences) else 1


if __name__ == "__main__":
    sys.exit(main())
