"""The forms of a graph that tgp knows, as edges or as one of tgp's own."""

from typing import Any, Optional

from tgp.utils import connectivity_to_edge_index, is_dense_adj
from torch import Tensor
from torch_geometric.utils import is_sparse

from torch_geometric_simpool.utils.checks import is_integral, shape


def readable(adj: Any, num_nodes: Optional[int]) -> Any:
    """`adj` in a form that tgp reads: `edge_index` in int64, sparse tensors in coalesced COO."""
    if adj is None:
        raise ValueError("`adj` must be given, got None")
    if is_sparse(adj):
        # Smaller ones, which end at the last node with an edge, are what tgp makes.
        if num_nodes is not None and max(adj.size(0), adj.size(1)) > num_nodes:
            raise ValueError(
                f"`adj` must have shape [{num_nodes}, {num_nodes}], one row for each node of `x`, "
                f"got [{adj.size(0)}, {adj.size(1)}]"
            )
        return adj.to_sparse_coo().coalesce() if isinstance(adj, Tensor) else adj
    if isinstance(adj, Tensor) and adj.dim() == 2 and is_integral(adj.dtype):
        if adj.size(0) != 2:
            raise TypeError(
                "`adj` must be `edge_index`, [2, E], or floating point where it is a dense matrix, "
                f"got {shape(adj)} of {adj.dtype}"
            )
        return adj.long()
    return adj


def read_edges(
    adj: Any, edge_weight: Optional[Tensor], num_nodes: Optional[int]
) -> tuple[Tensor, Optional[Tensor]]:
    """The edges of `edge_index`, a sparse tensor or a `SparseTensor`; their weights, `[E]`.

    Unlike PyG's `adj_t`, sparse matrices are not transposed in tgp: `A[i, j]` is the edge from
    i to j.
    """
    adj = readable(adj, num_nodes)
    if is_dense_adj(adj):
        raise ValueError(
            "`adj` must be `edge_index` or a sparse matrix where graphs are not `batched`, got a "
            f"dense one, {shape(adj)}"
        )
    return connectivity_to_edge_index(adj, edge_weight)
