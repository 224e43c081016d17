"""The tables on generated data, where the classes depend on the structure."""

from dataclasses import replace

from harness.data.inputs import SIZE
from harness.methods.registry import PEERS
from harness.run import ENCODINGS, WITH_ENCODINGS
from harness.study.declarations import (
    BY_STRUCTURE,
    MOTIFS,
    POSITION_ALONE,
    Experiment,
    Row,
    compared_with,
    on_folds,
    position_alone,
    rows_of,
)

#: A note for every table, because the preset of these data sets is narrower.
WIDTH_1 = " Width 1 is a quarter of the paper's networks here."


def by_numbering() -> Experiment:
    """Returns the table of orders by structure, for nodes numbered by ring and at random."""
    ordered = {f"nodes by {order}": replace(MOTIFS, order=order) for order in BY_STRUCTURE}
    by_ring = replace(MOTIFS, dataset="motifs-by-ring")
    runs = {
        f"{features}, {name}": replace(run, features=features)
        for features in ("structural", "both")
        for name, run in {
            "nodes ring by ring": by_ring,
            "nodes at random": MOTIFS,
            **ordered,
        }.items()
    }
    runs["node"] = replace(MOTIFS, features="node")
    alone = [
        Row(f"position alone, {name}", on_folds(position_alone(run)), f"structural, {name}")
        for name, run in ordered.items()
    ]
    return Experiment(
        "motifs-order",
        "By how nodes are numbered, and what the assignment networks read",
        (*rows_of(runs), *alone),
        "The generated data set, where the class is which marks share a ring: chance is 0.33."
        " Nodes are numbered ring by ring, at random, or at random and then by structure."
        + POSITION_ALONE
        + WIDTH_1,
        milestone=0.9,
        local=True,
    )


def with_encodings(dataset: str) -> Experiment:
    """Returns the table of other methods, with structural encodings as node features."""
    base = replace(MOTIFS, dataset=dataset, order="fiedler")
    runs = {
        "diffpool": replace(base, method="diffpool"),
        "nopool": replace(base, method="nopool"),
        "simpool, node": replace(base, features="node", order="given"),
    }
    rows = rows_of({"simpool": base})
    for label, run in runs.items():
        encoded = replace(run, node_features=WITH_ENCODINGS)
        rows += compared_with(label, rows_of({label: run, f"{label}, encodings": encoded}))
    # Encodings replace the k structural features.
    instead = replace(base, features=ENCODINGS, k=SIZE, order="given")
    rows.append(Row("simpool, encodings at level 0", on_folds(instead), "simpool, node"))
    return Experiment(
        f"{dataset}-encodings",
        "With positional encodings",
        tuple(rows),
        "Structure for all: 'encodings' are the first eight eigenvectors of the normalized"
        " Laplacian as node features, with random signs whenever a training graph is read. The"
        " assignments of the first row read structural features alone, in an order by a similar"
        " vector, whose sign is fixed; those of level 0 of the last row read encodings in their"
        " place." + WIDTH_1,
        local=True,
    )


def where_structure_matters(dataset: str, note: str) -> Experiment:
    """Returns the table of all methods on generated data, and of SimPool with other inputs."""
    at_random = replace(MOTIFS, dataset=dataset)
    base = replace(at_random, order="fiedler")
    runs = {
        **{method: replace(base, method=method) for method in PEERS},
        "simpool, random numbers": at_random,
        "simpool, both": replace(base, features="both"),
        "simpool, node": replace(at_random, features="node"),
        "simpool, position alone": position_alone(base),
    }
    rows = compared_with("nopool", rows_of(runs))
    numbered = " Nodes are numbered at random and, for SimPool, by structure."
    note += numbered + POSITION_ALONE + WIDTH_1
    return Experiment(dataset, "All methods, ten folds", rows, note, local=True)
