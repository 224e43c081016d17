"""Structural features of checked batches, for models that are called without `sim`."""

from typing import Optional, Union

import torch
from torch import Tensor
from torch_geometric.utils import to_dense_adj

from torch_geometric_simpool.functional.pooling import DenseBatch, SparseBatch
from torch_geometric_simpool.functional.similarity import structural_similarity
from torch_geometric_simpool.topk.spec import EdgeList
from torch_geometric_simpool.transforms.inputs import (
    ParsedGraphs,
    padded_graphs,
    sorted_graphs,
)
from torch_geometric_simpool.transforms.structural_similarity import StructuralSimilarity
from torch_geometric_simpool.utils.checks import check_node_attr


def features_on_the_fly(
    transform: StructuralSimilarity,
    graphs: Union[SparseBatch, DenseBatch],
    node_attr: Optional[Tensor] = None,
) -> Tensor:
    """Returns the features that a transform writes for the same graphs, bit for bit.

    Args:
        transform (StructuralSimilarity): The transform.
        graphs (SparseBatch or DenseBatch): The graphs.
        node_attr (torch.Tensor, optional): The attribute that `order_attr` names, `[N]` or
            `[N, F]`; `[B, N]` or `[B, N, F]` for a dense batch. (default: :obj:`None`)

    Returns:
        torch.Tensor: `[N, k]`, or `[B, N, k]` with zeros in padded rows; float32.
    """
    name = transform.order_attr
    if name is not None and node_attr is None:
        raise ValueError(
            f"`node_attr` must be given where `sim` is None and `order_attr` is {name!r}: pass "
            "the node attribute of that name"
        )
    node_attr = None if name is None else node_attr
    check_node_attr("node_attr", node_attr, tuple(graphs.x.shape[:-1]))
    parsed = _parsed(graphs, node_attr)
    if transform.weight_attr is None:
        parsed = parsed._replace(edges=parsed.edges._replace(edge_weight=None))
    return parsed.to_data(transform.features(parsed))


def similarity_rows(
    graphs: Union[SparseBatch, DenseBatch], p: int, lam: float, measure: str
) -> Tensor:
    """Returns the rows of C, `[N, N_max]` or `[B, N, N]`.

    A row has the similarities of the nodes of its graph, then zeros. Memory is `O(B N_max^2)`.
    """
    if isinstance(graphs, DenseBatch):
        sim = structural_similarity(graphs.adj, p, lam, measure, graphs.mask)
        if graphs.mask is None:
            return sim
        valid_first = (~graphs.mask).long().argsort(dim=-1, stable=True)
        return sim.gather(-1, valid_first.unsqueeze(1).expand_as(sim))
    parsed = _parsed(graphs, None)
    (edge_index, weight, *_), batch = parsed.edges, parsed.batch
    if batch.numel() == 0:
        return graphs.x.new_zeros(0, 0)
    if weight is not None:  # in half precision, sums of parallel edges would overflow
        weight = weight.to(torch.promote_types(weight.dtype, torch.float32))
    adj = to_dense_adj(edge_index, batch, weight, batch_size=graphs.batch_size)
    size = torch.bincount(batch, minlength=graphs.batch_size)
    mask = torch.arange(adj.size(1), device=adj.device) < size.unsqueeze(-1)
    return parsed.to_data(structural_similarity(adj, p, lam, measure, mask)[mask])


def _parsed(graphs: Union[SparseBatch, DenseBatch], node_attr: Optional[Tensor]) -> ParsedGraphs:
    """Returns the graphs as a block-diagonal graph whose `batch` is sorted."""
    if isinstance(graphs, DenseBatch):
        return padded_graphs(graphs.adj, graphs.mask, node_attr)
    edges = EdgeList(graphs.edge_index, graphs.edge_weight, graphs.batch.numel())
    return sorted_graphs(edges, graphs.batch, graphs.batch_size, node_attr)
