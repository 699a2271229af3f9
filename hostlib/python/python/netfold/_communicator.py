"""The communicator: one rank's membership of a job."""

from __future__ import annotations

import warnings
import weakref
from types import TracebackType
from typing import Any, Callable, List, NamedTuple, Optional, Type, TypeVar

from . import _environment, _netfold
from ._errors import ArgumentError, Error, TensorError
from ._work import Work

T = TypeVar("T")

#: All-gather of small byte strings: takes this rank's, returns those of all ranks in order.
Exchange = Callable[[bytes], List[bytes]]


class Membership(NamedTuple):
    """The ranks of a resizable job after it has shrunk or grown."""

    #: Grows by one whenever the job shrinks or grows.
    generation: int
    #: This rank's number.
    rank: int
    #: Number of ranks.
    world_size: int
    #: How many of them are from the former generation; they have the lowest numbers, in their former order.
    survivors: int
    #: Ranks of the former generation that are not in this one; the first 128 of them.
    lost: List[int]


_open: "weakref.WeakSet[Communicator]" = weakref.WeakSet()


class Communicator:
    """One rank's membership of a job.

    All ranks make one, with the same ``job``, ``world_size`` and options, and then call the same operations with the same
    lengths and types in the same order; a difference raises ``Mismatch`` on every rank. Results have the same bits on every
    rank, within the error bound of the ``mode``.

    Tensors are numpy arrays, torch tensors, and any object with the buffer protocol, ``__cuda_array_interface__`` or DLPack. They must be
    contiguous. No copy is made of host memory. Tensors on a CUDA device go by way of pinned memory: an operation comes behind what the tensor's
    stream (torch's current one, that of the interface, or the default stream) has been given before, and its ``Work`` is over
    when the output is on the device. ``dtype="bf16"`` names the elements of an array whose own type cannot (``uint16``, ``bytes``).

    Reductions (``op``): ``sum``, ``avg``, ``product``, ``min``, ``max``, ``band``, ``bor``, ``bxor``.

    Every operation has a form that blocks, with the interpreter's lock released, and an ``_async`` form that returns a
    :class:`Work`. Any thread may call. ``priority`` is the operation's class, 0 the lowest (see ``classes``).
    """

    def __init__(
        self,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        *,
        job: str = "netfold",
        group: Optional[str] = None,
        switch: Optional[str] = None,
        controller: Optional[str] = None,
        controller_ca: Optional[str] = None,
        tenant: Optional[str] = None,
        token: Optional[str] = None,
        trees: Optional[int] = None,
        mode: str = "bfp32",
        rounding: Optional[str] = None,
        seed: Optional[int] = None,
        slots: Optional[int] = None,
        classes: Optional[int] = None,
        importance: Optional[int] = None,
        tolerance: Optional[float] = None,
        rescale: bool = True,
        without_stragglers: bool = False,
        confidential: Optional[str] = None,
        authenticated: bool = False,
        device_quantization: bool = False,
        exchange: Optional[Exchange] = None,
        rendezvous: Optional[str] = None,
        host: Optional[str] = None,
        local_ip: Optional[str] = None,
        shared_memory: Optional[bool] = None,
        fall_back: Optional[bool] = None,
        join_timeout: Optional[float] = None,
        stall_timeout: Optional[float] = None,
        resend_after: Optional[float] = None,
        busy_poll: Optional[float] = None,
        idle_timeout: Optional[float] = None,
        resizable: bool = False,
        join_running: bool = False,
        warn_unused_switch: bool = True,
    ) -> None:
        """Joins the job; returns when all ranks have joined.

        ``group`` makes this a group of the ``job``: some of its ranks, with a ``rank`` and a ``world_size`` within the group. Its name, 1 to 64
        bytes without a slash, is the same on all ranks of the group and unique in the job. A controller lists a group under its job and ends
        it with its job. :meth:`split` names groups by itself.

        ``rank`` and ``world_size`` default to what torchrun, mpirun or srun put into the environment. ``switch`` is
        ``HOST:PORT``; instead of a switch's own control port, ``controller`` names a controller's port for workers, which chooses the
        switches (and as many ``trees`` of them, 1 to 8) and may ask for a ``tenant`` and its ``token``;
        with ``controller_ca``, a file of certificates (PEM), the connection uses TLS. ``mode`` is how
        floating-point tensors travel over them: ``bfp32``, ``bfp16`` or ``i32`` (integers alone).
        ``rounding`` is how numbers are rounded to the encoding: ``nearest`` (default), or ``stochastic``, up or down at random so that
        the expected value is exact; the same ``seed`` (default 0) gives the same results. Hosts do not round.

        ``tolerance`` (0 to 1, the same on all ranks; default 0, exact) is the fraction of each rank's contributions that sums and
        averages of floats through a switch may lack, where the network is congested. All ranks get the same. A sum that lacks
        contributions is multiplied by the number of ranks over that of contributors, unless ``rescale=False``; with
        ``without_stragglers=True`` sums are also completed without stragglers' contributions; ``Work.report()`` has how many chunks lack
        any (``partial``), and this rank's
        (``left_out``); with a ``residual`` what was missing is added in a later step (then give ``rescale=False``).

        ``confidential`` makes the job confidential: switches, and observers of the network, see masked lanes only. It is the file of the
        group key (64 hexadecimal digits; ``netfold group-key`` creates one), the same on all ranks, to which other users must not have access.
        Needs a ``rendezvous`` or an ``exchange``, ``mode`` ``bfp32``, ``bfp16`` or ``i32``, and no ``tolerance``.

        ``authenticated`` has packets between workers and switches authenticated: changed and forged ones are dropped. The same on all ranks.
        Needs a control session over TLS (``controller_ca``) or on this machine, and a switch that authenticates packets.

        ``device_quantization`` has CUDA devices quantise sums and averages of floats in their memory, and keep residuals there: in ``mode`` ``bfp16``
        half as many bytes cross the bus. The same on all ranks. Needs ``mode`` ``bfp16`` or ``bfp32``, no ``tolerance``, and devices of compute capability
        7.0 or later.

        With a ``rendezvous`` (``HOST:PORT``, on which rank 0 listens) or an ``exchange`` (all-gather of small byte strings) ranks
        of one host fold in shared memory (unless ``shared_memory=False``), hosts do what a switch cannot, a switch is optional,
        and its loss is survived (unless ``fall_back=False``). With an exchange, ``local_ip`` is the address of this host at
        which the others reach it (default: loopback). ``host`` names it, where the system's identity does not tell hosts apart.

        ``classes`` (1, 2, 4, 8 or 16, the same on all ranks) are the priority classes of operations: through a switch, one of a
        higher ``priority``, below ``classes``, overtakes those before it, chunk by chunk. All ranks start the same operations in the
        same order all the same.

        ``importance`` (1 to 8, default 1) are the importance classes of chunks of floats: packets of larger numbers are of higher classes, so
        that queues that distinguish classes send them first, and may trim those of smaller numbers first. Sums are the same.

        A configured switch that is not used, because all ranks share a host or because the switch does not admit them, is a
        ``RuntimeWarning`` of rank 0 with the reason, unless ``warn_unused_switch=False``.

        A ``resizable`` job (the same on all ranks) continues in place without lost ranks (:meth:`shrink`) and with new ones (:meth:`grow`). With
        ``join_running`` this process joins such a job of this name when it grows: it needs no ``rank``, no ``world_size`` and no ``exchange``, and a
        ``rendezvous`` only where the job has no control port: the address of any rank (:attr:`membership_address`).

        Times are in seconds: ``join_timeout`` for all ranks to come, ``stall_timeout`` for an operation that does not move,
        ``busy_poll`` for polling before a thread that waits for results sleeps (default 0; takes a core while results are awaited),
        ``idle_timeout`` without an operation after which ranks give the slots of their switch back, to request them again for the next one
        (default 10 for groups, never, ``math.inf``, for jobs).
        """
        rank, world_size = (0, 1) if join_running else _environment.place(rank, world_size)
        self._native = _netfold.Communicator(
            rank,
            world_size,
            job=job,
            group=group,
            switch=switch,
            controller=controller,
            controller_ca=controller_ca,
            tenant=tenant,
            token=token,
            trees=trees,
            mode=mode,
            rounding=rounding,
            seed=seed,
            tolerance=tolerance,
            rescale=rescale,
            without_stragglers=without_stragglers,
            confidential=confidential,
            authenticated=authenticated,
            device_quantization=device_quantization,
            slots=slots,
            classes=classes,
            importance=importance,
            exchange=exchange,
            rendezvous=rendezvous,
            host=host,
            local_ip=local_ip,
            shared_memory=shared_memory,
            fall_back=fall_back,
            join_timeout=join_timeout,
            stall_timeout=stall_timeout,
            resend_after=resend_after,
            busy_poll=busy_poll,
            idle_timeout=idle_timeout,
            resizable=resizable,
            join_running=join_running,
        )
        rank = self._native.rank
        self._mode = mode
        self._rounding_seed = (seed or 0) if rounding == "stochastic" else None
        _open.add(self)
        if rank == 0 and (reason := self._native.unused_switch()) is not None and warn_unused_switch:
            warnings.warn(f"netfold: the configured switch is not used: {reason}", RuntimeWarning, stacklevel=2)

    @property
    def rank(self) -> int:
        """This worker's rank, from 0."""
        return self._native.rank

    @property
    def world_size(self) -> int:
        """Number of workers."""
        return self._native.world_size

    @property
    def mode(self) -> str:
        """How floating-point tensors are encoded on the network."""
        return self._mode

    @property
    def rounding_seed(self) -> Optional[int]:
        """The seed of stochastic rounding; ``None`` where numbers are rounded to the nearest."""
        return self._rounding_seed

    @property
    def path(self) -> str:
        """The data path, and the reason for it: the switch, shared memory, or a ring."""
        return self._native.path()

    @property
    def tree_shares(self) -> List[float]:
        """The part of each of the job's ``trees`` in its next operations, of 1: even at first, then in proportion to the rates that the ranks have
        measured. 0 for a tree that is lost; empty without a switch."""
        return self._native.tree_shares()

    @property
    def unused_switch(self) -> Optional[str]:
        """Why the configured switch was not used when the communicator was made, and what to change; ``None`` if it is used or none was
        configured. Rank 0 warns of it, too."""
        return self._native.unused_switch()

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._native.closed

    def failure(self) -> Optional[Error]:
        """What ended the job, if it has ended."""
        return self._native.failure()

    def split(self, color: Optional[int], key: int = 0) -> Optional["Communicator"]:
        """Splits the ranks into groups, as MPI does.

        Ranks with the same ``color``, 0 or more, form a group, numbered by ``key`` and then by rank here. All ranks call it; those with
        ``color=None`` have no group and get ``None``. Needs a ``rendezvous`` or an ``exchange``. A group has this communicator's settings,
        and is to be closed before it. It is a group of this communicator's job, so the controller lists it under the job and ends it with
        the job. A tenant's quota that is too small for the groups raises ``Refused`` on all ranks, with the slots that are needed.
        """
        if color is not None and not 0 <= color < 2**32:
            raise ArgumentError(f"color {color} is out of range; give 0 to 2**32 - 1, or None for no group", "argument")
        native = self._native.split(color, key)
        if native is None:
            return None
        group = object.__new__(Communicator)
        group._native = native
        group._mode = self._mode
        group._rounding_seed = self._rounding_seed
        _open.add(group)
        return group

    @property
    def generation(self) -> int:
        """The generation of a resizable job, from 1; 0 of others."""
        return self._native.generation()

    @property
    def membership_address(self) -> Optional[str]:
        """Where processes that join a resizable job without a control port reach this rank: their ``rendezvous``."""
        return self._native.membership_address()

    def shrink(self, timeout: float = 60.0) -> Membership:
        """Continues without lost ranks, in a ``resizable`` job.

        All ranks that remain call it, after an error that ended the job, and then the same operations again. The ranks are
        numbered anew, in the order of their former ranks; ``rank`` and ``world_size`` change. The job keeps its name and its controller;
        this process keeps its tensors and residuals. Groups have ended: split again.

        ``NotResized`` names ranks that are connected and did not call it within ``timeout`` seconds: none of them is left out. A rank
        that was taken as lost and returns gets ``Excluded``. If another rank is lost meanwhile, an error says so: call it again.
        """
        return Membership(*self._native.resize(0, timeout))

    def grow(self, joining: int, timeout: float = 60.0) -> Membership:
        """Continues with ``joining`` more ranks, which join with ``join_running``; without lost ones, as :meth:`shrink`.

        All ranks call it at the same point and wait until so many processes have come. They are numbered after the ranks that there are.
        After ``NotResized`` the communicator is as it was before.
        """
        if not 0 < joining <= 0xFFFF:
            raise ArgumentError(f"{joining} new ranks are out of range; give at least 1", "argument")
        return Membership(*self._native.resize(joining, timeout))

    # -- Operations that return when they are done --

    def all_reduce(
        self,
        tensor: T,
        op: str = "sum",
        *,
        out: Optional[T] = None,
        dtype: Optional[str] = None,
        priority: int = 0,
        residual: Optional[Any] = None,
        tolerance: Optional[float] = None,
    ) -> T:
        """Replaces ``tensor`` (or fills ``out``) by the reduction over all ranks' tensors.

        With a ``residual`` (error feedback; sums and averages of ``float32``): it is added to the tensor first, and then holds what
        rounding left out of this rank's contribution. Keep one for each tensor, as long as it, ``float32``, all zeros at first, and
        give it with that tensor in every step. After an exception that ends the job its numbers are undefined.

        ``tolerance`` is that of this operation alone, the same on all ranks: 0 for a sum that must be whole.
        """
        return self.all_reduce_async(
            tensor, op, out=out, dtype=dtype, priority=priority, residual=residual, tolerance=tolerance
        ).wait()

    def reduce(
        self,
        tensor: T,
        root: int = 0,
        op: str = "sum",
        *,
        out: Optional[T] = None,
        dtype: Optional[str] = None,
        priority: int = 0,
    ) -> T:
        """As ``all_reduce``, but only ``root`` gets the result; the others' tensors stay as they are."""
        return self.reduce_async(tensor, root, op, out=out, dtype=dtype, priority=priority).wait()

    def broadcast(self, tensor: T, root: int = 0, *, dtype: Optional[str] = None, priority: int = 0) -> T:
        """Replaces ``tensor`` by ``root``'s, bit for bit."""
        return self.broadcast_async(tensor, root, dtype=dtype, priority=priority).wait()

    def all_gather(self, tensor: T, *, out: Optional[T] = None, dtype: Optional[str] = None, priority: int = 0) -> T:
        """All ranks' tensors, in order of rank: ``out``, or a new tensor with one more dimension in front."""
        return self.all_gather_async(tensor, out=out, dtype=dtype, priority=priority).wait()

    def reduce_scatter(
        self,
        tensor: T,
        op: str = "sum",
        *,
        out: Optional[T] = None,
        dtype: Optional[str] = None,
        priority: int = 0,
        tolerance: Optional[float] = None,
    ) -> T:
        """This rank's part of the reduction, of ``world_size`` parts along the first dimension."""
        return self.reduce_scatter_async(
            tensor, op, out=out, dtype=dtype, priority=priority, tolerance=tolerance
        ).wait()

    def all_to_all(self, tensor: T, *, out: Optional[T] = None, dtype: Optional[str] = None, priority: int = 0) -> T:
        """Part ``rank`` of every rank's tensor, in order of rank; parts are equal."""
        return self.all_to_all_async(tensor, out=out, dtype=dtype, priority=priority).wait()

    def barrier(self) -> None:
        """Returns when every rank has called it."""
        self.barrier_async().wait()

    # -- Operations in flight --

    def all_reduce_async(
        self,
        tensor: T,
        op: str = "sum",
        *,
        out: Optional[T] = None,
        dtype: Optional[str] = None,
        priority: int = 0,
        residual: Optional[Any] = None,
        tolerance: Optional[float] = None,
    ) -> Work[T]:
        """Starts an ``all_reduce``."""
        return self._start("all_reduce", tensor, out, op, 0, dtype, priority, residual, tolerance)

    def reduce_async(
        self,
        tensor: T,
        root: int = 0,
        op: str = "sum",
        *,
        out: Optional[T] = None,
        dtype: Optional[str] = None,
        priority: int = 0,
    ) -> Work[T]:
        """Starts a ``reduce``."""
        return self._start("reduce", tensor, out, op, self._root(root), dtype, priority)

    def broadcast_async(
        self, tensor: T, root: int = 0, *, dtype: Optional[str] = None, priority: int = 0
    ) -> Work[T]:
        """Starts a ``broadcast``."""
        return self._start("broadcast", tensor, None, "sum", self._root(root), dtype, priority)

    def all_gather_async(
        self, tensor: T, *, out: Optional[T] = None, dtype: Optional[str] = None, priority: int = 0
    ) -> Work[T]:
        """Starts an ``all_gather``."""
        if out is None:
            out = _new(tensor, (self.world_size, *_shape(tensor)))
        return self._start("all_gather", tensor, out, "sum", 0, dtype, priority)

    def reduce_scatter_async(
        self,
        tensor: T,
        op: str = "sum",
        *,
        out: Optional[T] = None,
        dtype: Optional[str] = None,
        priority: int = 0,
        tolerance: Optional[float] = None,
    ) -> Work[T]:
        """Starts a ``reduce_scatter``."""
        if out is None:
            first, *rest = _shape(tensor) or (0,)
            if first % self.world_size:
                raise ArgumentError(
                    f"the first dimension, {first}, is not {self.world_size} equal parts; pad it, or give out=", "length"
                )
            out = _new(tensor, (first // self.world_size, *rest))
        return self._start("reduce_scatter", tensor, out, op, 0, dtype, priority, tolerance=tolerance)

    def all_to_all_async(
        self, tensor: T, *, out: Optional[T] = None, dtype: Optional[str] = None, priority: int = 0
    ) -> Work[T]:
        """Starts an ``all_to_all``."""
        if out is None:
            out = _new(tensor, _shape(tensor))
        return self._start("all_to_all", tensor, out, "sum", 0, dtype, priority)

    def barrier_async(self) -> Work[None]:
        """Starts a ``barrier``."""
        return Work(self._native.submit("barrier", None, None, "sum", 0, None), None)

    # -- The end --

    def abort(self) -> None:
        """Makes pending and later calls on this rank raise promptly, from any thread; other ranks see this one lost."""
        self._native.abort()

    def close(self) -> None:
        """Finishes pending operations and leaves the job. Does nothing the second time."""
        _open.discard(self)
        self._native.close()

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if error is None:
            self.close()
            return
        # The original exception matters more than an error of leaving, and pending operations may never end.
        try:
            self._native.abort()
            self.close()
        except Error:
            pass

    def __repr__(self) -> str:
        return f"<netfold.Communicator rank {self.rank} of {self.world_size}{', closed' if self.closed else ''}>"

    def _root(self, root: int) -> int:
        if not 0 <= root < self.world_size:
            raise ArgumentError(f"root {root} is not a rank of this job; give one below {self.world_size}", "root")
        return root

    def _start(
        self,
        collective: str,
        tensor: T,
        out: Optional[T],
        op: str,
        root: int,
        dtype: Optional[str],
        priority: int,
        residual: Optional[Any] = None,
        tolerance: Optional[float] = None,
    ) -> Work[T]:
        recv = tensor if out is None else out
        native = self._native.submit(collective, tensor, recv, op, root, dtype, priority, residual, tolerance)
        return Work(native, recv)


def close_all() -> None:
    """Leaves all jobs. Called at exit, while threads can still be joined."""
    for communicator in list(_open):
        try:
            # No thread waits for pending operations.
            communicator._native.release()
        except Error:
            pass  # The job had failed, or belongs to the process that this one was forked from.


def _shape(tensor: Any) -> tuple:
    shape = getattr(tensor, "shape", None)
    if shape is None:
        raise TensorError("give out=: only numpy and torch tensors are made by the library", "wrong_type")
    return tuple(shape)


def _new(tensor: Any, shape: tuple) -> Any:
    """An uninitialised tensor of the same kind and element type."""
    if hasattr(tensor, "new_empty"):
        return tensor.new_empty(shape)
    if hasattr(tensor, "__array_interface__") or hasattr(tensor, "__array__"):
        import numpy

        return numpy.empty(shape, dtype=tensor.dtype)
    raise TensorError("give out=: only numpy and torch tensors are made by the library", "wrong_type")
