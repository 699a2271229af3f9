"""What Slurm says about this process, and the variables of ``torch.distributed`` that follow from it.

``srun`` starts the ranks of a job step, and torch asks for what torchrun would say::

    import netfold.torch                     # or: import netfold.slurm; netfold.slurm.export()
    torch.distributed.init_process_group("netfold")

``srun -N2 --ntasks-per-node=4 python train.py`` then needs no torchrun. Only ``export`` changes the environment, and only of a process that ``srun``
started and that has no ``RANK`` or ``WORLD_SIZE`` yet; variables that are set are kept.
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from typing import Dict, Optional

from . import _environment, _netfold
from ._errors import ArgumentError

__all__ = ["Step", "export", "rendezvous", "step"]

# Ports of rendezvous: below those that Linux gives to sockets that asked for none, and apart from Netfold's own.
_PORTS_FIRST = 10_240
_PORTS = 4_800
#: Steps of a job with ports of their own; the ports of so many jobs in sequence differ.
_STEPS = 16
#: One more than the largest number of a task, of a job or of a step that is not reserved.
_NUMBERS = 1 << 32


@dataclass(frozen=True)
class Step:
    """A task of a job step: one rank."""

    #: Of the tasks of the step.
    rank: int
    world_size: int
    #: Of the step's tasks on this node.
    local_rank: int
    local_world_size: int
    #: Index of this node in the step.
    node: int
    #: Number of the job, and of the step within it.
    job: int
    number: int
    #: Name of the node of rank 0.
    first_node: str

    @property
    def port(self) -> int:
        """A port for a rendezvous of this step, the same on all ranks."""
        return _PORTS_FIRST + (self.job * _STEPS + self.number % _STEPS) % _PORTS

    def environment(self) -> Dict[str, str]:
        """The variables that torchrun would set."""
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_world_size),
            "GROUP_RANK": str(self.node),
            "MASTER_ADDR": self.first_node,
            "MASTER_PORT": str(self.port),
        }


def step() -> Optional[Step]:
    """This task; ``None`` in a process that is no task of ``srun``, such as a batch script or a rank of ``mpirun``."""
    # A batch script has a rank, too, and the number of tasks that were asked for, but it is the only process: the library says so.
    task = _netfold.launched("slurm")
    if task is None:
        return None
    _, rank, world_size, _ = task
    # Under Slurm mpirun starts one process a node by srun, and the ranks inherit that process's variables. With Slurm's own PMI they are the same.
    for launcher in ("openmpi", "pmi"):
        found = _netfold.launched(launcher)
        if found is not None and found[1:3] != (rank, world_size):
            return None
    node = _number("SLURM_NODEID")
    local_rank = _number("SLURM_LOCALID")
    tasks = _tasks(_text("SLURM_STEP_TASKS_PER_NODE"), node)
    if local_rank >= tasks:
        raise ArgumentError(f"SLURM_LOCALID is {local_rank}, but node {node} of the step has {tasks} tasks; start the program with srun", "argument")
    nodes = os.environ.get("SLURM_STEP_NODELIST") or _text("SLURM_JOB_NODELIST")
    return Step(rank, world_size, local_rank, tasks, node, _number("SLURM_JOB_ID"), _number("SLURM_STEP_ID"), first_node(nodes))


def export() -> Optional[Step]:
    """Puts what torchrun would say into the environment of a task of ``srun``; returns the task.

    Does nothing where ``RANK`` or ``WORLD_SIZE`` is set, as under torchrun within a step. ``MASTER_ADDR`` and ``MASTER_PORT`` are kept where they are
    set: give them to ``srun`` where the name of the first node does not resolve, or its port is taken.
    """
    if "RANK" in os.environ or "WORLD_SIZE" in os.environ:
        return None
    task = step()
    if task is None:
        return None
    if "MASTER_ADDR" not in os.environ:
        _resolve(task.first_node)
    for name, value in task.environment().items():
        os.environ.setdefault(name, value)
    return task


def rendezvous() -> str:
    """``HOST:PORT`` for ``Communicator(rendezvous=...)`` in a task of ``srun``: on the first node, beside the port for torch."""
    task = step()
    if task is None:
        raise ArgumentError("this process is no task of a job step of Slurm; start the program with srun, or give a rendezvous", "argument")
    _resolve(task.first_node)
    # The ports for torch end below this one.
    return f"{task.first_node}:{task.port + _PORTS}"


def first_node(nodes: str) -> str:
    """The first name of a list of nodes, such as ``rack[1-2]node[03-07],login``."""
    first = re.match(r"((?:[^\[\],]|\[[0-9][0-9,-]*\])+)(?:,|$)", nodes)
    name = re.sub(r"\[([0-9]+)[0-9,-]*\]", r"\1", first.group(1)) if first else ""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise ArgumentError(f"Slurm's list of nodes '{nodes}' is not understood; set MASTER_ADDR to the address of rank 0's node", "argument")
    return name


def _tasks(counts: str, node: int) -> int:
    """The number of tasks of a node, of a list such as ``4(x2),1``."""
    left = node
    for part in counts.split(","):
        found = re.fullmatch(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?", part)
        if not found:
            break
        nodes = int(found.group(2) or 1)
        if left < nodes:
            return int(found.group(1))
        left -= nodes
    raise ArgumentError(f"SLURM_STEP_TASKS_PER_NODE is '{counts}', which has no number for node {node}; start the program with srun", "argument")


def _text(name: str) -> str:
    found = os.environ.get(name)
    if not found:
        raise ArgumentError(f"Slurm has not set {name}; start the program with srun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT", "argument")
    return found


def _number(name: str) -> int:
    _text(name)
    found = _environment.number(name)
    if not 0 <= found < _NUMBERS:
        raise ArgumentError(f"the environment variable {name} is {found}, which is out of range", "argument")
    return found


def _resolve(node: str) -> None:
    """Raises where a node's name has no address, which torch would look for until its timeout."""
    try:
        socket.getaddrinfo(node, None)
    except OSError as error:
        raise ArgumentError(
            f"the name of the step's first node, '{node}', has no address here ({error.strerror or error}); set MASTER_ADDR for srun to the address of that node",
            "argument",
        ) from None
