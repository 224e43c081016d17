"""The kernels in Triton's interpreter: the results of the CPU backend on every path."""

from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.backends import INTERPRETED
from helpers.graphs import draw, union
from torch_geometric_simpool import estimate_topk, topk_similarity
from torch_geometric_simpool.topk.torch import backend as torch_backend
from torch_geometric_simpool.topk.torch import csr

pytest.importorskip("triton")

from torch_geometric_simpool.topk.triton import backend as triton_backend
from torch_geometric_simpool.topk.triton import tables

pytestmark = pytest.mark.skipif(
    not INTERPRETED, reason="runs in Triton's interpreter: see test_interpreter.py"
)

DOUBLE = torch.float64
MEASURES = ["cosine", "jaccard", "dice", "overlap"]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of small graphs take several programs, blocks of products and blocks of a table."""
    monkeypatch.setattr(triton_backend, "PROGRAMS", 2)
    monkeypatch.setattr(triton_backend, "PRODUCTS", 8)
    monkeypatch.setattr(triton_backend, "SMALLEST_BLOCK", 16)


def both(
    edge_index: Tensor, k: int, weight: Any, num_nodes: Any, tolerance: float = 0.0, **settings: Any
) -> tuple[Tensor, Tensor]:
    """The result of the Triton backend, which is the result of the torch backend."""
    result, expected = (
        topk_similarity(edge_index, k, weight, num_nodes, backend=backend, **settings)
        for backend in ("triton", "torch")
    )
    assert torch.equal(result[1], expected[1])
    torch.testing.assert_close(result[0], expected[0], rtol=0, atol=tolerance)
    return result


SETTINGS: list[dict[str, Any]] = [
    {},
    {"loop": False, "min_similarity": 0.5, "max_degree": 5},
    {"candidates": torch.arange(0, 20, 2)},
    {"nodes": torch.tensor([7, 3, 3, 0, 11]), "lam": 1.0},
]


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("kind", ["ones", "integers", "reals", "mixed"])
def test_every_kind_of_weights(kind: str, measure: str) -> None:
    """The interpreter takes about a tenth of a second for a row."""
    graph, _ = union([draw("undirected", 1), draw("directed", 2), draw("isolated", 3)])
    size = (len(graph.edges),)
    choices = torch.tensor([1e30, -1e30, 1e-30, -1e-30, 1.0, 3e-30, 2.0, -2.0, 0.1, 0.2, -0.3])
    weight = {
        "ones": None,
        "integers": torch.randint(-3, 4, size).double(),
        "reals": torch.rand(size, dtype=DOUBLE),
        "mixed": choices.double()[torch.randint(0, len(choices), size)],
    }[kind]
    tolerance = 0.0 if kind in ("ones", "integers") else 1e-15
    settings = SETTINGS[(MEASURES.index(measure) + len(kind)) % len(SETTINGS)]
    both(graph.edge_index, 4, weight, graph.num_nodes, tolerance, measure=measure, **settings)


def test_powers_and_excluded_neighbors() -> None:
    graph = draw("directed", 4)
    weight = torch.rand(len(graph.edges), dtype=DOUBLE)
    both(graph.edge_index, 5, weight, graph.num_nodes, 1e-15, p=2, lam=0.3)
    both(graph.edge_index, 5, None, graph.num_nodes, p=3, measure="dice")
    both(graph.edge_index, 5, None, graph.num_nodes, exclude_neighbors=True)


def test_a_fault_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A norm that is wrong changes the order of candidates."""
    graph = draw("undirected", 1)
    prepare = torch_backend.prepare

    def wrong(*arguments: Any) -> Any:
        prepared = prepare(*arguments)
        norm2 = prepared.norms.norm2.clone()
        norm2[0] *= 4
        return prepared._replace(norms=prepared.norms._replace(norm2=norm2))

    expected = topk_similarity(graph.edge_index, 4, num_nodes=graph.num_nodes, backend="torch")
    monkeypatch.setattr(torch_backend, "prepare", wrong)
    result = topk_similarity(graph.edge_index, 4, num_nodes=graph.num_nodes, backend="triton")
    assert not torch.equal(result[0], expected[0])


def test_rows_that_are_too_long_for_the_kernels() -> None:
    """The torch backend computes calls whose `k` is larger than a block of candidates."""
    edge_index = torch.randint(0, 300, (2, 400)).unique(dim=1)
    for k in (200, 256, 257):
        both(edge_index, k, None, 300, nodes=torch.tensor([0, 7]))


def test_long_rows_and_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features that most nodes share: lists and tables of several blocks, in small batches."""
    monkeypatch.setattr(csr, "BLOCK", 1 << 13)
    links = torch.rand(300, 5) < torch.tensor([0.9, 0.6, 0.5, 0.4, 0.3])
    edge_index = torch.cat([links.nonzero().t(), torch.randint(5, 300, (2, 200))], dim=1)
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1).unique(dim=1)
    nodes = torch.tensor([0, 200, 4, 150])
    both(edge_index, 20, None, 300, nodes=nodes)
    both(edge_index, 3, None, 300, nodes=nodes[:0])
    weight = torch.rand(edge_index.size(1), dtype=DOUBLE)
    both(edge_index, 40, weight, 300, 1e-15, measure="dice", loop=False, nodes=nodes[2:])


def test_a_table_wraps_around() -> None:
    """Two candidates of the last slot of a table leave the table behind it alone."""
    last_slots = [j for j in range(99) if ((j * 2654435761) >> 12) & 3 == 3]
    ids = torch.tensor(last_slots[:2], dtype=torch.int32)
    slots, nothing = torch.full((8,), -1, dtype=torch.int32), torch.empty(0)
    sums = torch.zeros(8, dtype=DOUBLE)
    first, row, ptr = torch.tensor([0]), torch.tensor([0, 1]), torch.tensor([0, 2])
    tables.fill_tables[(1, 1)](
        first, torch.tensor([0, 4]), row, first, nothing, ptr, ids, nothing, slots, sums, sums,
        sums, SIZE=4, WEIGHTED=False, EXACT=True,
    )  # fmt: skip
    assert slots[[3, 0]].tolist() == ids.tolist()
    assert slots[4:].tolist() == [-1] * 4
    assert sums.tolist() == [1, 0, 0, 1, 0, 0, 0, 0]


def bipartite(rows: list[list[float]], dtype: torch.dtype = DOUBLE, **settings: Any) -> Any:
    """The result for rows of a matrix."""
    dense = torch.tensor(rows, dtype=dtype)
    edge_index = dense.nonzero().t().contiguous()
    weight, size = dense[tuple(edge_index)], (dense.size(0), dense.size(1))
    return both(edge_index, len(rows), weight, size, 1.2e-16, **settings)


def test_sums_that_round() -> None:
    """Terms that cancel are no candidate; what rounding loses is added up."""
    _, index = bipartite([[0.1, 0.2, 0.3, 0.0], [1, 1, -1, 0], [0, 0, 0.5, 1]])
    assert index.tolist() == [[0, 2, -1], [1, 2, -1], [2, 0, 1]]
    lost = 2.0**-53
    _, index = bipartite([[1, 1, 1, 0], [1, 0, 0, lost], [1, lost, lost, 0]])
    assert index[0].tolist() == [0, 2, 1]
    values, _ = bipartite(torch.rand(12, 3, dtype=DOUBLE).tolist())
    assert torch.equal(values[:, 0], torch.ones(12, dtype=DOUBLE))
    ratios = [1.0, 3.0, 64.0, 1e-30, 1e20]
    values, index = bipartite([[c * 0.3, c * 0.7] for c in ratios], measure="jaccard")
    assert index[0].tolist() == [0, 1, 2, 4, 3]


def test_multiples_of_a_row_tie_where_squares_round() -> None:
    row, factors = [29543.0, 20631.0, 15071.0], [9, 33, 3, 27, 15]
    multiples = [[factor * value for value in row] for factor in factors]
    _, index = bipartite([*multiples, [0.3, 0.0, 0.0]])
    assert index[:5, :5].tolist() == [[0, 1, 2, 3, 4]] * 5


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, DOUBLE])
def test_what_is_zero_in_the_type_of_the_result_takes_no_place(
    dtype: torch.dtype, measure: str
) -> None:
    small = {torch.float16: 2.0**-14, torch.float32: 1e-38, DOUBLE: 1e-300}[dtype]
    rows = [[1, small, small, 0.0], [0, small, 0, 1.5], [0, 0, -small, 1.5], [-1, 0, 0, 2.5]]
    for _ in range(3):
        values, index = bipartite(rows, dtype, measure=measure)
        assert torch.equal(values == 0, index < 0)
        rows = [[value * small for value in row] for row in rows[:1]] + rows[1:]


def test_the_budget() -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="memory_budget"):
        topk_similarity(edge_index, 2, backend="triton", memory_budget=10)
    assert estimate_topk(edge_index, 2, backend="triton", memory_budget=10).refused
