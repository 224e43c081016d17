"""The study as data: its tables, and the runs of each.

A new table is an entry of `EXPERIMENTS` or `NESTED`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.methods.registry import PEERS, TGP
from harness.run import FOLDS, Run
from harness.study.declarations import (
    DD,
    DD_ONE,
    ENZYMES,
    ENZYMES_ONE,
    MOTIFS,
    NARROW_ENZYMES,
    ORDERS,
    POSITION_ALONE,
    SINGLE,
    Experiment,
    Row,
    compared_with,
    on_folds,
    position_alone,
    rows_of,
)
from harness.study.generated_tables import (
    WIDTH_1,
    by_numbering,
    where_structure_matters,
    with_encodings,
)
from harness.study.nested import NESTED as NESTED
from harness.study.similarity_tables import GCB, by_lam, enzymes_edges, gcb, twins

#: Accuracies in the paper, by table and row.
PAPER = {
    "ENZYMES-10fold": {"simpool": "0.7244 ± 0.0485", "diffpool": "0.6253", "sortpool": "0.5712"},
    "ENZYMES-features": {"structural": "0.7667", "both": "0.7000", "node": "0.7167"},
    "ENZYMES-k": {
        "k = 3": "0.6833",
        "k = 6": "0.6833",
        "k = 9": "0.7000",
        "k = 12": "0.7667",
        "k = 15": "0.8000",
        "k = 18": "0.7167",
        "GRU over all of C": "0.733",
    },
    "ENZYMES-p": {"p = 1": "0.7667", "p = 2": "0.7000", "p = 3": "0.7000"},
    "ENZYMES-scaler": {
        "scaler 0": "0.6833",
        "scaler 0.5": "0.7000",
        "scaler 1": "0.7667",
        "scaler 1.5": "0.7167",
        "scaler 2": "0.7000",
    },
    "DD-10fold": {
        "simpool": "TBD",
        "diffpool": "0.8064",
        "sortpool": "0.7937 ± 0.0094",
        "gunet": "0.8243",
        "sagpool": "0.7645 ± 0.0097",
    },
    "DD-features": {"structural": "0.7915", "both": "0.7881", "node": "0.7712"},
    "DD-p": {"p = 1": "0.7915", "p = 2": "0.7881", "p = 3": "0.7797"},
}
FEATURES = ("structural", "both", "node")
#: A note for every table whose networks are narrower than the paper's.
_NARROW = {
    "ENZYMES": "",
    "DD": "An eighth of the paper's width, which is what two cores can do"
    " (the paper's default has 230 epochs, its ten folds 60).",
}


def _single(runs: Mapping[str, Run]) -> list[Row]:
    """Returns the rows of settings that have one split in the paper.

    ENZYMES has three splits here. D&D has one, and so has the GRU, whose run takes hours.
    """
    return [
        Row(label, on_folds(run, SINGLE[:1] if run.dataset == "DD" or run.gru else SINGLE))
        for label, run in runs.items()
    ]


def _table(base: Run, name: str, title: str, rows: Iterable[Row], **options: Any) -> Experiment:
    """Returns a table of a data set, with fields of :class:`Experiment` as options."""
    options = {"note": _NARROW[base.dataset], **options}
    return Experiment(f"{base.dataset}-{name}", title, tuple(rows), **options)


def _ten_folds(base: Run) -> Experiment:
    rows = rows_of({method: replace(base, method=method) for method in PEERS})
    return _table(base, "10fold", "All methods, ten folds", compared_with("nopool", rows))


def _by_features(base: Run) -> Experiment:
    rows = _single({features: replace(base, features=features) for features in FEATURES})
    return _table(base, "features", "By what the assignment networks read", rows, plot="curves")


def _by_k(base: Run) -> Experiment:
    rows = _single({f"k = {k}": replace(base, k=k) for k in range(3, 19, 3)})
    rows += _single({"GRU over all of C": replace(base, gru=True)})
    return _table(base, "k", "By k, and a GRU over the whole row of C", rows, plot="accuracy")


def _by_p(base: Run) -> Experiment:
    rows = _single({f"p = {p}": replace(base, p=p) for p in (1, 2, 3)})
    return _table(base, "p", "By the power p of the adjacency matrix", rows, plot="accuracy")


def _by_scaler(base: Run) -> Experiment:
    runs = {f"scaler {s:g}": replace(base, cluster_scaler=s) for s in (0.0, 0.5, 1.0, 1.5, 2.0)}
    return _table(base, "scaler", "By the scaler of L_C", _single(runs), plot="curves")


def _on_labels(base: Run) -> Experiment:
    """Returns the settings of ENZYMES' tables with less informative node features."""
    runs = {
        "k = 12, scaler of L_C 1": base,
        "k = 3": replace(base, k=3),
        "scaler of L_C 0": replace(base, cluster_scaler=0.0),
        "assignments read node features": replace(base, features="node"),
        "baseline": replace(base, method="baseline"),
    }
    note = "A quarter of the paper's width."
    return _table(base, "labels", "On labels alone", _single(runs), note=note)


def _by_order(
    base: Run, folds: Sequence[int], alone: Iterable[str] = (), **options: Any
) -> Experiment:
    """Returns the table by order; orders in `alone` also have a row of positions alone."""
    runs = {order: replace(base, order=order) for order in ORDERS}
    rows = rows_of(runs, folds)
    for order in alone:
        only = on_folds(position_alone(runs[order]), folds)
        beside = None if order == ORDERS[0] else order  # every row is compared with the first
        rows.append(Row(f"{order}, position alone", only, beside))
    return _table(
        base, "order", "By the order in which nodes are numbered", rows, local=True, **options
    )


def _unpooled_by_rate(base: Run) -> Experiment:
    """Returns the table of networks without pooling, by learning rate."""
    rows = rows_of({"simpool, learning rate 1e-4": base})
    for method in ("baseline", "nopool"):
        runs = {
            f"{method}, learning rate {rate}": replace(base, method=method, lr=float(rate))
            for rate in ("1e-4", "3e-4", "1e-3")
        }
        rows += compared_with(next(iter(runs)), rows_of(runs))
    return _table(base, "rate", "The networks without a pooling at other learning rates", rows)


def _by_pooler(name: str, title: str, base: Run, methods: Iterable[str], note: str) -> Experiment:
    rows = [Row(method, on_folds(replace(base, method=method))) for method in methods]
    unpooled = next(row.label for row in rows if row.label in ("nopool", "tgp:nopool"))
    note += (
        " Left out are `graclus`, which needs torch-cluster, built from source, and `pan`, which"
        " needs a propagation of its own. `eigen`, `ndp`, `nmf`, `sep` and `simmatch` read the"
        " edges alone, so their graphs are pooled once, before the training."
    )
    return Experiment(name, title, compared_with(unpooled, rows), note, local=True)


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
            ("given", "fiedler"),
            note="A quarter of the paper's width, on all ten folds: one split could not tell."
            + POSITION_ALONE,
        ),
        _ten_folds(DD),
        _by_features(DD_ONE),
        _by_p(DD_ONE),
        _by_order(DD, SINGLE[:1]),
        _unpooled_by_rate(DD),
        by_numbering(),
        where_structure_matters(
            "communities",
            "A generated data set, where the class is the majority of the majorities of three"
            " communities: chance is 0.50.",
        ),
        where_structure_matters(
            "islands",
            "A generated data set, where the class is whether the red nodes of a grid are one"
            " island or two: chance is 0.50.",
        ),
        with_encodings("motifs"),
        with_encodings("communities"),
        twins("twins", "0.33"),
        twins("twin-colors", "0.50"),
        gcb("gcb-hard", "tested"),
        gcb("gcb-hard", "published", 5),
        gcb("gcb-easy", "tested"),
        gcb("gcb-easy", "published", 5),
        *(
            _by_pooler(
                f"gcb-{kind}-tgp",
                "All methods, and the poolers of torch-geometric-pool",
                replace(GCB, dataset=f"gcb-{kind}"),
                (*PEERS, *TGP),
                f"GCB {kind}, nodes numbered by `bfs` for SimPool.",
            )
            for kind in ("hard", "easy")
        ),
        by_lam(replace(NARROW_ENZYMES, order="fiedler")),
        by_lam(replace(MOTIFS, order="rcm")),
        enzymes_edges(),
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
            (*PEERS, *TGP),
            "The generated data set, nodes numbered at random and, for SimPool, by structure."
            + WIDTH_1,
        ),
    )
}


def _locality(base: Run, peer: Run) -> Experiment:
    peers = {
        "SimPool, structural, as on ten folds": peer,
        "DiffPool": replace(peer, method="diffpool"),
    }
    rows = _single({f"SimPool, {f}": replace(base, features=f) for f in FEATURES})
    rows += rows_of(peers, SINGLE)
    return _table(base, "locality", "How local the assignments are", rows, plot="clusters")


#: Tables of locality, for runs of the tables above.
LOCALITY: dict[str, Experiment] = {
    e.name: e for e in (_locality(ENZYMES_ONE, ENZYMES), _locality(DD_ONE, DD))
}
