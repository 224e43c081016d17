"""A graph of two stars, and the similarities of its nodes."""

import matplotlib.pyplot as plt

from small_graph import COLORS, adjacency, draw_graph, draw_matrix
from torch_geometric_simpool import structural_similarity

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
alike = {1: 1, 6: 1, 5: 2}  # hubs, and the node between them
draw_graph(left, [COLORS[alike.get(node, 0)] for node in range(1, 10)])
draw_matrix(right, structural_similarity(adjacency()), "$C$", digits=2)
