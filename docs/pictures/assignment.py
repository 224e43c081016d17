"""Three clusters of the graph of two stars, learned from the two losses alone."""

import matplotlib.pyplot as plt
import torch

from small_graph import COLORS, adjacency, draw_graph, draw_matrix
from torch_geometric_simpool import SimPool

torch.manual_seed(3)
adj = adjacency()
pool = SimPool(3, k=None, hidden_channels=16)
pool(torch.ones(9, 1), adj=adj)  # sets the size of the lazy first layer
optimizer = torch.optim.Adam(pool.parameters(), lr=0.02)
for _ in range(150):
    out = pool(torch.ones(9, 1), adj=adj)
    optimizer.zero_grad()
    (out.entropy_loss + out.cluster_loss).backward()
    optimizer.step()

s, coarse = out.s[0].detach(), out.adj[0].detach()
figure, axes = plt.subplots(
    1, 3, figsize=(8, 3.2), layout="constrained", width_ratios=[2.2, 0.8, 1.1]
)
draw_graph(axes[0], [COLORS[c] for c in s.argmax(dim=1).tolist()])
draw_matrix(axes[1], s, "$S$")
draw_matrix(axes[2], coarse, "$A'$", digits=2)
for axis in axes[1:]:
    axis.set_xlabel("cluster")
