"""Operations in flight, for torch.distributed."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, Dict, List, Optional, Sequence

import torch
import torch.distributed as dist

from .. import _netfold
from ._layout import Finish

try:
    from torch._C._distributed_c10d import Work as _Work
except ImportError:  # torch without distributed
    _Work = object  # type: ignore[assignment,misc]


class NetfoldWork(_Work):
    """An operation of the library.

    A failure is visible in every interface of torch: ``wait`` raises, and the future fails. The future
    must not be failed by ``set_exception``, which makes DDP's backward crash; a future that a callback derived from another
    one fails properly when the callback raises.
    """

    def __init__(self, native: _netfold.Work, tensors: List[torch.Tensor], finish: Finish = None) -> None:
        super().__init__()
        self._native = native
        self._tensors = tensors
        self._finish = finish
        self._finishing = threading.Lock()
        #: Whether its end was seen: by a wait, or by a future.
        self.concluded = False
        self._future: Optional[Any] = None

    def _conclude(self) -> None:
        """Raises what the operation failed with; what is left to do after it is done once."""
        error = self._native.exception()
        if error is not None:
            self.concluded = True
            raise error
        with self._finishing:
            finish, self._finish = self._finish, None
            if finish is not None:
                finish()
        self.concluded = True

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Blocks until the operation is over, and raises what it failed with."""
        seconds = timeout.total_seconds() if timeout is not None else 0.0
        # torch passes zero, or a negative time, when it means none.
        self._native.wait(seconds if seconds > 0.0 else None)
        self._conclude()
        return True

    def get_future(self) -> Any:
        """A future of the tensors, which fails when the operation does."""
        if self._future is None:
            over: Any = torch.futures.Future()

            def check(_: Any) -> List[torch.Tensor]:
                self._conclude()
                return self._tensors

            self._future = over.then(check)
            self._native.on_done(lambda: over.set_result(None))
        return self._future

    def is_completed(self) -> bool:
        """Whether the operation is over."""
        return self._native.done()

    def is_success(self) -> bool:
        """Whether the operation is over and has not failed."""
        return self._native.done() and self._native.exception() is None

    def exception(self) -> Optional[BaseException]:
        """What the operation failed with."""
        return self._native.exception()

    def report(self) -> Optional[Dict[str, Any]]:
        """Counters of the operation, such as ``partial`` and ``left_out``; ``None`` when it failed or is under way."""
        return self._native.report()

    def result(self) -> List[torch.Tensor]:
        """The tensors."""
        return self._tensors

    def synchronize(self) -> None:
        """As ``wait``."""
        self.wait()


def done(tensors: Sequence[torch.Tensor]) -> Any:
    """A future that is done, of tensors on any devices."""
    devices = sorted({str(tensor.device) for tensor in tensors if tensor.device.type == "cuda"})
    future: Any = torch.futures.Future(devices=devices) if devices else torch.futures.Future()
    future.set_result(list(tensors))
    return future


class Done(_Work):
    """Work that was over before it was returned."""

    def __init__(self, tensors: List[torch.Tensor]) -> None:
        super().__init__()
        self._tensors = tensors

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        return True

    def get_future(self) -> Any:
        return done(self._tensors)

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def result(self) -> List[torch.Tensor]:
        return self._tensors


class Together(_Work):
    """Several operations as one: of the ``_coalesced`` forms, whose tensors are operations of their own."""

    def __init__(self, works: Sequence[Any], tensors: List[torch.Tensor]) -> None:
        super().__init__()
        self._works = works
        self._tensors = tensors

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Blocks until all are over, each as long as ``timeout``, and raises what the first of them failed with."""
        for work in self._works:
            work.wait() if timeout is None else work.wait(timeout)
        return True

    def get_future(self) -> Any:
        """A future of all tensors, which fails when one of the operations does."""
        futures = torch.futures.collect_all([work.get_future() for work in self._works])

        def check(all_of_them: Any) -> List[torch.Tensor]:
            for future in all_of_them.value():
                future.value()
            return self._tensors

        return futures.then(check)

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def exception(self) -> Optional[BaseException]:
        """What the first operation that failed did so with."""
        return next((error for error in (work.exception() for work in self._works) if error is not None), None)

    def result(self) -> List[torch.Tensor]:
        return self._tensors

    def synchronize(self) -> None:
        self.wait()


#: torch's names of the reductions, for tensors of floating point and of integers.
REDUCTIONS = {
    "SUM": "sum",
    "AVG": "avg",
    "PRODUCT": "product",
    "MIN": "min",
    "MAX": "max",
    "BAND": "band",
    "BOR": "bor",
    "BXOR": "bxor",
}


def reduction(options: Any) -> Optional[str]:
    """The reduction's name in the library; ``None`` for those that it does not have."""
    op = getattr(options, "reduceOp", dist.ReduceOp.SUM)
    # A plain enumerator in 1.13; since then an object that holds one.
    for name, ours in REDUCTIONS.items():
        if hasattr(dist.ReduceOp, name) and op == getattr(dist.ReduceOp, name):
            return ours
    return None
