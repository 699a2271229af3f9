"""What only torch 2 has: FSDP2, DTensor, functional collectives, backends by device, and torchft. Skipped on torch 1.13; see
`pytest.rs` for how to run it on another interpreter."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from conftest import HERE, LIMIT, Processes, free_port, run_ranks

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


def test_calls_under_torchs_coalescing_manager():
    for outcome in run_ranks("coalescing"):
        assert outcome["switch"] == {"all_reduce": 2, "all_gather": 2, "reduce_scatter": 2}


@pytest.mark.parametrize("mode", ["bfp32", "bfp16"])
def test_the_example_of_hybrid_sharding_with_tensor_parallelism(mode):
    if not hasattr(pytest.importorskip("torch.distributed.fsdp"), "fully_shard"):
        pytest.skip("skipped: the example of hybrid sharding needs torch 2.6")
    launch = [sys.executable, "-m", "torch.distributed.run", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{free_port()}"]
    launch += ["--nproc-per-node", "4", str(HERE / "../examples/hsdp.py"), "--compare", "--mode", mode]
    done = subprocess.run(launch, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=2 * LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "largest difference" in done.stdout and "world: the switch at" in done.stdout, done.stdout
    for name in ("all_gather", "all_reduce", "reduce_scatter"):
        assert f"x {name}" in done.stdout, done.stdout


def test_a_group_continues_the_job_of_a_former_one_in_place():
    first, second = run_ranks("resized")
    assert first["generations"] == [1, 2, 3] and second["generations"] == [1, 3]
    assert first["again"] == second["again"] == 1


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
