"""Three clusters of the graph of two stars, learned from the two losses alone."""

import matplotlib.pyplot as plt

from small_graph import COLORS, adjacency, assignment, draw_graph, draw_matrix

out = assignment(adjacency())
s, coarse = out.s[0].detach(), out.adj[0].detach()
figure, axes = plt.subplots(
    1, 3, figsize=(8, 3.2), layout="constrained", width_ratios=[2.2, 0.8, 1.1]
)
draw_graph(axes[0], [COLORS[c] for c in s.argmax(dim=1).tolist()])
draw_matrix(axes[1], s, "$S$")
draw_matrix(axes[2], coarse, "$A'$", digits=2)
for axis in axes[1:]:
    axis.set_xlabel("cluster")
