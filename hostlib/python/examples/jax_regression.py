"""Data-parallel training in JAX: each process is a rank, gradients are averaged inside the jitted step.

    for rank in 0 1; do RANK=$rank WORLD_SIZE=2 python hostlib/python/examples/jax_regression.py & done; wait

Ranks find each other at ``--rendezvous``; with ``--switch HOST:PORT`` their gradients go through a switch. With ``--compare`` rank 0 trains alone on
the data of all ranks afterwards, and ends with code 1 if a loss differs by more than ``BOUNDS``.
"""

import argparse
import sys

import jax
import jax.numpy as jnp
import numpy

import netfold
import netfold.jax

#: The largest relative difference of a loss from that of one process, by mode.
BOUNDS = {"bfp32": 1e-5, "bfp16": 5e-3}

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--rendezvous", default="127.0.0.1:29620")
parser.add_argument("--switch")
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--mode", choices=tuple(BOUNDS), default="bfp32", help="how gradients travel over the switch")
parser.add_argument("--compare", action="store_true", help="train in one process, too, and compare the losses; all packets go to the switch")
options = parser.parse_args()

# Ranks of one host would fold in shared memory otherwise.
shared_memory = False if options.compare else None
comm = netfold.Communicator(
    job="regression", rendezvous=options.rendezvous, switch=options.switch, mode=options.mode, shared_memory=shared_memory
)


def loss(parameters, inputs, targets):
    hidden = jnp.tanh(inputs @ parameters["first"] + parameters["bias"])
    return jnp.mean((hidden @ parameters["second"] - targets) ** 2)


@jax.jit
def step(parameters, inputs, targets):
    value, gradients = jax.value_and_grad(loss)(parameters, inputs, targets)
    gradients = netfold.jax.average(gradients, comm)
    value = netfold.jax.all_reduce(value, comm, "avg")
    return value, descend(parameters, gradients)


@jax.jit
def step_alone(parameters, inputs, targets):
    value, gradients = jax.value_and_grad(loss)(parameters, inputs, targets)
    return value, descend(parameters, gradients)


def descend(parameters, gradients):
    return jax.tree_util.tree_map(lambda p, g: p - 0.1 * g, parameters, gradients)


def train(step, ranks, say):
    """Trains on the data of these ranks; the loss of each step."""
    draws = [numpy.random.default_rng(rank) for rank in ranks]
    same = numpy.random.default_rng(1)
    parameters = {
        "first": jnp.asarray(3 * same.standard_normal((2, 32)), jnp.float32),
        "bias": jnp.asarray(same.standard_normal(32), jnp.float32),
        "second": jnp.zeros(32),
    }
    losses = []
    for number in range(options.steps):
        inputs = jnp.asarray(numpy.concatenate([draw.uniform(-1, 1, (128, 2)) for draw in draws]), jnp.float32)
        value, parameters = step(parameters, inputs, inputs[:, 0] * inputs[:, 1])
        losses.append(float(value))
        if say and number % 50 == 0:
            print(f"step {number:4}  loss {float(value):.5f}  over {comm.path}")
    return losses


losses = train(step, [comm.rank], say=comm.rank == 0)
first, world = comm.rank == 0, comm.world_size
comm.close()
if options.compare and first:
    alone = train(step_alone, range(world), say=False)
    differences = [abs(ours - other) / other for ours, other in zip(losses, alone)]
    print(f"largest difference: {max(differences):.1e} of the loss; bound of {options.mode}: {BOUNDS[options.mode]:.0e}")
    # Each, since `max` passes over a loss that is no number.
    sys.exit(0 if all(difference <= BOUNDS[options.mode] for difference in differences) else 1)
