"""Node orders: permutations that do not depend on the given numbering of the nodes."""

import hashlib
import time
from collections.abc import Callable
from itertools import permutations
from random import Random

import pytest
import torch
import torch_geometric.transforms as T
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DenseDataLoader

from helpers.graphs import FLAVORS, Graph, all_distances, draw, undirected
from torch_geometric_simpool import StructuralSimilarity, node_order
from torch_geometric_simpool.transforms import node_order as node_order_module
from torch_geometric_simpool.transforms.node_order import ORDERS

SYMMETRIC = {
    "ring": [(i, (i + 1) % 7) for i in range(7)],
    "path": [(i, i + 1) for i in range(6)],
    "star": [(0, i) for i in range(1, 7)],
    "prism": [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3), (1, 4), (2, 5)],
    "triangles": [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)],
    "closed twins": [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (5, 6)],
    # Leaves of different hubs are linked, so they cannot be numbered independently.
    "linked leaves": [(0, 1), (0, 2), (0, 3), (0, 4), (1, 3), (2, 4), (3, 5), (4, 6)],
}

# No two nodes are symmetric. Without directions, weights or self-loops, some would be.
ASYMMETRIC: dict[str, tuple[list[tuple[int, int]], list[float] | None]] = {
    "one way": ([(0, 1), (1, 2)], None),
    "one way, in part": ([(0, 1), (1, 2), (2, 1), (2, 3), (3, 2)], None),
    "a loop": ([(0, 1), (1, 0), (1, 2), (2, 1), (2, 2)], None),
    "loops of two weights": ([(0, 0), (0, 1), (1, 0), (1, 1)], [1, 1, 1, 2]),
    "weights": ([(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)], [1, 1, 2, 2, 3, 3]),
    "weights of a ring": ([(0, 1), (1, 2), (2, 3), (3, 0)], [1, 1, 1, 2]),
    "signs": ([(0, 1), (1, 0), (1, 2), (2, 1)], [1, 1, -1, -1]),
    "two weights, one each way": ([(0, 1), (1, 0)], [1, 2]),
    "an edge that repeats": ([(0, 1), (0, 1), (1, 0), (1, 0), (1, 2), (2, 1)], None),
    "weights that add up": ([(0, 1), (0, 1), (1, 0), (1, 2), (2, 1)], [1, 1, 2, 1, 1]),
    "open twins": ([(0, 1), (1, 0), (0, 2), (2, 0)], [1, 1, 2, 2]),
    "closed twins": ([(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)], [1, 1, 2, 2, 4, 4]),
}


def both_ways(pairs: list[tuple[int, int]]) -> Tensor:
    edge_index = torch.tensor(pairs).t()
    return torch.cat([edge_index, edge_index.flip(0)], dim=1)


def by_place(values: Tensor, place: Tensor) -> Tensor:
    out = torch.empty_like(values)
    out[place] = values
    return out


def renumbered(edge_index: Tensor, num_nodes: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    number = torch.randperm(num_nodes, generator=generator)
    edge_index = number[edge_index]
    return edge_index[:, torch.randperm(edge_index.size(1), generator=generator)]


def with_other_numbers(data: Data, number: Tensor) -> Data:
    """Renumbers node `i` as `number[i]`, and shuffles the edges."""
    edges = torch.randperm(data.num_edges)
    out = Data(edge_index=number[data.edge_index][:, edges], num_nodes=data.num_nodes)
    if "edge_weight" in data:
        out.edge_weight = data.edge_weight[edges]
    if "x" in data:
        out.x = by_place(data.x, number)
    return out


def matrix(data: Data, place: Tensor) -> Tensor:
    """Returns the weighted adjacency matrix, sorted by position."""
    adj = torch.zeros(place.numel(), place.numel(), dtype=torch.float64)
    weight = data.edge_weight.double() if "edge_weight" in data else torch.ones(data.num_edges)
    return adj.index_put(tuple(place[data.edge_index]), weight.double(), accumulate=True)


def rows(*columns: Tensor) -> list[list[float]]:
    """Returns the sorted rows of the concatenated columns, to compare sets of rows."""
    return sorted(torch.column_stack([c.double() for c in columns]).tolist())


def order_of(data: Data, order: str) -> Tensor:
    weight = data.edge_weight if "edge_weight" in data else None
    return node_order(data.edge_index, order, data.num_nodes, edge_weight=weight)


def adjacency(edge_index: Tensor, place: Tensor) -> Tensor:
    """Returns the undirected adjacency matrix, sorted by position."""
    adj = torch.zeros(place.numel(), place.numel())
    source, target = place[edge_index]
    adj[source, target] = adj[target, source] = 1
    return adj


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("flavor", FLAVORS)
def test_is_a_permutation(flavor: str, order: str) -> None:
    graph = draw(flavor, 0)
    place = node_order(graph.edge_index, order, graph.num_nodes)
    assert place.dtype == torch.long
    assert place.sort().values.tolist() == list(range(graph.num_nodes))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_graphs_have_one_order_up_to_automorphism(name: str, order: str) -> None:
    edge_index = both_ways(SYMMETRIC[name])
    n = int(edge_index.max()) + 1
    ours = adjacency(edge_index, node_order(edge_index, order, n))
    for seed in range(10):
        other = renumbered(edge_index, n, seed)
        assert torch.equal(adjacency(other, node_order(other, order, n)), ours)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ASYMMETRIC)
def test_features_of_a_node_are_its_own_where_nodes_differ(name: str, order: str) -> None:
    """If directions, weights or self-loops distinguish all nodes, every node keeps its features."""
    edges, weights = ASYMMETRIC[name]
    data = Data(edge_index=torch.tensor(edges).t())
    data.num_nodes = int(data.edge_index.max()) + 1
    if weights is not None:
        data.edge_weight = torch.tensor(weights)
    transform = StructuralSimilarity(3, lam=1, alpha=0.8, order=order)
    place, sim = order_of(data, order), transform(data).sim
    for numbers in permutations(range(data.num_nodes)):
        number = torch.tensor(numbers)
        other = with_other_numbers(data, number)
        assert torch.equal(order_of(other, order)[number], place)
        assert torch.equal(transform(other).sim[number], sim)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("flavor", FLAVORS)
def test_graphs_of_all_kinds_have_one_order_up_to_automorphism(flavor: str, order: str) -> None:
    """Sorted by the order, all numberings have equal edges, weights and self-loops."""
    transform = StructuralSimilarity(4, lam=0.5, alpha=0.8, order=order)
    for seed in range(4):
        data = draw(flavor, seed).data()
        place = order_of(data, order)
        for _ in range(4):
            other = with_other_numbers(data, torch.randperm(data.num_nodes))
            theirs = order_of(other, order)
            assert torch.equal(matrix(other, theirs), matrix(data, place))
            assert rows(transform(other).sim) == rows(transform(data).sim)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("closed", [False, True])
def test_twins_that_differ_are_none(closed: bool, order: str) -> None:
    """Two leaves of one node must not count as twins if one of them has a self-loop."""
    pairs = [(3 * i, (3 * i + 3) % 15) for i in range(5)]
    pairs += [(3 * i, 3 * i + j) for i in range(5) for j in (1, 2)]
    pairs += [(3 * i + 1, 3 * i + 2) for i in range(5) if closed]
    loops = torch.arange(1, 15, 3).repeat(2, 1)
    data = Data(x=torch.arange(15) % 3, edge_index=torch.cat([both_ways(pairs), loops], dim=1))
    place = order_of(data, order)
    for _ in range(20):
        other = with_other_numbers(data, torch.randperm(15))
        theirs = order_of(other, order)
        assert torch.equal(matrix(other, theirs), matrix(data, place))
        assert torch.equal(by_place(other.x, theirs), by_place(data.x, place))


@pytest.mark.parametrize("cached_nodes", [0, 2**17])
def test_orders_do_not_change_unnoticed(cached_nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored features of users depend on the orders. Positions in memory do not matter."""
    monkeypatch.setattr(node_order_module, "_CACHED_NODES", cached_nodes)
    rng = Random(11)
    graphs = [undirected(rng, 8, 30, 0.15) for _ in range(40)]
    # 'fiedler' is left out, because it depends on LAPACK for multiple eigenvalues.
    stored = {"rcm": "9b35ac5fb7f568a0", "bfs": "844bb9475184e7f4"}
    for order, digest in stored.items():
        for weighted in (False, True):
            places = [
                node_order(
                    g.edge_index,
                    order,
                    g.num_nodes,
                    edge_weight=torch.ones(len(g.edges)) if weighted else None,
                ).tolist()
                for g in graphs
            ]
            assert hashlib.sha256(str(places).encode()).hexdigest()[:16] == digest


@pytest.mark.parametrize("order", ORDERS)
def test_a_path_is_followed(order: str) -> None:
    pairs = [(4, 2), (2, 0), (0, 3), (3, 1), (1, 5), (5, 6)]
    along = node_order(both_ways(pairs), order)[torch.tensor([4, 2, 0, 3, 1, 5, 6])].tolist()
    assert along in (list(range(7)), list(range(6, -1, -1)))


def test_bfs_goes_by_distance_from_a_peripheral_node() -> None:
    rng = Random(1)
    for _ in range(10):
        graph = undirected(rng, 6, 15, 0.3)
        place = node_order(graph.edge_index, "bfs", graph.num_nodes)
        distance = all_distances(graph)
        first = int((place == 0).nonzero())
        reached = distance[first] < 1e9
        by_distance = distance[first][place.argsort()][: int(reached.sum())]
        assert torch.equal(by_distance, by_distance.sort().values)
        last = int(by_distance[-1])
        # The first node is pseudo-peripheral: a search from its last level gets no further.
        assert any(
            int(distance[i][reached].max()) == last
            for i in (distance[first] == last).nonzero().flatten()
        )


def test_fiedler_sorts_an_eigenvector() -> None:
    # A barbell with a long tail has simple eigenvalues.
    pairs = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 4), (6, 7), (7, 8)]
    place = node_order(both_ways(pairs), "fiedler")
    adj = adjacency(both_ways(pairs), torch.arange(9)).double()
    vector = torch.linalg.eigh(torch.diag(adj.sum(1)) - adj).eigenvectors[:, 1]
    # The sign of an eigenvector is arbitrary. The order makes its skewness positive.
    vector = vector * (vector**3).sum().sign()
    assert (vector[place.argsort()].diff() >= -1e-9).all()


@pytest.mark.parametrize("order", ORDERS)
def test_a_batch_with_weights_is_its_graphs(order: str) -> None:
    """A batch as `edge_index`, `adj_t`, `adj`, padded, or by `precompute` equals its graphs."""
    transform = StructuralSimilarity(4, order=order)
    graphs = [draw(flavor, 1).data() for flavor in FLAVORS]
    for data in graphs:
        if "edge_weight" not in data:
            data.edge_weight = torch.ones(data.num_edges)
    alone = [transform(data).sim for data in graphs]
    batch = Batch.from_data_list(graphs)
    place = node_order(
        batch.edge_index,
        order,
        batch=batch.batch,
        batch_size=len(graphs),
        edge_weight=batch.edge_weight,
    )
    assert torch.equal(place, torch.cat([order_of(data, order) for data in graphs]))
    assert torch.equal(transform(batch).sim, torch.cat(alone))
    for done, sim in zip(transform.precompute(graphs, progress=False), alone, strict=True):
        assert torch.equal(done.sim, sim)

    simple = [(data, sim) for data, sim in zip(graphs, alone) if data.is_coalesced()]
    assert len(simple) > 5
    dense = []
    for data, sim in simple:
        adj_t = torch.sparse_coo_tensor(
            data.edge_index.flip(0), data.edge_weight, (data.num_nodes, data.num_nodes)
        )
        assert torch.equal(transform(Data(adj_t=adj_t)).sim, sim)
        data = T.ToDense(12)(
            Data(
                edge_index=data.edge_index,
                edge_attr=data.edge_weight,
                num_nodes=data.num_nodes,
            )
        )
        dense.append(data)
        assert torch.equal(transform(data).sim[data.mask], sim)
    (together,) = DenseDataLoader(dense, batch_size=len(dense))
    assert torch.equal(transform(together).sim[together.mask], torch.cat([s for _, s in simple]))


def test_what_is_equal_counts_as_equal() -> None:
    """The sign of zero and the type of weights do not matter."""
    edge_index = both_ways([(0, 1), (1, 2), (2, 3), (3, 4)])
    weight = torch.tensor([0.0, 1, 2, 0, -0.0, 1, 2, -0.0])

    def of(weight: Tensor) -> list[int]:
        return node_order(edge_index, "bfs", edge_weight=weight).tolist()

    expected = of(weight)
    assert of(weight + 0.0) == expected
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.long):
        assert of(weight.to(dtype)) == expected


def test_edges_of_weight_zero_do_not_count() -> None:
    edge_index = both_ways([(0, 1), (1, 2), (2, 3), (0, 4), (0, 3)])
    weight = torch.tensor([1.0, 1, 1, 1, 0]).repeat(2)
    cancels = torch.cat([edge_index, torch.tensor([[1], [4]]), torch.tensor([[1], [4]])], dim=1)
    for order in ORDERS:
        expected = node_order(edge_index[:, weight > 0], order, 5)
        assert torch.equal(node_order(edge_index, order, 5, edge_weight=weight), expected)
        with_sum = torch.cat([weight, torch.tensor([2.0, -2.0])])
        assert torch.equal(node_order(cancels, order, 5, edge_weight=with_sum), expected)


@pytest.mark.parametrize("order", ORDERS)
def test_a_batch_may_be_unsorted(order: str) -> None:
    graphs = [draw(flavor, 3) for flavor in FLAVORS]
    batch = Batch.from_data_list([graph.data() for graph in graphs])
    sorted_place = node_order(batch.edge_index, order, batch=batch.batch, batch_size=len(graphs))
    number = torch.randperm(batch.num_nodes)
    place = node_order(
        number[batch.edge_index],
        order,
        batch=by_place(batch.batch, number),
        batch_size=len(graphs),
    )
    ours, theirs = sorted_place + 100 * batch.batch, place + 100 * by_place(batch.batch, number)
    assert rows(*theirs[number[batch.edge_index]]) == rows(*ours[batch.edge_index])


def test_the_sequence_of_parallel_edges_does_not_count() -> None:
    """Sums of these weights depend on the order of summation, so weights are sorted first."""
    edge_index = torch.tensor([[0, 0, 0, 0, 0, 0], [1, 1, 1, 2, 2, 2]])
    listed = [torch.tensor(w).double() for w in permutations([1, 1, 1e16])]
    ways = {
        tuple(node_order(edge_index, "bfs", edge_weight=torch.cat([ours, theirs])).tolist())
        for ours in listed
        for theirs in listed
    }
    assert len(ways) == 1


def test_components_come_one_after_the_other() -> None:
    """The largest component is first, and equal components have equal orders."""
    triangle, path = [(0, 1), (1, 2), (0, 2)], [(0, 1), (1, 2), (2, 3)]
    pairs = [(a + 10 * i, b + 10 * i) for i in range(4) for a, b in (path if i % 2 else triangle)]
    edge_index, n = renumbered(both_ways(pairs), 45, 0), 45
    for order in ORDERS:
        adj = adjacency(edge_index, node_order(edge_index, order, n))
        blocks = [adj[i : i + 4, i : i + 4] for i in (0, 4)]
        blocks += [adj[i : i + 3, i : i + 3] for i in (8, 11)]
        assert torch.equal(torch.block_diag(*blocks, torch.zeros(31, 31)), adj)
        assert torch.equal(blocks[0], blocks[1])
        assert torch.equal(adj.sum(0), torch.tensor([*adj.sum(0)[:8], *[2.0] * 6, *[0.0] * 31]))


def test_components_of_equal_degrees_are_not_taken_for_equal() -> None:
    """Circulant graphs of 11 nodes of degree 4 are not equal, so each is searched."""
    steps = [(1, 2), (1, 3), (2, 5), (1, 5), (3, 4), (2, 3)]
    pairs = [
        (11 * c + i, 11 * c + (i + s) % 11)
        for c, both in enumerate(steps)
        for i in range(11)
        for s in both
    ]
    edge_index = renumbered(both_ways(pairs), 66, 1)
    in_order = node_order(edge_index, "bfs").argsort()
    distance = all_distances(Graph(66, tuple(map(tuple, edge_index.t().tolist()))))
    for block in in_order.view(6, 11):
        reached = distance[block[0], block]
        assert reached.max() < 1e9
        assert torch.equal(reached, reached.sort().values)


@pytest.mark.parametrize("order", ORDERS)
def test_wrong_arguments_are_named(order: str) -> None:
    two = torch.tensor([[0, 1], [1, 0]])
    for name, arguments in (
        ("order", {"order": "degree"}),
        ("edge_index", {"batch": torch.tensor([0, 1])}),
        ("edge_index", {"num_nodes": 1}),
        ("num_nodes", {"num_nodes": (2, 2)}),
        ("batch", {"batch": [0, 0]}),
        ("edge_weight", {"edge_weight": torch.ones(3)}),
        ("edge_weight", {"edge_weight": torch.tensor([1, torch.inf])}),
        ("edge_weight", {"edge_weight": [1, 1]}),
    ):
        with pytest.raises((TypeError, ValueError), match=f"`{name}`"):
            node_order(two, **{"order": order, **arguments})  # type: ignore[arg-type]


# ------------------------------------------------------------------ large graphs


def test_a_large_component_is_sorted_by_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    branched = both_ways([(i, i + 1) for i in range(58)] + [(20, 59)])
    by_vector = node_order(branched, "fiedler")
    monkeypatch.setattr(node_order_module, "_MAX_FIEDLER", 59)
    assert torch.equal(node_order(branched, "fiedler"), node_order(branched, "bfs"))
    assert not torch.equal(node_order(branched, "fiedler"), by_vector)


def core_with_paths(n: int) -> Tensor:
    core = torch.randint(0, n, (2, n * 10))
    paths = [
        torch.stack([torch.tensor([j, n + 2 * j]), n + 2 * j + torch.arange(2)]) for j in range(n)
    ]
    return torch.cat([core, *paths], dim=1)


def path(n: int) -> Tensor:
    return torch.stack([torch.arange(n), torch.arange(1, n + 1)])


def edges(n: int) -> Tensor:
    return torch.arange(2 * n).view(n, 2).t()


def two_fans(n: int) -> Tensor:
    """Returns two hubs that are joined to all nodes of a path, so that every round changes them."""
    one = path(n - 1) + 1
    fan = torch.cat([one, torch.stack([torch.zeros(n, dtype=torch.long), 1 + torch.arange(n)])], 1)
    return torch.cat([fan, fan + n + 1], dim=1)


@pytest.mark.parametrize("order", ["bfs", "fiedler"])
@pytest.mark.parametrize(
    ("shape", "size"),
    [(core_with_paths, 2000), (path, 20_000), (edges, 20_000), (two_fans, 6000)],
)
def test_no_shape_takes_long(shape: Callable[[int], Tensor], size: int, order: str) -> None:
    """On these graphs, a quadratic number of rounds, choices or products would take minutes."""
    edge_index = shape(size)
    edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    start = time.process_time()
    place = node_order(edge_index, order)
    assert time.process_time() - start < 20
    assert torch.equal(place.sort().values, torch.arange(place.numel()))
