"""The arguments `nodes`, `candidates`, `num_nodes` of bipartite graphs and `exclude_neighbors`."""

from fractions import Fraction
from random import Random

import pytest
import torch
from torch import Tensor

from helpers import oracle
from helpers.graphs import FLAVORS, Graph, draw, draw_all, union
from helpers.top_rows import assert_is_top
from torch_geometric_simpool import structural_similarity, topk_similarity

OPTIONS = [
    {},
    {"p": 2, "lam": 0.3},
    {"lam": 1.0, "loop": False, "measure": "jaccard"},
    {"max_degree": 3, "measure": "dice", "min_similarity": 0.3},
    {"exclude_neighbors": True, "measure": "overlap"},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_some_nodes_have_the_bits_of_all(
    options: dict[str, object], weighted: bool, backend: str
) -> None:
    for seed in range(2):
        graph, _ = union(draw_all(seed))
        edge_index, weight = graph.edge_index, graph.edge_weight() if weighted else None
        for edges in (edge_index, edge_index.unique(dim=1))[: 1 if weighted else 2]:
            values, index = topk_similarity(
                edges, 4, weight, graph.num_nodes, backend=backend, **options
            )  # type: ignore[arg-type]
            for size in (1, 7, 3 * graph.num_nodes):
                nodes = torch.randint(0, graph.num_nodes, (size,))
                for some in (nodes, nodes.int(), nodes.tolist()):
                    rows = topk_similarity(
                        edges,
                        4,
                        weight,
                        graph.num_nodes,
                        nodes=some,
                        backend=backend,
                        **options,  # type: ignore[arg-type]
                    )
                    assert torch.equal(rows[0], values[nodes])
                    assert torch.equal(rows[1], index[nodes])


@pytest.mark.parametrize("nodes", [[], torch.tensor([], dtype=torch.long), torch.tensor([])])
def test_no_nodes_give_no_rows(nodes: object, backend: str) -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    values, index = topk_similarity(edge_index, 3, nodes=nodes, backend=backend)  # type: ignore[arg-type]
    assert values.shape == index.shape == (0, 3)
    values, index = topk_similarity(edge_index, 3, candidates=[], backend=backend)
    assert values.tolist() == [[0, 0, 0]] * 2
    assert index.tolist() == [[-1, -1, -1]] * 2


def test_one_node() -> None:
    edge_index = torch.tensor([[0, 1, 2, 0], [1, 0, 0, 2]])
    assert topk_similarity(edge_index, 2, nodes=1)[1].tolist() == [[1, 2]]


def test_gradients_of_some_rows(backend: str) -> None:
    graph = draw("directed", 2)
    weight = torch.rand(len(graph.edges), dtype=torch.float64).requires_grad_()
    nodes = torch.tensor([3, 0, 3])
    gradients = []
    for some in (None, nodes):
        values, _ = topk_similarity(
            graph.edge_index, 3, weight, graph.num_nodes, p=2, nodes=some, backend=backend
        )
        values = values[nodes] if some is None else values
        upstream = torch.arange(9.0, dtype=torch.float64).view(3, 3)
        gradients.append(torch.autograd.grad((values * upstream).sum(), weight)[0])
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("flavor", FLAVORS)
def test_candidates_equal_the_oracle(flavor: str, backend: str) -> None:
    for seed in range(3):
        graph, rng = draw(flavor, seed), Random(f"{flavor} {seed}")
        n, lam = graph.num_nodes, rng.choice([0.0, 1.0])
        if n == 0:
            continue
        ids = [rng.randrange(n) for _ in range(rng.randint(1, n + 1))]  # with repeats
        rows = oracle.candidates(graph.exact_adj, 1, lam)
        rows = [[c for c in row if c.node in ids] for row in rows]
        result = topk_similarity(
            graph.edge_index, 3, graph.edge_weight(), n, lam=lam, candidates=ids, backend=backend
        )
        assert_is_top(result, rows, 3)


# ------------------------------------------------------------------ bipartite graphs


def bipartite_oracle(
    edges: list[tuple[int, int]], weights: list[float], num_src: int, num_dst: int, loop: bool
) -> list[list[oracle.Candidate]]:
    """Compares rows of the `[num_src, num_dst]` matrix with exact fractions."""
    rows = [[Fraction(0)] * num_dst for _ in range(num_src)]
    for (i, j), weight in zip(edges, weights):
        rows[i][j] += Fraction(weight)
    dot = [[sum(a * b for a, b in zip(d_i, d_j)) for d_j in rows] for d_i in rows]
    expected = []
    for i in range(num_src):
        candidates = [
            oracle.Candidate(
                Fraction(abs(dot[i][j]) * dot[i][j], dot[j][j]),
                j,
                float(dot[i][j]) / float(dot[i][i] * dot[j][j]) ** 0.5,
                ((), ()),
            )
            for j in range(num_src)
            if dot[i][j] != 0 and (loop or i != j)
        ]
        expected.append(sorted(candidates, key=lambda c: (-c.key, c.node)))
    return expected


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sizes", [(5, 3), (3, 7), (6, 6), (1, 4), (4, 0)])
def test_bipartite_graphs_equal_the_oracle(
    sizes: tuple[int, int], weighted: bool, backend: str
) -> None:
    num_src, num_dst = sizes
    for seed in range(6):
        rng = Random(f"{sizes} {seed}")
        edges = [
            (rng.randrange(num_src), rng.randrange(num_dst))
            for _ in range(rng.randint(0, 2 * num_src * num_dst))
        ]
        weights = [float(rng.choice([1, 2, 5, -1])) if weighted else 1.0 for _ in edges]
        loop = rng.random() < 0.5
        edge_index = torch.tensor(edges, dtype=torch.long).view(-1, 2).t()
        result = topk_similarity(
            edge_index,
            3,
            torch.tensor(weights) if weighted else None,
            sizes,
            loop=loop,
            backend=backend,
        )
        assert_is_top(result, bipartite_oracle(edges, weights, *sizes, loop), 3)


def test_out_neighbors_and_in_neighbors_alone(backend: str) -> None:
    """With `num_nodes=(N, N)`, one direction of its edges describes a node."""
    graph = draw("directed", 5)
    n = graph.num_nodes
    unit = torch.nn.functional.normalize
    for edge_index, adj in (
        (graph.edge_index, graph.adj()),
        (graph.edge_index.flip(0), graph.adj().T),
    ):
        values, index = topk_similarity(edge_index, n, num_nodes=(n, n), backend=backend)
        expected = unit(adj, dim=1) @ unit(adj, dim=1).T
        dense = torch.zeros(n, n + 1, dtype=torch.float64)
        dense.scatter_(1, torch.where(index < 0, n, index), values.double())
        torch.testing.assert_close(dense[:, :n], expected, rtol=0, atol=1e-6)


def test_max_degree_and_gradients_of_a_bipartite_graph(backend: str) -> None:
    edge_index = torch.tensor([[0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 2]])
    _, index = topk_similarity(edge_index, 3, num_nodes=(3, 3), max_degree=2, backend=backend)
    assert index.tolist() == [[0, 1, -1], [0, 1, -1], [2, -1, -1]]
    weight = torch.rand(6, dtype=torch.float64).requires_grad_()

    def values(weight: Tensor) -> Tensor:
        return topk_similarity(edge_index, 3, weight, (3, 3), backend=backend)[0]

    assert torch.autograd.gradcheck(values, (weight,), fast_mode=True)


# ------------------------------------------------------------------ neighbors


def test_neighbors_are_left_out(backend: str) -> None:
    """Neighbors in both directions are left out, with weight 0 and by a self-loop too."""
    edge_index = torch.tensor([[0, 0, 1, 1, 2, 2, 3], [4, 5, 4, 5, 4, 5, 3]])
    extra = torch.tensor([[1], [0]])
    edges = torch.cat([edge_index, extra], dim=1)
    weight = torch.tensor([1.0] * 7 + [0.0])
    _, index = topk_similarity(edges, 4, weight, exclude_neighbors=True, backend=backend)
    assert index[0].tolist() == [0, 2, -1, -1]
    assert index[1].tolist() == [1, 2, -1, -1]
    assert index[2].tolist() == [0, 1, 2, -1]
    assert index[3].tolist() == [-1] * 4
    some = topk_similarity(edges, 4, weight, exclude_neighbors=True, nodes=[2, 0], backend=backend)
    assert torch.equal(some[1], index[[2, 0]])


def test_neighbors_are_left_out_of_a_large_graph(backend: str) -> None:
    generator = torch.Generator().manual_seed(1)
    n = 300
    edge_index = torch.randint(0, n, (2, 6 * n), generator=generator)
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    adj = torch.zeros(n, n)
    adj[tuple(edge_index)] = 1
    every = topk_similarity(edge_index.unique(dim=1), n, num_nodes=n, backend=backend)
    values, index = topk_similarity(
        edge_index.unique(dim=1), 10, num_nodes=n, exclude_neighbors=True, backend=backend
    )
    for i in range(n):
        chosen = [j for j in every[1][i].tolist() if j >= 0 and adj[i, j] == 0][:10]
        assert index[i].tolist() == chosen + [-1] * (10 - len(chosen))
    dense = structural_similarity(adj)
    torch.testing.assert_close(values, dense.gather(1, index.clamp(min=0)) * (index >= 0))


def test_overlapping_ids_are_not_a_bipartite_graph(backend: str) -> None:
    graph = Graph(3, ((0, 1), (1, 2)))
    one_kind = topk_similarity(graph.edge_index, 3, backend=backend)
    two_kinds = topk_similarity(graph.edge_index, 3, num_nodes=(3, 3), backend=backend)
    assert one_kind[1].tolist() != two_kinds[1].tolist()


def test_similar_rows_of_another_matrix(backend: str) -> None:
    """As in `docs/similar_nodes.md`, queries are numbered after the candidates."""
    generator = torch.Generator().manual_seed(1)
    for weighted in (False, True):
        rows = torch.rand(23, 9, generator=generator, dtype=torch.float64)
        rows = rows.where(rows > 0.6, 0.0) if weighted else (rows > 0.6).double()
        corpus, queries = rows[:17], rows[17:]
        edges = torch.cat([corpus, queries]).nonzero().t()
        weight = rows[tuple(edges)] if weighted else None
        values, index = topk_similarity(
            edges,
            17,
            weight,
            num_nodes=(23, 9),
            nodes=torch.arange(17, 23),
            candidates=torch.arange(17),
            backend=backend,
        )
        norms = queries.norm(dim=1, keepdim=True) * corpus.norm(dim=1)
        cosine = (queries @ corpus.t() / norms).nan_to_num()
        expected = cosine.sort(dim=1, descending=True).values
        torch.testing.assert_close(values.double(), expected, rtol=1e-6, atol=1e-15)
        assert torch.equal(index >= 0, expected > 1e-15)
        chosen = cosine.gather(1, index.clamp(min=0)) * (index >= 0)
        torch.testing.assert_close(chosen, expected, rtol=1e-9, atol=1e-15)


def test_denormal_numbers_may_be_flushed() -> None:
    """Packages built with `-ffast-math` set this for the whole process."""
    edge_index = torch.randint(0, 300, (2, 900), generator=torch.Generator().manual_seed(0))
    weight = torch.rand(900, generator=torch.Generator().manual_seed(1))
    expected = topk_similarity(edge_index, 4, weight, num_nodes=300, backend="numba")
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormal numbers")
    try:
        actual = topk_similarity(edge_index, 4, weight, num_nodes=300, backend="numba")
    finally:
        torch.set_flush_denormal(False)
    assert actual[0].any()
    for tensor, other in zip(actual, expected):
        assert torch.equal(tensor, other)


def test_ties_that_rounding_hides_are_broken_by_id() -> None:
    """Rows with the same values in another order: their sums differ in the last bit."""
    generator = torch.Generator().manual_seed(0)
    values = torch.tensor([0.1, 0.2, 0.4, 0.6, 0.7, 0.9], dtype=torch.float64)
    rows = torch.stack([values[torch.randperm(6, generator=generator)] for _ in range(300)])
    edge_index, weight = rows.nonzero().t().contiguous(), rows.flatten()
    expected, actual = (
        topk_similarity(edge_index, 4, weight, num_nodes=(300, 6), backend=backend)
        for backend in ("torch", "numba")
    )
    for tensor, other in zip(actual, expected):
        assert torch.equal(tensor, other)


@pytest.mark.parametrize("negative", [False, True])
def test_similarities_that_are_equal_in_float32_are_ordered(negative: bool) -> None:
    """Each node is more similar to node 0 than the node before it, by a relative 5e-9."""
    n = 40
    ids = torch.arange(1, n)
    own = 1e-4 * (ids if negative else n - ids).double().sqrt()
    edge_index = torch.cat(
        [torch.tensor([[0], [0]]), torch.stack([ids, 0 * ids]), torch.stack([ids, ids])], dim=1
    )
    weight = torch.cat([torch.tensor([1.0]), torch.full((n - 1,), -1.0 if negative else 1.0), own])
    values, indices = topk_similarity(
        edge_index, n - 1, weight, num_nodes=(n, n), loop=False, nodes=[0]
    )
    assert indices.tolist() == [list(range(n - 1, 0, -1))]
    assert len(values.unique()) == n - 1
    assert len(values.float().unique()) < n - 1


def test_integers_whose_similarities_are_equal_in_float32_are_ordered() -> None:
    """The row of node 0 is short, so that all its candidates are sorted at once."""
    n = 40
    ids = torch.arange(1, n)
    edge_index = torch.cat(
        [torch.tensor([[0], [0]]), torch.stack([ids, 0 * ids]), torch.stack([ids, ids])], dim=1
    )
    weight = torch.cat([torch.tensor([1]), 5000 + ids, torch.ones_like(ids)]).double()
    values, indices = topk_similarity(
        edge_index, n - 1, weight, num_nodes=(n, n), loop=False, nodes=[0]
    )
    assert indices.tolist() == [list(range(n - 1, 0, -1))]
    assert len(values.float().unique()) < n - 1


@pytest.mark.parametrize("k", [1, 3, 4, 7])
@pytest.mark.parametrize("extra", [31, 32])
def test_a_row_whose_candidates_fill_all_room(k: int, extra: int) -> None:
    """A first block of nodes has `2 k + extra` candidates. A second block adds 128."""
    num_orthogonal = 127 - 2 * k - extra
    generator = torch.Generator().manual_seed(k)
    features = torch.randint(5, 1000, (256, 2), generator=generator).double()
    features[:num_orthogonal] = torch.tensor([1.0, -1.0])
    features[-1] = 1.0
    edge_index = features.nonzero().t().contiguous()
    expected, actual = (
        topk_similarity(
            edge_index,
            k,
            features.flatten(),
            num_nodes=(256, 2),
            loop=False,
            nodes=[255],
            backend=backend,
        )
        for backend in ("torch", "numba")
    )
    for tensor, other in zip(actual, expected):
        assert torch.equal(tensor, other)
