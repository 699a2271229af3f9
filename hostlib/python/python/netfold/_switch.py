"""A software switch in this process."""

from __future__ import annotations

import weakref
from types import TracebackType
from typing import Dict, Optional, Type

from . import _netfold
from ._errors import Error

_running: "weakref.WeakSet[Switch]" = weakref.WeakSet()


class Switch:
    """A software switch in threads of this process, for tests, examples and small jobs.

    Workers of any process join at its ``address``. It is what the command ``netfold switch`` runs::

        with netfold.Switch() as switch:
            comm = netfold.Communicator(rank, world_size, switch=switch.address)
    """

    def __init__(
        self,
        listen: str = "127.0.0.1:0",
        *,
        payload: int = 1408,
        slots: int = 8192,
        join_timeout: float = 30.0,
    ) -> None:
        """Listens at ``listen`` (``IP:PORT``; port 0 takes any free one) by TCP and UDP.

        ``payload`` is that of a packet, in bytes: 256, 1408, or 8192 for jumbo frames. ``slots`` are divided among jobs.
        A job waits ``join_timeout`` seconds for its workers, from the first.
        """
        self._native = _netfold.Switch(listen, payload, slots, join_timeout)
        _running.add(self)

    @property
    def address(self) -> str:
        """``IP:PORT`` at which workers join."""
        return self._native.address

    @property
    def running(self) -> bool:
        """Whether it is running."""
        return self._native.running

    def counters(self) -> Optional[Dict[str, int]]:
        """The counters, by name; ``None`` after the end."""
        return self._native.counters()

    def close(self) -> None:
        """Ends all jobs and stops the switch. Does nothing the second time."""
        _running.discard(self)
        self._native.close()

    def __enter__(self) -> "Switch":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<netfold.Switch {self.address}>"


def close_all() -> None:
    """Stops all switches. Called at exit, while threads can still be joined."""
    for switch in list(_running):
        try:
            switch._native.close()
        except Error:
            pass  # It had failed, or belongs to the process that this one was forked from.
