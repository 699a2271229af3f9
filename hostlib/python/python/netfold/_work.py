"""Operations in flight."""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Dict, Generator, Generic, Optional, TypeVar

from . import _netfold
from ._errors import Error

T = TypeVar("T")


class Work(Generic[T]):
    """An operation in flight, and its result.

    The tensors are kept until it is over, whether or not anyone keeps this object. It can be waited for by any thread, many
    times, and awaited in asyncio::

        work = comm.all_reduce_async(gradients)
        total = work.wait()         # or: total = await work
    """

    __slots__ = ("_native", "_result", "__weakref__")

    def __init__(self, native: _netfold.Work, result: T) -> None:
        self._native = native
        self._result = result

    def wait(self, timeout: Optional[float] = None) -> T:
        """Blocks until the operation is over and returns its output. The interpreter's lock is released meanwhile.

        Raises what the operation failed with, or ``Timeout`` after ``timeout`` seconds, which ends the waiting only.
        """
        self._native.wait(timeout)
        return self._result

    def done(self) -> bool:
        """Whether ``wait`` would return or raise at once."""
        return self._native.done()

    def exception(self) -> Optional[Error]:
        """What the operation failed with; ``None`` when it succeeded or is under way."""
        return self._native.exception()

    def report(self) -> Optional[Dict[str, Any]]:
        """Counters of the finished operation, such as ``non_finite``, ``partial`` and ``left_out``; ``None`` when it failed or is under way."""
        return self._native.report()

    def add_done_callback(self, callback: Callable[["Work[T]"], object]) -> None:
        """Calls ``callback(work)`` once the operation is over, on a thread of the package."""
        self._native.on_done(lambda: callback(self))

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done():
            loop = asyncio.get_running_loop()
            over: asyncio.Future[None] = loop.create_future()

            def finish() -> None:
                if not over.done():
                    over.set_result(None)

            def wake() -> None:
                try:
                    loop.call_soon_threadsafe(finish)
                except RuntimeError:
                    pass  # The loop was closed, and with it all waiting coroutines.

            self._native.on_done(wake)
            yield from over
        return self.wait()

    def __repr__(self) -> str:
        state = "failed" if self.exception() else "done" if self.done() else "under way"
        return f"<netfold.Work {state}>"
