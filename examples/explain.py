"""Explaining a prediction
=======================

Which edges, nodes and clusters decide on the class of a graph. Generated trees carry a motif, a
house or a cycle, which is their class: so it is known what an explanation should show. Nothing is
downloaded.

Usage: ``python examples/explain.py [--epochs 15] [--out explain.png]``
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any, Optional

import matplotlib.pyplot as plt
import networkx as nx
import torch
import torch_geometric.transforms as T
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.datasets import ExplainerDataset
from torch_geometric.datasets.graph_generator import BAGraph
from torch_geometric.datasets.motif_generator import CycleMotif, HouseMotif
from torch_geometric.explain import Explainer, ExplainerAlgorithm, Explanation
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.loader import DataLoader
from torch_geometric.utils import scatter, to_networkx

from torch_geometric_simpool import plot_clusters
from torch_geometric_simpool.models import SimPoolNet

MAX_DEGREE = 25

# %%
# The algorithm
# -------------
# PyG's ``Explainer`` multiplies the messages along each edge by a mask. Here the importance of an
# edge is how much the prediction changes with its mask: the absolute value of the gradient of the
# predicted class' lead over the other one. The structural features are given, and stay as they are.


class EdgeGradient(ExplainerAlgorithm):
    """The importance of edges by the gradient of an edge mask; for two classes."""

    def forward(
        self,
        model: torch.nn.Module,
        x: Tensor,
        edge_index: Tensor,
        *,
        target: Tensor,
        index: Any = None,
        **kwargs: Tensor,
    ) -> Explanation:
        """Called by PyG; `target` is the predicted class."""
        mask = torch.ones(edge_index.size(1), requires_grad=True)
        set_masks(model, mask, edge_index, apply_sigmoid=False)
        lead = lead_of(model(x, edge_index, **kwargs), target)
        (gradient,) = torch.autograd.grad(lead, mask)
        clear_masks(model)
        return Explanation(edge_mask=gradient.abs())

    def supports(self) -> bool:
        """Checks nothing: there is one way to use it here."""
        return True


def lead_of(logits: Tensor, target: Tensor) -> Tensor:
    """By how much the logit of a class exceeds the other."""
    return logits[0, target] - logits[0, 1 - target]


class Logits(torch.nn.Module):
    """An `Explainer` needs a model that returns one tensor."""

    def __init__(self, net: SimPoolNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, edge_index: Tensor, sim: Tensor) -> Tensor:
        """The logits of one graph."""
        return self.net(x, edge_index, sim=sim).logits


# %%
# The importance of a cluster is that of its pooled features: gradient times value, summed.


def cluster_importance(net: SimPoolNet, graph: Data, target: Tensor) -> tuple[Tensor, Tensor]:
    """The importance of each cluster of level 0, `[K]`; and the assignment, `[N, K]`."""
    out = net(graph.x, graph.edge_index, sim=graph.sim)
    level = out.levels[0]
    (gradient,) = torch.autograd.grad(lead_of(out.logits, target), level.x)
    return (gradient * level.x).sum(dim=-1).abs()[0].detach(), level.s.detach()


def explain(net: SimPoolNet, graph: Data) -> Explanation:
    """The importance of the edges of a graph."""
    explainer = Explainer(
        Logits(net),
        EdgeGradient(),
        explanation_type="model",
        edge_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "graph",
            "return_type": "raw",
        },
    )
    return explainer(graph.x, graph.edge_index, sim=graph.sim)


# %%
# Does it find the motif?
# -----------------------
# The chance that an edge of the motif is more important than another edge: the area under the ROC
# curve. An explanation may also show what any network does: so it is compared with that of the
# network before training, which should be no better than chance, 0.5.


def found(net: SimPoolNet, graphs: list[Data]) -> float:
    """The mean over graphs of that chance."""
    net.eval()
    chances = []
    for graph in graphs:
        importance, motif = explain(net, graph).edge_mask, graph.motif > 0
        above = importance[motif].unsqueeze(1) > importance[~motif]
        chances.append(above.float().mean())
    net.train()
    return float(torch.stack(chances).mean())


def generate(count: int) -> list[Data]:
    """Trees with one motif each; degrees are the node features."""
    degree = T.OneHotDegree(MAX_DEGREE)
    graphs = []
    for label, motif in enumerate((HouseMotif(), CycleMotif(5))):
        for graph in ExplainerDataset(BAGraph(15, 1), motif, num_motifs=1, num_graphs=count // 2):
            data = Data(
                edge_index=graph.edge_index,
                num_nodes=graph.num_nodes,
                y=torch.tensor([label]),
                motif=graph.edge_mask,
            )
            graphs.append(degree(data))
    return [graphs[i] for i in torch.randperm(len(graphs)).tolist()]


def main(epochs: int = 15, picture: Optional[str] = None) -> dict[str, float]:
    """Trains and explains; returns how well the motifs are found, and the accuracy."""
    path = None if picture is None else Path(picture).resolve()
    if path and not (path.parent.is_dir() and path.suffix in (".png", ".pdf", ".svg")):
        sys.exit(f"--out must name a .png, .pdf or .svg in a folder that exists, got {picture}")
    seed_everything(0)
    net = SimPoolNet(MAX_DEGREE + 1, 2, k=8, clusters=(6, 3), width=0.1)
    graphs = net.transform().precompute(generate(400), progress=False)
    train, rest = graphs[:340], graphs[340:]
    result = {"untrained": found(net, rest)}
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(epochs):
        for data in DataLoader(train, batch_size=20, shuffle=True):
            loss = net(data.x, data.edge_index, data.batch, data.sim).loss(data.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    net.eval()
    with torch.no_grad():
        right = [
            net(graph.x, graph.edge_index, sim=graph.sim).logits.argmax(dim=-1) == graph.y
            for graph in rest
        ]
    result |= {"accuracy": float(torch.cat(right).float().mean()), "trained": found(net, rest)}
    print(f"accuracy on the rest {result['accuracy']:.3f}")
    for name in ("untrained", "trained"):
        print(f"{name}: an edge of the motif is above another with chance {result[name]:.3f}")

    figure = draw(net, rest[0])
    if path:
        temporary = path.with_name(f".{path.stem}.tmp{path.suffix}")
        figure.savefig(temporary, dpi=110)
        os.replace(temporary, path)
        print(f"Picture: {picture}")
    return result


# %%
# One graph
# ---------
# The importance of a node is the sum of that of its edges.


def draw(net: SimPoolNet, graph: Data) -> plt.Figure:
    """Draws edges as wide and nodes as large as they are important, beside the clusters."""
    net.eval()
    explanation = explain(net, graph)
    edge = explanation.edge_mask / explanation.edge_mask.max()
    node = scatter(edge, graph.edge_index[1], dim_size=graph.num_nodes)
    cluster, s = cluster_importance(net, graph, explanation.target)
    order = cluster.argsort(descending=True).tolist()
    print("one graph: " + ", ".join(f"cluster {c} {cluster[c] / cluster.sum():.2f}" for c in order))

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
    net_of_edges = to_networkx(graph, to_undirected=True)
    pos = nx.kamada_kawai_layout(net_of_edges)
    ends, in_motif = graph.edge_index.t().tolist(), graph.motif.tolist()
    nx.draw_networkx_edges(
        nx.DiGraph(ends),
        pos,
        edgelist=ends,
        ax=left,
        width=(0.5 + 6 * edge).tolist(),
        edge_color=["#D55E00" if inside else "0.7" for inside in in_motif],
        arrows=False,
    )
    size = (20 + 150 * node / node.max()).tolist()
    nx.draw_networkx_nodes(net_of_edges, pos, ax=left, node_size=size, node_color="#0072B2")
    left.set_title("important edges are wide, nodes large; the motif is red")
    left.axis("off")
    plot_clusters(graph, s, right, pos).set_title("clusters")
    right.legend()
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=15, help="the number of epochs")
    parser.add_argument("--out", dest="picture", help="writes the picture: a .png, .pdf or .svg")
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs must be at least 1, got {options.epochs}")
    main(**vars(options))
