"""What a rank does in the tests of netfold.torch: `torch_ranks.py SCENARIO`, started by `conftest.Processes`.

A scenario reports values by lines `RESULT {...}` and fails by an exception. It runs on torch 1.13 and on torch 2.
"""

import datetime
import json
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import netfold
import netfold.torch

RANK = int(os.environ["RANK"])
WORLD = int(os.environ["WORLD_SIZE"])
OLD = not hasattr(torch._C._distributed_c10d, "Backend")


def report(**values):
    print("RESULT " + json.dumps(values), flush=True)


def start(backend="netfold", **named):
    dist.init_process_group(backend, **named)


def network(seed=1, width=64):
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(16, width), torch.nn.BatchNorm1d(width), torch.nn.ReLU(), torch.nn.Linear(width, 4)]
    return torch.nn.Sequential(*layers)


def batch(step, rank=RANK):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(8, 16, generator=generator)
    return inputs, inputs[:, :4].argmax(1)


def train(model, steps=10, group=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        inputs, labels = batch(step)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def all_reduce():
    start()
    report(path=netfold.torch.path())
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.uint8):
        for shape in ((0,), (1,), (1003,), (17, 33)):
            tensor = torch.full(shape, RANK + 1, dtype=dtype)
            dist.all_reduce(tensor)
            assert (tensor.double() == WORLD * (WORLD + 1) / 2).all(), (dtype, shape, tensor)
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        tensor = torch.full((100,), RANK, dtype=dtype)
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG if hasattr(dist.ReduceOp, "AVG") else dist.ReduceOp.SUM)
        assert (tensor.double() == (WORLD - 1) / 2).all(), tensor
    for op, want in (("MAX", WORLD), ("MIN", 1), ("PRODUCT", 1)):
        # gloo, which does products, has fewer types.
        narrow = (torch.bfloat16, torch.float16, torch.int8, torch.uint8, torch.int16) if op != "PRODUCT" else ()
        for dtype in (torch.float32, torch.int32, torch.int64, *narrow):
            tensor = torch.full((10,), RANK + 1 if op != "PRODUCT" else 1, dtype=dtype)
            dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op))
            assert (tensor == want).all(), (op, dtype, tensor)
    for op, want in (("BAND", 0b1000), ("BOR", 0b1111), ("BXOR", 0b1000 * (WORLD % 2) | 0b0111)):
        for dtype in (torch.uint8, torch.int16, torch.int64):
            tensor = torch.full((10,), 0b1000 | (0b0111 if RANK == 0 else 0), dtype=dtype)
            dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op))
            assert (tensor == want).all(), (op, dtype, tensor)
    infinite = torch.ones(1000)
    infinite[3 + RANK] = float("inf")
    dist.all_reduce(infinite)
    assert not infinite[3].isfinite(), "an infinity must not be lost: loss scaling looks for it"
    works = [dist.all_reduce(torch.full((100,), float(i)), async_op=True) for i in range(30)]
    for work in works:
        work.wait()
    tensor = torch.ones(10)
    future = dist.all_reduce(tensor, async_op=True).get_future()
    assert future.wait()[0][0] == WORLD


def everything_else():
    """Every operation, against what it must give."""
    start()
    ranks = range(WORLD)
    tensor = torch.full((3,), RANK)
    dist.broadcast(tensor, 1)
    assert tensor.tolist() == [1] * 3
    tensor = torch.full((3,), RANK + 1.0)
    dist.reduce(tensor, 0)
    assert RANK != 0 or tensor.tolist() == [sum(r + 1.0 for r in ranks)] * 3
    parts = [torch.zeros(2, dtype=torch.int64) for _ in ranks]
    dist.all_gather(parts, torch.full((2,), RANK))
    assert [int(part[0]) for part in parts] == list(ranks)
    whole = torch.zeros(4 * WORLD)
    (dist._all_gather_base if OLD else dist.all_gather_into_tensor)(whole, torch.full((4,), float(RANK)))
    assert whole.tolist() == [float(r) for r in ranks for _ in range(4)]
    flags = torch.zeros(WORLD, dtype=torch.bool)
    (dist._all_gather_base if OLD else dist.all_gather_into_tensor)(flags, torch.tensor([RANK == 1]))
    assert flags.tolist() == [r == 1 for r in ranks]
    for dtype in (torch.float32, torch.float64, torch.int64):
        part = torch.zeros(4, dtype=dtype)
        whole = torch.arange(4 * WORLD).to(dtype)
        (dist._reduce_scatter_base if OLD else dist.reduce_scatter_tensor)(part, whole)
        assert (part == WORLD * torch.arange(4 * RANK, 4 * RANK + 4)).all(), part
        assert (whole == torch.arange(4 * WORLD)).all(), "the input is not the library's to change"
    part = torch.zeros(2)
    dist.reduce_scatter(part, [torch.full((2,), float(r)) for r in ranks])
    assert part.tolist() == [float(WORLD * RANK)] * 2
    parts = [torch.zeros(2) for _ in ranks] if RANK == 0 else None
    dist.gather(torch.full((2,), float(RANK)), parts)
    assert RANK != 0 or [part[0].item() for part in parts] == [float(r) for r in ranks]
    part = torch.zeros(2)
    dist.scatter(part, [torch.full((2,), float(r)) for r in ranks] if RANK == 0 else None)
    assert part.tolist() == [float(RANK)] * 2
    output = torch.zeros(WORLD)
    dist.all_to_all_single(output, torch.arange(float(WORLD)) + 10 * RANK)
    assert output.tolist() == [float(RANK + 10 * r) for r in ranks]
    if RANK == 0:
        dist.send(torch.ones(2), 1)
    elif RANK == 1:
        tensor = torch.zeros(2)
        dist.recv(tensor, 0)
        assert tensor.tolist() == [1.0, 1.0]
    dist.barrier()
    objects = [None] * WORLD
    dist.all_gather_object(objects, {"rank": RANK})
    assert [each["rank"] for each in objects] == list(ranks)
    objects = [RANK]
    dist.broadcast_object_list(objects, 1)
    assert objects == [1]


def groups():
    """Several groups at once, of some ranks."""
    start()
    pair = dist.new_group([0, 1])
    rest = dist.new_group([1, 2])
    gloo = dist.new_group(backend="gloo")
    for group, members in ((pair, (0, 1)), (rest, (1, 2)), (gloo, (0, 1, 2)), (None, (0, 1, 2))):
        if RANK in members:
            tensor = torch.full((1000,), float(RANK))
            dist.all_reduce(tensor, group=group)
            assert (tensor == sum(members)).all(), (members, tensor)
    report(paths=[netfold.torch.path(group) for group, members in ((pair, (0, 1)), (rest, (1, 2))) if RANK in members])
    try:
        netfold.torch.path(gloo)
    except TypeError:
        pass
    else:
        raise AssertionError("gloo has no path of this library")
    dist.destroy_process_group()


def again():
    """A group after a group, over the same store."""
    port = int(os.environ["MASTER_PORT"])
    store = dist.TCPStore("127.0.0.1", port, WORLD, RANK == 0, timeout=datetime.timedelta(seconds=60))
    for turn in range(3):
        # torch 1.13's own barrier of a new group allows one group a store.
        of_turn = dist.PrefixStore(str(turn), store) if OLD else store
        start(store=of_turn, rank=RANK, world_size=WORLD)
        tensor = torch.full((1000,), float(turn))
        dist.all_reduce(tensor)
        assert (tensor == turn * WORLD).all()
        dist.barrier()
        dist.destroy_process_group()
    # Rank 0 hosts the store: it goes last.
    store.add("over", 1)
    while RANK == 0 and store.add("over", 0) < WORLD:
        time.sleep(0.01)


def ddp():
    """DDP over netfold trains what DDP over gloo trains."""
    start()
    gloo = dist.new_group(backend="gloo")
    ours = train(DistributedDataParallel(network(), bucket_cap_mb=0.01))
    theirs = train(DistributedDataParallel(network(), bucket_cap_mb=0.01, process_group=gloo))
    hooked = DistributedDataParallel(network(), bucket_cap_mb=0.01, process_group=gloo)
    state = netfold.torch.HookState(gloo)
    hooked.register_comm_hook(state, netfold.torch.all_reduce_hook)
    hook = train(hooked)
    scale = theirs.abs().max()
    report(ddp=((ours - theirs).abs().max() / scale).item(), hook=((hook - theirs).abs().max() / scale).item())
    report(sum=ours.double().sum().item(), path=netfold.torch.path(), hook_path=state.path())


class Quiet(torch.nn.Module):
    """One loud parameter, and many whose gradients are far below the quantum that it leads to."""

    def __init__(self):
        super().__init__()
        self.loud = torch.nn.Parameter(torch.zeros(1))
        self.quiet = torch.nn.Parameter(torch.zeros(500))

    def forward(self, sign):
        return self.loud.sum() * sign * 64.0 + self.quiet.sum() * 1e-3


def feedback():
    """Gradients that rounding drops arrive by error feedback; a residual for each bucket, as DDP has them after it rebuilt them."""
    start()
    gloo = dist.new_group(backend="gloo")

    def moved(state):
        model = DistributedDataParallel(Quiet(), process_group=gloo)
        model.register_comm_hook(state, netfold.torch.all_reduce_hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        for step in range(100):
            optimizer.zero_grad()
            model(1.0 if step % 2 else -1.0).backward()
            optimizer.step()
        return model.module.quiet.detach()

    plain = moved(netfold.torch.HookState(gloo, error_feedback=False))
    state = netfold.torch.HookState(gloo)  # by NETFOLD_ERROR_FEEDBACK
    fed = moved(state)
    report(plain=plain.abs().max().item(), least=fed.min().item(), most=fed.max().item())

    state = netfold.torch.HookState(gloo, error_feedback=True)
    # DDP's first bucket is full with a megabyte: one bucket in the first step, then two.
    layers = [torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4200), torch.nn.ReLU(), torch.nn.Linear(4200, 4)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.01, process_group=gloo)
    model.register_comm_hook(state, netfold.torch.all_reduce_hook)
    train(model, steps=3)
    kept = [residual for _, residual in state._residuals.values()]
    parameters = sum(parameter.numel() for parameter in model.parameters())
    report(buckets=len(kept), kept=sum(residual.numel() for residual in kept), parameters=parameters)
    report(left=any((residual != 0).any().item() for residual in kept))
    state.reset()
    assert not state._residuals

    class HalfBucket:
        def buffer(self):
            return torch.zeros(4, dtype=torch.float16)

    try:
        state.residual(HalfBucket())
    except netfold.ArgumentError as error:
        report(refused=str(error))


def tolerance():
    """DDP whose hook may lack contributions to gradients, at a switch that receives trimmed packets."""
    start("gloo")
    options = netfold.torch.Options(switch=os.environ["NETFOLD_TEST_SWITCH"], fall_back=False)

    def learn(state):
        model = DistributedDataParallel(network(width=512))
        model.register_comm_hook(state, netfold.torch.all_reduce_hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for step in range(20):
            inputs, labels = batch(step % 2)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        report(first=losses[0], last=losses[-1])
        return sum(parameter.double().sum().item() for parameter in model.parameters())

    exact = netfold.torch.HookState(options=options, tolerance=0.0)
    learn(exact)
    report(exact=exact.partial + exact.left_out)
    state = netfold.torch.HookState(options=options)  # by NETFOLD_TOLERANCE
    report(sum=learn(state), chunks=state.chunks, partial=state.partial, left_out=state.left_out)


def confidential():
    """DDP over a confidential group, to which everything goes through Netfold; what gloo would send in clear is refused."""
    start()
    result = train(DistributedDataParallel(network()), 3)
    report(sum=result.double().sum().item(), gloo=netfold.torch.counts()["gloo"])
    try:
        dist.scatter(torch.zeros(1), [torch.zeros(1) for _ in range(WORLD)] if RANK == 0 else None)
    except netfold.ArgumentError as error:
        report(refused=str(error))


def zero():
    """ZeroRedundancyOptimizer: sharded optimizer states, broadcast of parameters."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    start()
    model = DistributedDataParallel(network())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    for step in range(5):
        inputs, labels = batch(step)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    report(sum=sum(parameter.double().sum().item() for parameter in model.parameters()))


def layouts():
    """Tensors of any layout: transposed, with gaps, and of other layouts on other ranks; and those that cannot be used."""
    start()
    ranks = range(WORLD)
    total = sum(r + 1.0 for r in ranks)
    values = torch.arange(12.0).view(3, 4)

    def shapes(number):
        """The same matrix in memory of four kinds."""
        whole = torch.zeros(6, 4)
        column = torch.zeros(3, 4, 2)
        yield values.clone() * number
        yield (values.t().contiguous() * number).t()
        whole[::2] = values * number
        yield whole[::2]
        column[:, :, 1] = values * number
        yield column[:, :, 1]

    for kind in range(4):
        tensor = list(shapes(RANK + 1))[(kind + RANK) % 4]
        future = dist.all_reduce(tensor, async_op=True).get_future().then(lambda done: done.value()[0].clone())
        assert (future.wait() == values * total).all(), "a future has the result"
        assert (tensor == values * total).all()
        tensor = list(shapes(RANK + 1))[(kind + RANK) % 4]
        dist.reduce(tensor, 1)
        assert (tensor == values * (total if RANK == 1 else RANK + 1)).all()
        tensor = list(shapes(RANK + 1))[(kind + RANK) % 4]
        dist.broadcast(tensor, 1)
        assert (tensor == values * 2).all()
        tensor = list(shapes(RANK + 1))[kind]
        outputs = [list(shapes(0))[(kind + r) % 4] for r in ranks]
        dist.all_gather(outputs, tensor)
        assert all((outputs[r] == values * (r + 1)).all() for r in ranks)
        output = list(shapes(0))[kind]
        dist.reduce_scatter(output, [list(shapes((RANK + 1) * (r + 1)))[kind] for r in ranks])
        assert (output == values * total * (RANK + 1)).all()
    wide = torch.zeros(WORLD, 12)
    dist.all_gather(list(wide.unbind(0)), values.flatten() * RANK)
    assert (wide == values.flatten() * torch.arange(WORLD).view(-1, 1)).all()
    part = torch.zeros(12)
    dist.reduce_scatter(part, list(wide.unbind(0)))
    assert (part == values.flatten() * RANK * WORLD).all()
    for refused in (torch.zeros(1).expand(5), torch.zeros(2, 1).expand(2, 3)):
        try:
            dist.all_reduce(refused)
        except netfold.TensorError as error:
            report(refused=str(error))
    tensor = torch.ones(5)
    dist.all_reduce(tensor)
    assert tensor[0] == WORLD


def coalesced():
    """Several tensors in one call."""
    start()
    ranks = range(WORLD)
    group = dist.group.WORLD if dist.group.WORLD is not None else dist.distributed_c10d._get_default_group()
    backend = group if isinstance(group, netfold.torch.NetfoldGroup) else group._get_backend(torch.device("cpu"))
    sizes = (1, 7, 4000)
    tensors = [torch.full((size,), RANK + 1.0) for size in sizes]
    options = dist.AllreduceCoalescedOptions()
    options.reduceOp = dist.ReduceOp.SUM
    work = backend.allreduce_coalesced(tensors, options)
    assert [float(tensor[-1]) for tensor in work.get_future().wait()] == [sum(r + 1.0 for r in ranks)] * 3
    assert work.is_completed() and work.wait()
    integers = [torch.full((size,), RANK + 1) for size in sizes]
    backend.allreduce_coalesced(integers, options).wait()
    assert all((tensor == sum(r + 1 for r in ranks)).all() for tensor in integers)
    doubles = [torch.full((size,), RANK + 1.0, dtype=torch.float64) for size in sizes]
    backend.allreduce_coalesced(doubles, options).wait()
    assert all((tensor == sum(r + 1 for r in ranks)).all() for tensor in doubles), "of a type that is gloo's"
    outputs = [[torch.zeros(size) for size in sizes] for _ in ranks]
    backend.allgather_coalesced(outputs, [torch.full((size,), float(RANK)) for size in sizes]).wait()
    assert all((tensor == r).all() for r in ranks for tensor in outputs[r])
    wholes = [torch.zeros(size * WORLD) for size in sizes]
    backend.allgather_into_tensor_coalesced(wholes, [torch.full((size,), float(RANK)) for size in sizes]).wait()
    assert all(whole.view(WORLD, -1)[r].eq(r).all() for r in ranks for whole in wholes)
    parts = [torch.zeros(size) for size in sizes]
    work = backend.reduce_scatter_tensor_coalesced(parts, wholes)
    work.wait()
    assert all((part == RANK * WORLD).all() for part in parts)
    report(switch=netfold.torch.counts()["switch"])


def moved():
    """What computes nothing takes elements of every type."""
    start()
    # Complex tensors are gloo's, which has none in torch 1.13.
    complex_types = () if OLD else (torch.complex64,)
    plain = (torch.bool, torch.uint8, torch.int16, torch.int64, torch.float16, torch.bfloat16, torch.float64)
    for dtype in (*plain, *complex_types):
        tensor = torch.ones(1001).to(dtype) if RANK == 1 else torch.zeros(1001).to(dtype)
        dist.broadcast(tensor, 1)
        assert (tensor == torch.ones(1001).to(dtype)).all(), dtype
        parts = [torch.ones(333).to(dtype) for _ in range(WORLD)]
        dist.all_gather(parts, torch.full((333,), RANK % 2).to(dtype))
        assert all((part == torch.full((333,), r % 2).to(dtype)).all() for r, part in enumerate(parts)), dtype
    report(counts=netfold.torch.counts())


def waiting():
    """A rank that waits says in which call, and of which group."""
    start()
    store = dist.distributed_c10d._get_default_store()
    dist.all_reduce(torch.ones(3))
    if RANK == 0:
        work = dist.all_reduce(torch.ones(7), async_op=True)
        time.sleep(0.05)
        report(lines=netfold.torch.waiting())
        store.set("reported", "yes")
        work.wait()
    else:
        store.wait(["reported"])
        dist.all_reduce(torch.ones(7))
    assert netfold.torch.waiting() == [], netfold.torch.waiting()


def leave_early():
    """Ranks that are done leave at once; the others still get their results."""
    start()
    for _ in range(3):
        tensor = torch.ones(1 << 20)
        dist.all_reduce(tensor)
        assert (tensor == WORLD).all()


def mismatch():
    """Other shapes on other ranks: an exception on every rank."""
    start(timeout=datetime.timedelta(seconds=30))
    begun = time.monotonic()
    try:
        dist.all_reduce(torch.ones(100 + RANK))
    except RuntimeError as error:
        report(error=str(error), kind=getattr(error, "kind", None), seconds=time.monotonic() - begun)
    try:
        dist.all_reduce(torch.ones(100))
    except RuntimeError as error:
        report(later=str(error))


def mismatch_ddp():
    """One call more on one rank, so that DDP's calls meet others: an exception on every rank."""
    start(timeout=datetime.timedelta(seconds=30))
    model = DistributedDataParallel(network())
    inputs, labels = batch(0)
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    try:
        if RANK == 0:
            dist.all_reduce(torch.ones(7))  # One call more than the others.
        loss.backward()
        dist.all_reduce(torch.ones(7))
    except RuntimeError as error:
        report(error=str(error))
    os._exit(0)  # Threads of autograd may wait for what never comes.


def closed():
    start()
    group = dist.group.WORLD if dist.group.WORLD is not None else dist.distributed_c10d._get_default_group()
    backend = group if isinstance(group, netfold.torch.NetfoldGroup) else group._get_backend(torch.device("cpu"))
    dist.all_reduce(torch.ones(3))
    dist.barrier()
    backend.shutdown()
    try:
        dist.all_reduce(torch.ones(3))
    except RuntimeError as error:
        report(error=str(error))


def _new_group(name, ranks, port_file):
    """A new default group among `ranks`, in processes that had another one."""
    if RANK == ranks[0]:
        store = dist.TCPStore("127.0.0.1", 0, len(ranks), True, timeout=datetime.timedelta(seconds=60), wait_for_workers=False)
        with open(port_file + ".part", "w") as file:
            file.write(str(store.port))
        os.rename(port_file + ".part", port_file)
    else:
        deadline = time.monotonic() + 60
        while not os.path.exists(port_file):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with open(port_file) as file:
            port = int(file.read())
        store = dist.TCPStore("127.0.0.1", port, len(ranks), False, timeout=datetime.timedelta(seconds=60))
    dist.init_process_group("netfold", store=dist.PrefixStore(name, store), rank=ranks.index(RANK), world_size=len(ranks))
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    assert (tensor == len(ranks)).all()
    model = DistributedDataParallel(network())
    result = train(model, 3)
    report(again=True, sum=result.double().sum().item(), path_again=netfold.torch.path())
    store.add("over", 1)
    while RANK == ranks[0] and store.add("over", 0) < len(ranks):
        time.sleep(0.01)


def _train_until_it_fails(model, on_step):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    try:
        for step in range(100_000):
            on_step(step)
            inputs, labels = batch(step % 50)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    except RuntimeError as error:
        return step, error
    raise AssertionError("nothing failed")


def rank_death():
    """Rank 2 of 3 is killed while DDP trains: the others get an exception, abandon the group and make a new one."""
    start(timeout=datetime.timedelta(seconds=60))
    model = DistributedDataParallel(network(), broadcast_buffers=False)
    struck = []

    def on_step(step):
        struck.append(time.monotonic())
        if RANK == 2 and step == 5:
            os.kill(os.getpid(), signal.SIGKILL)

    step, error = _train_until_it_fails(model, on_step)
    report(step=step, error=str(error), seconds=time.monotonic() - struck[-1])
    del model
    dist.destroy_process_group()
    _new_group("second", [0, 1], os.environ["NETFOLD_TEST_FILE"])


def switch_death():
    """The switch is killed while DDP trains: the step is finished otherwise, or every rank gets an exception."""
    start(timeout=datetime.timedelta(seconds=60))
    report(path=netfold.torch.path())
    model = DistributedDataParallel(network(), broadcast_buffers=False)
    struck = []
    goal = int(os.environ.get("NETFOLD_TEST_STEPS", "400"))

    class Enough(RuntimeError):
        pass

    def on_step(step):
        struck.append(time.monotonic())
        if step == 5 and RANK == 0:
            os.kill(int(os.environ["NETFOLD_TEST_SWITCH_PID"]), signal.SIGKILL)
        if step == goal:
            raise Enough("the training went on")

    step, error = _train_until_it_fails(model, on_step)
    slowest = max(later - before for before, later in zip(struck, struck[1:]))
    report(step=step, went_on=isinstance(error, Enough), error=str(error), seconds=time.monotonic() - struck[-1], slowest=slowest)
    parameters = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    report(path_after=netfold.torch.path(), sum=parameters.double().sum().item())
    del model
    dist.destroy_process_group()
    os.environ.pop("NETFOLD_CONTROLLER", None)
    _new_group("second", list(range(WORLD)), os.environ["NETFOLD_TEST_FILE"])


def no_switch():
    """A controller that is not there: all ranks go on without, and say why."""
    start()
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    assert (tensor == WORLD).all()
    report(path=netfold.torch.path())


def invalid_options():
    """An invalid option raises, and nothing is left to gloo without a word."""
    options = netfold.torch.Options(**json.loads(os.environ["NETFOLD_TEST_OPTIONS"]))
    try:
        start(pg_options=options)
    except netfold.Error as error:
        report(**{"class": f"{type(error).__module__}.{type(error).__qualname__}", "message": str(error)})


def no_switch_strict():
    try:
        start(timeout=datetime.timedelta(seconds=20))
    except RuntimeError as error:
        report(error=str(error))


def aborted():
    """abort() from another thread ends what waits."""
    import threading

    start(timeout=datetime.timedelta(seconds=60))
    group = dist.group.WORLD if dist.group.WORLD is not None else dist.distributed_c10d._get_default_group()
    backend = group if isinstance(group, netfold.torch.NetfoldGroup) else group._get_backend(torch.device("cpu"))
    if RANK == 0:
        threading.Timer(0.3, backend.abort).start()
        begun = time.monotonic()
        try:
            dist.all_reduce(torch.ones(10))
        except RuntimeError as error:
            report(error=str(error), seconds=time.monotonic() - begun)
        if not OLD:
            report(code=str(backend.get_error()))
        try:
            dist.all_reduce(torch.ones(10))
        except RuntimeError as error:
            report(later=str(error))
    else:
        time.sleep(1.0)
        try:
            dist.all_reduce(torch.ones(10))
        except RuntimeError as error:
            report(error=str(error))
    os._exit(0)


def elastic():
    """The first attempt loses a rank; torchrun starts all again, and the second attempt is a job of its own."""
    start(timeout=datetime.timedelta(seconds=60))
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    if attempt == 0 and RANK == 1:
        sys.exit(3)
    for _ in range(200 if attempt == 0 else 1):
        dist.all_reduce(tensor)
    print(f"RESULT of rank {RANK}: attempt {attempt} is done over {netfold.torch.path()}", flush=True)


def fork_workers():
    """A DataLoader whose workers are forked after the group was made."""
    start()
    model = DistributedDataParallel(network())
    samples = [batch(i) for i in range(8)]
    loader = torch.utils.data.DataLoader(samples, batch_size=None, num_workers=2, multiprocessing_context="fork")
    for _ in range(2):
        for inputs, labels in loader:
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    dist.barrier()
    report(done=True)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] in globals():
        globals()[sys.argv[1]]()
    else:
        import torch2_ranks

        getattr(torch2_ranks, sys.argv[1])()
    # Ends without interpreter shutdown races of gloo's threads, but with our own exit handlers.
    sys.exit(0)
