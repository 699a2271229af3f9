"""A stand-in for ``torch.cuda`` whose streams do everything late and in any order that they allow, from a seed; and a network that does the same.

Tensors are in host memory. Kernels are functions that a stream calls when its turn comes.
"""

import collections
import contextlib
import random

import torch


def address(tensor):
    """That of a tensor's memory, of views too."""
    return tensor.untyped_storage().data_ptr()


class Event:
    def __init__(self):
        self.over = True

    def record(self, stream):
        self.over = False
        stream.append(lambda: setattr(self, "over", True))

    def wait(self, stream):
        stream.items.append(("wait", self))

    def query(self):
        return self.over


class Stream:
    def __init__(self, machine, name):
        self.machine, self.name = machine, name
        self.items = collections.deque()
        machine.streams.append(self)

    @property
    def cuda_stream(self):
        return self.machine.streams.index(self)

    def append(self, function):
        self.items.append(("run", function))

    def wait_stream(self, other):
        event = Event()
        event.record(other)
        event.wait(self)

    def is_ready(self):
        return bool(self.items) and (self.items[0][0] == "run" or self.items[0][1].over)

    def step(self):
        kind, item = self.items.popleft()
        if kind == "run":
            item()


class Machine:
    """The streams of all ranks, and what the network does."""

    def __init__(self, seed, world):
        self.random = random.Random(seed)
        self.world = world
        self.streams = []
        #: Of each rank, its operations in order.
        self.operations = [[] for _ in range(world)]
        self.copied_in = [0] * world
        self.reduced = 0
        self.copied_out = [0] * world

    def run(self):
        """Until nothing is left to do."""
        while True:
            ready = [stream.step for stream in self.streams if stream.is_ready()]
            ready += [lambda rank=rank: self._copy_in(rank) for rank in range(self.world) if self._may_copy_in(rank)]
            ready += [lambda rank=rank: self._copy_out(rank) for rank in range(self.world) if self.copied_out[rank] < self.reduced]
            if min(self.copied_in) > self.reduced:
                ready.append(self._reduce)
            if not ready:
                break
            self.random.choice(ready)()
        assert all(not stream.items for stream in self.streams), "a stream waits for ever"

    def _may_copy_in(self, rank):
        done = self.copied_in[rank]
        return done < len(self.operations[rank]) and self.operations[rank][done].called.over

    def _copy_in(self, rank):
        operation = self.operations[rank][self.copied_in[rank]]
        operation.staged = operation.tensor.clone()
        # What was copied may be overwritten before the output comes.
        operation.tensor.fill_(0x2A)
        self.copied_in[rank] += 1

    def _reduce(self):
        together = [operations[self.reduced] for operations in self.operations]
        stacked = torch.stack([operation.staged for operation in together])
        result = stacked.amax(0) if together[0].op == "max" else stacked.sum(0, dtype=together[0].tensor.dtype)
        for operation in together:
            operation.staged = result
        self.reduced += 1

    def _copy_out(self, rank):
        operation = self.operations[rank][self.copied_out[rank]]
        operation.tensor.copy_(operation.staged)
        operation.output.over = True
        self.copied_out[rank] += 1


class Operation:
    """An operation of the library, and its work."""

    def __init__(self, machine, tensor, op, stream):
        self.machine, self.tensor, self.op = machine, tensor, op
        self.called, self.output = Event(), Event()
        self.output.over = False
        self.called.record(stream)

    def wait_on_stream(self, stream):
        self.output.wait(self.machine.streams[stream])

    def exception(self):
        return None

    def done(self):
        return self.output.over

    def report(self):
        return {"chunks": 1}


class Cuda:
    """What ``netfold.triton`` uses of ``torch.cuda``, for one rank."""

    def __init__(self, machine):
        self.machine = machine
        self._current = [Stream(machine, "caller")]
        self.Event = Event

    def Stream(self, device):
        return Stream(self.machine, f"stream {len(self.machine.streams)}")

    def ExternalStream(self, number, device):
        # As torch does: zero is not the default stream but a new one.
        return self.machine.streams[number] if number != 0 else self.Stream(device)

    def default_stream(self, device):
        return self._current[0]

    def current_stream(self, device=None):
        return self._current[-1]

    def is_current_stream_capturing(self):
        return False

    @contextlib.contextmanager
    def stream(self, stream):
        self._current.append(stream)
        try:
            yield
        finally:
            self._current.pop()


class LateQuantizer:
    """A quantiser whose kernels are called by streams. Notes which tensor is used by which stream."""

    def __init__(self, kernels, cuda):
        self._kernels, self._cuda = kernels, cuda
        self.block, self.blocks = kernels.block, kernels.blocks
        #: Where memory was made, and the streams that use it, by address.
        self.homes, self.uses = {}, []

    def _made(self, tensor):
        self.homes[address(tensor)] = self._cuda.current_stream().name
        return tensor

    def new_lanes(self, tensor):
        return self._made(self._kernels.new_lanes(tensor))

    def new_exponents(self, tensor):
        return self._made(self._kernels.new_exponents(tensor))

    def _launch(self, kernel, *arguments):
        stream = self._cuda.current_stream()
        used = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
        self.uses += [(address(tensor), stream.name) for tensor in used]
        stream.append(lambda: kernel(*arguments))

    def exponents(self, *arguments):
        self._launch(self._kernels.exponents, *arguments)

    def quantize(self, *arguments):
        self._launch(self._kernels.quantize, *arguments)

    def dequantize(self, *arguments):
        self._launch(self._kernels.dequantize, *arguments)
