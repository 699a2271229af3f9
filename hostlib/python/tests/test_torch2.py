"""What only torch 2 has: FSDP2, DTensor, functional collectives, backends by device, and torchft. Skipped on torch 1.13; see
`pytest.rs` for how to run it on another interpreter."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from conftest import Processes, free_port, run_ranks

torch = pytest.importorskip("torch")
if not torch.distributed.is_available() or not hasattr(torch._C._distributed_c10d, "Backend"):
    pytest.skip("needs torch 2", allow_module_level=True)


def test_a_backend_for_each_device():
    for outcome in run_ranks("devices"):
        assert "switch" in outcome["path"]


@pytest.mark.parametrize("mode, bound", [("bfp32", 1e-5), ("bfp16", 5e-3)])
def test_fully_sharded_training_equals_gloo(mode, bound):
    outcomes = run_ranks("fully_shard", 2, {"NETFOLD_MODE": mode})
    for outcome in outcomes:
        assert outcome["error"] <= bound and outcome["sum"] == outcomes[0]["sum"]


def test_distributed_tensors():
    run_ranks("dtensor")


def test_functional_collectives():
    run_ranks("functional")


def test_torchft_group_is_reconfigured():
    pytest.importorskip("torchft")
    first, second = run_ranks("torchft")
    assert first["failed"] and first["seconds"] < 20 and first["errored"] != "None" and second["done"]


def test_torchft_manager_goes_on_alone():
    pytest.importorskip("torchft")
    program = pathlib.Path(sys.executable).parent / "torchft_lighthouse"
    if not program.exists():
        pytest.skip("no lighthouse beside this interpreter")
    port = free_port()
    command = [str(program), "--bind", f"127.0.0.1:{port}", "--min_replicas", "1", "--join_timeout_ms", "1000"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as lighthouse:
        try:
            environment = {"TORCHFT_LIGHTHOUSE": f"http://127.0.0.1:{port}", "LOGLEVEL": "WARNING"}
            first = Processes("torchft_manager", 2, environment).wait()[0]
        finally:
            lighthouse.kill()
    assert first["participants"] == [1, 2] and first["alone"] == 1, first.output
