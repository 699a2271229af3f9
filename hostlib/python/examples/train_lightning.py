"""Trains with Lightning.

    torchrun --nproc-per-node 2 hostlib/python/examples/train_lightning.py --backend gloo --losses gloo.json
    torchrun --nproc-per-node 2 hostlib/python/examples/train_lightning.py --compare gloo.json

The strategy takes the backend by name: ``DDPStrategy(process_group_backend="netfold")``; the module ``netfold.torch`` has to be imported before. Under
``srun`` Lightning reads Slurm's variables itself.
"""

from __future__ import annotations

import os
import sys
from typing import Any, List

import lightning
import torch
import training
from lightning.pytorch.strategies import DDPStrategy


class Classifier(lightning.LightningModule):
    def __init__(self, task: training.Task) -> None:
        super().__init__()
        self.network = task.network
        self.losses: List[torch.Tensor] = []
        self.means: List[float] = []
        self.used = ""
        self._optimizer = task.optimizer

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        images, labels = batch
        loss = torch.nn.functional.cross_entropy(self.network(images), labels)
        self.losses.append(loss.detach())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self._optimizer

    def on_train_end(self) -> None:
        # The process group ends with the training.
        self.means = training.mean(self.losses)
        self.used = training.through_the_switch("netfold" if torch.distributed.get_backend() == "netfold" else "gloo")


def main() -> int:
    options = training.arguments(__doc__.splitlines()[0])
    world = int(os.environ["WORLD_SIZE"])
    task = training.Task(options)
    trainer = lightning.Trainer(
        accelerator="auto",
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        num_nodes=world // int(os.environ["LOCAL_WORLD_SIZE"]),
        strategy=DDPStrategy(process_group_backend=options.backend),
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        use_distributed_sampler=False,
        enable_model_summary=False,
    )
    # Each rank has its own part of each step's images, so Lightning must not distribute them.
    batches = [task.batch(step, trainer.global_rank, world) for step in range(options.steps)]
    model = Classifier(task)
    trainer.fit(model, torch.utils.data.DataLoader(batches, batch_size=None))
    return training.report(options, model.means, model.used) if trainer.is_global_zero else 0


if __name__ == "__main__":
    sys.exit(main())
