"""What a check is, and what it is given."""

from __future__ import annotations

import pathlib
import tempfile
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional

from . import _machine
from ._children import Failure


@dataclass(frozen=True)
class Check:
    """A check, as a module lists it in ``CHECKS``."""

    #: As ``--only`` takes it; lower case, with hyphens.
    name: str
    #: One line for ``--list``.
    description: str
    #: Why the check cannot run here, with what to do about it; ``None`` when it can.
    missing: Callable[["Context"], Optional[str]]
    #: Runs the check: returns the measured figures, or raises :class:`~netfold.gpu_check._children.Failure`.
    run: Callable[["Context"], "Figures"]


#: What was measured: numbers, texts, or lists of them, by name. A name ends in its unit.
Figures = Dict[str, Any]


@dataclass
class Result:
    """How a check ended."""

    name: str
    #: ``passed``, ``failed`` or ``skipped``.
    outcome: str
    #: Why it failed or was skipped; empty for one that passed.
    reason: str = ""
    seconds: float = 0.0
    figures: Figures = field(default_factory=dict)


@dataclass
class Context:
    """The options of the command, and what was found out about this machine."""

    #: ``--nccl-plugin``.
    nccl_plugin: Optional[str] = None
    #: Seconds that a child process may take.
    timeout: float = 180.0
    #: Prints a line of progress.
    progress: Callable[[str], None] = print
    #: Where logs of child processes are kept; ``None``: they are deleted.
    logs: Optional[pathlib.Path] = None
    _machine: Optional[_machine.Machine] = None
    _temporary: List[Any] = field(default_factory=list)

    @property
    def machine(self) -> _machine.Machine:
        """The GPU and the libraries here, examined on first use."""
        if self._machine is None:
            self._machine = _machine.examine(self.timeout)
        return self._machine

    def folder(self, name: str) -> pathlib.Path:
        """A new folder for the files of one run of child processes."""
        if self.logs is None:
            temporary = tempfile.TemporaryDirectory(prefix="netfold-gpu-check-")
            self._temporary.append(temporary)
            return pathlib.Path(temporary.name)
        number, folder = 1, self.logs / name
        while folder.exists():
            number += 1
            folder = self.logs / f"{name}-{number}"
        folder.mkdir(parents=True)
        return folder

    def close(self) -> None:
        """Deletes temporary files."""
        while self._temporary:
            self._temporary.pop().cleanup()


__all__ = ["Check", "Context", "Failure", "Figures", "Result"]
