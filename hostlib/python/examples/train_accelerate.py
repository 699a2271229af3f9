"""Trains with Hugging Face Accelerate.

    torchrun --nproc-per-node 2 hostlib/python/examples/train_accelerate.py --backend gloo --losses gloo.json
    torchrun --nproc-per-node 2 hostlib/python/examples/train_accelerate.py --compare gloo.json

Accelerate takes other backends by name on GPUs only: ``Accelerator(kwargs_handlers=[InitProcessGroupKwargs(backend="netfold")])``. On CPUs it
names gloo itself and refuses others, but it uses a process group that exists, as here.
"""

from __future__ import annotations

import sys
from typing import List

import torch
import torch.distributed as dist
import training
from accelerate import Accelerator, InitProcessGroupKwargs


def accelerator_over(backend: str) -> Accelerator:
    if torch.cuda.is_available():
        return Accelerator(kwargs_handlers=[InitProcessGroupKwargs(backend=backend)])
    dist.init_process_group(backend)
    return Accelerator(cpu=True)


def train(accelerator: Accelerator, task: training.Task, steps: int) -> List[float]:
    model, optimizer = accelerator.prepare(task.network, task.optimizer)
    losses = []
    for step in range(steps):
        images, labels = task.batch(step, accelerator.process_index, accelerator.num_processes)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images.to(accelerator.device)), labels.to(accelerator.device))
        accelerator.backward(loss)
        optimizer.step()
        losses.append(loss.detach())
    return training.mean(losses)


def main() -> int:
    options = training.arguments(__doc__.splitlines()[0])
    accelerator = accelerator_over(options.backend)
    losses = train(accelerator, training.Task(options), options.steps)
    used = training.through_the_switch(options.backend)
    first = accelerator.is_main_process
    accelerator.end_training()
    if dist.is_initialized():
        dist.destroy_process_group()
    return training.report(options, losses, used) if first else 0


if __name__ == "__main__":
    sys.exit(main())
