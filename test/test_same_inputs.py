"""Forms of edges that every entry point takes alike: columns of weights, and edge features."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import MLP

from helpers.graphs import draw
from torch_geometric_simpool import (
    AddSimilarityEdges,
    SimilarityIndex,
    SimPool,
    StructuralSimilarity,
    dense_sim_pool,
    estimate_topk,
    sim_pool,
    similarity_graph,
    structural_similarity,
    topk_similarity,
)
from torch_geometric_simpool.models import SimPoolNet
from torch_geometric_simpool.topk.matching import match_similar
from torch_geometric_simpool.transforms.node_order import node_order

GRAPH = draw("dyadic", 3)
N, E = GRAPH.num_nodes, len(GRAPH.edges)
EDGES, WEIGHT = GRAPH.edge_index, GRAPH.edge_weight(torch.float32)
X, LOGITS = torch.randn(N, 2), torch.randn(N, 3)
POOL = SimPool(MLP([4, 3], norm=None), k=4)
ROWS = SimPool(MLP([N, 3], norm=None))
NET = SimPoolNet.from_preset("enzymes", 2, 3, width=0.02)


def index(weight: Tensor) -> Any:
    return SimilarityIndex(EDGES, weight, num_nodes=N).query(torch.arange(N), 3)


def grown(weight: Tensor) -> Any:
    grown = SimilarityIndex(EDGES[:, :1], torch.ones(1), num_nodes=N)
    grown.add_edges(EDGES, weight)
    return grown.query(torch.arange(N), 3)


def data(weight: Tensor) -> Data:
    return Data(edge_index=EDGES, edge_weight=weight, num_nodes=N)


@pytest.mark.parametrize(
    "call",
    [
        lambda w: topk_similarity(EDGES, 3, w, N),
        lambda w: [estimate_topk(EDGES, 3, w, N)],
        lambda w: similarity_graph(EDGES, 3, w, N),
        lambda w: [match_similar(EDGES, 3, w, N)],
        index,
        grown,
        lambda w: [node_order(EDGES, "bfs", N, edge_weight=w)],
        lambda w: sim_pool(X, EDGES, LOGITS, edge_weight=w),
        lambda w: POOL(X, EDGES, edge_weight=w),
        lambda w: ROWS(X, EDGES, edge_weight=w),
        lambda w: NET(X, EDGES, edge_weight=w)[:3],
        lambda w: [StructuralSimilarity(3)(data(w)).sim],
        lambda w: [AddSimilarityEdges(3)(data(w)).edge_index],
    ],
)
def test_a_column_of_weights(call: Callable[[Tensor], Any]) -> None:
    """`[E, 1]` gives what `[E]` gives, and that is not what other weights give; `[E, 2]` raises."""
    assert WEIGHT is not None
    expected, found = call(WEIGHT), call(WEIGHT.unsqueeze(1))
    for a, b in zip(expected, found, strict=True):
        assert torch.equal(a, b) if isinstance(a, Tensor) else a == b
    with pytest.raises(ValueError, match=rf"`edge_weight` must have shape \[{E}\] or \[{E}, 1\]"):
        call(torch.ones(E, 2))


def edge_features() -> tuple[Tensor, Tensor]:
    """Padded edge features of two graphs, one of whose entries has a zero; and the mask."""
    adj = torch.zeros(2, N, N, 2)
    adj[0, EDGES[0], EDGES[1], 0] = -2.0
    adj[1, EDGES[1], EDGES[0], 1] = 0.5
    mask = torch.arange(N) < torch.tensor([[N], [N - 2]])
    return adj, mask


def of_transform(adj: Tensor, mask: Tensor) -> list[Tensor]:
    return [StructuralSimilarity(4)(Data(adj=adj, mask=mask, num_nodes=N)).sim]


@pytest.mark.parametrize(
    "call",
    [
        lambda adj, mask: POOL(X.expand(2, -1, -1), adj=adj, mask=mask),
        lambda adj, mask: ROWS(X.expand(2, -1, -1), adj=adj, mask=mask),
        lambda adj, mask: dense_sim_pool(X.expand(2, -1, -1), adj, LOGITS.expand(2, -1, -1), mask),
        of_transform,
    ],
)
def test_dense_edge_features(call: Callable[[Tensor, Tensor], Any]) -> None:
    """Only non-zero or not counts; what is padded is not read."""
    adj, mask = edge_features()
    expected = call((adj != 0).any(dim=-1).float(), mask)
    poisoned = adj.masked_fill(~(mask.unsqueeze(1) & mask.unsqueeze(2)).unsqueeze(-1), torch.nan)
    for a, b in zip(expected, call(poisoned, mask), strict=True):
        assert torch.equal(a, b) if isinstance(a, Tensor) else a is b
    adj[0, 0, 0, 0] = torch.inf
    with pytest.raises(ValueError, match=r"`adj` must be finite, got 1 NaN or infinite"):
        call(adj, mask)


@pytest.mark.parametrize(
    "call",
    [
        lambda adj: POOL(X, adj=adj),
        lambda adj: dense_sim_pool(X, adj, LOGITS),
        lambda adj: of_transform(adj, torch.ones(N, dtype=torch.bool)),
    ],
)
def test_edge_features_of_one_graph(call: Callable[[Tensor], Any]) -> None:
    adj = edge_features()[0][0]
    for a, b in zip(call((adj != 0).any(dim=-1).float()), call(adj), strict=True):
        assert torch.equal(a, b) if isinstance(a, Tensor) else a is b


def test_edge_features_among_batches_of_batches() -> None:
    """`structural_similarity` takes any number of batch dimensions; the error says what to pass."""
    with pytest.raises(ValueError, match=r"`adj` must have shape \[\*, N, N\].*any\(dim=-1\)"):
        structural_similarity(edge_features()[0])
