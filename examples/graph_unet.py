"""A graph U-Net
=============

Node classification by pooling, a GNN on the clusters, and ``lift`` back to the nodes, with a skip
connection beside them; and the same network without what lies between. Generated graphs, so that
nothing is downloaded.

Usage: ``python examples/graph_unet.py [--epochs 30] [--out graph_unet.png]``
"""

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Optional

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import MLP, DenseGraphConv, GraphConv
from torch_geometric.utils import to_undirected

from torch_geometric_simpool import SimPool, StructuralSimilarity, lift, plot_clusters
from torch_geometric_simpool.functional.pooling import SimPoolOutput

RINGS, MARKS, CHANNELS, CLUSTERS = 4, 3, 32, 8

# %%
# The data
# --------
# A graph is a chain of rings. In each ring one node has a mark, and the class of all nodes of the
# ring is that mark. Two layers of a GNN see two steps far, and most nodes are further away from the
# mark than that.


def generate(count: int) -> list[Data]:
    """Graphs whose nodes are numbered at random."""
    graphs = []
    for _ in range(count):
        edges: list[tuple[int, int]] = []
        mark: list[int] = []
        y: list[int] = []
        last = 0
        for ring in range(RINGS):
            first, size = len(y), int(torch.randint(10, 15, ()))
            if ring:
                edges.append((last, first))
            edges += [(first + i, first + (i + 1) % size) for i in range(size)]
            label, last = int(torch.randint(MARKS, ())), first + size // 2
            marked = int(torch.randint(size, ()))
            mark += [label if i == marked else MARKS for i in range(size)]
            y += [label] * size
        number = torch.randperm(len(y))
        old = number.argsort()
        x = F.one_hot(torch.tensor(mark)[old], MARKS + 1)[:, :MARKS].float()
        edge_index = to_undirected(number[torch.tensor(edges).t()])
        graphs.append(Data(x=x, edge_index=edge_index, y=torch.tensor(y)[old]))
    return graphs


# %%
# The network
# -----------
# ``lift`` gives each node the mean of the clusters, weighted by its own assignment. This does not
# restore what was pooled, so the decoder reads the nodes before the pooling as well.


class UNet(torch.nn.Module):
    """One level down and up again; or none, to compare with."""

    def __init__(self, transform: StructuralSimilarity, pools: bool = True) -> None:
        super().__init__()
        self.down = GraphConv(MARKS, CHANNELS)
        self.pool: Optional[SimPool] = None
        if pools:
            self.pool = SimPool.from_transform(transform, MLP([transform.k, 64, CLUSTERS]))
            self.coarse = DenseGraphConv(CHANNELS, CHANNELS)
        self.up = GraphConv(CHANNELS * (1 + pools), MARKS)

    def forward(self, data: Batch) -> tuple[Tensor, Optional[SimPoolOutput]]:
        """The logits of all nodes, and what the pooling returned."""
        x = self.down(data.x, data.edge_index).relu()
        if self.pool is None:
            return self.up(x, data.edge_index), None
        pooled = self.pool(x, data.edge_index, data.batch, data.sim, batch_size=data.num_graphs)
        clusters = self.coarse(pooled.x, pooled.adj).relu()
        both = torch.cat([x, lift(clusters, pooled.s, data.batch)], dim=-1)
        return self.up(both, data.edge_index), pooled


def train(model: UNet, graphs: Iterable[Batch], epochs: int) -> None:
    """Cross entropy of the nodes, and the losses of the assignment."""
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(epochs):
        for data in graphs:
            logits, pooled = model(data)
            loss = F.cross_entropy(logits, data.y)
            if pooled is not None:
                loss = loss + pooled.entropy_loss + pooled.cluster_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def accuracy(model: UNet, graphs: Iterable[Batch]) -> float:
    """The share of nodes that are right."""
    model.eval()
    right = torch.cat([model(data)[0].argmax(dim=-1) == data.y for data in graphs])
    return float(right.float().mean())


def main(epochs: int = 30, picture: Optional[str] = None) -> dict[str, float]:
    """Trains both networks; returns their accuracies on graphs that they have not seen."""
    path = None if picture is None else Path(picture).resolve()
    if path and not (path.parent.is_dir() and path.suffix in (".png", ".pdf", ".svg")):
        sys.exit(f"--out must name a .png, .pdf or .svg in a folder that exists, got {picture}")
    seed_everything(0)
    # The graphs are numbered at random: an order by structure makes the features comparable.
    transform = StructuralSimilarity(k=8, order="fiedler")
    graphs = transform.precompute(generate(400), progress=False)
    loader = DataLoader(graphs[:300], batch_size=20, shuffle=True)
    rest = DataLoader(graphs[300:], batch_size=50)
    result = {}
    for name, pools in (("without pooling", False), ("U-Net", True)):
        model = UNet(transform, pools)
        train(model, loader, epochs)
        result[name] = accuracy(model, rest)
        print(f"{name}: accuracy on the rest {result[name]:.3f}")

    figure = draw(model, graphs[-1])
    if path:
        temporary = path.with_name(f".{path.stem}.tmp{path.suffix}")
        figure.savefig(temporary, dpi=110)
        os.replace(temporary, path)
        print(f"Picture: {picture}")
    return result


@torch.no_grad()
def draw(model: UNet, graph: Data) -> plt.Figure:
    """The classes of a graph, and its clusters."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
    _, pooled = model(Batch.from_data_list([graph]))
    assert pooled is not None
    for ax, s, title in zip(axes, (graph.y, pooled.s), ("classes", "clusters")):
        plot_clusters(graph, s, ax).set_title(title)
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30, help="the number of epochs")
    parser.add_argument("--out", dest="picture", help="writes the picture: a .png, .pdf or .svg")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {options.epochs}")
    main(**vars(options))
