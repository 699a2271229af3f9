"""The order of streams in quantisation on devices, on streams that do everything late: without a device, and with every wait left out in turn."""

from __future__ import annotations

import functools

import pytest

torch = pytest.importorskip("torch", reason="skipped: streams of quantisation on devices, no torch")
pytest.importorskip("triton", reason="skipped: streams of quantisation on devices, no triton (pip install triton)")

import late_cuda
import netfold
import triton_interpreter
from netfold.triton import Quantizer, _streams, interpreted
from netfold.triton._reduce import Pipeline

if not interpreted():
    pytest.skip("skipped: streams of quantisation on devices, TRITON_INTERPRET was not set when triton was imported", allow_module_level=True)
triton_interpreter.prepare()

# What was not received may overflow, which numpy tells the interpreter.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

WORLD, BLOCK, ELEMENTS, STEPS = 2, 16, 75, 3


class LateStreams(_streams.CudaStreams):
    """The real streams, but for pinned memory."""

    def to_host(self, tensor):
        return tensor


class Rank:
    """A pipeline on a device's streams; the communicator is the machine's network."""

    def __init__(self, machine, rank, monkeypatch, streams):
        self.machine, self.rank = machine, rank
        self.cuda = late_cuda.Cuda(machine)
        self.caller = self.cuda.current_stream()
        self.recorded = set()
        monkeypatch.setattr(_streams, "cuda", self.cuda)
        noted = self.recorded
        monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: noted.add((late_cuda.address(tensor), stream.name)))
        self.quantizer = late_cuda.LateQuantizer(Quantizer("bfp16", WORLD, BLOCK), self.cuda)
        self.streams = streams(torch.device("cpu"))
        self.pipeline = Pipeline(self, self.quantizer, 2 * BLOCK)
        self.results = []
        self.kept = []

    def submit(self, collective, send, recv, op, root, dtype, priority):
        assert collective == "all_reduce" and send is recv
        operation = late_cuda.Operation(self.machine, recv, op, self.cuda.current_stream())
        self.machine.operations[self.rank].append(operation)
        return operation

    def train(self, waits):
        """Appends all steps to the streams, each on the same memory."""
        tensor, residual = torch.full((ELEMENTS,), 9.0), torch.zeros(ELEMENTS)
        for step in range(STEPS):
            self.caller.append(lambda step=step: tensor.copy_(numbers(self.rank, step)))
            reduction = self.pipeline.start(self.streams, tensor, "sum", residual)
            if waits:
                reduction.wait_on_stream(self.caller.cuda_stream)
            self.caller.append(lambda: self.results.append(tensor.clone()))
            self.kept.append((reduction, tensor, residual))

    def check_memory(self):
        """Memory that another stream uses than the one it was made in is known to the allocator as such."""
        for at, stream in self.quantizer.uses:
            home = self.quantizer.homes.get(at, self.caller.name)
            assert stream == home or (at, stream) in self.recorded, f"{stream} uses memory of {home}"


def numbers(rank, step):
    return torch.randn(ELEMENTS, generator=torch.Generator().manual_seed(10 * step + rank)) * 2.0**step


@functools.cache
def expected():
    """The results of each step, with residuals, by kernels that are called at once."""
    kernels = Quantizer("bfp16", WORLD, BLOCK)
    residuals = [torch.zeros(ELEMENTS) for _ in range(WORLD)]
    results = []
    for step in range(STEPS):
        tensors = [numbers(rank, step) for rank in range(WORLD)]
        exponents = [kernels.new_exponents(tensor) for tensor in tensors]
        for tensor, residual, own in zip(tensors, residuals, exponents):
            kernels.exponents(tensor, own, residual)
        agreed = torch.stack(exponents).amax(0)
        lanes = []
        for tensor, residual in zip(tensors, residuals):
            lanes.append(kernels.new_lanes(tensor))
            kernels.quantize(tensor, agreed, lanes[-1], residual)
        result = torch.zeros(ELEMENTS)
        kernels.dequantize(lanes[0] + lanes[1], agreed, result)
        results.append(result)
    return results


def wrong_results(seed, monkeypatch, streams=LateStreams, waits=True):
    """How many results of a run are wrong, of all ranks and steps."""
    machine = late_cuda.Machine(seed, WORLD)
    ranks = []
    for index in range(WORLD):
        rank = Rank(machine, index, monkeypatch, streams)
        rank.train(waits)
        rank.check_memory()
        ranks.append(rank)
    machine.run()
    correct = expected()
    assert all(reduction.done() and reduction.report()["elements"] == ELEMENTS for rank in ranks for reduction, _, _ in rank.kept)
    return sum(not torch.equal(found, result) for rank in ranks for found, result in zip(rank.results, correct))


@pytest.mark.parametrize("seed", range(8))
def test_results_are_right_in_any_order_that_streams_allow(seed, monkeypatch):
    assert wrong_results(seed, monkeypatch) == 0, f"seed {seed}"


class BeforeTheCaller(LateStreams):
    """Kernels do not wait for what the caller's stream does."""

    def out(self, tensors):
        self._out.wait_stream = lambda other: None
        return super().out(tensors)


class WithoutExponents(LateStreams):
    """Lanes are made before the exponents are agreed."""

    def after(self, work):
        if work.op != "max":
            super().after(work)


class WithoutSums(LateStreams):
    """Results are made before the sums are there."""

    def after(self, work):
        if work.op != "sum":
            super().after(work)


class OverTooEarly(LateStreams):
    """The end is recorded in the stream of the lanes."""

    def record(self):
        event = _streams.cuda.Event()
        event.record(self._out)
        return _streams.Event(event, self._device)


@pytest.mark.parametrize("streams", [BeforeTheCaller, WithoutExponents, WithoutSums, OverTooEarly])
def test_every_wait_is_needed(streams, monkeypatch):
    assert any(wrong_results(seed, monkeypatch, streams) > 0 for seed in range(20)), "no test would notice that it is left out"


def test_a_caller_that_does_not_wait_is_too_early(monkeypatch):
    assert any(wrong_results(seed, monkeypatch, waits=False) > 0 for seed in range(20))


def test_a_call_under_capture_is_refused(monkeypatch):
    machine = late_cuda.Machine(0, WORLD)
    rank = Rank(machine, 0, monkeypatch, LateStreams)
    monkeypatch.setattr(rank.cuda, "is_current_stream_capturing", lambda: True, raising=False)
    with pytest.raises(netfold.TensorError, match="graph"):
        rank.pipeline.start(rank.streams, torch.zeros(ELEMENTS), "sum")
    assert not machine.operations[0] and not any(stream.items for stream in machine.streams)
