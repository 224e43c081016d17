"""The kernels in Triton's interpreter: the results of the CPU backend on every path."""

from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.backends import INTERPRETED
from helpers.graphs import draw, union
from torch_geometric_simpool import estimate_topk, topk_similarity
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.torch import backend as torch_backend
from torch_geometric_simpool.topk.triton import arrays, plan

pytestmark = pytest.mark.skipif(
    not INTERPRETED, reason="runs in Triton's interpreter: see test_interpreter.py"
)

DOUBLE = torch.float64
MEASURES = ["cosine", "jaccard", "dice", "overlap"]


@pytest.fixture(params=["short", "long", "hubs", "long and hubs"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes nearly all rows of small graphs take a path."""
    if "long" in request.param:
        monkeypatch.setattr(plan, "LONGEST_SORTED", 8)
        monkeypatch.setattr(plan, "SHORTEST_BLOCK", 4)
        monkeypatch.setattr(plan, "FEATURES", 2)
        monkeypatch.setattr(plan, "TABLES", 4096)
    if "hubs" in request.param:
        monkeypatch.setattr(arrays, "SHORTEST_HUB", 3)
    return request.param


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
def test_every_path(path: str, kind: str, measure: str) -> None:
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
    settings = SETTINGS[(MEASURES.index(measure) + len(kind) + len(path)) % len(SETTINGS)]
    both(graph.edge_index, 4, weight, graph.num_nodes, tolerance, measure=measure)
    both(graph.edge_index, 4, weight, graph.num_nodes, tolerance, measure=measure, **settings)


def test_powers_and_excluded_neighbors(path: str) -> None:
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


def test_rows_that_are_too_long_for_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The torch backend computes rows whose `k` is larger than a block of candidates."""
    monkeypatch.setattr(plan, "MOST_BEST", 2)
    monkeypatch.setattr(plan, "LONGEST_SORTED", 64)
    edge_index = torch.randint(0, 30, (2, 200)).unique(dim=1)
    for shortest_hub in (128, 4):
        monkeypatch.setattr(arrays, "SHORTEST_HUB", shortest_hub)
        for k in (2, 9):  # with hubs, a block holds one more than `k`
            both(edge_index, k, None, 30)


def test_a_star_is_read_from_its_front() -> None:
    """All leaves are alike: there is one group, and no product."""
    leaves = torch.arange(1, 400)
    star = torch.stack([torch.zeros_like(leaves), leaves])
    star = torch.cat([star, star.flip(0)], dim=1)
    values, index = topk_similarity(star, 3, backend="triton")
    assert torch.equal(index[1:], torch.arange(1, 4).expand(399, 3))
    assert (values[1:] == 1).all()
    cost = estimate_topk(star, 3, backend="triton")
    assert cost.num_products == 399**2 + 399
    assert cost.num_visited < 10 * 400


@pytest.mark.parametrize("measure", MEASURES)
def test_lists_of_hubs_are_read_as_far_as_needed(
    measure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists of many blocks, whose best members are not all in the first one."""
    monkeypatch.setattr(arrays, "SHORTEST_HUB", 64)
    n, share = 300, torch.tensor([0.9, 0.6, 0.5, 0.4, 0.3])
    links = torch.rand(n, 5) < share
    rest = torch.randint(5, n, (2, 200))
    edge_index = torch.cat([links.nonzero().t(), rest], dim=1)
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1).unique(dim=1)
    # A row that leaves itself out needs one more of the best.
    both(edge_index, 20, None, n, measure=measure, loop=measure != "cosine")


def bipartite(rows: list[list[float]], dtype: torch.dtype = DOUBLE, **settings: Any) -> Any:
    """The result for rows of a matrix."""
    dense = torch.tensor(rows, dtype=dtype)
    edge_index = dense.nonzero().t().contiguous()
    weight, size = dense[tuple(edge_index)], (dense.size(0), dense.size(1))
    return both(edge_index, len(rows), weight, size, 1.2e-16, **settings)


def test_sums_that_round(path: str) -> None:
    """Terms that cancel are no candidate; what rounding loses is added up."""
    _, index = bipartite([[0.1, 0.2, 0.3, 0.0], [1, 1, -1, 0], [0, 0, 0.5, 1]])
    assert index.tolist() == [[0, 2, -1], [1, 2, -1], [2, 0, 1]]
    lost = 2.0**-53
    _, index = bipartite([[1, 1, 1, 0], [1, 0, 0, lost], [1, lost, lost, 0]])
    assert index[0].tolist() == [0, 2, 1]
    values, _ = bipartite(torch.rand(40, 3, dtype=DOUBLE).tolist())
    assert torch.equal(values[:, 0], torch.ones(40, dtype=DOUBLE))
    ratios = [1.0, 3.0, 64.0, 1e-30, 1e20]
    values, index = bipartite([[c * 0.3, c * 0.7] for c in ratios], measure="jaccard")
    assert index[0].tolist() == [0, 1, 2, 4, 3]


def test_multiples_of_a_row_tie_where_squares_round(path: str) -> None:
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


def test_tables_are_made_in_batches_within_the_budget() -> None:
    assert list(plan.batches([4, 4, 16, 2, 2, 2], 8)) == [(0, 2), (2, 3), (3, 6)]
    assert list(plan.batches([], 8)) == []
    edge_index = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="memory_budget"):
        topk_similarity(edge_index, 2, backend="triton", memory_budget=10)
    assert estimate_topk(edge_index, 2, backend="triton", memory_budget=10).refused
    assert Budget(None, False).working_memory is None
