"""What is refused before it is computed, and what an estimate says of it."""

import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.graphs import FLAVORS, Graph, draw
from torch_geometric_simpool import estimate_topk, topk_similarity
from torch_geometric_simpool.topk import budget as limits
from torch_geometric_simpool.topk.numba import plan
from torch_geometric_simpool.topk.numba.arrays import Description
from torch_geometric_simpool.topk.numba.describe import describe
from torch_geometric_simpool.topk.spec import EdgeList as Edges
from torch_geometric_simpool.topk.spec import SimilaritySpec
from torch_geometric_simpool.topk.torch import backend as topk_torch

BACKENDS = pytest.mark.parametrize("backend", ["numba", "torch"])


def estimate(graph: Graph, k: int = 4, **settings: Any) -> Any:
    return estimate_topk(graph.edge_index, k, graph.edge_weight(), graph.num_nodes, **settings)


def described(edge_index: Tensor, weight: Tensor | None, num_nodes: int) -> Description:
    settings = SimilaritySpec(1, 0.0, "cosine")
    graph = Edges(edge_index, weight, num_nodes, None)
    return describe(graph, settings, limits.Budget(None, force=True))


def star(leaves: int) -> Tensor:
    ids = torch.arange(1, leaves + 1)
    edges = torch.stack([torch.zeros_like(ids), ids])
    return torch.cat([edges, edges.flip(0)], dim=1)


def products(graph: Graph, lam: float, max_degree: int | None) -> tuple[int, int]:
    """Pairs of nodes that share a feature, one by one; of one side, and of both."""
    edges = set(graph.edges) | {(i, i) for i in range(graph.num_nodes) if lam > 0}
    total = []
    for feature in (1, 0):
        lists: dict[int, int] = {}
        for edge in edges:
            lists[edge[feature]] = lists.get(edge[feature], 0) + 1
        kept = [d for d in lists.values() if max_degree is None or d <= max_degree]
        total.append(sum(d * d for d in kept))
    return total[0], sum(total)


# ------------------------------------------------------------------ estimates


@BACKENDS
@pytest.mark.parametrize("flavor", FLAVORS)
def test_the_number_of_products(flavor: str, backend: str) -> None:
    """Of one side if a graph is symmetric, else of both."""
    for seed in range(2):
        graph = draw(flavor, seed)
        adj = graph.adj()
        for lam in (0.0, 1.0):
            for max_degree in (None, 2):
                one, both = products(graph, lam, max_degree)
                found = estimate(graph, lam=lam, max_degree=max_degree, backend=backend)
                assert found.num_products == (one if torch.equal(adj, adj.T) else both)
                assert found.num_visited >= 0
                assert found.refused is False


def products_truly_computed(graph: Graph, p: int, lam: float, max_degree: int | None) -> int:
    """With the products of the powers, of both sides, whatever cancels."""
    adj = torch.zeros(graph.num_nodes, graph.num_nodes)
    for i, j in graph.edges:
        adj[i, j] = 1
    adj = adj + lam * torch.eye(graph.num_nodes)
    adj = (adj > 0).double()
    total, power = 0.0, adj
    for _ in range(p - 1):
        total += float((power @ adj.sum(1)).sum())
        power = (power @ adj > 0).double()
    for lengths in (power.sum(0), power.sum(1)):
        if max_degree is not None:
            lengths = lengths * (lengths <= max_degree)
        total += float(lengths.square().sum())
    symmetric = torch.equal(power, power.T)
    last = float(power.sum(0).square().sum()) if symmetric and max_degree is None else 0.0
    return int(total - last)


@BACKENDS
@pytest.mark.parametrize("p", [2, 3])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_of_powers_it_is_an_upper_bound(flavor: str, p: int, backend: str) -> None:
    for seed in range(3):
        graph = draw(flavor, seed)
        for lam in (0.0, 1.0):
            for max_degree in (None, 3):
                found = estimate(graph, p=p, lam=lam, max_degree=max_degree, backend=backend)
                assert found.num_products >= products_truly_computed(graph, p, lam, max_degree)
                assert found.num_visited == found.num_products


def test_what_is_visited_is_no_more_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the lists of hubs as the kernel does, in Python."""
    monkeypatch.setattr(plan, "SHORTEST_HUB", 2)
    for k in (1, 3, 50):
        edge_index = torch.rand(40, 40).lt(0.05).nonzero().t()
        edge_index = torch.cat([edge_index, star(39)], dim=1).unique(dim=1)
        found = estimate_topk(edge_index, k)
        description = described(edge_index, None, 40)
        hubs = plan.find_hubs(description, [lists for _, lists in description.sides])
        rows, _ = plan.rows_of(description, None)
        assert found.num_visited == plan.work_of(description, hubs, rows, k, 1).sum()
        assert hubs.side.size > 0
        below = description.lists.lengths <= hubs.length
        short = description.lists.lengths * below
        owners = description.rows
        least = sum(int(short[owners.col[a:b]].sum()) for a, b in zip(owners.ptr, owners.ptr[1:]))
        assert found.num_visited >= least
        if k == 50:  # then all lists are read, but their last reader may stop
            assert found.num_visited >= found.num_products // 2


def test_a_star_with_a_million_leaves_is_cheap_to_estimate() -> None:
    """And has more products than 32 bits, or a patience of 10^12, can hold."""
    leaves = 1_000_000
    found = estimate_topk(star(leaves), 4, backend="numba")
    assert found.num_products == leaves**2 + leaves > limits.MAX_PRODUCTS
    assert found.num_visited < 20 * leaves
    assert not found.refused
    assert found.output == (leaves + 1) * 4 * 12
    assert found.memory > 0
    there = estimate_topk(star(leaves), 4, backend="torch")
    assert there.num_products == found.num_products
    assert there.refused
    with pytest.raises(ValueError, match="products") as info:
        topk_similarity(star(leaves), 4, backend="torch")
    assert "1e+12" in str(info.value)
    assert "max_degree" in str(info.value)


def test_bounds_of_powers_do_not_overflow() -> None:
    found = estimate_topk(star(1_000_000), 4, p=9)
    assert found.num_products > 2**40
    assert math.isfinite(found.seconds)
    assert found.refused


@BACKENDS
@pytest.mark.parametrize("dtype", [None, torch.float64, torch.float16, torch.long])
def test_the_sizes_of_an_estimate(dtype: torch.dtype | None, backend: str) -> None:
    edge_index = star(30)
    weight = None if dtype is None else torch.full((60,), 2).to(dtype)
    found = estimate_topk(edge_index, 5, weight, 50, backend=backend)
    values, index = topk_similarity(edge_index, 5, weight, 50, backend=backend)
    assert found.output == values.nbytes + index.nbytes
    assert found.memory >= 2 * 60 * 4
    assert found.seconds > 0
    assert all(isinstance(number, int) for number in found[:4])


def test_the_memory_holds_the_arrays() -> None:
    for weight in (None, torch.rand(60)):
        found = estimate_topk(star(30), 5, weight, backend="numba")
        found_arrays = described(star(30), weight, 31)
        arrays = found_arrays.rows.nbytes + found_arrays.norm2.nbytes + found_arrays.nodes.nbytes
        assert found.memory >= arrays


# ------------------------------------------------------------------ memory


@BACKENDS
@pytest.mark.parametrize("p", [1, 2])
def test_a_budget_that_is_too_small_is_refused_unless_forced(p: int, backend: str) -> None:
    edge_index = star(50)
    weight = torch.rand(100)
    settings: dict[str, Any] = {"p": p, "backend": backend}
    for weights in (None, weight):
        plain = topk_similarity(edge_index, 3, weights, **settings)
        with pytest.raises(ValueError, match="`memory_budget` must be at least") as info:
            topk_similarity(edge_index, 3, weights, memory_budget=100, **settings)
        message = str(info.value)
        assert "got 100 bytes" in message
        assert "max_degree" in message
        assert "force=True" in message
        forced = topk_similarity(edge_index, 3, weights, memory_budget=100, force=True, **settings)
        assert torch.equal(forced[1], plain[1])
        assert torch.equal(forced[0], plain[0])
        assert estimate_topk(edge_index, 3, weights, memory_budget=100, **settings).refused
        large = 10**9
        roomy = topk_similarity(edge_index, 3, weights, memory_budget=large, **settings)
        assert torch.equal(roomy[0], plain[0])
        assert not estimate_topk(edge_index, 3, weights, memory_budget=large, **settings).refused


@pytest.mark.parametrize("ordered", [True, False])
def test_the_pass_for_a_few_rows_counts(ordered: bool) -> None:
    """Here it takes more than all that follows, or is in vain."""
    num_nodes, num_edges = 10**4, 10**6
    edge_index = torch.stack([torch.arange(num_edges) // 100, torch.arange(num_edges) % 100])
    if not ordered:
        edge_index = edge_index.flip(1)
    few: dict[str, Any] = {"num_nodes": num_nodes, "nodes": torch.tensor([0])}
    memory = estimate_topk(edge_index, 3, **few).memory
    assert memory >= edge_index.nbytes
    for budget, refused in ((memory, False), (memory - 1, True)):
        assert estimate_topk(edge_index, 3, memory_budget=budget, **few).refused == refused
        with pytest.raises(ValueError, match="`memory_budget`") if refused else nullcontext():
            topk_similarity(edge_index, 3, memory_budget=budget, **few)


def test_an_estimate_refuses_an_output_beyond_memory() -> None:
    """As the top k itself does."""
    edge_index = star(1000)
    assert estimate_topk(edge_index, 10**9).refused
    with pytest.raises(limits.TooExpensiveError, match="`k` must be such that the result fits"):
        topk_similarity(edge_index, 10**9)
    assert not estimate_topk(edge_index, 10).refused


def test_the_output_of_integer_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is of the default type, whatever that is."""
    edge_index, weight = torch.tensor([[0, 1], [1, 2]]), torch.tensor([1, 2])
    for dtype in (torch.float64, torch.float32):
        monkeypatch.setattr(torch, "get_default_dtype", lambda dtype=dtype: dtype)
        values, index = topk_similarity(edge_index, 2, weight)
        assert estimate_topk(edge_index, 2, weight).output == values.nbytes + index.nbytes


@BACKENDS
@pytest.mark.parametrize("weighted", [False, True])
def test_what_an_estimate_asks_for_is_enough(weighted: bool, backend: str) -> None:
    """With that budget it is computed, and the estimate of it says so."""
    edge_index = star(300)
    weight = torch.rand(600) if weighted else None
    needed = estimate_topk(edge_index, 3, weight, backend=backend).memory
    budget: dict[str, Any] = {"memory_budget": needed, "backend": backend}
    assert not estimate_topk(edge_index, 3, weight, **budget).refused
    values, _ = topk_similarity(edge_index, 3, weight, **budget)
    assert values.shape == (301, 3)


@BACKENDS
@pytest.mark.parametrize("weighted", [False, True])
def test_an_estimate_refuses_what_is_refused(weighted: bool, backend: str) -> None:
    """No more and no less, at any budget."""
    edge_index = star(300)
    weight = torch.rand(600) if weighted else None
    for exponent in range(8, 25):
        budget = {"memory_budget": 2**exponent, "backend": backend}
        try:
            topk_similarity(edge_index, 3, weight, **budget)
            refused = False
        except ValueError:
            refused = True
        assert estimate_topk(edge_index, 3, weight, **budget).refused == refused, exponent


def test_half_of_what_is_free_is_the_budget_where_none_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert limits.exceeds_memory(limits.ALWAYS_FREE - 1, None, "cpu") is None
    monkeypatch.setattr(limits, "free_memory", lambda _: 1000)
    assert limits.exceeds_memory(limits.ALWAYS_FREE, None, "cpu") == 500
    monkeypatch.setattr(limits, "ALWAYS_FREE", 0)
    assert limits.exceeds_memory(500, None, "cpu") is None
    assert limits.exceeds_memory(501, None, "cpu") == 500
    assert limits.exceeds_memory(501, 501, "cpu") is None
    assert limits.exceeds_memory(502, 501, "cpu") == 501
    for backend in ("numba", "torch"):
        with pytest.raises(ValueError, match="half of what is free") as info:
            topk_similarity(star(50), 1, backend=backend, num_nodes=51)
        assert "`memory_budget`" in str(info.value) or "`k`" in str(info.value)
        assert estimate_topk(star(50), 1, backend=backend).refused


@BACKENDS
def test_a_result_that_does_not_fit_is_refused(backend: str) -> None:
    with pytest.raises(ValueError, match="`k` must be such that the result fits") as info:
        topk_similarity(star(3), 10**14, backend=backend)
    assert "GiB" in str(info.value)
    assert "got a result of" in str(info.value)


def test_free_memory_is_known() -> None:
    free = limits.free_memory("cpu")
    assert isinstance(free, int)
    assert 2**20 < free < 2**50


def test_free_memory_without_what_linux_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_free_of_machine", lambda: None)
    monkeypatch.setattr(limits, "_free_of_container", lambda: None)
    assert limits.free_memory("cpu") == 2 * 2**30
    monkeypatch.setattr(limits, "_free_of_container", lambda: 77)
    assert limits.free_memory("cpu") == 77
    monkeypatch.setattr(limits, "_free_of_machine", lambda: 66)
    assert limits.free_memory("cpu") == 66


def test_the_limit_of_a_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    texts = {"memory.max": "max", "memory.limit_in_bytes": "5000", "memory.usage_in_bytes": "3000"}

    class Files:
        def __init__(self, name: str) -> None:
            self.name = name.rpartition("/")[2]

        def read_text(self) -> str:
            if self.name not in texts:
                raise FileNotFoundError(self.name)
            return texts[self.name]

    monkeypatch.setattr(limits, "Path", Files)
    assert limits._free_of_container() == 2000
    texts.update({"memory.max": "900", "memory.current": "1000"})
    assert limits._free_of_container() == 0
    texts.clear()
    assert limits._free_of_container() is None


# ------------------------------------------------------------------ products


@BACKENDS
@pytest.mark.parametrize("p", [1, 2])
def test_too_many_products_are_refused_unless_forced(
    p: int, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge_index = star(50)
    settings: dict[str, Any] = {"p": p, "backend": backend}
    exact = estimate_topk(edge_index, 2, backend=backend).num_products
    assert exact == 50**2 + 50
    plain = topk_similarity(edge_index, 2, **settings)
    if p == 1:
        monkeypatch.setattr(limits, "MAX_PRODUCTS", exact)
        assert not estimate_topk(edge_index, 2, **settings).refused
        assert torch.equal(topk_similarity(edge_index, 2, **settings)[1], plain[1])
    monkeypatch.setattr(limits, "MAX_PRODUCTS", 90 if p == 2 else exact - 1)
    assert estimate_topk(edge_index, 2, **settings).refused
    with pytest.raises(ValueError, match=r"must need at most .* products") as info:
        topk_similarity(edge_index, 2, **settings)
    assert "got" in str(info.value)
    assert "force=True" in str(info.value)
    assert torch.equal(topk_similarity(edge_index, 2, force=True, **settings)[1], plain[1])
    if p == 1:
        # Without the hub there is little left to do.
        assert topk_similarity(edge_index, 2, max_degree=5, **settings)[0][0, 0] == 1


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (3 * 2**19, "1.5 MiB")],
)
def test_sizes_are_written_for_people(size: int, text: str) -> None:
    assert limits.format_bytes(size) == text
    assert limits.format_bytes(5 * 2**40) == "5120.0 GiB"


def test_the_block_of_the_torch_backend_is_within_the_budget() -> None:
    assert topk_torch.block_bytes(None) == topk_torch.BLOCK
    assert topk_torch.block_bytes(1000) == 1000
    assert topk_torch.block_bytes(2**60) == topk_torch.BLOCK
