"""A graph U-Net
=============

Node classification by pooling, a GNN on the clusters, and ``lift`` from the clusters back to the
nodes. A generated graph is a chain of rings. One node of each ring has a mark, and the class of all
nodes of a ring is its mark. Two layers of a GNN see two hops far, and most nodes are further away
from the mark.

Usage: ``python examples/graph_unet.py [--epochs 30] [--out graph_unet.png]``
"""

import argparse
from typing import Optional

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import DenseGraphConv, GraphConv
from torch_geometric.utils import to_undirected

from torch_geometric_simpool import SimPool, StructuralSimilarity, lift, plot_clusters

RINGS, MARKS, CHANNELS = 4, 3, 32


def generate() -> Data:
    """Returns a chain of rings whose nodes are numbered at random."""
    size = torch.randint(10, 15, (RINGS,))
    label = torch.randint(MARKS, (RINGS,))
    first = size.cumsum(0) - size
    ring = torch.arange(RINGS).repeat_interleave(size)
    node = torch.arange(ring.numel())
    following = first[ring] + (node - first[ring] + 1) % size[ring]
    middle = first + size // 2
    edges = torch.cat([torch.stack([node, following]), torch.stack([middle[:-1], first[1:]])], 1)
    number = torch.randperm(node.numel())
    x, y = torch.zeros(node.numel(), MARKS), torch.empty_like(node)
    x[number[first + (torch.rand(RINGS) * size).long()], label] = 1
    y[number] = label[ring]
    return Data(x=x, edge_index=to_undirected(number[edges]), y=y)


# %%
# The network
# -----------
# ``lift`` gives each node the mean of the clusters, weighted by its assignment. The skip connection
# ``x`` restores the differences between nodes of one cluster.


class UNet(torch.nn.Module):
    """Pools once and lifts the result. Without pooling, it has only the GNNs on the nodes."""

    def __init__(self, transform: StructuralSimilarity, pools: bool) -> None:
        super().__init__()
        self.down = GraphConv(MARKS, CHANNELS)
        self.pool = SimPool(num_clusters=8, **transform.parameters()) if pools else None
        self.coarse = DenseGraphConv(CHANNELS, CHANNELS)
        self.up = GraphConv(2 * CHANNELS if pools else CHANNELS, MARKS)

    def forward(self, data: Batch) -> tuple[Tensor, Tensor, Optional[Tensor]]:
        """Returns the logits of all nodes, the losses of the assignment, and the assignment."""
        x = self.down(data.x, data.edge_index).relu()
        if self.pool is None:
            return self.up(x, data.edge_index), torch.zeros(()), None
        out = self.pool(x, data.edge_index, data.batch, data.sim)
        clusters = self.coarse(out.x, out.adj, out.mask).relu()
        x = torch.cat([x, lift(clusters, out.s, data.batch)], dim=-1)
        return self.up(x, data.edge_index), out.entropy_loss + out.cluster_loss, out.s


def main(epochs: int = 30, out: Optional[str] = None) -> dict[str, float]:
    """Trains both networks, and returns their test accuracies."""
    seed_everything(0)
    transform = StructuralSimilarity(k=8)
    graphs = [transform(generate()) for _ in range(400)]
    train_loader = DataLoader(graphs[:300], batch_size=20, shuffle=True)
    test_batch = Batch.from_data_list(graphs[300:])
    accuracies = {}
    for name, pools in (("without pooling", False), ("U-Net", True)):
        model = UNet(transform, pools)
        optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
        for _ in range(epochs):
            for data in train_loader:
                logits, assignment_loss, _ = model(data)
                loss = F.cross_entropy(logits, data.y) + assignment_loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        with torch.no_grad():
            correct = model(test_batch)[0].argmax(dim=-1) == test_batch.y
        accuracies[name] = float(correct.float().mean())
        print(f"{name}: test accuracy {accuracies[name]:.3f}")
    figure = draw(model, graphs[-1])
    if out is not None:
        figure.savefig(out, dpi=110)
    return accuracies


@torch.no_grad()
def draw(model: UNet, graph: Data) -> plt.Figure:
    """Draws a graph colored by class and by cluster."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
    s = model(Batch.from_data_list([graph]))[2]
    for axis, assignment, title in zip(axes, (graph.y, s), ("classes", "clusters")):
        plot_clusters(graph, assignment, axis).set_title(title)
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30, help="number of epochs")
    parser.add_argument("--out", help="file of the picture, for example graph_unet.png")
    main(**vars(parser.parse_args()))
