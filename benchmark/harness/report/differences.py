"""The columns of differences in a table, and which are significant."""

from typing import Optional

import numpy as np

from harness.report.statistics import Comparison, difference, holm
from harness.run import Result
from harness.study.declarations import Experiment

#: Columns by name, and in each the comparisons by the label of the row; `None` if it is not run.
Differences = dict[str, dict[str, Optional[Comparison]]]
#: The column of differences to rows that are not the same for all.
ANOTHER = "difference to another row"


def differences(table: Experiment, by_label: dict[str, dict[int, Result]]) -> Differences:
    """The columns of differences: of each row to the first, and of some to the row they name."""
    first, *others = table.rows
    columns: Differences = {
        "difference": {
            r.label: difference(by_label[r.label], by_label[first.label]) for r in others
        }
    }
    named = {row.label: row.beside for row in table.rows if row.beside is not None}
    if named:
        one, *more = set(named.values())
        columns[ANOTHER if more else f"difference to {one}"] = {
            label: difference(by_label[label], by_label[beside]) for label, beside in named.items()
        }
    return columns


def shown(apart: Optional[Comparison], to: str = "") -> str:
    """A difference as it stands in a cell, after the row `to` that it is to."""
    return "-" if apart is None else f"{to}{apart}"


def significant(columns: Differences, beside: dict[str, Optional[str]]) -> str:
    """Names the p values of each column that are below 0.05 after a correction for their number.

    `beside` has the row that each row names. Empty if no column has several p values.
    """
    sentences = []
    for name, column in columns.items():
        enough = {label: c for label, c in column.items() if c is not None and c.folds > 2}
        with_p = {label: c for label, c in enough.items() if not np.isnan(c.p)}
        if len(with_p) < 2:
            continue
        corrected = holm([c.p for c in with_p.values()])
        low = {label: c.mean for (label, c), p in zip(with_p.items(), corrected) if p < 0.05}
        kinds = {
            "ahead": [label for label, mean in low.items() if mean > 0],
            "behind": [label for label, mean in low.items() if mean < 0],
            "no p value": [label for label in enough if label not in with_p],
        }
        to = {label: f" (to `{beside[label]}`)" if name == ANOTHER else "" for label in column}
        parts = [
            f"{kind} {', '.join(f'`{label}`{to[label]}' for label in labels)}"
            for kind, labels in kinds.items()
            if labels
        ]
        if not low:
            parts.insert(0, "none")
        few = len(column) - len(enough)
        left = f"; rows with fewer than three folds: {few}" if few else ""
        sentences.append(f"*{name}* ({len(with_p)} p values{left}): {'; '.join(parts)}.")
    start = "Below 0.05 after Holm's correction, each column by itself."
    return f"{start} {' '.join(sentences)}" if sentences else ""
