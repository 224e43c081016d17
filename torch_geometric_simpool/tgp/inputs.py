"""The forms of a graph that tgp knows, as edges or as one of tgp's own."""

from typing import Any, Optional

import torch
from tgp.utils import connectivity_to_edge_index, is_dense_adj
from torch import Tensor

from torch_geometric_simpool.utils.checks import shape


def readable(adj: Any) -> Any:
    """`adj` in a form that tgp reads: of sparse tensors, it knows coalesced COO alone."""
    if adj is None:
        raise ValueError("`adj` must be given, got None")
    if isinstance(adj, Tensor) and adj.layout != torch.strided:
        return adj.to_sparse_coo().coalesce()
    return adj


def read_edges(adj: Any, edge_weight: Optional[Tensor]) -> tuple[Tensor, Optional[Tensor]]:
    """The edges of `edge_index`, a sparse tensor or a `SparseTensor`; their weights, `[E]`.

    Unlike PyG's `adj_t`, sparse matrices are not transposed in tgp: `A[i, j]` is the edge from
    i to j.
    """
    adj = readable(adj)
    if is_dense_adj(adj):
        raise ValueError(
            "`adj` must be `edge_index` or a sparse matrix where graphs are not `batched`, got a "
            f"dense one, {shape(adj)}"
        )
    return connectivity_to_edge_index(adj, edge_weight)
