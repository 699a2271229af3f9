"""netfold.jax under jit, ranks as processes."""

import pytest

from conftest import Processes, free_port

pytest.importorskip("jax")


def test_collectives_and_training_under_jit():
    environment = {"NETFOLD_TEST_RENDEZVOUS": f"127.0.0.1:{free_port()}", "JAX_PLATFORMS": "cpu"}
    outcomes = Processes("", 2, environment, program="jax_rank.py", forked=False).wait()
    for outcome in outcomes:
        assert outcome.code == 0, outcome.output
        assert outcome["error"] < 1e-3 and outcome["weights"] == outcomes[0]["weights"]
