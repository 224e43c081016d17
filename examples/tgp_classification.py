"""Poolers of torch-geometric-pool, by name
========================================

Graph classification with SimPool or another pooler of torch-geometric-pool (tgp), on random graphs
with and without hubs.

Usage: ``python examples/tgp_classification.py [--pooler diff] [--epochs 20]``
"""

import argparse
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from tgp.poolers import get_pooler, pooler_map
from tgp.reduce import GlobalReduce
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import DenseGCNConv, GCNConv
from torch_geometric.utils import barabasi_albert_graph, erdos_renyi_graph

import torch_geometric_simpool.tgp  # noqa: F401 (registers "sim" and "simmatch")


class Net(torch.nn.Module):
    """A GCN, pooling, a GCN on the clusters, and global sum pooling."""

    def __init__(self, pooler: str, in_channels: int, num_classes: int, channels: int = 64) -> None:
        super().__init__()
        self.conv = GCNConv(in_channels, channels)
        # `get_pooler` ignores arguments that a pooler does not have.
        self.pooler = get_pooler(pooler, in_channels=[channels, channels], k=16, ratio=0.5)
        conv = DenseGCNConv if self.pooler.is_dense else GCNConv
        self.coarse_conv = conv(channels, channels)
        self.readout = GlobalReduce("sum")
        self.lin = torch.nn.Linear(channels, num_classes)

    def forward(self, data: Batch) -> tuple[Tensor, Any]:
        """Returns the logits of the classes, and the loss of the pooler."""
        x = self.conv(data.x, data.edge_index)
        out = self.pooler(x=x.relu(), adj=data.edge_index, batch=data.batch, sim=data.get("sim"))
        weight = () if self.pooler.is_dense else (out.edge_weight,)
        x = self.coarse_conv(out.x, out.edge_index, *weight).relu()
        loss = sum(out.get_loss_value()) if out.has_loss else 0.0
        return self.lin(self.readout(x, batch=out.batch)), loss


def generate(number: int) -> Data:
    """Returns a random graph, with hubs if its number is odd."""
    size = int(torch.randint(15, 40, ()))
    hubs = number % 2
    edge_index = barabasi_albert_graph(size, 2) if hubs else erdos_renyi_graph(size, 4 / size)
    data = Data(edge_index=edge_index, num_nodes=size, y=torch.tensor([hubs]))
    return T.LocalDegreeProfile()(data)


def main(pooler: str = "sim", epochs: int = 20) -> float:
    """Trains on 90 % of the graphs, and returns the last accuracy on the other graphs."""
    seed_everything(0)
    graphs = [generate(number) for number in torch.randperm(300).tolist()]
    model = Net(pooler, graphs[0].num_features, num_classes=2)
    transform = model.pooler.data_transforms()  # for the pooler "sim", it computes `data.sim`
    if transform is not None:
        graphs = [transform(data) for data in graphs]
    split = len(graphs) * 9 // 10
    train_loader = DataLoader(graphs[:split], batch_size=32, shuffle=True)
    test_loader = DataLoader(graphs[split:], batch_size=100)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    accuracy = 0.0
    for epoch in range(1, epochs + 1):
        for data in train_loader:
            logits, pooler_loss = model(data)
            loss = F.cross_entropy(logits, data.y) + pooler_loss
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
    parser.add_argument("--pooler", default="sim", choices=sorted(pooler_map), help="name in tgp")
    parser.add_argument("--epochs", type=int, default=20, help="number of epochs")
    main(**vars(parser.parse_args()))
