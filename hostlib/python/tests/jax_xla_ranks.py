"""What a rank does in the tests of calls from XLA (``jax.ffi``): the scenario that the argument names."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

DEVICES = 2
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"

import jax
import jax.numpy as jnp
import numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import netfold
import netfold._xla
import netfold.jax

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def communicator(rank=RANK, world=WORLD, job="xla", **options):
    switch = os.environ["NETFOLD_TEST_SWITCH"]
    return netfold.Communicator(rank, world, job=job, switch=switch, shared_memory=False, join_timeout=60.0, **options)


def result(**values):
    print("RESULT " + json.dumps(values), flush=True)


def programs():
    """XLA calls the library itself, in order, within loops and branches, and for types of all sizes."""
    comm = communicator()

    def everything(x):
        total = netfold.jax.all_reduce(x, comm)
        largest = netfold.jax.all_reduce(x.astype(jnp.int32), comm, "max")
        # The next two have no data in common: only their order makes them the same on all ranks.
        double = netfold.jax.all_reduce(2 * x, comm)
        triple = netfold.jax.all_reduce(3.0 * x[:7], comm)
        _, sums = jax.lax.scan(lambda carry, _: (carry + 1, netfold.jax.all_reduce(x[:3] + carry, comm)), 0.0, None, length=4)
        chosen = jax.lax.cond(total[0] > 0, lambda: netfold.jax.all_reduce(x[:5], comm), lambda: x[:5])
        done = netfold.jax.barrier(comm)
        return total, largest, double, triple, sums, chosen, netfold.jax.broadcast(x, comm, 1), done

    x = jnp.full((1000,), RANK + 1.0)
    lowered = jax.jit(everything).lower(x).as_text()
    assert lowered.count(f"custom_call @{netfold._xla.TARGET}(") == 8 and "callback" not in lowered, lowered
    total, largest, double, triple, sums, chosen, first, done = jax.jit(everything)(x)
    assert (total == 3).all() and (largest == 2).all() and (double == 6).all() and (triple == 9).all()
    assert sums[:, 0].tolist() == [3.0, 5.0, 7.0, 9.0] and (chosen == 3).all() and (first == 2).all() and done == 0
    for dtype in ("float16", "bfloat16", "int8", "uint16", "int32", "uint32"):
        assert (netfold.jax.all_reduce(jnp.ones(33, dtype), comm) == WORLD).all(), dtype
    # Reductions of these take the hosts; here they are moved only.
    for value in (jnp.asarray([True, False]), jnp.asarray([1 + 2j]), jnp.zeros((2, 0)), jnp.float32(RANK)):
        rows = netfold.jax.all_gather(value, comm)
        assert rows.shape == (WORLD, *value.shape) and rows.dtype == value.dtype and (rows[RANK] == value).all()
    part = netfold.jax.reduce_scatter(jnp.arange(4.0 * WORLD).reshape(2 * WORLD, 2), comm)
    assert part.tolist() == (WORLD * jnp.arange(4.0 * WORLD).reshape(WORLD, 2, 2)[RANK]).tolist()
    result(path=comm.path)
    comm.close()


def donated():
    """A donated array's memory has the result."""
    comm = communicator()
    x = jnp.full((100_000,), RANK + 1.0)
    kept = netfold.jax.all_reduce(x, comm)
    assert (x == RANK + 1).all() and (kept == 3).all()
    before = x.unsafe_buffer_pointer()
    y = jax.jit(lambda x: netfold.jax.all_reduce(x, comm), donate_argnums=0)(x)
    assert x.is_deleted() and y.unsafe_buffer_pointer() == before and (y == 3).all()
    comm.close()
    result(done=True)


def sharded():
    """Each device of each process is a rank of ``shard_map``."""
    world = WORLD * DEVICES
    with ThreadPoolExecutor(DEVICES) as threads:
        ranks = [RANK * DEVICES + device for device in range(DEVICES)]
        comms = list(threads.map(lambda rank: communicator(rank, world), ranks))
    mesh = Mesh(numpy.array(jax.local_devices()), ("device",))
    spec = PartitionSpec("device")

    def body(x):
        # All ranks have a number of their own, so that exchanged devices would show.
        return netfold.jax.all_reduce(x, comms), netfold.jax.all_gather(x[:1], comms), netfold.jax.broadcast(x, comms, 2)

    mapped = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=(spec, spec, spec)))
    x = jax.device_put(jnp.repeat(jnp.asarray(ranks, jnp.float32), 50), NamedSharding(mesh, spec))
    for _ in range(20):
        total, rows, first = mapped(x)
        assert (total == sum(range(world))).all() and (first == 2).all()
        assert rows.reshape(DEVICES, world).tolist() == [list(range(world))] * DEVICES
    for comm in comms:
        comm.close()
    result(done=True)


def refused():
    """What cannot be executed is an error of the call, and the communicator goes on."""
    comm = communicator()
    reduced = jax.jit(lambda x: netfold.jax.all_reduce(x, comm))
    texts = []

    def attempt(call):
        try:
            jax.block_until_ready(call())
            texts.append("no error")
        except Exception as error:
            texts.append(f"{type(error).__name__}: {error}")

    attempt(lambda: netfold.jax.all_reduce(jnp.asarray([1j]), comm))
    attempt(lambda: netfold.jax.all_reduce(jnp.ones(3), comm, "median"))
    attempt(lambda: netfold.jax.broadcast(jnp.ones(3), comm, WORLD))
    attempt(lambda: netfold.jax.reduce_scatter(jnp.ones(2 * WORLD + 1), comm))
    attempt(lambda: netfold.jax.all_reduce(jnp.ones(3), []))
    assert (reduced(jnp.ones(3)) == WORLD).all()
    comm.close()
    attempt(lambda: reduced(jnp.ones(3)))
    attempt(lambda: netfold.jax.all_reduce(jnp.ones(3), comm))
    result(texts=texts)


def lost():
    """Rank 1 ends without a word while rank 0 waits."""
    comm = communicator(stall_timeout=5.0)
    reduced = jax.jit(lambda x: netfold.jax.all_reduce(x, comm))
    reduced(jnp.ones(3)).block_until_ready()
    if RANK == 1:
        os._exit(0)
    try:
        reduced(jnp.ones(100_000)).block_until_ready()
        result(text="no error")
    except Exception as error:
        result(text=str(error))
    os._exit(0)


{"programs": programs, "donated": donated, "sharded": sharded, "refused": refused, "lost": lost}[sys.argv[1]]()
