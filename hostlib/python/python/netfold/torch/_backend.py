"""The process group."""

from __future__ import annotations

import collections
import logging
from datetime import timedelta
from typing import Any, Callable, Deque, List, Optional

import torch
import torch.distributed as dist

from .. import ArgumentError, Closed, Communicator, Error
from . import _rendezvous
from ._options import Options
from ._order import Order
from ._work import NetfoldWork, reduction

logger = logging.getLogger("netfold")

#: Since torch 2 a backend is a class of its own, and torch wraps it in a group. Before, it is the group.
Base: Any
try:
    from torch._C._distributed_c10d import Backend as Base
except ImportError:
    Base = dist.ProcessGroup

#: Reductions of all-reduce that go through the library, by element type. Others go to gloo, on all ranks alike.
ACCELERATED = {
    torch.float32: ("sum", "avg"),
    torch.float16: ("sum", "avg"),
    torch.bfloat16: ("sum", "avg"),
    torch.float64: ("avg",),
    torch.int32: ("sum", "min", "max"),
}


class NetfoldGroup(Base):
    """A process group that reduces through Netfold and leaves the rest to gloo.

    Which of the two does an operation depends on the operation, the element type and the reduction alone, so all ranks choose
    alike.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, options: Optional[Options] = None) -> None:
        super().__init__(rank, size)
        self._rank = rank
        self._size = size
        self._timeout = timeout
        self._group_name = ""
        self._group_desc = ""
        self._aborted = False
        self._closed = False
        self._options = options or Options().resolved()
        self._order = Order(self._options.classes or 1)
        # A work object must not be collected while torch waits for its future.
        self._pending: Deque[NetfoldWork] = collections.deque()
        exchange = _rendezvous.StoreExchange(store, rank, size, timeout)
        gloo = dist.ProcessGroupGloo(dist.PrefixStore(f"{exchange.prefix}/gloo", store), rank, size, timeout=timeout)
        self._gloo: Any = gloo if self._options.confidential is None else _NoDataInClear(gloo)
        self._communicator: Optional[Communicator]
        self._why = "one rank"
        self._communicator = None
        if size > 1:
            self._communicator, self._why = _rendezvous.connect(exchange, rank, size, self._options, timeout)
            if rank == 0:
                logger.warning("netfold: %d ranks over %s", size, self.path())

    # -- What it is --

    def path(self) -> str:
        """The data path of reductions, and the reason for it."""
        if self._communicator is None:
            return f"gloo ({self._why})"
        return self._communicator.path

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def name(self) -> str:
        return "netfold"

    def getBackendName(self) -> str:
        return "netfold"

    _get_backend_name = getBackendName

    def getRank(self) -> int:
        return self._rank

    def getSize(self) -> int:
        return self._size

    def setGroupName(self, name: str) -> None:
        self._group_name = name

    def getGroupName(self) -> str:
        return self._group_name

    def setGroupDesc(self, description: str) -> None:
        self._group_desc = description

    def getGroupDesc(self) -> str:
        return self._group_desc

    # -- What the library does --

    def allreduce(
        self, tensors: Any, opts: Any = None, priority: int = 0, residual: Optional[torch.Tensor] = None
    ) -> Any:
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        op = reduction(opts)
        if len(tensors) == 1 and op in ACCELERATED.get(tensors[0].dtype, ()):
            work = self._start("all_reduce", tensors[0], tensors[0], op, tensors, priority, residual)
            if work is not None:
                return work
        if op == "avg":
            return self._gloo_average(tensors)
        return self._gloo.allreduce(tensors, opts) if opts is not None else self._gloo.allreduce(tensors)

    def _reduce_scatter_base(self, output: Any, input: Any, opts: Any = None, *more: Any, **named: Any) -> Any:
        op = reduction(opts)
        work = self._start("reduce_scatter", input, output, op, [output], self._order.scatter())
        return work if work is not None else self._reduce_then_keep(output, input, opts)

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        if isinstance(outputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        op = reduction(opts)
        parts = [part.contiguous().view(-1) for part in inputs[0]]
        if len({part.numel() for part in parts}) != 1 or parts[0].numel() != outputs[0].numel():
            raise ValueError("netfold: reduce_scatter needs parts of one size, as long as the output")
        whole = torch.cat(parts)
        work = self._start("reduce_scatter", whole, outputs[0], op, [outputs[0]])
        return work if work is not None else self._reduce_then_keep(outputs[0], whole, opts)

    def _allgather_base(self, output: Any, input: Any, opts: Any = None, *more: Any, **named: Any) -> Any:
        work = self._start("all_gather", input, output, "sum", [output], self._order.gather())
        if work is not None:
            return work
        parts = list(output.view(-1).view(self._size, -1).unbind(0))
        return self._gloo.allgather([parts], [input.reshape(-1)])

    all_gather_single = _allgather_base

    def _start(
        self,
        collective: str,
        send: torch.Tensor,
        recv: torch.Tensor,
        op: Optional[str],
        tensors: List[torch.Tensor],
        priority: int = 0,
        residual: Optional[torch.Tensor] = None,
    ) -> Optional[NetfoldWork]:
        """Starts an operation of the library; ``None`` when gloo is to do it, on all ranks."""
        if self._aborted or self._closed:
            raise Closed("the process group was aborted or shut down; make a new one", "closed")
        if self._communicator is None or op is None or recv.is_complex() or recv.device.type != "cpu":
            return None
        try:
            native = self._communicator._native.submit(collective, send, recv, op, 0, None, priority, residual)
        except ArgumentError as error:
            if error.kind == "unsupported":
                return None
            raise
        work = NetfoldWork(native, tensors)
        pending = self._pending
        while pending and pending[0].is_completed():
            pending.popleft()
        pending.append(work)
        return work

    # -- What gloo does --

    def _gloo_average(self, tensors: List[torch.Tensor]) -> Any:
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.SUM
        self._gloo.allreduce(tensors, options).wait()
        for tensor in tensors:
            tensor.div_(self._size) if tensor.is_floating_point() else tensor.floor_divide_(self._size)
        return _Done(tensors)

    def _reduce_then_keep(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> Any:
        """A reduce-scatter by an all-reduce, where gloo has no other."""
        whole = input.detach().clone().contiguous()
        options = dist.AllreduceOptions()
        if opts is not None:
            options.reduceOp = opts.reduceOp
        self.allreduce([whole], options).wait()
        output.copy_(whole.view(self._size, -1)[self._rank].view_as(output))
        return _Done([output])

    # -- The end --

    def abort(self) -> None:
        """Makes pending and later operations fail promptly. May be called from any thread."""
        self._aborted = True
        if self._communicator is not None:
            try:
                self._communicator.abort()
            except Error:
                pass  # It was closed.
        if hasattr(self._gloo, "abort"):
            self._gloo.abort()

    def shutdown(self) -> None:
        """Finishes what is pending and leaves the job."""
        communicator, self._communicator = self._communicator, None
        self._closed = True
        self._why = "shut down"
        self._pending.clear()
        if communicator is not None:
            try:
                communicator.close()
            except Error as error:
                logger.info("netfold: the group had failed: %s", error)
        if hasattr(self._gloo, "shutdown"):
            self._gloo.shutdown()

    def failure(self) -> Optional[BaseException]:
        """What ended the group's job, if it has ended."""
        return self._communicator.failure() if self._communicator is not None else None

    def get_error(self) -> Any:
        """The failure, in torch's classes (torch 2)."""
        from torch._C._distributed_c10d import ErrorType

        failure = self.failure()
        kind = getattr(failure, "kind", "")
        if failure is None:
            return ErrorType.SUCCESS
        if kind in ("stalled", "join_timeout", "wait_timeout"):
            return ErrorType.TIMEOUT
        return ErrorType.REMOTE_ERROR if kind in ("peer_lost", "switch_lost", "mismatch") else ErrorType.COMM_ERROR

    def set_timeout(self, timeout: timedelta) -> None:
        """For operations of gloo; those of the library have the timeout that the group was made with."""
        self._timeout = timeout
        for name in ("set_timeout", "_set_default_timeout"):
            if hasattr(self._gloo, name):
                getattr(self._gloo, name)(timeout)
                return

    _set_default_timeout = set_timeout


class _NoDataInClear:
    """The gloo group of a confidential group: refuses everything that would send tensors, which gloo does in clear."""

    _WITHOUT_DATA = ("barrier", "abort", "shutdown", "set_timeout", "_set_default_timeout")

    def __init__(self, gloo: Any) -> None:
        self._gloo = gloo

    def __getattr__(self, name: str) -> Any:
        if name in self._WITHOUT_DATA:
            return getattr(self._gloo, name)

        def refuse(*arguments: Any, **named: Any) -> Any:
            raise ArgumentError(
                f"a confidential group cannot do {name}: gloo would send the tensor in clear; use a group without the option for what is no secret",
                "unsupported",
            )

        return refuse


class _Done(dist.Work if hasattr(dist, "Work") else object):  # type: ignore[misc]
    """Work that was over before it was returned."""

    def __init__(self, tensors: List[torch.Tensor]) -> None:
        super().__init__()
        self._tensors = tensors

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        return True

    def get_future(self) -> Any:
        future: Any = torch.futures.Future()
        future.set_result(self._tensors)
        return future

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def result(self) -> List[torch.Tensor]:
        return self._tensors


def _delegated(name: str) -> Callable[..., Any]:
    def call(self: NetfoldGroup, *arguments: Any, **named: Any) -> Any:
        return getattr(self._gloo, name)(*arguments, **named)

    call.__name__ = name
    call.__doc__ = f"``{name}`` of the inner gloo group."
    return call


#: Operations of gloo, by torch's names of before and after version 2.
DELEGATED = (
    "all_gather_single_coalesced",
    "all_to_all_single",
    "allgather",
    "allgather_coalesced",
    "allgather_into_tensor_coalesced",
    "allreduce_coalesced",
    "allreduce_sparse",
    "alltoall",
    "alltoall_base",
    "barrier",
    "broadcast",
    "gather",
    "gather_into_tensor",
    "gather_single",
    "monitored_barrier",
    "recv",
    "recv_anysource",
    "reduce",
    "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced",
    "scatter",
    "send",
    "_get_sequence_number_for_group",
    "_set_sequence_number_for_group",
)

for _name in DELEGATED:
    if hasattr(dist.ProcessGroupGloo, _name):
        setattr(NetfoldGroup, _name, _delegated(_name))


def create(options: Any, pg_options: Any = None) -> NetfoldGroup:
    """Makes a group. Called by torch."""
    return NetfoldGroup(
        options.store, options.group_rank, options.group_size, options.timeout, Options.of(pg_options)
    )


def register() -> None:
    """Registers the backend, once."""
    if hasattr(dist.Backend, "NETFOLD"):
        return
    try:
        dist.Backend.register_backend("netfold", create, extended_api=True, devices=["cpu"])
    except TypeError:  # Before torch 2 there are no devices.
        dist.Backend.register_backend("netfold", create, extended_api=True)


def path(group: Any = None) -> str:
    """The data path of reductions of ``group`` (default: the world), and the reason for it."""
    if group is None:
        group = dist.group.WORLD if hasattr(dist, "group") and dist.group.WORLD is not None else _default_group()
    if isinstance(group, NetfoldGroup):
        return group.path()
    if hasattr(group, "_get_backend"):
        backend = group._get_backend(torch.device("cpu"))
        if isinstance(backend, NetfoldGroup):
            return backend.path()
    raise TypeError(f"{group!r} is not a group of the netfold backend")


def _default_group() -> Any:
    from torch.distributed.distributed_c10d import _get_default_group

    return _get_default_group()
