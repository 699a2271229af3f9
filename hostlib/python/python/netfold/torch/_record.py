"""What a group has done and what it is waiting for, for programs that report their use and for finding a rank that waits."""

from __future__ import annotations

import collections
import threading
import time
import weakref
from typing import Any, Callable, Deque, Dict, List, Sequence

import torch

from ._work import NetfoldWork

#: Operations that are over and kept all the same, at most, because nothing has waited for them yet.
_KEPT_MAX = 64

#: Where operations are done: with packets of this rank through a switch; among the hosts; by gloo.
PLACES = ("switch", "hosts", "gloo")


class Operation:
    """An operation that was started."""

    def __init__(self, number: int, collective: str, tensors: Sequence[torch.Tensor], work: Callable[[], Any]) -> None:
        self.number = number
        self.collective = collective
        self.elements = sum(tensor.numel() for tensor in tensors)
        self.dtype = str(tensors[0].dtype).replace("torch.", "") if tensors else ""
        self.begun = time.monotonic()
        #: The work, or ``None`` when it was collected.
        self.work = work

    def is_over(self) -> bool:
        work = self.work()
        return work is None or work.is_completed()

    def place(self) -> str:
        """Where it was done, once it is over; empty when it failed, or is counted already."""
        work = self.work()
        report = work.report() if isinstance(work, NetfoldWork) else None
        if report is None:
            return ""
        return "switch" if report["chunks"] > 0 else "hosts"

    def describe(self) -> str:
        """The collective, its place in the order of the group's calls, its length and its age."""
        what = f" of {self.elements} x {self.dtype}" if self.dtype else ""
        return f"{self.collective}{what}, call {self.number} of the group, for {time.monotonic() - self.begun:.1f} s"


class Record:
    """The operations of a group. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = 0
        self._pending: Deque[Operation] = collections.deque()
        # torch 1.13 keeps the part of a work that is written in C++ alone, and waits for ever if the part in Python is gone.
        self._kept: Deque[NetfoldWork] = collections.deque(maxlen=_KEPT_MAX)
        self._counts: Dict[str, Dict[str, int]] = {place: {} for place in PLACES}

    def start(self, collective: str, tensors: Sequence[torch.Tensor], work: Any) -> None:
        """Notes an operation. Work of the library is kept until it is over and something has waited for it, or its future has."""
        with self._lock:
            self._started += 1
            reference = (lambda: work) if isinstance(work, NetfoldWork) else _reference(work)
            if not isinstance(work, NetfoldWork):
                self._count("gloo", collective)
            self._pending.append(Operation(self._started, collective, tensors, reference))
            self._sweep()

    def counts(self) -> Dict[str, Dict[str, int]]:
        """Numbers of operations that are over, by place and collective; of gloo, of those that were started."""
        with self._lock:
            self._sweep()
            return {place: dict(counts) for place, counts in self._counts.items()}

    def waiting(self) -> List[str]:
        """Descriptions of the operations under way, oldest first."""
        with self._lock:
            self._sweep()
            return [operation.describe() for operation in self._pending if not operation.is_over()]

    def clear(self) -> None:
        """Forgets what is under way."""
        with self._lock:
            self._sweep()
            self._pending.clear()
            self._kept.clear()

    def _sweep(self) -> None:
        while self._kept and self._kept[0].concluded:
            self._kept.popleft()
        while self._pending and self._pending[0].is_over():
            operation = self._pending.popleft()
            place = operation.place()
            if place:
                self._count(place, operation.collective)
            work = operation.work()
            if isinstance(work, NetfoldWork) and not work.concluded:
                self._kept.append(work)

    def _count(self, place: str, collective: str) -> None:
        counts = self._counts[place]
        counts[collective] = counts.get(collective, 0) + 1


def _reference(work: Any) -> Callable[[], Any]:
    """A reference that does not keep torch's work."""
    try:
        return weakref.ref(work)
    except TypeError:
        return lambda: None
