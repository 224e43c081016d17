"""From what PyG calls a graph, or a batch of them, to edges of one block-diagonal graph."""

from typing import Any, Optional

import torch
from torch import Tensor
from torch_geometric.utils import is_sparse, to_edge_index

from torch_geometric_simpool.utils.checks import check_finite


def from_adj_t(adj_t: Any, num_nodes: Optional[int] = None) -> tuple[Tensor, Optional[Tensor]]:
    """The edges of a transposed sparse matrix, and their weights if it holds one number each.

    `adj_t` is a sparse PyTorch tensor or a `torch_sparse.SparseTensor`.
    """
    if isinstance(adj_t, Tensor) and adj_t.layout == torch.sparse_coo:
        # PyG would mark the tensor itself as free of duplicates.
        adj_t = adj_t.coalesce()
    if not is_sparse(adj_t):
        came = str(adj_t.layout) if isinstance(adj_t, Tensor) else type(adj_t).__name__
        raise TypeError(f"`adj_t` must be a sparse tensor or a SparseTensor, got {came}")
    expected = adj_t.size(0) if num_nodes is None else num_nodes
    if (adj_t.size(0), adj_t.size(1)) != (expected, expected):
        raise ValueError(
            f"`adj_t` must have shape [{expected}, {expected}], got "
            f"[{adj_t.size(0)}, {adj_t.size(1)}]"
        )
    transposed, value = to_edge_index(adj_t)
    value = one_per_edge(value)
    if value is None or value.dim() != 1:
        return transposed.flip([0]), None
    check_finite("adj_t", value)
    return transposed.flip([0]), value


def one_per_edge(value: Any) -> Any:
    """A column of numbers, `[E, 1]`, as the numbers, `[E]`; anything else as it is."""
    if isinstance(value, Tensor) and value.dim() == 2 and value.size(1) == 1:
        return value.squeeze(1)
    return value


def block_diagonal(adj: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The edges, their weights, and the graph of each node, of dense graphs.

    Real nodes are numbered through, whatever their places: `adj` `[B, N, N]` or, with
    features of edges, of which only their presence counts, `[B, N, N, D]`; `mask` `[B, N]`.
    """
    there = adj != 0 if adj.dim() == 3 else (adj != 0).any(dim=-1)
    there = there & mask.unsqueeze(1) & mask.unsqueeze(2)
    graph, row, col = there.nonzero(as_tuple=True)
    node = (mask.view(-1).cumsum(0) - 1).view(mask.shape)
    edge_index = torch.stack([node[graph, row], node[graph, col]])
    weight = adj[graph, row, col] if adj.dim() == 3 else torch.ones_like(graph)
    return edge_index, weight, mask.nonzero()[:, 0]
