"""Operations on tensors of CUDA devices."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Dict, List, Optional

import torch

from ._work import NetfoldWork, _Work, done


def on_device(tensor: torch.Tensor) -> bool:
    """Whether kernels work on a tensor: on a CUDA device, or in host memory where Triton interprets them."""
    if tensor.device.type == "cuda":
        return True
    from ..triton import interpreted

    return tensor.device.type == "cpu" and interpreted()


class DeviceWork(NetfoldWork):
    """An operation of the library on tensors of a CUDA device, ordered by streams as NCCL's are.

    ``wait`` makes the current stream wait for the output, and not the thread; so does the future. Both know failures up to then. An operation
    that fails later leaves NaN in the output (0xFF in every byte), its group's next operation raises, and :meth:`exception` has
    the reason.
    """

    @property
    def _device(self) -> torch.device:
        return self._tensors[0].device

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Makes the current stream wait for the output; raises what the operation has failed with by now."""
        stream = torch.cuda.current_stream(self._device)
        self._native.wait_on_stream(stream.cuda_stream)
        with self._finishing:
            finish, self._finish = self._finish, None
            if finish is not None:
                with torch.cuda.stream(stream):
                    finish()
        self.concluded = True
        return True

    def get_future(self) -> Any:
        """A future of the tensors, done at once: what waits for it is a stream."""
        if self._future is None:
            future: Any = torch.futures.Future(devices=[self._device])
            with torch.cuda.stream(torch.cuda.Stream(self._device)):
                self.wait()
                future.set_result(self._tensors)
            self._future = future
        return self._future


class Staged(_Work):
    """An operation of gloo on copies of a device's tensors in host memory: copied back by the first ``wait``, or ``is_completed``."""

    def __init__(self, work: Any, copies: Dict[int, "Copy"], writes: bool) -> None:
        super().__init__()
        self._work = work
        self._copies = list(copies.values()) if writes else []
        self._tensors = [copy.tensor for copy in copies.values()]

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Blocks until the operation is over and its results are on the way to the device, behind the current stream."""
        self._work.wait() if timeout is None else self._work.wait(timeout)
        self._copy_back()
        return True

    def _copy_back(self) -> None:
        copies, self._copies = self._copies, []
        for copy in copies:
            copy.tensor.detach().copy_(copy.staged)

    def get_future(self) -> Any:
        self.wait()
        return done(self._tensors)

    def is_completed(self) -> bool:
        """Whether the operation is over; its results are then on the way, as after ``wait``."""
        if not self._work.is_completed():
            return False
        if self._work.is_success():
            self._copy_back()
        return True

    def is_success(self) -> bool:
        return self.is_completed() and self._work.is_success()

    def exception(self) -> Any:
        return self._work.exception()

    def result(self) -> List[torch.Tensor]:
        return self._tensors

    def synchronize(self) -> None:
        self.wait()


class Copy:
    """A device's tensor and its copy in host memory."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.staged = tensor.detach().cpu()


def staged(argument: Any, copies: Dict[int, Copy]) -> Any:
    """An argument with the tensors of devices, also in lists of lists, replaced by copies, which are put into ``copies``."""
    if isinstance(argument, torch.Tensor):
        if argument.device.type == "cpu":
            return argument
        return copies.setdefault(id(argument), Copy(argument)).staged
    if isinstance(argument, (list, tuple)):
        return [staged(element, copies) for element in argument]
    return argument
