"""Times of other packages over the time of `topk_similarity`, on two threads."""

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter

from results import top_k_times
from torch_geometric_simpool.analysis.plotting import COLORS

MARKERS = ("o", "s", "^", "D", "v")

times = top_k_times().xs(2, level="threads")
peers = [name for name in times.columns if name != "simpool"]
ratios = times[peers].div(times["simpool"], axis=0).dropna(how="all")
ratios = ratios.loc[ratios.min(axis=1).sort_values().index]

figure, axis = plt.subplots(figsize=(8, 1.4 + 0.32 * len(ratios)), layout="constrained")
for peer, color, marker in zip(peers, COLORS, MARKERS):
    axis.plot(ratios[peer], range(len(ratios)), marker, color=color, label=peer, ms=7)
axis.axvline(1, color="0.3", linestyle="--", label="topk_similarity")
axis.set_xscale("log")
axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
axis.xaxis.set_minor_formatter(NullFormatter())
axis.set_yticks(range(len(ratios)), ratios.index, fontsize=9)
axis.grid(color="0.9")
axis.set_axisbelow(True)
axis.set_xlabel("time over the time of topk_similarity\n(right of 1: topk_similarity is faster)")
figure.legend(loc="outside upper center", ncols=len(peers) + 1, fontsize=9, frameon=False)
