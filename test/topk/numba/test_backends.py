"""The compiled backend returns the bits of the PyTorch backend on every path of its kernels."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.utils import to_undirected

from helpers import counting
from helpers.backends import OTHERS
from helpers.graphs import FLAVORS, Graph, draw, draw_all, union
from torch_geometric_simpool import topk_similarity
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.numba import backend as numba_backend
from torch_geometric_simpool.topk.numba import csr, describe
from torch_geometric_simpool.topk.numba.backend import Rows
from torch_geometric_simpool.topk.numba.rows import FEW
from torch_geometric_simpool.topk.numba.short import MOST_TRIED
from torch_geometric_simpool.topk.spec import EdgeList as Edges
from torch_geometric_simpool.topk.spec import TopKSettings

DEFAULT = TopKSettings()
UNLIMITED = Budget(None, force=True)


#: The backend that the compiled one is compared with.
OTHER = "torch"


@pytest.fixture(params=OTHERS, autouse=True)
def _other(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "OTHER", request.param)


def both(
    edge_index: Tensor, k: int, edge_weight: Tensor | None, num_nodes: Any, **settings: Any
) -> list[tuple[Tensor, Tensor]]:
    return [
        topk_similarity(edge_index, k, edge_weight, num_nodes, backend=backend, **settings)
        for backend in ("numba", OTHER)
    ]


def assert_same_bits(here: tuple[Tensor, Tensor], there: tuple[Tensor, Tensor]) -> None:
    assert here[0].dtype == there[0].dtype
    assert here[1].dtype == there[1].dtype == torch.long
    assert torch.equal(here[1], there[1])
    if here[0].dtype == torch.float64:
        # Roots of some builds of PyTorch are off by one in the last place.
        torch.testing.assert_close(here[0], there[0], rtol=0, atol=1.2e-16)
    else:
        assert torch.equal(here[0], there[0])


def settings_of_all_kinds() -> list[dict[str, Any]]:
    kinds: list[tuple[int, float, bool, dict[str, Any]]] = [
        (1, 0.0, True, {}),
        (1, 1.0, False, {}),
        (1, 2.0, True, {"max_degree": 3}),
        (2, 0.0, False, {"min_similarity": 0.5}),
        (2, 1.0, True, {"max_degree": 4, "min_similarity": 0.25}),
        (3, 1.0, True, {}),
        (1, 0.0, True, {"exclude_neighbors": True}),
    ]
    return [
        {"p": p, "lam": lam, "measure": measure, "loop": loop, **more}
        for measure in ("cosine", "jaccard", "dice", "overlap")
        for p, lam, loop, more in kinds
    ]


@pytest.fixture(params=["short rows", "no short rows"])
def _short(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a test with and without the path of short rows, which small graphs take."""
    if request.param == "no short rows":
        rows_of = numba_backend.rows_of

        def rows_with_many_products(*arguments: Any) -> Rows:
            rows = rows_of(*arguments)
            return rows._replace(work=rows.work + MOST_TRIED)

        monkeypatch.setattr(numba_backend, "rows_of", rows_with_many_products)


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("flavor", FLAVORS)
def test_the_same_bits(flavor: str) -> None:
    for seed in range(2):
        graph = draw(flavor, seed)
        weight = graph.edge_weight()
        for settings in settings_of_all_kinds():
            for k in (1, 4, graph.num_nodes + 2):
                assert_same_bits(*both(graph.edge_index, k, weight, graph.num_nodes, **settings))


@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
@pytest.mark.parametrize("p", [1, 2])
def test_the_same_bits_of_a_batch_of_all_flavours(p: int, measure: str) -> None:
    """In a batch with real weights, unweighted graphs have weights of one."""
    for seed in range(3):
        graph, _ = union(draw_all(seed))
        for weight in (graph.edge_weight(), None):
            assert_same_bits(
                *both(graph.edge_index, 7, weight, graph.num_nodes, p=p, measure=measure)
            )


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.long, torch.uint8],
)
def test_the_same_bits_in_every_type_of_weights(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    edge_index = torch.randint(0, 40, (2, 150), generator=generator)
    weight = torch.randint(0, 200, (150,), generator=generator).to(dtype)
    for lam in (0.0, 1.0):
        here, there = both(edge_index, 8, weight, 40, lam=lam)
        assert_same_bits(here, there)
        expected = counting.top(edge_index, 8, 40, int(lam), edge_weight=weight.double())
        counting.assert_same(here, expected, 4e-3 if dtype.itemsize == 2 else 1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_the_same_bits_of_reals(p: int, symmetric: bool, signed: bool, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(p)
    edge_index = torch.randint(0, 50, (2, 120), generator=generator)
    weight = torch.rand(120, dtype=torch.float64, generator=generator) - (0.5 if signed else 0)
    weight *= 2.0 ** torch.randint(-9, 9, (120,), generator=generator)
    if symmetric:
        edge_index, weight = to_undirected(edge_index, weight, num_nodes=50, reduce="max")
    for lam in (0.0, 0.3):
        for measure in ("cosine", "jaccard"):
            assert_same_bits(
                *both(edge_index, 9, weight.to(dtype), 50, p=p, lam=lam, measure=measure)
            )


#: Weights whose sums cancel exactly, up to rounding, and beside weights of a distant scale.
CANCELING = {
    "decimal": [2.0, -2.0, -1.0, 0.3, 0.1, 0.2, -0.3],
    "dyadic": [0.5, -0.25, 1.75, 3.0, -1.125],
    "mixed": [1e30, -1e30, 1e-30, -1e-30, 1.0, 3e-30],
}


@pytest.mark.parametrize("kind", CANCELING)
@pytest.mark.parametrize("p", [1, 2, 3])
def test_the_same_bits_where_sums_cancel(kind: str, p: int) -> None:
    """Gradients are finite and equal, and exactly the places with a value have an index."""
    choices = torch.tensor(CANCELING[kind], dtype=torch.float64)
    for seed in range(5 if OTHER == "triton" else 15):  # Triton's interpreter is slow
        generator = torch.Generator().manual_seed(seed)
        edge_index = torch.randint(0, 5, (2, 14), generator=generator)
        weight = choices[torch.randint(0, len(choices), (14,), generator=generator)]
        for measure in ("cosine", "jaccard"):
            for dtype in (torch.float32, torch.float64):
                leaf = weight.to(dtype).requires_grad_()
                here, there = both(edge_index, 4, leaf, 5, p=p, measure=measure)
                assert_same_bits(here, there)
                assert torch.equal(here[0] == 0, here[1] < 0)
                gradients = [torch.autograd.grad(v.sum(), leaf)[0] for v, _ in (here, there)]
                assert torch.isfinite(gradients[0]).all()
                assert torch.equal(*gradients)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_extreme_weights_agree(scale: float) -> None:
    graph = draw("directed", 2)
    weight = torch.rand(len(graph.edges), dtype=torch.float64) * scale
    for p in (1, 3):
        here, there = both(graph.edge_index, 5, weight, graph.num_nodes, p=p)
        torch.testing.assert_close(here[0], there[0], rtol=0, atol=1e-12)
        assert torch.equal(here[1], there[1])
        assert (here[0] > 0).any()


@pytest.mark.parametrize("kind", ["undirected", "directed", "bipartite", "repeated"])
@pytest.mark.parametrize("sizes", [(-149, 128), (-149, -100), (100, 128), (-149, 20)])
def test_weights_in_float32_give_the_top_k_of_the_same_weights_in_float64(
    kind: str, sizes: tuple[int, int]
) -> None:
    generator = torch.Generator().manual_seed(sum(sizes))
    edge_index = torch.randint(0, 300, (2, 6000), generator=generator)
    if kind != "repeated":
        edge_index = edge_index.unique(dim=1)
    exponent = torch.rand(edge_index.size(1), generator=generator, dtype=torch.float64)
    weight = 2 ** (sizes[0] + exponent * (sizes[1] - sizes[0]))
    weight[exponent < 0.05] = 0
    if kind == "undirected":
        edge_index, weight = to_undirected(edge_index, weight, reduce="min")
    num_nodes = (300, 300) if kind == "bipartite" else 300
    narrow = weight.float()
    here = topk_similarity(edge_index, 9, narrow, num_nodes, backend="numba")
    there = topk_similarity(edge_index, 9, narrow.double(), num_nodes, backend="numba")
    stored = there[0].float() > 0  # smaller similarities are zero in float32
    assert torch.equal(here[0], there[0].float())
    assert torch.equal(here[1], there[1].where(stored, -1))


@pytest.mark.parametrize("exponent", [-534.6, -535.0, -535.4])
def test_a_key_that_is_zero_once_it_is_divided_by_the_norm(exponent: float) -> None:
    """A key can be zero after the division by the norm. Its similarity is zero and has no place."""
    row = torch.stack([torch.zeros(400, dtype=torch.long), torch.arange(400)])
    edge_index = torch.cat([row, torch.tensor([[1, 1], [400, 0]])], dim=1)
    weight = torch.ones(402, dtype=torch.float64)
    weight[-1] = 2.0**exponent
    for backend in ("numba", OTHER):
        values, index = topk_similarity(edge_index, 2, weight, (2, 401), backend=backend)
        assert index.tolist() == [[0, -1], [1, -1]]
        assert values.tolist() == [[1, 0], [1, 0]]


@pytest.mark.parametrize("largest", [127, 128, -127, -128, -129])
@pytest.mark.parametrize("repeated", [False, True])
def test_integers_about_the_largest_of_one_byte(largest: int, repeated: bool) -> None:
    """Small weights take one byte, and repeated edges add up to larger weights."""
    edge_index = torch.tensor([[0, 0, 1, 2, 2, 3], [0, 1, 1, 0, 2, 2]])
    weight = torch.tensor([largest, 3, 1, 100, largest, 2])
    if repeated:
        edge_index, weight = edge_index.repeat(1, 2), weight.repeat(2)
    assert_same_bits(*both(edge_index, 4, weight, 4))


@pytest.mark.usefixtures("_short")
def test_integers_whose_sums_of_products_exceed_32_bits() -> None:
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(0, 60, (2, 120), generator=generator)
    weight = torch.randint(50_000, 10**6, (120,), generator=generator)
    assert_same_bits(*both(edge_index, 5, weight, 60))


def test_weights_that_are_ones_are_no_weights() -> None:
    """Weights that are all one take the kernel that counts common neighbors."""
    for flavor in ("undirected", "directed", "loops", "parallel", "star", "edgeless"):
        graph = draw(flavor, 3)
        ones = torch.ones(len(graph.edges))
        plain = topk_similarity(graph.edge_index, 5, None, graph.num_nodes, backend="numba")
        for weight in (ones, ones.long()):
            assert_same_bits(
                topk_similarity(graph.edge_index, 5, weight, graph.num_nodes, backend="numba"),
                plain,
            )


@pytest.mark.parametrize("kind", ["ones", "integers", "reals"])
def test_a_symmetric_graph_has_one_matrix(kind: str) -> None:
    """Its columns equal its rows, so that they are stored once; in any order of the edges."""
    upper = torch.rand(40, 40).triu() * (torch.rand(40, 40) < 0.3)
    full = upper + upper.triu(1).t()
    dense = {"ones": (full > 0).float(), "integers": (full * 5).ceil(), "reals": full}[kind]
    other = dense.clone()
    other[tuple(dense.triu(1).nonzero()[0])] *= 0 if kind == "ones" else 2
    for adj, num_sides in ((dense, 1), (other, 2)):
        edge_index, weight = adj.nonzero().t(), adj[adj != 0]
        order = torch.randperm(weight.numel())
        repeated = torch.cat([order, order])
        for chosen in (slice(None), order, repeated):
            edges = Edges(edge_index[:, chosen], weight[chosen], 40, None)
            description = numba_backend.prepare(edges, DEFAULT, UNLIMITED).description
            assert description.num_sides == num_sides
            here, there = both(edges.edge_index, 5, edges.edge_weight, 40)
            assert_same_bits(here, there)


def test_a_bipartite_graph_whose_matrix_is_symmetric() -> None:
    edge_index = torch.tensor([[0, 0, 1, 2, 3], [1, 2, 0, 0, 3]])
    for weight in (None, torch.ones(5), torch.tensor([1, 2, 1, 2, 3.5])):
        assert_same_bits(*both(edge_index, 3, weight, (4, 4)))


def test_candidates_that_tie_and_are_not_exact() -> None:
    """The leaves have more near ties than there is room for, and exactly `k` of them stay."""
    leaves = torch.arange(1, 1000)
    ends = torch.stack([torch.zeros_like(leaves), leaves])
    edge_index = torch.cat([ends, ends.flip(0)], dim=1)
    weight = torch.full((edge_index.size(1),), 0.3, dtype=torch.float64)
    assert_same_bits(*both(edge_index, 5, weight, 1000, nodes=[1, 999]))


def test_a_large_sum_in_a_column_alone() -> None:
    """Its products are not exact in 53 bits, though the sum of each row is small."""
    edge_index = torch.stack([torch.arange(1, 9), torch.zeros(8, dtype=torch.long)])
    weight = torch.full((8,), 2.0**25 + 1, dtype=torch.float64)
    assert not describe.entries_of(Edges(edge_index, weight, 9, None), DEFAULT).exact
    assert_same_bits(*both(edge_index, 3, weight, 9))


def test_weights_near_the_largest_number_give_no_warning() -> None:
    weight = torch.full((4,), 1e308, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        topk_similarity(torch.tensor([[0, 0, 1, 2], [1, 2, 0, 0]]), 3, weight, backend="numba")


def test_parallel_edges_leave_the_kernel_that_counts() -> None:
    """Parallel edges in any row need the weighted kernel. With `lam`, so does a self-loop."""
    path = [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)]
    for twice in (*path, (0, 0), (3, 3)):
        for lam in (0, 1):
            edge_index = torch.tensor([*path, twice, twice]).t()
            result = topk_similarity(edge_index, 4, lam=lam, backend="numba")
            counting.assert_same(result, counting.top(edge_index, 4, 4, lam))
    with_loop = torch.tensor([*path, (0, 0)]).t()
    result = topk_similarity(with_loop, 4, lam=1, backend="numba")
    counting.assert_same(result, counting.top(with_loop, 4, 4, 1))


@pytest.mark.parametrize("ids", [torch.int32, torch.uint8, torch.int64])
def test_edges_of_any_type_and_layout(ids: torch.dtype) -> None:
    edges = torch.tensor(draw("directed", 1).edges).to(ids)
    expected = topk_similarity(edges.t().contiguous().long(), 3, backend="torch")
    assert_same_bits(topk_similarity(edges.t(), 3, backend="numba"), expected)
    assert not edges.t().is_contiguous()
    padded = torch.zeros(2, 2 * len(edges), dtype=ids)
    padded[:, ::2] = edges.t()
    assert_same_bits(topk_similarity(padded[:, ::2], 3, backend="numba"), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_of_any_layout(dtype: torch.dtype) -> None:
    edge_index = draw("directed", 1).edge_index
    weight = torch.rand(2, edge_index.size(1), dtype=dtype)[0]
    expected = topk_similarity(edge_index, 3, weight, backend="torch")
    padded = torch.stack([weight, weight], dim=1)[:, :1]
    negated = torch._neg_view(-weight)
    for other in (padded, negated):
        assert_same_bits(topk_similarity(edge_index, 3, other, backend="numba"), expected)


def test_the_input_is_not_changed() -> None:
    graph = draw("parallel_weighted", 1)
    edge_index, weight = graph.edge_index, graph.edge_weight()
    assert weight is not None
    before = edge_index.clone(), weight.clone()
    for p in (1, 2):
        topk_similarity(edge_index, 3, weight, p=p, backend="numba")
        topk_similarity(edge_index, 3, None, p=p, backend="numba")
    assert torch.equal(edge_index, before[0])
    assert torch.equal(weight, before[1])


# ------------------------------------------------------------------ 64 bits


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("ids", [np.uint32, np.int64])
@pytest.mark.parametrize("flavor", ["undirected", "directed", "integer", "parallel", "star"])
def test_ids_of_large_graphs(ids: type, flavor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe, "type_of_ids", lambda _: np.dtype(ids))
    graph = draw(flavor, 0)
    weight = graph.edge_weight()
    edges = Edges(graph.edge_index, weight, graph.num_nodes, None)
    description = describe.describe(edges, DEFAULT, UNLIMITED)
    assert {side.rows.col.dtype for side in description.sides} == {np.dtype(ids)}
    for p in (1, 2):
        for k in (2, graph.num_nodes + 1):
            assert_same_bits(*both(graph.edge_index, k, weight, graph.num_nodes, p=p, lam=1.0))


# ------------------------------------------------------------------ norms


def test_large_norms_before_small_norms() -> None:
    # The nodes are numbered by the norms of A. Squares of dot products of the first nodes in A^2
    # are rounded, and the last block has small norms.
    generator = torch.Generator().manual_seed(0)
    adj = 75 * torch.eye(170)
    dense = (torch.rand(40, 40, generator=generator) < 0.5).float()
    adj[:40, :40] = dense * torch.randint(1, 24, (40, 40), generator=generator)
    edge_index = adj.nonzero().t()
    weight = adj[tuple(edge_index)].double()
    here, there = both(edge_index, 40, weight, 170, p=2)
    assert_same_bits(here, there)
    # The cosine of a node with itself is one.
    assert (here[0][:, 0] == 1).all()


# ------------------------------------------------------------------ long rows


def long_rows() -> tuple[Tensor, int]:
    """Returns a graph with some rows of many products.

    Node 0 has 129 children with 129 neighbors each, and there are edges between them.
    """
    children = torch.arange(1, 130)
    leaves = torch.arange(130, 130 + 129 * 128)
    pairs = [
        torch.stack([torch.zeros_like(children), children]),
        torch.stack([children.repeat_interleave(128), leaves]),
        torch.randint(0, 40_000, (2, 20_000), generator=torch.Generator().manual_seed(2)),
    ]
    edge_index = torch.cat(pairs, dim=1)
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    return edge_index.unique(dim=1), 40_000


@pytest.mark.parametrize("weighted", [False, True])
def test_chosen_rows_with_and_without_a_copy(
    weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the features of few rows changes no result, and counts as working memory."""
    edge_index = torch.randint(0, 200, (2, 1000)).unique(dim=1)
    weight = torch.rand(edge_index.size(1)) if weighted else None
    values, index = topk_similarity(edge_index, 5, weight, 200)
    nodes, memory = torch.tensor([150, 3, 3, 199, 0]), []
    graph = numba_backend.prepare(Edges(edge_index, weight, 200), DEFAULT, UNLIMITED)
    graph = graph._replace(description=graph.description._replace(building_memory=0))
    for most in (0, csr.MOST_COPIED):
        monkeypatch.setattr(csr, "MOST_COPIED", most)
        chosen = topk_similarity(edge_index, 5, weight, 200, nodes=nodes)
        assert torch.equal(chosen[0], values[nodes])
        assert torch.equal(chosen[1], index[nodes])
        memory.append(graph.cost(nodes, 5, UNLIMITED).memory)
    of_nodes = sum((edge_index == node).sum() for node in nodes)  # as sources and destinations
    rows = graph.description.sides.first.rows
    num_bytes = rows.col.itemsize + (rows.value.itemsize if weighted else 0)
    assert memory[1] - memory[0] == of_nodes * num_bytes


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_with_few_and_with_many_products(weighted: bool) -> None:
    edge_index, num_nodes = long_rows()
    weight = None
    if weighted:
        weight = torch.randint(1, 4, edge_index.shape[1:], dtype=torch.float64)
    there = topk_similarity(edge_index, 6, weight, num_nodes, backend="torch")
    prepared = numba_backend.prepare(Edges(edge_index, weight, num_nodes, None), DEFAULT, UNLIMITED)
    work = numba_backend.rows_of(prepared.description, None).work
    num_bytes = num_nodes * prepared.description.sum_type.itemsize
    few = (work > 0) & (work * FEW <= num_bytes)
    assert few.sum() > num_nodes // 4
    assert (work * FEW > num_bytes).any()
    assert_same_bits(topk_similarity(edge_index, 6, weight, num_nodes, backend="numba"), there)


@pytest.mark.parametrize("num_columns", [30, 600])
@pytest.mark.parametrize("kind", ["ones", "nearly ones", "signed", *CANCELING])
def test_rows_with_more_candidates_than_are_counted(kind: str, num_columns: int) -> None:
    """Nearly equal keys are equal in float32. Rows of few places need large similarities alone."""
    generator = torch.Generator().manual_seed(4)
    edge_index = torch.randint(900, (2, 9000), generator=generator)
    edge_index[1] %= num_columns
    noise = torch.rand(9000, dtype=torch.float64, generator=generator)
    if kind in CANCELING:
        choices = torch.tensor(CANCELING[kind], dtype=torch.float64)
        weight = choices[(noise * len(choices)).long()]
    else:
        weight = {"ones": None, "nearly ones": 1 + noise * 1e-9, "signed": noise - 0.4}[kind]
    for k in (3, 700):
        assert_same_bits(*both(edge_index, k, weight, (900, num_columns)))


@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
@pytest.mark.parametrize("bipartite", [False, True])
def test_rows_of_all_lengths(bipartite: bool, measure: str) -> None:
    generator = torch.Generator().manual_seed(5)
    for n in (80, 150, 400):
        share = torch.rand(n, generator=generator) ** 4
        adj = torch.rand(n, n, generator=generator) < share + (0.0 if bipartite else share[:, None])
        adj = adj if bipartite else adj | adj.T
        edge_index = adj.nonzero().t()
        # In this directed graph, no edge points to the first nodes.
        apart = edge_index + torch.tensor([[0], [n if bipartite else 0]])
        everything = counting.top(apart, n, 2 * n if bipartite else n, measure=measure)
        for k in (1, 2, 16, 60):
            result = topk_similarity(
                edge_index, k, num_nodes=(n, n) if bipartite else n, measure=measure
            )
            counting.assert_same(result, (everything[0][:n, :k], everything[1][:n, :k]))


@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_dense_graphs(weighted: bool, directed: bool, measure: str) -> None:
    generator = torch.Generator().manual_seed(3)
    n = 300
    adj = torch.rand(n, n, generator=generator) < 0.6
    adj = adj if directed else adj | adj.T
    edge_index = adj.nonzero().t()
    weight = None
    if weighted:
        values = torch.randint(-2, 4, (n, n), generator=generator).double()
        weight = (values if directed else values + values.T)[tuple(edge_index)]
    expected = counting.top(edge_index, 20, n, measure=measure, edge_weight=weight)
    result = topk_similarity(edge_index, 20, weight, n, measure=measure, backend="numba")
    counting.assert_same(result, expected)


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("num_nodes", [2, 200])
def test_weights_of_zero(num_nodes: int) -> None:
    # A graph of few nodes has rows with many products, which are all zero.
    edge_index = torch.randint(
        num_nodes, (2, 5 * num_nodes), generator=torch.Generator().manual_seed(0)
    )
    values, index = topk_similarity(edge_index, 3, torch.zeros(5 * num_nodes), num_nodes)
    assert (index == -1).all()
    assert (values == 0).all()


def test_the_complete_graph_of_many_nodes() -> None:
    """All other nodes have the similarity `(n - 2) / (n - 1)`."""
    n = 400
    edge_index = torch.ones(n, n).fill_diagonal_(0).nonzero().t()
    values, index = topk_similarity(edge_index, 3, backend="numba")
    assert torch.equal(index[:, 0], torch.arange(n))
    assert index[0].tolist() == [0, 1, 2]
    assert index[1].tolist() == [1, 0, 2]
    assert (index[2:, 1:] == torch.tensor([0, 1])).all()
    torch.testing.assert_close(values[:, 1:], torch.full((n, 2), (n - 2) / (n - 1)))


def test_a_graph_whose_numbers_are_far_apart() -> None:
    """Most ids belong to isolated nodes."""
    path = Graph(0, ((0, 1), (1, 0), (1, 2), (2, 1)))
    place = torch.tensor([7, 400_000, 999_999])
    edge_index = place[torch.tensor(path.edges).t()]
    values, index = topk_similarity(edge_index, 2, num_nodes=1_000_000, backend="numba")
    assert index[7].tolist() == index[999_999].tolist() == [7, 999_999]
    assert index[400_000].tolist() == [400_000, -1]
    assert (index >= 0).sum() == 5
    assert values.sum() == 5
