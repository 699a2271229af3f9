"""The exceptions."""

from __future__ import annotations

from typing import Literal, Optional

Advice = Literal["retry", "shrink", "stop"]


class Error(RuntimeError):
    """Why a call failed. The message has the cause and what to do; the attributes are for programs.

    Errors of an argument (``ArgumentError`` and below) leave the communicator as it was. All others end it: every pending
    and later call then raises the same; make another communicator, or, in a resizable job, :meth:`~netfold.Communicator.shrink` it.
    """

    #: A stable name in snake case, never changed once released.
    kind: str
    #: ``"retry"`` the call or the start, ``"shrink"`` to the ranks that are left, or ``"stop"``.
    advice: Advice
    #: The rank that the error is about, where one is known.
    peer: Optional[int]

    def __init__(self, message: str, kind: str = "error", advice: Advice = "stop", peer: Optional[int] = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.advice = advice
        self.peer = peer

    def __reduce__(self) -> tuple:
        return (type(self), (str(self), self.kind, self.advice, self.peer))


class ArgumentError(Error, ValueError):
    """An invalid argument. Nothing was sent."""


class TensorError(ArgumentError, TypeError):
    """A tensor that cannot be sent: not contiguous, read-only, on another device, or of another type. Nothing was sent."""


class Unreachable(Error, ConnectionError):
    """A switch or another rank cannot be reached."""


class Refused(Error):
    """The switch refused this rank: no slots, another world size, a name that is taken."""


class Mismatch(Error):
    """Ranks called different operations at the same position, or with different lengths or types."""


class PeerLost(Error):
    """Another rank was lost; ``peer`` is its number."""


class Excluded(Error):
    """This rank was taken as lost, and its job continues without it: it can join it as a new rank."""


class NotResized(Error):
    """The job stays as it is: not all ranks asked for another generation in time, or too few new ones came. The call can be repeated."""


class SwitchLost(Error):
    """The switch was lost."""


class Timeout(Error, TimeoutError):
    """A timeout expired: joining, an operation without progress, or a ``wait`` with a time limit."""


class Closed(Error):
    """The communicator was closed or aborted."""


class Forked(Error):
    """The object was made before this process was forked."""


_CLASSES = {
    "address": Unreachable,
    "argument": ArgumentError,
    "closed": Closed,
    "connect": Unreachable,
    "cuda": TensorError,
    "differs": Mismatch,
    "excluded": Excluded,
    "forked": Forked,
    "group_key": Mismatch,
    "interrupted": Closed,
    "join_timeout": Timeout,
    "length": ArgumentError,
    "mesh": Unreachable,
    "mismatch": Mismatch,
    "no_switch": Refused,
    "not_resized": NotResized,
    "not_contiguous": TensorError,
    "overlap": TensorError,
    "peer_lost": PeerLost,
    "read_only": TensorError,
    "refused": Refused,
    "root": ArgumentError,
    "stalled": Timeout,
    "switch_lost": SwitchLost,
    "unsupported": ArgumentError,
    "wait_timeout": Timeout,
    "wrong_device": TensorError,
    "wrong_dtype": TensorError,
    "wrong_type": TensorError,
}


def make(kind: str, message: str, advice: Advice, peer: Optional[int]) -> Error:
    """The exception of a kind. Called by the native module."""
    return _CLASSES.get(kind, Error)(message, kind, advice, peer)
