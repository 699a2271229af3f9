"""Netfold as a backend of torch.distributed.

Importing this module registers the backend ``netfold``::

    import netfold.torch
    torch.distributed.init_process_group("netfold")                   # or "cpu:netfold,cuda:nccl"

Collectives of tensors in host memory and on CUDA devices go through Netfold; what it does not have goes to an inner gloo group. With nothing configured, rank 0 runs a
software switch and sends the others its address through the group's store. Another switch is named by the environment variable ``NETFOLD_CONTROLLER`` or by ``pg_options=netfold.torch.Options(switch="tor:20038")``.

In a task that Slurm's ``srun`` started, it also sets the variables of torchrun (:func:`netfold.slurm.export`).
"""

from .. import slurm
from ._backend import NetfoldGroup, counts, create, path, register, waiting
from ._hook import HookState, all_reduce_hook
from ._options import Options

__all__ = ["HookState", "NetfoldGroup", "Options", "all_reduce_hook", "counts", "create", "path", "register", "waiting"]

register()
slurm.export()
