"""Where kernels are launched and what waits for what: streams of a CUDA device, or this thread."""

from __future__ import annotations

import contextlib
from typing import Any, Iterable, Iterator

import torch
import triton
from torch import cuda

from .. import TensorError


def interpreted() -> bool:
    """Whether kernels are interpreted (``TRITON_INTERPRET=1`` when this package was imported): then they work on tensors in host memory, for tests."""
    return not isinstance(_probe, triton.JITFunction)


@triton.jit
def _probe() -> None:
    pass


class Event:
    """A moment in a stream."""

    def __init__(self, event: Any, device: torch.device) -> None:
        self._event = event
        self._device = device

    def wait(self, stream: int) -> None:
        """Makes a stream, the value of its ``cudaStream_t``, wait for the moment."""
        for known in (cuda.current_stream(self._device), cuda.default_stream(self._device)):
            # torch takes the default stream's zero for no stream at all.
            if known.cuda_stream == stream:
                self._event.wait(known)
                return
        self._event.wait(cuda.ExternalStream(stream, device=self._device))

    def is_over(self) -> bool:
        return bool(self._event.query())

    def synchronize(self) -> None:
        """Blocks this thread until the moment."""
        self._event.synchronize()


class CudaStreams:
    """Two streams beside the caller's, one for tensors on their way out and one for results, so that neither waits for the other's kernels."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._out = cuda.Stream(device)
        self._back = cuda.Stream(device)

    @contextlib.contextmanager
    def out(self, tensors: Iterable[torch.Tensor]) -> Iterator[None]:
        """What is launched within comes behind the caller's current stream. ``tensors`` are the caller's."""
        if cuda.is_current_stream_capturing():
            raise TensorError("calls of Netfold cannot be captured into a CUDA graph, which cannot wait for the network", "cuda")
        self._out.wait_stream(cuda.current_stream(self._device))
        for tensor in tensors:
            # The allocator must not give their memory away before these streams are done with it.
            tensor.record_stream(self._out)
            tensor.record_stream(self._back)
        with cuda.stream(self._out):
            yield

    @contextlib.contextmanager
    def back(self, tensors: Iterable[torch.Tensor]) -> Iterator[None]:
        """What is launched within is ordered by :meth:`after` alone. ``tensors`` were made within :meth:`out`."""
        for tensor in tensors:
            tensor.record_stream(self._back)
        with cuda.stream(self._back):
            yield

    def after(self, work: Any) -> None:
        """Makes the stream in use wait for an operation's output."""
        work.wait_on_stream(cuda.current_stream(self._device).cuda_stream)

    def record(self) -> Event:
        """The present moment of the stream in use."""
        event = cuda.Event()
        event.record(cuda.current_stream(self._device))
        return Event(event, self._device)

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """A copy in host memory, there at the next recorded moment."""
        copy = torch.empty(tensor.size(), dtype=tensor.dtype, pin_memory=True)
        return copy.copy_(tensor, non_blocking=True)


class _Now:
    """A moment that is over."""

    def wait(self, stream: int) -> None:
        pass

    def is_over(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass


class NoStreams:
    """Everything happens on this thread, which waits: for the interpreter."""

    @contextlib.contextmanager
    def out(self, tensors: Iterable[torch.Tensor]) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def back(self, tensors: Iterable[torch.Tensor]) -> Iterator[None]:
        yield

    def after(self, work: Any) -> None:
        work.wait()

    def record(self) -> _Now:
        return _Now()

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor


def streams_of(tensor: torch.Tensor) -> Any:
    """Those for a tensor's device."""
    if tensor.device.type == "cuda":
        return CudaStreams(tensor.device)
    if tensor.device.type == "cpu" and interpreted():
        return NoStreams()
    raise TensorError(f"tensors on {tensor.device} are not quantised on their device; pass one on a CUDA device", "wrong_device")
