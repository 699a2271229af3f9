"""netfold.jax under jit, ranks as processes."""

import os
import subprocess
import sys

import pytest

import netfold
from conftest import HERE, LIMIT, Processes, free_port

pytest.importorskip("jax")


def test_collectives_and_training_under_jit():
    check_training({})


def test_the_same_by_callbacks():
    check_training({"NETFOLD_JAX_FFI": "0"})


def check_training(settings):
    environment = {"NETFOLD_TEST_RENDEZVOUS": f"127.0.0.1:{free_port()}", "JAX_PLATFORMS": "cpu", **settings}
    outcomes = Processes("", 2, environment, program="jax_rank.py", forked=False).wait()
    for outcome in outcomes:
        assert outcome.code == 0, outcome.output
        assert outcome["error"] < 1e-3 and outcome["weights"] == outcomes[0]["weights"]


def scenario(name, **settings):
    """The outcomes of two ranks of a scenario of ``jax_xla_ranks.py``."""
    if (missing := xla_missing()) is not None:
        pytest.skip(f"calls from XLA: this JAX has no {missing}")
    with netfold.Switch() as switch:
        environment = {"NETFOLD_TEST_SWITCH": switch.address, "JAX_PLATFORMS": "cpu", **settings}
        outcomes = Processes(name, 2, environment, program="jax_xla_ranks.py", forked=False).wait()
    for outcome in outcomes:
        assert outcome.code == 0, outcome.output
    return outcomes


def xla_missing():
    """What JAX lacks for calls from XLA, asked of another process: this one may have no JAX in it, which starts threads."""
    program = "import jax, netfold._xla as xla; print(jax.__version_info__ < (0, 6), xla.missing, sep=chr(10))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})
    assert done.returncode == 0, done.stderr
    old, missing = done.stdout.split("\n", 2)[:2]
    # A later version must have it, or this package must learn of its changes.
    assert not missing or old == "True", missing
    return missing or None


def test_programs_of_xla_call_the_library_in_order():
    for outcome in scenario("programs"):
        assert "switch" in outcome["path"]


def test_the_memory_of_donated_arrays_is_used():
    scenario("donated")


def test_devices_of_a_process_are_ranks_under_shard_map():
    scenario("sharded")


def test_calls_that_cannot_be_executed_are_errors_of_all_ranks():
    expected = ["element type", "median", "rank 2", "equal parts", "one for each local device", "closed", "Closed"]
    for outcome in scenario("refused"):
        for text, part in zip(outcome["texts"], expected, strict=True):
            assert part in text, outcome["texts"]


def test_a_lost_rank_is_an_error_of_the_call():
    first, _ = scenario("lost")
    assert "peer_lost" in first["text"] and "rank 1" in first["text"]


@pytest.mark.parametrize("mode, bound", [("bfp32", "1e-05"), ("bfp16", "5e-03")])
def test_the_example_has_the_losses_of_one_process(mode, bound):
    with netfold.Switch() as switch:
        options = ["--switch", switch.address, "--rendezvous", f"127.0.0.1:{free_port()}", "--compare", "--mode", mode]
        command = [sys.executable, str(HERE / "../examples/jax_regression.py"), *options]
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "WORLD_SIZE": "2"}
        ranks = [
            subprocess.Popen(command, env={**environment, "RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for rank in range(2)
        ]
        outputs = [rank.communicate(timeout=LIMIT)[0] for rank in ranks]
    for rank, output in zip(ranks, outputs):
        assert rank.returncode == 0, output
    assert f"bound of {mode}: {bound}" in outputs[0] and "over the switch at" in outputs[0], outputs[0]
