"""Trains with DeepSpeed and ZeRO.

    torchrun --nproc-per-node 2 hostlib/python/examples/train_deepspeed.py --backend gloo --losses gloo.json
    torchrun --nproc-per-node 2 hostlib/python/examples/train_deepspeed.py --compare gloo.json

``deepspeed.init_distributed(dist_backend="netfold")`` makes the process group; the module ``netfold.torch`` has to be imported before. The
command ``deepspeed`` starts the ranks as well as torchrun does. Without a GPU, set ``DS_ACCELERATOR=cpu``; DeepSpeed then compiles a module, for which it needs
a C++ compiler and ninja on the path.
"""

from __future__ import annotations

import argparse
import sys
from typing import List, Tuple

import deepspeed
import torch
import torch.distributed as dist
import training


def train(options: argparse.Namespace) -> Tuple[List[float], str]:
    """Trains; the mean loss of each step, and what went through the switch."""
    task = training.Task(options)
    config = {
        "train_batch_size": options.batch,
        "train_micro_batch_size_per_gpu": options.batch // dist.get_world_size(),
        "zero_optimization": {"stage": options.stage},
        # A schedule's output would hide the losses.
        "steps_per_print": options.steps + 1,
    }
    if options.stage > 0:
        # Its own optimizers are compiled for a GPU or for this processor; torch's needs nothing.
        config["zero_allow_untested_optimizer"] = True
    engine, *_ = deepspeed.initialize(model=task.network, optimizer=task.optimizer, config=config)
    losses = []
    for step in range(options.steps):
        images, labels = task.batch(step, dist.get_rank(), dist.get_world_size())
        loss = torch.nn.functional.cross_entropy(engine(images.to(engine.device)), labels.to(engine.device))
        engine.backward(loss)
        engine.step()
        losses.append(loss.detach())
    means = training.mean(losses)
    group = engine.data_parallel_group
    return means, training.through_the_switch(options.backend, *(() if group is dist.group.WORLD else (group,)))


def main() -> int:
    parser = training.parser(__doc__.splitlines()[0])
    parser.add_argument("--stage", type=int, choices=(0, 1, 2, 3), default=2, help="of ZeRO")
    options = training.parsed(parser)
    deepspeed.init_distributed(dist_backend=options.backend)
    rank = dist.get_rank()
    losses, used = train(options)
    dist.barrier()
    dist.destroy_process_group()
    return training.report(options, losses, used) if rank == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
