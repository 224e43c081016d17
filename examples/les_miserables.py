"""Les Miserables: characters with similar roles, and clusters of them.

Usage: python examples/les_miserables.py [PICTURE]     (les_miserables.png by default)

The graph is part of networkx: characters of the novel, and in how many chapters two of them
appear together. There are no labels, and nothing is downloaded.
"""

import os
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import networkx as nx
import torch
from torch_geometric.nn import MLP
from torch_geometric.utils import from_networkx

from torch_geometric_simpool import SimPool, structural_similarity, topk_similarity

CLUSTERS = 6
LEADS = ("Valjean", "Javert", "Fantine", "Cosette", "Gavroche", "Enjolras", "MlleBaptistine")


def main(picture: str = "les_miserables.png", steps: int = 300) -> dict[str, list[str]]:
    """Prints roles and clusters, draws them, and returns the characters of each cluster."""
    if not Path(picture).resolve().parent.is_dir():
        sys.exit(f"the folder of the picture must exist, got {picture}")
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

    draw(net, cluster.tolist(), Path(picture))
    print(f"\nPicture: {picture}")
    return members


def draw(net: nx.Graph, cluster: list[int], path: Path) -> None:
    """Draws the graph with nodes colored by cluster."""
    figure, axis = plt.subplots(figsize=(11, 8), layout="constrained")
    position = nx.spring_layout(net, weight=None, seed=4, k=0.35, iterations=200)
    nx.draw_networkx_edges(net, position, ax=axis, edge_color="0.85")
    colors = [plt.get_cmap("tab10")(c) for c in cluster]
    size = [40 + 12 * degree for _, degree in net.degree()]
    nx.draw_networkx_nodes(net, position, ax=axis, node_color=colors, node_size=size)
    nx.draw_networkx_labels(net, position, ax=axis, font_size=7)
    axis.set_title("Les Miserables: characters by cluster of structural similarity")
    axis.axis("off")
    temporary = path.with_name(f".{path.stem}.tmp.png")
    figure.savefig(temporary, dpi=110)
    os.replace(temporary, path)
    plt.close(figure)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(picture=sys.argv[1])
    else:
        main()
