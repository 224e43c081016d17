"""Les Miserables: similar characters
==================================

The graph counts the chapters in which two characters of the novel appear together. The script
prints the most similar characters and learns clusters from the structure alone, without labels. The
graph is part of networkx.

Usage: ``python examples/les_miserables.py [--steps 300] [--out les_miserables.png]``
"""

import argparse
import textwrap
from typing import Optional

import matplotlib.pyplot as plt
import networkx as nx
import torch
from torch_geometric.data import Data
from torch_geometric.nn import MLP
from torch_geometric.utils import from_networkx, to_dense_adj

from torch_geometric_simpool import SimPool, plot_clusters, structural_similarity, topk_similarity

CLUSTERS = 6
LEADS = ("Valjean", "Javert", "Fantine", "Cosette", "Gavroche", "Enjolras", "MlleBaptistine")


def main(steps: int = 300, out: Optional[str] = None) -> dict[int, list[str]]:
    """Prints similar characters, draws the clusters, and returns the members of each cluster."""
    torch.manual_seed(0)
    graph = nx.les_miserables_graph()
    names = list(graph)
    data = from_networkx(graph)  # the edge weights are `data.weight`
    weight = data.weight.float()

    print("Characters with the most similar neighborhoods:")
    values, index = topk_similarity(data.edge_index, 3, weight, loop=False)
    for lead in LEADS:
        i = names.index(lead)
        similar = zip(index[i].tolist(), values[i].tolist())
        print(f"  {lead}: " + ", ".join(f"{names[j]} {value:.2f}" for j, value in similar))

    # With `k=None`, the assignment network reads whole rows of C. It does not read `x`.
    adj = to_dense_adj(data.edge_index, edge_attr=weight)[0]
    x = torch.ones(len(names), 1)
    pool = SimPool(assignment=MLP([len(names), 32, CLUSTERS], norm=None), k=None)
    optimizer = torch.optim.Adam(pool.parameters(), lr=1e-2, weight_decay=1e-3)
    for _ in range(steps):
        pooled = pool(x, adj=adj)
        optimizer.zero_grad()
        (pooled.entropy_loss + pooled.cluster_loss).backward()
        optimizer.step()

    cluster = pooled.s[0].argmax(dim=-1)
    sim = structural_similarity(adj)
    same = cluster.unsqueeze(0) == cluster.unsqueeze(1)
    print(
        f"\nMean similarity {sim[same].mean():.2f} within a cluster, "
        f"{sim[~same].mean():.2f} between clusters:"
    )
    members: dict[int, list[str]] = {}
    for name, number in zip(names, cluster.tolist()):
        members.setdefault(number, []).append(name)
    for number in sorted(members):
        line = f"  cluster {number}: {', '.join(members[number])}"
        print(textwrap.fill(line, width=88, subsequent_indent="    "))
    figure = draw(data, graph, cluster)
    if out is not None:
        figure.savefig(out, dpi=110)
    return members


def draw(data: Data, graph: nx.Graph, cluster: torch.Tensor) -> plt.Figure:
    """Draws the graph with nodes colored by cluster."""
    figure, axis = plt.subplots(figsize=(11, 8), layout="constrained")
    names = dict(enumerate(graph))
    layout = nx.spring_layout(graph, seed=4, k=0.35, iterations=200)
    position = {number: layout[name] for number, name in names.items()}
    plot_clusters(data, cluster, axis, position, node_size=120)
    net = nx.convert_node_labels_to_integers(graph)
    nx.draw_networkx_labels(net, position, names, 7, verticalalignment="bottom", ax=axis)
    axis.set_title("Les Miserables: characters by cluster of structural similarity")
    axis.legend(loc="lower left")
    return figure


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="number of training steps")
    parser.add_argument("--out", help="file of the picture, for example les_miserables.png")
    main(**vars(parser.parse_args()))
