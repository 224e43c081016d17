"""Structural features of tensors, computed where they are read: for layers without `sim`."""

from typing import Optional

import torch
from torch import Tensor
from torch_geometric.utils import to_dense_adj

from torch_geometric_simpool.functional.mapping import map_indices
from torch_geometric_simpool.functional.similarity import structural_similarity
from torch_geometric_simpool.topk.spec import EdgeList
from torch_geometric_simpool.transforms.inputs import ParsedGraphs
from torch_geometric_simpool.transforms.structural_similarity import StructuralSimilarity
from torch_geometric_simpool.utils.batching import block_diagonal
from torch_geometric_simpool.utils.checks import check_node_attr


def sparse_features(transform: StructuralSimilarity, graphs: ParsedGraphs, sync: bool) -> Tensor:
    """What the transform writes for the graphs of a sparse batch, `[N, k]`, bit for bit.

    As there, `weight_attr=None` ignores weights. `graphs.node_attr` is checked here.
    """
    node_attr = _read_attr(transform, graphs.node_attr, (graphs.batch.numel(),), sync)
    weight = None if transform.weight_attr is None else graphs.edges.edge_weight
    edges = graphs.edges._replace(edge_weight=weight)
    return transform.features(graphs._replace(edges=edges, node_attr=node_attr))


def dense_features(
    transform: StructuralSimilarity,
    adj: Tensor,
    mask: Optional[Tensor],
    node_attr: Optional[Tensor],
) -> Tensor:
    """What the transform writes for padded graphs, `[B, N, k]`, bit for bit; zeros where padded.

    Args:
        transform: As above.
        adj: `[B, N, N]`, with zeros in padded places.
        mask: The valid nodes, boolean, `[B, N]`.
        node_attr: `[B, N]` or `[B, N, F]`.
    """
    if mask is None:
        mask = adj.new_ones(adj.shape[:2], dtype=torch.bool)
    node_attr = _read_attr(transform, node_attr, tuple(mask.shape), sync=False)
    node_attr = None if node_attr is None else node_attr[mask]
    edge_index, edge_weight, batch = block_diagonal(adj, mask)
    edges = EdgeList(edge_index, edge_weight, batch.numel())
    graphs = ParsedGraphs(edges, batch, adj.size(0), node_attr)
    features = sparse_features(transform, graphs, sync=True)
    padded = features.new_zeros(*mask.shape, transform.k)
    return padded.masked_scatter(mask.unsqueeze(-1), features)


def mapped_rows(sim: Tensor, mask: Optional[Tensor], k: int, alpha: float) -> Tensor:
    """Mapped features of the rows of `C`, `[B, N, k]`, for a measure that has no sparse form.

    Args:
        sim: `C`, `[B, N, N]`.
        mask: The valid nodes, boolean, `[B, N]`.
        k: The number of features.
        alpha: As in :func:`map_indices`.
    """
    if mask is None:
        mask = sim.new_ones(sim.shape[:2], dtype=torch.bool)
    index = torch.full((*mask.shape, k), -1, device=sim.device)
    if sim.size(1) == 0:
        return sim.new_zeros(index.shape)
    # Stable: equal similarities stay in the order of their indices.
    chosen = sim.detach().argsort(dim=-1, descending=True, stable=True)[..., :k]
    index[..., : chosen.size(-1)] = chosen
    values = sim.gather(-1, index.clamp(min=0)).masked_fill(index < 0, 0)
    # A node's number is its rank among the valid ones.
    rank = (mask.cumsum(dim=1) - 1).unsqueeze(1).expand(sim.shape)
    number = rank.gather(-1, index.clamp(min=0)).masked_fill(values == 0, -1)
    num_nodes = mask.sum(dim=1, keepdim=True).expand(mask.shape)
    return map_indices(values, number, num_nodes, alpha)


def sparse_rows(graphs: ParsedGraphs, count: Tensor, p: int, lam: float, measure: str) -> Tensor:
    """The rows of C of a sparse batch, `[N, N_max]`; `count` holds the sizes of the graphs."""
    if graphs.batch.numel() == 0:
        return torch.zeros(0, 0, device=graphs.batch.device)
    weight = graphs.edges.edge_weight
    if weight is not None:  # in a narrow type, sums of parallel edges would overflow
        weight = weight.to(torch.promote_types(weight.dtype, torch.float32))
    adj = to_dense_adj(graphs.edges.edge_index, graphs.batch, weight, batch_size=graphs.num_graphs)
    mask = torch.arange(adj.size(1), device=adj.device) < count.unsqueeze(-1)
    return structural_similarity(adj, p, lam, measure, mask)[mask]


def _read_attr(
    transform: StructuralSimilarity, value: Optional[Tensor], nodes: tuple[int, ...], sync: bool
) -> Optional[Tensor]:
    """The attribute by which nodes are distinguished in an order."""
    name = transform.order_attr
    if name is None:
        return None
    if value is None:
        raise ValueError(
            f"`node_attr` must be given where `order_attr` is {name!r} and `sim` is not given: it "
            "is the node attribute of that name, got None"
        )
    return check_node_attr("node_attr", value, nodes, sync)
