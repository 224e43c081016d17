"""The declaration of a table of the study: rows of runs, or a selection by protocol 'nested'."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Optional

from harness.run import Run


@dataclass(frozen=True)
class Row:
    """One row of a table: its runs, and the accuracy in the paper."""

    label: str
    runs: tuple[Run, ...]
    paper: Optional[str] = None
    #: The label of a row that this one is compared with, besides the first.
    beside: Optional[str] = None


def compared_with(label: str, rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows, each compared with the row of this label as well as with the first row.

    For differences to the first row alone, this function is not needed.
    """
    return tuple(row if row.label == label else replace(row, beside=label) for row in rows)


@dataclass(frozen=True)
class Experiment:
    """One table."""

    name: str
    title: str
    rows: tuple[Row, ...]
    note: str = ""
    #: Whether it is run only if named, and shown only if it has results.
    optional: bool = False
    #: Whether all folds of the first row are run early, and of the others those of `SINGLE`.
    first_row_early: bool = False
    #: An accuracy: the epochs at which folds first reach it are shown, and the lowest fold.
    milestone: Optional[float] = None
    #: Whether the locality of the assignments is shown.
    local: bool = False
    #: The plot, a key of `harness.report.plots.CAPTIONS`. "curves" are for methods with levels.
    plot: Optional[str] = None

    @property
    def runs(self) -> Iterator[Run]:
        """All runs of the table."""
        for row in self.rows:
            yield from row.runs


@dataclass(frozen=True)
class Nested:
    """A table of protocol 'nested': in each fold, every method selects from the same grid."""

    name: str
    title: str
    base: Run
    methods: tuple[str, ...]
    #: What each choice of settings changes, by its name. A method does not have the choices that
    #: change nothing that it reads.
    grid: dict[str, dict[str, Any]]
    repetitions: int
    #: Published accuracies by method; 'best' is the highest one, as it was given to us.
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
