"""How the ranks of a group find each other and agree, through the group's store."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import socket
import threading
import weakref
from datetime import timedelta
from typing import Any, Callable, List, Optional, Tuple

from .. import ArgumentError, Communicator, Error, Switch, _netfold
from ._options import Options

logger = logging.getLogger("netfold")

#: The longest that a switch waits for a job's workers, for any timeout of the group.
_JOIN_SECONDS_MAX = 60.0
#: The longest that ranks wait for each other to continue a job in place. If they do not come, they make another.
_RESIZE_SECONDS_MAX = 15.0
#: The longest name of a job, in bytes, less the random part.
_JOB_NAME_MAX = 48


class StoreExchange:
    """All-gather of small byte strings over a ``torch.distributed`` store."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        self._store = store
        self._rank = rank
        self._size = size
        self._timeout = timeout
        self._round = 0
        # A program may make a group again over the same store and prefix. All ranks count the groups alike, as each adds
        # one to the counter for each.
        arrivals = store.add(f"netfold/{size}/arrivals", 1)
        #: Begin of the keys of this group, and of no other.
        self.prefix = f"netfold/{size}/{(arrivals - 1) // size}"

    def __call__(self, mine: bytes) -> List[bytes]:
        self._round += 1
        keys = [f"{self.prefix}/{self._round}/{rank}" for rank in range(self._size)]
        # Stores treat empty values differently.
        self._store.set(keys[self._rank], b"=" + bytes(mine))
        self._store.wait(keys, self._timeout)
        return [bytes(self._store.get(key))[1:] for key in keys]


class _Embedded:
    """The switch that this process runs for the groups of which it is rank 0."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._switch: Optional[Switch] = None
        self._process = 0
        self._ip = ""

    def address(self, ip: str) -> str:
        with self._lock:
            if self._switch is None or self._process != os.getpid() or self._ip != ip or not self._switch.running:
                host = f"[{ip}]" if ":" in ip else ip
                self._switch = Switch(f"{host}:0")
                self._process = os.getpid()
                self._ip = ip
            return self._switch.address

    def close(self) -> None:
        if self._switch is not None and self._process == os.getpid():
            self._switch.close()


embedded = _Embedded()
atexit.register(embedded.close)


class _DefaultJob:
    """The job of the process's default group, of which later groups are groups."""

    def __init__(self) -> None:
        self._process = 0
        self._name = ""
        self._communicator: Callable[[], Optional[Communicator]] = lambda: None

    def begin(self, name: str, communicator: Communicator) -> None:
        self._process = os.getpid()
        self._name = name
        self._communicator = weakref.ref(communicator)

    def name(self) -> str:
        """Its name while it runs, else nothing."""
        communicator = self._communicator() if self._process == os.getpid() else None
        if communicator is None or communicator.closed or communicator.failure() is not None:
            return ""
        return self._name


default_job = _DefaultJob()


def connect(
    exchange: StoreExchange,
    rank: int,
    size: int,
    options: Options,
    timeout: timedelta,
    group_id: Optional[str] = None,
    former: Optional[Communicator] = None,
) -> Tuple[Optional[Communicator], str]:
    """The group's communicator, or ``None`` and why there is none: the same on all ranks.

    ``group_id`` is torch's name of a group that torch makes: empty for the default group. Others are groups of its job. ``former`` is the communicator of this
    rank's former group, whose job is continued if it is resizable and all ranks can.
    """
    if options.resizable:
        resized = _resume(exchange, rank, size, options, timeout, former)
        if resized is not None:
            return resized, ""
    word = ""
    if rank == 0:
        word = _first_word(options, group_id)
    kind, address, job, group = exchange(word.encode())[0].decode().split(" ", 3)
    communicator: Optional[Communicator] = None
    verdict = ""
    try:
        _check_quantizer(options)
        communicator = _join(
            (kind, address, job),
            options,
            timeout,
            rank=rank,
            world_size=size,
            group=group or None,
            exchange=exchange,
            resizable=bool(options.resizable) and not group,
        )
    except Error as error:
        # An invalid option is an error on all ranks, whatever may be done without a switch.
        if isinstance(error, ArgumentError):
            verdict = f"?{error}"
        elif options.fall_back is False or options.confidential is not None:
            # gloo would send tensors in clear.
            verdict = f"!{error.kind}: {error}"
        else:
            verdict = f"{error.kind}: {error}"
    verdicts = [text.decode() for text in exchange(verdict.encode())]
    bad = [(index, text) for index, text in enumerate(verdicts) if text]
    if not bad:
        if group_id == "" and communicator is not None:
            default_job.begin(job, communicator)
        _warn_unused(communicator, rank, options)
        return communicator, ""
    if communicator is not None:
        _give_up(communicator)
    # What must not be left to gloo on one rank is not on any.
    order = {"?": 0, "!": 1}
    first, why = min(bad, key=lambda verdict: order.get(verdict[1][0], 2))
    if why.startswith("?"):
        raise ArgumentError(f"netfold on rank {first}: {why[1:]}", "argument")
    if why.startswith("!"):
        raise Error(f"rank {first} has no path to the group: {why[1:]}", "refused")
    return None, f"rank {first}: {why}"


def _check_quantizer(options: Options) -> None:
    """Raises where tensors cannot be quantised as the options have it."""
    if options.quantize == "host":
        return
    if options.quantize != "device":
        raise ArgumentError(f"there is no quantize='{options.quantize}'; give host or device", "argument")
    try:
        from ..triton import MODES
    except ImportError as error:
        raise ArgumentError(f"quantize='device' needs Triton ({error}): pip install triton, or give quantize='host'", "argument") from None
    if options.mode not in MODES:
        modes = " or ".join(MODES)
        raise ArgumentError(f"mode '{options.mode}' is not quantised on devices; give mode {modes}, or quantize='host'", "argument")
    if options.tolerance or options.without_stragglers:
        raise ArgumentError("sums of lanes are exact: quantize='device' and a tolerance exclude each other", "argument")


def _join(at: Tuple[str, str, str], options: Options, timeout: timedelta, **more: Any) -> Communicator:
    """Joins the job ``at`` (kind and address of its control port, name)."""
    kind, address, job = at
    communicator = Communicator(
        job=job,
        switch=address if kind == "switch" else None,
        controller=address if kind == "controller" else None,
        controller_ca=options.controller_ca,
        tenant=options.tenant,
        token=options.token,
        trees=options.trees if kind == "controller" else None,
        mode=options.mode or "bfp32",
        slots=options.slots,
        classes=options.classes,
        busy_poll=None if options.busy_poll is None else options.busy_poll * 1e-6,
        rounding=options.rounding,
        seed=options.seed,
        tolerance=options.tolerance,
        rescale=options.rescale is not False,
        without_stragglers=bool(options.without_stragglers),
        confidential=options.confidential,
        authenticated=bool(options.authenticated),
        local_ip=_host_ip(),
        shared_memory=options.shared_memory,
        fall_back=options.fall_back,
        stall_timeout=timeout.total_seconds(),
        warn_unused_switch=False,
        **{"join_timeout": min(timeout.total_seconds(), _JOIN_SECONDS_MAX), **more},
    )
    _places[communicator] = at
    return communicator


#: Where communicators have joined: kind and address of the control port, and the job's name.
_places: "weakref.WeakKeyDictionary[Communicator, Tuple[str, str, str]]" = weakref.WeakKeyDictionary()


def plan(words: List[str]) -> Optional[Tuple[int, Tuple[str, str, str]]]:
    """How many ranks are to join which job, if the ranks can continue their former job in place.

    ``words`` has of each rank the generation, the rank and the job of its former group, or ``-``. Ranks that continue keep their order and come
    before those that join, as the job numbers them.
    """
    continuing = [word.split(" ", 4) for word in words if word != "-"]
    if not continuing or any(word == "-" for word in words[: len(continuing)]):
        return None
    if len({(generation, kind, address, job) for generation, _, kind, address, job in continuing}) != 1:
        return None
    ranks = [int(rank) for _, rank, *_ in continuing]
    if any(second <= first for first, second in zip(ranks, ranks[1:])):
        return None
    _, _, kind, address, job = continuing[0]
    return len(words) - len(continuing), (kind, address, job)


def _resume(
    exchange: StoreExchange, rank: int, size: int, options: Options, timeout: timedelta, former: Optional[Communicator]
) -> Optional[Communicator]:
    """The communicator of a job that continues in place. ``None`` on all ranks if one of them cannot; then ``former`` is closed."""
    at = _places.get(former) if former is not None else None
    word = "-"
    if former is not None and at is not None and former.generation > 0:
        word = f"{former.generation} {former.rank} {' '.join(at)}"
    communicator: Optional[Communicator] = None
    problem = "no former job"
    resized = False
    try:
        found = plan([text.decode() for text in exchange(word.encode())])
        if found is not None:
            joining, at = found
            seconds = min(timeout.total_seconds(), _RESIZE_SECONDS_MAX)
            problem = ""
            try:
                if former is None:
                    communicator = _join(at, options, timeout, join_running=True, join_timeout=seconds)
                else:
                    communicator = former
                    if joining > 0:
                        former.grow(joining, seconds)
                    else:
                        former.shrink(seconds)
                if (communicator.rank, communicator.world_size) != (rank, size):
                    problem = f"rank {communicator.rank} of {communicator.world_size}, not {rank} of {size}"
            except Error as error:
                problem = str(error)
        problems = [text.decode() for text in exchange(problem.encode())]
        resized = not any(problems)
        if not resized and found is not None and rank == 0:
            logger.warning("netfold: the job is not continued in place: %s", next(text for text in problems if text))
    finally:
        if not resized:
            for left in {communicator, former} - {None}:
                _give_up(left)
    return communicator if resized else None


def _give_up(communicator: Communicator) -> None:
    try:
        communicator.abort()
        communicator.close()
    except Error:
        pass  # It was over already.


def _warn_unused(communicator: Optional[Communicator], rank: int, options: Options) -> None:
    """Warns on rank 0 of a switch or controller that was configured and is not used. The switch in rank 0's process was not."""
    configured = f"controller {options.controller}" if options.controller else f"switch {options.switch}"
    if communicator is None or rank != 0 or not (options.controller or options.switch):
        return
    reason = communicator.unused_switch
    if reason is not None:
        logger.warning("netfold: the configured %s is not used: %s", configured, reason)


def _first_word(options: Options, group_id: Optional[str]) -> str:
    """How the job is joined, the address, the job's name and the group's, by rank 0. The group's is empty where it is a job of its own."""
    run = options.job or _launchers_name()
    # The random part distinguishes groups of one run, and restarts of it.
    group = ""
    job = default_job.name() if group_id else ""
    if job:
        group = _unique(group_id or "")
    else:
        job = _unique(run)
    if options.switch:
        return f"switch {options.switch} {job} {group}"
    if options.controller:
        return f"controller {options.controller} {job} {group}"
    try:
        address = embedded.address(options.listen or _host_ip())
    except Error as error:
        logger.warning("netfold: no software switch in this process: %s", error)
        return f"none - {job} {group}"
    return f"switch {address} {job} {group}"


def _launchers_name() -> str:
    """What the launcher calls this training."""
    return _netfold.launchers_job() or "torch"


def _unique(name: str) -> str:
    """A name for the switch that no other process gives."""
    plain = "".join(letter if letter.isascii() and letter.isprintable() and letter not in " /" else "_" for letter in name)
    return f"{plain[:_JOB_NAME_MAX]}.{secrets.token_hex(4)}"


def _host_ip() -> str:
    """Where the other ranks reach this host: loopback when they are all on it."""
    if os.environ.get("LOCAL_WORLD_SIZE", "") == os.environ.get("WORLD_SIZE", "?"):
        return "127.0.0.1"
    master = os.environ.get("MASTER_ADDR", "localhost")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Sends nothing: asks the system which address it would use.
            probe.connect((master, int(os.environ.get("MASTER_PORT", "29500"))))
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return "127.0.0.1"
