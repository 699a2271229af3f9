"""Netfold as a process group of torchft: a group that is rebuilt when replicas join or leave.

::

    import netfold.torchft, torchft

    manager = torchft.Manager(pg=netfold.torchft.ProcessGroupNetfold(), ...)

Nothing of an earlier configuration reaches a tensor after ``configure`` has returned: every configuration is a job of its own
at the switch, with its own epoch and key, and the earlier one is ended before. With ``Options(resizable=True)`` it is another generation of one job
where that is possible: the replicas that stay keep their order, and those that join come after them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Optional

import torch
import torch.distributed as dist
from torchft.process_group import ProcessGroupWrapper

from . import Communicator, Error
from .torch import NetfoldGroup, Options


class ProcessGroupNetfold(ProcessGroupWrapper):
    """A process group of torchft that reduces through Netfold."""

    def __init__(self, timeout: timedelta = timedelta(seconds=60), options: Optional[Options] = None) -> None:
        super().__init__(timeout)
        self._options = options
        self._backend: Optional[NetfoldGroup] = None
        self._former: Optional[Communicator] = None

    def _create_pg(self, store: Any, rank: int, world_size: int) -> Any:
        options = (self._options or Options()).resolved()
        if self._backend is not None:
            self.abort()
        former, self._former = self._former, None
        backend = NetfoldGroup(store, rank, world_size, self._timeout, options, former=former)
        group = dist.ProcessGroup(store, rank, world_size)
        kind = dist.ProcessGroup.BackendType.CUSTOM
        group._set_default_backend(kind)
        group._register_backend(torch.device("cpu"), kind, backend)
        self._backend = backend
        return group

    def getBackendName(self) -> str:
        return "netfold"

    def path(self) -> str:
        """The data path of reductions, and the reason for it."""
        return self._backend.path() if self._backend is not None else "not configured"

    def errored(self) -> Optional[Exception]:
        """What ended the present configuration; ``None`` while it is good."""
        failure = self._backend.failure() if self._backend is not None else None
        return failure if isinstance(failure, Exception) else None

    def abort(self, errored: bool = True) -> None:
        backend, self._backend = self._backend, None
        if backend is not None:
            backend.abort()
            self._former = backend.detach()
            backend.shutdown()
        self._pg = None

    def shutdown(self) -> None:
        backend, self._backend = self._backend, None
        former, self._former = self._former, None
        if former is not None:
            try:
                former.close()
            except Error:
                pass  # It had failed.
        if backend is not None:
            backend.shutdown()
        super().shutdown()
