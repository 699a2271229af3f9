"""Trains with DistributedDataParallel in the tasks of a job step of Slurm: ``srun`` starts the ranks, without torchrun.

    srun -N2 python hostlib/python/examples/train_slurm.py --backend gloo --losses gloo.json
    srun -N2 python hostlib/python/examples/train_slurm.py --compare gloo.json

Importing ``netfold.torch`` sets ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and the others from what Slurm says. Rank 0 runs a software switch unless
``NETFOLD_CONTROLLER`` names another.
"""

from __future__ import annotations

import os
import sys

import torch.distributed as dist
import training
from torch.nn.parallel import DistributedDataParallel


def main() -> int:
    options = training.arguments(__doc__.splitlines()[0])
    dist.init_process_group(options.backend)
    rank = dist.get_rank()
    print(f"rank {rank} of {dist.get_world_size()} on {os.uname().nodename}, the store on {os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}", flush=True)
    task = training.Task(options)
    losses = task.train(DistributedDataParallel(task.network), options.steps)
    used = training.through_the_switch(options.backend)
    dist.barrier()
    dist.destroy_process_group()
    return training.report(options, losses, used) if rank == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
