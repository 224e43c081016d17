"""The study as data: which runs there are, and which table each is for."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Optional

from declarations import FOLDS, Experiment, Nested, Row, Run
from peers import METHODS

FEATURES = ("structural", "both", "node")
#: How nodes are numbered before the top k and the mapping see them; 'random' is drawn once
#: per graph, 'random-epoch' anew whenever a training graph is read.
ORDERS = ("given", "random", "random-epoch", "rcm", "bfs", "fiedler")


def _folds(run: Run, folds: Iterable[int] = range(FOLDS)) -> tuple[Run, ...]:
    return tuple(replace(run, fold=fold).filled() for fold in folds)


ENZYMES = Run("ENZYMES", "enzymes-10fold", node_features="labels+attributes")
ENZYMES_ONE = replace(ENZYMES, preset="enzymes")
#: Narrower, so that ten folds of many variants are affordable; as for the generated data set.
NARROW_ENZYMES = replace(ENZYMES, width=0.25, lr=3e-4)
DD = Run("DD", "dd-10fold", node_features="labels", width=0.125)
DD_ONE = replace(DD, preset="dd", epochs=60)
#: As in the paper, which is for a GPU: each needs days of two cores.
DD_FULL = replace(DD, width=1.0)
DD_FULL_ONE = replace(DD_FULL, preset="dd")
#: Beside the splits that the paper has one of, more of them, so that chance can be seen.
SINGLE = (0, 1, 2)

_PAPER_10FOLD = {
    "ENZYMES": {"simpool": "0.7244 ± 0.0485", "diffpool": "0.6253", "sortpool": "0.5712"},
    "DD": {
        "simpool": "TBD",
        "diffpool": "0.8064",
        "sortpool": "0.7937 ± 0.0094",
        "gunet": "0.8243",
        "sagpool": "0.7645 ± 0.0097",
    },
}
_PAPER_FEATURES = {
    "ENZYMES": {"structural": "0.7667", "both": "0.7000", "node": "0.7167"},
    "DD": {"structural": "0.7915", "both": "0.7881", "node": "0.7712"},
}
_PAPER_P = {
    "ENZYMES": {1: "0.7667", 2: "0.7000", 3: "0.7000"},
    "DD": {1: "0.7915", 2: "0.7881", 3: "0.7797"},
}
#: Of k and of the scaler of L_C it has tables of ENZYMES alone.
_PAPER_K = {3: "0.6833", 6: "0.6833", 9: "0.7000", 12: "0.7667", 15: "0.8000", 18: "0.7167"}
_PAPER_SCALER = {0.0: "0.6833", 0.5: "0.7000", 1.0: "0.7667", 1.5: "0.7167", 2.0: "0.7000"}


#: Of every table whose networks are narrower than the paper's.
_NARROW = {
    "ENZYMES": "",
    "DD": "An eighth of the paper's width, which is what two cores can do"
    " (the paper's default has 230 epochs, its ten folds 60).",
}


def _ten_folds(base: Run) -> Experiment:
    paper = _PAPER_10FOLD[base.dataset]
    order = ("simpool", "baseline", "diffpool", "nopool", "sagpool", "gunet", "sortpool")
    assert set(order) == set(METHODS)
    rows = [Row(m, _folds(replace(base, method=m)), paper.get(m)) for m in order]
    return _experiment(base, "10fold", "All methods, ten folds", rows)


def _experiment(
    base: Run, name: str, title: str, rows: Iterable[Row], note: str = ""
) -> Experiment:
    """A table of a data set; one of D&D at full width is optional."""
    full = base.dataset == "DD" and base.width == 1
    if full:
        return Experiment(f"DD-full-{name}", f"{title}, full width", tuple(rows), optional=True)
    note = note or _NARROW[base.dataset]
    return Experiment(f"{base.dataset}-{name}", title, tuple(rows), note)


def _by(
    base: Run, name: str, title: str, rows: Iterable[tuple[str, Run, Optional[str]]]
) -> Experiment:
    made = [Row(label, _folds(run, SINGLE), paper) for label, run, paper in rows]
    return _experiment(base, name, title, made)


def _by_features(base: Run) -> Experiment:
    paper = _PAPER_FEATURES[base.dataset]
    rows = [(f, replace(base, features=f), paper[f]) for f in FEATURES]
    return _by(base, "features", "By what the assignment networks read", rows)


def _by_k(base: Run) -> Experiment:
    rows: list[tuple[str, Run, Optional[str]]]
    rows = [(f"k = {k}", replace(base, k=k), paper) for k, paper in _PAPER_K.items()]
    rows.append(("GRU over all of C", replace(base, gru=True), "0.733"))
    return _by(base, "k", "By k, and a GRU over the whole row of C", rows)


def _by_p(base: Run) -> Experiment:
    rows = [(f"p = {p}", replace(base, p=p), paper) for p, paper in _PAPER_P[base.dataset].items()]
    return _by(base, "p", "By the power p of the adjacency matrix", rows)


def _by_scaler(base: Run) -> Experiment:
    rows = [
        (f"scaler {scaler:g}", replace(base, cluster_scaler=scaler), paper)
        for scaler, paper in _PAPER_SCALER.items()
    ]
    return _by(base, "scaler", "By the scaler of L_C", rows)


def _on_labels(base: Run) -> Experiment:
    """Whether the settings of the tables above matter more where node features say less."""
    rows = [
        ("k = 12, scaler of L_C 1", base),
        ("k = 3", replace(base, k=3)),
        ("scaler of L_C 0", replace(base, cluster_scaler=0.0)),
        ("assignments read node features", replace(base, features="node")),
        ("baseline", replace(base, method="baseline")),
    ]
    made = [Row(label, _folds(run, SINGLE)) for label, run in rows]
    return _experiment(base, "labels", "On labels alone", made, "A quarter of the paper's width.")


def _by_order(base: Run, folds: Iterable[int], note: str = "") -> Experiment:
    rows = [Row(order, _folds(replace(base, order=order), folds)) for order in ORDERS]
    return _experiment(base, "order", "By the order in which nodes are numbered", rows, note)


def _baseline_by_rate(base: Run) -> Experiment:
    """Whether the baseline's distance is one of methods, or one of learning rates."""
    rows = [Row("simpool, learning rate 1e-4", _folds(base))]
    for rate in (1e-4, 3e-4, 1e-3):
        label = f"baseline, learning rate {rate:.0e}".replace("e-0", "e-")
        rows.append(Row(label, _folds(replace(base, method="baseline", lr=rate))))
    return _experiment(base, "rate", "The baseline at other learning rates", rows)


#: Every table with the runs of protocol 'paper', in the order of the report.
EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for e in (
        _ten_folds(ENZYMES),
        _by_features(ENZYMES_ONE),
        _by_k(ENZYMES_ONE),
        _by_p(ENZYMES_ONE),
        _by_scaler(ENZYMES_ONE),
        _on_labels(replace(ENZYMES_ONE, node_features="labels", width=0.25, lr=3e-4)),
        _by_order(
            NARROW_ENZYMES,
            range(FOLDS),
            "A quarter of the paper's width, on all ten folds: one split could not tell.",
        ),
        _ten_folds(DD),
        _by_features(DD_ONE),
        _by_p(DD_ONE),
        _by_order(DD, SINGLE),
        _baseline_by_rate(DD),
        _ten_folds(DD_FULL),
        _by_features(DD_FULL_ONE),
        _by_p(DD_FULL_ONE),
        _by_order(DD_FULL, SINGLE),
    )
}


#: The learning rates to choose from.
_GRID = {
    "lr 1e-3": {"lr": 1e-3},
    "lr 3e-4": {"lr": 3e-4},
}
NESTED: dict[str, Nested] = {
    n.name: n
    for n in (
        Nested(
            "ENZYMES-nested",
            "ENZYMES, 600 graphs",
            replace(ENZYMES, cleaned=False, width=0.25, epochs=100),
            ("simpool", "diffpool", "baseline"),
            _GRID,
            3,
            {"diffpool": "0.595", "best": "0.694"},
        ),
        Nested(
            "DD-nested",
            "D&D, 1178 graphs",
            replace(DD, cleaned=False, epochs=30),
            ("simpool", "diffpool", "baseline"),
            _GRID,
            3,
            {"diffpool": "0.750", "baseline": "0.784"},
        ),
    )
}
NAMES = (*EXPERIMENTS, *NESTED)
#: What is run unless tables are named.
DEFAULT_NAMES = (*(n for n, table in EXPERIMENTS.items() if not table.optional), *NESTED)


def _locality(base: Run, peer: Run) -> Experiment:
    rows = [Row(f"SimPool, {f}", _folds(replace(base, features=f), SINGLE)) for f in FEATURES]
    rows.append(Row("SimPool, structural, as on ten folds", _folds(peer, SINGLE)))
    rows.append(Row("DiffPool", _folds(replace(peer, method="diffpool"), SINGLE)))
    name = f"{base.dataset}-locality"
    return Experiment(name, "How local the assignments are", tuple(rows), _NARROW[base.dataset])


#: Tables over runs of the ones above.
LOCALITY: dict[str, Experiment] = {
    e.name: e for e in (_locality(ENZYMES_ONE, ENZYMES), _locality(DD_ONE, DD))
}


def asked_by() -> dict[Run, str]:
    """The first table of protocol 'paper', and the row of it, that asks for a run."""
    found: dict[Run, str] = {}
    for table in EXPERIMENTS.values():
        for row in table.rows:
            for run in row.runs:
                found.setdefault(run, f"{table.name}: {row.label}")
    return found


def queue(names: Iterable[str]) -> tuple[list[Run], list[Run]]:
    """The runs of some tables of protocol 'paper' in the order of the names: early and late ones.

    Early are SimPool on ten folds, the peers on as many folds as tables over single splits
    have, and these on their first split; late is what is left, fold by fold. Should it be
    stopped early, every table has something, and every method as many folds as any other.
    """
    early: list[Run] = []
    late: list[Run] = []
    for name in names:
        if name not in EXPERIMENTS:
            continue
        rows = EXPERIMENTS[name].rows
        if name.endswith("-10fold"):
            early += rows[0].runs
            peers = sorted((run for row in rows[1:] for run in row.runs), key=lambda r: r.fold)
            early += [run for run in peers if run.fold in SINGLE]
            late += peers
        else:
            early += [run for row in rows for run in row.runs if run.fold == SINGLE[0]]
            late += EXPERIMENTS[name].runs
    # A GRU over whole rows takes as long as many other runs.
    early = sorted(dict.fromkeys(early), key=lambda r: r.gru)
    late = list(dict.fromkeys(sorted(late, key=lambda r: r.fold)))
    return early, [run for run in late if run not in set(early)]
