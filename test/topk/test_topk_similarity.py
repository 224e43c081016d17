"""The sparse top k: each backend equals exact fractions, and satisfies the identities."""

from functools import partial
from random import Random

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import Tensor
from torch.autograd import forward_ad

from helpers import counting, oracle
from helpers.graphs import FLAVORS, Graph, draw, draw_all, union
from helpers.largest import LargestTensor
from helpers.top_rows import assert_is_nearly_top, assert_is_top
from torch_geometric_simpool import (
    SimilarityIndex,
    similarity_graph,
    similarity_of_pairs,
    structural_similarity,
    topk_similarity,
)
from torch_geometric_simpool.topk.measures import NO_KERNEL, SPARSE_MEASURES

#: Measures that all backends compute.
MEASURES = [name for name, measure in SPARSE_MEASURES.items() if measure.code != NO_KERNEL]

#: Flavors without negative weights. The oracle does not know which sums cancel up to rounding, nor
#: whether a feature whose sum cancels is shared.
POSITIVE = [f for f in FLAVORS if f not in ("signed", "signed_directed", "parallel_weighted")]


def topk(graph: Graph, k: int, backend: str, **options: object) -> tuple[Tensor, Tensor]:
    return topk_similarity(
        graph.edge_index,
        k,
        graph.edge_weight(),
        graph.num_nodes,
        backend=backend,
        **options,  # type: ignore[arg-type]
    )


def check(
    graph: Graph,
    k: int,
    backend: str,
    p: int = 1,
    lam: float = 0.0,
    measure: str = "cosine",
    loop: bool = True,
    max_degree: int | None = None,
    exclude_neighbors: bool = False,
    min_similarity: float | None = None,
) -> None:
    """Compares a call with the oracle."""
    excluded = frozenset(graph.edges) if exclude_neighbors else frozenset()
    adj = graph.exact_adj
    rows = oracle.candidates(adj, p, lam, measure, loop, max_degree, excluded)
    result = topk(
        graph,
        k,
        backend,
        p=p,
        lam=lam,
        measure=measure,
        loop=loop,
        max_degree=max_degree,
        exclude_neighbors=exclude_neighbors,
        min_similarity=min_similarity,
    )
    if min_similarity is not None:
        number = np.float32 if graph.weights is None else np.float64
        rows = [[c for c in row if number(c.value) >= number(min_similarity)] for row in rows]
    if oracle.float64_is_exact(adj, p, lam):
        assert_is_top(result, rows, k)
    else:
        assert_is_nearly_top(result, rows, k, p)


# ------------------------------------------------------------------ values


@pytest.mark.parametrize("flavor", FLAVORS)
def test_equals_the_oracle(flavor: str, backend: str) -> None:
    rng = Random(flavor)
    for seed in range(30):
        graph = draw(flavor, seed)
        check(
            graph,
            rng.choice([1, 3, graph.num_nodes + 2]),
            backend,
            p=rng.choice([1, 1, 2, 3]),
            lam=rng.choice([0.0, 0.5, 1.0]),
            measure=MEASURES[seed % len(MEASURES)],
            loop=rng.random() < 0.5,
            max_degree=rng.choice([None, 0, 1, 2, 4]) if flavor in POSITIVE else None,
            exclude_neighbors=rng.random() < 0.3,
        )


@pytest.mark.parametrize("flavor", FLAVORS)
def test_fractions_are_exact_in_float64_for_every_flavor(flavor: str) -> None:
    """The test above checks the order of ties only if float64 is exact."""
    assert all(oracle.float64_is_exact(draw(flavor, s).exact_adj, 1, 0.5) for s in range(3))


@pytest.mark.parametrize("flavor", POSITIVE)
def test_equals_the_oracle_where_sums_round(flavor: str, backend: str) -> None:
    rng = Random(flavor)
    for seed in range(8):
        graph = draw(flavor, seed)
        options = {"p": rng.choice([1, 2, 3]), "lam": rng.choice([0.1, 0.3])}
        check(graph, rng.choice([2, graph.num_nodes + 1]), backend, **options)


@st.composite
def graphs(draw_from: st.DrawFn) -> Graph:
    n = draw_from(st.integers(1, 12))
    node = st.integers(0, n - 1)
    edges = draw_from(st.lists(st.tuples(node, node), max_size=40))
    if draw_from(st.booleans()):
        edges = edges + [(j, i) for i, j in edges]
    weights = st.lists(
        st.sampled_from([1.0, 2.0, 3.0, 0.5, 7.0]), min_size=len(edges), max_size=len(edges)
    )
    return Graph(n, tuple(edges), draw_from(st.none() | weights.map(tuple)))


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    graph=graphs(),
    k=st.integers(1, 14),
    p=st.sampled_from([1, 1, 2]),
    lam=st.sampled_from([0.0, 1.0, 0.25]),
    measure=st.sampled_from(MEASURES),
    loop=st.booleans(),
    max_degree=st.none() | st.integers(0, 5),
    exclude_neighbors=st.booleans(),
)
def test_equals_the_oracle_on_any_graph(backend: str, graph: Graph, **options: object) -> None:
    check(graph, options.pop("k"), backend, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("measure", MEASURES)
def test_a_large_random_graph(measure: str, backend: str) -> None:
    generator = torch.Generator().manual_seed(3)
    n = 700
    source = (torch.rand(9 * n, generator=generator).square() * n).long()  # with hub nodes
    target = torch.randint(0, n, (9 * n,), generator=generator)
    edges = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    for edge_index in (edges.unique(dim=1), edges, torch.stack([source, target])):
        weight = torch.randint(1, 4, (edge_index.size(1),), generator=generator)
        for edge_weight in (None, weight):
            for k, loop in ((1, False), (20, True)):
                result = topk_similarity(
                    edge_index, k, edge_weight, n, measure=measure, loop=loop, backend=backend
                )
                expected = counting.top(
                    edge_index, k, n, measure=measure, loop=loop, edge_weight=edge_weight
                )
                counting.assert_same(result, expected)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_is_the_dense_matrix_gathered(flavor: str, backend: str) -> None:
    for seed, measure in enumerate(MEASURES):
        graph = draw(flavor, seed)
        for p, lam in ((1, 0.3), (2, 0.0), (3, 0.5)):
            values, index = topk(graph, 4, backend, p=p, lam=lam, measure=measure)
            dense = structural_similarity(graph.adj(), p=p, lam=lam, measure=measure)
            gathered = dense.gather(1, index.clamp(min=0)) * (index >= 0)
            tolerance = 1e-6 if graph.weights is None else 1e-9
            torch.testing.assert_close(values.double(), gathered, rtol=tolerance, atol=tolerance)
            ahead, behind = values[:, :-1], values[:, 1:]
            assert ((ahead >= behind) | (index[:, 1:] < 0)).all()


# ------------------------------------------------------------------ ties and zeros


@pytest.mark.parametrize("weights", [(439, 449), (40_001, 39_998), (1_000_003, 2)])
@pytest.mark.parametrize("beside", [(), (0.1,), (3.0,)])
def test_ties_of_large_integers_are_ties(
    weights: tuple[int, int], beside: tuple[float, ...], backend: str
) -> None:
    """Descriptions are multiples of one another, and squares of dot products are rounded.

    The ties stay in a batch with a graph of real weights.
    """
    factors = [1, 3, 5, 7, 9, 11, 13]
    edges = [(2 + j, m) for j in range(len(factors)) for m in range(2)]
    drawn = [float(f * w) for f in factors for w in weights]
    for real in beside:
        edges += [(9, 10), (10, 9)]
        drawn += [real, real]
    values, index = topk(Graph(11, tuple(edges), tuple(drawn)), 7, backend)
    assert index[2:9].tolist() == [[2, 3, 4, 5, 6, 7, 8]] * 7
    assert (values[2:9] == 1).all()


@pytest.mark.parametrize("seed", range(3))
def test_equal_summands_tie_beyond_a_double(seed: int, backend: str) -> None:
    """Sums of equal products in different orders are rounded to the same number."""
    rng = Random(seed)
    size, num_others = 8, 6
    weights = [float(rng.randrange(2**40, 2**50)) for _ in range(size)]
    edges, drawn = [(num_others, m + num_others + 1) for m in range(size)], [1.0] * size
    for j in range(num_others):
        rng.shuffle(weights)
        edges += [(j, m + num_others + 1) for m in range(size)]
        drawn += weights
    graph = Graph(num_others + 1 + size, tuple(edges), tuple(drawn))
    values, index = topk(graph, num_others + 1, backend)
    assert index[num_others].tolist() == [num_others, *range(num_others)]
    assert values[num_others, 1:].unique().numel() == 1


@pytest.mark.parametrize(("p", "lam"), [(1, 0.0), (2, 0.0), (3, 0.0), (1, 0.1), (2, 0.1), (3, 1.0)])
def test_a_hundred_equal_leaves_come_in_order(p: int, lam: float, backend: str) -> None:
    """The order does not depend on rounding. The hub is the last node, and edges are shuffled."""
    n = 120
    pairs = torch.stack([torch.randperm(n), torch.full((n,), n)])
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)[:, torch.randperm(2 * n)]
    values, index = topk_similarity(edge_index, 5, p=p, lam=lam, backend=backend)
    if lam == 0:
        assert torch.equal(index[:n], torch.arange(5).repeat(n, 1))
        assert (values[:n] == 1).all()
        return
    assert torch.equal(index[:n, 0], torch.arange(n))  # its loop makes a leaf unique
    for i in range(n):
        leaves = [j for j in index[i, 1:].tolist() if j != n]
        assert leaves == [j for j in range(6) if j != i][: len(leaves)]
        assert len(leaves) >= 3


@pytest.mark.parametrize("residue", [0.0, 2.0**-53, 2.0**-51, 2.0**-49, 1e-9])
@pytest.mark.parametrize("p", [1, 2])
def test_sums_cancel_up_to_rounding(residue: float, p: int, backend: str) -> None:
    """Nodes 0 and 1 have the products 1 and `residue - 1` at nodes 2 and 3, `p` steps away."""
    ends, ones = [[0, 2], [0, 3], [1, 2], [1, 3]], [1.0] * 3
    if p == 2:
        ends, ones = [[0, 4], [1, 5], [4, 2], [4, 3], [5, 2], [5, 3]], [1.0] * 5
    weight = torch.tensor([*ones, residue - 1.0], dtype=torch.float64)
    values, index = topk_similarity(torch.tensor(ends).t(), 2, weight, 6, p=p, backend=backend)
    if residue <= 2.0**-51:
        assert index[:2].tolist() == [[0, -1], [1, -1]]
    else:
        assert index[:2].tolist() == [[0, 1], [1, 0]]
        assert values[:2, 1].tolist() == pytest.approx([residue / 2] * 2, rel=1e-5)


def test_integers_cancel_only_where_they_are_zero(backend: str) -> None:
    edge_index = torch.tensor([[0, 0, 1, 1], [2, 3, 2, 3]])
    weight = torch.tensor([2**25 + 1.0, 2.0**25, 2**25 - 1.0, -(2.0**25)], dtype=torch.float64)
    values, index = topk_similarity(edge_index, 2, weight, 4, backend=backend)
    assert index[:2].tolist() == [[0, 1], [1, 0]]
    assert values[:2, 1].tolist() == pytest.approx([-(2.0**-51)] * 2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_similarity_that_rounds_to_zero_takes_no_place(dtype: torch.dtype, backend: str) -> None:
    """Nodes 0 and 1 share node 2, whose weight is too small. The similarity -1 to node 3 stays."""
    edge_index = torch.tensor([[0, 0, 1, 1, 4, 4], [2, 3, 2, 5, 3, 2]])
    info = torch.finfo(dtype)
    tiny = min((info.tiny * info.eps) ** 0.5 / 16 or 1e-162, 1.0)
    weight = torch.tensor([tiny, 1, tiny, 1, -1, tiny], dtype=torch.float64)
    values, index = topk_similarity(edge_index, 3, weight.to(dtype), 6, backend=backend)
    assert index[0].tolist() == [0, 4, -1]
    assert values[0].tolist() == [1, -1, 0]
    assert index[1].tolist() == [1, -1, -1]


# ------------------------------------------------------------------ thresholds


@pytest.mark.parametrize("min_similarity", [-1, -0.5, 0, 0.25, 0.5, 1.0])
def test_min_similarity_cuts_a_row_short(min_similarity: float, backend: str) -> None:
    for seed, flavor in enumerate(FLAVORS):
        graph, measure = draw(flavor, seed % 3), MEASURES[seed % len(MEASURES)]
        check(graph, 5, backend, measure=measure, min_similarity=min_similarity)


@pytest.mark.parametrize("least_weight", [0.0, -0.4])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_returned_value_as_threshold_keeps_its_entry(
    dtype: torch.dtype, least_weight: float, backend: str
) -> None:
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(0, 40, (2, 160), generator=generator)
    weight = (torch.rand(160, generator=generator) + least_weight).to(dtype)
    for number, measure in enumerate(MEASURES):
        values, index = topk_similarity(edge_index, 6, weight, 40, measure=measure, backend=backend)
        largest = values.max().item()  # an overlap may exceed 1
        for threshold in [largest, *values[index >= 0].unique()[number::9].tolist()]:
            result = topk_similarity(
                edge_index,
                6,
                weight,
                40,
                measure=measure,
                min_similarity=threshold,
                backend=backend,
            )
            stays = values >= threshold
            assert torch.equal(result[1], torch.where(stays, index, -1))
            assert torch.equal(result[0], torch.where(stays, values, 0))


def test_entries_below_the_threshold_have_no_gradient(backend: str) -> None:
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.randint(0, 40, (2, 160), generator=generator)
    weight = torch.rand(160, generator=generator, dtype=torch.float64).requires_grad_()
    values, _ = topk_similarity(edge_index, 6, weight, 40, backend=backend)
    (expected,) = torch.autograd.grad(values[values >= 0.3].sum(), weight)
    values, _ = topk_similarity(edge_index, 6, weight, 40, min_similarity=0.3, backend=backend)
    assert (values == 0).any()
    (gradient,) = torch.autograd.grad(values.sum(), weight)
    assert torch.equal(gradient, expected)


def test_the_threshold_of_a_bipartite_graph(backend: str) -> None:
    edge_index = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 2]])
    options = {"num_nodes": (2, 3), "measure": "jaccard", "loop": False, "backend": backend}
    values, index = topk_similarity(edge_index, 2, **options)  # type: ignore[arg-type]
    threshold = float(values[0, 0])
    again = topk_similarity(edge_index, 2, min_similarity=threshold, **options)  # type: ignore[arg-type]
    assert torch.equal(again[1], index)
    assert index.tolist() == [[1, -1], [0, -1]]


# ------------------------------------------------------------------ identities


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(("p", "lam"), [(1, 0.0), (1, 0.3), (2, 1.0), (3, 0.3)])
def test_a_batch_is_each_graph_alone_to_the_last_bit(
    p: int, lam: float, measure: str, backend: str
) -> None:
    """The batch has weighted and unweighted, directed and undirected graphs."""
    options = {"p": p, "lam": lam, "measure": measure}
    graphs = draw_all(7)
    joined, _ = union(graphs)
    values, index = topk(joined, 6, backend, **options)
    first = 0
    for graph in graphs:
        weights = graph.weights or (1.0,) * len(graph.edges)
        alone = topk(Graph(graph.num_nodes, graph.edges, weights), 6, backend, **options)
        rows = slice(first, first + graph.num_nodes)
        assert torch.equal(values[rows], alone[0])
        assert torch.equal(index[rows], alone[1] + first * (alone[1] >= 0))
        first += graph.num_nodes


@pytest.mark.parametrize("heavy", [0.1, 1e9, 1e-9, 2.0**40])
def test_a_graph_of_another_scale_beside_it_changes_no_bit(heavy: float, backend: str) -> None:
    """The decision whether sums are exact is made for the whole batch."""
    plain, beside = draw("integer", 3), draw("directed", 3)
    first = beside.num_nodes
    joined, _ = union([Graph(first, beside.edges, (heavy,) * len(beside.edges)), plain])
    for measure in MEASURES:
        for p in (1, 2, 3):
            values, index = topk(joined, 5, backend, p=p, measure=measure)
            alone = topk(plain, 5, backend, p=p, measure=measure)
            assert torch.equal(values[first:], alone[0])
            assert torch.equal(index[first:], alone[1] + first * (alone[1] >= 0))


def test_a_component_of_tiny_weights_changes_no_bit(backend: str) -> None:
    """For a few pairs, the quotient of dot product and squared norm is a power of two."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(0, 6, (300, 3), generator=generator).double() * 0.11
    edge_index = rows.nonzero().t()
    weight = rows[tuple(edge_index)]
    alone = topk_similarity(edge_index, 8, weight, (300, 3), backend=backend)
    beside = torch.cat([edge_index, torch.tensor([[300], [3]])], dim=1)
    tiny = torch.cat([weight, torch.tensor([1e-90], dtype=torch.float64)])
    values, index = topk_similarity(beside, 8, tiny, (301, 4), backend=backend)
    assert torch.equal(values[:300], alone[0])
    assert torch.equal(index[:300], alone[1])
    other = topk_similarity(edge_index, 8, weight, (300, 3), backend="torch")
    assert torch.equal(alone[0], other[0])
    assert torch.equal(alone[1], other[1])


def test_a_dot_product_of_zero_takes_no_place_of_a_negative_one(backend: str) -> None:
    """The terms of the dot products of row 0 with eight rows cancel up to rounding."""
    rows = torch.tensor([[0.1, 0.2, 0.3]] + 8 * [[1, 1, -1]] + [[-1, 0, 0], [0, -1, 0]]).double()
    rows[0] = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    edge_index = rows.nonzero().t()
    weight, nodes = rows[tuple(edge_index)], torch.tensor([0])
    _, index = topk_similarity(
        edge_index, 2, weight, (11, 3), loop=False, nodes=nodes, backend=backend
    )
    assert index.tolist() == [[9, 10]]


@pytest.mark.parametrize("flavor", FLAVORS)
def test_the_order_of_edges_does_not_matter(flavor: str, backend: str) -> None:
    graph = draw(flavor, 8)
    order = torch.randperm(len(graph.edges)).tolist()
    weights = graph.weights and tuple(graph.weights[e] for e in order)
    shuffled = Graph(graph.num_nodes, tuple(graph.edges[e] for e in order), weights)
    for a, b in zip(*(topk(g, 4, backend, p=2, lam=0.3) for g in (graph, shuffled))):
        assert torch.equal(a, b)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_a_tiny_memory_budget_changes_no_bit(p: int, backend: str) -> None:
    """Budgets allow one row at a time, a few rows, or all rows."""
    graph, _ = union(draw_all(0))
    whole = topk(graph, 5, backend, p=p, lam=0.3)
    for budget in (1, 96 * 1000, 96 * 10_000):
        # The budget is too small for the call, but sets the size of a block.
        blocks = topk(graph, 5, backend, p=p, lam=0.3, memory_budget=budget, force=True)
        assert torch.equal(whole[0], blocks[0])
        assert torch.equal(whole[1], blocks[1])


@pytest.mark.parametrize("lam", [0.0, 1.0])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_support_reaches_distance_2p_and_no_further(p: int, lam: float, backend: str) -> None:
    """On a path, p = 2 contradicts the paper's 'zero beyond distance two'."""
    n = 16
    pairs = [(i, i + 1) for i in range(n - 1)]
    graph = Graph(n, tuple(pairs + [(j, i) for i, j in pairs]))
    _, index = topk(graph, n, backend, p=p, lam=lam)
    reach = {abs(i - j) for i in range(n) for j in index[i].tolist() if j >= 0}
    # Without self-loops, only nodes at an even distance are similar.
    assert reach == set(range(0, 2 * p + 1, 1 if lam else 2))


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("p", [1, 2])
def test_a_node_has_similarity_one_with_its_copies(
    p: int, signed: bool, measure: str, backend: str
) -> None:
    """No root or quotient is rounded."""
    generator = torch.Generator().manual_seed(p)
    source, target = torch.randint(0, 30, (2, 90), generator=generator)
    weight = torch.rand(90, dtype=torch.float64, generator=generator) - 0.5 * signed
    copies = torch.stack([torch.cat([source, source + 30]), torch.cat([target, target + 30])])
    edge_index = torch.cat([copies, copies + 60], dim=1) // 2  # copies share their neighbors
    values, index = topk_similarity(
        edge_index, 60, weight.repeat(4), 60, p=p, measure=measure, backend=backend
    )
    own = index == torch.arange(60).unsqueeze(1)
    assert own[torch.unique(edge_index)].any(dim=1).all()
    assert (values[own] == 1).all()


@pytest.mark.parametrize("scales", [(1e-200, 1e-200), (1e200, 1e200), (1e30, 1e-30)])
@pytest.mark.parametrize("measure", MEASURES)
def test_scale_of_the_weights_does_not_matter(
    scales: tuple[float, float], measure: str, backend: str
) -> None:
    """Squares and powers must not overflow or underflow, also in components of distant scales."""
    graph = draw("directed", 2)
    n, options = graph.num_nodes, {"p": 3, "measure": measure, "backend": backend}
    assert torch.linalg.matrix_power(graph.adj(), 3).count_nonzero() > 5
    weight = torch.randint(1, 9, (len(graph.edges),)).double()
    values, index = topk_similarity(graph.edge_index, 4, weight, n, **options)  # type: ignore[arg-type]
    both = torch.cat([graph.edge_index, graph.edge_index + n], dim=1)
    scaled = torch.cat([weight * scale for scale in scales])
    result = topk_similarity(both, 4, scaled, 2 * n, **options)  # type: ignore[arg-type]
    for first in (0, n):
        torch.testing.assert_close(result[0][first : first + n], values, rtol=1e-13, atol=0)
        assert torch.equal(result[1][first : first + n], index + first * (index >= 0))


# ------------------------------------------------------------------ sizes, types, devices


def test_one_hundred_thousand_nodes_without_their_square(backend: str) -> None:
    n, k, budget = 100_000, 8, 4 * 2**20
    generator = torch.Generator().manual_seed(0)
    near = torch.arange(n - 1)
    pairs = torch.cat(
        [torch.stack([near, near + 1]), torch.randint(0, n, (2, n), generator=generator)], dim=1
    )
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    options = {"backend": backend, "memory_budget": budget, "force": True}
    with LargestTensor() as seen:
        values, _ = topk_similarity(edge_index, k, num_nodes=n, **options)  # type: ignore[arg-type]
    # Descriptions hold an entry for each edge, and a block of rows fits the budget.
    if backend != "triton":  # its interpreter copies arguments as bytes
        assert seen.numel <= max(2 * edge_index.size(1), n * k)
    assert (values[:, 0] == 1).all()


def test_types(backend: str) -> None:
    edge_index = torch.tensor([[0, 1, 2, 0], [1, 0, 0, 2]])
    for weight, expected in [
        (None, torch.float32),
        (torch.ones(4, dtype=torch.float64), torch.float64),
        (torch.ones(4, 1, dtype=torch.float16), torch.float16),
        (torch.ones(4, dtype=torch.long), torch.float32),
    ]:
        values, index = topk_similarity(edge_index.int(), 2, weight, backend=backend)
        assert values.dtype == expected
        assert index.dtype == torch.long
        assert index.tolist() == [[0, -1], [1, 2], [1, 2]]


def test_a_default_device_does_not_matter() -> None:
    edge_index = torch.tensor([[0, 1, 2, 0], [1, 0, 0, 2]])
    expected = topk_similarity(edge_index, 2)
    with torch.device("meta"):
        result = topk_similarity(edge_index, 2)
    assert torch.equal(result[1], expected[1])


# ------------------------------------------------------------------ gradients


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(
    ("flavor", "p", "lam"),
    [
        ("undirected", 1, 0.0),
        ("directed", 1, 0.3),
        ("directed", 2, 0.3),
        ("parallel", 2, 0.3),
        ("isolated", 1, 0.0),
    ],
)
def test_gradients_equal_those_of_the_dense_matrix(
    flavor: str, p: int, lam: float, measure: str, backend: str
) -> None:
    for seed in range(2):
        graph = draw(flavor, seed)
        n = graph.num_nodes
        weight = (torch.rand(len(graph.edges), dtype=torch.float64) + 0.5).requires_grad_()
        values, index = topk_similarity(
            graph.edge_index, 3, weight, n, p=p, lam=lam, measure=measure, backend=backend
        )
        adj = torch.zeros(n, n, dtype=torch.float64)
        adj = adj.index_put(tuple(graph.edge_index), weight, accumulate=True)
        dense = structural_similarity(adj, p=p, lam=lam, measure=measure)
        gathered = dense.gather(1, index.clamp(min=0)) * (index >= 0)
        upstream = torch.randn_like(values)
        (sparse_gradient,) = torch.autograd.grad((values * upstream).sum(), weight)
        (dense_gradient,) = torch.autograd.grad((gathered * upstream).sum(), weight)
        torch.testing.assert_close(sparse_gradient, dense_gradient)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_gradients_are_finite_and_change_no_value(flavor: str, backend: str) -> None:
    graph = draw(flavor, 1)
    weight = torch.ones(len(graph.edges)) if graph.weights is None else graph.edge_weight()
    assert weight is not None
    for p, lam in ((1, 0.0), (2, 0.5)):
        options = {"p": p, "lam": lam, "backend": backend}
        leaf = weight.clone().requires_grad_()
        values, index = topk_similarity(graph.edge_index, 4, leaf, graph.num_nodes, **options)  # type: ignore[arg-type]
        plain = topk_similarity(graph.edge_index, 4, weight, graph.num_nodes, **options)  # type: ignore[arg-type]
        assert torch.equal(values.detach(), plain[0])
        assert torch.equal(index, plain[1])
        (gradient,) = torch.autograd.grad(values.sum(), leaf)
        assert torch.isfinite(gradient).all()


def test_a_sum_that_cancels_takes_no_place_and_has_a_gradient_of_zero(backend: str) -> None:
    """In some orders, rounding leaves 1e-16 of -1.7 * -2 + 2 * -1 + -1.7 * 2 + -2 * -1."""
    edge_index = torch.tensor([[0, 1, 0, 1, 0], [1, 0, 0, 1, 0]])
    weight = torch.tensor([2, -2, -2, -1, 0.3], dtype=torch.float64, requires_grad=True)
    values, index = topk_similarity(edge_index, 2, weight, 2, backend=backend)
    assert values.tolist() == [[1, 0], [1, 0]]
    assert index.tolist() == [[0, -1], [1, -1]]
    (gradient,) = torch.autograd.grad(values.sum(), weight)
    assert gradient.tolist() == pytest.approx([0] * 5, abs=1e-15)


def test_transforms_of_torch_func_are_refused(backend: str) -> None:
    edge_index, weight = torch.tensor([[0, 0, 1], [1, 2, 0]]), torch.ones(3)

    def total(weight: Tensor) -> Tensor:
        return topk_similarity(edge_index, 2, weight, backend=backend)[0].sum()

    graph = partial(similarity_graph, edge_index, 2, backend=backend)
    pairs = partial(similarity_of_pairs, edge_index, torch.tensor([[0], [1]]))
    index = partial(SimilarityIndex, edge_index)
    for function in (total, graph, pairs, index):
        with pytest.raises(NotImplementedError, match=r"`edge_weight` .*torch\.func"):
            torch.func.grad(function)(weight)
    with (
        forward_ad.dual_level(),
        pytest.raises(NotImplementedError, match=r"`edge_weight` .*dual tensor"),
    ):
        total(forward_ad.make_dual(weight, weight))
    # An ensemble of networks calls the top k many times with the same graph.
    many = torch.func.vmap(lambda factor: factor * total(weight))(torch.arange(3.0))
    torch.testing.assert_close(many, torch.arange(3.0) * total(weight))
