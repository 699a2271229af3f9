"""What the examples of launchers and frameworks have in common: a small network, the images of each step, and the comparison of losses.

An example trains over one backend. ``--losses FILE`` keeps the mean loss of each step, ``--compare FILE`` compares with losses that were kept, and
ends with code 1 if one differs by more than the bound of ``--mode``.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
from typing import Any, Counter, List, Sequence, Tuple

import torch
import torch.distributed as dist
from ddp import DATA, Digits, network

import netfold.torch

#: The largest relative difference of a loss from that over gloo, by mode.
BOUNDS = {"bfp32": 1e-5, "bfp16": 5e-3}


def parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--backend", choices=("netfold", "gloo"), default="netfold")
    parser.add_argument("--mode", choices=tuple(BOUNDS), default="bfp32", help="how gradients travel over the switch")
    parser.add_argument("--path", choices=("switch", "auto"), default="switch", help="auto: ranks of one host use shared memory")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64, help="images of one step, over all ranks")
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--losses", type=pathlib.Path, metavar="FILE", help="keep the loss of each step in this file")
    parser.add_argument("--compare", type=pathlib.Path, metavar="FILE", help="compare with the losses in this file")
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of this process, once its settings are made."""
    options = parser.parse_args()
    prepare(options)
    return options


def arguments(description: str) -> argparse.Namespace:
    """The options of an example that has no others."""
    return parsed(parser(description))


def prepare(options: argparse.Namespace) -> None:
    """Settings of a process that trains, before it has a process group."""
    torch.set_num_threads(1)
    os.environ["NETFOLD_MODE"] = options.mode
    os.environ["NETFOLD_SHARED_MEMORY"] = "0" if options.path == "switch" else "1"


class Task:
    """A network, and the images of each step: the same for any number of ranks."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._images, self._labels = Digits(DATA).train
        self._batch = options.batch
        self.network = network(options.seed)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=options.rate, momentum=0.9)

    def batch(self, step: int, rank: int, world: int) -> Tuple[torch.Tensor, torch.Tensor]:
        """A rank's part of the images of a step, and what they show."""
        share = self._batch // world
        start = (step * self._batch + rank * share) % (len(self._images) - share)
        return self._images[start : start + share], self._labels[start : start + share]

    def train(self, model: torch.nn.Module, steps: int) -> List[float]:
        """Trains ``model``, which wraps the network; the mean loss of each step."""
        losses = []
        for step in range(steps):
            images, labels = self.batch(step, dist.get_rank(), dist.get_world_size())
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            self.optimizer.step()
            losses.append(loss.detach())
        return mean(losses)


def mean(losses: Sequence[torch.Tensor]) -> List[float]:
    """The means over all ranks."""
    means = torch.stack(list(losses)).double()
    dist.all_reduce(means)
    return (means / dist.get_world_size()).tolist()


def through_the_switch(backend: str, *groups: Any) -> str:
    """The operations of this rank so far that went through a switch, in the world and in ``groups``, and the path of the world."""
    if backend != "netfold":
        return backend
    used: Counter[str] = collections.Counter()
    for group in (None, *groups):
        used.update(netfold.torch.counts(group)["switch"])
    return f"{', '.join(f'{count} x {name}' for name, count in sorted(used.items())) or 'nothing'} through {netfold.torch.path()}"


def report(options: argparse.Namespace, losses: List[float], used: str) -> int:
    """Prints the losses, keeps or compares them as the options say; the exit code. For one rank."""
    reference: List[float] = json.loads(options.compare.read_text()) if options.compare else losses
    if len(reference) != len(losses):
        print(f"{options.compare} has the losses of {len(reference)} steps; train as many with --steps")
        return 2
    print("step" + f"{'reference':>12}" * bool(options.compare) + f"{options.backend:>12}")
    for step, (loss, other) in enumerate(zip(losses, reference)):
        print(f"{step + 1:4}" + f"{other:12.6f}" * bool(options.compare) + f"{loss:12.6f}")
    print(f"rank 0: {used}")
    if options.losses:
        options.losses.write_text(json.dumps(losses))
    if not options.compare:
        return 0
    differences = [abs(loss - other) / other for loss, other in zip(losses, reference)]
    print(f"largest difference: {max(differences):.1e} of the loss; bound of {options.mode}: {BOUNDS[options.mode]:.0e}", flush=True)
    # Each, since `max` passes over a loss that is no number.
    return 0 if all(difference <= BOUNDS[options.mode] for difference in differences) else 1
