"""Collectives inside jitted JAX functions, on CPU arrays and those that XLA stages through the host.

::

    import netfold.jax

    @jax.jit
    def step(parameters, batch):
        gradients = jax.grad(loss)(parameters, batch)
        gradients = netfold.jax.average(gradients, comm)
        return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)

Each process is one rank with a :class:`netfold.Communicator` of its own. The operations are ordered, so ranks that run the same program call them in
the same order. On CPUs XLA calls the library itself (``jax.ffi``), without the interpreter's lock; on other devices, and with an older JAX, they
are ordered callbacks (``io_callback``). They have no derivative: use them on gradients.

Within ``jax.shard_map`` over several CPU devices of a process each device is a rank: pass a sequence of communicators, one for each local device in
their order. That takes the former.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import jax
import jax.numpy as jnp
import numpy
from jax.experimental import io_callback

from . import _xla
from ._communicator import Communicator
from ._errors import ArgumentError

__all__ = ["all_gather", "all_reduce", "average", "barrier", "broadcast", "reduce_scatter"]

#: One of this process, or one for each of its devices.
Communicators = Union[Communicator, Sequence[Communicator]]

Run = Callable[[Communicator, numpy.ndarray, numpy.ndarray], Any]


def _listed(communicator: Communicators) -> List[Communicator]:
    listed = [communicator] if isinstance(communicator, Communicator) else list(communicator)
    if not listed or len({comm.world_size for comm in listed}) != 1:
        raise ArgumentError("give communicators of one job, one for each local device", "argument")
    return listed


def _call(
    communicator: Communicators,
    collective: str,
    x: Optional[jax.Array],
    shape: Tuple[int, ...],
    run: Run,
    op: str = "sum",
    root: int = 0,
) -> jax.Array:
    """``run`` is what the callback does where the library is not called by XLA."""
    listed = _listed(communicator)
    dtype = jnp.int32 if x is None else x.dtype
    operands = () if x is None else (x,)
    if _xla.usable():
        return _xla.call(listed, collective, operands, shape, dtype, op, root)
    if len(listed) > 1:
        reason = _xla.missing or "NETFOLD_JAX_FFI is 0, or the default devices are no CPUs"
        raise ArgumentError(f"several communicators need jax.ffi on CPUs, which is not used: {reason}", "unsupported")

    def host(*values: Any) -> numpy.ndarray:
        out = numpy.zeros(shape, dtype)
        run(listed[0], numpy.ascontiguousarray(values[0]) if values else out, out)
        return out

    return io_callback(host, jax.ShapeDtypeStruct(shape, dtype), *operands, ordered=True)


def all_reduce(x: jax.Array, communicator: Communicators, op: str = "sum") -> jax.Array:
    """The reduction over all ranks' arrays."""
    x = jnp.asarray(x)
    return _call(communicator, "all_reduce", x, x.shape, lambda comm, value, out: comm.all_reduce(value, op, out=out), op)


def all_gather(x: jax.Array, communicator: Communicators) -> jax.Array:
    """All ranks' arrays, with one more dimension in front."""
    x = jnp.asarray(x)
    shape = (_listed(communicator)[0].world_size, *x.shape)
    return _call(communicator, "all_gather", x, shape, lambda comm, value, out: comm.all_gather(value, out=out))


def reduce_scatter(x: jax.Array, communicator: Communicators, op: str = "sum") -> jax.Array:
    """This rank's part of the reduction, of equal parts along the first dimension."""
    x = jnp.asarray(x)
    world = _listed(communicator)[0].world_size
    if x.ndim == 0 or x.shape[0] % world:
        raise ValueError(f"an array of shape {x.shape} is not {world} equal parts; pad it")
    shape = (x.shape[0] // world, *x.shape[1:])
    return _call(communicator, "reduce_scatter", x, shape, lambda comm, value, out: comm.reduce_scatter(value, op, out=out), op)


def broadcast(x: jax.Array, communicator: Communicators, root: int = 0) -> jax.Array:
    """``root``'s array, bit for bit."""
    x = jnp.asarray(x)
    world = _listed(communicator)[0].world_size
    if not 0 <= root < world:
        raise ArgumentError(f"rank {root} is not below the world size {world}", "argument")

    def run(comm: Communicator, value: numpy.ndarray, out: numpy.ndarray) -> None:
        out[...] = value
        comm.broadcast(out, root)

    return _call(communicator, "broadcast", x, x.shape, run, root=root)


def barrier(communicator: Communicators) -> jax.Array:
    """Returns when every rank has called it; a scalar to depend on."""
    return _call(communicator, "barrier", None, (), lambda comm, value, out: comm.barrier())


def average(tree: Any, communicator: Communicators) -> Any:
    """The averages of all leaves of a tree, such as a model's gradients: one operation for each element type."""
    leaves, structure = jax.tree_util.tree_flatten(tree)
    leaves = [jnp.asarray(leaf) for leaf in leaves]
    by_type: Dict[Any, List[int]] = {}
    for index, leaf in enumerate(leaves):
        by_type.setdefault(leaf.dtype, []).append(index)
    for indices in by_type.values():
        flat = all_reduce(jnp.concatenate([leaves[index].reshape(-1) for index in indices]), communicator, "avg")
        start = 0
        for index in indices:
            size = leaves[index].size
            leaves[index] = flat[start : start + size].reshape(leaves[index].shape)
            start += size
    return jax.tree_util.tree_unflatten(structure, leaves)
