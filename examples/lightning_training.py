"""Training with Lightning
=======================

Graph classification as a ``LightningModule``, with averages that are right: on generated graphs, so
that nothing is downloaded. It needs Lightning, ``pip install lightning``.

Usage: ``python examples/lightning_training.py [--epochs 5]``
"""

import argparse

import lightning
import torch
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.datasets import FakeDataset
from torch_geometric.loader import DataLoader

from torch_geometric_simpool.models import SimPoolNet

CHANNELS, CLASSES = 4, 3

# %%
# What is logged
# --------------
# Lightning averages what is logged over the batches of an epoch, each weighted by its
# ``batch_size``. If that is not given, it takes the first dimension of a tensor that it finds in
# the batch. Of a batch of graphs this is the number of its nodes or edges, or even 2, the first
# dimension of ``edge_index``: the averages would be wrong, with no more than a warning. So each
# call of ``log`` names the number of graphs.


class Classifier(lightning.LightningModule):
    """The classifier of the paper."""

    def __init__(self, lr: float = 5e-4) -> None:
        super().__init__()
        self.net = SimPoolNet.from_preset("enzymes", CHANNELS, CLASSES, width=0.1)
        self.lr = lr

    def step(self, data: Batch, part: str) -> Tensor:
        """The loss of a batch; logs it, and the accuracy."""
        out = self.net(data.x, data.edge_index, data.batch, data.sim, batch_size=data.num_graphs)
        loss = out.loss(data.y)
        accuracy = (out.logits.argmax(dim=-1) == data.y).float().mean()
        for name, value in (("loss", loss), ("accuracy", accuracy)):
            self.log(
                f"{part}_{name}", value, on_step=False, on_epoch=True, batch_size=data.num_graphs
            )
        return loss

    def training_step(self, data: Batch) -> Tensor:
        """What is minimized."""
        return self.step(data, "train")

    def validation_step(self, data: Batch) -> None:
        """Logs only."""
        self.step(data, "val")

    def on_train_epoch_end(self) -> None:
        """Prints what was logged; the validation comes before this."""
        metrics = self.trainer.callback_metrics
        shown = ", ".join(f"{name} {value:.3f}" for name, value in sorted(metrics.items()))
        print(f"epoch {self.current_epoch + 1}: {shown}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam, as in the paper."""
        return torch.optim.Adam(self.parameters(), lr=self.lr)


# %%
# Training
# --------
# The features are computed once, before training.


def main(epochs: int = 5) -> Classifier:
    """Trains on 90 % of the graphs; returns the trained module."""
    lightning.seed_everything(0, verbose=False)
    module = Classifier()
    generated = FakeDataset(
        300, avg_num_nodes=30, avg_degree=4, num_channels=CHANNELS, num_classes=CLASSES
    )
    graphs = module.net.transform().precompute(list(generated), progress=False)
    for data in graphs:  # the classes differ in the mean of the features, below this noise
        data.x = data.x + 3 * torch.randn_like(data.x)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    trainer.fit(
        module,
        DataLoader(graphs[:270], batch_size=20, shuffle=True),
        DataLoader(graphs[270:], batch_size=20),
    )
    return module


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5, help="the number of epochs")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {options.epochs}")
    main(**vars(options))
