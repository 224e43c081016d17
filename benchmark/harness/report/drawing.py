"""What all plots share: the backend of Matplotlib, labels, and how files are written."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from harness.store.files import write_whole
from harness.training.curves import OF_LEVEL

#: The labels of the curves of a level.
LABELS = dict(zip(OF_LEVEL, ("$L_E$", "$L_C$", "clusters used per graph")))


def save_plot(figure: plt.Figure, path: Path, dpi: int = 110) -> None:
    """Writes a plot without version or date, so that equal results give equal files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    metadata = {"Software": None}
    write_whole(path, lambda temporary: figure.savefig(temporary, dpi=dpi, metadata=metadata))
    plt.close(figure)
