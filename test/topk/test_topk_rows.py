"""Some rows of a top k, some candidates, and bipartite graphs."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers import backends, oracle
from helpers.graphs import FLAVORS, Graph, draw, draw_all, union
from torch_geometric_simpool import (
    SimilarityIndex,
    estimate_topk,
    structural_similarity,
    topk_similarity,
)
from torch_geometric_simpool.topk.budget import Budget, TooExpensiveError
from torch_geometric_simpool.topk.numba import nearby, plan
from torch_geometric_simpool.topk.spec import EdgeList as Edges
from torch_geometric_simpool.topk.spec import SimilaritySpec

BACKENDS = pytest.mark.parametrize("backend", backends.BACKENDS)
SETTINGS: list[dict[str, Any]] = [
    {},
    {"measure": "jaccard", "loop": False},
    {"lam": 1.0, "max_degree": 3},
    {"p": 2, "lam": 1.0, "min_similarity": 0.4},
]


def topk(graph: Graph, k: int, **settings: Any) -> tuple[Tensor, Tensor]:
    given = {"num_nodes": graph.num_nodes, **settings}
    return topk_similarity(graph.edge_index, k, graph.edge_weight(), **given)


def assert_same(one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> None:
    assert torch.equal(one[0], other[0])
    assert torch.equal(one[1], other[1])


def some_of(size: int, seed: int, share: float = 0.5) -> Tensor:
    """Distinct ids in no order, at least one."""
    rng = Random(seed)
    return torch.tensor(rng.sample(range(size), max(1, int(size * share))))


def assert_is_top(
    result: tuple[Tensor, Tensor], rows: list[list[oracle.Candidate]], k: int
) -> None:
    values, index = result
    assert values.shape == index.shape == (len(rows), k)
    for i, row in enumerate(rows):
        top = row[:k]
        assert index[i].tolist() == [c.node for c in top] + [-1] * (k - len(top)), f"row {i}"
        expected = [c.value for c in top] + [0.0] * (k - len(top))
        torch.testing.assert_close(values[i].double(), torch.tensor(expected).double())


# ------------------------------------------------------------------ nodes


@BACKENDS
@pytest.mark.parametrize("flavor", [f for f in FLAVORS if draw(f, 0).num_nodes > 0])
def test_rows_of_some_nodes_have_the_bits_of_all(
    flavor: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(2):
        graph = draw(flavor, seed)
        some = some_of(graph.num_nodes, seed)
        repeated = torch.cat([some, some.flip(0), some[:1]])
        for shortest_hub in (plan.SHORTEST_HUB, 1):
            monkeypatch.setattr(plan, "SHORTEST_HUB", shortest_hub)
            for settings in SETTINGS:
                for k in (2, graph.num_nodes + 1):
                    full = topk(graph, k, backend=backend, **settings)
                    for nodes in (some, repeated, repeated.int()):
                        rows = topk(graph, k, backend=backend, nodes=nodes, **settings)
                        assert_same(rows, (full[0][nodes.long()], full[1][nodes.long()]))


@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
@pytest.mark.parametrize(
    "flavor", ["undirected", "directed", "loops", "isolated", "star", "edgeless", "complete"]
)
def test_edges_that_rows_do_not_depend_on_are_left_out(
    flavor: str, measure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of sorted edges: all but the degrees. Others, and parallel ones, are all used."""
    monkeypatch.setattr(nearby, "MOST", 1e9)
    left_out = 0
    for seed in range(6):
        graph, _ = union([draw(flavor, seed), draw(flavor, seed + 6), draw(flavor, seed + 12)])
        n, given = graph.num_nodes, dict[str, Any](measure=measure)
        in_order = graph.edge_index.unique(dim=1)
        other = in_order[:, torch.randperm(in_order.size(1))]
        parallel = torch.cat([in_order, in_order[:, -1:]], dim=1)
        nodes = some_of(n, seed, share=0.2)
        for shortest_hub in (plan.SHORTEST_HUB, 1):
            monkeypatch.setattr(plan, "SHORTEST_HUB", shortest_hub)
            for edges in (in_order, other, parallel):
                for settings in (given, {**given, "candidates": some_of(n, seed + 1)}):
                    for sizes in (n, (n, n)):
                        settings["num_nodes"] = sizes
                        full = topk_similarity(edges, 5, **settings)
                        rows = topk_similarity(edges, 5, nodes=nodes, **settings)
                        assert_same(rows, (full[0][nodes], full[1][nodes]))
        edges, degrees, _ = nearby.edges_nearby(
            Edges(in_order, None, n, None),
            SimilaritySpec(1, 0.0, measure),
            nodes.numpy(),
            Budget(None, force=True),
        )
        if degrees is not None:
            left_out += in_order.size(1) - edges.edge_index.size(1)
            assert degrees.into.tolist() == torch.bincount(in_order[1], minlength=n).tolist()
    assert left_out > 0 or flavor == "edgeless"


@BACKENDS
def test_rows_of_a_batch_in_pieces(backend: str) -> None:
    """All nodes, shuffled, a few at a time; with weights, of both signs, and without."""
    graph, _ = union(draw_all(5))
    for weight in (None, graph.edge_weight()):
        full = topk_similarity(graph.edge_index, 6, weight, graph.num_nodes, backend=backend)
        order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))
        for nodes in order.split(29):
            rows = topk_similarity(
                graph.edge_index, 6, weight, graph.num_nodes, backend=backend, nodes=nodes
            )
            assert_same(rows, (full[0][nodes], full[1][nodes]))


@BACKENDS
def test_a_two_hop_subgraph_is_not_enough(backend: str) -> None:
    """Why `nodes` is there: a node at the border loses neighbors, and its norm with them."""
    path = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    values, index = topk_similarity(path, 2, nodes=torch.tensor([0]), backend=backend)
    assert index.tolist() == [[0, 2]]
    assert values[0, 1].item() == pytest.approx(0.5**0.5)
    around = path[:, :4]  # the edges among the nodes up to distance two
    assert topk_similarity(around, 2, backend=backend)[0][0, 1] == 1


@BACKENDS
@pytest.mark.parametrize("p", [1, 2])
def test_gradients_of_some_rows(p: int, backend: str) -> None:
    graph = draw("dyadic", 1)
    weight = graph.edge_weight()
    assert weight is not None
    nodes = torch.tensor([3, 0, 3])
    gradients = []
    for rows in (None, nodes):
        leaf = weight.clone().requires_grad_()
        values, _ = topk_similarity(
            graph.edge_index, 3, leaf, graph.num_nodes, p=p, backend=backend, nodes=rows
        )
        picked = values if rows is not None else values[nodes]
        picked.square().sum().backward()
        assert leaf.grad is not None
        gradients.append(leaf.grad)
    torch.testing.assert_close(gradients[0], gradients[1])
    assert gradients[0].abs().sum() > 0


# ------------------------------------------------------------------ candidates


@BACKENDS
@pytest.mark.parametrize("flavor", [f for f in FLAVORS if draw(f, 0).num_nodes > 0])
def test_candidates_equal_the_oracle(
    flavor: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of all nodes, with those of no candidate left out."""
    for seed in range(2):
        graph = draw(flavor, seed)
        candidates = some_of(graph.num_nodes, seed + 7)
        kept = set(candidates.tolist())
        for shortest_hub in (plan.SHORTEST_HUB, 0, 2):
            monkeypatch.setattr(plan, "SHORTEST_HUB", shortest_hub)
            for settings in SETTINGS[:2]:
                measure, loop = settings.get("measure", "cosine"), settings.get("loop", True)
                everything = oracle.candidates(graph.exact_adj, 1, 0.0, measure, loop)
                rows = [[c for c in row if c.node in kept] for row in everything]
                for k in (1, 3, graph.num_nodes + 1):
                    result = topk(graph, k, backend=backend, candidates=candidates, **settings)
                    assert_is_top(result, rows, k)
                    nodes = some_of(graph.num_nodes, seed)
                    both = topk(
                        graph, k, backend=backend, candidates=candidates, nodes=nodes, **settings
                    )
                    assert_same(both, (result[0][nodes], result[1][nodes]))


@BACKENDS
@pytest.mark.parametrize("settings", SETTINGS)
def test_candidates_are_what_is_left_of_full_rows(settings: dict[str, Any], backend: str) -> None:
    """`max_degree` counts all nodes that share a feature, candidates or not."""
    graph, _ = union(draw_all(3))
    n = graph.num_nodes
    for weight in (None, graph.edge_weight()):
        given: dict[str, Any] = {**settings, "backend": backend}
        values, index = topk_similarity(graph.edge_index, n, weight, n, **given)
        candidates = some_of(n, 1)
        allowed = torch.zeros(n + 1, dtype=torch.bool)
        allowed[candidates] = True
        found, at = topk_similarity(graph.edge_index, 4, weight, n, candidates=candidates, **given)
        for i in range(n):
            kept = allowed[index[i]]
            assert at[i][at[i] >= 0].tolist() == index[i][kept][:4].tolist()
            assert found[i][at[i] >= 0].tolist() == values[i][kept][:4].tolist()


def test_candidates_may_be_named_twice() -> None:
    star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
    twice = topk_similarity(star, 2, candidates=torch.tensor([3, 2, 3]))
    assert_same(twice, topk_similarity(star, 2, candidates=torch.tensor([2, 3])))
    assert twice[1].tolist() == [[-1, -1], [2, 3], [2, 3], [2, 3]]


# ------------------------------------------------------------------ bipartite graphs


def bipartite(seed: int, weighted: bool) -> tuple[Tensor, Tensor | None, int, int]:
    """A random one, with parallel edges where it is weighted, and nodes without edges."""
    rng = Random(seed)
    num_src, num_dst = rng.randint(1, 9), rng.randint(1, 7)
    pairs = [(i, j) for i in range(num_src) for j in range(num_dst) if rng.random() < 0.4]
    weights = None
    if weighted:
        pairs += rng.choices(pairs, k=3) if pairs else []
        rng.shuffle(pairs)
        weights = torch.tensor([rng.choice([-1.0, 0.5, 1.0, 2.0]) for _ in pairs]).double()
    return torch.tensor(pairs).view(-1, 2).t(), weights, num_src, num_dst


def rows_of_bipartite(
    edge_index: Tensor, weight: Tensor | None, num_src: int, num_dst: int, **settings: Any
) -> list[list[oracle.Candidate]]:
    """As a directed graph whose ids do not overlap: nothing points to a source node."""
    edges = [(i, j + num_src) for i, j in edge_index.t().tolist()]
    weights = None if weight is None else tuple(weight.tolist())
    adj = Graph(num_src + num_dst, tuple(edges), weights).exact_adj
    return oracle.candidates(adj, 1, 0.0, **settings)[:num_src]


@BACKENDS
@pytest.mark.parametrize("measure", ["cosine", "jaccard"])
@pytest.mark.parametrize("weighted", [False, True])
def test_bipartite_graphs_equal_the_oracle(
    weighted: bool, measure: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(25):
        edge_index, weight, *sizes = bipartite(seed, weighted)
        num_nodes = (sizes[0], sizes[1])
        given: dict[str, Any] = {"num_nodes": num_nodes, "measure": measure, "backend": backend}
        for shortest_hub in (plan.SHORTEST_HUB, 1):
            monkeypatch.setattr(plan, "SHORTEST_HUB", shortest_hub)
            for loop in (True, False):
                rows = rows_of_bipartite(edge_index, weight, *sizes, measure=measure, loop=loop)
                for k in (1, 3, 12):
                    result = topk_similarity(edge_index, k, weight, loop=loop, **given)
                    assert_is_top(result, rows, k)
                    nodes = some_of(sizes[0], seed)
                    picked = topk_similarity(edge_index, k, weight, loop=loop, nodes=nodes, **given)
                    assert_same(picked, (result[0][nodes], result[1][nodes]))
                kept = set(some_of(sizes[0], seed + 1).tolist())
                result = topk_similarity(
                    edge_index, 4, weight, loop=loop, candidates=torch.tensor(sorted(kept)), **given
                )
                assert_is_top(result, [[c for c in row if c.node in kept] for row in rows], 4)


@BACKENDS
def test_max_degree_of_a_bipartite_graph(backend: str) -> None:
    """Users 0 to 3 like item 0; users 0 and 1 like item 1 as well."""
    likes = torch.tensor([[0, 1, 2, 3, 0, 1], [0, 0, 0, 0, 1, 1]])
    given: dict[str, Any] = {"num_nodes": (4, 2), "backend": backend}
    assert topk_similarity(likes, 2, loop=False, **given)[1].tolist() == [
        [1, 2],
        [0, 2],
        [3, 0],
        [2, 0],
    ]
    values, index = topk_similarity(likes, 2, loop=False, max_degree=3, **given)
    assert index.tolist() == [[1, -1], [0, -1], [-1, -1], [-1, -1]]
    assert values[0, 0].item() == pytest.approx(0.5)


@BACKENDS
def test_overlapping_ids_are_not_a_bipartite_graph(backend: str) -> None:
    """User 0 likes item 1, user 1 likes item 0: as one kind of nodes, each is two."""
    likes = torch.tensor([[0, 1, 2], [1, 0, 0]])
    as_one = topk_similarity(likes, 3, num_nodes=3, backend=backend)
    as_two = topk_similarity(likes, 3, num_nodes=(3, 2), backend=backend)
    assert as_two[1].tolist() == [[0, -1, -1], [1, 2, -1], [1, 2, -1]]
    assert as_one[0][1, 1].item() == pytest.approx(0.5**0.5)
    assert as_two[0][1].tolist() == [1, 1, 0]


@BACKENDS
def test_gradients_of_a_bipartite_graph(backend: str) -> None:
    """Against the dense formula, of the graph whose ids do not overlap."""
    edge_index = torch.tensor([[0, 0, 1, 1, 2, 3], [0, 1, 1, 2, 2, 0]])
    weight = torch.tensor([1.0, -2.0, 0.5, 3.0, 1.5, 2.0], dtype=torch.float64)
    leaf, other = weight.clone().requires_grad_(), weight.clone().requires_grad_()
    values, index = topk_similarity(edge_index, 3, leaf, num_nodes=(4, 3), backend=backend)
    values.square().sum().backward()
    adj = torch.zeros(7, 7, dtype=torch.float64).index_put(
        (edge_index[0], edge_index[1] + 4), other
    )
    dense = structural_similarity(adj)[:4, :4]
    row, place = (index >= 0).nonzero(as_tuple=True)
    dense[row, index[row, place]].square().sum().backward()
    assert leaf.grad is not None
    assert other.grad is not None
    torch.testing.assert_close(leaf.grad, other.grad)
    assert leaf.grad.abs().sum() > 0


# ------------------------------------------------------------------ estimates


@BACKENDS
def test_an_estimate_of_some_rows_is_their_share(backend: str) -> None:
    graph, _ = union([draw("undirected", seed) for seed in range(6)])
    lists = torch.bincount(graph.edge_index[1], minlength=graph.num_nodes)
    per_row = torch.zeros(graph.num_nodes).index_add(
        0, graph.edge_index[0], lists[graph.edge_index[1]].float()
    )
    nodes = some_of(graph.num_nodes, 3)
    given: dict[str, Any] = {"num_nodes": graph.num_nodes, "backend": backend}
    found = estimate_topk(graph.edge_index, 4, nodes=nodes, **given)
    full = estimate_topk(graph.edge_index, 4, **given)
    assert found.num_products == per_row[nodes].sum() < full.num_products == per_row.sum()
    assert found.num_visited == found.num_products
    assert found.output == nodes.numel() * 4 * 12
    assert found.seconds < full.seconds
    powers = [
        estimate_topk(graph.edge_index, 4, p=2, nodes=rows, **given).num_products
        for rows in (nodes[:1], nodes, None)
    ]
    assert powers == sorted(powers)


@BACKENDS
def test_an_estimate_of_a_bipartite_graph_and_of_candidates(backend: str) -> None:
    likes = torch.tensor([[0, 1, 2, 3, 0, 1], [0, 0, 0, 0, 1, 1]])
    given: dict[str, Any] = {"num_nodes": (4, 2), "backend": backend}
    assert estimate_topk(likes, 2, **given).num_products == 4 * 4 + 2 * 2
    half = estimate_topk(likes, 2, candidates=torch.tensor([0, 3]), **given)
    assert half.num_products == 4 * 2 + 2 * 1
    assert estimate_topk(likes, 2, num_nodes=4, backend=backend).num_products > 20


@BACKENDS
def test_a_budget_for_all_rows_is_not_needed_for_some(backend: str) -> None:
    hub = torch.stack([torch.zeros(400, dtype=torch.long), torch.arange(1, 401)])
    star = torch.cat([hub, hub.flip(0)], dim=1)
    given: dict[str, Any] = {"max_degree": None, "backend": backend, "memory_budget": 10**9}
    nodes = torch.tensor([5])
    assert topk_similarity(star, 2, nodes=nodes, **given)[1].tolist() == [[1, 2]]
    full = estimate_topk(star, 2, backend=backend)
    assert estimate_topk(star, 2, nodes=nodes, backend=backend).memory <= full.memory


# ------------------------------------------------------------------ bad input

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


@pytest.mark.parametrize("call", [topk_similarity, estimate_topk])
@pytest.mark.parametrize("name", ["nodes", "candidates"])
@pytest.mark.parametrize(
    ("value", "error", "parts"),
    [
        (torch.tensor([0, 3]), ValueError, ["[0, 3)", "got 3"]),
        (torch.tensor([-1]), ValueError, ["[0, 3)", "got -1"]),
        (torch.tensor([], dtype=torch.long), ValueError, ["M >= 1", "[0]"]),
        (torch.tensor([[0]]), ValueError, ["[M]", "[1, 1]"]),
        (torch.tensor(1), ValueError, ["[M]", "[]"]),
        (torch.tensor([0.0]), TypeError, ["integers", "torch.float32"]),
        (torch.tensor([True, False, True]), TypeError, ["torch.bool", "nonzero"]),
        ([0, 1], TypeError, ["torch.Tensor", "list"]),
        (0, TypeError, ["torch.Tensor", "int"]),
    ],
)
def test_bad_ids(
    call: Any, name: str, value: Any, error: type[Exception], parts: list[str]
) -> None:
    with pytest.raises(error) as info:
        call(EDGES, 2, **{name: value})
    for part in (f"`{name}`", *parts):
        assert part in str(info.value)


@pytest.mark.parametrize("call", [topk_similarity, estimate_topk])
@pytest.mark.parametrize(
    ("given", "error", "parts"),
    [
        ({"num_nodes": (3, 3, 3)}, ValueError, ["`num_nodes`", "two numbers", "(3, 3, 3)"]),
        ({"num_nodes": (3,)}, ValueError, ["`num_nodes`", "(3,)"]),
        ({"num_nodes": (3, -1)}, ValueError, ["`num_nodes`", "-1"]),
        ({"num_nodes": (3, None)}, TypeError, ["`num_nodes`", "None"]),
        ({"num_nodes": (2, 3)}, ValueError, ["`edge_index[0]`", "source", "2", "got 2"]),
        ({"num_nodes": (3, 2)}, ValueError, ["`edge_index[1]`", "destination", "got 2"]),
        ({"num_nodes": (3, 3), "p": 2}, ValueError, ["`p`", "bipartite", "got 2"]),
        ({"num_nodes": (3, 3), "lam": 0.5}, ValueError, ["`lam`", "bipartite", "got 0.5"]),
        ({"num_nodes": (4, 3), "nodes": torch.tensor([4])}, ValueError, ["`nodes`", "[0, 4)"]),
    ],
)
def test_bad_sizes(
    call: Any, given: dict[str, Any], error: type[Exception], parts: list[str]
) -> None:
    with pytest.raises(error) as info:
        call(EDGES, 2, **given)
    for part in parts:
        assert part in str(info.value)


def test_a_default_device_does_not_matter() -> None:
    edge_index, weight = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.rand(4)
    expected = topk_similarity(edge_index, 2, weight)
    with torch.device("meta"):  # any but that of the edges
        found = topk_similarity(edge_index, 2, weight)
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


def test_ids_that_no_array_can_hold() -> None:
    """Of hashed ids, for example: nothing is allocated."""
    edge_index, nodes = torch.tensor([[0, 10**15], [10**15, 0]]), torch.tensor([0])
    calls: list[Callable[[], Any]] = [
        lambda: topk_similarity(edge_index, 1, nodes=nodes),
        lambda: topk_similarity(edge_index, 1, candidates=nodes),
        lambda: topk_similarity(torch.zeros(2, 1).long(), 1, num_nodes=(1, 10**15)),
        lambda: estimate_topk(edge_index, 1),
        lambda: SimilarityIndex(edge_index),
    ]
    for call in calls:
        with pytest.raises(TooExpensiveError, match=r"`num_nodes` must .* arrays .* if few of"):
            call()
