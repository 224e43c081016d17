"""Clusters of graphs of `motifs` by structure and by node features, from runs of the study."""

from typing import Any

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from torch import Tensor
from torch_geometric.data import Data

from harness.data.motifs import MARKS, PAIRS, generate_motifs
from results import runs
from torch_geometric_simpool import plot_clusters

ROWS = {
    "assigned by structure": {"features": "structural", "order": "fiedler", "k": 15.0},
    "assigned by node features": {"features": "node", "order": "given", "k": 15.0},
}


def key(edge_index: Tensor) -> frozenset[tuple[int, int]]:
    """Returns the undirected edges of a graph, which identify it in the data set."""
    return frozenset((min(i, j), max(i, j)) for i, j in edge_index.t().tolist())


def draw(axis: Axes, graph: dict[str, Any]) -> None:
    """Draws a stored graph with nodes colored by cluster and the letters of marked nodes."""
    edge_index = torch.tensor([list(edge) for edge in graph["edges"]]).t()
    clusters = torch.tensor(list(graph["clusters"]))
    letters = [(*MARKS, "")[mark] for mark in marks[key(edge_index)]]
    data = Data(edge_index=edge_index, num_nodes=len(clusters))
    plot_clusters(data, clusters, axis, node_size=70, labels=letters)


marks = {key(data.edge_index): data.x.argmax(dim=1).tolist() for data in generate_motifs()}
figure, axes = plt.subplots(2, 3, figsize=(9, 6.8), layout="constrained")
for row, (title, settings) in zip(axes, ROWS.items()):
    drawn = runs("motifs", method="simpool", **settings)["drawn"]
    # The picture shows the first fold whose stored graphs have all classes.
    folds = ({graph["y"]: graph for graph in graphs} for graphs in drawn)
    by_class = next(graphs for graphs in folds if len(graphs) == len(PAIRS))
    for label, axis in enumerate(row):
        draw(axis, by_class[label])
        pairs = ", ".join(" with ".join(MARKS[mark] for mark in pair) for pair in PAIRS[label])
        axis.set_title(f"class {label}: {pairs}", fontsize=10)
    row[0].set_ylabel(title)
handles: dict[str, Any] = {}
for axis in axes.flat:
    handles |= {name: line for line, name in zip(*axis.get_legend_handles_labels())}
names = sorted(handles)
lines = [handles[name] for name in names]
figure.legend(lines, names, loc="outside lower center", ncols=len(names), fontsize=8)
