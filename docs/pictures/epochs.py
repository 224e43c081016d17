"""Validation accuracy over the epochs on two generated data sets, from the runs of the study."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from results import runs
from torch_geometric_simpool.analysis.plotting import COLORS

LINES: dict[str, dict[str, dict[str, Any]]] = {
    "twin-colors": {
        "set of similar nodes": {"method": "similarity-set", "similar": "cosine"},
        "set of neighbors": {"method": "similarity-set", "similar": "neighbors"},
        "no pooling": {"method": "nopool"},
    },
    "motifs": {
        "similar nodes (indices)": {"method": "simpool", "order": "fiedler", "k": 15.0},
        "position alone": {"method": "simpool", "order": "fiedler", "k": 1.0},
        "no pooling": {"method": "nopool"},
    },
}
STYLES = ("-", "--", "-.")

figure, axes = plt.subplots(1, 2, figsize=(8, 4.2), layout="constrained", sharey=True)
for axis, (dataset, lines) in zip(axes, LINES.items()):
    for (label, settings), color, style in zip(lines.items(), COLORS, STYLES):
        table = runs(dataset, features="structural", **settings)
        curves = np.stack([history["val_accuracy"] for history in table["history"]])
        epoch = np.arange(1, curves.shape[1] + 1)
        axis.plot(epoch, curves.mean(axis=0), style, color=color, label=label)
        axis.fill_between(epoch, curves.min(axis=0), curves.max(axis=0), color=color, alpha=0.15)
    chance = 1 / table["data"].iloc[0]["num_classes"]
    axis.axhline(chance, color="0.3", linestyle=":", label="chance")
    axis.set(title=f"{dataset}, {len(table)} folds", xlabel="epoch", ylim=(0, 1.03))
    axis.grid(color="0.9")
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2, fontsize=8)
axes[0].set_ylabel("validation accuracy")
