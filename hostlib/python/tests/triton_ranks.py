"""What a rank does in the tests of quantisation on devices: `triton_ranks.py SCENARIO`, with interpreted kernels on tensors in host memory.

Groups of both kinds are made among the same ranks, and their results compared bit for bit.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import netfold
import netfold.torch
import triton_interpreter
from netfold.triton import DeviceReducer
from torch_ranks import RANK, WORLD, network, report, start, train

triton_interpreter.prepare()

MODE = os.environ.get("NETFOLD_MODE", "bfp32")
#: Bytes of a packet's lanes, and elements of a block.
LANE_BYTES = int(os.environ.get("NETFOLD_TEST_LANE_BYTES", "1408"))
BLOCK = LANE_BYTES // (2 if MODE == "bfp16" else 4)
FLOATS = (torch.float32, torch.float16, torch.bfloat16) if MODE == "bfp16" else (torch.float32,)


def both(**options):
    """A group that quantises on the device and one that does on the host, each with its state for the hook."""
    return [
        netfold.torch.HookState(options=netfold.torch.Options(quantize=where, **options), error_feedback=False)
        for where in ("device", "host")
    ]


def numbers(count, dtype, seed):
    """A rank's numbers: of many magnitudes, some blocks tiny, some with infinities and NaN."""
    generator = torch.Generator().manual_seed(100 * seed + RANK)
    values = torch.randn(count, generator=generator) * torch.exp2(torch.randint(-10, 3, (count,), generator=generator).float())
    if seed % 3 == 1 and count > 2:
        values[1] = float("inf") if RANK == 0 else 1.0
        values[count // 2 :] *= 2.0**-120
    if seed % 3 == 2 and count > BLOCK:
        values[BLOCK] = float("nan") if RANK == WORLD - 1 else 0.0
        values[:BLOCK] *= 2.0**120
    return values.to(dtype)


def options_of(op):
    chosen = dist.AllreduceOptions()
    chosen.reduceOp = getattr(dist.ReduceOp, op)
    return chosen


def raw(tensor):
    return tensor.detach().contiguous().view(torch.int32 if tensor.element_size() == 4 else torch.int16)


def check_same(found, expected, what):
    different = (raw(found) != raw(expected)).nonzero().flatten()
    assert different.numel() == 0, f"{what}: {different.numel()} differ, first {different[:3]}: {found[different[:3]]}, {expected[different[:3]]}"


def quantized():
    """All-reduces have the bits that the host's quantiser gives."""
    start("gloo")
    device, host = (state.group for state in both())
    assert device.quantizes(torch.zeros(1), "avg") and not device.quantizes(torch.zeros(1), "max")
    assert not host.quantizes(torch.zeros(1), "sum") and device.quantizes(torch.zeros(1).half(), "sum") == (MODE == "bfp16")
    cases = 0
    for dtype in FLOATS:
        for op in ("SUM", "AVG"):
            for seed, count in enumerate((0, 1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 3)):
                tensor, expected = numbers(count, dtype, seed), numbers(count, dtype, seed)
                work = device.allreduce([tensor], options_of(op))
                work.wait()
                reference = host.allreduce([expected], options_of(op))
                reference.wait()
                check_same(tensor, expected, (dtype, op, count))
                assert work.is_completed() and work.is_success() and work.get_future().wait()[0] is tensor
                assert work.report()["non_finite"] == reference.report()["non_finite"], count
                assert work.report()["elements"] == count
                cases += 1
    # Types and reductions that are not quantised go on in the same group.
    for dtype, op in ((torch.int32, "SUM"), (torch.float32, "MAX"), (torch.float16, "SUM"), (torch.float64, "AVG")):
        tensor = torch.full((100,), RANK + 1, dtype=dtype)
        device.allreduce([tensor], options_of(op)).wait()
        assert (tensor.double() == {"SUM": WORLD * (WORLD + 1) / 2, "MAX": WORLD, "AVG": (WORLD + 1) / 2}[op]).all()
    transposed = numbers(40 * 30, torch.float32, 0).view(40, 30).t()
    expected = transposed.clone().contiguous()
    device.allreduce([transposed], options_of("SUM")).wait()
    host.allreduce([expected], options_of("SUM")).wait()
    check_same(transposed.contiguous(), expected, "transposed")
    report(cases=cases, path=device.path(), switch=device.counts()["switch"]["all_reduce"])


def in_flight():
    """Many at a time, with pieces of a few blocks."""
    start("gloo")
    device, host = (state.group for state in both())
    reducer = DeviceReducer(device._communicator, piece_bytes=3 * LANE_BYTES)
    assert reducer.block == BLOCK
    tensors = [numbers(11 * BLOCK + 100 * seed, torch.float32, seed) for seed in range(6)]
    expected = [tensor.clone() for tensor in tensors]
    works = [reducer.start(tensor, "sum") for tensor in tensors]
    for work in works:
        work.wait()
        # 11 blocks or more in pieces of three, each an operation, behind that of the exponents.
        assert len(work._works) >= 5 and work.done() and work.report()["chunks"] >= 12
    for tensor in expected:
        host.allreduce([tensor], options_of("SUM")).wait()
    for tensor, other in zip(tensors, expected):
        check_same(tensor, other, "in flight")
    report(done=True)


def stochastic():
    """The random numbers are those of the host's operation of the same number."""
    start("gloo")
    device, host = (state.group for state in both(rounding="stochastic", seed=5))
    reducer = DeviceReducer(device._communicator, piece_bytes=2 * LANE_BYTES)
    different = 0
    for step in range(4):
        tensor = numbers(5 * BLOCK + 9, torch.float32, 3 * step)
        expected, nearest = tensor.clone(), tensor.clone()
        reducer.start(tensor, "sum").wait()
        host.allreduce([expected], options_of("SUM")).wait()
        check_same(tensor, expected, step)
        different += int((raw(nearest) != raw(tensor)).sum())
    # A class has numbers of its own.
    tensor = numbers(2 * BLOCK, torch.float32, 0)
    expected = tensor.clone()
    reducer.start(tensor, "avg", priority=1).wait()
    host.allreduce([expected], options_of("AVG"), 1).wait()
    check_same(tensor, expected, "class 1")
    report(different=different)


def feedback():
    """DDP with error feedback: the same parameters after some steps, and the same residuals."""
    start("gloo")
    models, states = [], both(rounding=os.environ.get("NETFOLD_ROUNDING"))
    for state in states:
        state.error_feedback = True
        model = DistributedDataParallel(network(), bucket_cap_mb=0.001)
        model.register_comm_hook(state, netfold.torch.all_reduce_hook)
        train(model, steps=4)
        models.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
    check_same(models[0], models[1], "parameters")
    kept = [[residual for _, residual in state._residuals.values()] for state in states]
    assert len(kept[0]) == len(kept[1]) > 0
    for residual, other in zip(*kept):
        check_same(residual, other, "residuals")
    report(sum=models[0].double().sum().item(), left=max(residual.abs().max().item() for residual in kept[0]))
    refuse_what_cannot_be_fed_back(states[0].group)


def refuse_what_cannot_be_fed_back(group):
    for tensor, residual in ((torch.zeros(4), torch.zeros(5)), (torch.zeros(4).half(), torch.zeros(4))):
        try:
            group.allreduce([tensor], options_of("SUM"), residual=residual)
        except netfold.ArgumentError:
            continue
        raise AssertionError("a residual that does not fit")


def by_default_group():
    """The option by the environment, and torch.distributed's own functions."""
    start()
    expected = numbers(3 * BLOCK, torch.float32, 0)
    tensor = expected.clone()
    dist.all_reduce(tensor)
    host = netfold.torch.HookState(options=netfold.torch.Options(quantize="host")).group
    host.allreduce([expected], options_of("SUM")).wait()
    check_same(tensor, expected, "default group")
    model = DistributedDataParallel(network())
    report(sum=train(model, steps=3).double().sum().item())
    assert netfold.torch._backend._netfold_group(None)._reducer is not None


def differs():
    """One rank quantises on the device and the other on the host: an error on both."""
    start("gloo")
    options = netfold.torch.Options(quantize="device" if RANK == 0 else "host")
    try:
        state = netfold.torch.HookState(options=options)
        state.group.allreduce([torch.zeros(2000)], options_of("SUM")).wait()
    except netfold.Error as error:
        report(error=f"{type(error).__name__}: {error}")


def shared_memory():
    """Ranks of one host, whose lanes are summed in shared memory: exact, so with the bits of a switch."""
    start("gloo")
    group = netfold.torch.HookState(options=netfold.torch.Options(quantize="device")).group
    tensor = numbers(3 * BLOCK, torch.float32, 0)
    group.allreduce([tensor], options_of("SUM")).wait()
    report(path=group.path(), bits=[int(word) for word in raw(tensor)[:: BLOCK // 4]])


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    sys.exit(0)
