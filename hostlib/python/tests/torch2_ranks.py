"""What a rank does in the tests that need torch 2. Started by `torch_ranks.py`, whose names it uses."""

import datetime
import os
import threading
import time

import torch
import torch.distributed as dist
from torch_ranks import RANK, WORLD, batch, network, report, start

import netfold
import netfold.torch


def devices():
    """A group with a backend for each kind of device."""
    start("cpu:netfold,cuda:gloo")
    tensor = torch.ones(100)
    dist.all_reduce(tensor)
    assert (tensor == WORLD).all()
    report(path=netfold.torch.path(), backend=dist.get_backend())


def fully_shard():
    """FSDP2 over netfold trains what it trains over gloo."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard as shard

    start()
    results = []
    for backend in ("netfold", "gloo"):
        mesh = init_device_mesh("cpu", (WORLD,)) if backend == "netfold" else None
        if backend == "gloo":
            mesh = dist.device_mesh.DeviceMesh.from_group(dist.new_group(backend="gloo"), "cpu")
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
        for layer in model:
            shard(layer, mesh=mesh)
        shard(model, mesh=mesh)
        if backend == "gloo":
            for module in model.modules():
                if hasattr(module, "set_force_sum_reduction_for_comms"):
                    module.set_force_sum_reduction_for_comms(True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for step in range(10):
            inputs, labels = batch(step)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
        results.append(torch.cat([parameter.full_tensor().detach().flatten() for parameter in model.parameters()]))
    ours, theirs = results
    report(error=((ours - theirs).abs().max() / theirs.abs().max()).item(), sum=ours.double().sum().item())


def dtensor():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    start()
    mesh = init_device_mesh("cpu", (WORLD,))
    torch.manual_seed(3)
    left, right = torch.randn(8, 4 * WORLD), torch.randn(4 * WORLD, 6)
    product = distribute_tensor(left, mesh, [Shard(1)]) @ distribute_tensor(right, mesh, [Shard(0)])
    whole = product.redistribute(mesh, [Replicate()]).to_local()
    assert torch.allclose(whole, left @ right, atol=1e-5)
    rows = product.redistribute(mesh, [Shard(0)])
    assert torch.allclose(rows.full_tensor(), left @ right, atol=1e-5)
    report(done=True)


def functional():
    import torch.distributed._functional_collectives as functional

    start()
    tensor = torch.full((100,), float(RANK))
    total = functional.all_reduce(tensor, "sum", group=dist.group.WORLD)
    assert (total == sum(range(WORLD))).all() and (tensor == RANK).all()
    mean = functional.all_reduce(tensor, "avg", group=dist.group.WORLD)
    assert (mean == (WORLD - 1) / 2).all()
    gathered = functional.all_gather_tensor(tensor, 0, dist.group.WORLD)
    assert gathered.shape == (100 * WORLD,)
    part = functional.reduce_scatter_tensor(torch.arange(float(WORLD * 3)), "sum", 0, dist.group.WORLD)
    assert (part == WORLD * torch.arange(RANK * 3.0, RANK * 3 + 3)).all()
    many = [torch.full((size,), float(RANK)) for size in (3, 500)]
    totals = functional.all_reduce_coalesced(many, "sum", dist.group.WORLD)
    assert all((total == sum(range(WORLD))).all() for total in totals)
    wholes = functional.all_gather_into_tensor_coalesced(many, dist.group.WORLD)
    assert all(whole.view(WORLD, -1)[r].eq(r).all() for whole in wholes for r in range(WORLD))
    parts = functional.reduce_scatter_tensor_coalesced(wholes, "sum", [0, 0], dist.group.WORLD)
    assert all((part == RANK * WORLD).all() for part in parts)
    assert (functional.broadcast(tensor, 1, dist.group.WORLD) == 1).all()
    report(done=True)


def coalescing():
    """torch's own way to have several calls in one."""
    start()
    tensors = [torch.full((size,), RANK + 1.0) for size in (5, 4000)]
    with dist.distributed_c10d._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    assert all((tensor == WORLD * (WORLD + 1) / 2).all() for tensor in tensors)
    inputs = [torch.full((size,), float(RANK)) for size in (5, 4000)]
    outputs = [torch.zeros(size * WORLD) for size in (5, 4000)]
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        for output, tensor in zip(outputs, inputs):
            dist.all_gather_into_tensor(output, tensor)
    manager.wait()
    assert all(output.view(WORLD, -1)[r].eq(r).all() for output in outputs for r in range(WORLD))
    with dist.distributed_c10d._coalescing_manager():
        for output, tensor in zip(outputs, inputs):
            dist.reduce_scatter_tensor(tensor, output)
    assert all((tensor == RANK * WORLD).all() for tensor in inputs)
    report(switch=netfold.torch.counts()["switch"])


def torchft():
    """A replica is killed, the other reconfigures and continues; its peer rejoins."""
    from netfold.torchft import ProcessGroupNetfold

    port = int(os.environ["MASTER_PORT"])
    store = dist.TCPStore("127.0.0.1", port, WORLD, RANK == 0, timeout=datetime.timedelta(seconds=60), wait_for_workers=False)
    address = f"127.0.0.1:{port}"
    group = ProcessGroupNetfold(timeout=datetime.timedelta(seconds=30))
    group.configure(f"{address}/first", f"replica{RANK}", RANK, WORLD)
    assert group.size() == WORLD and group.errored() is None and group.getBackendName() == "netfold"
    tensor = torch.ones(1000)
    group.allreduce([tensor], dist.AllreduceOptions()).wait()
    assert (tensor == WORLD).all()
    if RANK == 1:
        # As a crash: pending and later operations of the others fail.
        group.abort()
        failed = True
    else:
        begun = time.monotonic()
        failed = False
        try:
            for _ in range(1000):
                group.allreduce([torch.ones(1000)], dist.AllreduceOptions()).wait()
        except RuntimeError:
            failed = True
        report(seconds=time.monotonic() - begun, errored=str(group.errored()))
        # Alone.
        group.configure(f"{address}/second", "replica0", 0, 1)
        assert group.errored() is None
        tensor = torch.ones(1000)
        group.allreduce([tensor], dist.AllreduceOptions()).wait()
        assert (tensor == 1).all()
    store.add("alone", 1)
    while store.add("alone", 0) < WORLD:
        time.sleep(0.01)
    group.configure(f"{address}/third", f"replica{RANK}", RANK, WORLD)
    tensor = torch.full((1000,), float(RANK))
    group.allreduce([tensor], dist.AllreduceOptions()).wait()
    assert (tensor == sum(range(WORLD))).all()
    report(failed=failed, done=True)
    store.add("over", 1)
    while RANK == 0 and store.add("over", 0) < WORLD:
        time.sleep(0.01)
    group.shutdown()


def resized():
    """A rank is lost, the other continues its job alone in place, and a process joins it."""
    import netfold.torch

    port = int(os.environ["MASTER_PORT"])
    store = dist.TCPStore("127.0.0.1", port, WORLD, RANK == 0, timeout=datetime.timedelta(seconds=60), wait_for_workers=False)
    options = netfold.torch.Options(resizable=True, shared_memory=False).resolved()

    def group(name, rank, size, former=None):
        made = netfold.torch.NetfoldGroup(
            dist.PrefixStore(name, store), rank, size, datetime.timedelta(seconds=60), options, former=former
        )
        tensor = torch.full((1000,), rank + 1.0)
        made.allreduce([tensor], dist.AllreduceOptions()).wait()
        assert (tensor == size * (size + 1) / 2).all()
        return made

    first = group("first", RANK, WORLD)
    generations = [first._communicator.generation]
    former = None
    if RANK == 1:
        first.abort()
        first.shutdown()
    else:
        failed = False
        for _ in range(100000):
            try:
                first.allreduce([torch.ones(1000)], dist.AllreduceOptions()).wait()
            except RuntimeError:
                failed = True
                break
        assert failed
        first.abort()
        second = group("second", 0, 1, first.detach())
        generations.append(second._communicator.generation)
        former = second.detach()
    store.add("alone", 1)
    while store.add("alone", 0) < WORLD:
        time.sleep(0.01)
    third = group("third", RANK, WORLD, former)
    generations.append(third._communicator.generation)
    report(generations=generations)
    # Ranks that join first, and other orders, are a job of their own.
    fourth = group("fourth", 1 - RANK, WORLD, third.detach())
    report(again=fourth._communicator.generation)
    store.add("over", 1)
    while RANK == 0 and store.add("over", 0) < WORLD:
        time.sleep(0.01)
    fourth.shutdown()


def torchft_manager():
    """torchft's manager and lighthouse: one of two replicas leaves, the other trains on and commits its steps."""
    from torchft import DistributedDataParallel, Manager, Optimizer

    from netfold.torchft import ProcessGroupNetfold

    replica = RANK
    store_port = int(os.environ["MASTER_PORT"]) + 0
    store = dist.TCPStore("127.0.0.1", 0, 1, True, timeout=datetime.timedelta(seconds=60), wait_for_workers=False)
    group = ProcessGroupNetfold(timeout=datetime.timedelta(seconds=20))
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    manager = Manager(
        pg=group,
        min_replica_size=1,
        load_state_dict=lambda state: model.load_state_dict(state["model"]),
        state_dict=lambda: {"model": model.state_dict()},
        replica_id=f"replica{replica}",
        store_addr="127.0.0.1",
        store_port=store.port,
        rank=0,
        world_size=1,
        lighthouse_addr=os.environ["TORCHFT_LIGHTHOUSE"],
        timeout=datetime.timedelta(seconds=20),
        quorum_timeout=datetime.timedelta(seconds=30),
    )
    wrapped = DistributedDataParallel(manager, model)
    stepped = Optimizer(manager, optimizer)
    participants = []
    deadline = time.monotonic() + 70
    while time.monotonic() < deadline:
        inputs, labels = batch(manager.current_step(), replica)
        stepped.zero_grad()
        torch.nn.functional.cross_entropy(wrapped(inputs), labels).backward()
        stepped.step()
        participants.append(manager.num_participants())
        if replica == 1 and 2 in participants and manager.current_step() >= 5:
            os._exit(0)
        if replica == 0 and 2 in participants and participants[-3:] == [1, 1, 1]:
            break
    report(participants=sorted(set(participants)), steps=manager.current_step(), alone=participants[-1])
    manager.shutdown(wait=False)
    os._exit(0)
