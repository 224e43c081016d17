"""The tables of RESULTS.md, from the finished runs."""

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from harness.report.statistics import (
    LAST,
    Differences,
    accuracy,
    differences,
    finished,
    markdown,
    mean_std,
    significant,
)
from harness.run import ENCODINGS, GENERATED, TESTED, Result, Run
from harness.study.declarations import SINGLE, Experiment, Nested, Row
from harness.study.experiments import EXPERIMENTS, NESTED, PAPER
from harness.study.nested import Results, tested

#: Names of data sets in tables, if they differ. One table has both numberings of `motifs`.
NAMES = {"DD": "D&D", "motifs-by-ring": "motifs"}
#: The columns of the table of locality, and the names of their measures.
MEASURES = {
    "edges inside": "edges_inside",
    "by chance": "edges_by_chance",
    "distance ratio": "distance_ratio",
    "connected": "connected",
    "clusters used": "clusters",
    "evenness": "evenness",
}
#: The columns in tables of accuracies.
SHORT = ("edges inside", "by chance", "distance ratio")
#: The settings of new runs on which the seconds of a run depend.
KIND = {"memory": "kept", "denormals": "flushed"}


def section(table: Experiment, results: Results) -> str:
    """Returns a table of protocol 'paper' or 'tested'."""
    by_fold = {row.label: finished(row.runs, results) for row in table.rows}
    apart = differences(table, by_fold)
    rows = [_cells(table, row, by_fold[row.label], apart) for row in table.rows]
    parts = [
        f"## {heading(table)}",
        named(table, f"Protocol **{table.protocol}**; {conditions(table.rows)}."),
        markdown(rows),
        significant(apart),
    ]
    return "\n\n".join(filter(None, parts))


def _cells(
    table: Experiment, row: Row, by_fold: dict[int, Result], apart: Differences
) -> dict[str, str]:
    """Returns a row of a table, by the names of the columns."""
    accuracies = {fold: accuracy(result) for fold, result in by_fold.items()}
    cells = {"": row.label}
    if table.name in PAPER:
        cells["the paper"] = PAPER[table.name].get(row.label, "-")
        if len(table.rows[0].runs) == len(SINGLE):
            cells["first split"] = mean_std([accuracies[0]] if 0 in accuracies else [])
    on_test = table.protocol in TESTED
    cells |= {
        "test accuracy" if on_test else "best validation accuracy": mean_std(
            [*accuracies.values()]
        ),
        "folds": f"{len(by_fold)} of {len(row.runs)}",
    }
    if table.milestone is not None:
        cells |= _milestone(table.milestone, by_fold)
    cells |= {name: str(column.get(row.label, "")) for name, column in apart.items()}
    if not on_test:
        means = [float(np.mean(r.history["val_accuracy"][-LAST:])) for r in by_fold.values()]
        cells[f"last {LAST} epochs"] = mean_std(means) if means else "-"
    if table.local:
        cells |= {name: _measure(MEASURES[name], by_fold) for name in SHORT}
    return cells | {"parameters": _parameters(by_fold), "s": _seconds(by_fold)}


def _milestone(asked: float, by_fold: dict[int, Result]) -> dict[str, str]:
    """Returns the lowest accuracy, and the number and epochs of the folds that reach `asked`."""
    curves = [np.array(r.history["val_accuracy"]) for r in by_fold.values()]
    epochs = sorted(int(np.argmax(c >= asked)) + 1 for c in curves if c.max() >= asked)
    return {
        "lowest fold": f"{min(map(accuracy, by_fold.values())):.4f}" if curves else "-",
        f"folds that reach {asked:g}": str(len(epochs)) if curves else "-",
        "in epochs": ", ".join(map(str, epochs)) or "-",
    }


def heading(table: Experiment) -> str:
    """Returns the data set and the title of a table."""
    run = table.rows[0].runs[0]
    name = NAMES.get(run.dataset, run.dataset)
    return f"{name}: {table.title[0].lower()}{table.title[1:]}"


def conditions(rows: Sequence[Row], rate: Optional[str] = None) -> str:
    """Returns the text of the settings of a table; `rate` replaces the learning rate."""
    runs = [run for row in rows for run in row.runs]
    run = runs[0]
    form = "generated" if run.dataset in GENERATED else "cleaned" if run.cleaned else "as it is"
    reading = [r for r in runs if r.method == "simpool" and r.features != ENCODINGS]
    mapped = {f"k = {r.k}, alpha = {r.alpha:g}" for r in reading}
    kinds = dict.fromkeys(str(r.node_features) for r in runs)
    parts = [
        f"{NAMES.get(run.dataset, run.dataset)} {form}",
        f"node features {' or '.join(kinds)}",
        _shared(runs, "width", "width", "**width {:g}**"),
        *(mapped if len(mapped) == 1 else ()),
        _shared(runs, "epochs", "epochs", "{} epochs"),
        _shared(runs, "batch_size", "batch size", "batches of {}"),
        _shared(runs, "lr", "learning rate", f"learning rate {rate or '{:g}'}"),
    ]
    return ", ".join(parts)


def _shared(runs: Sequence[Run], name: str, words: str, form: str) -> str:
    """Returns the text of a setting that all runs share, or the text that it differs."""
    values = {getattr(run, name) for run in runs}
    return form.format(*values) if len(values) == 1 else f"{words} as each row says"


def summary(results: Results) -> str:
    """Returns the table of the accuracies of all methods by both protocols."""
    rows = {row.label: {"": row.label} for row in EXPERIMENTS["ENZYMES-10fold"].rows}
    for dataset in ("ENZYMES", "DD"):
        name, nested = NAMES.get(dataset, dataset), NESTED[f"{dataset}-nested"]
        for row in EXPERIMENTS[f"{dataset}-10fold"].rows:
            best = [accuracy(result) for result in finished(row.runs, results).values()]
            test = mean_std([*tested(nested, row.label, results).values()], nested.base.folds)
            rows[row.label] |= {
                f"{name}, paper": mean_std(best, len(row.runs)),
                f"{name}, nested": test if row.label in nested.methods else "-",
            }
    return (
        f"## Both protocols, side by side\n\n{markdown(list(rows.values()))}\n\n"
        "'paper' and 'nested' are the protocols; all numbers are of runs here. Widths, graphs and "
        "epochs differ between the columns: see the tables. '-': the method is not in that table."
    )


def locality_section(table: Experiment, results: Results, blocks: dict[str, Any]) -> str:
    """Returns the table of locality of hard assignments, and of blocks of consecutive nodes."""
    rows = []
    for row in table.rows:
        by_fold = finished(row.runs, results)
        num_clusters = f" of {next(iter(by_fold.values())).num_clusters}" if by_fold else ""
        cells = {"": row.label, "splits": f"{len(by_fold)} of {len(row.runs)}"}
        cells |= {
            name: _measure(field, by_fold) if by_fold else "not run"
            for name, field in MEASURES.items()
        }
        rows.append(cells | {"clusters used": cells["clusters used"] + num_clusters})
    for order, measures in blocks.items():
        count = measures["num_clusters"]
        cells = {
            "": f"*{count} blocks of consecutive nodes, in order '{order}'*",
            "splits": f"{len(measures['splits'])} of {len(SINGLE)}",
        }
        cells |= {name: f"{measures['locality'][field]:.3f}" for name, field in MEASURES.items()}
        rows.append(cells | {"clusters used": f"{cells['clusters used']} of {count}"})
    text = (
        f"{table.note} {conditions(table.rows)}. Level 0, on the validation graphs, after the "
        f"best epoch; mean over graphs, then over splits, of {', '.join(map(str, SINGLE))}. The "
        "measures are those of `torch_geometric_simpool.analysis.locality`."
    )
    return f"## {heading(table)}\n\n{text.strip()}\n\n{markdown(rows)}"


def _measure(field: str, by_fold: dict[int, Result]) -> str:
    """Returns the mean of a measure of locality. A method that leaves nodes out has none."""
    measures = [r.locality[field] for r in by_fold.values() if r.locality is not None]
    values = [value for value in measures if value is not None]
    return f"{np.mean(values):.3f}" if values else "-"


def _parameters(by_fold: dict[int, Result]) -> str:
    """Returns the range of the numbers of trainable parameters of the networks."""
    counts = sorted({r.num_parameters for r in by_fold.values()})
    return " to ".join(f"{n:,}" for n in (counts[:1] + counts[1:][-1:])) or "-"


def _seconds(by_fold: dict[int, Result]) -> str:
    """Returns the median CPU time of runs with both settings of :data:`KIND`.

    If no run has both, it is the median of all runs, marked with a star.
    """
    timed = [r for r in by_fold.values() if r.cpu_seconds is not None]
    present = [r for r in timed if KIND.items() <= r.hardware.items()]
    times = [r.cpu_seconds or 0.0 for r in present or timed]
    return f"{np.median(times):.0f}{'' if present else ' *'}" if times else "-"


def named(table: Experiment | Nested, text: str) -> str:
    """Returns the name and the note of a table, followed by `text`."""
    return " ".join(filter(None, [f"`{table.name}`.", table.note, text]))
