"""Training with Lightning
=======================

Graph classification as a ``LightningModule``, on generated graphs. The example needs Lightning:
``pip install lightning``.

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
# Logging
# -------
# Lightning averages logged values over the batches of an epoch, weighted by ``batch_size``. Its
# guess for a batch of graphs is wrong: the number of nodes, or 2, the length of ``edge_index``. So
# pass the number of graphs.


class Classifier(lightning.LightningModule):
    """The classifier of the paper."""

    def __init__(self, lr: float = 5e-4) -> None:
        super().__init__()
        self.net = SimPoolNet(CHANNELS, CLASSES, k=12, clusters=(8, 4), width=0.1)
        self.lr = lr

    def step(self, data: Batch, part: str) -> Tensor:
        """Returns the loss of a batch, and logs the loss and the accuracy."""
        out = self.net(data.x, data.edge_index, data.batch, data.sim, batch_size=data.num_graphs)
        loss = out.loss(data.y)
        accuracy = (out.logits.argmax(dim=-1) == data.y).float().mean()
        metrics = {f"{part}_loss": loss, f"{part}_accuracy": accuracy}
        self.log_dict(metrics, on_step=False, on_epoch=True, batch_size=data.num_graphs)
        return loss

    def training_step(self, data: Batch) -> Tensor:
        """Returns the loss that is minimized."""
        return self.step(data, "train")

    def validation_step(self, data: Batch) -> None:
        """Logs the metrics of a validation batch."""
        self.step(data, "val")

    def on_train_epoch_end(self) -> None:
        """Prints the metrics of the epoch."""
        metrics = sorted(self.trainer.callback_metrics.items())
        values = ", ".join(f"{name} {value:.3f}" for name, value in metrics)
        print(f"epoch {self.current_epoch + 1}: {values}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Returns Adam, as in the paper."""
        return torch.optim.Adam(self.parameters(), lr=self.lr)


def main(epochs: int = 5) -> Classifier:
    """Trains on 90 % of the graphs, and returns the trained module."""
    lightning.seed_everything(0, verbose=False)
    module = Classifier()
    # The classes differ in the mean of the node features.
    dataset = FakeDataset(300, avg_num_nodes=30, num_channels=CHANNELS, num_classes=CLASSES)
    graphs = module.net.transform().precompute(list(dataset), progress=False)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    train_loader = DataLoader(graphs[:270], batch_size=20, shuffle=True)
    trainer.fit(module, train_loader, DataLoader(graphs[270:], batch_size=20))
    return module


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=5, help="number of epochs")
    main(**vars(parser.parse_args()))
