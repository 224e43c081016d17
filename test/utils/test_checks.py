"""Bad input: every error names the argument, what was expected and what was given."""

import functools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data
from torch_geometric.nn import MLP

from torch_geometric_simpool import (
    AddSimilarityEdges,
    SimPool,
    StructuralSimilarity,
    cluster_loss,
    dense_sim_pool,
    entropy_loss,
    estimate_topk,
    map_indices,
    sim_pool,
    similarity_graph,
    structural_similarity,
    topk_similarity,
)
from torch_geometric_simpool.analysis.diagnostics import Diagnostics
from torch_geometric_simpool.analysis.locality import locality
from torch_geometric_simpool.models import DenseGCN, GMNConv, GMNEncoder, GRUEncoder, SimPoolNet
from torch_geometric_simpool.utils.checks import values_visible

NAN, INF = float("nan"), float("inf")

#: Three nodes, four edges.
EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
X, S, ADJ = torch.ones(3, 2), torch.zeros(3, 2), torch.ones(3, 3)
WORD: Any = "no"


def refuses(
    call: Callable[[], Any], error: type[Exception], name: str, came: str, expected: str = "must"
) -> None:
    """Asserts that this very type is raised, with all three parts in the message."""
    with pytest.raises(error) as info:
        call()
    assert info.type is error
    message = str(info.value)
    assert f"`{name}`" in message
    assert expected in message
    assert came in message.partition("got")[2]


def topk(**changes: Any) -> Any:
    return topk_similarity(**{"edge_index": EDGES, "k": 2, "num_nodes": 3, **changes})


def estimate(**changes: Any) -> Any:
    return estimate_topk(**{"edge_index": EDGES, "k": 2, "num_nodes": 3, **changes})


def similar(**changes: Any) -> Any:
    return similarity_graph(**{"edge_index": EDGES, "k": 2, "num_nodes": 3, **changes})


def pool(**changes: Any) -> Any:
    return sim_pool(**{"x": X, "edge_index": EDGES, "s": S, **changes})


def layer(**changes: Any) -> Any:
    return SimPool(MLP([2, 2], norm=None), k=2)(**{"x": X, "edge_index": EDGES, **changes})


# ------------------------------------------------------------------ edges

READS_EDGES = pytest.mark.parametrize("call", [topk, estimate, similar, pool, layer])


@READS_EDGES
@pytest.mark.parametrize(
    ("edge_index", "error", "came", "expected"),
    [
        (torch.tensor([[0, -2], [1, 0]]), ValueError, "-2", ">= 0"),
        (torch.tensor([[0, 3], [1, 0]]), ValueError, "3", "below the number of nodes, 3"),
        (torch.tensor([0, 1]), ValueError, "[2]", "[2, E]"),
        (torch.tensor([[0, 1, 2]]), ValueError, "[1, 3]", "[2, E]"),
        (torch.tensor([[0, 1], [1, 0], [2, 0]]), ValueError, "[3, 2]", "[2, E]"),
        (torch.ones(2, 2), TypeError, "torch.float32", "integers"),
        (torch.ones(2, 2) > 0, TypeError, "torch.bool", "integers"),
        ([[0, 1], [1, 0]], TypeError, "list", "torch.Tensor"),
    ],
)
def test_edge_index(
    call: Callable[..., Any], edge_index: Any, error: type[Exception], came: str, expected: str
) -> None:
    refuses(lambda: call(edge_index=edge_index), error, "edge_index", came, expected)


@READS_EDGES
@pytest.mark.parametrize(
    ("edge_weight", "error", "came", "expected"),
    [
        (torch.tensor([1, NAN, 1, 1]), ValueError, "1 NaN or infinite", "finite"),
        (torch.tensor([1, INF, 1, -INF]), ValueError, "2 NaN or infinite", "finite"),
        (torch.ones(3), ValueError, "[3]", "[4]"),
        (torch.ones(4, 2), ValueError, "[4, 2]", "[4] or [4, 1]"),
        (torch.ones(4, dtype=torch.complex64), TypeError, "torch.complex64", "real"),
        (1.0, TypeError, "float", "torch.Tensor"),
    ],
)
def test_edge_weight(
    call: Callable[..., Any], edge_weight: Any, error: type[Exception], came: str, expected: str
) -> None:
    refuses(lambda: call(edge_weight=edge_weight), error, "edge_weight", came, expected)


@pytest.mark.parametrize("call", [topk, estimate, similar, pool])
def test_edge_index_is_no_matrix(call: Callable[..., Any]) -> None:
    """The layer takes a sparse matrix, as PyG's layers do; the functions do not."""
    sparse = torch.eye(3).to_sparse()
    refuses(lambda: call(edge_index=sparse), TypeError, "edge_index", "sparse", "[2, E]")


def test_a_matrix_for_the_layer() -> None:
    wrong = torch.eye(2).to_sparse_csr()
    refuses(lambda: layer(edge_index=wrong), ValueError, "adj_t", "[2, 2]", "[3, 3]")
    poisoned = torch.tensor([[0, NAN, 1], [1, 0, 0], [0, 0, 0]]).to_sparse()
    refuses(lambda: layer(edge_index=poisoned), ValueError, "adj_t", "1 NaN", "finite")
    # The message for a dense matrix says which argument to use.
    refuses(lambda: layer(edge_index=ADJ), TypeError, "edge_index", "torch.float32", "`adj`")


def test_a_data_object_for_the_layer() -> None:
    """As `pool(data)`: what is wrong is `x`, not the edges, which the object has."""
    data = Data(x=X, edge_index=EDGES)
    refuses(lambda: SimPool(MLP([2, 2], norm=None))(data), TypeError, "x", "Data")


def test_an_edge_index_of_pyg_is_one() -> None:
    index = EdgeIndex(EDGES, sparse_size=(3, 3))
    assert torch.equal(topk(edge_index=index)[1], topk()[1])
    assert type(topk(edge_index=index)[1]) is Tensor


@pytest.mark.parametrize(
    ("num_nodes", "error", "came"),
    [(-1, ValueError, "-1"), (3.0, TypeError, "3.0"), (torch.tensor(3), TypeError, "tensor")],
)
def test_num_nodes(num_nodes: Any, error: type[Exception], came: str) -> None:
    refuses(lambda: topk(num_nodes=num_nodes), error, "num_nodes", came, "integer >= 0")


# ------------------------------------------------------------------ parameters

PARAMETERS = [
    ("k", 0, ValueError, "0", ">= 1"),
    ("k", -3, ValueError, "-3", ">= 1"),
    ("k", 2.0, TypeError, "2.0", "integer"),
    ("k", "2", TypeError, "'2'", "integer"),
    ("k", True, TypeError, "True", "integer"),
    ("p", 0, ValueError, "0", ">= 1"),
    ("p", 1.5, TypeError, "1.5", "integer"),
    ("p", None, TypeError, "None", "integer"),
    ("lam", -0.5, ValueError, "-0.5", ">= 0"),
    ("lam", NAN, ValueError, "nan", "finite"),
    ("lam", INF, ValueError, "inf", "finite"),
    ("lam", "1", TypeError, "'1'", "number"),
    ("alpha", -0.1, ValueError, "-0.1", "in [0, 1]"),
    ("alpha", 1.1, ValueError, "1.1", "in [0, 1]"),
    ("alpha", NAN, ValueError, "nan", "in [0, 1]"),
    ("alpha", None, TypeError, "None", "in [0, 1]"),
    ("measure", "euclid", ValueError, "'euclid'", "'cosine', 'jaccard'"),
    ("measure", None, ValueError, "None", "'cosine', 'jaccard'"),
    ("memory_budget", 0, ValueError, "0", ">= 1"),
    ("memory_budget", 2.5, TypeError, "2.5", "integer"),
    ("memory_budget", "1 GiB", TypeError, "'1 GiB'", "integer"),
    ("max_degree", -1, ValueError, "-1", ">= 0"),
    ("max_degree", 1.0, TypeError, "1.0", "integer"),
    ("max_degree", True, TypeError, "True", "integer"),
    ("min_similarity", 1.5, ValueError, "1.5", "in [-1, 1]"),
    ("min_similarity", -1.01, ValueError, "-1.01", "in [-1, 1]"),
    ("min_similarity", NAN, ValueError, "nan", "in [-1, 1]"),
    ("min_similarity", "0", TypeError, "'0'", "in [-1, 1]"),
    ("loop", 1, TypeError, "1", "True or False"),
    ("loop", None, TypeError, "None", "True or False"),
    ("force", 0, TypeError, "0", "True or False"),
    ("force", "yes", TypeError, "'yes'", "True or False"),
    ("backend", "cuda", ValueError, "'cuda'", "'auto', 'numba', 'torch'"),
    ("backend", None, ValueError, "None", "'auto', 'numba', 'torch'"),
    ("flow", "down", ValueError, "'down'", "'source_to_target', 'target_to_source'"),
    ("flow", None, ValueError, "None", "'source_to_target', 'target_to_source'"),
    ("symmetrize", "or", ValueError, "'or'", "'union', 'mutual'"),
    ("symmetrize", True, ValueError, "True", "'union', 'mutual'"),
    ("features", "edges", ValueError, "'edges'", "'structural', 'node', 'both'"),
]
VALUES = torch.tensor([[0.5]])

TAKES: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "topk_similarity": (
        topk,
        {
            *("k", "p", "lam", "measure", "loop", "min_similarity", "max_degree"),
            *("memory_budget", "force", "backend"),
        },
    ),
    "estimate_topk": (
        estimate,
        {"k", "p", "lam", "measure", "max_degree", "memory_budget", "backend"},
    ),
    "similarity_graph": (
        similar,
        {
            *("k", "p", "lam", "measure", "min_similarity", "max_degree"),
            *("memory_budget", "force", "backend", "symmetrize"),
        },
    ),
    "structural_similarity": (
        lambda **given: structural_similarity(ADJ, **given),
        {"p", "lam", "measure"},
    ),
    "map_indices": (
        lambda **given: map_indices(VALUES, torch.tensor([[0]]), 1, **given),
        {"alpha"},
    ),
    "StructuralSimilarity": (
        lambda **given: StructuralSimilarity(**{"k": 2, **given}),
        {
            *("k", "p", "lam", "alpha", "measure", "loop", "min_similarity", "max_degree"),
            *("memory_budget", "force", "backend"),
        },
    ),
    "AddSimilarityEdges": (
        lambda **given: AddSimilarityEdges(**{"k": 2, **given}),
        {
            *("k", "p", "lam", "measure", "min_similarity", "max_degree"),
            *("memory_budget", "force", "backend", "symmetrize"),
        },
    ),
    "SimPool": (
        lambda **given: SimPool(MLP([2, 2]), **given),
        {"k", "p", "lam", "alpha", "measure", "features"},
    ),
    "SimPoolNet": (
        lambda **given: SimPoolNet.from_preset("enzymes", 3, 6, 0.01, **given),
        {"k", "p", "lam", "alpha", "features"},
    ),
}


@pytest.mark.parametrize(
    ("where", "name", "value", "error", "came", "expected"),
    [(where, *row) for where, (_, names) in TAKES.items() for row in PARAMETERS if row[0] in names],
)
def test_parameters(
    where: str, name: str, value: Any, error: type[Exception], came: str, expected: str
) -> None:
    refuses(lambda: TAKES[where][0](**{name: value}), error, name, came, expected)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [("loop", "no", "True or False"), ("loop", 1, "True or False"), ("weight_attr", 3, "a name")],
)
def test_settings_of_the_transform(name: str, value: Any, expected: str) -> None:
    refuses(
        lambda: StructuralSimilarity(2, **{name: value}), TypeError, name, repr(value), expected
    )


def test_settings_of_the_classifier() -> None:
    refuses(lambda: SimPoolNet(3, 6, readout="both"), ValueError, "readout", "'both'", "'all'")
    refuses(lambda: SimPoolNet(3, 6, dropout=1.5), ValueError, "dropout", "1.5", "[0, 1]")
    refuses(lambda: SimPoolNet(3, 6, "enzymes", 4), TypeError, "architecture", "'enzymes'")  # type: ignore[arg-type]
    net = SimPoolNet.from_preset("enzymes", 3, 6, 0.01)
    refuses(lambda: net(torch.ones(3, 4), EDGES), ValueError, "x", "[3, 4]", "[N, 3]")
    refuses(
        lambda: net(torch.ones(3, 3), EDGES, sim=torch.ones(3, 5)),
        ValueError,
        "sim",
        "[3, 5]",
        "[3, 12]",
    )
    refuses(
        lambda: SimPoolNet.from_preset("enzymes", 3, 6, 0.01, edge_dim=0),
        ValueError,
        "edge_dim",
        "0",
        ">= 1",
    )


@pytest.mark.parametrize("value", [np.int64(2), np.uint8(2)])
def test_integers_of_numpy_are_integers(value: Any) -> None:
    assert topk(k=value)[0].shape == (3, 2)


@pytest.mark.parametrize("value", [1, np.float32(0.5), Fraction(1, 2)])
def test_numbers_of_other_kinds_are_numbers(value: Any) -> None:
    torch.testing.assert_close(topk(lam=value)[0], topk(lam=float(value))[0])


@pytest.mark.parametrize("measure", ["l2", "hamming"])
def test_measures_without_a_sparse_form_say_why(measure: str) -> None:
    refuses(lambda: topk(measure=measure), ValueError, "measure", f"'{measure}'", "'cosine'")
    with pytest.raises(ValueError, match="structural_similarity"):
        topk(measure=measure)


# ------------------------------------------------------------------ dense


@pytest.mark.parametrize(
    ("adj", "error", "came", "expected"),
    [
        (torch.ones(3), ValueError, "[3]", "[*, N, N]"),
        (torch.ones(3, 2), ValueError, "[3, 2]", "[*, N, N]"),
        (torch.ones(2, 3, 4), ValueError, "[2, 3, 4]", "[*, N, N]"),
        (torch.eye(3).to_sparse(), TypeError, "sparse", "dense"),
        (torch.ones(3, 3, dtype=torch.complex64), TypeError, "complex64", "real"),
        (torch.full((3, 3), NAN), ValueError, "9 NaN", "finite"),
        (torch.tensor([[0, INF], [0, 0]]), ValueError, "1 NaN", "finite"),
        ([[0.0]], TypeError, "list", "torch.Tensor"),
    ],
)
def test_adj_of_structural_similarity(
    adj: Any, error: type[Exception], came: str, expected: str
) -> None:
    refuses(lambda: structural_similarity(adj), error, "adj", came, expected)


READS_MASK: list[Callable[[Any], Any]] = [
    lambda mask: structural_similarity(torch.ones(2, 3, 3), mask=mask),
    lambda mask: dense_sim_pool(
        torch.ones(2, 3, 2), torch.ones(2, 3, 3), torch.ones(2, 3, 2), mask
    ),
    lambda mask: SimPool(MLP([3, 2], norm=None))(
        torch.ones(2, 3, 2), adj=torch.ones(2, 3, 3), mask=mask
    ),
    lambda mask: entropy_loss(torch.full((2, 3, 2), 0.5), mask=mask),
    lambda mask: cluster_loss(torch.full((2, 3, 2), 0.5), mask=mask),
]


@pytest.mark.parametrize("call", READS_MASK)
def test_mask(call: Callable[[Any], Any]) -> None:
    true = torch.ones(2, 3, dtype=torch.bool)
    call(true)
    for wrong in (true[:1], true[:, :2], true[0], true.unsqueeze(-1)):
        came = str(list(wrong.shape))
        refuses(functools.partial(call, wrong), ValueError, "mask", came, "[2, 3]")
    refuses(lambda: call(true.float()), TypeError, "mask", "torch.float32", "torch.bool")
    refuses(lambda: call([[True] * 3] * 2), TypeError, "mask", "list", "torch.Tensor")


@pytest.mark.parametrize(
    ("changes", "error", "name", "came", "expected"),
    [
        ({"adj": torch.ones(3, 2)}, ValueError, "adj", "[1, 3, 2]", "[1, 3, 3]"),
        ({"adj": torch.ones(4, 4)}, ValueError, "adj", "[1, 4, 4]", "[1, 3, 3]"),
        ({"adj": torch.ones(3, 2, 2)}, ValueError, "adj", "[3, 2, 2]", "[1, 3, 3]"),
        ({"adj": torch.full((3, 3), NAN)}, ValueError, "adj", "9 NaN", "finite"),
        ({"adj": torch.ones(3, 3).long()}, TypeError, "adj", "torch.int64", "floating point"),
        ({"x": torch.ones(3, 2).long()}, TypeError, "x", "torch.int64", "floating point"),
        ({"x": torch.ones(3)}, ValueError, "x", "[3]", "[B, N, F]"),
        ({"x": None}, TypeError, "x", "NoneType", "torch.Tensor"),
        ({"s": torch.ones(4, 2)}, ValueError, "s", "[1, 4, 2]", "[1, 3, K]"),
        ({"s": torch.ones(3, 0)}, ValueError, "s", "[1, 3, 0]", "[1, 3, K]"),
        ({"s": torch.ones(3, 2).long()}, TypeError, "s", "torch.int64", "floating point"),
        ({"s": None}, TypeError, "s", "NoneType", "torch.Tensor"),
    ],
)
def test_dense_sim_pool(
    changes: dict[str, Any], error: type[Exception], name: str, came: str, expected: str
) -> None:
    arguments = {"x": X, "adj": ADJ, "s": S, **changes}
    refuses(lambda: dense_sim_pool(**arguments), error, name, came, expected)


# ------------------------------------------------------------------ batches


@pytest.mark.parametrize("call", [pool, layer])
@pytest.mark.parametrize(
    ("changes", "error", "name", "came", "expected"),
    [
        ({"batch": torch.tensor([1, 0, 0])}, ValueError, "batch", "unsorted", "sorted"),
        ({"batch": torch.tensor([-1, 0, 0])}, ValueError, "batch", "-1", ">= 0"),
        ({"batch": torch.zeros(2).long()}, ValueError, "batch", "[2]", "[3]"),
        ({"batch": torch.zeros(3, 1).long()}, ValueError, "batch", "[3, 1]", "[3]"),
        ({"batch": torch.zeros(3)}, TypeError, "batch", "torch.float32", "integers"),
        ({"batch": [0, 0, 0]}, TypeError, "batch", "list", "torch.Tensor"),
        (
            {"batch": torch.tensor([2, 2, 2]), "batch_size": 2},
            ValueError,
            "batch",
            "2",
            "below `batch_size`, 2",
        ),
        ({"batch_size": 2}, ValueError, "batch_size", "2", "1 where `batch` is None"),
        (
            {"batch": torch.zeros(3).long(), "batch_size": 1.0},
            TypeError,
            "batch_size",
            "1.0",
            "integer",
        ),
        ({"batch": torch.tensor([0, 0, 1])}, ValueError, "edge_index", "graph 0", "one graph"),
        ({"x": torch.ones(1, 3, 2)}, ValueError, "x", "[1, 3, 2]", "[N, F]"),
        ({"x": torch.ones(3, 2).long()}, TypeError, "x", "torch.int64", "floating point"),
    ],
)
def test_a_sparse_batch(
    call: Callable[..., Any],
    changes: dict[str, Any],
    error: type[Exception],
    name: str,
    came: str,
    expected: str,
) -> None:
    refuses(lambda: call(**changes), error, name, came, expected)


@pytest.mark.parametrize(
    ("s", "error", "came", "expected"),
    [
        (torch.ones(4, 2), ValueError, "[4, 2]", "[3, K]"),
        (torch.ones(2, 2), ValueError, "[2, 2]", "[3, K]"),
        (torch.ones(3), ValueError, "[3]", "[3, K]"),
        (torch.ones(3, 0), ValueError, "[3, 0]", "[3, K]"),
        (torch.ones(3, 2).long(), TypeError, "torch.int64", "floating point"),
        (None, TypeError, "NoneType", "torch.Tensor"),
    ],
)
def test_logits_of_other_nodes(s: Any, error: type[Exception], came: str, expected: str) -> None:
    refuses(lambda: pool(s=s), error, "s", came, expected)


@pytest.mark.parametrize("loss", [entropy_loss, cluster_loss])
@pytest.mark.parametrize(
    ("arguments", "error", "name", "came", "expected"),
    [
        ({"s": torch.randn(9, 2) - 5}, ValueError, "s", "-", "softmax"),
        ({"s": torch.full((3, 2), NAN)}, ValueError, "s", "nan", "softmax"),
        ({"s": torch.ones(3)}, ValueError, "s", "[3]", "[N, K]"),
        ({"s": torch.ones(3, 0)}, ValueError, "s", "[3, 0]", "K >= 1"),
        ({"s": torch.ones(3, 2).long()}, TypeError, "s", "torch.int64", "floating point"),
        ({"s": [[1.0]]}, TypeError, "s", "list", "torch.Tensor"),
        ({"s": X, "batch": torch.tensor([1, 0, 0])}, ValueError, "batch", "unsorted", "sorted"),
        ({"s": X, "batch": torch.zeros(2).long()}, ValueError, "batch", "[2]", "[3]"),
        ({"s": X, "reduction": "sum"}, ValueError, "reduction", "'sum'", "'mean', 'none'"),
        ({"s": X[None], "batch": torch.zeros(3).long()}, ValueError, "batch", "a value", "None"),
        ({"s": X[None], "batch_size": 1}, ValueError, "batch_size", "a value", "None"),
    ],
)
def test_losses(
    loss: Callable[..., Any],
    arguments: dict[str, Any],
    error: type[Exception],
    name: str,
    came: str,
    expected: str,
) -> None:
    refuses(lambda: loss(**arguments), error, name, came, expected)


# ------------------------------------------------------------------ mapping


@pytest.mark.parametrize(
    ("changes", "error", "name", "came", "expected"),
    [
        ({"values": torch.ones(2, 2).long()}, TypeError, "values", "int64", "floating point"),
        ({"values": torch.ones(2)}, ValueError, "values", "[2]", "[*, N, k]"),
        ({"index": torch.ones(2, 2)}, TypeError, "index", "float32", "integers"),
        ({"index": torch.ones(2, 3).long()}, ValueError, "index", "[2, 3]", "[2, 2]"),
        ({"index": torch.full((2, 2), 3)}, ValueError, "index", "3", "between -1 and"),
        ({"index": torch.full((2, 2), -2)}, ValueError, "index", "-2", "between -1 and"),
        ({"num_nodes": -1}, ValueError, "num_nodes", "-1", ">= 0"),
        ({"num_nodes": 2.5}, TypeError, "num_nodes", "2.5", "integer"),
        ({"num_nodes": torch.tensor([3, 3, 3])}, ValueError, "num_nodes", "[3]", "[2]"),
        ({"num_nodes": torch.tensor([3.0, 3.0])}, TypeError, "num_nodes", "float32", "integers"),
        ({"num_nodes": torch.tensor([3, 1])}, ValueError, "index", "1", "of its graph"),
    ],
)
def test_map_indices(
    changes: dict[str, Any], error: type[Exception], name: str, came: str, expected: str
) -> None:
    arguments = {
        "values": torch.ones(2, 2),
        "index": torch.ones(2, 2).long(),
        "num_nodes": 3,
        **changes,
    }
    refuses(lambda: map_indices(**arguments), error, name, came, expected)


# ------------------------------------------------------------------ tracing


def test_values_are_not_read_while_compiling() -> None:
    """Shapes are checked while compiling; values, which would break the graph, are not."""
    assert values_visible()

    def weigh(edge_weight: Tensor) -> Tensor:
        return pool(edge_weight=edge_weight, batch_size=1)[1]

    compiled = torch.compile(weigh, fullgraph=True, backend="eager")
    assert torch.isnan(compiled(torch.full((4,), NAN))).any()
    with pytest.raises(ValueError, match="`edge_weight`"):
        weigh(torch.full((4,), NAN))


# ------------------------------------------------------------------ networks and their parts


@pytest.mark.parametrize(
    ("change", "error", "name", "came"),
    [
        ({"edge_index": EDGES.t()}, ValueError, "edge_index", "[4, 2]"),
        ({"edge_index": EDGES + 10**12}, ValueError, "edge_index", "1000000000002"),
        ({"x": None}, ValueError, "x", "None"),
        ({"x": X.long()}, TypeError, "x", "torch.int64"),
        ({"x": X.double()}, TypeError, "x", "torch.float64"),
        ({"sim": torch.rand(3, 5)}, ValueError, "sim", "[3, 5]"),
        ({"sim": torch.rand(3, 2, device="meta")}, ValueError, "sim", "meta"),
        ({"edge_weight": torch.ones(4).to_sparse()}, TypeError, "edge_weight", "sparse"),
        ({"edge_weight": torch.ones(4) > 0}, TypeError, "edge_weight", "torch.bool"),
    ],
)
def test_the_classifier(
    change: dict[str, Any], error: type[Exception], name: str, came: str
) -> None:
    net = SimPoolNet(2, 3, k=2, clusters=(2, 2), width=1 / 64)
    refuses(lambda: net(**{"x": X, "edge_index": EDGES, **change}), error, name, came)


@pytest.mark.parametrize(
    ("call", "error", "name", "came"),
    [
        (lambda: GMNConv(2, 4)(X[None], EDGES), ValueError, "x", "[1, 3, 2]"),
        (lambda: GMNConv(2, 4)(X, EDGES.float()), TypeError, "edge_index", "torch.float32"),
        (lambda: GMNConv(2, 4)(X, EDGES + 7), ValueError, "edge_index", "9"),
        (lambda: GMNConv(-2, 4), ValueError, "in_channels", "-2"),
        (lambda: GMNConv(2, 0), ValueError, "out_channels", "0"),
        (lambda: GMNEncoder(2, 4)(torch.rand(3, 5)), ValueError, "x", "[3, 5]"),
        (lambda: GRUEncoder(4)(ADJ, torch.tensor([3, 3])), ValueError, "num_nodes", "[2]"),
        (lambda: GRUEncoder(4)(ADJ[:, :2], torch.full((3,), 3)), ValueError, "x", "[3, 2]"),
        (
            lambda: GRUEncoder(4)(ADJ.to("meta"), torch.full((3,), 3, device="meta")),
            ValueError,
            "x",
            "meta",
        ),
        (lambda: DenseGCN(2, 4)(X[None], torch.ones(1, 4, 4)), ValueError, "adj", "[1, 4, 4]"),
        (lambda: DenseGCN(2, 4)(X[None], torch.ones(2, 3, 3)), ValueError, "adj", "[2, 3, 3]"),
        (lambda: StructuralSimilarity(k=2, attr="x"), ValueError, "attr", "'x'"),
        (
            lambda: SimPool(MLP([2, 2], norm=None))(X, EDGES, sim=torch.rand(3, 5)),
            ValueError,
            "assignment",
            "cannot be multiplied",
        ),
        (
            lambda: locality(EDGES, EDGES[0, :3], 2, distances=WORD),
            TypeError,
            "distances",
            "'no'",
        ),
        (
            lambda: Diagnostics(SimPool(MLP([2, 2])), training=WORD),
            TypeError,
            "training",
            "'no'",
        ),
    ],
)
def test_parts_of_networks(
    call: Callable[[], Any], error: type[Exception], name: str, came: str
) -> None:
    refuses(call, error, name, came)
