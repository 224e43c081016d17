import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict
from torch_geometric.data import Data
from torch_geometric.utils import degree, to_networkx

from harness.data.generated import renumbered
from harness.data.islands import SIDES, generate_islands


@pytest.fixture(scope="module")
def graphs() -> list[Data]:
    return generate_islands()


def red_nodes(graph: Data) -> set[int]:
    return set(graph.x[:, 1].nonzero().view(-1).tolist())


def count_islands(graph: Data) -> int:
    """Islands of red nodes, each flooded from one of its nodes."""
    net, left, islands = to_networkx(graph, to_undirected=True), red_nodes(graph), 0
    while left:
        islands, reached = islands + 1, {left.pop()}
        while reached:
            reached = {other for node in reached for other in net[node] if other in left}
            left -= reached
    return islands


def test_the_class_is_the_number_of_islands(graphs: list[Data]) -> None:
    generator = torch.Generator().manual_seed(0)
    for graph in graphs:
        assert count_islands(graph) == int(graph.y) + 1
        assert count_islands(renumbered(graph, generator)) == int(graph.y) + 1


def test_all_graphs_are_one_grid_with_half_of_the_nodes_red(graphs: list[Data]) -> None:
    grid = nx.grid_2d_graph(*SIDES)
    for graph in graphs:
        assert len(red_nodes(graph)) == SIDES[0] * SIDES[1] / 2
    for graph in graphs[:30]:
        assert nx.is_isomorphic(to_networkx(graph, to_undirected=True), grid)


def test_hardly_two_graphs_are_colored_alike(graphs: list[Data]) -> None:
    """Up to numbering, as far as degrees and distances of red nodes tell."""
    seen = set()
    for graph in graphs:
        net = to_networkx(graph, to_undirected=True)
        distance, red = dict(nx.all_pairs_shortest_path_length(net)), red_nodes(graph)
        rows = [(net.degree(i), *sorted(distance[i][j] for j in red)) for i in red]
        seen.add(tuple(sorted(rows)))
    assert len(seen) >= len(graphs) - 2


def test_local_counts_tell_much_of_the_class(graphs: list[Data]) -> None:
    """Two islands have fewer edges between red nodes; see the docstring of the module."""
    inside = []
    for graph in graphs:
        red = graph.x[:, 1][graph.edge_index]
        inside.append(int((red[0] * red[1]).sum()) // 2)
    two = np.array([int(graph.y) for graph in graphs])
    best = max(np.mean((np.array(inside) < limit) == two) for limit in range(60))
    assert best == pytest.approx(0.805)


def test_a_forest_on_local_counts_tells_more(graphs: list[Data]) -> None:
    """How many nodes of each color have which degree and how many red neighbors: 0.86."""
    rows = []
    for graph in graphs:
        red, source = graph.x[:, 1].long(), graph.edge_index[0]
        degrees = degree(source, graph.num_nodes, torch.long)
        near = degree(source[red[graph.edge_index[1]] == 1], graph.num_nodes, torch.long)
        rows.append(torch.bincount(25 * red + 5 * degrees + near, minlength=50))
    labels = np.array([int(graph.y) for graph in graphs])
    forest = RandomForestClassifier(200, random_state=0)
    guessed = cross_val_predict(forest, torch.stack(rows).numpy(), labels, cv=10)
    assert np.mean(guessed == labels) == pytest.approx(0.86, abs=0.02)
