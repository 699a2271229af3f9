"""Settings from the environment, and rank and world size as launchers set them."""

from __future__ import annotations

import os
from typing import Optional, Tuple

from . import _netfold
from ._errors import ArgumentError


def place(rank: Optional[int], world_size: Optional[int]) -> Tuple[int, int]:
    """Rank and world size: those given, else those of the launcher.

    The library knows the variables of launchers, and raises ``ArgumentError`` where they are malformed or contradict each other.
    """
    if rank is None or world_size is None:
        found = _netfold.launched()
        if found is None:
            raise ArgumentError(
                "give rank and world_size, or start the program with torchrun, mpirun or srun, which say them", "argument"
            )
        rank = found[1] if rank is None else rank
        world_size = found[2] if world_size is None else world_size
    if not 0 < world_size <= 0xFFFF:
        raise ArgumentError(f"a world size of {world_size} is invalid", "argument")
    if not 0 <= rank < world_size:
        raise ArgumentError(f"rank {rank} is not below the world size {world_size}", "argument")
    return rank, world_size


def controller(
    address: Optional[str], tenant: Optional[str], token: Optional[str]
) -> Tuple[Optional[str], Optional[str], Optional[str]]:
    """A controller's address, a tenant and its token: those given, else those of the environment."""
    if address is None:
        address = os.environ.get("NETFOLD_CONTROLLER") or None
    if tenant is None:
        tenant = os.environ.get("NETFOLD_TENANT") or None
        token = os.environ.get("NETFOLD_TOKEN", "") if token is None and tenant is not None else token
    return address, tenant, token


def number(name: str) -> int:
    """The environment variable's number."""
    try:
        return int(os.environ[name])
    except ValueError:
        raise ArgumentError(f"the environment variable {name} is '{os.environ[name]}', which is not a number", "argument") from None


def part(name: str) -> float:
    """The environment variable's fraction, from 0 to 1."""
    try:
        found = float(os.environ[name])
    except ValueError:
        found = -1.0
    if not 0.0 <= found <= 1.0:
        raise ArgumentError(
            f"the environment variable {name} is '{os.environ[name]}'; give a fraction from 0 to 1, such as 0.01", "argument"
        )
    return found


def flag(name: str, default: bool) -> bool:
    """The environment variable's yes or no."""
    value = os.environ.get(name, "").strip().lower()
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("0", "false", "no", "off"):
        return False
    if value:
        raise ArgumentError(f"the environment variable {name} is '{value}'; set it to 1 or 0", "argument")
    return default
