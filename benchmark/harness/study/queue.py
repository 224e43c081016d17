"""Which table asks for a run, and in which order runs are made."""

from collections.abc import Iterable

from harness.study import experiments
from harness.study.bases import SINGLE
from harness.study.run import Run


def asked_by() -> dict[Run, str]:
    """The first table of protocol 'paper', and the row of it, that asks for a run."""
    found: dict[Run, str] = {}
    for table in experiments.EXPERIMENTS.values():
        for row in table.rows:
            for run in row.runs:
                found.setdefault(run, f"{table.name}: {row.label}")
    return found


def queue(names: Iterable[str]) -> tuple[list[Run], list[Run]]:
    """The runs of tables of protocol 'paper', in the order of `names`: early ones, late ones.

    If the study is stopped early, every table has results, and all methods about as many folds.
    Early are SimPool on ten folds, its peers on the folds of `SINGLE`, and of other tables the
    first split. Late are the rest, fold by fold.
    """
    early: list[Run] = []
    late: list[Run] = []
    for name in names:
        if name not in experiments.EXPERIMENTS:
            continue
        table = experiments.EXPERIMENTS[name]
        rows = table.rows
        if table.first_row_early:
            early += rows[0].runs
            peers = sorted((run for row in rows[1:] for run in row.runs), key=lambda r: r.fold)
            early += [run for run in peers if run.fold in SINGLE]
            late += peers
        else:
            early += [run for row in rows for run in row.runs if run.fold == SINGLE[0]]
            late += table.runs
    # A GRU over whole rows takes as long as many other runs.
    early = sorted(dict.fromkeys(early), key=lambda r: r.gru)
    late = list(dict.fromkeys(sorted(late, key=lambda r: r.fold)))
    return early, [run for run in late if run not in set(early)]
