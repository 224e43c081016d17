"""Random calls, drawn and shrunk by hypothesis."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Batch, Data

import torch_geometric_simpool as simpool
from helpers import oracle
from helpers.graphs import Graph
from helpers.top_rows import assert_is_top

cases = settings(max_examples=60, deadline=None, derandomize=True)


@st.composite
def graphs(draw: st.DrawFn, weighted: bool = True, least: int = 0) -> Graph:
    """Draws directed multigraphs with few distinct rows and weights, so that ties are common."""
    num_nodes = draw(st.integers(least, 9))
    node = st.integers(0, max(num_nodes - 1, 0))
    edges = draw(st.lists(st.tuples(node, node), max_size=24 if num_nodes else 0))
    if draw(st.booleans()):
        edges += [(j, i) for i, j in edges]
    weight = st.sampled_from([-1.0, 0.0, 0.25, 1.0, 2.0])
    size = len(edges)
    weights = draw(st.none() | st.lists(weight, min_size=size, max_size=size)) if weighted else None
    return Graph(num_nodes, tuple(edges), None if weights is None else tuple(weights))


SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "p": st.integers(1, 2),
        "lam": st.sampled_from([0.0, 1.0, 0.5]),
        "measure": st.sampled_from(["cosine", "jaccard", "dice"]),
        "loop": st.booleans(),
        "max_degree": st.integers(0, 6),
        "exclude_neighbors": st.booleans(),
    },
)


def topk(graph: Graph, k: int, **arguments: Any) -> tuple[Tensor, Tensor]:
    return simpool.topk_similarity(
        graph.edge_index, k, graph.edge_weight(), graph.num_nodes, **arguments
    )


@cases
@given(graphs(), st.integers(1, 11), SETTINGS, st.sampled_from(["numba", "torch"]))
def test_topk_is_exact(graph: Graph, k: int, chosen: dict[str, Any], backend: str) -> None:
    expected = dict(chosen)
    if expected.pop("exclude_neighbors", False):
        expected["excluded"] = frozenset(graph.edges)
    rows = oracle.candidates(
        graph.exact_adj, expected.pop("p", 1), expected.pop("lam", 0.0), **expected
    )
    assert_is_top(topk(graph, k, backend=backend, **chosen), rows, k)


@cases
@given(graphs(least=1), st.integers(1, 5), SETTINGS, st.data())
def test_rows_are_rows_of_the_full_top_k(
    graph: Graph, k: int, chosen: dict[str, Any], data: st.DataObject
) -> None:
    nodes = torch.tensor(data.draw(st.lists(st.integers(0, graph.num_nodes - 1))), dtype=torch.long)
    for selected, full in zip(topk(graph, k, nodes=nodes, **chosen), topk(graph, k, **chosen)):
        assert torch.equal(selected, full[nodes])


@cases
@given(graphs(least=1), graphs(least=9))
def test_an_edited_index_equals_a_new_one(graph: Graph, other: Graph) -> None:
    """An index with the added edges of another graph equals a new index of all edges."""
    size, added = max(graph.num_nodes, other.num_nodes), other.edge_index
    weight, both = torch.ones(len(graph.edges)), torch.cat([graph.edge_index, added], 1)
    index = simpool.SimilarityIndex(graph.edge_index, weight, size)
    index.add_edges(added, torch.ones(added.size(1)))
    expected = simpool.topk_similarity(both, 4, torch.ones(both.size(1)), size)
    assert all(map(torch.equal, index.query(torch.arange(size), 4), expected))


@cases
@given(st.lists(graphs(), min_size=1, max_size=4), st.integers(1, 4))
def test_pooling_a_batch_is_pooling_each_graph(parts: list[Graph], num_clusters: int) -> None:
    generator = torch.Generator().manual_seed(0)
    samples = [
        Data(
            x=torch.randn(graph.num_nodes, 3, dtype=torch.float64, generator=generator),
            s=torch.randn(graph.num_nodes, num_clusters, dtype=torch.float64, generator=generator),
            edge_index=graph.edge_index,
            edge_weight=torch.ones(len(graph.edges), dtype=torch.float64),
        )
        for graph in parts
    ]
    batch = Batch.from_data_list(samples)
    pooled = simpool.sim_pool(
        batch.x, batch.edge_index, batch.s, batch.batch, batch.edge_weight, batch_size=len(parts)
    )
    for number, (graph, data) in enumerate(zip(parts, samples)):
        adj = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
        adj.index_put_(tuple(data.edge_index), data.edge_weight, accumulate=True)
        single = simpool.dense_sim_pool(data.x, adj, data.s)
        torch.testing.assert_close(pooled[0][number], single[0][0])
        torch.testing.assert_close(pooled[1][number], single[1][0])


@cases
@given(graphs(weighted=False, least=1), st.randoms(use_true_random=False))
def test_similarities_follow_a_renumbering(graph: Graph, random: Any) -> None:
    number = list(range(graph.num_nodes))
    random.shuffle(number)
    renumbered = Graph(graph.num_nodes, tuple((number[i], number[j]) for i, j in graph.edges))
    values, _ = topk(graph, 5)
    assert torch.equal(topk(renumbered, 5)[0][number], values)


WRONG: dict[str, st.SearchStrategy] = {
    "k": st.sampled_from([0, -1, 1.5, True, "2", None]),
    "p": st.sampled_from([0, 1.5, None, "1"]),
    "lam": st.sampled_from([-0.5, float("nan"), float("inf"), "0", None]),
    "measure": st.sampled_from(["l2", "", None, 1]),
    "loop": st.sampled_from([0, None, "no"]),
    "min_similarity": st.sampled_from([2.0, float("nan"), "0"]),
    "max_degree": st.sampled_from([-1, 0.5, "1"]),
    "memory_budget": st.sampled_from([0, -1, 1.5, "1 GiB"]),
    "backend": st.sampled_from(["cuda", None, 0]),
    "num_nodes": st.sampled_from([-1, 2.5, "3", 2**62]),
    "nodes": st.sampled_from([torch.tensor([3]), torch.tensor([-1]), torch.tensor([0.5])]),
    "edge_weight": st.sampled_from([torch.ones(3), torch.tensor([1.0, torch.nan]), 1.0]),
    "edge_index": st.sampled_from([torch.ones(2, 2), torch.tensor([0, 1]), None, [[0], [1]]]),
}


@cases
@given(st.sampled_from(sorted(WRONG)), st.data())
def test_a_wrong_argument_is_named(name: str, data: st.DataObject) -> None:
    arguments = {"edge_index": torch.tensor([[0, 1], [1, 2]]), "k": 2}
    with pytest.raises((TypeError, ValueError), match=f"`{name}`"):
        simpool.topk_similarity(**{**arguments, name: data.draw(WRONG[name])})


@settings(cases, max_examples=5)
@given(graphs(least=5))
def test_threads_do_not_disturb_each_other(graph: Graph) -> None:
    expected = topk(graph, 4)
    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(lambda _: topk(graph, 4), range(20)):
            assert all(map(torch.equal, result, expected))
