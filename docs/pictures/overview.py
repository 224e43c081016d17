"""Similarity, clusters and the pooled graph of two stars: the picture of README.

`python docs/pictures/overview.py` writes docs/_static/overview.png.
"""

from pathlib import Path

import matplotlib.pyplot as plt

from small_graph import COLORS, adjacency, assignment, draw_graph, draw_matrix, draw_pooled
from torch_geometric_simpool import structural_similarity

FILE = Path(__file__).parent.parent / "_static" / "overview.png"

adj = adjacency()
out = assignment(adj)
clusters = out.s[0].argmax(dim=1).tolist()
figure, axes = plt.subplots(
    1, 3, figsize=(10, 3.4), layout="constrained", width_ratios=[2, 1.7, 1.1]
)
draw_graph(axes[0], [COLORS[c] for c in clusters])
axes[0].set_title("a graph; colors are clusters")
draw_matrix(axes[1], structural_similarity(adj), "similarity of its nodes", digits=2)
draw_pooled(axes[2], out.adj[0].detach())
axes[2].set_title("the pooled graph")
if __name__ == "__main__":
    figure.savefig(FILE, dpi=160, metadata={"Software": None})
