"""Data-parallel training in JAX: each process is a rank, gradients are averaged inside the jitted step.

    for rank in 0 1; do RANK=$rank WORLD_SIZE=2 python hostlib/python/examples/jax_regression.py & done; wait

Ranks find each other at ``--rendezvous``; with ``--switch HOST:PORT`` their gradients go through a switch.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy

import netfold
import netfold.jax

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--rendezvous", default="127.0.0.1:29620")
parser.add_argument("--switch")
parser.add_argument("--steps", type=int, default=400)
options = parser.parse_args()

comm = netfold.Communicator(job="regression", rendezvous=options.rendezvous, switch=options.switch)


def loss(parameters, inputs, targets):
    hidden = jnp.tanh(inputs @ parameters["first"] + parameters["bias"])
    return jnp.mean((hidden @ parameters["second"] - targets) ** 2)


@jax.jit
def step(parameters, inputs, targets):
    value, gradients = jax.value_and_grad(loss)(parameters, inputs, targets)
    gradients = netfold.jax.average(gradients, comm)
    value = netfold.jax.all_reduce(value, comm, "avg")
    return value, jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, parameters, gradients)


draw = numpy.random.default_rng(comm.rank)
same = numpy.random.default_rng(1)
parameters = {
    "first": jnp.asarray(3 * same.standard_normal((2, 32)), jnp.float32),
    "bias": jnp.asarray(same.standard_normal(32), jnp.float32),
    "second": jnp.zeros(32),
}
for number in range(options.steps):
    inputs = jnp.asarray(draw.uniform(-1, 1, (128, 2)), jnp.float32)
    value, parameters = step(parameters, inputs, inputs[:, 0] * inputs[:, 1])
    if comm.rank == 0 and number % 50 == 0:
        print(f"step {number:4}  loss {float(value):.5f}  over {comm.path}")
jax.block_until_ready(parameters)
comm.close()
