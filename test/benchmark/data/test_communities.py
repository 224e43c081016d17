from math import ceil
from typing import Optional

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict
from torch_geometric.data import Data
from torch_geometric.utils import degree, to_networkx

from harness.data.communities import BETWEEN, INSIDE, NUM_COMMUNITIES, SIZES, generate_communities
from harness.data.generated import renumbered

Parts = list[set[int]]


@pytest.fixture(scope="module")
def graphs() -> list[Data]:
    return generate_communities()


def are_communities(net: nx.Graph, parts: Parts) -> bool:
    """Whether they are what the definition says: of one size, connected, and few edges between."""
    of = {node: i for i, part in enumerate(parts) for node in part}
    return (
        [len(part) for part in parts] == [len(net) // NUM_COMMUNITIES] * NUM_COMMUNITIES
        and sum(of[u] != of[v] for u, v in net.edges) == ceil(BETWEEN * len(net))
        and all(nx.is_connected(net.subgraph(part)) for part in parts)
    )


def find_communities(graph: Data) -> Optional[Parts]:
    """Searches by modularity, from the edges alone."""
    net = to_networkx(graph, to_undirected=True)
    for seed in range(20):
        for resolution in (0.3, 0.5, 0.7, 1.0):
            parts = nx.community.louvain_communities(net, resolution=resolution, seed=seed)
            if are_communities(net, parts):
                return parts
    return None


def majority_of_majorities(graph: Data, parts: Parts) -> int:
    votes = graph.x.argmax(dim=1)
    won = [sum(int(votes[node]) for node in part) > len(part) / 2 for part in parts]
    return int(sum(won) > NUM_COMMUNITIES / 2)


def test_the_class_is_the_majority_of_the_majorities(graphs: list[Data]) -> None:
    generator = torch.Generator().manual_seed(0)
    found = 0
    for graph in graphs[:60]:
        for numbered in (graph, renumbered(graph, generator)):
            parts = find_communities(numbered)
            if parts is not None:
                found += 1
                assert majority_of_majorities(numbered, parts) == int(graph.y)
    # The search is not exact, but nearly always succeeds.
    assert found >= 114


def test_half_of_all_nodes_vote_for_and_no_community_is_undecided(graphs: list[Data]) -> None:
    for graph in graphs:
        assert graph.x.sum(dim=0).tolist() == [graph.num_nodes / 2] * 2
    for graph in graphs[:20]:
        votes = graph.x.argmax(dim=1)
        for part in find_communities(graph) or []:
            assert 2 * sum(int(votes[node]) for node in part) != len(part)


def test_graphs_are_connected_and_of_the_sizes_of_the_definition(graphs: list[Data]) -> None:
    sizes = {graph.num_nodes // NUM_COMMUNITIES for graph in graphs}
    assert sizes == set(SIZES)
    assert all(nx.is_connected(to_networkx(graph, to_undirected=True)) for graph in graphs)
    inside, pairs = 0.0, 0.0
    for graph in graphs:
        size = graph.num_nodes // NUM_COMMUNITIES
        inside += graph.num_edges / 2 - ceil(BETWEEN * graph.num_nodes)
        pairs += NUM_COMMUNITIES * size * (size - 1) / 2
    # Slightly more, since communities that are not connected are drawn again.
    assert INSIDE < inside / pairs < INSIDE + 0.02


def test_sizes_and_degrees_do_not_tell_the_class(graphs: list[Data]) -> None:
    """Nor do the degrees of those who vote for, and of those who vote against."""
    rows = []
    for graph in graphs:
        degrees = degree(graph.edge_index[0], graph.num_nodes, torch.long).clamp(max=14)
        counts = [torch.bincount(degrees[column > 0], minlength=15) for column in graph.x.t()]
        rows.append(torch.cat([*counts, torch.tensor([graph.num_nodes, graph.num_edges])]))
    labels = [int(graph.y) for graph in graphs]
    forest = RandomForestClassifier(50, random_state=0)
    guessed = cross_val_predict(forest, torch.stack(rows).numpy(), labels, cv=5)
    assert 0.4 < np.mean(guessed == np.array(labels)) < 0.6
