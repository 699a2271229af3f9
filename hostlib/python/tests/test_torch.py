"""netfold.torch with real ranks: processes on loopback, a real torch, DDP as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from conftest import HERE, LIMIT, Processes, free_port, run_ranks

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this torch has no distributed package", allow_module_level=True)

MODERN = hasattr(torch._C._distributed_c10d, "Backend")


@pytest.mark.parametrize("mode", ["bfp32", "bfp16"])
def test_all_reduce_of_every_type(mode):
    for outcome in run_ranks("all_reduce", 2, {"NETFOLD_MODE": mode}):
        assert "switch" in outcome["path"]


def test_every_other_operation():
    run_ranks("everything_else", 3)


def test_every_operation_through_shared_memory():
    run_ranks("everything_else", 3, {"NETFOLD_SHARED_MEMORY": "1"})


def test_groups_of_some_ranks():
    outcomes = run_ranks("groups", 3)
    assert [len(outcome["paths"]) for outcome in outcomes] == [1, 2, 1]


def test_groups_one_after_the_other():
    run_ranks("again", 2)


@pytest.mark.parametrize("mode, bound", [("bfp32", 1e-5), ("bfp16", 5e-3)])
def test_ddp_trains_as_over_gloo(mode, bound):
    outcomes = run_ranks("ddp", 4, {"NETFOLD_MODE": mode})
    for outcome in outcomes:
        assert outcome["ddp"] <= bound and outcome["hook"] <= bound
        assert outcome["sum"] == outcomes[0]["sum"], "models differ between ranks"


def test_ddp_with_error_feedback():
    environment = {"NETFOLD_MODE": "bfp16", "NETFOLD_ERROR_FEEDBACK": "1"}
    for extra in [{}, {"NETFOLD_ROUNDING": "stochastic", "NETFOLD_SEED": "3"}]:
        for outcome in run_ranks("feedback", 2, {**environment, **extra}):
            # A hundred steps of a thousandth each, but for one quantum that is still left.
            assert -0.11 < outcome["least"] and outcome["most"] < -0.09, outcome.values
            assert outcome["plain"] == 0 or extra, "alone, they vanish"
            assert outcome["buckets"] > 1 and outcome["kept"] == outcome["parameters"], outcome.values
            assert outcome["left"] and "float32" in outcome["refused"]


@pytest.mark.parametrize("error_feedback", ["0", "1"])
def test_ddp_where_gradients_may_be_missing(error_feedback):
    switch = os.environ.get("NETFOLD_TEST_TRIMMING")
    if switch is None:
        pytest.skip("no NETFOLD_TEST_TRIMMING: run by cargo test -p netfold-python")
    environment = {"NETFOLD_TOLERANCE": "0.2", "NETFOLD_ERROR_FEEDBACK": error_feedback, "NETFOLD_SLOTS": "64"}
    outcomes = run_ranks("tolerance", 3, {**environment, "NETFOLD_TEST_SWITCH": switch})
    for outcome in outcomes:
        assert outcome["sum"] == outcomes[0]["sum"], "models differ between ranks"
        assert outcome["partial"] == outcomes[0]["partial"] > 0
        assert 0 < outcome["left_out"] <= outcome["chunks"] / 5
        assert outcome["exact"] == 0, "a hook of its own tolerance"
        assert outcome["last"] < outcome["first"], "it learns"


def test_operations_of_a_sharded_model_are_told_apart_by_their_order():
    from netfold.torch._order import Order

    order = Order(4)
    for iteration in range(3):
        assert [order.gather() for _ in range(5)] == [3] * 5
        found = []
        for layer in range(5):
            if layer < 4:
                order.gather()
            found.append(order.scatter())
        # The first iteration knows nothing of the last one yet.
        assert found == [0, 1, 2, 2, 3 if iteration else 2]
    assert {Order(1).gather(), Order(1).scatter()} == {0}


def test_a_confidential_group_trains_and_leaves_nothing_to_gloo(tmp_path):
    key = tmp_path / "job.key"
    key.write_text("07" * 32)
    key.chmod(0o600)
    outcomes = run_ranks("confidential", 2, {"NETFOLD_CONFIDENTIAL": str(key)})
    for outcome in outcomes:
        assert outcome["sum"] == outcomes[0]["sum"] and outcome["gloo"] == {}, outcome.values
        assert "cannot do scatter" in outcome["refused"]


def test_zero_redundancy_optimizer():
    outcomes = run_ranks("zero", 2)
    assert outcomes[0]["sum"] == outcomes[1]["sum"]


@pytest.mark.parametrize("shared_memory", ["0", "1"])
def test_tensors_of_any_layout(shared_memory):
    for outcome in run_ranks("layouts", 3, {"NETFOLD_SHARED_MEMORY": shared_memory}):
        assert "share memory" in outcome["refused"]


def test_several_tensors_in_one_call():
    for outcome in run_ranks("coalesced", 3):
        # Three of floats and three of integers; doubles are summed by the hosts.
        assert outcome["switch"] == {"all_reduce": 6, "all_gather": 6, "reduce_scatter": 3}


def test_elements_of_every_type_are_moved():
    for outcome in run_ranks("moved", 3):
        assert outcome["counts"]["switch"]["broadcast"] >= 7 and outcome["counts"]["switch"]["all_gather"] >= 7


def test_what_a_rank_waits_for_is_named():
    first, _ = run_ranks("waiting")
    (line,) = first["lines"]
    assert line.startswith("rank 0 of 2 of group") and "all_reduce of 7 x float32, call 2 of the group" in line, line
    assert "the switch at" in line, line


@pytest.mark.parametrize("environment", [{}, {"NETFOLD_SHARED_MEMORY": "1"}, {"NETFOLD_CONTROLLER": "127.0.0.1:1"}])
def test_ranks_may_end_as_soon_as_they_are_done(environment):
    run_ranks("leave_early", 3, environment)


def test_other_shapes_raise_on_every_rank():
    for outcome in run_ranks("mismatch", 3):
        assert "rank" in outcome["error"] and outcome["seconds"] < 20
        assert outcome["later"]


def test_calls_out_of_order_raise_under_ddp():
    for outcome in run_ranks("mismatch_ddp", 2):
        assert "submitted" in outcome["error"]


def test_use_after_shutdown_raises():
    for outcome in run_ranks("closed"):
        assert "make a new one" in outcome["error"]


def test_abort_from_another_thread():
    first, second = run_ranks("aborted", 2)
    assert first["seconds"] < 15 and first["later"] and second["error"]
    if MODERN:
        assert "SUCCESS" not in first["code"]


@pytest.mark.parametrize("shared_memory", ["0", "1"])
def test_a_rank_that_is_killed_under_ddp(tmp_path, shared_memory):
    environment = {"NETFOLD_TEST_FILE": str(tmp_path / "port"), "NETFOLD_SHARED_MEMORY": shared_memory}
    processes = Processes("rank_death", 3, environment)
    outcomes = processes.wait()
    assert outcomes[2].code == -9
    for outcome in outcomes[:2]:
        assert outcome.code == 0, outcome.output
        assert outcome["step"] == 5 and outcome["seconds"] < 20 and outcome["again"] is True
        assert "rank 2" in outcome["error"]
    assert outcomes[0]["sum"] == outcomes[1]["sum"]


SWITCH = "import netfold, sys; switch = netfold.Switch(); print(switch.address, flush=True); sys.stdin.read()"


def test_a_switch_that_is_killed_under_ddp(tmp_path):
    with subprocess.Popen([sys.executable, "-c", SWITCH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as switch:
        try:
            environment = {
                "NETFOLD_CONTROLLER": switch.stdout.readline().strip(),
                "NETFOLD_TEST_SWITCH_PID": str(switch.pid),
                "NETFOLD_TEST_FILE": str(tmp_path / "port"),
            }
            outcomes = Processes("switch_death", 3, environment).wait()
        finally:
            switch.kill()
    for outcome in outcomes:
        assert outcome.code == 0, outcome.output
        assert environment["NETFOLD_CONTROLLER"] in outcome["path"]
        assert outcome["seconds"] < 30 and outcome["slowest"] < 30 and outcome["again"] is True
        # Finished otherwise, or an exception: the same on every rank, and never another result.
        assert outcome["went_on"] == outcomes[0]["went_on"]
        assert outcome["sum"] == outcomes[0]["sum"]


def test_without_a_switch_all_ranks_go_on_and_say_why():
    outcomes = run_ranks("no_switch", 3, {"NETFOLD_CONTROLLER": "127.0.0.1:1"})
    paths = {outcome["path"] for outcome in outcomes}
    assert len(paths) == 1 and "127.0.0.1:1" in paths.pop()


def test_without_a_switch_all_ranks_raise_when_told_to():
    for outcome in run_ranks("no_switch_strict", 2, {"NETFOLD_CONTROLLER": "127.0.0.1:1", "NETFOLD_FALL_BACK": "0"}):
        assert "127.0.0.1:1" in outcome["error"]


@pytest.mark.parametrize(
    "options, named",
    [({"mode": "fp8"}, "fp8"), ({"slots": 100}, "100"), ({"rounding": "up"}, "up"), ({"tolerance": 2.0}, "2")],
)
def test_invalid_options_raise_on_every_rank(options, named):
    for outcome in run_ranks("invalid_options", 2, {"NETFOLD_TEST_OPTIONS": json.dumps(options)}):
        assert outcome["class"] == "netfold.ArgumentError", outcome.values
        assert named in outcome["message"], outcome.values


def test_quantisation_on_the_device_without_triton_raises_on_every_rank(tmp_path):
    (tmp_path / "triton.py").write_text("raise ImportError('not here')")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    environment = {"NETFOLD_TEST_OPTIONS": json.dumps({"quantize": "device"}), "PYTHONPATH": path}
    for outcome in Processes("invalid_options", 2, environment, forked=False).wait():
        assert outcome["class"] == "netfold.ArgumentError" and "not here" in outcome["message"], outcome.values


@pytest.mark.parametrize("shared_memory, reason", [("1", "all 2 ranks are on one host"), ("0", "cannot reach")])
def test_a_configured_controller_that_is_not_used_is_a_warning(shared_memory, reason):
    environment = {"NETFOLD_CONTROLLER": "127.0.0.1:1", "NETFOLD_SHARED_MEMORY": shared_memory}
    first, second = run_ranks("no_switch", 2, environment)
    warnings = [line for line in first.output.splitlines() if "is not used" in line]
    assert len(warnings) == 1 and "controller 127.0.0.1:1" in warnings[0] and reason in warnings[0], first.output
    assert "is not used" not in second.output, "rank 0 alone warns"


def test_without_a_configured_switch_nothing_is_unused():
    for outcome in run_ranks("no_switch", 2, {"NETFOLD_SHARED_MEMORY": "1"}):
        assert "is not used" not in outcome.output


def test_the_example_trains_alike_over_both():
    processes = Processes("--no-speed --epochs 6", 2, {"NETFOLD_SHARED_MEMORY": "1"}, program="../examples/ddp.py")
    first, second = processes.wait()
    assert (first.code, second.code) == (0, 0), first.output + second.output
    assert "netfold: bfp16, the switch at" in first.output, first.output
    last = [line for line in first.output.splitlines() if line.strip().startswith("6 ")][0].split()
    gloo, netfold_ = float(last[2]), float(last[5])
    assert min(gloo, netfold_) > 85 and abs(gloo - netfold_) < 3, first.output


def test_forked_data_loaders():
    for outcome in run_ranks("fork_workers"):
        assert outcome["done"]


def test_torchrun_restarts_a_job(tmp_path):
    # Not --standalone, which takes the port 29400 in torch 1.13.
    meeting = ["--rdzv_backend", "c10d", "--rdzv_endpoint", f"localhost:{free_port()}", "--rdzv_id", "restarts"]
    launch = [sys.executable, "-m", "torch.distributed.run", *meeting, "--nproc_per_node", "2", "--max_restarts", "1"]
    # torch 1.13 needs both to be named under Python 3.11.
    launch += ["--redirects", "2", "--tee", "1", "--log_dir", str(tmp_path), str(HERE / "torch_ranks.py"), "elastic"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "NETFOLD_SHARED_MEMORY": "0"}
    done = subprocess.run(launch, env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("attempt 1 is done") == 2 and "attempt 0 is done" not in done.stdout, done.stdout
