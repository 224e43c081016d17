"""What all plots share: colors, styles of lines, labels, and how files are written."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

from harness.options import integer
from harness.store.files import write_whole
from harness.training.curves import OF_LEVEL
from torch_geometric_simpool.analysis.plotting import COLORS

#: The labels of the curves of a level.
LABELS = dict(zip(OF_LEVEL, ("$L_E$", "$L_C$", "clusters used per graph")))
DASHES = ("-", "--", "-.", ":", (0, (7, 2, 1, 2, 1, 2)), (0, (3, 3)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
#: What a file would hold of the time and the program that made it.
METADATA = {
    "png": {"Software": None},
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Creator": None, "Date": None},
}
# Ids that do not differ from file to file, and letters that programs can edit.
plt.rcParams.update({"svg.hashsalt": "simpool", "pdf.fonttype": 42})


@dataclass(frozen=True)
class PlotFolder:
    """Where plots are written, and how."""

    folder: Path
    format: str = "png"
    dpi: int = 100

    def path(self, name: str) -> Path:
        """The file of a plot."""
        return self.folder / f"{name}.{self.format}"

    def save(self, figure: plt.Figure, name: str) -> None:
        """Writes a plot without version or date, so that equal results give equal files."""
        how: dict[str, Any] = {"dpi": self.dpi, "metadata": METADATA[self.format]}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.path(name), lambda temporary: figure.savefig(temporary, **how))
        plt.close(figure)


def add_plot_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say how plots are written."""
    parser.add_argument(
        "--format", choices=list(METADATA), default="png", help="of the plots (default: png)"
    )
    parser.add_argument(
        "--dpi", type=integer(10, 2400), default=100, help="of plots in PNG (default: 100)"
    )


def line_style(number: int, count: int, length: int) -> dict[str, Any]:
    """The style of line `number` of `count` with `length` points: none hides another.

    Lines that are drawn later are thinner, and broken. Their markers are on other points or,
    where there are too few points, smaller and hollow.
    """
    step = max(length // 8, 1)
    below = (count - 1 - number) / max(count - 1, 1)
    apart = step >= count
    return {
        "color": COLORS[number % len(COLORS)],
        "linestyle": DASHES[number % len(DASHES)],
        "linewidth": 1.2 + 1.6 * below,
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 5 if apart else 4 + 8 * below,
        "markerfacecolor": "white" if apart else "none",
        "markevery": (number * step // count, step),
    }


def epoch_axis(axis: plt.Axes, epochs: int) -> None:
    """Labels an axis of `epochs` epochs with whole numbers."""
    axis.set_xlabel("epoch")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1, steps=[1, 2, 5, 10]))
    if epochs == 1:
        axis.set_xlim(0.5, 1.5)


def from_zero(axis: plt.Axes) -> None:
    """Shows the values from 0 to the largest, with a margin: no line is on the frame."""
    top = axis.dataLim.ymax or 1
    axis.set_ylim(-0.03 * top, 1.05 * top)
