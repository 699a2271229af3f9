"""What a rank does in the test of netfold.jax."""

import json
import os

import jax
import jax.numpy as jnp
import numpy

import netfold
import netfold.jax

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

comm = netfold.Communicator(job="jax", rendezvous=os.environ["NETFOLD_TEST_RENDEZVOUS"], join_timeout=60.0)


@jax.jit
def everything(x):
    total = netfold.jax.all_reduce(x, comm)
    largest = netfold.jax.all_reduce(x.astype(jnp.int32), comm, "max")
    brain = netfold.jax.all_reduce(x.astype(jnp.bfloat16), comm, "avg")
    rows = netfold.jax.all_gather(x[:2], comm)
    part = netfold.jax.reduce_scatter(jnp.arange(4.0 * WORLD), comm)
    first = netfold.jax.broadcast(x, comm, 1)
    return total, largest, brain, rows, part, first


total, largest, brain, rows, part, first = everything(jnp.full((100,), float(RANK)))
assert (total == sum(range(WORLD))).all() and (largest == WORLD - 1).all() and (brain == (WORLD - 1) / 2).all()
assert rows[:, 0].tolist() == [float(rank) for rank in range(WORLD)] and (first == 1.0).all()
assert part.tolist() == [WORLD * (4.0 * RANK + i) for i in range(4)]


def loss(parameters, inputs, targets):
    return jnp.mean((inputs @ parameters["weights"] + parameters["bias"] - targets) ** 2)


@jax.jit
def step(parameters, inputs, targets):
    gradients = netfold.jax.average(jax.grad(loss)(parameters, inputs, targets), comm)
    return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, parameters, gradients)


truth = jnp.arange(6.0)
parameters = {"weights": jnp.zeros(6), "bias": jnp.zeros(())}
draw = numpy.random.default_rng(RANK)
for _ in range(300):
    inputs = jnp.asarray(draw.standard_normal((16, 6)), jnp.float32)
    parameters = step(parameters, inputs, inputs @ truth + 2.0)
error = float(jnp.abs(parameters["weights"] - truth).max() + abs(parameters["bias"] - 2.0))
netfold.jax.barrier(comm).block_until_ready()
print("RESULT " + json.dumps({"error": error, "weights": [float(w) for w in parameters["weights"]]}))
comm.close()
