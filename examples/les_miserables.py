"""Les Miserables: similar characters
==================================

Characters of the novel that appear with the same others, and clusters of them, by the structure
of the graph alone: it is part of networkx, and tells in how many chapters two characters appear
together. There are no labels, and nothing is downloaded.

Usage: ``python examples/les_miserables.py [--out les_miserables.png]``
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Optional

import matplotlib.pyplot as plt
import networkx as nx
import torch
from torch_geometric.data import Data
from torch_geometric.nn import MLP
from torch_geometric.utils import from_networkx, to_networkx

from torch_geometric_simpool import SimPool, plot_clusters, structural_similarity, topk_similarity

CLUSTERS = 6
LEADS = ("Valjean", "Javert", "Fantine", "Cosette", "Gavroche", "Enjolras", "MlleBaptistine")


def main(picture: Optional[str] = None, steps: int = 300) -> dict[str, list[str]]:
    """Prints similar characters, draws clusters, and returns the characters of each cluster."""
    path = None if picture is None else Path(picture).resolve()
    if path and not (path.parent.is_dir() and path.suffix in (".png", ".pdf", ".svg")):
        sys.exit(f"--out must name a .png, .pdf or .svg in a folder that exists, got {picture}")
    torch.manual_seed(0)
    net = nx.les_miserables_graph()
    names = list(net)
    data = from_networkx(net, group_edge_attrs=["weight"])
    weight = data.edge_attr.view(-1).float()

    print("Characters with the most similar neighborhoods:")
    values, index = topk_similarity(data.edge_index, 4, weight, len(names), loop=False)
    for lead in LEADS:
        i = names.index(lead)
        alike = [
            f"{names[j]} {v:.2f}" for j, v in zip(index[i].tolist(), values[i].tolist()) if j >= 0
        ]
        print(f"  {lead}: {', '.join(alike)}")

    # One dense graph: without `k`, the assignment network reads whole rows of C.
    adj = torch.zeros(len(names), len(names))
    adj[data.edge_index[0], data.edge_index[1]] = weight
    x = torch.ones(len(names), 1)
    pool = SimPool(MLP([len(names), 32, CLUSTERS], norm=None))
    optimizer = torch.optim.Adam(pool.parameters(), lr=1e-2, weight_decay=1e-3)
    for _ in range(steps):
        out = pool(x, adj=adj)
        optimizer.zero_grad()
        (out.entropy_loss + out.cluster_loss).backward()
        optimizer.step()

    cluster = out.s[0].argmax(dim=-1)
    sim = structural_similarity(adj)
    same = cluster.unsqueeze(0) == cluster.unsqueeze(1)
    print(
        f"\nClusters (L_E = {out.entropy_loss:.2f}, L_C = {out.cluster_loss:.2f}); mean similarity "
        f"{sim[same].mean():.2f} inside a cluster, {sim[~same].mean():.2f} between two:"
    )
    members: dict[str, list[str]] = {}
    for name, c in zip(names, cluster.tolist()):
        members.setdefault(f"cluster {c}", []).append(name)
    for label in sorted(members):
        print(f"  {label}: {', '.join(members[label])}")

    figure = draw(data, cluster, names)
    if path:
        temporary = path.with_name(f".{path.stem}.tmp{path.suffix}")
        figure.savefig(temporary, dpi=110)
        os.replace(temporary, path)
        print(f"\nPicture: {picture}")
    return members


def draw(data: Data, cluster: torch.Tensor, names: list[str]) -> plt.Figure:
    """Draws the graph with nodes colored by cluster."""
    figure, ax = plt.subplots(figsize=(11, 8), layout="constrained")
    net = to_networkx(data, to_undirected=True)
    pos = nx.spring_layout(net, seed=4, k=0.35, iterations=200)
    plot_clusters(data, cluster, ax, pos, node_size=120)
    labels = dict(enumerate(names))
    nx.draw_networkx_labels(net, pos, labels, 7, verticalalignment="bottom", ax=ax)
    ax.set_title("Les Miserables: characters by cluster of structural similarity")
    ax.legend(loc="lower left")
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", dest="picture", help="writes the picture: a .png, .pdf or .svg")
    parser.add_argument("--steps", type=int, default=300, help="the number of training steps")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error(f"--steps must be at least 1, got {options.steps}")
    main(**vars(options))
