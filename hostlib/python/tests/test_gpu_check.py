"""``netfold-gpu-check``, as far as it goes without a GPU: what it says, its exit codes, and that nothing it starts outlives its limit."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import time

import pytest

from conftest import HERE, LIMIT
from netfold.gpu_check import __main__ as command
from netfold.gpu_check import _nccl
from netfold.gpu_check._children import Child, Failure, SwitchProcess, merged_reports, run_one, until, wait_all
from netfold.gpu_check._registry import Check, Context

NAMES = [check.name for check in command.checks()]

#: A torch that finds a GPU, without more than the examination uses.
TORCH = """
import types
class Tensor:
    def add_(self, other): return self
    def item(self): return 2.0
__version__ = "9.9.0"
version = types.SimpleNamespace(cuda="13.0", hip=None)
ones = lambda *_, **__: Tensor()
cuda = types.SimpleNamespace(
    is_available=lambda: AVAILABLE,
    device_count=lambda: 1,
    get_device_name=lambda _: "A GPU",
    nccl=types.SimpleNamespace(version=lambda: NCCL),
)
"""


def run(*arguments, path):
    """Runs the command; modules are searched for in ``path`` first."""
    env = {key: value for key, value in os.environ.items() if key != "NCCL_NET_PLUGIN"}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path), os.environ.get("PYTHONPATH")]))
    program = [sys.executable, "-m", "netfold.gpu_check", *arguments]
    return subprocess.run(program, env=env, cwd=path, capture_output=True, text=True, timeout=LIMIT)


def torch_of(available=True, nccl=(2, 28, 9)):
    return f"AVAILABLE = {available}\nNCCL = {nccl}\n{TORCH}"


@pytest.mark.parametrize(
    "torch, reason",
    [
        ("raise ImportError('not here')", "this Python has no torch (ImportError: not here)"),
        ("import os; os.abort()", "torch and the GPU could not be examined"),
        ("import time; time.sleep(1000)", "after 3 s"),
        (torch_of(available=False), "there is no GPU"),
        (torch_of(nccl=(2, 12, 10)), "NCCL 2.12.10 is older than 2.13"),
        (torch_of(), "there is no NCCL plugin at /absent.so: build it with `cargo build --release -p netfold-nccl`"),
    ],
)
def test_every_check_is_skipped_with_the_reason(tmp_path, torch, reason):
    (tmp_path / "torch.py").write_text(torch)
    limit = "3" if "sleep" in torch else str(LIMIT)
    # Where there is a GPU, its tensors need no NCCL.
    names = [name for name in NAMES if "NCCL" not in reason or name.startswith("nccl-")]
    only = [argument for name in names for argument in ("--only", name)]
    done = run("--timeout", limit, "--nccl-plugin", "/absent.so", "--json", "found.json", *only, path=tmp_path)
    assert (done.returncode, done.stderr) == (command.NOTHING_RAN, ""), done
    assert f"0 passed, 0 failed, {len(names)} skipped" in done.stdout, done.stdout
    for name in names:
        assert f"{name}: skipped: " in done.stdout, done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert [check["name"] for check in found["checks"]] == names
    assert all(check["outcome"] == "skipped" and reason in check["reason"] for check in found["checks"]), found


def test_list_help_and_wrong_usage(tmp_path):
    listed = run("--list", path=tmp_path)
    assert listed.returncode == 0 and [line.split()[0] for line in listed.stdout.splitlines()] == NAMES
    helped = run("--help", path=tmp_path)
    assert helped.returncode == 0
    for word in ("--only", "--list", "--json", "--logs", "--timeout", "--nccl-plugin", "exit codes:", "examples:"):
        assert word in helped.stdout, word
    for wrong in (["--only", "other"], ["--json", "absent/file"], ["--timeout", "0"], ["--timeout", "soon"], ["argument"]):
        done = run(*wrong, path=tmp_path)
        assert (done.returncode, done.stdout) == (command.USAGE, ""), done


CHILD = """
import sys
import time
from netfold.gpu_check._children import end_with_parent
end_with_parent()
print("RESULT {}", flush=True)
time.sleep(1000)
"""

PARENT = """
import pathlib, sys, time
from netfold.gpu_check._children import Child
child = Child([sys.executable, "-c", sys.argv[1]], pathlib.Path("output"))
while not child.reports():
    time.sleep(0.05)
print(child._process.pid, flush=True)
time.sleep(1000)
"""


def runs(pid):
    """Whether a process runs; one that has ended may wait for its new parent."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_command_that_is_killed_leaves_no_child(tmp_path):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, CHILD], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    assert runs(child)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + LIMIT
    while runs(child):
        assert time.monotonic() < deadline, "the child still runs"
        time.sleep(0.05)


def test_the_page_has_all_checks_options_and_codes(tmp_path):
    page = (pathlib.Path(__file__).parents[3] / "docs" / "gpu-check.md").read_text()
    assert re.findall(r"(?m)^\| `([a-z]+-[a-z-]+)` \|", page) == NAMES
    options = re.findall(r"(?m)^  (--[a-z-]+)", run("--help", path=tmp_path).stdout)
    assert sorted(re.findall(r"(?m)^\| `(--[a-z-]+)", page)) == sorted(options) and len(options) == 6
    codes = [command.PASSED, command.FAILED, command.USAGE, command.NOTHING_RAN, command.INTERRUPTED]
    assert [int(code) for code in re.findall(r"(?m)^\| (\d+) \|", page)] == codes


def check(name, figures=None, failure=None, missing=None):
    def body(_):
        if failure is not None:
            raise failure
        return figures or {}

    return Check(name, "a check", lambda _: missing, body)


@pytest.mark.parametrize(
    "checks, code, words",
    [
        ([check("a", {"rate_gbps": 1.23456})], command.PASSED, ["a", "passed", "rate_gbps 1.235", "1 passed, 0 failed, 0 skipped"]),
        ([check("a"), check("b", failure=Failure("it is\nlate"))], command.FAILED, ["b: failed", "late", "1 passed, 1 failed"]),
        ([check("a"), check("b", failure=FileNotFoundError("gone"))], command.FAILED, ["FileNotFoundError: gone"]),
        ([check("a"), check("b", missing="no tape")], command.PASSED, ["b: skipped: no tape", "1 passed, 0 failed, 1 skipped"]),
        ([check("a", missing="no tape")], command.NOTHING_RAN, ["0 passed, 0 failed, 1 skipped"]),
    ],
)
def test_the_exit_code_is_that_of_what_ran(monkeypatch, capsys, checks, code, words):
    monkeypatch.setattr(command, "checks", lambda: checks)
    monkeypatch.setattr(Context, "machine", type("Machine", (), {"describe": lambda _: "nothing", "facts": {}})())
    assert command.main([]) == code
    printed = capsys.readouterr().out
    for word in words:
        assert word in printed, printed


def test_a_child_that_hangs_is_killed_with_what_it_started(tmp_path):
    program = "import subprocess, sys, time; print(subprocess.Popen(['sleep', '1000']).pid, flush=True); time.sleep(1000)"
    child = Child([sys.executable, "-c", program], tmp_path / "output")
    until(lambda: child.text().endswith("\n"), [child], LIMIT, "the start of its child")
    with pytest.raises(Failure, match="after 0.5 s, the program did not end"):
        wait_all([child], 0.5, lambda _: "the program")
    assert child.code == -9
    grandchild = int(child.text())
    deadline = time.monotonic() + LIMIT
    while os.path.exists(f"/proc/{grandchild}") and "Z" not in open(f"/proc/{grandchild}/stat").read().rsplit(")", 1)[1]:
        assert time.monotonic() < deadline, "it is still running"
        time.sleep(0.01)


def test_a_failed_child_shows_its_last_lines(tmp_path):
    with pytest.raises(Failure, match="(?s)the program ended with exit code 3; the end of its output:.*no such tape"):
        run_one([sys.executable, "-c", "print('no such tape'); raise SystemExit(3)"], LIMIT, "the program")
    with pytest.raises(Failure, match="without output"):
        run_one([sys.executable, "-c", "pass"], LIMIT, "the program")
    quick = Child([sys.executable, "-c", "raise SystemExit(1)"], tmp_path / "quick")
    slow = Child(["sleep", "1000"], tmp_path / "slow")
    with pytest.raises(Failure, match="rank 0 ended with exit code 1"):
        wait_all([quick, slow], LIMIT, lambda rank: f"rank {rank}")
    assert slow.code == -9


def test_the_switch_of_the_checks_has_counters(tmp_path):
    with SwitchProcess(tmp_path) as switch:
        assert switch.address.startswith("127.0.0.1:") and switch.counters()["packets_in"] == 0
        switch.kill()


#: What NCCL 2.28.9 and the plugin logged on a GPU.
LOG = """\
vm:826:826 [0] NCCL INFO NCCL version 2.28.9+cuda13.0
vm:826:826 [0] NCCL INFO NET/Plugin: Loaded net plugin netfold (v11)
vm:826:826 [0] NCCL INFO NET/Plugin: Loaded collnet plugin netfold (v11)
vm:826:826 [0] NCCL INFO Using network netfold
vm:826:894 [0] NCCL INFO NETFOLD CollNet of 2 ranks uses the switch at 127.0.0.1:56654, mode bfp32
vm:826:826 [0] NCCL INFO Connected Collnet Chains  [0] -1->0->2 [1] -1->0->2
"""


def test_the_log_says_whether_nccl_uses_the_plugin():
    assert _nccl.Run([{}, {}], [LOG, LOG], {}).switch() == "the switch at 127.0.0.1:56654"
    own = LOG.replace("Using network netfold", "Using network Socket")
    with pytest.raises(Failure, match="did not load the plugin on rank 1"):
        _nccl.Run([{}, {}], [LOG, own], {}).switch()
    ring = LOG.replace("uses the switch at 127.0.0.1:56654", "uses a ring of 2 hosts over TCP")
    with pytest.raises(Failure, match="no CollNet group on rank 0"):
        _nccl.Run([{}, {}], [ring, LOG], {}).switch()


def test_ranks_get_the_variables_of_the_check_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("NCCL_ALGO", "ring")
    monkeypatch.setenv("NETFOLD_MODE", "bfp16")
    first, second = (_nccl.environment(rank, tmp_path, _nccl.own_network()) for rank in range(2))
    assert "NCCL_ALGO" not in first and "NETFOLD_MODE" not in first and first["NCCL_NET_PLUGIN"] == "none"
    assert first["NCCL_HOSTID"] != second["NCCL_HOSTID"] and first["PATH"] == os.environ["PATH"]


GLOO = {"device": "cpu", "backend": "gloo", "average": False, "all_to_all": False, "counts": [1, 353, 5_000], "steps": 4}


@pytest.mark.parametrize("scenario", ["all_reduce", "messages", "train", "lose_switch"])
def test_what_the_ranks_do_runs_on_processors(tmp_path, scenario):
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available() or not hasattr(torch._C._distributed_c10d, "Backend"):
        pytest.skip("needs torch 2")
    killed = tmp_path / "killed"
    killed.touch()
    options = {**GLOO, "store": str(tmp_path / "store"), "killed": str(killed), "rate_sizes": [8], "count": 1_000}
    program = [sys.executable, "-m", "netfold.gpu_check._ranks", scenario, json.dumps(options)]
    env = {**os.environ, "WORLD_SIZE": "2"}
    children = [Child(program, tmp_path / f"{rank}", {**env, "RANK": str(rank)}) for rank in range(2)]
    wait_all(children, LIMIT, lambda rank: f"rank {rank}")
    for child in children:
        values = {key: value for report in child.reports() for key, value in report.items()}
        assert values.get("wrong", 0) == 0, values
        if scenario == "train":
            assert len(values["ddp"]) == 4 and values["ddp"] == pytest.approx(values.get("fsdp2", values["ddp"]), rel=1e-4)


# Few exponents in each block: test_triton.py has them all, and the interpreter takes its time.
QUANTIZED = {"worlds": [5], "near": 3, "elements": [1, 705], "counts": [1, 705], "steps": 3, "width": 24, "sizes": [4096], "rounds": 1}


@pytest.mark.parametrize("scenario", ["kernels", "reductions", "quantize_rates"])
def test_what_the_ranks_quantise_runs_on_processors(tmp_path, scenario):
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton", reason="skipped: the checks of quantisation, no triton (pip install triton)")
    if not torch.distributed.is_available():
        pytest.skip("this torch has no distributed package")
    program = [sys.executable, str(HERE / "triton_check.py"), scenario]
    with SwitchProcess(tmp_path) as switch:
        options = {**GLOO, **QUANTIZED, "store": str(tmp_path / "store")}
        env = {**os.environ, "WORLD_SIZE": "2", "NETFOLD_CONTROLLER": switch.address, "NETFOLD_SHARED_MEMORY": "0", "TRITON_INTERPRET": "1"}
        commands = [[*program, json.dumps(options)]] * 2
        children = [Child(each, tmp_path / f"{rank}", {**env, "RANK": str(rank)}) for rank, each in enumerate(commands)]
        wait_all(children, 3 * LIMIT, lambda rank: f"rank {rank}")
    first, _ = merged_reports(children)
    if scenario == "quantize_rates":
        assert set(first) == {"copy", "torch_copy", "exponents", "quantize", "stochastic", "feedback", "dequantize"}
        assert all(rate > 0 for values in first.values() for _, rate in values)
    else:
        assert first["wrong"] == 0 and first["cases"] > 15 and not first["failed"], first
    if scenario == "reductions":
        assert first["feedback"] == pytest.approx(first["plain"], rel=2e-2)


FAKE = os.environ.get("NETFOLD_FAKE_CUDA")


@pytest.mark.skipif(FAKE is None, reason="NETFOLD_FAKE_CUDA does not name the fake driver")
def test_what_the_ranks_do_with_the_librarys_kernels_runs_on_processors(tmp_path):
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("this torch has no distributed package")
    with SwitchProcess(tmp_path) as switch:
        options = {**GLOO, **QUANTIZED, "store": str(tmp_path / "store")}
        program = [sys.executable, "-m", "netfold.gpu_check._library_ranks", "library_reductions", json.dumps(options)]
        env = {**os.environ, "WORLD_SIZE": "2", "NETFOLD_CONTROLLER": switch.address, "NETFOLD_CUDA_LIBRARY": FAKE}
        children = [Child(program, tmp_path / f"{rank}", {**env, "RANK": str(rank)}) for rank in range(2)]
        wait_all(children, LIMIT, lambda rank: f"rank {rank}")
    first, _ = merged_reports(children)
    assert first["wrong"] == 0 and first["cases"] > 15 and not first["failed"], first


FINDS = """
import torch
from netfold.gpu_check import _ranks
for dtype in (torch.float32, torch.bfloat16, torch.int8):
    inputs = [_ranks.contribution(dtype, 1_000, rank) for rank in range(2)]
    assert not torch.equal(*inputs)
    right = inputs[0] + inputs[1]
    assert _ranks.wrong_elements(right, inputs, "SUM")[0] == 0, dtype
    for wrong in ([float("nan"), float("inf")] if dtype.is_floating_point else []) + [right[7] + 1]:
        spoilt = right.clone()
        spoilt[7] = wrong
        assert _ranks.wrong_elements(spoilt, inputs, "SUM")[0] == 1, (dtype, wrong)
    assert _ranks.wrong_elements(right, inputs, "MAX")[0] > 900
print("RESULT {}")
"""


def test_a_single_wrong_element_is_found(monkeypatch):
    pytest.importorskip("torch")
    for name, value in {"RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    run_one([sys.executable, "-c", FINDS, "-", json.dumps(GLOO)], LIMIT, "the comparison")
