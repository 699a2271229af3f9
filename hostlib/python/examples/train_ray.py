"""Trains with Ray Train.

    python hostlib/python/examples/train_ray.py --backend gloo --losses gloo.json
    python hostlib/python/examples/train_ray.py --compare gloo.json

``TorchConfig(backend="netfold")`` has Ray make the process group of the workers over Netfold. Each process that Ray starts registers the backend in
its ``worker_process_setup_hook``. ``--address`` names a cluster, whose nodes have this folder and the package; without it, there is one of two nodes
on this machine, with a worker on each. Needs Ray 2.60 or later (before, Ray Train did not return what a worker returns).
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import tempfile
from typing import Any, Dict

import ray
import ray.train
import torch.distributed as dist
import training
from ray.cluster_utils import Cluster
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model


def worker(options: Dict[str, Any]) -> Dict[str, Any]:
    """What each worker does, once Ray has made the process group. Ray returns what rank 0 returns."""
    settings = argparse.Namespace(**options)
    task = training.Task(settings)
    losses = task.train(prepare_model(task.network), settings.steps)
    nodes = [None] * dist.get_world_size()
    dist.all_gather_object(nodes, ray.get_runtime_context().get_node_id())
    return {"losses": losses, "used": training.through_the_switch(settings.backend), "nodes": len(set(nodes))}


def runtime(options: argparse.Namespace) -> Dict[str, Any]:
    """How Ray starts processes: with these modules, with Netfold's settings, and with the backend registered."""
    training.prepare(options)
    folder = str(pathlib.Path(__file__).resolve().parent)
    path = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    variables = {name: value for name, value in os.environ.items() if name.startswith("NETFOLD_")}
    return {
        "env_vars": {**variables, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        "worker_process_setup_hook": "netfold.torch.register",
    }


def main() -> int:
    parser = training.parser(__doc__.splitlines()[0])
    parser.add_argument("--address", help="of a cluster")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    cluster = None
    if options.address is None:
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        cluster.add_node(num_cpus=1)
    ray.init(address=options.address or cluster.address, runtime_env=runtime(options), log_to_driver=False)
    try:
        with tempfile.TemporaryDirectory() as folder:
            trainer = TorchTrainer(
                worker,
                train_loop_config=vars(options),
                torch_config=TorchConfig(backend=options.backend),
                scaling_config=ScalingConfig(num_workers=options.workers, placement_strategy="SPREAD"),
                run_config=RunConfig(storage_path=folder),
            )
            found = trainer.fit().return_value
    finally:
        ray.shutdown()
        if cluster is not None:
            cluster.shutdown()
    print(f"{options.workers} workers on {found['nodes']} nodes")
    return training.report(options, found["losses"], found["used"])


if __name__ == "__main__":
    sys.exit(main())
