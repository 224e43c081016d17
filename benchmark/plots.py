"""Pictures of a run: the assignment over the epochs, and graphs coloured by cluster."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.utils import to_networkx

from results import LEVELS, OF_LEVEL, write_whole
from training import predict

LABELS = dict(zip(OF_LEVEL, ("$L_E$", "$L_C$", "clusters used per graph")))
NUM_GRAPHS = 6


def plot_curves(out: Path, folds: list[dict[str, Any]], title: str) -> None:
    """Draws `curves_level0.png` and `curves_level1.png`: mean and range over the folds."""
    for level in LEVELS:
        figure, axes = plt.subplots(1, len(LABELS), figsize=(12, 3.2), layout="constrained")
        for axis, (name, label) in zip(axes, LABELS.items()):
            curves = np.array([fold["history"][f"{name}_{level}"] for fold in folds])
            epoch = np.arange(1, curves.shape[1] + 1)
            axis.plot(epoch, curves.mean(axis=0))
            axis.fill_between(epoch, curves.min(axis=0), curves.max(axis=0), alpha=0.25)
            axis.set(xlabel="epoch", ylabel=label)
            axis.set_ylim(bottom=0)
            axis.grid(alpha=0.3)
        count = f"{len(folds)} fold" + ("s, mean and range" if len(folds) > 1 else "")
        figure.suptitle(f"{title}: level {level}, on the validation graphs ({count})")
        _save(figure, out / f"curves_level{level}.png")


def plot_clusters(out: Path, model: torch.nn.Module, graphs: list[Data], title: str) -> None:
    """Draws `clusters.png`: some graphs, their nodes coloured by the cluster of level 0."""
    # The ones of middling size: large enough to have structure, small enough to be seen.
    chosen = sorted(graphs, key=lambda graph: graph.num_nodes)
    middle = max((len(chosen) - NUM_GRAPHS) // 2, 0)
    chosen = chosen[middle : middle + NUM_GRAPHS]
    batch = Batch.from_data_list(chosen)
    model.eval()
    with torch.no_grad():
        s = predict(model, batch).levels[0].s
    cluster = s.argmax(dim=-1)
    palette = plt.get_cmap("tab10" if s.size(-1) <= 10 else "tab20")
    figure, axes = plt.subplots(2, 3, figsize=(12, 8), layout="constrained")
    for axis in axes.flat:
        axis.axis("off")
    for i, (axis, graph) in enumerate(zip(axes.flat, chosen)):
        colour = cluster[batch.batch == i]
        net = to_networkx(graph, to_undirected=True, remove_self_loops=True)
        position = nx.spring_layout(net, pos=nx.kamada_kawai_layout(net), iterations=5, seed=0)
        nx.draw_networkx_edges(net, position, ax=axis, edge_color="0.7")
        nx.draw_networkx_nodes(
            net,
            position,
            ax=axis,
            node_color=[palette(c % palette.N) for c in colour.tolist()],
            node_size=40,
        )
        axis.set_title(
            f"class {int(graph.y)}: {graph.num_nodes} nodes, {len(set(colour.tolist()))} clusters"
        )
    figure.suptitle(title)
    _save(figure, out / "clusters.png")


def _save(figure: plt.Figure, path: Path) -> None:
    write_whole(path, lambda temporary: figure.savefig(temporary, dpi=110))
    plt.close(figure)
