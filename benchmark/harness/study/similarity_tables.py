"""The tables of similar nodes without numbers, each method beside its controls."""

from dataclasses import replace

from harness.run import FOLDS, Run
from harness.study.declarations import (
    NARROW_ENZYMES,
    POSITION_ALONE,
    Experiment,
    Row,
    on_folds,
    position_alone,
    rows_of,
)

#: Folds with test graphs, on which no setting was tuned.
TWINS = Run("twins", "narrow", cleaned=False, node_features="labels", protocol="tested")
GCB = replace(TWINS, dataset="gcb-hard", order="bfs")
CONTROLS = {"constant": "C constant", "shuffled": "C shuffled", "neighbors": "neighbors"}
_NOTE = (
    " Controls: 'C constant' has 1 in place of every similarity, 'C shuffled' permutes the"
    " similarities of a node, and 'neighbors' has a node's neighbors in place of its similar nodes."
    + POSITION_ALONE
)


def _with_controls(label: str, run: Run, controls: tuple[str, ...]) -> list[Row]:
    others = [
        Row(f"{label}: {CONTROLS[control]}", on_folds(replace(run, similar=control)), beside=label)
        for control in controls
    ]
    return [Row(label, on_folds(run)), *others]


def _rows(base: Run) -> list[Row]:
    """Returns the rows of all methods on the folds of a data set."""

    def run(method: str) -> Run:
        return replace(base, method=method)

    indices = replace(run("index-assignment"), order="bfs")
    return [
        Row("no pooling", on_folds(run("nopool"))),
        *_with_controls("edges (A, C)", run("similarity-edges"), tuple(CONTROLS)),
        *_with_controls("simmatch", run("simmatch"), ("neighbors",)),
        *_with_controls("set assignment", run("similarity-set"), tuple(CONTROLS)),
        Row("indices assignment", on_folds(indices)),
        Row(
            "indices assignment: position alone",
            on_folds(position_alone(indices)),
            beside="indices assignment",
        ),
        Row("MLP assignment", on_folds(run("mlp-assignment"))),
        Row("DiffPool", on_folds(run("diffpool"))),
        Row("MinCut", on_folds(run("tgp:mincut"))),
    ]


def gcb(dataset: str, protocol: str, folds: int = FOLDS) -> Experiment:
    """Returns the table of a data set of GCB, on stratified folds or on its own split by seed."""
    base = replace(TWINS, dataset=dataset, protocol=protocol)
    more = {
        "edges (A, C): counts": replace(base, method="similarity-edges", similar="counts"),
        "set assignment: counts": replace(base, method="similarity-set", similar="counts"),
        "indices assignment: lam = 1": replace(
            base, method="index-assignment", order="bfs", lam=1.0
        ),
    }
    name, title = dataset, "Similar nodes without numbers"
    note = (
        f"The small version of a data set of GCB: chance is 0.33.{_NOTE} 'counts' has numbers of"
        " common neighbors in place of similarities. With 'lam = 1' adjacent nodes are similar"
        " too."
    )
    if protocol == "published":
        name, title = f"{dataset}-split", f"{title}, published split"
        note = "A 'fold' is a seed on the published split: p says nothing of other graphs."
        more = {label: run for label, run in more.items() if run.similar == "counts"}
    rows = _rows(base)
    rows += [Row(label, on_folds(run), beside=label.split(":")[0]) for label, run in more.items()]
    return Experiment(name, title, tuple(replace(row, runs=row.runs[:folds]) for row in rows), note)


def by_lam(base: Run) -> Experiment:
    """Returns the table of similarity as equivalence, as nearness, and of the position alone."""
    runs = {
        "lam = 0": base,
        "lam = 1": replace(base, lam=1.0),
        "position alone": position_alone(base),
    }
    note = (
        f"SimPool on structural features, nodes numbered by `{base.order}`. With lam = 0, nodes"
        " with the same neighbors are similar; with lam = 1, a node is its own neighbor too, so"
        " that adjacent nodes are similar too. The runs with lam = 1 are newer: their order breaks"
        " ties by other rules." + POSITION_ALONE
    )
    return Experiment(f"{base.dataset}-lam", "Equivalent or near nodes", tuple(rows_of(runs)), note)


def enzymes_edges() -> Experiment:
    """Returns the table of similarities as edge attributes on ENZYMES."""
    similar = {"A alone": "neighbors", "edges (A, C)": "cosine", "C constant": "constant"}
    runs = {
        label: replace(NARROW_ENZYMES, method="similarity-edges", similar=name)
        for label, name in similar.items()
    }
    title, note = "Similarities as edge attributes", "No pooling, a quarter of the paper's width."
    return Experiment("ENZYMES-edges", title, tuple(rows_of(runs)), note)


def twins(dataset: str, chance: str) -> Experiment:
    """Returns the table of a data set on which color refinement is at chance."""
    note = (
        "A generated data set on which color refinement is at chance, and so is every message"
        f" passing network on A: {chance}." + _NOTE
    )
    rows = tuple(_rows(replace(TWINS, dataset=dataset)))
    return Experiment(dataset, "Similar nodes without numbers", rows, note)
