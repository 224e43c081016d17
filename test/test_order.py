"""Orders: permutations that do not depend on how the nodes were numbered."""

from random import Random

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from graphs import FLAVOURS, Graph, draw, draw_all, undirected, union
from torch_geometric_simpool import StructuralSimilarity
from torch_geometric_simpool.order import ORDERS, node_order

STRUCTURAL = [order for order in ORDERS if order != "random"]
# Six edges of a triangular prism, two disjoint triangles, a star, twins, a path, rings.
SYMMETRIC = {
    "ring": [(i, (i + 1) % 7) for i in range(7)],
    "path": [(i, i + 1) for i in range(6)],
    "star": [(0, i) for i in range(1, 7)],
    "prism": [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3), (1, 4), (2, 5)],
    "triangles": [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)],
    "closed twins": [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (5, 6)],
    # Four leaves on two hubs: a's leaf goes with a, so leaves may not be settled at random.
    "linked leaves": [(0, 1), (0, 2), (0, 3), (0, 4), (1, 3), (2, 4), (3, 5), (4, 6)],
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


def adjacency(edge_index: Tensor, place: Tensor) -> Tensor:
    """In the order of the places: the same for all numberings of a graph."""
    adj = torch.zeros(place.numel(), place.numel())
    source, target = place[edge_index]
    adj[source, target] = adj[target, source] = 1
    return adj


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_is_a_permutation(flavour: str, order: str) -> None:
    graph = draw(flavour, 0)
    place = node_order(graph.edge_index, order, graph.num_nodes)
    assert place.dtype == torch.long
    assert place.sort().values.tolist() == list(range(graph.num_nodes))


@pytest.mark.parametrize("order", STRUCTURAL)
@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_graphs_have_one_order_up_to_automorphism(name: str, order: str) -> None:
    edge_index = both_ways(SYMMETRIC[name])
    n = int(edge_index.max()) + 1
    ours = adjacency(edge_index, node_order(edge_index, order, n))
    for seed in range(10):
        other = renumbered(edge_index, n, seed)
        assert torch.equal(adjacency(other, node_order(other, order, n)), ours)


@pytest.mark.parametrize("order", STRUCTURAL)
def test_features_are_invariant(order: str) -> None:
    """Not only the order: what the transform writes, row by row."""
    transform = StructuralSimilarity(6, alpha=0.8, order=order)
    rng = Random(5)
    for seed in range(25):
        graph = undirected(rng, 8, 20, 0.25)
        n = graph.num_nodes
        other = renumbered(graph.edge_index, n, seed)
        ours, theirs = (
            by_place(
                transform(Data(edge_index=edge_index, num_nodes=n)).sim,
                node_order(edge_index, order, n),
            )
            for edge_index in (graph.edge_index, other)
        )
        assert torch.equal(ours, theirs)


def test_features_in_the_given_order_are_not_invariant() -> None:
    """So the test above tests something."""
    edge_index = both_ways(SYMMETRIC["path"])
    number = torch.tensor([3, 0, 5, 1, 6, 2, 4])
    transform = StructuralSimilarity(3)
    plain = transform(Data(edge_index=edge_index, num_nodes=7)).sim
    other = transform(Data(edge_index=number[edge_index], num_nodes=7)).sim
    assert not torch.allclose(other[number], plain)


@pytest.mark.parametrize("order", STRUCTURAL)
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
        # No search from its last level gets further: it is peripheral, as far as is looked.
        assert any(
            int(distance[i][reached].max()) == last
            for i in (distance[first] == last).nonzero().flatten()
        )


def test_fiedler_sorts_an_eigenvector() -> None:
    # A barbell with a long tail: its eigenvalues are simple.
    pairs = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 4), (6, 7), (7, 8)]
    place = node_order(both_ways(pairs), "fiedler")
    adj = adjacency(both_ways(pairs), torch.arange(9)).double()
    vector = torch.linalg.eigh(torch.diag(adj.sum(1)) - adj).eigenvectors[:, 1]
    # Whatever sign the solver chose: the longer tail is positive.
    vector = vector * (vector**3).sum().sign()
    assert (vector[place.argsort()].diff() >= -1e-9).all()


def test_fiedler_of_a_large_graph_is_that_of_a_small_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both solvers, on one graph."""
    graph = undirected(Random(3), 60, 60, 0.1)
    dense = node_order(graph.edge_index, "fiedler", 60)
    monkeypatch.setattr("torch_geometric_simpool.order._DENSE", 2)
    assert torch.equal(node_order(graph.edge_index, "fiedler", 60), dense)


def test_rcm_narrows_the_band() -> None:
    edge_index = renumbered(both_ways([(i, i + 1) for i in range(30)]), 31, 0)
    place = node_order(edge_index, "rcm")
    assert int((place[edge_index[0]] - place[edge_index[1]]).abs().max()) == 1


@pytest.mark.parametrize("order", STRUCTURAL)
def test_a_batch_is_its_graphs(order: str) -> None:
    graphs = draw_all(0)
    whole, batch = union(graphs)
    place = node_order(whole.edge_index, order, batch=batch, batch_size=len(graphs))
    alone = [node_order(g.edge_index, order, g.num_nodes) for g in graphs]
    assert torch.equal(place, torch.cat(alone))
    transform = StructuralSimilarity(4, order=order)
    data = [g.data() for g in graphs if g.weights is None and g.num_nodes > 0]
    together = transform(Batch.from_data_list(data)).sim
    assert torch.equal(together, torch.cat([transform(one).sim for one in data]))


@pytest.mark.parametrize("order", STRUCTURAL)
def test_dense_graphs_are_numbered_alike(order: str) -> None:
    transform = StructuralSimilarity(4, order=order)
    graph = draw("undirected", 2)
    adj = graph.adj(torch.float32)
    n = graph.num_nodes
    padded = torch.zeros(n + 3, n + 3)
    padded[:n, :n] = adj
    mask = torch.arange(n + 3) < n
    dense = transform(Data(adj=padded, mask=mask, num_nodes=n + 3)).sim
    assert torch.equal(dense[:n], transform(graph.data()).sim)
    assert not dense[n:].any()


def test_random_is_drawn_anew() -> None:
    graph = Graph(30, ())
    drawn = {tuple(node_order(graph.edge_index, "random", 30).tolist()) for _ in range(3)}
    assert len(drawn) == 3
    torch.manual_seed(0)
    first = node_order(graph.edge_index, "random", 30)
    torch.manual_seed(0)
    assert torch.equal(first, node_order(graph.edge_index, "random", 30))


def test_errors() -> None:
    with pytest.raises(ValueError, match="`order` must be one of"):
        node_order(torch.empty(2, 0, dtype=torch.long), "degree")
    with pytest.raises(ValueError, match="`order` must be one of"):
        StructuralSimilarity(3, order="degree")
    with pytest.raises(ValueError, match="join nodes of one graph"):
        node_order(torch.tensor([[0], [1]]), "rcm", batch=torch.tensor([0, 1]))


def all_distances(graph: Graph) -> Tensor:
    """Floyd and Warshall."""
    distance = torch.full((graph.num_nodes, graph.num_nodes), 1e10)
    distance.fill_diagonal_(0)
    for a, b in graph.edges:
        if a != b:
            distance[a, b] = distance[b, a] = 1
    for k in range(graph.num_nodes):
        distance = torch.minimum(distance, distance[:, k : k + 1] + distance[k])
    return distance
