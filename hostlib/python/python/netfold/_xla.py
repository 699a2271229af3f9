"""Collectives as foreign functions of XLA (``jax.ffi``), on the host: compiled programs call the library without Python.

They are ordered as JAX orders effects, by tokens, together with ordered callbacks. ``call`` is ``None`` where this JAX does not have what that takes;
``missing`` then says what.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import re
from typing import Any, Callable, Optional, Sequence, Tuple

import jax
import numpy

from . import _netfold

#: The name by which XLA knows the handler.
TARGET = "netfold_collective"

call: Optional[Callable[..., jax.Array]] = None
missing = ""


def usable() -> bool:
    """Whether calls can go to XLA's foreign functions: on the CPU alone, and unless ``NETFOLD_JAX_FFI=0``."""
    return call is not None and os.environ.get("NETFOLD_JAX_FFI") != "0" and jax.default_backend() == "cpu"


def _define() -> Callable[..., jax.Array]:
    """Registers the handler and makes the primitive. JAX has no public interface for calls of foreign functions that are ordered."""
    from jax._src import core, dispatch
    from jax._src.callback import _OrderedIOEffect as effect
    from jax.interpreters import mlir

    version = _version()
    handler = _netfold.xla_handler(version[1]) if version[0] == 0 else None
    if handler is None:
        raise NotImplementedError(f"XLA's interface for foreign functions is {version[0]}.{version[1]}, which is not known")
    jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(handler), platform="cpu")
    primitive = core.Primitive("netfold")
    primitive.def_impl(functools.partial(dispatch.apply_primitive, primitive))

    def abstract(*operands: Any, shape: Tuple[int, ...], dtype: Any, **named: Any) -> Any:
        if operands:
            # Keeps what shard_map knows of the operand: along which dimensions of its mesh it varies.
            return operands[0].update(shape=shape, dtype=dtype, weak_type=False), {effect}
        return core.ShapedArray(shape, dtype), {effect}

    primitive.def_effectful_abstract_eval(abstract)

    def lower(ctx: Any, *operands: Any, communicators: Tuple[int, ...], collective: str, op: str, root: int, **named: Any) -> Any:
        token = ctx.tokens_in.get(effect)
        with_token = dataclasses.replace(
            ctx, avals_in=[core.abstract_token, *ctx.avals_in], avals_out=[core.abstract_token, *ctx.avals_out]
        )
        # In the operand's own memory where the program does not need the operand any more.
        in_place = {1: 1} if collective in ("all_reduce", "broadcast") else None
        rule = jax.ffi.ffi_lowering(TARGET, has_side_effect=True, operand_output_aliases=in_place)
        numbers = numpy.array(communicators, numpy.int64)
        token, out = rule(
            with_token, token, *operands, communicators=numbers, collective=collective, op=op, root=numpy.int64(root)
        )
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(mlir.TokenSet({effect: token})))
        return [out]

    mlir.register_lowering(primitive, lower, platform="cpu")
    return functools.partial(_bind, primitive)


def _version() -> Tuple[int, int]:
    """The version of XLA's interface. One that XLA does not expect would be refused later, with all of its devices."""
    header = (pathlib.Path(jax.ffi.include_dir()) / "xla/ffi/api/c_api.h").read_text()
    major, minor = (re.search(rf"#define XLA_FFI_API_{part} ([0-9]+)", header) for part in ("MAJOR", "MINOR"))
    if major is None or minor is None:
        raise NotImplementedError("jaxlib's header of XLA does not name the version of its interface")
    return int(major.group(1)), int(minor.group(1))


def _bind(
    primitive: Any, communicators: Sequence[Any], collective: str, operands: Sequence[jax.Array], shape: Tuple[int, ...], dtype: Any, op: str, root: int
) -> jax.Array:
    names = tuple(communicator._native.xla_name() for communicator in communicators)
    return primitive.bind(
        *operands, communicators=names, collective=collective, op=op, root=root, shape=tuple(shape), dtype=numpy.dtype(dtype)
    )


try:
    call = _define()
except Exception as error:  # Of internal parts of JAX any version may lack any, in any way.
    missing = f"{type(error).__name__}: {error}"
