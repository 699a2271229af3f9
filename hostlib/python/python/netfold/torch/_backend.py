"""The process group."""

from __future__ import annotations

import logging
import time
import weakref
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist

from .. import ArgumentError, Closed, Communicator, Error
from . import _layout, _rendezvous
from ._device import DeviceWork, Staged, on_device, staged
from ._options import Options
from ._order import Order
from ._record import Record
from ._work import Done, NetfoldWork, Together, reduction

logger = logging.getLogger("netfold")



def _base() -> Any:
    """In late versions of torch 2 a backend is a class of its own, and torch wraps it in a group. Before, it is the group."""
    try:
        from torch._C._distributed_c10d import Backend
    except ImportError:
        return dist.ProcessGroup

    class Probe(Backend):  # type: ignore[misc]
        pass

    try:
        Probe(0, 1)
    except TypeError:  # torch 2.11, for one, has the class, and no constructor for subclasses in Python
        return dist.ProcessGroup
    return Backend


Base: Any = _base()

#: Reductions of all-reduce that go through the library, by element type. Others go to gloo, on all ranks alike.
ACCELERATED = {
    torch.float32: ("sum", "avg", "min", "max"),
    torch.float16: ("sum", "avg", "min", "max"),
    torch.bfloat16: ("sum", "avg", "min", "max"),
    torch.float64: ("avg",),
    torch.int8: ("sum", "min", "max", "band", "bor", "bxor"),
    torch.uint8: ("sum", "min", "max", "band", "bor", "bxor"),
    torch.int16: ("sum", "min", "max", "band", "bor", "bxor"),
    torch.int32: ("sum", "min", "max", "band", "bor", "bxor"),
    torch.int64: ("sum", "band", "bor", "bxor"),
}

#: Types of devices whose tensors the library takes.
DEVICES = ("cpu", "cuda")

#: Element types that reduce-scatters have in the library, with any reduction.
REDUCED = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
)

_groups: "weakref.WeakSet[NetfoldGroup]" = weakref.WeakSet()


class NetfoldGroup(Base):
    """A process group that does collectives through Netfold and leaves the rest to gloo.

    Which of the two does an operation depends on the operation, the element type and the reduction alone, so all ranks choose
    alike.
    """

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        timeout: timedelta,
        options: Optional[Options] = None,
        group_id: Optional[str] = None,
        ranks: Sequence[int] = (),
        default: bool = False,
        former: Optional[Communicator] = None,
    ) -> None:
        """``group_id`` is torch's name of the group and ``ranks`` are those of the world that are members: both are in :meth:`waiting`. The groups
        that torch makes after the ``default`` one are groups of its job. ``former`` is what an earlier group has given up by :meth:`detach`."""
        super().__init__(rank, size)
        self._rank = rank
        self._size = size
        self._timeout = timeout
        self._group_name = group_id or ""
        self._group_desc = ""
        self._ranks = list(ranks)
        self._aborted = False
        self._closed = False
        self._options = options or Options().resolved()
        self._order = Order(self._options.classes or 1)
        self._record = Record()
        self._connecting: Optional[float] = time.monotonic()
        self._communicator: Optional[Communicator] = None
        self._reducer: Any = None
        self._why = "one rank"
        _groups.add(self)
        exchange = _rendezvous.StoreExchange(store, rank, size, timeout)
        gloo = dist.ProcessGroupGloo(dist.PrefixStore(f"{exchange.prefix}/gloo", store), rank, size, timeout=timeout)
        self._gloo: Any = gloo if self._options.confidential is None else _NoDataInClear(gloo)
        if size > 1 or self._options.resizable:
            self._communicator, self._why = _rendezvous.connect(
                exchange, rank, size, self._options, timeout, "" if default else group_id, former
            )
            if self._communicator is not None and self._options.quantize == "device":
                from ..triton import DeviceReducer

                self._reducer = DeviceReducer(self._communicator)
            if rank == 0:
                logger.warning("netfold: %d ranks over %s", size, self.path())
        self._connecting = None

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

    def counts(self) -> Dict[str, Dict[str, int]]:
        """Numbers of operations by collective: of those that are over, with packets of this rank through a ``switch`` and among the
        ``hosts``, and of those left to ``gloo``."""
        return self._record.counts()

    def waiting(self) -> List[str]:
        """What this rank waits for in this group, oldest first: each with the group, the collective and its age."""
        who = f"rank {self._rank} of {self._size} of group '{self._group_name}'"
        who += f" (ranks {', '.join(map(str, self._ranks))} of the world)" if self._ranks else ""
        begun = self._connecting
        if begun is not None:
            return [f"{who}: connects, for {time.monotonic() - begun:.1f} s"]
        return [f"{who}: {operation}, over {self._path_now()}" for operation in self._record.waiting()]

    def _path_now(self) -> str:
        try:
            return self.path()
        except Error as error:
            return f"no path: {error}"

    # -- What the library does --

    def allreduce(
        self, tensors: Any, opts: Any = None, priority: int = 0, residual: Optional[torch.Tensor] = None
    ) -> Any:
        tensors = _listed(tensors)
        op = reduction(opts)
        if len(tensors) == 1 and self._reduces(tensors[0], op):
            memory, finish = _layout.target(tensors[0])
            work = self._start("all_reduce", memory, memory, op, tensors, priority, finish, residual=residual)
            if work is not None:
                return work
        if op == "avg":
            return self._gloo_average(tensors)
        return self._by_gloo("allreduce", tensors, *(() if opts is None else (opts,)))

    def quantizes(self, tensor: torch.Tensor, op: Optional[str]) -> bool:
        """Whether all-reduces of this type, reduction and device are quantised on the device."""
        return self._reducer is not None and self._reducer.reduces(tensor, op) and on_device(tensor)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        tensors = _listed(tensors)
        single = dist.AllreduceOptions()
        if opts is not None:
            single.reduceOp = opts.reduceOp
        return Together([self.allreduce([tensor], single) for tensor in tensors], tensors)

    def reduce(self, tensors: Any, opts: Any = None) -> Any:
        tensors = _listed(tensors)
        op = reduction(opts)
        root = getattr(opts, "rootRank", 0)
        if len(tensors) == 1 and self._reduces(tensors[0], op):
            # The other ranks' tensors stay as they are.
            here = root == self._rank
            memory, finish = _layout.target(tensors[0]) if here else (_layout.source(tensors[0]), None)
            work = self._start("reduce", memory, memory, op, tensors, 0, finish, root=root)
            if work is not None:
                return work
        return self._by_gloo("reduce", tensors, *(() if opts is None else (opts,)))

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        tensors = _listed(tensors)
        root = getattr(opts, "rootRank", 0)
        if len(tensors) == 1 and _moves(tensors[0]):
            here = root == self._rank
            memory, finish = (_layout.source(tensors[0]), None) if here else _layout.target(tensors[0], read=False)
            work = self._start("broadcast", memory, memory, "sum", tensors, 0, finish, root=root)
            if work is not None:
                return work
        return self._by_gloo("broadcast", tensors, *(() if opts is None else (opts,)))

    def _reduce_scatter_base(self, output: Any, input: Any, opts: Any = None, *more: Any, **named: Any) -> Any:
        return self._reduce_scatter(output, input, opts, self._order.scatter())

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        priority = self._order.scatter()
        works = [self._reduce_scatter(output, input, opts, priority) for output, input in zip(outputs, inputs)]
        return Together(works, list(outputs))

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        if isinstance(outputs, torch.Tensor):
            outputs, inputs = [outputs], [inputs]
        parts = inputs[0]
        if len({part.numel() for part in parts}) != 1 or parts[0].numel() != outputs[0].numel():
            raise ValueError("netfold: reduce_scatter needs parts of one size, as long as the output")
        return self._reduce_scatter(outputs[0], _layout.joined(parts), opts)

    def _reduce_scatter(self, output: torch.Tensor, input: torch.Tensor, opts: Any, priority: int = 0) -> Any:
        if input.dtype in REDUCED and input.layout is torch.strided:
            memory, finish = _layout.target(output, read=False)
            op = reduction(opts)
            work = self._start("reduce_scatter", _layout.source(input), memory, op, [output], priority, finish)
            if work is not None:
                return work
        return self._reduce_then_keep(output, input, opts)

    def _allgather_base(self, output: Any, input: Any, opts: Any = None, *more: Any, **named: Any) -> Any:
        return self._all_gather(output, input, self._order.gather())

    all_gather_single = _allgather_base

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        priority = self._order.gather()
        works = [self._all_gather(output, input, priority) for output, input in zip(outputs, inputs)]
        return Together(works, list(outputs))

    all_gather_single_coalesced = allgather_into_tensor_coalesced

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        if len(outputs) == 1 and len(inputs) == 1:
            work = self._all_gather_list(outputs[0], inputs[0])
            if work is not None:
                return work
        return self._by_gloo("allgather", outputs, inputs, *(() if opts is None else (opts,)))

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Gathers each of several tensors: ``outputs`` has a list of results for each rank."""
        works = [self.allgather([[of_rank[at] for of_rank in outputs]], [input], opts) for at, input in enumerate(inputs)]
        return Together(works, [tensor for of_rank in outputs for tensor in of_rank])

    def _all_gather(self, output: torch.Tensor, input: torch.Tensor, priority: int) -> Any:
        if _moves(input):
            memory, finish = _layout.target(output, read=False)
            work = self._start("all_gather", _layout.source(input), memory, "sum", [output], priority, finish)
            if work is not None:
                return work
        parts = list(output.view(-1).view(self._size, -1).unbind(0))
        return self._by_gloo("allgather", [parts], [input.reshape(-1)])

    def _all_gather_list(self, parts: List[torch.Tensor], input: torch.Tensor) -> Optional[NetfoldWork]:
        """``None`` when gloo is to do it, or to refuse it."""
        alike = all(part.size() == input.size() and part.dtype == input.dtype for part in parts)
        if not _moves(input) or not alike or len(parts) != self._size:
            return None
        memory, finish = _layout.scattered(parts)
        return self._start("all_gather", _layout.source(input), memory, "sum", parts, 0, finish)

    def _reduces(self, tensor: torch.Tensor, op: Optional[str]) -> bool:
        """Whether all-reduces and reduces of this type go through the library."""
        return op in ACCELERATED.get(tensor.dtype, ()) and tensor.layout is torch.strided

    def _start(
        self,
        collective: str,
        send: torch.Tensor,
        recv: torch.Tensor,
        op: Optional[str],
        tensors: List[torch.Tensor],
        priority: int = 0,
        finish: _layout.Finish = None,
        root: int = 0,
        residual: Optional[torch.Tensor] = None,
    ) -> Optional[NetfoldWork]:
        """Starts an operation of the library; ``None`` when gloo is to do it, on all ranks."""
        if self._aborted or self._closed:
            raise Closed("the process group was aborted or shut down; make a new one", "closed")
        if self._communicator is None or op is None or recv.is_complex() or recv.device.type not in DEVICES:
            return None
        try:
            if collective == "all_reduce" and self.quantizes(recv, op):
                native = self._reducer.start(recv, op, residual, priority)
            else:
                native = self._communicator._native.submit(collective, send, recv, op, root, None, priority, residual)
        except ArgumentError as error:
            # gloo knows no residual.
            if error.kind == "unsupported" and residual is None:
                return None
            raise
        work = (DeviceWork if native.on_device else NetfoldWork)(native, tensors, finish)
        self._record.start(collective, tensors, work)
        return work

    # -- What gloo does --

    def _by_gloo(self, name: str, *arguments: Any, **named: Any) -> Any:
        # gloo has few operations on a device's tensors.
        copies: Dict[int, Any] = {}
        arguments = tuple(staged(argument, copies) for argument in arguments)
        work = getattr(self._gloo, name)(*arguments, **named)
        if copies:
            work = Staged(work, copies, writes=name not in ("send", "barrier"))
        if hasattr(work, "is_completed"):
            self._record.start(name, [], work)
        return work

    def _gloo_average(self, tensors: List[torch.Tensor]) -> Any:
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.SUM
        self._by_gloo("allreduce", tensors, options).wait()
        for tensor in tensors:
            tensor.div_(self._size) if tensor.is_floating_point() else tensor.floor_divide_(self._size)
        return Done(tensors)

    def _reduce_then_keep(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> Any:
        """A reduce-scatter by an all-reduce, where gloo has no other."""
        whole = input.detach().clone(memory_format=torch.contiguous_format)
        options = dist.AllreduceOptions()
        if opts is not None:
            options.reduceOp = opts.reduceOp
        self.allreduce([whole], options).wait()
        output.copy_(whole.view(self._size, -1)[self._rank].view_as(output))
        return Done([output])

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

    def detach(self) -> Optional[Communicator]:
        """Gives the communicator up if its job is resizable, so that another group can continue it. This group is over."""
        if self._communicator is None or not self._options.resizable or self._communicator.closed:
            return None
        communicator, self._communicator = self._communicator, None
        self._closed = True
        return communicator

    def shutdown(self) -> None:
        """Finishes what is pending and leaves the job."""
        communicator, self._communicator = self._communicator, None
        self._reducer = None
        self._closed = True
        self._why = "shut down"
        self._record.clear()
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


def _delegated(name: str) -> Callable[..., Any]:
    def call(self: NetfoldGroup, *arguments: Any, **named: Any) -> Any:
        return self._by_gloo(name, *arguments, **named)

    call.__name__ = name
    call.__doc__ = f"``{name}`` of the inner gloo group."
    return call


#: Operations of gloo, by torch's names of before and after version 2.
DELEGATED = (
    "all_to_all_single",
    "allreduce_sparse",
    "alltoall",
    "alltoall_base",
    "barrier",
    "gather",
    "gather_into_tensor",
    "gather_single",
    "monitored_barrier",
    "recv",
    "recv_anysource",
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
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        Options.of(pg_options),
        group_id=str(options.group_id),
        ranks=options.global_ranks_in_group,
        # torch makes the default group first, and all others of its ranks.
        default=not dist.is_initialized(),
    )


def register() -> None:
    """Registers the backend, once."""
    if hasattr(dist.Backend, "NETFOLD"):
        return
    try:
        dist.Backend.register_backend("netfold", create, extended_api=True, devices=list(DEVICES))
    except TypeError:  # Before torch 2 there are no devices.
        dist.Backend.register_backend("netfold", create, extended_api=True)


def path(group: Any = None) -> str:
    """The data path of collectives of ``group`` (default: the world), and the reason for it."""
    return _netfold_group(group).path()


def counts(group: Any = None) -> Dict[str, Dict[str, int]]:
    """Numbers of this rank's operations in ``group`` (default: the world), by place and collective.

    ``switch`` are those with packets of this rank through a switch; ``hosts`` those in shared memory and rings, and sums of which
    another rank of this host exchanges packets with the switch; ``gloo`` those left to gloo.
    """
    return _netfold_group(group).counts()


def waiting() -> List[str]:
    """What this process waits for in all of its groups, a line each, with the group, the collective and its age. From any thread."""
    return [line for group in list(_groups) for line in group.waiting()]


def _netfold_group(group: Any) -> NetfoldGroup:
    if group is None:
        group = dist.group.WORLD if hasattr(dist, "group") and dist.group.WORLD is not None else _default_group()
    if isinstance(group, NetfoldGroup):
        return group
    if hasattr(group, "_get_backend"):
        for device in DEVICES:
            try:
                backend = group._get_backend(torch.device(device))
            except RuntimeError:
                continue  # The group has no backend for these devices.
            if isinstance(backend, NetfoldGroup):
                return backend
    raise TypeError(f"{group!r} is not a group of the netfold backend")


def _listed(tensors: Any) -> List[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _moves(tensor: torch.Tensor) -> bool:
    """Whether the library moves elements of this type: any of 1, 2, 4 or 8 bytes."""
    simple = not (tensor.is_complex() or tensor.is_quantized)
    return simple and tensor.layout is torch.strided and tensor.element_size() in (1, 2, 4, 8)


def _default_group() -> Any:
    from torch.distributed.distributed_c10d import _get_default_group

    return _get_default_group()
