"""The examples of frameworks and launchers over a switch: their losses beside gloo's."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Dict, List, Optional, Sequence

import pytest

from conftest import HERE, LIMIT, free_port

torch = pytest.importorskip("torch")

EXAMPLES = HERE / ".." / "examples"


def require(*modules: str) -> None:
    """Skips the test where a module is missing, without importing it."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"no {module}")


def torchrun(example: str) -> List[str]:
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]
    return [*launch, "--rdzv-endpoint", f"localhost:{free_port()}", str(EXAMPLES / example)]


def run(command: Sequence[str], environment: Optional[Dict[str, str]] = None) -> str:
    # Programs of the interpreter's environment, such as ninja, are used from there.
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    env = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **(environment or {})}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=5 * LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def compared(example: List[str], kept: pathlib.Path, environment: Optional[Dict[str, str]] = None) -> str:
    """Trains over gloo and then over Netfold; what the second prints. The example ends with code 1 if the losses differ too much."""
    run([*example, "--backend", "gloo", "--losses", str(kept)], environment)
    output = run([*example, "--compare", str(kept)], environment)
    assert "largest difference" in output and "through the switch at" in output, output
    return output


def test_accelerate(tmp_path):
    require("accelerate")
    output = compared(torchrun("train_accelerate.py"), tmp_path / "gloo.json")
    assert "20 x all_reduce" in output, output


def test_accelerate_names_other_backends_on_gpus_only():
    require("accelerate")
    if torch.cuda.is_available():
        pytest.skip("a GPU: the example names the backend")
    program = (
        "import netfold.torch, accelerate\n"
        "try:\n"
        "    accelerate.Accelerator(cpu=True, kwargs_handlers=[accelerate.InitProcessGroupKwargs(backend='netfold')])\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    place = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    # If this fails, Accelerate takes the name by now: the example and docs/launchers.md can be simpler.
    assert "Your assigned backend netfold is not available" in run([sys.executable, "-c", program], place)


def test_megatron(tmp_path):
    require("megatron")
    output = compared(torchrun("train_megatron.py"), tmp_path / "gloo.json")
    assert "40 x all_reduce" in output, output
    scattered = [*torchrun("train_megatron.py"), "--distributed-optimizer"]
    output = compared(scattered, tmp_path / "scattered.json")
    assert "40 x all_gather" in output and "40 x reduce_scatter" in output, output


def test_lightning(tmp_path):
    require("lightning")
    output = compared(torchrun("train_lightning.py"), tmp_path / "gloo.json")
    assert " x all_reduce" in output, output


@pytest.mark.parametrize("stage, collectives", [(2, ("all_reduce", "all_gather")), (3, ("reduce_scatter", "all_gather"))])
def test_deepspeed(tmp_path, stage, collectives):
    require("deepspeed")
    if not torch.cuda.is_available() and (importlib.util.find_spec("ninja") is None or shutil.which("c++") is None):
        pytest.skip("DeepSpeed without a GPU compiles a module: no ninja, or no C++ compiler")
    accelerator = {} if torch.cuda.is_available() else {"DS_ACCELERATOR": "cpu"}
    example = [*torchrun("train_deepspeed.py"), "--stage", str(stage)]
    output = compared(example, tmp_path / "gloo.json", accelerator)
    for name in collectives:
        assert f" x {name}" in output, output


def test_ray_train(tmp_path):
    require("ray", "pandas", "pyarrow")
    # Ray listens at the machine's address, and leaves processes behind when it is killed: neither is outside of this.
    isolated = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    probe = subprocess.run([*isolated, "ip", "link", "set", "lo", "up"], capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(f"Ray: no namespaces: {probe.stderr.strip()}")
    within = [*isolated, "sh", "-c", 'ip link set lo up && exec "$0" "$@"']
    example = [*within, sys.executable, str(EXAMPLES / "train_ray.py")]
    output = compared(example, tmp_path / "gloo.json", {"RAY_USAGE_STATS_ENABLED": "0"})
    assert "2 workers on 2 nodes" in output and "20 x all_reduce" in output, output


@pytest.mark.parametrize(
    "reference, code",
    [([2.0, 1.0], 0), ([2.0, 1.000009], 0), ([2.0, 1.00002], 1), ([float("nan"), 1.0], 1), ([2.0, float("nan")], 1), ([2.0], 2)],
)
def test_the_examples_compare_every_loss(tmp_path, monkeypatch, reference, code):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    training = importlib.import_module("training")
    kept = tmp_path / "kept.json"
    kept.write_text(json.dumps(reference))
    options = argparse.Namespace(compare=kept, losses=None, backend="netfold", mode="bfp32")
    assert training.report(options, [2.0, 1.0], "") == code
