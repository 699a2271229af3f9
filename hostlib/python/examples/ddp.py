"""Trains a network on images of handwritten digits with DistributedDataParallel, over Netfold and over gloo.

    torchrun --nproc-per-node 4 hostlib/python/examples/ddp.py
    torchrun --nproc-per-node 4 hostlib/python/examples/ddp.py --backend gloo --no-speed

prints the accuracy on held-out images after every epoch, then how fast tensors of several sizes are summed. ``--plot FILE.svg`` draws
the curves. ``--path switch`` (the default) sends gradients through a software switch, which rank 0 runs unless
``NETFOLD_CONTROLLER`` names another; ``--path auto`` lets ranks of one host sum in shared memory.

The data are 1797 images of 8 x 8 pixels, which lie in ``testbed/train/data`` of the repository (see the README there for their origin and
licence); nothing is downloaded. torchrun of torch 1.13 needs ``--redirects 2 --tee 1 --log_dir DIR`` with Python 3.11.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import time
from typing import Dict, List, Tuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import netfold.torch

DATA = pathlib.Path(__file__).resolve().parents[3] / "testbed" / "train" / "data" / "digits.csv"

#: Every how many-th image is held out.
HELD_OUT = 5


class Digits:
    """The images, split in the same way on every rank."""

    def __init__(self, path: pathlib.Path) -> None:
        rows = [[int(field) for field in line.split(",")] for line in path.read_text().splitlines()]
        table = torch.tensor(rows)
        images, labels = table[:, :64].float() / 16.0, table[:, 64]
        order = torch.randperm(len(table), generator=torch.Generator().manual_seed(20))
        held, kept = order[::HELD_OUT], torch.cat([order[start::HELD_OUT] for start in range(1, HELD_OUT)])
        self.train = (images[kept], labels[kept])
        self.test = (images[held], labels[held])


def network(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
    )


def train(digits: Digits, name: str, group: object, options: argparse.Namespace) -> List[Tuple[float, float]]:
    """Trains over a group of this name; mean loss and accuracy on held-out images, by epoch."""
    rank, world = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(network(options.seed), process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.rate, momentum=0.9)
    images, labels = digits.train
    share = options.batch // world
    curve = []
    begun = time.perf_counter()
    for epoch in range(options.epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1000 * options.seed + epoch))
        losses = []
        for start in range(0, len(images) - options.batch + 1, options.batch):
            mine = order[start + rank * share : start + (rank + 1) * share]
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images[mine]), labels[mine])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        with torch.no_grad():
            right = (model(digits.test[0]).argmax(1) == digits.test[1]).float().mean().item()
        curve.append((statistics.fmean(losses), right))
        if rank == 0 and epoch == 0:
            print(f"training over {name}: {time.perf_counter() - begun:.2f} s an epoch", flush=True)
    means = torch.tensor([loss for loss, _ in curve], dtype=torch.float64)
    dist.all_reduce(means)
    curve = [(mean.item() / world, right) for mean, (_, right) in zip(means, curve)]
    check = torch.cat([parameter.detach().flatten() for parameter in model.parameters()]).double().sum()
    checks = [torch.zeros_like(check) for _ in range(world)]
    dist.all_gather(checks, check)
    assert all(each == check for each in checks), "the models of the ranks differ"
    return curve


def speed(group: object, elements: int, repetitions: int) -> Tuple[float, float]:
    """Median and spread (half of the range between the quartiles) of seconds for one all-reduce."""
    tensor = torch.ones(elements)
    times = []
    for repetition in range(repetitions + 2):
        tensor.fill_(1.0)
        dist.barrier()
        begun = time.perf_counter()
        dist.all_reduce(tensor, group=group)
        times.append(time.perf_counter() - begun)
    assert tensor[0] == dist.get_world_size()
    quartiles = statistics.quantiles(times[2:], n=4)
    return statistics.median(times[2:]), (quartiles[2] - quartiles[0]) / 2


def plot(curves: Dict[str, List[Tuple[float, float]]], title: str) -> str:
    """Loss (left) and accuracy (right) by epoch, as SVG."""
    width, height, left, top, inner_width, inner_height = 860, 340, 60, 50, 320, 220
    colours = ("#1f6f8b", "#d1495b", "#66a182", "#8d5a97")
    epochs = max(len(curve) for curve in curves.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{width / 2}" y="22" text-anchor="middle" font-size="15">{title}</text>',
    ]
    for panel, (name, low, high, mark) in enumerate((("training loss", 0.0, 2.4, 0.4), ("held-out accuracy, %", 60.0, 100.0, 10.0))):
        x0 = left + panel * (inner_width + 90)
        y0 = top + inner_height

        def place(epoch: int, value: float) -> str:
            x = x0 + inner_width * epoch / max(1, epochs - 1)
            y = y0 - inner_height * (min(max(value, low), high) - low) / (high - low)
            return f"{x:.1f},{y:.1f}"

        parts.append(f'<text x="{x0 + inner_width / 2}" y="{top - 8}" text-anchor="middle">{name}</text>')
        value = low
        while value <= high + 1e-9:
            y = place(0, value).split(",")[1]
            parts.append(f'<line x1="{x0}" x2="{x0 + inner_width}" y1="{y}" y2="{y}" stroke="#ddd"/>')
            parts.append(f'<text x="{x0 - 6}" y="{y}" dy="4" text-anchor="end">{value:g}</text>')
            value += mark
        for epoch in range(0, epochs, 5):
            x = place(epoch, low).split(",")[0]
            parts.append(f'<text x="{x}" y="{y0 + 16}" text-anchor="middle">{epoch + 1}</text>')
        parts.append(f'<text x="{x0 + inner_width / 2}" y="{y0 + 34}" text-anchor="middle">epoch</text>')
        for index, (label, curve) in enumerate(curves.items()):
            values = [(loss, 100.0 * right)[panel] for loss, right in curve]
            points = " ".join(place(epoch, value) for epoch, value in enumerate(values))
            dashes = f' stroke-dasharray="{4 + 2 * index},{3 * index}"' if index else ""
            line = f'<polyline points="{points}" fill="none" stroke="{colours[index % 4]}" stroke-width="2"{dashes}/>'
            parts.append(line)
    for index, label in enumerate(curves):
        x = left + index * 260
        parts.append(f'<rect x="{x}" y="{height - 26}" width="16" height="4" fill="{colours[index % 4]}"/>')
        parts.append(f'<text x="{x + 22}" y="{height - 20}">{label}</text>')
    return "\n".join(parts) + "\n</svg>\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=("netfold", "gloo", "both"), default="both")
    parser.add_argument("--mode", choices=("bfp16", "bfp32"), default="bfp16", help="how gradients travel over the switch")
    parser.add_argument("--path", choices=("switch", "auto"), default="switch")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64, help="images of one step, over all ranks")
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=pathlib.Path, default=DATA)
    parser.add_argument("--no-speed", dest="speed", action="store_false", help="train only")
    parser.add_argument("--plot", type=pathlib.Path, help="draw the curves into this SVG file")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    torch.set_num_threads(1)
    # What rank and world size are, and where the store is, torchrun has put into the environment.
    dist.init_process_group("gloo")
    groups: Dict[str, object] = {}
    if options.backend != "netfold":
        groups["gloo"] = dist.new_group(backend="gloo")
    if options.backend != "gloo":
        os.environ["NETFOLD_MODE"] = options.mode
        os.environ["NETFOLD_SHARED_MEMORY"] = "0" if options.path == "switch" else "1"
        groups["netfold"] = dist.new_group(backend="netfold")
    compared = dict(groups)
    if options.backend != "gloo" and options.path == "switch" and options.speed:
        # What ranks that share a host would use: the switch is for more hosts than one.
        os.environ["NETFOLD_SHARED_MEMORY"] = "1"
        compared["netfold, path auto"] = dist.new_group(backend="netfold")
    first = dist.get_rank() == 0
    say = print if first else (lambda *_, **__: None)
    if "netfold" in groups:
        say(f"netfold: {options.mode}, {netfold.torch.path(groups['netfold'])}")
    digits = Digits(options.data)
    say(f"{len(digits.train[0])} images to learn from, {len(digits.test[0])} held out, {dist.get_world_size()} ranks\n")
    curves = {}
    for name, group in groups.items():
        begun = time.perf_counter()
        curves[name] = train(digits, name, group, options)
        say(f"trained over {name} in {time.perf_counter() - begun:.1f} s")
    say("\nepoch" + "".join(f"   {name + ' loss':>13} {name + ' right':>14}" for name in groups))
    for epoch in range(options.epochs):
        columns = (f"   {curve[epoch][0]:13.4f} {100 * curve[epoch][1]:12.1f} %" for curve in curves.values())
        say(f"{epoch + 1:5}" + "".join(columns))
    if options.speed:
        say("\nall-reduce of f32, median of 15 (and half the range between quartiles)")
        say(f"{'bytes':>10}" + "".join(f"   {name:>24}" for name in compared))
        for elements in (1 << 10, 1 << 16, 1 << 18, 1 << 20, 1 << 22):
            line = f"{4 * elements:10}"
            for group in compared.values():
                median, spread = speed(group, elements, 15)
                line += f"   {1e3 * median:8.2f} ms +- {1e3 * spread:7.2f} ms"
            say(line)
    if options.plot is not None and first:
        title = f"Handwritten digits, {dist.get_world_size()} ranks, DistributedDataParallel"
        label = f"netfold, {options.mode}, {options.path}"
        options.plot.write_text(plot({label if name == "netfold" else name: curve for name, curve in curves.items()}, title))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
