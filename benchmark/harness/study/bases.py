"""The settings that the tables of the study start from."""

from collections.abc import Iterable
from dataclasses import replace

from harness.run import FOLDS, Run

ENZYMES = Run("ENZYMES", "enzymes-10fold", node_features="labels+attributes")
ENZYMES_ONE = replace(ENZYMES, preset="enzymes")
#: Narrower, so that ten folds of many variants are affordable.
NARROW_ENZYMES = replace(ENZYMES, width=0.25, lr=3e-4)
DD = Run("DD", "dd-10fold", node_features="labels", width=0.125)
DD_ONE = replace(DD, preset="dd", epochs=60)
#: As in the paper. This is for a GPU: a run takes days on two cores.
DD_FULL = replace(DD, width=1.0)
DD_FULL_ONE = replace(DD_FULL, preset="dd")
MOTIFS = Run("motifs", "motifs", cleaned=False, node_features="labels", epochs=120)
BY_STRUCTURE = ("rcm", "bfs", "fiedler")
#: Numberings of the nodes for structural features. 'random' is drawn once for each graph,
#: 'random-epoch' whenever a training graph is read.
ORDERS = ("given", "random", "random-epoch", *BY_STRUCTURE)
#: A note on the rows of :func:`position_alone`.
POSITION_ALONE = (
    " 'position alone': at level 0, the only structural feature of a node is its own position in"
    " the order, or that of the first node with the same neighbors (k = 1 and alpha = 0)."
)
#: The folds of ENZYMES' tables that have one split in the paper. Three show the effect of chance.
SINGLE = (0, 1, 2)


def on_folds(run: Run, folds: Iterable[int] = range(FOLDS)) -> tuple[Run, ...]:
    """Returns the run of a setting on each fold."""
    return tuple(replace(run, fold=fold).filled() for fold in folds)


def position_alone(run: Run) -> Run:
    """Returns the run without other similar nodes at level 0.

    The only structural feature of a node is its own position in the order of the nodes, over n + 1,
    or the position of the first node with the same neighbors, whose similarity is 1 as well. Level
    1 reads similarities of clusters, as in any run.
    """
    return replace(run, k=1, alpha=0.0)
