"""The two losses of four assignments of six nodes to three clusters."""

import matplotlib.pyplot as plt
import torch

from small_graph import draw_matrix
from torch_geometric_simpool import cluster_loss, entropy_loss

one = torch.nn.functional.one_hot
assignments = {
    "all in one": one(torch.tensor([1] * 6), 3),
    "undecided": torch.full((6, 3), 1 / 3),
    "uneven": one(torch.tensor([0, 0, 0, 0, 1, 2]), 3),
    "even": one(torch.tensor([0, 0, 1, 1, 2, 2]), 3),
}
figure, axes = plt.subplots(1, 4, figsize=(8, 3.6), layout="constrained")
for axis, (title, s) in zip(axes, assignments.items()):
    draw_matrix(axis, s.float(), title)
    values = entropy_loss(s.float()), cluster_loss(s.float())
    axis.set_xlabel("$L_E = {:.2f}$\n$L_C = {:.2f}$".format(*(abs(float(v)) for v in values)))
