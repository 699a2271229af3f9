"""Collectives inside jitted JAX functions, on CPU arrays and those that XLA stages through the host.

::

    import netfold.jax

    @jax.jit
    def step(parameters, batch):
        gradients = jax.grad(loss)(parameters, batch)
        gradients = netfold.jax.average(gradients, comm)
        return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients)

Each process is one rank with a :class:`netfold.Communicator` of its own. The operations are ordered callbacks (``io_callback``), so
ranks that run the same program call them in the same order. Arrays are immutable: inputs are read where they lie, outputs are new.
They have no derivative: use them on gradients.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import jax
import jax.numpy as jnp
import numpy
from jax.experimental import io_callback

from ._communicator import Communicator

__all__ = ["all_gather", "all_reduce", "average", "barrier", "broadcast", "reduce_scatter"]


def _call(shape: Tuple[int, ...], x: jax.Array, run: Callable[[numpy.ndarray, numpy.ndarray], Any]) -> jax.Array:
    def host(value: Any) -> numpy.ndarray:
        out = numpy.empty(shape, value.dtype)
        run(numpy.ascontiguousarray(value), out)
        return out

    return io_callback(host, jax.ShapeDtypeStruct(shape, x.dtype), x, ordered=True)


def all_reduce(x: jax.Array, communicator: Communicator, op: str = "sum") -> jax.Array:
    """The reduction over all ranks' arrays."""
    x = jnp.asarray(x)
    return _call(x.shape, x, lambda value, out: communicator.all_reduce(value, op, out=out))


def all_gather(x: jax.Array, communicator: Communicator) -> jax.Array:
    """All ranks' arrays, with one more dimension in front."""
    x = jnp.asarray(x)
    return _call((communicator.world_size, *x.shape), x, lambda value, out: communicator.all_gather(value, out=out))


def reduce_scatter(x: jax.Array, communicator: Communicator, op: str = "sum") -> jax.Array:
    """This rank's part of the reduction, of equal parts along the first dimension."""
    x = jnp.asarray(x)
    if x.ndim == 0 or x.shape[0] % communicator.world_size:
        raise ValueError(f"an array of shape {x.shape} is not {communicator.world_size} equal parts; pad it")
    shape = (x.shape[0] // communicator.world_size, *x.shape[1:])
    return _call(shape, x, lambda value, out: communicator.reduce_scatter(value, op, out=out))


def broadcast(x: jax.Array, communicator: Communicator, root: int = 0) -> jax.Array:
    """``root``'s array, bit for bit."""
    x = jnp.asarray(x)

    def run(value: numpy.ndarray, out: numpy.ndarray) -> None:
        out[...] = value
        communicator.broadcast(out, root)

    return _call(x.shape, x, run)


def barrier(communicator: Communicator) -> jax.Array:
    """Returns when every rank has called it; a scalar to depend on."""
    return _call((), jnp.zeros((), jnp.int32), lambda value, out: (out.fill(0), communicator.barrier()))


def average(tree: Any, communicator: Communicator) -> Any:
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
