"""Conversions to the edges of one block-diagonal graph."""

from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch_geometric.utils import is_sparse, to_edge_index

from torch_geometric_simpool.utils.checks import check_finite


def from_adj_t(
    adj_t: Any, num_nodes: Union[int, tuple[int, int], None] = None
) -> tuple[Tensor, Optional[Tensor]]:
    """Returns the edges of a transposed adjacency matrix, and their weights if it has any.

    Args:
        adj_t (torch.Tensor or torch_sparse.SparseTensor): The matrix, `[num_dst, num_src]`.
        num_nodes (int or tuple, optional): The number of nodes, or the numbers of source and
            destination nodes, which the shape must have. (default: :obj:`None`, a square matrix)
    """
    if not is_sparse(adj_t):
        got = str(adj_t.layout) if isinstance(adj_t, Tensor) else type(adj_t).__name__
        raise TypeError(f"`adj_t` must be a sparse tensor or a SparseTensor, got {got}")
    if isinstance(num_nodes, tuple):
        num_src, num_dst = num_nodes
    else:
        num_src = num_dst = adj_t.size(0) if num_nodes is None else num_nodes
    if (adj_t.size(0), adj_t.size(1)) != (num_dst, num_src):
        raise ValueError(
            f"`adj_t` must have shape [{num_dst}, {num_src}], got "
            f"[{adj_t.size(0)}, {adj_t.size(1)}]"
        )
    if isinstance(adj_t, Tensor) and adj_t.layout == torch.sparse_coo:
        # `to_edge_index` would mark the given tensor as coalesced, even if it is not, and does not
        # take one that needs a gradient.
        adj_t = adj_t.coalesce()
        transposed, value = adj_t.indices(), adj_t.values()
    else:
        transposed, value = to_edge_index(adj_t)
    if value is None or value.numel() != transposed.size(1):
        return transposed.flip([0]), None
    value = value.reshape(-1)  # a COO tensor can hold a column, [E, 1]
    check_finite("adj_t", value)
    return transposed.flip([0]), value


def from_edge_features(adj: Tensor, mask: Optional[Tensor]) -> Tensor:
    """Reduces dense edge features to binary adjacency matrices.

    Args:
        adj: `[B, N, N, D]`, as PyG's `to_dense_adj` and `ToDense` make of `edge_attr`.
        mask: The valid nodes, boolean, `[B, N]`. Padded entries are ignored.

    Returns:
        `[B, N, N]`, in the type of `adj`.
    """
    if mask is not None:
        valid = mask.unsqueeze(1) & mask.unsqueeze(2)
        adj = adj.masked_fill(~valid.unsqueeze(-1), 0)
    check_finite("adj", adj, adj.is_cpu)
    return (adj != 0).any(dim=-1).to(adj.dtype)


def block_diagonal(adj: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the edges of padded graphs, their weights, and the graph of each node.

    Args:
        adj: Adjacency matrices, `[B, N, N]`, or edge features, `[B, N, N, D]`.
        mask: The valid nodes, boolean, `[B, N]`, at any positions. Nodes are numbered in their
            order over all graphs.
    """
    if adj.dim() == 4:
        adj = from_edge_features(adj, mask)
    present = (adj != 0) & mask.unsqueeze(1) & mask.unsqueeze(2)
    graph, row, col = present.nonzero(as_tuple=True)
    node = (mask.view(-1).cumsum(0) - 1).view(mask.shape)
    edge_index = torch.stack([node[graph, row], node[graph, col]])
    return edge_index, adj[graph, row, col], mask.nonzero()[:, 0]
