"""The shortest training script
============================

Transform, DataLoader and SimPool on any TU data set, which is downloaded if it is not there.

Usage: ``python examples/train.py [NAME [ROOT]] [--epochs 20]``
"""

import argparse
import sys

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch_geometric.data import Batch
from torch_geometric.datasets import TUDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MLP, DenseGCNConv, GCNConv

from torch_geometric_simpool import SimPool, StructuralSimilarity

K = 16  # structural features per node
CLUSTERS = 8


class Net(torch.nn.Module):
    """A GCN, pooling to eight clusters, a GCN on the clusters, and a sum."""

    def __init__(self, in_channels: int, num_classes: int, channels: int = 64) -> None:
        super().__init__()
        self.conv = GCNConv(in_channels, channels)
        self.pool = SimPool(MLP([K, channels, CLUSTERS], norm=None))
        self.coarse_conv = DenseGCNConv(channels, channels)
        self.lin = torch.nn.Linear(channels, num_classes)

    def forward(self, data: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the logits of the classes, and the losses of the assignment."""
        x = self.conv(data.x, data.edge_index).relu()
        out = self.pool(x, data.edge_index, data.batch, data.sim, batch_size=data.num_graphs)
        x = self.coarse_conv(out.x, out.adj).relu().sum(dim=1)
        return self.lin(x), out.entropy_loss + out.cluster_loss


def main(name: str = "MUTAG", root: str = "data", epochs: int = 20) -> float:
    """Trains on 90 % of the data; returns the last accuracy on the rest."""
    torch.manual_seed(0)
    try:
        dataset = TUDataset(root, name, use_node_attr=True)
    except OSError as error:
        sys.exit(f"{name} is not in {root}/ and could not be downloaded: {error}")
    # Applied once, before training. As `pre_transform` of the data set, the results would be
    # stored on disk as well.
    transform = T.Compose(
        [StructuralSimilarity(K), *([] if dataset.num_features else [T.Constant()])]
    )
    graphs = [transform(dataset[i]) for i in torch.randperm(len(dataset)).tolist()]
    split = len(graphs) * 9 // 10
    train = DataLoader(graphs[:split], batch_size=20, shuffle=True)
    test = DataLoader(graphs[split:], batch_size=100)

    model = Net(graphs[0].num_features, dataset.num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    accuracy = 0.0
    for epoch in range(1, epochs + 1):
        for data in train:
            logits, assignment_loss = model(data)
            loss = F.cross_entropy(logits, data.y) + assignment_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            correct = sum(int((model(d)[0].argmax(dim=1) == d.y).sum()) for d in test)
        accuracy = correct / (len(graphs) - split)
        print(f"epoch {epoch}: loss {loss:.3f}, accuracy on the rest {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", default="MUTAG", help="the data set, MUTAG if unset")
    parser.add_argument("root", nargs="?", default="data", help="its folder, ./data if unset")
    parser.add_argument("--epochs", type=int, default=20, help="the number of epochs")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {options.epochs}")
    main(**vars(options))
