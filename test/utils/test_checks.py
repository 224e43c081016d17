"""Wrong arguments of the operators: the error names the argument and has the right type."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric import EdgeIndex

from torch_geometric_simpool import (
    cluster_loss,
    cluster_mask,
    dense_sim_pool,
    entropy_loss,
    lift,
    sim_pool,
)
from torch_geometric_simpool.utils.checks import (
    SINGLE,
    cast_finite,
    check_bool,
    check_finite,
    check_int,
    check_range,
    check_real,
)

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
X, LOGITS, S, ADJ = torch.ones(3, 2), torch.zeros(3, 2), torch.full((3, 2), 0.5), torch.ones(3, 3)
NODES, TRUE = torch.tensor([0, 0, 0]), torch.ones(3, dtype=torch.bool)
META = torch.device("meta")

SPARSE = {"x": X, "edge_index": EDGES, "s": LOGITS, "batch": NODES, "batch_size": 1}
DENSE = {"x": X, "adj": ADJ, "s": LOGITS, "mask": TRUE}
LOSS = {"s": S, "batch": NODES, "batch_size": 1}
LIFT = {"x": torch.ones(1, 2, 4), **LOSS}

#: Values that are wrong for every argument that is a floating-point tensor.
NO_FLOATS: list[Any] = [[[1.0]], np.ones((3, 2)), X.long(), X > 0, X.to_sparse(), X + 0j, X[0, 0]]
#: Values that are wrong for a number of graphs.
NO_SIZE: list[Any] = [-1, 1.0, True, "1", torch.tensor(1)]

#: Functions with valid arguments, and wrong values of each argument.
CASES: list[tuple[Callable, dict[str, Any], dict[str, list[Any]]]] = [
    (
        sim_pool,
        SPARSE,
        {
            "x": [*NO_FLOATS, X[None]],
            "edge_index": [
                EDGES.tolist(),
                EDGES.float(),
                EDGES.t(),
                EDGES + 1,
                EDGES - 1,
                EDGES.to_sparse(),
                EDGES.to(META),
                EDGES[0],
            ],
            "s": [*NO_FLOATS, LOGITS[:2], LOGITS[:, :0], LOGITS[None], LOGITS.to(META)],
            "batch": [
                NODES.tolist(),
                NODES.float(),
                NODES[:2],
                NODES + 1,
                NODES - 1,
                NODES.to(META),
            ],
            "edge_weight": [
                [1.0] * 4,
                torch.ones(3),
                torch.ones(4, 2),
                torch.ones(4) > 0,
                torch.ones(4) / 0,
                torch.ones(4) * torch.nan,
                torch.ones(4) + 0j,
                torch.ones(4, device=META),
            ],
            "batch_size": [*NO_SIZE, 0],
        },
    ),
    (
        dense_sim_pool,
        DENSE,
        {
            "x": [*NO_FLOATS, X[None, None]],
            "adj": [
                ADJ.tolist(),
                ADJ.long(),
                ADJ[:2],
                ADJ[None, None, None],
                ADJ / 0,
                ADJ.to_sparse(),
                ADJ.to(META),
            ],
            "s": [*NO_FLOATS, LOGITS[:2], LOGITS[:, :0], LOGITS.to(META)],
            "mask": [TRUE.tolist(), TRUE.long(), TRUE[:2], TRUE.to(META)],
        },
    ),
    *(
        (
            function,
            LOSS,
            {
                "s": [*NO_FLOATS, S[:, :0], S[0], S[None, None]],
                "batch": [NODES.tolist(), NODES.float(), NODES[:2], NODES + 1, NODES.to(META)],
                "batch_size": [*NO_SIZE, 0],
            },
        )
        for function in (entropy_loss, cluster_loss, cluster_mask)
    ),
    (
        lift,
        LIFT,
        {
            "x": [*NO_FLOATS, torch.ones(2, 2, 4), torch.ones(1, 3, 4), torch.ones(1, 2, 4, 5)],
            "s": [*NO_FLOATS, S[None, None]],
            "batch": [NODES.tolist(), NODES[:2], NODES + 1],
            "batch_size": [*NO_SIZE, 0],
        },
    ),
    (entropy_loss, {"s": S}, {"s": [-S, 1 - 4 * S]}),
    (entropy_loss, {"s": S[None], "mask": TRUE[None]}, {"batch": [NODES], "batch_size": [1]}),
    (lift, {"x": LIFT["x"], "s": S[None]}, {"mask": [TRUE, TRUE[None].long()], "batch": [NODES]}),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_wrong_arguments_are_named(number: int) -> None:
    function, right, wrong = CASES[number]
    function(**right)
    for name, values in wrong.items():
        for value in values:
            with pytest.raises((TypeError, ValueError), match=f"`{name}`"):
                pytest.fail(f"{name}={value!r}: {function(**{**right, name: value})}")


def test_an_edge_between_two_graphs() -> None:
    with pytest.raises(ValueError, match=r"`edge_index` .* from graph 0 to graph 1 \(column 2\)"):
        sim_pool(X, EDGES, LOGITS, torch.tensor([0, 0, 1]))


def test_other_forms_of_right_arguments() -> None:
    """Weights may be a column, edges an `EdgeIndex`, and ids narrow integers."""
    weight = torch.rand(4)
    expected = sim_pool(X, EDGES, LOGITS, edge_weight=weight)
    for edges in (EDGES.int(), EdgeIndex(EDGES, sparse_size=(3, 3))):
        out = sim_pool(X, edges, LOGITS, NODES.to(torch.uint8), weight.unsqueeze(1))
        assert all(map(torch.equal, out, expected))


@pytest.mark.parametrize("place", [0, SINGLE - 1, SINGLE, 2 * SINGLE])
def test_a_wrong_value_in_any_part_of_a_large_tensor(place: int) -> None:
    value, ids = torch.ones(2 * SINGLE + 1), torch.ones(2 * SINGLE + 1, dtype=torch.long)
    check_finite("x", value)
    check_range("ids", ids, 2, "node ids")
    value[place], ids[place] = torch.nan, 2
    with pytest.raises(ValueError, match="`x` must be finite"):
        check_finite("x", value)
    with pytest.raises(ValueError, match="`ids` must hold node ids"):
        check_range("ids", ids, 2, "node ids")


def test_numbers() -> None:
    assert check_int("k", np.int64(3), 1) == 3
    assert check_real("alpha", np.float32(0.5), 0, 1) == 0.5
    for value in (True, "1", None, 1.5):
        with pytest.raises(TypeError, match="`k`"):
            check_int("k", value, 1)
    for real in (True, "1", None, float("nan"), float("inf"), 2, 10**400):
        with pytest.raises((TypeError, ValueError), match="`alpha`"):
            check_real("alpha", real, 0, 1)
    for value in (1, None, "True"):
        with pytest.raises(TypeError, match="`loop`"):
            check_bool("loop", value)
    with pytest.raises(ValueError, match="`adj` must be finite in"):
        cast_finite("adj", torch.tensor([1e300], dtype=torch.float64), torch.float32)
