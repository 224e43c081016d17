"""Many graphs as one: block-diagonal edges, and the top k numbered within each graph."""

from typing import Any, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.topk import topk_similarity


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


def topk_per_graph(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    batch: Tensor,
    batch_size: int,
    k: int,
    **settings: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """The top k of a batch: `values`, `index` local to each graph, and each row's graph size."""
    values, index = topk_similarity(edge_index, k, edge_weight, batch.numel(), **settings)
    count = torch.zeros(batch_size, dtype=torch.long, device=batch.device)
    count = count.index_add(0, batch, torch.ones_like(batch))
    first = (count.cumsum(0) - count)[batch].unsqueeze(-1)
    return values, torch.where(index >= 0, index - first, index), count[batch]
