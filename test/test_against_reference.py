"""Every public operator has the values and gradients of `reference`, graph by graph.

The batches hold graphs of every flavor: empty, edgeless, single-node, directed, weighted and signed
graphs.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch

from helpers import weights
from helpers.gradients import assert_same_gradients
from helpers.graphs import draw_all, union
from helpers.per_graph import GraphBatch, OneGraph, per_graph
from torch_geometric_simpool import (
    StructuralSimilarity,
    map_indices,
    reference,
    structural_similarity,
    topk_similarity,
)
from torch_geometric_simpool.models import GMN, DenseGCN, GMNConv, GMNEncoder
from torch_geometric_simpool.reference.similarity import MEASURES

TOLERANCE = 1e-9
#: The number of graphs of each flavor in a batch, and the width of the features.
SIZES = {"small": (2, 3), "large": (20, 64)}


@lru_cache
def draw_batch(size: str) -> GraphBatch:
    """Draws graphs of all flavors in rounds. Each round ends with an empty graph."""
    graphs = [graph for seed in range(SIZES[size][0]) for graph in draw_all(seed)]
    graph, batch = union(graphs)
    weight = graph.edge_weight()
    assert weight is not None
    return GraphBatch(graph.edge_index, weight, batch, len(graphs))


@pytest.fixture
def small() -> GraphBatch:
    return draw_batch("small")


def random(*shape: int) -> Tensor:
    """Returns a random tensor that requires a gradient."""
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def leaf(values: Tensor) -> Tensor:
    return values.detach().clone().requires_grad_()


def mean_over_graphs(losses: list[Tensor], graphs: list[OneGraph]) -> Tensor:
    """Returns the mean over the graphs that have nodes."""
    return torch.stack([loss for loss, graph in zip(losses, graphs) if graph.num_nodes > 0]).mean()


# ------------------------------------------------------------------ structural features


@pytest.mark.parametrize("measure", list(MEASURES))
@pytest.mark.parametrize(("p", "lam"), [(1, 0.0), (1, 1.0), (2, 0.5), (3, 0.0)])
def test_structural_similarity(small: GraphBatch, p: int, lam: float, measure: str) -> None:
    adj = leaf(small.padded_adj(fill=torch.nan))
    found = structural_similarity(adj, p, lam, measure, small.mask)
    real = small.mask.unsqueeze(1) & small.mask.unsqueeze(2)
    assert (found[~real] == 0).all()
    expected = [
        reference.structural_similarity(a[: g.num_nodes, : g.num_nodes], p, lam, measure).flatten()
        for a, g in zip(adj, small.graphs, strict=True)
    ]
    if measure == "hamming":  # piecewise constant
        torch.testing.assert_close(found[real], torch.cat(expected))
        (gradient,) = torch.autograd.grad(found.sum(), adj, materialize_grads=True)
        assert (gradient == 0).all()
    else:
        assert_same_gradients([found[real]], [torch.cat(expected)], [adj], TOLERANCE)


SETTINGS: list[dict[str, Any]] = [
    {"k": 4},
    {"k": 20, "p": 2, "lam": 0.5},
    {"k": 1, "lam": 1.0},
    {"k": 3, "loop": False, "min_similarity": 0.5},
    {"k": 4, "measure": "jaccard"},
    {"k": 20, "p": 3, "measure": "jaccard", "loop": False},
]


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_topk_similarity(
    small: GraphBatch, settings: dict[str, Any], weighted: bool, backend: str
) -> None:
    """The nodes are equal, because sums of the weights are exact in float64."""
    weight = leaf(small.edge_weight if weighted else torch.ones_like(small.edge_weight))
    given = weight if weighted else None
    values, index = topk_similarity(
        small.edge_index, edge_weight=given, num_nodes=small.num_nodes, backend=backend, **settings
    )

    def topk(graph: OneGraph) -> tuple[Tensor, Tensor]:
        values, index = reference.topk_similarity(graph.adj(weight), **settings)
        return values, index.where(index < 0, index + graph.nodes.start)

    expected = [torch.cat(parts) for parts in zip(*per_graph(topk, small.graphs), strict=True)]
    assert torch.equal(index, expected[1])
    if weighted:
        assert_same_gradients([values], [expected[0]], [weight], TOLERANCE)
    else:
        torch.testing.assert_close(values.double(), expected[0].detach(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("alpha", [1.0, 0.8, 0.0])
def test_map_indices(small: GraphBatch, alpha: float) -> None:
    """Similarities have both signs, and some places are empty."""
    values = random(small.num_nodes, 5)
    sizes = torch.cat(per_graph(lambda g: torch.full((g.num_nodes,), g.num_nodes), small.graphs))
    index = (torch.rand(values.shape) * (sizes + 1).unsqueeze(1)).long() - 1
    values = leaf(values.masked_fill(index < 0, 0))
    expected = per_graph(
        lambda graph, values, index: reference.map_indices(values, index, graph.num_nodes, alpha),
        small.graphs,
        values,
        index,
    )
    found = map_indices(values, index, sizes, alpha)
    assert_same_gradients([found], [torch.cat(expected)], [values], TOLERANCE)


def mapped_features(graph: OneGraph, edge_weight: Tensor, k: int, alpha: float) -> Tensor:
    values, index = reference.topk_similarity(graph.adj(edge_weight), k)
    return reference.map_indices(values, index, graph.num_nodes, alpha)


def test_the_transform(small: GraphBatch) -> None:
    """The transform writes equal `data.sim` for single graphs and for a batch."""
    graphs = [graph.data() for seed in range(2) for graph in draw_all(seed)]
    for data in graphs:
        if data.edge_weight is None:
            data.edge_weight = torch.ones(data.num_edges)
    transform = StructuralSimilarity(k=6, alpha=0.8, order=None)
    expected = per_graph(lambda g: mapped_features(g, small.edge_weight, 6, 0.8), small.graphs)
    for data, sim in zip(graphs, expected, strict=True):
        torch.testing.assert_close(transform(data).sim, sim.float())
    batched = transform(Batch.from_data_list(graphs)).sim
    torch.testing.assert_close(batched, torch.cat(expected).float())


# ------------------------------------------------------------------ the networks


@pytest.mark.parametrize("edge_dim", [None, 2])
def test_gmn_encoder(small: GraphBatch, edge_dim: int | None) -> None:
    encoder = GMNEncoder(3, 5, edge_dim).double()
    x = random(small.num_nodes, 3)
    attr = None if edge_dim is None else random(small.edge_weight.numel(), edge_dim)
    expected = per_graph(lambda _, x: weights.gmn_encoder(encoder, x)[0], small.graphs, x)
    found, edge = encoder(x, attr)
    inputs: list[Tensor] = list(encoder.parameters())
    assert_same_gradients([found], [torch.cat(expected)], [x, *inputs], TOLERANCE)
    if attr is None:
        assert edge is None
    else:
        _, expected_edge = weights.gmn_encoder(encoder, x, attr)
        assert expected_edge is not None
        assert_same_gradients([edge], [expected_edge], [attr, *inputs], TOLERANCE)


@pytest.mark.parametrize("edge_dim", [None, 2])
@pytest.mark.parametrize("act", [True, False])
@pytest.mark.parametrize("out_channels", [5, 70])
@pytest.mark.parametrize("size", SIZES)
def test_gmn_conv(size: str, out_channels: int, act: bool, edge_dim: int | None) -> None:
    """The order of the products depends on whether outputs are narrower than messages."""
    width = SIZES[size][1]
    conv = GMNConv(width, out_channels, 64, edge_dim, act)
    compare_messages(conv, weights.gmn_conv, size, edge_dim)


@pytest.mark.parametrize("edge_dim", [None, 2])
@pytest.mark.parametrize("size", SIZES)
def test_gmn(size: str, edge_dim: int | None) -> None:
    width = SIZES[size][1]
    model = GMN(width, 8, (64, 16), (12, 3), edge_dim)
    compare_messages(model, weights.gmn, size, edge_dim)


def compare_messages(
    model: torch.nn.Module, plain: Callable[..., Tensor], size: str, edge_dim: int | None
) -> None:
    """Compares a network on the edges of a batch with a function of one graph."""
    batch, width = draw_batch(size), SIZES[size][1]
    model = model.double()
    x = random(batch.num_nodes, width)
    inputs: list[Tensor] = [x, *model.parameters()]
    attr = None
    if edge_dim is not None:
        attr = random(batch.edge_weight.numel(), edge_dim)
        inputs.append(attr)

    def alone(graph: OneGraph, x: Tensor) -> Tensor:
        return plain(model, x, graph.edge_index, None if attr is None else attr[graph.edges])

    expected = torch.cat(per_graph(alone, batch.graphs, x))
    assert_same_gradients([model(x, batch.edge_index, attr)], [expected], inputs, TOLERANCE)


@pytest.mark.parametrize("act", [True, False])
def test_dense_gcn(small: GraphBatch, act: bool) -> None:
    model = DenseGCN(3, 4, act).double()
    torch.nn.init.normal_(model.bias)
    x, weight = leaf(small.padded(random(small.num_nodes, 3))), leaf(small.padded_adj().abs())
    # The layer reads the padding of `adj`, which is zero after a pooling.
    adj = weight * (small.mask.unsqueeze(1) & small.mask.unsqueeze(2))
    found = model(x, adj, small.mask)
    assert (found[~small.mask] == 0).all()
    expected = []
    for number, graph in enumerate(small.graphs):
        n = graph.num_nodes
        expected.append(weights.gcn(model, x[number, :n], adj[number, :n, :n]))
    inputs = [x, weight, *model.parameters()]
    assert_same_gradients([found[small.mask]], [torch.cat(expected)], inputs, TOLERANCE)
