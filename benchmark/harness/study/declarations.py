"""The classes of tables of the study, and the settings that tables start from.

A table has rows of runs, or selects settings by protocol 'nested'."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional

from harness.run import FOLDS, Run

ENZYMES = Run("ENZYMES", "enzymes-10fold", node_features="labels+attributes")
ENZYMES_ONE = replace(ENZYMES, preset="enzymes")
#: Narrow networks, so that ten folds of many variants take less time.
NARROW_ENZYMES = replace(ENZYMES, width=0.25, lr=3e-4)
DD = Run("DD", "dd-10fold", node_features="labels", width=0.125)
DD_ONE = replace(DD, preset="dd", epochs=60)
MOTIFS = Run("motifs", "motifs", cleaned=False, node_features="labels", epochs=120)
BY_STRUCTURE = ("rcm", "bfs", "fiedler")
#: Numberings of the nodes for structural features. 'random' draws one for each graph, and
#: 'random-epoch' a new one in each epoch.
ORDERS = ("given", "random", "random-epoch", *BY_STRUCTURE)
#: A note on the rows of :func:`position_alone`.
POSITION_ALONE = (
    " 'position alone': at level 0, the only structural feature of a node is its own position in"
    " the order, or that of the first node with the same neighbors (k = 1 and alpha = 0)."
)
#: The folds of ENZYMES' tables that have one split in the paper. Three folds show the effect of
#: chance.
SINGLE = (0, 1, 2)


@dataclass(frozen=True)
class Row:
    """One row of a table, and its runs."""

    label: str
    runs: tuple[Run, ...]
    #: The label of a row that this row is compared with, besides the first row.
    beside: Optional[str] = None


def compared_with(label: str, rows: Iterable[Row]) -> tuple[Row, ...]:
    """Returns the rows, each compared with the row `label` in addition to the first row."""
    return tuple(row if row.label == label else replace(row, beside=label) for row in rows)


@dataclass(frozen=True)
class Experiment:
    """One table."""

    name: str
    title: str
    rows: tuple[Row, ...]
    note: str = ""
    #: An accuracy. The table shows the epochs in which folds first reach it, and the lowest fold.
    milestone: Optional[float] = None
    #: Whether the locality of the assignments is shown.
    local: bool = False
    #: The plot, a key of `harness.report.plots.CAPTIONS`. "curves" are for methods with levels.
    plot: Optional[str] = None

    @property
    def runs(self) -> list[Run]:
        """All runs of the table."""
        return [run for row in self.rows for run in row.runs]

    @property
    def protocol(self) -> str:
        """The protocol of all runs."""
        return self.rows[0].runs[0].protocol


@dataclass(frozen=True)
class Nested:
    """A table of protocol 'nested': in each fold, every method selects from the same grid."""

    name: str
    title: str
    base: Run
    methods: tuple[str, ...]
    #: The changed settings of each choice, by its name. A method does not have choices that change
    #: only settings that it does not read.
    grid: dict[str, dict[str, Any]]
    repetitions: int
    #: Published accuracies by method. 'best' is the highest one, from a source that was not found.
    published: dict[str, str]
    note: str = ""
    #: Whether the final runs of a fold also vote: see :func:`harness.study.nested.vote`.
    votes: bool = False
    #: The name of a table with fewer choices, with which each method is compared.
    smaller_grid: Optional[str] = None

    def selection(self, method: str, fold: int, splits: str) -> dict[str, Run]:
        """The runs to select from, by the name of the choice."""
        base = replace(
            self.base, protocol="nested-selection", method=method, fold=fold, splits=splits
        )
        choices: dict[Run, str] = {}
        for name, changes in self.grid.items():
            choices.setdefault(replace(base, **changes).filled(), name)
        return {name: replace(run, config=name) for run, name in choices.items()}

    def final(self, chosen: Run) -> list[Run]:
        """The runs that are tested if `chosen` is selected."""
        final = replace(chosen, protocol="nested", probabilities=self.votes)
        return [replace(final, repetition=r) for r in range(1, self.repetitions + 1)]


def on_folds(run: Run, folds: Iterable[int] = range(FOLDS)) -> tuple[Run, ...]:
    """Returns the run of a setting on each fold."""
    return tuple(replace(run, fold=fold).filled() for fold in folds)


def rows_of(runs: Mapping[str, Run], folds: Iterable[int] = range(FOLDS)) -> list[Row]:
    """Returns a row for each label, whose run is made on each fold."""
    return [Row(label, on_folds(run, folds)) for label, run in runs.items()]


def position_alone(run: Run) -> Run:
    """Returns the run with one similar node and without its similarity (k = 1, alpha = 0).

    The only structural feature of a node at level 0 is a position in the order of the nodes, over
    n + 1. It is the position of the first node with the same neighbors, mostly the node itself.
    Level 1 reads similarities of clusters as usual.
    """
    return replace(run, k=1, alpha=0.0)
