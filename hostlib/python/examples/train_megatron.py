"""Trains with the data parallelism of Megatron-Core.

    torchrun --nproc-per-node 2 hostlib/python/examples/train_megatron.py --backend gloo --losses gloo.json
    torchrun --nproc-per-node 2 hostlib/python/examples/train_megatron.py --compare gloo.json

Megatron makes its groups by ``torch.distributed``, over the process group that exists. With ``--distributed-optimizer`` gradients are reduced and scattered, each
rank updates a part of the weights, and these are gathered.
"""

from __future__ import annotations

import sys
from typing import List

import torch
import torch.distributed as dist
import training

if not torch.cuda.is_available():
    # Megatron allocates its buffers on "the current device" of CUDA, by this function.
    torch.cuda.current_device = lambda: "cpu"

from megatron.core import parallel_state  # noqa: E402
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402


def wrapped(network: torch.nn.Module, scatter: bool) -> DistributedDataParallel:
    """The network in Megatron's data parallelism, whose buckets are reduced during the backward pass."""
    config = TransformerConfig(num_layers=1, hidden_size=16, num_attention_heads=1, use_cpu_initialization=True)
    ddp_config = DistributedDataParallelConfig(grad_reduce_in_fp32=True, overlap_grad_reduce=True, use_distributed_optimizer=scatter, bucket_size=20_000)
    model = DistributedDataParallel(config, ddp_config, network)
    model.broadcast_params()
    return model


def train(task: training.Task, steps: int, scatter: bool) -> List[float]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = wrapped(task.network.to(device), scatter)
    rank, ranks = parallel_state.get_data_parallel_rank(), parallel_state.get_data_parallel_world_size()
    losses = []
    for step in range(steps):
        images, labels = task.batch(step, rank, ranks)
        model.zero_grad_buffer()
        loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
        loss.backward()
        model.finish_grad_sync()
        for parameter in model.parameters():
            parameter.grad = parameter.main_grad
        task.optimizer.step()
        if scatter:
            # Of all weights this rank has updated, those of its part are right.
            model.start_param_sync(force_sync=True)
        losses.append(loss.detach())
    return training.mean(losses)


def main() -> int:
    parser = training.parser(__doc__.splitlines()[0])
    parser.add_argument("--distributed-optimizer", action="store_true")
    options = training.parsed(parser)
    dist.init_process_group(options.backend)
    parallel_state.initialize_model_parallel()
    losses = train(training.Task(options), options.steps, options.distributed_optimizer)
    used = training.through_the_switch(options.backend, parallel_state.get_data_parallel_group(with_context_parallel=True))
    first = dist.get_rank() == 0
    parallel_state.destroy_model_parallel()
    dist.destroy_process_group()
    return training.report(options, losses, used) if first else 0


if __name__ == "__main__":
    sys.exit(main())
