"""A communication hook for DistributedDataParallel, for models whose group is of another backend."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, Dict, Optional, Tuple

import torch
import torch.distributed as dist

from .. import ArgumentError, _environment
from ._backend import NetfoldGroup
from ._options import Options
from ._work import NetfoldWork

logger = logging.getLogger("netfold")


class HookState:
    """What :func:`all_reduce_hook` needs. Make one for a model, on all ranks, and keep it.

    Gradients come from the last layers to the first, and the next forward pass wants the first layers' first: so later buckets overtake
    earlier ones (unless ``options.classes`` is 1).

    With ``error_feedback`` (or ``NETFOLD_ERROR_FEEDBACK=1``) what rounding leaves out of a gradient is kept and added to the next step's,
    in a residual for each bucket: as much memory as the gradients. DistributedDataParallel rebuilds its buckets after the first
    step, and a residual fits its own bucket alone, so they start from zero again then, which is logged once.

    With a ``tolerance`` (or ``NETFOLD_TOLERANCE``), from 0 to 1, up to this part of each rank's gradients may be missing from the
    averages where the network is congested, and with error feedback comes in a later step. ``chunks``, ``partial`` and ``left_out``
    count, over all steps so far, the chunks sent, those that lacked any rank's contribution, and those that lacked this rank's.

    The group of ``process_group`` (default: the world) is used for finding each other, and for what is not accelerated.
    """

    def __init__(
        self,
        process_group: Optional[Any] = None,
        options: Optional[Options] = None,
        timeout: timedelta = timedelta(minutes=30),
        error_feedback: Optional[bool] = None,
        tolerance: Optional[float] = None,
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
        if error_feedback is None:
            error_feedback = _environment.flag("NETFOLD_ERROR_FEEDBACK", False)
        self.error_feedback = error_feedback
        if tolerance is not None:
            resolved.tolerance = tolerance
        if resolved.rescale is None:
            # Missing contributions are added later, so the sum must not be rescaled as well.
            resolved.rescale = not error_feedback
        self.chunks = self.partial = self.left_out = 0
        #: By bucket: the parameters that it held, and what was left out of their gradients.
        self._residuals: Dict[int, Tuple[Tuple[int, ...], torch.Tensor]] = {}
        self.group = NetfoldGroup(store, rank, size, timeout, resolved)

    _count = 0

    def priority(self, bucket: Any) -> int:
        """The class of a bucket: the last one has the highest, and those before rise towards it."""
        if bucket.is_last():
            return self.classes - 1
        return max(0, min(bucket.index(), self.classes - 2))

    def residual(self, bucket: Any) -> Optional[torch.Tensor]:
        """What was left out of a bucket's gradients so far; ``None`` without error feedback."""
        if not self.error_feedback:
            return None
        gradients = bucket.buffer()
        if gradients.dtype != torch.float32:
            raise ArgumentError(
                f"error feedback is for gradients of float32, not {gradients.dtype}; make the hook's state without it", "unsupported"
            )
        if gradients.device.type != "cpu" and not self.group.quantizes(gradients, "avg"):
            raise ArgumentError(
                f"error feedback on {gradients.device} needs Options(quantize='device'); give it, or make the hook's state without error feedback",
                "unsupported",
            )
        parameters = tuple(id(parameter) for parameter in bucket.parameters())
        kept = self._residuals.get(bucket.index())
        if kept is not None and kept[0] == parameters and kept[1].numel() == gradients.numel():
            return kept[1]
        if kept is not None:
            logger.info("netfold: the buckets were rebuilt; error feedback starts from zero")
            self._residuals.clear()
        residual = torch.zeros_like(gradients)
        self._residuals[bucket.index()] = (parameters, residual)
        return residual

    def _tally(self, report: Optional[Dict[str, Any]]) -> None:
        """Adds the counters of a bucket. Called on one thread of the package."""
        if report is not None:
            self.chunks += report["chunks"]
            self.partial += report["partial"]
            self.left_out += report["left_out"]

    def reset(self) -> None:
        """Forgets what was left out, as after loading a checkpoint. To be called between steps, on all ranks or some."""
        self._residuals.clear()

    def path(self) -> str:
        """The data path of gradients, and the reason for it."""
        return self.group.path()


def all_reduce_hook(state, bucket):  # type: ignore[no-untyped-def]  # torch compares annotations, and only knows types
    """Averages a bucket of gradients over all ranks::

        model = DistributedDataParallel(network)            # over gloo or another backend
        model.register_comm_hook(netfold.torch.HookState(), netfold.torch.all_reduce_hook)
    """
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.AVG
    work = state.group.allreduce([bucket.buffer()], options, state.priority(bucket), state.residual(bucket))

    def conclude(future: Any) -> Any:
        gradients = future.value()[0]
        if isinstance(work, NetfoldWork):
            state._tally(work.report())
        return gradients

    return work.get_future().then(conclude)
