"""Poolers of torch-geometric-pool, by name
========================================

Graph classification with a pooler of torch-geometric-pool (tgp), SimPool or another. Without
``--root``, on generated graphs, so that nothing is downloaded.

Usage: ``python examples/tgp_classification.py [--pooler diff] [--root data --dataset ENZYMES]``
"""

import argparse
import sys
from typing import Any, Optional

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from tgp.poolers import get_pooler, pooler_map
from tgp.reduce import GlobalReduce
from torch_geometric import seed_everything
from torch_geometric.data import Batch, Data
from torch_geometric.datasets import TUDataset
from torch_geometric.loader import DataLoader
from torch_geometric.nn import DenseGCNConv, GCNConv
from torch_geometric.utils import barabasi_albert_graph, erdos_renyi_graph

import torch_geometric_simpool.tgp  # noqa: F401 (registers "sim" and "simmatch")


class Net(torch.nn.Module):
    """A GCN, pooling, a GCN on the clusters, and a sum."""

    def __init__(self, pooler: str, in_channels: int, num_classes: int, channels: int = 64) -> None:
        super().__init__()
        self.conv = GCNConv(in_channels, channels)
        # As a list, with the width of a hidden layer of the network that assigns clusters.
        # Poolers that do not know an argument do not get it.
        self.pooler = get_pooler(pooler, in_channels=[channels, channels], k=16, ratio=0.5)
        dense = self.pooler.is_dense
        self.coarse_conv = (DenseGCNConv if dense else GCNConv)(channels, channels)
        self.readout = GlobalReduce("sum")
        self.lin = torch.nn.Linear(channels, num_classes)

    def forward(self, data: Batch) -> tuple[torch.Tensor, Any]:
        """Returns the logits of the classes, and the loss of the pooler, if it has one."""
        x = self.conv(data.x, data.edge_index).relu()
        sim = getattr(data, "sim", None)
        out = self.pooler(x=x, adj=data.edge_index, batch=data.batch, sim=sim)
        weight = () if self.pooler.is_dense else (out.edge_weight,)
        x = self.coarse_conv(out.x, out.edge_index, *weight).relu()
        loss = sum(out.get_loss_value()) if out.has_loss else 0.0
        return self.lin(self.readout(x, batch=out.batch)), loss


def generated_graphs(count: int = 300) -> list[Data]:
    """Random graphs with and without hubs, of the same number of nodes and, nearly, of edges."""
    transform = T.LocalDegreeProfile()
    graphs = []
    for number in range(count):
        size = int(torch.randint(15, 40, (1,)))
        label = number % 2
        hubs, none = (barabasi_albert_graph, (size, 2)), (erdos_renyi_graph, (size, 4 / size))
        make, arguments = hubs if label else none
        data = Data(edge_index=make(*arguments), num_nodes=size, y=torch.tensor([label]))
        graphs.append(transform(data))
    return graphs


def main(
    pooler: str = "sim",
    root: Optional[str] = None,
    dataset: str = "ENZYMES",
    epochs: int = 20,
    lr: float = 1e-3,
    seed: int = 0,
) -> float:
    """Trains on 90 % of the graphs; returns the last accuracy on the rest."""
    seed_everything(seed)
    try:
        graphs = generated_graphs() if root is None else list(TUDataset(root, dataset))
    except OSError as error:
        sys.exit(f"{dataset} is not in {root}/ and could not be downloaded: {error}")
    num_classes = 1 + max(int(data.y) for data in graphs)
    transform = pooler_map[pooler].data_transforms()  # of "sim", it computes `data.sim`
    if transform is not None:
        graphs = [transform(data) for data in graphs]
    graphs = [graphs[i] for i in torch.randperm(len(graphs)).tolist()]
    split = len(graphs) * 9 // 10
    train = DataLoader(graphs[:split], batch_size=32, shuffle=True)
    test = DataLoader(graphs[split:], batch_size=100)

    model = Net(pooler, graphs[0].num_features, num_classes)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    accuracy = 0.0
    for epoch in range(1, epochs + 1):
        total = 0.0
        for data in train:
            logits, pooler_loss = model(data)
            loss = F.cross_entropy(logits, data.y) + pooler_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += float(loss.detach()) * data.num_graphs
        with torch.no_grad():
            correct = sum(int((model(data)[0].argmax(dim=1) == data.y).sum()) for data in test)
        accuracy = correct / (len(graphs) - split)
        print(f"epoch {epoch}: loss {total / split:.3f}, accuracy on the rest {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--pooler", default="sim", choices=sorted(pooler_map), help="its name in tgp"
    )
    parser.add_argument("--root", help="the folder of the TU data sets; generated graphs if unset")
    parser.add_argument("--dataset", default="ENZYMES", help="its name")
    parser.add_argument("--epochs", type=int, default=20, help="the number of epochs")
    parser.add_argument("--lr", type=float, default=1e-3, help="the learning rate")
    parser.add_argument("--seed", type=int, default=0, help="the seed of all random numbers")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {options.epochs}")
    if not options.lr > 0:
        parser.error(f"--lr must be positive, got {options.lr}")
    main(**vars(options))
