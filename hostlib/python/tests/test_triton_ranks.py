"""Quantisation on devices with real ranks: interpreted kernels, over the embedded switch, against the same on the host."""

from __future__ import annotations

import json
import os

import pytest

from conftest import Processes, run_ranks

torch = pytest.importorskip("torch", reason="skipped: quantisation on devices, no torch")
pytest.importorskip("triton", reason="skipped: quantisation on devices, no triton (pip install triton)")
if not torch.distributed.is_available():
    pytest.skip("this torch has no distributed package", allow_module_level=True)

if os.environ.get("NETFOLD_TEST_TRITON") != "ranks":
    pytest.skip("skipped: ranks that quantise on devices, in minutes (NETFOLD_TEST_TRITON=ranks)", allow_module_level=True)

import netfold
from netfold.triton import interpreted

if not interpreted():
    pytest.skip("skipped: quantisation on devices, TRITON_INTERPRET was not set when triton was imported", allow_module_level=True)


def ranks(scenario, world=2, **environment):
    outcomes = Processes(scenario, world, environment, program="triton_ranks.py").wait()
    for rank, outcome in enumerate(outcomes):
        assert outcome.code == 0, f"rank {rank} of {scenario} ended with {outcome.code}:\n{outcome.output}"
    return outcomes


@pytest.mark.parametrize("mode, cases", [("bfp16", 42), ("bfp32", 14)])
@pytest.mark.parametrize("world", [2, 3])
def test_results_have_the_bits_of_the_host(mode, cases, world):
    for outcome in ranks("quantized", world, NETFOLD_MODE=mode):
        assert "switch" in outcome["path"] and outcome["cases"] == cases
        # Those without elements need no switch.
        assert outcome["switch"] >= cases * 6 // 7


@pytest.mark.parametrize("mode", ["bfp16", "bfp32"])
def test_many_in_flight_in_pieces(mode):
    ranks("in_flight", 2, NETFOLD_MODE=mode)


def test_blocks_are_what_packets_carry():
    with netfold.Switch(payload=256) as switch:
        ranks("in_flight", 2, NETFOLD_MODE="bfp16", NETFOLD_CONTROLLER=switch.address, NETFOLD_TEST_LANE_BYTES="256")


@pytest.mark.parametrize("mode", ["bfp16", "bfp32"])
def test_stochastic_rounding_has_the_bits_of_the_host(mode):
    for outcome in ranks("stochastic", 3, NETFOLD_MODE=mode):
        assert outcome["different"] > 0


@pytest.mark.parametrize("environment", [{"NETFOLD_MODE": "bfp16"}, {"NETFOLD_MODE": "bfp32"}, {"NETFOLD_MODE": "bfp16", "NETFOLD_ROUNDING": "stochastic"}])
def test_error_feedback_under_ddp_has_the_bits_of_the_host(environment):
    outcomes = ranks("feedback", 2, **environment)
    for outcome in outcomes:
        assert outcome["sum"] == outcomes[0]["sum"] and outcome["left"] > 0


def test_the_environment_chooses_the_device():
    outcomes = ranks("by_default_group", 2, NETFOLD_QUANTIZE="device", NETFOLD_MODE="bfp16")
    assert outcomes[0]["sum"] == outcomes[1]["sum"]


def test_a_confidential_group_quantises_on_the_device(tmp_path):
    key = tmp_path / "job.key"
    key.write_text("07" * 32)
    key.chmod(0o600)
    outcomes = ranks("by_default_group", 2, NETFOLD_QUANTIZE="device", NETFOLD_MODE="bfp16", NETFOLD_CONFIDENTIAL=str(key))
    assert outcomes[0]["sum"] == outcomes[1]["sum"]


def test_ranks_that_differ_get_errors():
    for outcome in ranks("differs", 2):
        assert outcome["error"].startswith("Mismatch"), outcome.values


def test_sums_in_shared_memory_have_the_bits_of_the_switch():
    by_place = [ranks("shared_memory", 3, NETFOLD_SHARED_MEMORY=shared, NETFOLD_MODE="bfp16") for shared in ("0", "1")]
    assert "switch" in by_place[0][0]["path"] and "shared memory" in by_place[1][0]["path"]
    assert len({tuple(outcome["bits"]) for outcomes in by_place for outcome in outcomes}) == 1


@pytest.mark.parametrize(
    "options, named",
    [
        ({"quantize": "gpu"}, "gpu"),
        ({"quantize": "device", "mode": "wide"}, "wide"),
        ({"quantize": "device", "tolerance": 0.1}, "tolerance"),
    ],
)
def test_options_that_do_not_fit_raise_on_every_rank(options, named):
    for outcome in run_ranks("invalid_options", 2, {"NETFOLD_TEST_OPTIONS": json.dumps(options)}):
        assert outcome["class"] == "netfold.ArgumentError" and named in outcome["message"], outcome.values
