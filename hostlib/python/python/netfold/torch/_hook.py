"""A communication hook for DistributedDataParallel, for models whose group is of another backend."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Optional

import torch.distributed as dist

from ._backend import NetfoldGroup
from ._options import Options


class HookState:
    """What :func:`all_reduce_hook` needs. Make one for a model, on all ranks, and keep it.

    The group of ``process_group`` (default: the world) is used for finding each other, and for what is not accelerated.
    """

    def __init__(
        self,
        process_group: Optional[Any] = None,
        options: Optional[Options] = None,
        timeout: timedelta = timedelta(minutes=30),
    ) -> None:
        from torch.distributed.distributed_c10d import _get_default_group, _get_default_store

        self.process_group = process_group if process_group is not None else _get_default_group()
        HookState._count += 1
        store = dist.PrefixStore(f"netfold_hook/{HookState._count}", _get_default_store())
        rank = dist.get_rank(self.process_group)
        size = dist.get_world_size(self.process_group)
        self.group = NetfoldGroup(store, rank, size, timeout, (options or Options()).resolved())

    _count = 0

    def path(self) -> str:
        """How gradients travel, and why."""
        return self.group.path()


def all_reduce_hook(state, bucket):  # type: ignore[no-untyped-def]  # torch compares annotations, and only knows types
    """Averages a bucket of gradients over all ranks::

        model = DistributedDataParallel(network)            # over gloo or another backend
        model.register_comm_hook(netfold.torch.HookState(), netfold.torch.all_reduce_hook)
    """
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.AVG
    work = state.group.allreduce([bucket.buffer()], options)
    return work.get_future().then(_first)


def _first(future: Any) -> Any:
    return future.value()[0]
