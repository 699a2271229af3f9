"""The options of a group."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, Optional

from .. import _environment


@dataclass
class Options:
    """Options of a group. Those that are ``None`` come from the environment, else they have the library's default."""

    #: ``HOST:PORT`` of a switch's own control port.
    switch: Optional[str] = None
    #: ``HOST:PORT`` of a controller's port for workers, or of a switch's (``NETFOLD_CONTROLLER``). Without it and without a switch, rank 0
    #: of the group runs a software switch.
    controller: Optional[str] = None
    #: File (PEM) of the authorities for the controller's certificate: the connection uses TLS (``NETFOLD_CA``).
    controller_ca: Optional[str] = None
    #: The job's tenant at the controller (``NETFOLD_TENANT``), and its token (``NETFOLD_TOKEN``).
    tenant: Optional[str] = None
    token: Optional[str] = None
    #: Trees of switches for the group's job (``NETFOLD_TREES``). Default 1.
    trees: Optional[int] = None
    #: How floating-point tensors are encoded on the network: ``bfp32`` (default) or ``bfp16`` (``NETFOLD_MODE``).
    mode: Optional[str] = None
    #: How numbers are rounded to the encoding: ``nearest`` (default) or ``stochastic`` (``NETFOLD_ROUNDING``).
    rounding: Optional[str] = None
    #: The seed of stochastic rounding (``NETFOLD_SEED``). Default 0.
    seed: Optional[int] = None
    #: Where sums and averages of CUDA tensors of floating point are quantised: by the ``host`` (default), or on the ``device`` by kernels of Triton
    #: (``NETFOLD_QUANTIZE``). The same on all ranks.
    quantize: Optional[str] = None
    #: The fraction of each rank's contributions that sums and averages of floats may lack where the network is congested, 0 to 1
    #: (``NETFOLD_TOLERANCE``). Default 0: every contribution is in every sum.
    tolerance: Optional[float] = None
    #: Whether a sum that lacks contributions is multiplied by ranks over contributors (``NETFOLD_RESCALE``). Default yes; for the hook with error
    #: feedback no.
    rescale: Optional[bool] = None
    #: Whether sums are also completed without stragglers' contributions (``NETFOLD_WITHOUT_STRAGGLERS``). Default no.
    without_stragglers: Optional[bool] = None
    #: File of the group key that makes the group confidential (``NETFOLD_CONFIDENTIAL``): switches see masked lanes only. A group that cannot be
    #: confidential is an error, and never left to gloo. Default: not confidential.
    confidential: Optional[str] = None
    #: Whether packets between workers and switches are authenticated (``NETFOLD_AUTHENTICATED``). Default no.
    authenticated: Optional[bool] = None
    #: Begin of the job's name at the switch (``NETFOLD_JOB``). Default: torchrun's run id, or Slurm's job and step.
    job: Optional[str] = None
    #: Whether the job shrinks and grows in place when torchft changes its ranks (``NETFOLD_RESIZABLE``). Default no: each configuration is a job of its own.
    resizable: Optional[bool] = None
    #: Slots of the switch to request (``NETFOLD_SLOTS``).
    slots: Optional[int] = None
    #: Classes of operations, 1 to 16, a power of two (``NETFOLD_CLASSES``): what the DDP hook needs to have front layers' gradients
    #: overtake others, and FSDP2 to have its gathers and the first layers' gradients do. Default 1; 2 for the hook.
    classes: Optional[int] = None
    #: Microseconds for which a thread that waits for results polls before it sleeps (``NETFOLD_BUSY_POLL``). Default 0. Takes a core while
    #: results are awaited.
    busy_poll: Optional[int] = None
    #: Whether ranks of one host reduce through shared memory first (``NETFOLD_SHARED_MEMORY``). Default yes.
    shared_memory: Optional[bool] = None
    #: Whether to continue without the switch when it is unavailable (``NETFOLD_FALL_BACK``). Default yes.
    fall_back: Optional[bool] = None
    #: IP at which the software switch of rank 0 listens (``NETFOLD_LISTEN``). Default: loopback when all ranks are on one
    #: host, else the address that ``MASTER_ADDR`` names.
    listen: Optional[str] = None

    def resolved(self) -> "Options":
        """These options, with those that are not given taken from the environment."""

        def text(given: Optional[str], name: str) -> Optional[str]:
            return given if given is not None else os.environ.get(name) or None

        def flag(given: Optional[bool], name: str) -> bool:
            return given if given is not None else _environment.flag(name, True)

        slots = self.slots
        if slots is None and os.environ.get("NETFOLD_SLOTS"):
            slots = _environment.number("NETFOLD_SLOTS")
        seed = self.seed
        if seed is None and os.environ.get("NETFOLD_SEED"):
            seed = _environment.number("NETFOLD_SEED")
        classes = self.classes
        if classes is None and os.environ.get("NETFOLD_CLASSES"):
            classes = _environment.number("NETFOLD_CLASSES")
        busy_poll = self.busy_poll
        if busy_poll is None and os.environ.get("NETFOLD_BUSY_POLL"):
            busy_poll = _environment.number("NETFOLD_BUSY_POLL")
        tolerance = self.tolerance
        if tolerance is None and os.environ.get("NETFOLD_TOLERANCE"):
            tolerance = _environment.part("NETFOLD_TOLERANCE")
        without_stragglers = self.without_stragglers
        if without_stragglers is None and os.environ.get("NETFOLD_WITHOUT_STRAGGLERS"):
            without_stragglers = _environment.flag("NETFOLD_WITHOUT_STRAGGLERS", False)
        rescale = self.rescale
        if rescale is None and os.environ.get("NETFOLD_RESCALE"):
            rescale = _environment.flag("NETFOLD_RESCALE", True)
        authenticated = self.authenticated
        if authenticated is None:
            authenticated = _environment.flag("NETFOLD_AUTHENTICATED", False)
        resizable = self.resizable
        if resizable is None:
            resizable = _environment.flag("NETFOLD_RESIZABLE", False)
        trees = self.trees
        if trees is None and os.environ.get("NETFOLD_TREES"):
            trees = _environment.number("NETFOLD_TREES")
        address, tenant, token = self.controller, self.tenant, self.token
        if self.switch is None:
            address, tenant, token = _environment.controller(address, tenant, token)
        return Options(
            switch=self.switch,
            controller=address,
            controller_ca=text(self.controller_ca, "NETFOLD_CA"),
            tenant=tenant,
            token=token,
            trees=trees,
            mode=text(self.mode, "NETFOLD_MODE") or "bfp32",
            rounding=text(self.rounding, "NETFOLD_ROUNDING"),
            seed=seed,
            quantize=text(self.quantize, "NETFOLD_QUANTIZE") or "host",
            tolerance=tolerance,
            rescale=rescale,
            without_stragglers=without_stragglers,
            confidential=text(self.confidential, "NETFOLD_CONFIDENTIAL"),
            authenticated=authenticated,
            job=text(self.job, "NETFOLD_JOB"),
            resizable=resizable,
            slots=slots,
            classes=classes,
            busy_poll=busy_poll,
            shared_memory=flag(self.shared_memory, "NETFOLD_SHARED_MEMORY"),
            fall_back=flag(self.fall_back, "NETFOLD_FALL_BACK"),
            listen=text(self.listen, "NETFOLD_LISTEN"),
        )

    @staticmethod
    def of(given: Any) -> "Options":
        """Options from what a caller passed as ``pg_options``."""
        if given is None:
            return Options().resolved()
        if isinstance(given, Options):
            return given.resolved()
        if isinstance(given, dict):
            fields: Dict[str, Any] = given
            return Options(**fields).resolved()
        # Options of another backend, such as nccl's in "cpu:netfold,cuda:nccl", are ignored.
        return Options().resolved()
