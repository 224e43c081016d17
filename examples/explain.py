"""Explaining a prediction
=======================

The gradient with respect to the edge weights shows which edges determine the class that a network
with SimPool predicts. A generated tree carries a motif, a house or a cycle, which is its class, so
the edges of the motif should be important.

Usage: ``python examples/explain.py [--epochs 15] [--out explain.png]``
"""

import argparse
from typing import Optional

import matplotlib.pyplot as plt
import networkx as nx
import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.datasets import ExplainerDataset
from torch_geometric.datasets.graph_generator import BAGraph
from torch_geometric.datasets.motif_generator import CycleMotif, HouseMotif
from torch_geometric.loader import DataLoader
from torch_geometric.nn import DenseGCNConv, GCNConv
from torch_geometric.utils import to_networkx

from torch_geometric_simpool import SimPool, SimPoolOutput, StructuralSimilarity, plot_clusters

MAX_DEGREE, CHANNELS = 25, 32


class Net(torch.nn.Module):
    """Two GCN layers, pooling, a GCN layer on the clusters, and global sum pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = GCNConv(MAX_DEGREE + 1, CHANNELS)
        self.conv2 = GCNConv(CHANNELS, CHANNELS)
        self.pool = SimPool(num_clusters=6, k=8)
        self.coarse_conv = DenseGCNConv(CHANNELS, CHANNELS)
        self.lin = torch.nn.Linear(CHANNELS, 2)

    def forward(self, data: Data, weight: Optional[Tensor] = None) -> tuple[Tensor, SimPoolOutput]:
        """Returns the logits of the classes, and the output of the pooling layer."""
        x = self.conv1(data.x, data.edge_index, weight).relu()
        x = self.conv2(x, data.edge_index, weight).relu()
        out = self.pool(x, data.edge_index, data.batch, data.sim, edge_weight=weight)
        x = self.coarse_conv(out.x, out.adj, out.mask).relu().sum(dim=1)
        return self.lin(x), out


def generate(count: int) -> list[Data]:
    """Returns trees with one motif each. Node features are the degrees."""
    transform = T.Compose([T.OneHotDegree(MAX_DEGREE), StructuralSimilarity(k=8)])
    graphs = []
    for label, motif in enumerate((HouseMotif(), CycleMotif(5))):
        for graph in ExplainerDataset(BAGraph(15, 1), motif, num_motifs=1, num_graphs=count // 2):
            data = Data(edge_index=graph.edge_index, num_nodes=graph.num_nodes)
            data.y, data.motif = torch.tensor([label]), graph.edge_mask.bool()
            graphs.append(transform(data))
    return [graphs[i] for i in torch.randperm(len(graphs)).tolist()]


def explain(net: Net, graph: Data) -> Tensor:
    """Returns the importance of each edge for the margin of the predicted class."""
    weight = torch.ones(graph.num_edges, requires_grad=True)
    logits, _ = net(graph, weight)
    (gradient,) = torch.autograd.grad(logits.max() - logits.min(), weight)
    return gradient.abs()


# %%
# The score is the area under the ROC curve: the probability that an edge of the motif is more
# important than another edge. As a control, the untrained network is explained as well.


def score(net: Net, graphs: list[Data]) -> float:
    """Returns the mean score of the explanations."""
    scores = [roc_auc_score(graph.motif, explain(net, graph)) for graph in graphs]
    return sum(scores) / len(scores)


def main(epochs: int = 15, out: Optional[str] = None) -> dict[str, float]:
    """Trains and explains, and returns the test accuracy and the scores."""
    seed_everything(0)
    graphs = generate(400)
    train_graphs, test_graphs = graphs[:340], graphs[340:]
    net = Net()
    result = {"score, untrained": score(net, test_graphs)}
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(epochs):
        for data in DataLoader(train_graphs, batch_size=20, shuffle=True):
            logits, pooled = net(data)
            loss = F.cross_entropy(logits, data.y) + pooled.entropy_loss + pooled.cluster_loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    correct = [net(graph)[0].argmax(dim=-1) == graph.y for graph in test_graphs]
    result["test accuracy"] = float(torch.cat(correct).float().mean())
    result["score, trained"] = score(net, test_graphs)
    for name, value in result.items():
        print(f"{name}: {value:.3f}")
    figure = draw(net, test_graphs[0])
    if out is not None:
        figure.savefig(out, dpi=110)
    return result


def draw(net: Net, graph: Data) -> plt.Figure:
    """Draws edges as wide as they are important, beside the clusters."""
    importance = explain(net, graph)
    _, pooled = net(graph)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
    tree = to_networkx(graph)
    position = nx.kamada_kawai_layout(tree)
    edges = graph.edge_index.t().tolist()
    width = (0.5 + 6 * importance / importance.max()).tolist()
    color = ["#D55E00" if inside else "0.7" for inside in graph.motif.tolist()]
    nx.draw_networkx_nodes(tree, position, ax=left, node_size=30)
    nx.draw_networkx_edges(
        tree, position, edges, width=width, edge_color=color, ax=left, arrows=False
    )
    left.set_title("important edges are wide; the motif is red")
    plot_clusters(graph, pooled.s.detach(), right, position).set_title("clusters")
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15, help="number of epochs")
    parser.add_argument("--out", help="file of the picture, for example explain.png")
    main(**vars(parser.parse_args()))
