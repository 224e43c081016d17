"""The tables of protocol 'nested': what the methods choose from."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from harness.study.bases import DD, ENZYMES
from harness.study.declarations import Nested

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
        " of both.",
        votes=True,
        smaller_grid=table.name,
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
