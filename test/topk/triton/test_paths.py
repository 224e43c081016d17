"""Short rows, long rows and hubs, in the interpreter: the bits of the CPU backend on each path."""

from typing import Any

import pytest
import torch

from helpers import interpreter
from helpers.backends import INTERPRETED
from helpers.graphs import draw, union
from torch_geometric_simpool import estimate_topk, topk_similarity
from torch_geometric_simpool.topk.numba import plan as cpu_plan
from torch_geometric_simpool.topk.triton import matrices, plan, select

pytestmark = pytest.mark.skipif(
    not INTERPRETED, reason="runs in Triton's interpreter: see test_interpreter.py"
)


@pytest.fixture(params=["short", "long", "hubs", "long and hubs"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Makes nearly all rows of small graphs take a path."""
    if "long" in request.param:
        monkeypatch.setattr(plan, "LONGEST_SORTED", 8)
        monkeypatch.setattr(plan, "SHORTEST_BLOCK", 4)
        monkeypatch.setattr(plan, "FEATURES", 2)
        monkeypatch.setattr(plan, "TABLES", 4096)
    if "hubs" in request.param:
        monkeypatch.setattr(matrices, "SHORTEST_HUB", 3)
        monkeypatch.setattr(cpu_plan, "SHORTEST_HUB", 3)
    return request.param


SETTINGS: list[dict[str, Any]] = [
    {"measure": "cosine", "loop": True},
    {"measure": "jaccard", "loop": False},
    {"measure": "cosine", "loop": False, "min_similarity": 0.5, "max_degree": 5},
    {"measure": "jaccard", "loop": True, "candidates": torch.arange(0, 20, 2)},
    {"measure": "cosine", "loop": True, "nodes": torch.tensor([7, 3, 3, 0, 11])},
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", ["ones", "integers", "reals"])
def test_the_same_bits_on_every_path(path: str, kind: str, settings: dict[str, Any]) -> None:
    """Of reals, too: none of these sums is close to the middle between two doubles."""
    graph, _ = union([draw("undirected", 1), draw("directed", 2), draw("isolated", 3)])
    generator = torch.Generator().manual_seed(0)
    weight = None
    if kind == "integers":
        weight = torch.randint(-3, 4, (len(graph.edges),), generator=generator).double()
    if kind == "reals":
        weight = torch.rand(len(graph.edges), generator=generator, dtype=torch.float64)
    here, there = (
        topk_similarity(graph.edge_index, 4, weight, graph.num_nodes, backend=b, **settings)
        for b in ("triton", "numba")
    )
    assert torch.equal(here[1], there[1])
    torch.testing.assert_close(here[0], there[0], rtol=0, atol=1e-15)
    if kind != "reals":
        assert torch.equal(here[0], there[0])


def test_rows_that_are_too_long_for_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their `k` is larger than a block of candidates: PyTorch computes them."""
    monkeypatch.setattr(plan, "MOST_BEST", 2)
    monkeypatch.setattr(plan, "LONGEST_SORTED", 64)
    # Parallel edges would be weights, of which there are no hubs.
    edge_index = torch.randint(0, 30, (2, 200)).unique(dim=1)
    for shortest_hub in (128, 4):
        monkeypatch.setattr(matrices, "SHORTEST_HUB", shortest_hub)
        for k in (2, 9):  # with hubs, a block holds one more than `k`
            here, there = (
                topk_similarity(edge_index, k, None, 30, backend=b) for b in ("triton", "numba")
            )
            assert torch.equal(here[0], there[0])
            assert torch.equal(here[1], there[1])


def test_a_star_is_read_from_its_front(path: str) -> None:
    """All leaves are alike: with hubs, there is one group, and no product."""
    leaves = torch.arange(1, 400)
    star = torch.stack([torch.zeros_like(leaves), leaves])
    star = torch.cat([star, star.flip(0)], dim=1)
    if path != "hubs":
        pytest.skip("counts what hubs save")
    values, index = topk_similarity(star, 3, backend="triton")
    assert torch.equal(index[1:], torch.arange(1, 4).expand(399, 3))
    assert (values[1:] == 1).all()
    found = estimate_topk(star, 3, backend="triton")
    assert found.num_products == 399**2 + 399
    assert found.num_visited < 10 * 400


@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
def test_lists_of_hubs_are_read_as_far_as_needed(
    measure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists of many blocks, whose best members are not all in the first one."""
    monkeypatch.setattr(matrices, "SHORTEST_HUB", 64)
    generator = torch.Generator().manual_seed(1)
    n, share = 300, torch.tensor([0.9, 0.6, 0.5, 0.4, 0.3])
    links = torch.rand(n, 5, generator=generator) < share
    rest = torch.randint(5, n, (2, 200), generator=generator)
    edge_index = torch.cat([links.nonzero().t(), rest], dim=1)
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1).unique(dim=1)
    here, there = (
        topk_similarity(edge_index, 20, None, n, backend=b, measure=measure)
        for b in ("triton", "numba")
    )
    assert torch.equal(here[0], there[0])
    assert torch.equal(here[1], there[1])


def test_the_kernels_sort_as_triton_does() -> None:
    """The tests sort by NumPy; here is one call that cannot."""
    with pytest.MonkeyPatch.context() as patch:
        import triton.language as tl
        from triton.language import standard

        patch.setattr(tl, "sort", standard.sort)
        patch.setattr(interpreter.np, "sort", None)
        edge_index = torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]])
        result = topk_similarity(edge_index, 2, backend="triton")
    assert result[1].tolist() == [[0, -1], [1, 2], [1, 2]]


def test_tables_are_made_in_batches() -> None:
    assert list(plan.batches([4, 4, 16, 2, 2, 2], 8)) == [(0, 2), (2, 3), (3, 6)]
    assert list(plan.batches([], 8)) == []
    assert list(plan.batches([64], 8)) == [(0, 1)]


def test_the_budget_limits_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_geometric_simpool.topk.budget import Budget

    assert select._most_slots(Budget(10**6, False), 10**5, 8) == 9 * 10**5 // 8
    assert select._most_slots(Budget(None, False), 10**5, 8) == plan.TABLES // 8
    assert select._most_slots(Budget(10, True), 10**5, 8) == 1
    with pytest.raises(ValueError, match="memory_budget"):
        topk_similarity(torch.tensor([[0, 1], [1, 0]]), 2, backend="triton", memory_budget=10)
