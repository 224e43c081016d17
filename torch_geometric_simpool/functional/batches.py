"""Batches of graphs, sparse and dense: the checked arguments of the public functions."""

from typing import Any, NamedTuple, Optional, Union

import torch
from torch import Tensor
from torch_geometric.utils import is_sparse, to_edge_index

from torch_geometric_simpool.topk.parse import check_edge_index, check_edge_weight
from torch_geometric_simpool.utils.checks import (
    check_batch,
    check_dense,
    check_finite,
    check_floating,
    check_mask,
)


class SparseBatch(NamedTuple):
    """Graphs as one block-diagonal graph, checked."""

    x: Tensor  # [N, F]
    edge_index: Tensor  # [2, E], int64
    batch: Tensor  # [N], int64, in any order
    edge_weight: Optional[Tensor]  # [E]
    batch_size: int


class DenseBatch(NamedTuple):
    """Padded graphs, checked."""

    x: Tensor  # [B, N, F]
    adj: Tensor  # [B, N, N], with zeros in padded places, as in `x`
    mask: Optional[Tensor]  # [B, N]; None without padding


def inverse(permutation: Tensor) -> Tensor:
    """Returns the inverse of a permutation, `[N]`."""
    numbers = torch.arange(permutation.numel(), device=permutation.device)
    return torch.empty_like(permutation).scatter_(0, permutation, numbers)


def pad_rows(rows: Tensor, mask: Tensor) -> Tensor:
    """Returns rows of the valid nodes, `[N, F]`, in padded graphs, with zeros elsewhere."""
    padded = rows.new_zeros(*mask.shape, rows.size(-1))
    return padded.masked_scatter(mask.unsqueeze(-1), rows)


def parse_sparse_batch(
    x: Tensor,
    edge_index: Tensor,
    batch: Optional[Tensor],
    edge_weight: Optional[Tensor],
    batch_size: Optional[int],
) -> SparseBatch:
    """Returns the sparse batch that the arguments of a public function describe."""
    check_floating("x", x, ("N", "F"))
    check_values = batch_size is None or x.is_cpu
    if is_sparse(edge_index):
        edge_index, weight = from_adj_t(edge_index, x.size(0))
        edge_weight = weight if edge_weight is None else edge_weight
    edge_index, _ = check_edge_index(edge_index, x.size(0), check_values, device=x.device, of="x")
    edge_weight = check_edge_weight(edge_weight, edge_index.size(1), check_values, x.device)
    batch, batch_size = check_batch(
        batch, x.size(0), batch_size, x.device, check_values, "x", edge_index
    )
    return SparseBatch(x, edge_index, batch, edge_weight, batch_size)


def parse_dense_batch(x: Tensor, adj: Tensor, mask: Optional[Tensor]) -> DenseBatch:
    """Returns the dense batch that the arguments of a public function describe."""
    check_floating("x", x, ("N", "F"), ("B", "N", "F"))
    check_floating("adj", adj, device=x.device, of="x")
    if x.dim() == 2:
        x, adj = x.unsqueeze(0), adj.unsqueeze(0)
        mask = mask.unsqueeze(0) if isinstance(mask, Tensor) and mask.dim() == 1 else mask
    adj, mask = parse_adj(adj, mask, *x.shape[:2])
    if mask is not None:
        x = x.masked_fill(~mask.unsqueeze(-1), 0)
    return DenseBatch(x, adj, mask)


def parse_adj(
    adj: Tensor,
    mask: Optional[Tensor],
    batch_size: Union[int, str] = "B",
    num_nodes: Union[int, str] = "N",
) -> tuple[Tensor, Optional[Tensor]]:
    """Returns finite adjacency matrices with zeros in padded places, `[B, N, N]`, and the mask.

    Dense edge features, `[B, N, N, D]`, are reduced to binary matrices. The mask is `None` without
    padding.
    """
    sizes = (batch_size, num_nodes, num_nodes)
    check_dense("adj", adj, sizes, (*sizes, "D"))
    mask = check_mask(mask, tuple(adj.shape[:2]), adj.device, "adj")
    if mask is not None and mask.is_cpu and not torch.compiler.is_compiling() and bool(mask.all()):
        mask = None
    if mask is not None:
        padded = ~(mask.unsqueeze(1) & mask.unsqueeze(2))
        adj = adj.masked_fill(padded if adj.dim() == 3 else padded.unsqueeze(-1), 0)
    check_finite("adj", adj, adj.is_cpu)
    return adj if adj.dim() == 3 else (adj != 0).any(dim=-1).to(adj.dtype), mask


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
    n = adj_t.size(0) if num_nodes is None else num_nodes
    num_src, num_dst = n if isinstance(n, tuple) else (n, n)
    if (adj_t.size(0), adj_t.size(1)) != (num_dst, num_src):
        raise ValueError(
            f"`adj_t`, or a sparse `edge_index`, must have shape [{num_dst}, {num_src}], got "
            f"[{adj_t.size(0)}, {adj_t.size(1)}]"
        )
    if isinstance(adj_t, Tensor) and adj_t.layout == torch.sparse_coo:
        # `to_edge_index` would mark an uncoalesced tensor as coalesced, and refuses a tensor that
        # requires a gradient.
        adj_t = adj_t.coalesce()
        transposed, value = adj_t.indices(), adj_t.values()
    else:
        transposed, value = to_edge_index(adj_t)
    if value is None or value.numel() != transposed.size(1):
        return transposed.flip([0]), None
    value = value.reshape(-1)  # a COO tensor can hold a column, [E, 1]
    check_finite("adj_t", value)
    return transposed.flip([0]), value
