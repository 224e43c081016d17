"""The sparse top k against the oracle, the dense formula, and itself in other clothes."""

import functools
from random import Random

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from helpers import oracle
from helpers.backends import BACKENDS
from helpers.gpu import needs_gpu
from helpers.graphs import FLAVORS, Graph, draw, draw_all, union
from helpers.largest import LargestTensor
from helpers.top_rows import assert_is_nearly_top, assert_is_top
from torch_geometric_simpool import structural_similarity, topk_similarity


@pytest.fixture(params=BACKENDS, autouse=True)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test of this module runs in all backends; the edges are on the CPU."""
    in_backend = functools.partial(topk_similarity, backend=request.param)
    monkeypatch.setitem(globals(), "topk_similarity", in_backend)
    return request.param


DYADIC_LAM = (0.0, 0.5, 1.0)
REAL_LAM = (0.1, 0.3)


def topk(graph: Graph, k: int, **settings: object) -> tuple[Tensor, Tensor]:
    return topk_similarity(
        graph.edge_index,
        k,
        graph.edge_weight(),
        graph.num_nodes,
        **settings,  # type: ignore
    )


@functools.cache
def expected(
    graph: Graph, p: int, lam: float, measure: str = "cosine", loop: bool = True
) -> list[list[oracle.Candidate]]:
    return oracle.candidates(graph.exact_adj, p, lam, measure, loop)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("flavor", FLAVORS)
def test_equals_the_oracle(flavor: str, seed: int, p: int) -> None:
    graph = draw(flavor, seed)
    for lam in DYADIC_LAM:
        rows = expected(graph, p, lam)
        exact = oracle.float64_is_exact(graph.exact_adj, p, lam)
        for k in (1, 3, graph.num_nodes + 2):
            result = topk(graph, k, p=p, lam=lam)
            if exact:
                assert_is_top(result, rows, k)
            else:
                assert_is_nearly_top(result, rows, k, p)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_the_oracle_is_exact_for_every_flavour(flavor: str) -> None:
    """Else the test above would not see the order of ties."""
    assert all(oracle.float64_is_exact(draw(flavor, s).exact_adj, 1, 0.5) for s in range(3))


# The oracle does not know which sums of both signs cancel up to rounding.
@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize(
    "flavor", [f for f in FLAVORS if f not in ("signed", "signed_directed", "parallel_weighted")]
)
def test_equals_the_oracle_where_sums_round(flavor: str, p: int) -> None:
    for seed in range(2):
        graph = draw(flavor, seed)
        for lam in REAL_LAM:
            for k in (2, graph.num_nodes + 1):
                result = topk(graph, k, p=p, lam=lam)
                assert_is_nearly_top(result, expected(graph, p, lam), k, p)


@pytest.mark.parametrize("loop", [True, False])
@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_measure_and_loop_equal_the_oracle(flavor: str, measure: str, loop: bool) -> None:
    for seed in (3, 4):
        graph = draw(flavor, seed)
        for p, lam in ((1, 0.0), (2, 1.0)):
            rows = expected(graph, p, lam, measure, loop)
            for k in (2, graph.num_nodes + 1):
                result = topk(graph, k, p=p, lam=lam, measure=measure, loop=loop)
                if oracle.float64_is_exact(graph.exact_adj, p, lam):
                    assert_is_top(result, rows, k)
                else:
                    assert_is_nearly_top(result, rows, k, p)


# Whether a feature is shared at all is a matter of edges, so sums must not cancel.
POSITIVE = [f for f in FLAVORS if f not in ("signed", "signed_directed", "parallel_weighted")]


@pytest.mark.parametrize("max_degree", [0, 1, 2, 4])
@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
@pytest.mark.parametrize("flavor", POSITIVE)
def test_max_degree_leaves_features_out_of_dot_products_alone(
    flavor: str, measure: str, max_degree: int
) -> None:
    for seed in (5, 6):
        graph = draw(flavor, seed)
        for p, lam, loop in ((1, 0.0, True), (1, 1.0, False), (2, 0.5, True), (1, 0.3, True)):
            rows = oracle.candidates(graph.exact_adj, p, lam, measure, loop, max_degree)
            for k in (2, graph.num_nodes + 1):
                result = topk(
                    graph, k, p=p, lam=lam, measure=measure, loop=loop, max_degree=max_degree
                )
                if oracle.float64_is_exact(graph.exact_adj, p, lam):
                    assert_is_top(result, rows, k)
                else:
                    assert_is_nearly_top(result, rows, k, p)


# Similarities that floating point holds exactly: what is equal to the bound stays.
@pytest.mark.parametrize("min_similarity", [-1, -0.5, 0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_min_similarity_cuts_a_row_short(flavor: str, measure: str, min_similarity: float) -> None:
    for seed in range(2):
        graph = draw(flavor, seed)
        for p, lam in ((1, 0.0), (1, 1.0)):
            rows = [
                [c for c in row if c.value >= min_similarity]
                for row in expected(graph, p, lam, measure)
            ]
            for k in (1, 3, graph.num_nodes + 1):
                result = topk(
                    graph, k, p=p, lam=lam, measure=measure, min_similarity=min_similarity
                )
                assert_is_top(result, rows, k)


def test_min_similarity_is_reached_by_equality() -> None:
    """Else the test above would not tell `>=` from `>`."""
    values = [
        c.value
        for measure in ("cosine", "jaccard")
        for flavor in FLAVORS
        for lam in (0.0, 1.0)
        for row in expected(draw(flavor, 0), 1, lam, measure)
        for c in row
    ]
    assert {0.25, 0.5, 1.0} <= set(values)


@pytest.mark.parametrize("weights", [(439, 449), (40_001, 39_998), (1_000_003, 2)])
def test_ties_of_large_integers_are_ties(weights: tuple[int, int]) -> None:
    """Descriptions 1, 3, 5, ... times one another; the squares of dot products are rounded."""
    factors = [1, 3, 5, 7, 9, 11, 13]
    edges = tuple((2 + j, m) for j in range(len(factors)) for m in range(2))
    graph = Graph(9, edges, tuple(float(f * w) for f in factors for w in weights))
    values, index = topk(graph, 7)
    assert index[2:].tolist() == [[2, 3, 4, 5, 6, 7, 8]] * 7
    assert (values[2:] == 1).all()


@pytest.mark.parametrize("seed", range(5))
def test_ties_of_integers_beyond_a_double_are_ties(seed: int) -> None:
    """The same products in another order: their sums round, but all in the same way."""
    rng = Random(seed)
    size, others = 8, 6
    weights = [float(rng.randrange(2**40, 2**50)) for _ in range(size)]
    edges, drawn = [(others, m + others + 1) for m in range(size)], [1.0] * size
    for j in range(others):
        rng.shuffle(weights)
        edges += [(j, m + others + 1) for m in range(size)]
        drawn += weights
    graph = Graph(others + 1 + size, tuple(edges), tuple(drawn))
    values, index = topk(graph, others + 1)
    assert index[others].tolist() == [others, *range(others)]
    assert values[others, 1:].unique().numel() == 1
    assert_is_nearly_top((values, index), expected(graph, 1, 0.0), others + 1, p=1)


@pytest.mark.parametrize("lam", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_a_hundred_equal_leaves_come_in_order(p: int, lam: float) -> None:
    """However their sums round: the hub has the highest number, the edges are shuffled."""
    n = 120
    pairs = torch.stack([torch.randperm(n), torch.full((n,), n)])
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)[:, torch.randperm(2 * n)]
    values, index = topk_similarity(edge_index, 5, p=p, lam=lam)
    leaves = torch.arange(5).repeat(n, 1)
    if lam > 0:
        # A leaf's own loop makes it most like itself, and the hub comes in somewhere.
        assert torch.equal(index[:n, 0], torch.arange(n))
        for i in range(n):
            others = [j for j in index[i, 1:].tolist() if j != n]
            assert others == [j for j in range(6) if j != i][: len(others)]
            assert len(others) >= 3
    else:
        assert torch.equal(index[:n], leaves)
        assert (values[:n] == 1).all()


def test_leaves_of_two_stars_come_in_order() -> None:
    """A graph whose every order is known by heart, its edges given backwards."""
    edges = [(0, leaf) for leaf in (9, 7, 5, 3, 1)] + [(2, leaf) for leaf in (8, 6, 4)]
    graph = Graph(10, tuple(edges + [(j, i) for i, j in edges]))
    values, index = topk(graph, 4)
    assert index[1].tolist() == [1, 3, 5, 7]
    assert index[9].tolist() == [1, 3, 5, 7]
    assert index[4].tolist() == [4, 6, 8, -1]
    assert index[0].tolist() == [0, -1, -1, -1]
    assert values[4].tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_is_the_dense_matrix_gathered(flavor: str, measure: str) -> None:
    for seed in (5, 6):
        graph = draw(flavor, seed)
        for p, lam in ((1, 0.3), (2, 0.0), (3, 0.5)):
            values, index = topk(graph, 4, p=p, lam=lam, measure=measure)
            dense = structural_similarity(graph.adj(), p=p, lam=lam, measure=measure)
            gathered = dense.gather(1, index.clamp(min=0)) * (index >= 0)
            torch.testing.assert_close(
                values.double(), gathered, rtol=0, atol=1e-6 if graph.weights is None else 1e-9
            )
            # And it is the top: sorted, it is what a sorted row begins with.
            rated = dense.masked_fill(dense.abs() < 1e-9, -2)
            best = rated.sort(dim=1, descending=True).values[:, :4]
            best = torch.nn.functional.pad(best, (0, 4 - best.size(1)), value=-2)
            best = best.masked_fill(best == -2, 0)
            torch.testing.assert_close(values.double(), best, rtol=0, atol=1e-6)


@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_values_never_increase_along_a_row(flavor: str, measure: str) -> None:
    for seed in range(3):
        values, index = topk(draw(flavor, seed), 12, p=2, lam=0.3, measure=measure)
        ahead, behind = values[:, :-1], values[:, 1:]
        assert ((ahead >= behind) | (index[:, 1:] < 0)).all()


@pytest.mark.parametrize("p", [1, 2, 3])
def test_a_tiny_memory_budget_changes_no_bit(p: int) -> None:
    """One row at a time, a few rows, all at once."""
    for seed in range(3):
        graph, _ = union(draw_all(seed))
        for lam in (0.0, 0.3):
            whole = topk(graph, 5, p=p, lam=lam)
            for budget in (1, 96 * 40, 96 * 1000):
                # It is too small, but tells the size of a block all the same.
                blocks = topk(graph, 5, p=p, lam=lam, memory_budget=budget, force=True)
                assert torch.equal(whole[0], blocks[0])
                assert torch.equal(whole[1], blocks[1])


@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
@pytest.mark.parametrize("lam", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_a_batch_is_each_graph_alone_to_the_last_bit(p: int, lam: float, measure: str) -> None:
    """Weighted and unweighted, directed and undirected graphs side by side."""
    graphs = draw_all(7)
    joined, _ = union(graphs)
    values, index = topk(joined, 6, p=p, lam=lam, measure=measure)
    first = 0
    for graph in graphs:
        alone, alone_index = topk_similarity(
            graph.edge_index,
            6,
            torch.ones(len(graph.edges), dtype=torch.float64)
            if graph.weights is None
            else graph.edge_weight(),
            graph.num_nodes,
            p=p,
            lam=lam,
            measure=measure,
        )
        rows = slice(first, first + graph.num_nodes)
        assert torch.equal(values[rows], alone)
        assert torch.equal(index[rows], alone_index + first * (alone_index >= 0))
        first += graph.num_nodes


@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
@pytest.mark.parametrize("heavy", [0.1, 1e9, 1e-9, 2.0**40])
def test_a_graph_of_another_scale_beside_it_changes_no_bit(heavy: float, measure: str) -> None:
    """Whether sums are exact is found out for the whole batch."""
    plain, beside = draw("integer", 3), draw("directed", 3)
    other = Graph(beside.num_nodes, beside.edges, tuple(heavy for _ in beside.edges))
    for p in (1, 2, 3):
        joined, _ = union([other, plain])
        values, index = topk(joined, 5, p=p, measure=measure)
        alone, alone_index = topk(plain, 5, p=p, measure=measure)
        first = other.num_nodes
        assert torch.equal(values[first:], alone)
        assert torch.equal(index[first:], alone_index + first * (alone_index >= 0))


@pytest.mark.parametrize("weights", [(439, 449), (40_001, 39_998)])
@pytest.mark.parametrize("beside", [0.1, 3.0])
def test_large_integers_tie_beside_a_graph_of_reals_as_well(
    beside: float, weights: tuple[int, int]
) -> None:
    """In a batch the same order as alone."""
    factors = [1, 3, 5, 7, 9, 11, 13]
    edges = tuple((2 + j, m) for j in range(len(factors)) for m in range(2))
    large = Graph(9, edges, tuple(float(f * w) for f in factors for w in weights))
    joined, _ = union([large, Graph(2, ((0, 1), (1, 0)), (beside, beside))])
    alone = topk(large, 7)
    values, index = topk(joined, 7)
    assert torch.equal(index[:9], alone[1])
    assert torch.equal(values[:9], alone[0])


@pytest.mark.parametrize("flavor", FLAVORS)
def test_the_order_of_edges_does_not_matter(flavor: str) -> None:
    graph = draw(flavor, 8)
    order = torch.randperm(len(graph.edges))
    weight = graph.edge_weight()
    values, index = topk_similarity(
        graph.edge_index[:, order],
        4,
        None if weight is None else weight[order],
        graph.num_nodes,
        p=2,
        lam=0.3,
    )
    straight = topk(graph, 4, p=2, lam=0.3)
    assert torch.equal(values, straight[0])
    assert torch.equal(index, straight[1])


@pytest.mark.parametrize("lam", [0.0, 1.0])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_support_reaches_distance_2p_and_no_further(p: int, lam: float) -> None:
    """On a path the paper's 'zero beyond distance two' would show at p = 2."""
    n = 16
    pairs = [(i, i + 1) for i in range(n - 1)]
    graph = Graph(n, tuple(pairs + [(j, i) for i, j in pairs]))
    _, index = topk(graph, n, p=p, lam=lam)
    reach = {abs(i - j) for i in range(n) for j in index[i].tolist() if j >= 0}
    # Without self loops both ends of a walk are an even number of steps apart.
    assert reach == set(range(0, 2 * p + 1, 1 if lam else 2))


def test_one_hundred_thousand_nodes_without_their_square(backend: str) -> None:
    n, k, budget = 100_000, 8, 4 * 2**20
    generator = torch.Generator().manual_seed(0)
    near = torch.arange(n - 1)
    pairs = torch.cat(
        [torch.stack([near, near + 1]), torch.randint(0, n, (2, n), generator=generator)], dim=1
    )
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    with LargestTensor() as seen:
        values, index = topk_similarity(
            edge_index, k, num_nodes=n, memory_budget=budget, force=True
        )
    # The descriptions hold an entry per edge; a block of rows, what the budget allows.
    if backend != "triton":  # its interpreter copies arguments as bytes
        assert seen.numel <= max(2 * edge_index.size(1), n * k)

    # Some rows, worked out from what two nodes can share.
    neighbors: dict[int, dict[int, int]] = {i: {} for i in range(n)}
    for i, j in edge_index.t().tolist():
        neighbors[i][j] = neighbors[i].get(j, 0) + 1
    for i in (0, 1, 777, 50_000, n - 1):
        common: dict[int, int] = {}
        for m, weight in neighbors[i].items():
            for j, other in neighbors[m].items():
                common[j] = common.get(j, 0) + weight * other
        norm2 = {j: sum(w * w for w in neighbors[j].values()) for j in common}
        order = sorted(common, key=lambda j: (-oracle.Fraction(common[j] ** 2, norm2[j]), j))[:k]
        assert index[i].tolist() == order + [-1] * (k - len(order))
        cosine = [
            common[j] / (norm2[j] * sum(w * w for w in neighbors[i].values())) ** 0.5 for j in order
        ]
        assert values[i, : len(order)].tolist() == pytest.approx(cosine, abs=1e-6)


@pytest.mark.parametrize(
    ("flavor", "p", "lam"),
    [
        ("undirected", 1, 0.0),
        ("undirected", 2, 0.3),
        ("directed", 1, 0.3),
        ("directed", 2, 0.3),
        ("parallel", 1, 0.0),
        ("parallel", 2, 0.3),
        ("isolated", 1, 0.0),
        ("star", 3, 0.3),
    ],
)
@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
def test_gradient_of_the_chosen_entries(flavor: str, p: int, lam: float, measure: str) -> None:
    graph = draw(flavor, 1)
    # Real weights without ties, so that the choice does not jump under a finite difference.
    weight = torch.rand(len(graph.edges), dtype=torch.float64) + 0.5
    weight.requires_grad_()

    def values(weight: Tensor) -> Tensor:
        return topk_similarity(
            graph.edge_index, 4, weight, graph.num_nodes, p=p, lam=lam, measure=measure
        )[0]

    assert torch.autograd.gradcheck(values, (weight,), fast_mode=True)


@pytest.mark.parametrize("p", [1, 2])
def test_gradient_equals_that_of_the_dense_matrix(p: int) -> None:
    for seed in range(4):
        graph = draw("directed", seed)
        weight = torch.rand(len(graph.edges), dtype=torch.float64).requires_grad_()
        values, index = topk_similarity(graph.edge_index, 3, weight, graph.num_nodes, p=p, lam=0.3)
        adj = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
        adj = adj.index_put(tuple(graph.edge_index), weight, accumulate=True)
        dense = structural_similarity(adj, p=p, lam=0.3)
        gathered = dense.gather(1, index.clamp(min=0)) * (index >= 0)
        upstream = torch.randn_like(values)
        (of_sparse,) = torch.autograd.grad((values * upstream).sum(), weight)
        (of_dense,) = torch.autograd.grad((gathered * upstream).sum(), weight)
        torch.testing.assert_close(of_sparse, of_dense)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_gradients_are_finite_and_change_no_value(flavor: str) -> None:
    for seed in range(2):
        graph = draw(flavor, seed)
        weight = torch.ones(len(graph.edges)) if graph.weights is None else graph.edge_weight()
        assert weight is not None
        for p, lam in ((1, 0.0), (2, 0.5)):
            needs = weight.clone().requires_grad_()
            values, index = topk_similarity(
                graph.edge_index, 4, needs, graph.num_nodes, p=p, lam=lam
            )
            plain, plain_index = topk_similarity(
                graph.edge_index, 4, weight, graph.num_nodes, p=p, lam=lam
            )
            assert torch.equal(values.detach(), plain)
            assert torch.equal(index, plain_index)
            (gradient,) = torch.autograd.grad(values.sum(), needs)
            assert torch.isfinite(gradient).all()


def test_what_cancels_takes_no_place_and_has_finite_gradients(backend: str) -> None:
    """-1.7 * -2 + 2 * -1 + -1.7 * 2 + -2 * -1: in some orders, rounding leaves 1e-16."""
    edge_index = torch.tensor([[0, 1, 0, 1, 0], [1, 0, 0, 1, 0]])
    weight = torch.tensor([2, -2, -2, -1, 0.3], dtype=torch.float64, requires_grad=True)
    values, index = topk_similarity(edge_index, 2, weight, 2)
    assert values.tolist() == [[1, 0], [1, 0]]
    assert index.tolist() == [[0, -1], [1, -1]]
    values.sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [0] * 5


@pytest.mark.parametrize("residue", [0.0, 2.0**-53, 2.0**-51, 2.0**-49, 1e-9])
@pytest.mark.parametrize("p", [1, 2])
def test_sums_cancel_up_to_rounding(residue: float, p: int, backend: str) -> None:
    """Nodes 0 and 1 have products 1 and `residue - 1`, at nodes 2 and 3, `p` steps away."""
    ends, ones = [[0, 2], [0, 3], [1, 2], [1, 3]], [1.0] * 3
    if p == 2:
        ends, ones = [[0, 4], [1, 5], [4, 2], [4, 3], [5, 2], [5, 3]], [1.0] * 5
    weight = torch.tensor([*ones, residue - 1.0], dtype=torch.float64)
    values, index = topk_similarity(torch.tensor(ends).t(), 2, weight, 6, p=p)
    if residue <= 2.0**-51:
        assert index[:2].tolist() == [[0, -1], [1, -1]]
    else:
        assert index[:2].tolist() == [[0, 1], [1, 0]]
        assert values[:2, 1].tolist() == pytest.approx([residue / 2] * 2, rel=1e-5)


def test_integers_cancel_where_they_are_zero(backend: str) -> None:
    edge_index = torch.tensor([[0, 0, 1, 1], [2, 3, 2, 3]])
    weight = torch.tensor([2**25 + 1.0, 2.0**25, 2**25 - 1.0, -(2.0**25)], dtype=torch.float64)
    values, index = topk_similarity(edge_index, 2, weight, 4)
    assert index[:2].tolist() == [[0, 1], [1, 0]]
    assert values[:2, 1].tolist() == pytest.approx([-(2.0**-51)] * 2)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_a_node_has_similarity_one_with_itself(p: int, signed: bool, backend: str) -> None:
    """And with its copies: no root or quotient is rounded."""
    generator = torch.Generator().manual_seed(p)
    source, target = torch.randint(0, 30, (2, 90), generator=generator)
    weight = torch.rand(90, dtype=torch.float64, generator=generator) - 0.5 * signed
    copies = torch.stack([torch.cat([source, source + 30]), torch.cat([target, target + 30])])
    edge_index = torch.cat([copies, copies + 60], dim=1) // 2  # copies share their neighbors
    weight = weight.repeat(4)
    for measure in ("cosine", "jaccard"):
        values, index = topk_similarity(
            edge_index, 4, weight, 60, p=p, measure=measure, min_similarity=1.0
        )
        described = torch.unique(edge_index)
        found = (index[described] == described[:, None]).any(dim=1)
        assert found.all()
        assert (values[index >= 0] == 1).all()


@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
def test_components_of_distant_scales_are_each_alone(measure: str, backend: str) -> None:
    graph = draw("signed_directed", 3)
    weight = torch.rand(len(graph.edges), dtype=torch.float64) + 0.1
    alone = topk_similarity(graph.edge_index, 5, weight, graph.num_nodes, p=3, measure=measure)
    edge_index = torch.cat([graph.edge_index, graph.edge_index + graph.num_nodes], dim=1)
    both = torch.cat([weight * 1e30, weight * 1e-30])
    values, index = topk_similarity(edge_index, 5, both, 2 * graph.num_nodes, p=3, measure=measure)
    for start in (0, graph.num_nodes):
        rows = slice(start, start + graph.num_nodes)
        assert torch.equal(torch.where(index[rows] < 0, -1, index[rows] - start), alone[1])
        torch.testing.assert_close(values[rows], alone[0], rtol=1e-13, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_similarity_that_rounds_to_zero_takes_no_place(dtype: torch.dtype, backend: str) -> None:
    """Nodes 0 and 1 share node 2, whose weight is too small; -1 of node 3 comes after it."""
    edge_index = torch.tensor([[0, 0, 1, 1, 4, 4], [2, 3, 2, 5, 3, 2]])
    info = torch.finfo(dtype)
    tiny = min((info.tiny * info.eps) ** 0.5 / 16 or 1e-162, 1.0)
    weight = torch.tensor([tiny, 1, tiny, 1, -1, tiny], dtype=torch.float64)
    values, index = topk_similarity(edge_index, 3, weight.to(dtype), 6)
    assert index[0].tolist() == [0, 4, -1]
    assert values[0].tolist() == [1, -1, 0]
    assert index[1].tolist() == [1, -1, -1]


def test_types() -> None:
    edge_index = torch.tensor([[0, 1, 2, 0], [1, 0, 0, 2]])
    assert topk_similarity(edge_index, 2)[0].dtype == torch.float32
    for weight_type, expected_type in [
        (torch.float64, torch.float64),
        (torch.float16, torch.float16),
        (torch.long, torch.float32),
    ]:
        values, index = topk_similarity(edge_index, 2, torch.ones(4).to(weight_type))
        assert values.dtype == expected_type
        assert index.tolist() == [[0, -1], [1, 2], [1, 2]]
    assert topk_similarity(edge_index.int(), 2)[1].dtype == torch.long


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e200])
def test_scale_of_the_weights_does_not_matter(scale: float) -> None:
    """No square and no power may over- or underflow."""
    graph = draw("directed", 2)
    assert torch.linalg.matrix_power(graph.adj(), 3).count_nonzero() > 5
    weight = torch.randint(1, 9, (len(graph.edges),)).double()
    _, index = topk_similarity(graph.edge_index, 4, weight, graph.num_nodes, p=3)
    values, scaled = topk_similarity(graph.edge_index, 4, weight * scale, graph.num_nodes, p=3)
    torch.testing.assert_close(
        values, topk_similarity(graph.edge_index, 4, weight, graph.num_nodes, p=3)[0]
    )
    assert torch.equal(index, scaled)


@needs_gpu
@pytest.mark.parametrize("p", [1, 2])
def test_the_same_bits_on_a_gpu(p: int) -> None:
    """As in either backend on the CPU."""
    for seed in range(3):
        graph, _ = union(draw_all(seed))
        weight = graph.edge_weight()
        values, index = topk(graph, 6, p=p, lam=0.3)
        there = topk_similarity(
            graph.edge_index.cuda(),
            6,
            None if weight is None else weight.cuda(),
            graph.num_nodes,
            p=p,
            lam=0.3,
            backend="torch",
        )
        assert torch.equal(index, there[1].cpu())
        torch.testing.assert_close(values, there[0].cpu(), rtol=0, atol=1e-12)


def test_transforms_of_torch_func_are_refused() -> None:
    edge_index, weight = torch.tensor([[0, 0, 1], [1, 2, 0]]), torch.ones(3)

    for backend in ("numba", "torch"):
        total = functools.partial(_sum_of_topk, edge_index, backend)
        with pytest.raises(NotImplementedError, match=r"outside of this transform of torch\.func"):
            torch.func.grad(total)(weight)
        # With the graph as it is in each of many calls, as of an ensemble of networks.
        many = torch.func.vmap(lambda factor, total=total: factor * total(weight))
        torch.testing.assert_close(many(torch.arange(3.0)), torch.arange(3.0) * total(weight))
        with (
            forward_ad.dual_level(),
            pytest.raises(NotImplementedError, match="`edge_weight` must not be a dual tensor"),
        ):
            total(forward_ad.make_dual(weight, weight))


def _sum_of_topk(edge_index: Tensor, backend: str, weight: Tensor) -> Tensor:
    return topk_similarity(edge_index, 2, weight, backend=backend)[0].sum()


def test_values_that_are_of_no_type() -> None:
    edge_index = torch.tensor([[0, 0, 1], [1, 2, 0]])
    with pytest.raises(ValueError, match=r"`measure` must be one of .*got \['cosine'\]"):
        topk_similarity(edge_index, 2, measure=["cosine"])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"`lam` must be .*got an integer beyond all floats"):
        topk_similarity(edge_index, 2, lam=10**5000)
