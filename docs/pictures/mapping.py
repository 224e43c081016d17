"""The mapped features of two nodes, on the line from 0 to 1."""

import matplotlib.pyplot as plt

from small_graph import COLORS, adjacency
from torch_geometric_simpool import map_indices, topk_similarity

K, ALPHA = 5, 0.8

edge_index = adjacency().nonzero().t()
n = int(edge_index.max()) + 1
values, index = topk_similarity(edge_index, K)
features = map_indices(values, index, n, ALPHA)

figure, axis = plt.subplots(figsize=(8, 2.9), layout="constrained")
for line, node in enumerate((2, 6)):
    filled = index[node - 1] >= 0
    places = features[node - 1][filled]
    axis.plot(places, [line] * len(places), "o", color=COLORS[line], markeredgecolor="0.3", ms=11)
    for place, similarity in zip(places.tolist(), values[node - 1][filled].tolist()):
        label = f"{similarity:.2f}".removesuffix(".00")
        axis.text(place, line + 0.2, label, ha="center", va="top", fontsize=9)
axis.set_xticks([j / (n + 1) for j in range(1, n + 2)], [*range(1, n + 1), ""])
axis.set_yticks([0, 1], ["node 2", "node 6"])
axis.set_xlim(0, 1)
axis.set_ylim(1.5, -0.6)
axis.grid(axis="x", color="0.85")
axis.set_axisbelow(True)
axis.set_xlabel("similar node $j$: the line at $j / (n + 1)$")
