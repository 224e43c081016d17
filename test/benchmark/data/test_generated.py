"""What holds for every generated data set."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected, to_networkx

from harness.data import communities, islands
from harness.data.generated import make_graph, renumbered, shuffled
from harness.data.load import GENERATED, load
from harness.data.motifs import BY_RING

NUM_GRAPHS = 60


def graphs_of(name: str, seed: int = 0) -> list[Data]:
    return GENERATED[name].generate(num_graphs=NUM_GRAPHS, seed=seed)


def same(a: Data, b: Data) -> bool:
    return all(torch.equal(a[key], b[key]) for key in ("x", "edge_index", "y"))


@pytest.mark.parametrize("name", GENERATED)
def test_same_seed_same_graphs(name: str) -> None:
    graphs = graphs_of(name)
    assert all(map(same, graphs, graphs_of(name)))
    assert not any(map(same, graphs, graphs_of(name, seed=1)))


@pytest.mark.parametrize("name", GENERATED)
def test_classes_are_equally_frequent_and_not_in_order(name: str) -> None:
    labels, classes = [int(graph.y) for graph in graphs_of(name)], GENERATED[name].num_classes
    assert Counter(labels) == dict.fromkeys(range(classes), NUM_GRAPHS // classes)
    assert labels != sorted(labels)
    assert labels != [i % classes for i in range(NUM_GRAPHS)]


@pytest.mark.parametrize("name", GENERATED)
def test_graphs_are_simple_and_undirected(name: str) -> None:
    for graph in graphs_of(name):
        assert is_undirected(graph.edge_index, num_nodes=graph.num_nodes)
        assert not graph.has_self_loops()
        assert graph.is_coalesced() or graph.coalesce().num_edges == graph.num_edges
        assert graph.x.sum(dim=1).eq(1).all()


@pytest.mark.parametrize("name", [name for name in GENERATED if name != BY_RING])
def test_numbers_say_nothing_about_nodes(name: str) -> None:
    """Ends of edges are as far apart in number as any two nodes, and as often low as high."""
    between, low = [], []
    for graph in graphs_of(name):
        row, col = graph.edge_index / (graph.num_nodes - 1)
        chance = (graph.num_nodes + 1) / (3 * (graph.num_nodes - 1))
        between.append(float((row - col).abs().mean()) / chance)
        for column in graph.x.t():
            if 0 < column.sum() < graph.num_nodes:
                where = column.nonzero().view(-1) / (graph.num_nodes - 1)
                low.append(float(where.mean()))
    assert np.mean(between) == pytest.approx(1, abs=0.04)
    assert np.mean(low) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("name", [communities.NAME, islands.NAME])
def test_data_sets_as_they_are_loaded(name: str) -> None:
    data = load(name, "no folder", False, None, 0)
    assert (data.name, data.node_features, data.num_attributes) == (name, "labels", 0)
    assert len(data.graphs) % data.num_classes == 0
    assert data.describe()["num_classes"] == len(set(data.labels.tolist()))


def test_a_graph_and_its_numbers() -> None:
    graph = make_graph(torch.tensor([0, 2, 1]), 3, torch.tensor([[0, 1], [1, 2]]), 1)
    assert graph.x.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    assert graph.y.tolist() == [1]
    generator = torch.Generator().manual_seed(0)
    seen = set()
    for _ in range(50):
        other = renumbered(graph, generator)
        a, b = (to_networkx(g, node_attrs=["x"], to_undirected=True) for g in (graph, other))
        assert nx.is_isomorphic(a, b, node_match=lambda u, v: u["x"] == v["x"])
        seen.add(tuple(other.x.argmax(dim=1).tolist()))
    assert len(seen) == 6


def test_a_random_order_has_every_graph_once() -> None:
    graphs = [Data(y=torch.tensor([i])) for i in range(20)]
    order = [int(graph.y) for graph in shuffled(graphs, torch.Generator().manual_seed(0))]
    assert sorted(order) == list(range(20)) != order
