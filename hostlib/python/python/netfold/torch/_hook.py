"""A communication hook for DistributedDataParallel, for models whose group is of another backend."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Optional

import torch.distributed as dist

from ._backend import NetfoldGroup
from ._options import Options


class HookState:
    """What :func:`all_reduce_hook` needs. Make one for a model, on all ranks, and keep it.

    Gradients come from the last layers to the first, and the next forward pass wants the first layers' first: so later buckets overtake
    earlier ones (unless ``options.classes`` is 1).

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
        resolved = (options or Options()).resolved()
        if resolved.classes is None:
            resolved.classes = 2
        self.classes = resolved.classes
        self.group = NetfoldGroup(store, rank, size, timeout, resolved)

    _count = 0

    def priority(self, bucket: Any) -> int:
        """The class of a bucket: the last one has the highest, and those before rise towards it."""
        if bucket.is_last():
            return self.classes - 1
        return max(0, min(bucket.index(), self.classes - 2))

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
    work = state.group.allreduce([bucket.buffer()], options, state.priority(bucket))
    return work.get_future().then(_first)


def _first(future: Any) -> Any:
    return future.value()[0]
