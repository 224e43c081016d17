"""The study as data: its tables, and the runs of each.

A new table is an entry of `EXPERIMENTS` or `NESTED`.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Optional

from harness.data import communities, islands, motifs
from harness.data.encodings import SIZE
from harness.data.load import WITH_ENCODINGS
from harness.data.structural import ENCODINGS
from harness.methods.registry import METHODS, TGP
from harness.study import paper_values
from harness.study.declarations import Experiment, Nested, Row
from harness.study.run import FOLDS, Run

FEATURES = ("structural", "both", "node")
BY_STRUCTURE = ("rcm", "bfs", "fiedler")
#: How nodes are numbered before the structural features are computed. 'random' is drawn once for
#: each graph, 'random-epoch' whenever a training graph is read.
ORDERS = ("given", "random", "random-epoch", *BY_STRUCTURE)


def _folds(run: Run, folds: Iterable[int] = range(FOLDS)) -> tuple[Run, ...]:
    return tuple(replace(run, fold=fold).filled() for fold in folds)


ENZYMES = Run("ENZYMES", "enzymes-10fold", node_features="labels+attributes")
ENZYMES_ONE = replace(ENZYMES, preset="enzymes")
#: Narrower, so that ten folds of many variants are affordable.
NARROW_ENZYMES = replace(ENZYMES, width=0.25, lr=3e-4)
DD = Run("DD", "dd-10fold", node_features="labels", width=0.125)
DD_ONE = replace(DD, preset="dd", epochs=60)
#: As in the paper. This is for a GPU: a run takes days on two cores.
DD_FULL = replace(DD, width=1.0)
DD_FULL_ONE = replace(DD_FULL, preset="dd")
MOTIFS = Run(motifs.NAME, "motifs", cleaned=False, node_features="labels", epochs=120)
#: The folds of ENZYMES' tables that have one split in the paper. Three show the effect of chance.
SINGLE = (0, 1, 2)

#: A note for every table whose networks are narrower than the paper's.
_NARROW = {
    "ENZYMES": "",
    "DD": "An eighth of the paper's width, which is what two cores can do"
    " (the paper's default has 230 epochs, its ten folds 60).",
}
#: The same for the generated data sets, whose preset is narrower.
_WIDTH_1 = " Width 1 is a quarter of the paper's networks here."


def _single(run: Run) -> tuple[Run, ...]:
    """The runs of a setting that has one split in the paper.

    D&D has one here as well, and so has the GRU, whose run takes hours.
    """
    return _folds(run, SINGLE[:1] if run.dataset == "DD" or run.gru else SINGLE)


def _ten_folds(base: Run) -> Experiment:
    paper = paper_values.TEN_FOLDS[base.dataset]
    rows = [Row(m, _folds(replace(base, method=m)), paper.get(m)) for m in METHODS]
    table = _experiment(base, "10fold", "All methods, ten folds", rows)
    return replace(table, all_methods=True)


def _experiment(
    base: Run, name: str, title: str, rows: Iterable[Row], note: str = ""
) -> Experiment:
    """A table of a data set; one of D&D at full width is optional."""
    if base.dataset == "DD" and base.width == 1:
        return Experiment(f"DD-full-{name}", f"{title}, full width", tuple(rows), optional=True)
    note = note or _NARROW[base.dataset]
    return Experiment(f"{base.dataset}-{name}", title, tuple(rows), note)


def _by(
    base: Run, name: str, title: str, rows: Iterable[tuple[str, Run, Optional[str]]], plot: str
) -> Experiment:
    """A table over single splits, by one setting."""
    made = [Row(label, _single(run), paper) for label, run, paper in rows]
    return replace(_experiment(base, name, title, made), plot=plot)


def _by_features(base: Run) -> Experiment:
    paper = paper_values.BY_FEATURES[base.dataset]
    rows = [(f, replace(base, features=f), paper[f]) for f in FEATURES]
    return _by(base, "features", "By what the assignment networks read", rows, "curves")


def _by_k(base: Run) -> Experiment:
    rows: list[tuple[str, Run, Optional[str]]]
    rows = [(f"k = {k}", replace(base, k=k), paper) for k, paper in paper_values.BY_K.items()]
    rows.append(("GRU over all of C", replace(base, gru=True), "0.733"))
    return _by(base, "k", "By k, and a GRU over the whole row of C", rows, "accuracy")


def _by_p(base: Run) -> Experiment:
    rows = [
        (f"p = {p}", replace(base, p=p), paper)
        for p, paper in paper_values.BY_P[base.dataset].items()
    ]
    return _by(base, "p", "By the power p of the adjacency matrix", rows, "accuracy")


def _by_scaler(base: Run) -> Experiment:
    rows = [
        (f"scaler {scaler:g}", replace(base, cluster_scaler=scaler), paper)
        for scaler, paper in paper_values.BY_SCALER.items()
    ]
    return _by(base, "scaler", "By the scaler of L_C", rows, "curves")


def _on_labels(base: Run) -> Experiment:
    """The settings of the tables above, where node features carry less information."""
    rows = [
        ("k = 12, scaler of L_C 1", base),
        ("k = 3", replace(base, k=3)),
        ("scaler of L_C 0", replace(base, cluster_scaler=0.0)),
        ("assignments read node features", replace(base, features="node")),
        ("baseline", replace(base, method="baseline")),
    ]
    made = [Row(label, _single(run)) for label, run in rows]
    return _experiment(base, "labels", "On labels alone", made, "A quarter of the paper's width.")


def _by_order(base: Run, folds: Iterable[int], note: str = "") -> Experiment:
    rows = [Row(order, _folds(replace(base, order=order), folds)) for order in ORDERS]
    table = _experiment(base, "order", "By the order in which nodes are numbered", rows, note)
    return replace(table, local=True)


def _baseline_by_rate(base: Run) -> Experiment:
    """How much of the baseline's distance is due to the learning rate."""
    rows = [Row("simpool, learning rate 1e-4", _folds(base))]
    for rate in (1e-4, 3e-4, 1e-3):
        label = f"baseline, learning rate {rate:.0e}".replace("e-0", "e-")
        rows.append(Row(label, _folds(replace(base, method="baseline", lr=rate))))
    return _experiment(base, "rate", "The baseline at other learning rates", rows)


def _by_pooler(name: str, title: str, base: Run, methods: Iterable[str], note: str) -> Experiment:
    rows = [Row(method, _folds(replace(base, method=method))) for method in methods]
    note += (
        " `graclus` needs torch-cluster, which is built from source, and `pan` a propagation of"
        " its own. `eigen`, `ndp`, `nmf` and `sep` read the edges alone, so their graphs are pooled"
        " once, before the training."
    )
    return Experiment(name, title, tuple(rows), note, local=True)


def _generated() -> Experiment:
    """What orders by structure do where the assignments decide, and numbers are random."""
    numberings = {"ring by ring": replace(MOTIFS, dataset=motifs.BY_RING), "at random": MOTIFS}
    numberings.update({f"by {order}": replace(MOTIFS, order=order) for order in BY_STRUCTURE})
    rows = [
        Row(f"{features}, nodes {name}", _folds(replace(run, features=features)))
        for features in ("structural", "both")
        for name, run in numberings.items()
    ]
    rows.append(Row("node", _folds(replace(MOTIFS, features="node"))))
    title = "By how nodes are numbered, and what the assignment networks read"
    note = (
        "The generated data set, where the class is which marks share a ring: chance is 0.33."
        " Nodes are numbered ring by ring, at random, or at random and then by structure."
        + _WIDTH_1
    )
    return Experiment("motifs-order", title, tuple(rows), note, milestone=0.9, local=True)


def _with_encodings(dataset: str) -> Experiment:
    """What other methods gain from structure in their node features, as SimPool has it."""
    base = replace(MOTIFS, dataset=dataset, order="fiedler")
    methods = {
        "diffpool": replace(base, method="diffpool"),
        "nopool": replace(base, method="nopool"),
        "simpool, node": replace(base, features="node", order="given"),
    }
    rows = [Row("simpool", _folds(base))]
    for label, run in methods.items():
        encoded = replace(run, node_features=WITH_ENCODINGS)
        rows.append(Row(label, _folds(run)))
        rows.append(Row(f"{label}, encodings", _folds(encoded), beside=label))
    # In the place of structural features, of which there are k.
    instead = replace(base, features=ENCODINGS, k=SIZE, order="given")
    rows.append(Row("simpool, encodings at level 0", _folds(instead), beside="simpool, node"))
    note = (
        "Structure for all: 'encodings' are the first eight eigenvectors of the normalized"
        " Laplacian as node features, with random signs whenever a training graph is read. The"
        " assignments of the first row read structural features alone, in an order by a similar"
        " vector, whose sign is fixed; those of level 0 of the last row read encodings in their"
        " place." + _WIDTH_1
    )
    title = "With positional encodings"
    return Experiment(f"{dataset}-encodings", title, tuple(rows), note, local=True)


def _where_structure_matters(dataset: str, note: str) -> Experiment:
    """All methods on a generated data set, and SimPool with other inputs of the assignments."""
    at_random = replace(MOTIFS, dataset=dataset)
    base = replace(at_random, order="fiedler")
    runs = {method: replace(base, method=method) for method in METHODS}
    runs["simpool, random numbers"] = at_random
    runs["simpool, both"] = replace(base, features="both")
    runs["simpool, node"] = replace(at_random, features="node")
    rows = tuple(Row(label, _folds(run)) for label, run in runs.items())
    note += " Nodes are numbered at random and, for SimPool, by structure." + _WIDTH_1
    return Experiment(dataset, "All methods, ten folds", rows, note, local=True)


#: The tables of protocol 'paper', in the order of the report.
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
        _by_order(DD, SINGLE[:1]),
        _baseline_by_rate(DD),
        _generated(),
        _where_structure_matters(
            communities.NAME,
            "A generated data set, where the class is the majority of the majorities of three"
            " communities: chance is 0.50.",
        ),
        _where_structure_matters(
            islands.NAME,
            "A generated data set, where the class is whether the red nodes of a grid are one"
            " island or two: chance is 0.50.",
        ),
        _with_encodings(motifs.NAME),
        _with_encodings(communities.NAME),
        _by_pooler(
            "ENZYMES-tgp",
            "The poolers of torch-geometric-pool",
            NARROW_ENZYMES,
            ("simpool", *TGP),
            "A quarter of the paper's width.",
        ),
        _by_pooler(
            "motifs-tgp",
            "All methods, and the poolers of torch-geometric-pool",
            replace(MOTIFS, order="fiedler"),
            (*METHODS, *TGP),
            "The generated data set, nodes numbered at random and, for SimPool, by structure."
            + _WIDTH_1,
        ),
        _ten_folds(DD_FULL),
        _by_features(DD_FULL_ONE),
        _by_p(DD_FULL_ONE),
        _by_order(DD_FULL, SINGLE[:1]),
    )
}


#: The learning rates to choose from.
_GRID = {
    "lr 1e-3": {"lr": 1e-3},
    "lr 3e-4": {"lr": 3e-4},
}
#: What a larger grid changes besides, one at a time.
_CHANGES: dict[str, dict[str, Any]] = {
    "dropout": {"dropout": 0.5, "weight_decay": 1e-4},
    "L_E annealed": {"entropy_warmup": 1 / 3},
    "both levels": {"readout": "all"},
    "order bfs": {"order": "bfs"},
    "width 0.25": {"width": 0.25},
}
_ENZYMES_NESTED = Nested(
    "ENZYMES-nested",
    "ENZYMES, 600 graphs",
    replace(ENZYMES, cleaned=False, width=0.25, epochs=100),
    ("simpool", "diffpool", "baseline"),
    _GRID,
    3,
    {"diffpool": "0.595", "baseline": "0.652", "best": "0.694"},
)
_DD_NESTED = Nested(
    "DD-nested",
    "D&D, 1178 graphs",
    replace(DD, cleaned=False, epochs=30),
    ("simpool", "diffpool", "baseline"),
    _GRID,
    3,
    {"diffpool": "0.750", "baseline": "0.784"},
)


def _larger_grid(table: Nested, changes: dict[str, Iterable[str]]) -> Nested:
    """The table with more choices, and a vote; `changes` names learning rates of each change."""
    more = {
        f"{rate}, {change}": {**_GRID[rate], **_CHANGES[change]}
        for change, rates in changes.items()
        for rate in rates
    }
    return replace(
        table,
        name=f"{table.name}-larger-grid",
        title=f"{table.title}, larger grid",
        grid={**table.grid, **more},
        note="A method has the choices that change what it reads: the baseline has no L_E, no"
        " levels and no order, DiffPool no order. 'dropout' is 0.5 before the last layer, with a"
        " weight decay of 1e-4; 'L_E annealed': its scaler grows from 0 over the first third of"
        " the epochs (DiffPool's own entropy loss); 'both levels': the last layer reads the sums"
        " of both. The vote is by the mean of the class probabilities of the final runs.",
        votes=True,
    )


NESTED: dict[str, Nested] = {
    n.name: n
    for n in (
        _ENZYMES_NESTED,
        _DD_NESTED,
        _larger_grid(
            _ENZYMES_NESTED, {change: _GRID for change in _CHANGES if change != "width 0.25"}
        ),
        # At one rate, as a run takes minutes.
        _larger_grid(_DD_NESTED, dict.fromkeys(_CHANGES, ("lr 1e-3",))),
    )
}
NAMES = (*EXPERIMENTS, *NESTED)
#: The tables that are run unless some are named.
DEFAULT_NAMES = (*(n for n, table in EXPERIMENTS.items() if not table.optional), *NESTED)


def _locality(base: Run, peer: Run) -> Experiment:
    rows = [Row(f"SimPool, {f}", _single(replace(base, features=f))) for f in FEATURES]
    rows.append(Row("SimPool, structural, as on ten folds", _folds(peer, SINGLE)))
    rows.append(Row("DiffPool", _folds(replace(peer, method="diffpool"), SINGLE)))
    name = f"{base.dataset}-locality"
    title, note = "How local the assignments are", _NARROW[base.dataset]
    return Experiment(name, title, tuple(rows), note, plot="clusters")


#: Tables of other measures of runs of the tables above.
LOCALITY: dict[str, Experiment] = {
    e.name: e for e in (_locality(ENZYMES_ONE, ENZYMES), _locality(DD_ONE, DD))
}
