"""Locality equals its definitions, written as loops."""

import math
from random import Random

import pytest
import torch
from torch import Tensor

from helpers.graphs import FLAVORS, Graph, all_distances, draw, draw_all, union
from torch_geometric_simpool.analysis.locality import Locality, locality


def naive(graph: Graph, cluster: list[int], num_clusters: int) -> list[float]:
    """Computes the definitions pair by pair."""
    n = graph.num_nodes
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    joined = {(min(e), max(e)) for e in graph.edges if e[0] != e[1]}
    same = [(i, j) for i, j in pairs if cluster[i] == cluster[j]]
    inside = sum(e in set(same) for e in joined) / len(joined) if joined else math.nan
    chance = len(same) / len(pairs) if pairs else math.nan
    distance = all_distances(graph).tolist()
    within = [distance[i][j] for i, j in same if distance[i][j] < 1e9]
    overall = [distance[i][j] for i, j in pairs if distance[i][j] < 1e9]
    ratio = math.nan
    if within:
        ratio = (sum(within) / len(within)) / (sum(overall) / len(overall))
    used = sorted(set(cluster))
    whole = 0
    for c in used:
        members = [i for i in range(n) if cluster[i] == c]
        seen, queue = {members[0]}, [members[0]]
        while queue:
            i = queue.pop()
            for j in members:
                if j not in seen and (min(i, j), max(i, j)) in joined:
                    seen.add(j)
                    queue.append(j)
        whole += len(seen) == len(members)
    shares = [cluster.count(c) / n for c in used]
    evenness = -sum(q * math.log(q) for q in shares) / math.log(num_clusters) if n else math.nan
    connected = whole / len(used) if used else math.nan
    return [inside, chance, ratio, connected, len(used), evenness]


def table(measures: Locality) -> Tensor:
    return torch.stack(list(measures), dim=1)


def test_equals_the_definitions() -> None:
    for seed, flavor in enumerate(2 * list(FLAVORS)):
        graph = draw(flavor, seed)
        rng = Random(seed)
        cluster = [rng.randrange(3) for _ in range(graph.num_nodes)]
        measures = locality(graph.edge_index, torch.tensor(cluster, dtype=torch.long), 3)
        expected = torch.tensor([naive(graph, cluster, 3)], dtype=torch.float64)
        torch.testing.assert_close(table(measures), expected, equal_nan=True)


def test_a_batch_is_its_graphs() -> None:
    graphs = draw_all(1)
    whole, batch = union(graphs)
    cluster = torch.randint(0, 4, (batch.numel(),))
    together = table(locality(whole.edge_index, cluster, 4, batch, len(graphs)))
    parts = cluster.split([g.num_nodes for g in graphs])
    alone = [table(locality(g.edge_index, c, 4)) for g, c in zip(graphs, parts)]
    torch.testing.assert_close(together, torch.cat(alone), equal_nan=True, rtol=0, atol=0)
    number = torch.randperm(batch.numel())
    nodes = number.argsort()
    mixed = locality(number[whole.edge_index], cluster[nodes], 4, batch[nodes], len(graphs))
    torch.testing.assert_close(table(mixed), together, equal_nan=True)


def test_by_hand() -> None:
    # An edge joins two triangles, and each triangle is a cluster.
    edges = torch.tensor([[0, 1, 2, 2, 3, 4, 5], [1, 2, 0, 3, 4, 5, 3]])
    measures = locality(edges, torch.tensor([0, 0, 0, 1, 1, 1]), num_clusters=2)
    assert measures.edges_inside.item() == pytest.approx(6 / 7)
    assert measures.edges_by_chance.item() == pytest.approx(6 / 15)
    # 7 pairs have distance one, 4 pairs distance two, and 4 pairs distance three.
    assert measures.distance_ratio.item() == pytest.approx(1 / (27 / 15))
    assert measures.connected.item() == 1
    assert measures.clusters.item() == 2
    assert measures.evenness.item() == pytest.approx(1)


def test_chance_is_the_mean_over_random_assignments() -> None:
    graph = draw("undirected", 4)
    cluster = torch.tensor([i % 3 for i in range(graph.num_nodes)])
    one = locality(graph.edge_index, cluster, 3)
    drawn = [
        locality(graph.edge_index, cluster[torch.randperm(graph.num_nodes)], 3) for _ in range(400)
    ]
    mean = torch.cat([d.edges_inside for d in drawn]).mean().item()
    assert mean == pytest.approx(one.edges_by_chance.item(), abs=0.05)


def test_mean_leaves_out_what_is_not_defined() -> None:
    edges = torch.tensor([[0], [1]])
    batch = torch.tensor([0, 0, 1])
    mean = locality(edges, torch.tensor([0, 0, 1]), 2, batch).mean()
    assert mean["edges_inside"] == 1
    assert mean["clusters"] == 1
    nothing = locality(torch.empty(2, 0, dtype=torch.long), torch.tensor([], dtype=torch.long), 2)
    assert nothing.clusters.tolist() == [0]
    assert math.isnan(nothing.mean()["evenness"])


WRONG = [
    ({"cluster": torch.tensor([[0, 1]])}, "cluster"),
    ({"cluster": torch.tensor([0.0, 1.0])}, "cluster"),
    ({"cluster": torch.tensor([0, 2])}, "cluster"),
    ({"cluster": torch.tensor([-1, 0])}, "cluster"),
    ({"num_clusters": 0}, "num_clusters"),
    ({"edge_index": torch.tensor([[0], [2]])}, "edge_index"),
    ({"batch": torch.tensor([0, 1])}, "edge_index"),
]


def test_errors() -> None:
    arguments = {"edge_index": torch.tensor([[0], [1]]), "cluster": torch.zeros(2).long()}
    for changed, name in WRONG:
        with pytest.raises((TypeError, ValueError), match=f"`{name}`"):
            locality(**{**arguments, "num_clusters": 2, **changed})


def test_empty_clusters_take_no_memory() -> None:
    edges, cluster = torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([0, 0, 1, 1])
    few = locality(edges, cluster, 2)._asdict()
    for most in (10**12, 10**30):
        many = locality(edges, cluster * (10**12 - 1), most)._asdict()
        assert many.pop("evenness").item() == pytest.approx(math.log(2) / math.log(most))
        assert many == {name: few[name] for name in many}
