"""Connects to each of the targets in NETFOLD_TEST_TARGETS, and reports the exception and its time.

As ``connect_errors.py python`` by the package alone, as ``connect_errors.py torch`` as one rank of groups of netfold.torch.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Callable, Dict

import netfold

JOIN_TIMEOUT = 20.0


def by_python(target: Dict[str, Any]) -> Callable[[], Any]:
    options = dict(target)
    rendezvous = options["rendezvous"]
    # Alone, or as one that connects to the rendezvous.
    place = (1, 2) if rendezvous else (0, 1)
    return lambda: netfold.Communicator(*place, job="train", join_timeout=JOIN_TIMEOUT, **options)


def by_torch(target: Dict[str, Any]) -> Callable[[], Any]:
    import netfold.torch
    import torch.distributed as dist

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    by_torch.number += 1
    if by_torch.store is None:
        by_torch.store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world, rank == 0)
    store = dist.PrefixStore(str(by_torch.number), by_torch.store)
    options = {name: value for name, value in target.items() if name != "rendezvous"}
    options = netfold.torch.Options(shared_memory=False, fall_back=False, **options)
    # The ranks begin at one time.
    store.add("ready", 1)
    while store.add("ready", 0) < world:
        time.sleep(0.001)
    return lambda: dist.init_process_group("netfold", store=store, rank=rank, world_size=world, pg_options=options)


by_torch.number = 0
by_torch.store = None


def attempt(connect: Callable[[], Any]) -> Dict[str, Any]:
    start = time.monotonic()
    try:
        connect()
    except netfold.Error as error:
        name = f"{type(error).__module__}.{type(error).__qualname__}"
        return {"message": f"{name}: {error}", "seconds": time.monotonic() - start}
    return {"message": "no exception", "seconds": time.monotonic() - start}


if __name__ == "__main__":
    make = {"python": by_python, "torch": by_torch}[sys.argv[1]]
    targets = json.loads(os.environ["NETFOLD_TEST_TARGETS"])
    print("RESULT " + json.dumps([attempt(make(target)) for target in targets]), flush=True)
    # Without interpreter shutdown races of gloo's threads.
    sys.stdout.flush()
    os._exit(0)
