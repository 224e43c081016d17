"""The tables of RESULTS.md, each from the runs that are there."""

from collections.abc import Iterable, Sequence
from typing import Any, Optional

import numpy as np
from scipy import stats

from declarations import Experiment, Nested, Row, Run
from experiments import EXPERIMENTS, NESTED, SINGLE
from nested import Results, final_runs, tested

#: Columns of the table of locality, and the fields that they show.
MEASURES = {
    "edges inside": "edges_inside",
    "by chance": "edges_by_chance",
    "distance ratio": "distance_ratio",
    "connected": "connected",
    "clusters used": "clusters",
    "evenness": "evenness",
}


def finished(runs: Iterable[Run], results: Results) -> dict[int, dict[str, Any]]:
    """What has been run and has not diverged, by fold."""
    there = {run.fold: results[run] for run in runs if run in results}
    return {fold: result for fold, result in there.items() if "error" not in result}


def section(table: Experiment, results: Results) -> str:
    """A table of protocol 'paper'."""
    first = finished(table.rows[0].runs, results)
    single = len(table.rows[0].runs) == len(SINGLE)
    more = "first split | " if single else ""
    lines = [
        f"## {heading(table)}",
        "",
        f"{table.note} Protocol **paper**; {conditions(table.rows)}.".strip(),
        "",
        f"| | the paper | {more}best validation accuracy | folds | difference | parameters | s |",
        "| --- " * (8 if single else 7) + "|",
    ]
    for row in table.rows:
        there = finished(row.runs, results)
        cells = [row.label, row.paper or "-"]
        if single:
            cells.append(f"{accuracy(there[0]):.4f}" if 0 in there else "not run")
        cells += [mean_std([accuracy(r) for r in there.values()]), _count(row, there)]
        cells.append("" if row is table.rows[0] else difference(there, first))
        cells += [parameters(there), seconds(there)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def heading(table: Experiment) -> str:
    """The data set, and what the table is about."""
    run = table.rows[0].runs[0]
    return f"{_name(run.dataset)}: {table.title[0].lower()}{table.title[1:]}"


def conditions(rows: Sequence[Row], rate: Optional[str] = None) -> str:
    """What all runs of a table share, but for a `rate` that is said in other words."""
    run = rows[0].runs[0]
    form = "cleaned" if run.cleaned else "as it is"
    k = {r.k for row in rows for r in row.runs if r.method == "simpool"}
    shared = f"k = {run.k}, alpha = {run.alpha:g}, " if len(k) == 1 else ""
    if len({r.lr for row in rows for r in row.runs}) > 1:
        rate = "as said"
    return (
        f"{_name(run.dataset)} {form}, node features {run.node_features}, **width {run.width:g}**, "
        f"{shared}{run.epochs} epochs, batches of {run.batch_size}, learning rate "
        f"{rate or format(run.lr, 'g')}"
    )


def summary(results: Results) -> str:
    """Both protocols' figures of every method, side by side."""
    lines = [
        "## Both protocols, side by side",
        "",
        "| | ENZYMES, paper | ENZYMES, nested | D&D, paper | D&D, nested |",
        "| --- | --- | --- | --- | --- |",
    ]
    tables = {"ENZYMES": "ENZYMES", "DD": "DD"}
    for row in EXPERIMENTS["ENZYMES-10fold"].rows:
        cells = [row.label]
        for dataset in tables:
            ten = next(r for r in EXPERIMENTS[f"{dataset}-10fold"].rows if r.label == row.label)
            there = finished(ten.runs, results)
            cells.append(_with_count([accuracy(r) for r in there.values()], len(ten.runs)))
            nested = NESTED[f"{dataset}-nested"]
            if row.label in nested.methods:
                known = tested(nested, row.label, results)
                # The published splits, where there are runs on them.
                values = next(iter(known.values()), {})
                cells.append(_with_count(list(values.values()), nested.base.folds))
            else:
                cells.append("-")
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "Widths, graphs and epochs differ between the columns: see the tables."]
    return "\n".join(lines)


def nested_section(nested: Nested, results: Results) -> str:
    """A table of protocol 'nested', and what was chosen."""
    run = nested.base.filled()
    lines = [
        f"## {nested.title}: protocol nested",
        "",
        f"{nested.note} Protocol **nested**; {conditions([Row('', (run,))], 'chosen')}; the "
        f"choices: {'; '.join(nested.grid)}.".strip(),
        "",
        "| | in print | test accuracy | folds | difference | splits | chosen, fold by fold |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    first = tested(nested, nested.methods[0], results)
    for method in nested.methods:
        found = tested(nested, method, results)
        printed = nested.printed.get(method, "-")
        if not found:
            lines.append(f"| {method} | {printed} | not run | 0 of {run.folds} | - | - | - |")
        for splits, by_fold in found.items():
            chosen = {f: final_runs(nested, method, f, splits, results)[0] for f in by_fold}
            sizes = results[next(iter(chosen.values()))]["sizes"]
            apart = paired(by_fold, first.get(splits, {}), sizes["test"] / sizes["train"])
            cells = [method, printed, mean_std(list(by_fold.values()))]
            cells += [f"{len(by_fold)} of {run.folds}"]
            cells += ["" if method == nested.methods[0] else apart, splits]
            cells.append("; ".join(f"{fold}: {run.config}" for fold, run in chosen.items()))
            lines.append(f"| {' | '.join(cells)} |")
    if "best" in nested.printed:
        lines += ["", f"The best nested figure found in print is {nested.printed['best']}."]
    return "\n".join(lines)


def locality_section(table: Experiment, results: Results, stretches: dict[str, Any]) -> str:
    """How local the hard assignments are, and stretches of an order of the nodes."""
    lines = [
        f"## {heading(table)}",
        "",
        f"{table.note} {conditions(table.rows)}. Level 0, on the validation graphs, after the "
        f"best epoch; mean over graphs, then over splits {', '.join(map(str, SINGLE))}. The "
        "measures are those of `torch_geometric_simpool.analysis.locality`.".strip(),
        "",
        "| | splits | " + " | ".join(MEASURES) + " |",
        "| --- " * (len(MEASURES) + 2) + "|",
    ]
    for row in table.rows:
        there = finished(row.runs, results)
        cells = [row.label, _count(row, there)]
        for field in MEASURES.values():
            values = [v for r in there.values() if (v := r["locality"][field]) is not None]
            cells.append(f"{np.mean(values):.3f}" if values else "-" if there else "not run")
        if there:
            cells[-2] += f" of {next(iter(there.values()))['num_clusters']}"
        lines.append(f"| {' | '.join(cells)} |")
    for order, found in stretches.items():
        cells = [f"*{found['num_clusters']} stretches of the nodes, in order '{order}'*"]
        cells.append(f"{len(found['splits'])} of {len(SINGLE)}")
        cells += [f"{found['locality'][field]:.3f}" for field in MEASURES.values()]
        cells[-2] += f" of {found['num_clusters']}"
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def accuracy(result: dict[str, Any]) -> float:
    """The figure of protocol 'paper'."""
    return result["best_val_accuracy"]


def mean_std(values: Sequence[float]) -> str:
    """Mean and standard deviation; one value by itself; or that there is nothing."""
    if len(values) < 2:
        return f"{values[0]:.4f}" if values else "not run"
    return f"{np.mean(values):.4f} ± {np.std(values):.4f}"


def _with_count(values: Sequence[float], count: int) -> str:
    part = f" ({len(values)} of {count} folds)" if 0 < len(values) < count else ""
    return mean_std(values) + part


def _count(row: Row, there: dict[int, Any]) -> str:
    return f"{len(there)} of {len(row.runs)}"


def difference(one: dict[int, dict[str, Any]], other: dict[int, dict[str, Any]]) -> str:
    """The mean difference over the folds that both have, and its p value."""
    if not one:
        return "-"
    sizes = next(iter(one.values()))["sizes"]
    ours, theirs = ({f: accuracy(r) for f, r in side.items()} for side in (one, other))
    return paired(ours, theirs, sizes["validation"] / sizes["train"])


def paired(one: dict[int, float], other: dict[int, float], ratio: float) -> str:
    """The same of accuracies by fold, and of the graphs they are of over the training graphs."""
    folds = sorted(set(one) & set(other))
    if not folds:
        return "-"
    apart = np.array([one[f] - other[f] for f in folds])
    shown = f"{apart.mean():+.4f}"
    if len(folds) < 3:
        return shown
    p = corrected_t_test(apart, ratio)
    return f"{shown} (p = {p:.3f}, {len(folds)} folds)"


def corrected_t_test(apart: np.ndarray, ratio: float) -> float:
    """The two-sided p value of paired differences over folds that share training graphs.

    Nadeau and Bengio (2003): the variance of the mean is `(1 / n + ratio)` times that of the
    differences, `ratio` being the graphs that are classified over the training graphs.
    """
    variance = float(apart.var(ddof=1))
    if variance == 0:
        return 1.0 if apart.mean() == 0 else 0.0
    t = apart.mean() / np.sqrt((1 / len(apart) + ratio) * variance)
    return float(2 * stats.t.sf(abs(t), len(apart) - 1))


def parameters(there: dict[int, dict[str, Any]]) -> str:
    """How many trained numbers the networks have."""
    counts = sorted({r["num_parameters"] for r in there.values()})
    return " to ".join(f"{n:,}" for n in (counts[:1] + counts[1:][-1:])) or "-"


def seconds(there: dict[int, dict[str, Any]]) -> str:
    """The median of the time of a run."""
    times = [r["cpu_seconds"] for r in there.values() if "cpu_seconds" in r]
    return f"{np.median(times):.0f}" if times else "-"


def _name(dataset: str) -> str:
    return "D&D" if dataset == "DD" else dataset
