"""What Slurm's variables mean, and a training that ``srun`` starts on two nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import netfold
from conftest import HERE, LIMIT
from netfold import slurm

#: Of the third of three tasks of ``srun -N2 -n3``, as Slurm 22.05 sets them.
TASK = {
    "SLURM_JOB_ID": "17",
    "SLURM_STEP_ID": "2",
    "SLURM_PROCID": "2",
    "SLURM_NTASKS": "3",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2,1",
    "SLURM_STEP_NODELIST": "localhost,node[07-08]",
    "SLURM_JOB_NODELIST": "other[1-3]",
}
TORCH = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")


@pytest.fixture
def task(monkeypatch):
    """The environment of a task, without what launches this test."""
    for name in list(os.environ):
        if name.startswith(("SLURM", "OMPI_", "PMI")):
            monkeypatch.delenv(name)
    for name in TORCH:
        # Set first, so that what the test exports is removed after it.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name, value in TASK.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


def test_a_task_knows_its_place(task):
    assert slurm.step() == slurm.Step(2, 3, 0, 1, 1, 17, 2, "localhost")
    exported = slurm.export()
    assert exported == slurm.step()
    assert {name: os.environ[name] for name in TORCH} == {
        "RANK": "2",
        "WORLD_SIZE": "3",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": "1",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(10_240 + 17 * 16 + 2),
    }
    # torch's place in this process is the task's.
    assert netfold._environment.place(None, None) == (2, 3)


@pytest.mark.parametrize(
    "nodes, first",
    [
        ("node7", "node7"),
        ("node7,node9", "node7"),
        ("node[03-07,11],login", "node03"),
        ("rack[1-2]node[0,4-5]", "rack1node0"),
        ("gpu-[8]-a.example", "gpu-8-a.example"),
    ],
)
def test_the_first_node_of_a_list(nodes, first):
    assert slurm.first_node(nodes) == first


@pytest.mark.parametrize("nodes", ["", ",", "[", "node[", "node[a-b]", "node[]", "a b", "-node", "node[1]]", "n;m", "[" * 10_000])
def test_lists_that_are_none_are_refused(nodes):
    with pytest.raises(netfold.ArgumentError, match="MASTER_ADDR"):
        slurm.first_node(nodes)


@pytest.mark.parametrize(
    "name, value",
    [
        ("SLURM_PROCID", "3"),
        ("SLURM_PROCID", "-1"),
        ("SLURM_PROCID", "two"),
        ("SLURM_NTASKS", "0"),
        ("SLURM_NTASKS", None),
        ("SLURM_NODEID", None),
        ("SLURM_NODEID", "2"),
        ("SLURM_NODEID", "-1"),
        ("SLURM_LOCALID", "1"),
        ("SLURM_JOB_ID", ""),
        ("SLURM_JOB_ID", "9" * 40),
        ("SLURM_STEP_ID", "0x2"),
        ("SLURM_STEP_TASKS_PER_NODE", "2(x"),
        ("SLURM_STEP_TASKS_PER_NODE", None),
        ("SLURM_STEP_NODELIST", "no node"),
    ],
)
def test_other_values_are_refused_before_anything_is_set(task, name, value):
    if value is None:
        task.delenv(name)
    else:
        task.setenv(name, value)
    with pytest.raises(netfold.ArgumentError):
        slurm.export()
    assert not any(name in os.environ for name in TORCH)


def test_a_name_without_an_address_is_refused_at_once(task):
    task.setenv("SLURM_STEP_NODELIST", "no-such-node.invalid")
    with pytest.raises(netfold.ArgumentError, match="no-such-node.invalid.*MASTER_ADDR"):
        slurm.export()
    task.setenv("MASTER_ADDR", "127.0.0.1")
    assert slurm.export() is not None and os.environ["MASTER_ADDR"] == "127.0.0.1"


def test_what_is_no_task_or_has_its_place_is_left_alone(task):
    with task.context() as context:  # a batch script
        context.delenv("SLURM_STEP_ID")
        assert slurm.step() is None and slurm.export() is None
        with pytest.raises(netfold.ArgumentError, match="srun"):
            slurm.rendezvous()
    with task.context() as context:  # a rank of mpirun, whose daemon is the task
        context.setenv("OMPI_COMM_WORLD_RANK", "5")
        context.setenv("OMPI_COMM_WORLD_SIZE", "8")
        assert slurm.step() is None
    with task.context() as context:  # Slurm's own PMI
        context.setenv("PMI_RANK", "2")
        context.setenv("PMI_SIZE", "3")
        assert slurm.step() is not None
    with task.context() as context:  # a rank of torchrun in a step
        context.setenv("RANK", "0")
        assert slurm.export() is None and "MASTER_ADDR" not in os.environ
    assert "WORLD_SIZE" not in os.environ


def test_ports_of_jobs_and_of_steps_differ(task):
    found = set()
    for job in range(300):
        for step in range(16):
            task.setenv("SLURM_JOB_ID", str(job))
            task.setenv("SLURM_STEP_ID", str(step))
            placed = slurm.step()
            found |= {placed.port, int(slurm.rendezvous().rsplit(":", 1)[1])}
    # Twice as many as there are steps, and none of those of switches and controllers.
    assert len(found) == 2 * 300 * 16 and min(found) >= 10_240 and max(found) < 20_000


def srun(*commands: str) -> str:
    """Runs commands at a cluster of two nodes; what they print."""
    launch = [sys.executable, str(HERE / "slurm_cluster.py"), "--", "sh", "-e", "-c", "\n".join(commands)]
    done = subprocess.run(launch, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=5 * LIMIT)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip().removeprefix("skipped: "))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_srun_trains_on_two_nodes_with_the_losses_of_gloo(tmp_path):
    pytest.importorskip("torch")
    example = f"srun -N2 -n4 {sys.executable} {HERE}/../examples/train_slurm.py"
    kept = tmp_path / "gloo.json"
    output = srun(
        f"{example} --backend gloo --losses {kept}",
        f"{example} --compare {kept}",
        f"{example} --compare {kept} --mode bfp16",
    )
    assert len(json.loads(kept.read_text())) == 20
    for rank in range(4):
        assert output.count(f"rank {rank} of 4 on node{rank // 2}, the store on node0:") == 3, output
    assert output.count("20 x all_reduce") == 2 and output.count("through the switch at 10.77.0.2:") == 2, output
    assert output.count("largest difference") == 2, output


def test_communicators_of_a_step_find_each_other(tmp_path):
    program = tmp_path / "rank.py"
    program.write_text(
        "import netfold, netfold.slurm\n"
        "with netfold.Communicator(rendezvous=netfold.slurm.rendezvous(), join_timeout=60.0) as comm:\n"
        "    total = bytearray(comm.rank.to_bytes(4, 'little'))\n"
        "    comm.all_reduce(total, dtype='i32')\n"
        "    print(comm.rank, comm.world_size, int.from_bytes(total, 'little'))\n"
    )
    output = srun(f"srun -N2 -n3 {sys.executable} {program}")
    assert sorted(output.split("\n")[:-1]) == ["0 3 3", "1 3 3", "2 3 3"], output
