"""Netfold: collectives that are computed inside the network.

A :class:`Communicator` is one rank's membership of a job; :class:`Switch` starts a software switch in this process. The module
``netfold.torch`` is a backend of ``torch.distributed``; it is imported on request only, as is ``netfold.jax``.

::

    import netfold, numpy

    with netfold.Communicator(rank, world_size, switch="tor:20038", mode="bfp16") as comm:
        gradients = numpy.ones(1_000_003, dtype=numpy.float32)
        comm.all_reduce(gradients, "avg")
"""

import atexit as _atexit

from . import _communicator, _netfold, _switch
from ._communicator import Communicator, Exchange, Membership
from ._errors import (
    ArgumentError,
    Closed,
    Error,
    Excluded,
    Forked,
    Mismatch,
    NotResized,
    PeerLost,
    Refused,
    SwitchLost,
    TensorError,
    Timeout,
    Unreachable,
)
from ._netfold import __version__
from ._switch import Switch
from ._work import Work

__all__ = [
    "ArgumentError",
    "Closed",
    "Communicator",
    "Error",
    "Exchange",
    "Excluded",
    "Forked",
    "Membership",
    "Mismatch",
    "NotResized",
    "PeerLost",
    "Refused",
    "Switch",
    "SwitchLost",
    "TensorError",
    "Timeout",
    "Unreachable",
    "Work",
    "__version__",
]

# Where users import them from; without this, tracebacks would name the private modules.
for _public in (ArgumentError, Closed, Communicator, Error, Excluded, Forked, Membership, Mismatch, NotResized, PeerLost, Refused, Switch, SwitchLost, TensorError, Timeout, Unreachable, Work):
    _public.__module__ = __name__


def _at_exit() -> None:
    # Threads of the library must end before the interpreter does.
    _communicator.close_all()
    _switch.close_all()
    _netfold.shut_down()


_atexit.register(_at_exit)
