"""A short training script
=======================

Trains a graph classifier with SimPool on any TU data set, which is downloaded if it is missing.

Usage: ``python examples/train.py [MUTAG] [--root data] [--cleaned] [--epochs 20]``
"""

import argparse
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch import Tensor
from torch_geometric.data import Batch
from torch_geometric.datasets import TUDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import DenseGCNConv, GCNConv

from torch_geometric_simpool import SimPool, StructuralSimilarity


class Net(torch.nn.Module):
    """A GCN, pooling to eight clusters, a GCN on the clusters, and global sum pooling."""

    def __init__(self, in_channels: int, num_classes: int, channels: int = 64) -> None:
        super().__init__()
        self.conv = GCNConv(in_channels, channels)
        self.pool = SimPool(num_clusters=8, k=16)
        self.coarse_conv = DenseGCNConv(channels, channels)
        self.lin = torch.nn.Linear(channels, num_classes)

    def forward(self, data: Batch) -> tuple[Tensor, Tensor]:
        """Returns the logits of the classes, and the losses of the assignment."""
        x = self.conv(data.x, data.edge_index).relu()
        out = self.pool(x, data.edge_index, data.batch, data.sim)
        x = self.coarse_conv(out.x, out.adj, out.mask).relu().sum(dim=1)
        return self.lin(x), out.entropy_loss + out.cluster_loss


def main(name: str = "MUTAG", root: str = "data", cleaned: bool = False, epochs: int = 20) -> float:
    """Trains on 90 % of the graphs, and returns the last accuracy on the other graphs."""
    torch.manual_seed(0)
    try:
        dataset = TUDataset(root, name, use_node_attr=True, cleaned=cleaned)
    except OSError as error:
        folder = f"{root}/{name}/raw{'_cleaned' if cleaned else ''}"
        hint = "" if cleaned or not Path(f"{folder}_cleaned").exists() else ": use --cleaned"
        sys.exit(f"{name} is not in {folder} and could not be downloaded: {error}{hint}")
    # The features are computed once, before training.
    constant = [] if dataset.num_features else [T.Constant()]
    transform = T.Compose([StructuralSimilarity(k=16), *constant])
    graphs = [transform(dataset[i]) for i in torch.randperm(len(dataset)).tolist()]
    split = len(graphs) * 9 // 10
    train_loader = DataLoader(graphs[:split], batch_size=20, shuffle=True)
    test_loader = DataLoader(graphs[split:], batch_size=100)

    model = Net(graphs[0].num_features, dataset.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    accuracy = 0.0
    for epoch in range(1, epochs + 1):
        for data in train_loader:
            logits, assignment_loss = model(data)
            loss = F.cross_entropy(logits, data.y) + assignment_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            correct = sum(int((model(d)[0].argmax(dim=1) == d.y).sum()) for d in test_loader)
        accuracy = correct / (len(graphs) - split)
        print(f"epoch {epoch}: loss {loss:.3f}, test accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", default="MUTAG", help="name of the data set")
    parser.add_argument("--root", default="data", help="folder of the data sets")
    parser.add_argument("--cleaned", action="store_true", help="without isomorphic graphs")
    parser.add_argument("--epochs", type=int, default=20, help="number of epochs")
    main(**vars(parser.parse_args()))
