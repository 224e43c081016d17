"""The order in which runs are made."""

from collections.abc import Iterable

from harness.run import Run
from harness.study import experiments
from harness.study.bases import SINGLE


def queue(names: Iterable[str]) -> tuple[list[Run], list[Run]]:
    """Returns the runs of tables of protocol 'paper', early ones and late ones.

    If the study is stopped early, every table has results, and all methods have about as many
    folds. Early are SimPool on ten folds, other methods on the folds of `SINGLE`, and the first
    split of other tables. Late are the other runs, fold by fold.
    """
    early: list[Run] = []
    late: list[Run] = []
    for table in [experiments.EXPERIMENTS[n] for n in names if n in experiments.EXPERIMENTS]:
        if table.first_row_early:
            first, *others = table.rows
            peers = sorted((run for row in others for run in row.runs), key=lambda r: r.fold)
            early += [*first.runs, *(run for run in peers if run.fold in SINGLE)]
            late += peers
        else:
            early += [run for run in table.runs if run.fold == SINGLE[0]]
            late += table.runs
    # A GRU over whole rows takes as long as many other runs.
    early = sorted(dict.fromkeys(early), key=lambda r: r.gru)
    late = list(dict.fromkeys(sorted(late, key=lambda r: r.fold)))
    return early, [run for run in late if run not in set(early)]
