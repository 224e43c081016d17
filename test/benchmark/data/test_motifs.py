import networkx as nx
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import to_networkx

from harness.data.motifs import MARKS, NUM_MOTIFS, PAIRS, PLAIN, generate_motifs


@pytest.fixture(scope="module")
def graphs() -> list[Data]:
    return generate_motifs(60)


def rings(graph: Data) -> list[list[int]]:
    """The nodes of every ring: the components of the graph without its bridges."""
    net = to_networkx(graph, to_undirected=True)
    net.remove_edges_from(list(nx.bridges(net)))
    return [sorted(part) for part in nx.connected_components(net) if len(part) > 1]


def test_every_mark_occurs_equally_often_in_every_graph(graphs: list[Data]) -> None:
    for graph in graphs:
        count = graph.x.sum(dim=0)
        assert graph.x.sum(dim=1).eq(1).all()
        assert set(count[: len(MARKS)].tolist()) == {NUM_MOTIFS / 2}


def test_the_class_is_which_marks_share_a_ring(graphs: list[Data]) -> None:
    for graph in graphs:
        found = rings(graph)
        assert len(found) == NUM_MOTIFS
        kind = graph.x.argmax(dim=1)
        pairs = {tuple(sorted(k for k in kind[ring].tolist() if k != PLAIN)) for ring in found}
        assert pairs == set(PAIRS[int(graph.y)])


def test_no_two_marks_are_nearer_than_a_first_level_network_sees(graphs: list[Data]) -> None:
    # An edge sees two steps from each of its ends, which is less than six.
    for graph in graphs:
        net = to_networkx(graph, to_undirected=True)
        assert nx.is_connected(net)
        marked = (graph.x.argmax(dim=1) != PLAIN).nonzero().view(-1).tolist()
        distance = dict(nx.all_pairs_shortest_path_length(net, cutoff=6))
        assert all(distance[i].get(j, 7) >= 6 for i in marked for j in marked if i != j)


def test_nodes_are_numbered_at_random(graphs: list[Data]) -> None:
    cut = sum(ring != list(range(ring[0], ring[-1] + 1)) for g in graphs for ring in rings(g))
    assert cut == len(graphs) * NUM_MOTIFS


def test_the_second_form_has_the_same_graphs_ring_by_ring(graphs: list[Data]) -> None:
    again = generate_motifs(60, by_ring=True)
    for graph, other in zip(again, graphs):
        assert torch.equal(graph.y, other.y)
        marked = [to_networkx(g, node_attrs=["x"], to_undirected=True) for g in (graph, other)]
        assert nx.is_isomorphic(*marked, node_match=lambda a, b: a["x"] == b["x"])
    for graph in again:
        for ring in rings(graph):
            assert ring == list(range(ring[0], ring[-1] + 1))
