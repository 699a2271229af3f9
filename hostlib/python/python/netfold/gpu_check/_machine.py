"""What this machine has: found out in a child process, so that a driver that hangs does not hang the command."""

from __future__ import annotations

import ctypes
import os
import pathlib
import sys
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from ._children import Failure, run_one

#: Prints one line of JSON. It must not import netfold, which may be older than what it examines.
_EXAMINE = """
import json
found = {}
try:
    import torch
except Exception as error:
    found["torch_missing"] = f"{type(error).__name__}: {error}"
else:
    found["torch"] = torch.__version__
    found["cuda"] = torch.version.cuda or torch.version.hip
    if not torch.cuda.is_available():
        found["gpu_missing"] = "torch was built without CUDA" if found["cuda"] is None else "torch finds no GPU"
    else:
        found["gpus"] = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        torch.ones(1, device="cuda").add_(1).item()
        try:
            found["nccl"] = list(torch.cuda.nccl.version())
        except Exception as error:
            found["nccl_missing"] = f"{type(error).__name__}: {error}"
        try:
            import triton
            found["triton"] = triton.__version__
        except Exception as error:
            found["triton_missing"] = f"{type(error).__name__}: {error}"
print("RESULT " + json.dumps(found))
"""

_BUILD = "build it with `cargo build --release -p netfold-nccl`, and give its path with --nccl-plugin"


@dataclass(frozen=True)
class Machine:
    """Versions and names; ``None`` and a reason for what is absent."""

    facts: Dict[str, Any]

    @property
    def missing(self) -> Optional[str]:
        """Why nothing on a GPU can run here."""
        if "failed" in self.facts:
            return f"torch and the GPU could not be examined: {self.facts['failed']}"
        if "torch_missing" in self.facts:
            return f"this Python has no torch ({self.facts['torch_missing']}): install it with CUDA"
        if "gpu_missing" in self.facts:
            return f"there is no GPU: {self.facts['gpu_missing']}"
        return None

    @property
    def nccl(self) -> Optional[Tuple[int, ...]]:
        """The version of the NCCL that torch uses."""
        version = self.facts.get("nccl")
        return None if version is None else tuple(version)

    def describe(self) -> str:
        """One line for people."""
        if self.missing is not None:
            return self.missing
        nccl = "no NCCL" if self.nccl is None else f"NCCL {'.'.join(map(str, self.nccl))}"
        gpus, driver = self.facts["gpus"], self.facts.get("driver")
        count = f"{len(gpus)} x " if len(gpus) > 1 else ""
        return f"{count}{gpus[0]}{f', driver {driver}' if driver else ''}, torch {self.facts['torch']}, {nccl}"


def examine(timeout: float) -> Machine:
    """Imports torch and uses the GPU once, in a child process."""
    try:
        (facts,) = run_one([sys.executable, "-c", _EXAMINE], timeout, "the examination of the GPU")
    except Failure as failure:
        return Machine({"failed": str(failure)})
    version = pathlib.Path("/sys/module/nvidia/version")
    if version.is_file():
        facts["driver"] = version.read_text().strip()
    return Machine(facts)


def find_nccl_plugin(named: Optional[str]) -> Tuple[Optional[pathlib.Path], str]:
    """The NCCL plugin's file, or ``None`` and where it was looked for."""
    if named is not None:
        path = pathlib.Path(named)
        return (path.resolve(), "") if path.is_file() else (None, f"there is no NCCL plugin at {named}: {_BUILD}")
    for path in _places():
        if path.is_file():
            return path.resolve(), ""
    try:
        ctypes.CDLL("libnccl-net-netfold.so")
    except OSError:
        return None, f"no NCCL plugin libnccl-net-netfold.so was found: {_BUILD}"
    return pathlib.Path("libnccl-net-netfold.so"), ""


def _places() -> Tuple[pathlib.Path, ...]:
    """Where the plugin is after the steps of the documentation: installed, or built in a source tree."""
    variable = os.environ.get("NCCL_NET_PLUGIN", "")
    named = [pathlib.Path(variable)] if "/" in variable else []
    here = pathlib.Path(__file__).resolve()
    trees = [pathlib.Path.cwd(), *(parent for parent in here.parents if (parent / "Cargo.toml").is_file())]
    built = [tree / "target" / "release" / "libnccl_net_netfold.so" for tree in trees]
    return (*named, pathlib.Path("/usr/local/lib/libnccl-net-netfold.so"), *built)
