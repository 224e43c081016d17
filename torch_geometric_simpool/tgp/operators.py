"""The select and connect operators of :class:`SimPooling`."""

from typing import Any, Optional, Union

from tgp.connect import Connect
from tgp.select import MLPSelect, SelectOutput
from tgp.utils import connectivity_to_edge_index, is_dense_adj
from tgp.utils.ops import dense_to_block_diag
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import is_sparse, is_torch_sparse_tensor, to_dense_batch

from torch_geometric_simpool.functional.assignment import FEATURES, assignment_input
from torch_geometric_simpool.functional.segment import segment_matmul_t, spmm
from torch_geometric_simpool.transforms.structural_similarity import StructuralSimilarity
from torch_geometric_simpool.utils.checks import check_choice, check_floating, check_int, shape


def as_coo(adj: Any) -> Any:
    """Returns sparse tensors in coalesced COO form, the only one that tgp reads."""
    sparse = isinstance(adj, Tensor) and is_torch_sparse_tensor(adj)
    return adj.to_sparse_coo().coalesce() if sparse else adj


def read_edges(adj: Any, edge_weight: Optional[Tensor]) -> tuple[Tensor, Optional[Tensor]]:
    """Returns the edges and weights of `edge_index`, a sparse tensor or a `SparseTensor`.

    Unlike PyG's `adj_t`, sparse matrices are not transposed in tgp.
    """
    if not (isinstance(adj, Tensor) or is_sparse(adj)):
        raise TypeError(
            f"`adj` must be the edges or the adjacency matrices, got {type(adj).__name__}"
        )
    adj = as_coo(adj)
    if is_dense_adj(adj):
        raise ValueError(
            f"`adj` must be sparse for a pooler with batched=False, got a dense one, {shape(adj)}"
        )
    return connectivity_to_edge_index(adj, edge_weight)


class SimSelect(MLPSelect):
    r"""Computes `S = softmax(MLP(features))` from structural features, node features, or both.

    Args:
        in_channels (int or list of int): Number of node features, or a list with the widths of the
            hidden layers as well.
        k (int): Number of clusters.
        transform (StructuralSimilarity): Computes the structural features.
        features (str): `'structural'`, `'node'` or `'both'`.
        adj_transpose (bool): Whether dense adjacency matrices are transposed.
        **kwargs (optional): Arguments of :class:`tgp.select.MLPSelect`.
    """

    def __init__(
        self,
        in_channels: Union[int, list[int]],
        k: int,
        transform: StructuralSimilarity,
        features: str,
        adj_transpose: bool,
        **kwargs: Any,
    ) -> None:
        check_choice("features", features, FEATURES)
        widths = in_channels if isinstance(in_channels, (list, tuple)) else [in_channels]
        channels, *hidden = [check_int("in_channels", width, 1) for width in widths or [0]]
        width = {"structural": transform.k, "node": channels, "both": transform.k + channels}
        super().__init__([width[features], *hidden], check_int("k", k, 1), **kwargs)
        self.transform, self.features, self.adj_transpose = transform, features, adj_transpose

    def forward(
        self,
        x: Tensor,
        edge_index: Any = None,
        edge_weight: Optional[Tensor] = None,
        mask: Optional[Tensor] = None,
        batch: Optional[Tensor] = None,
        sim: Optional[Tensor] = None,
        **kwargs: Any,
    ) -> SelectOutput:
        """Returns the assignment. See :meth:`SimPooling.forward` for the arguments."""
        if self.features != "node":
            if sim is None:
                sim = self.compute_sim(x, edge_index, edge_weight, mask, batch)
            if check_floating("sim", sim).dim() < x.dim():
                sim, _ = to_dense_batch(sim, batch, 0.0, x.size(1), x.size(0))
            check_floating("sim", sim, (*x.shape[:-1], self.transform.k))
            x = assignment_input(self.features, sim.to(x.dtype), x)
        return super().forward(x, mask=mask, batch=batch)

    def compute_sim(
        self,
        x: Tensor,
        adj: Any,
        edge_weight: Optional[Tensor] = None,
        mask: Optional[Tensor] = None,
        batch: Optional[Tensor] = None,
    ) -> Tensor:
        """Returns the structural features of the nodes of `x`."""
        if is_dense_adj(adj):
            data = Data(adj=adj.mT if self.adj_transpose else adj, mask=mask)
        else:
            edge_index, edge_weight = read_edges(adj, edge_weight)
            data = Data(edge_index=edge_index, edge_weight=edge_weight, num_nodes=x.size(0))
            if batch is not None:
                data.batch = batch
        return self.transform(data).sim

    def __repr__(self) -> str:
        """Shows the settings."""
        return (
            f"{type(self).__name__}(in_channels={self.in_channels}, k={self.k}, "
            f"features={self.features!r}, transform={self.transform}, act={self.act!r}, "
            f"dropout={self.dropout}, s_inv_op={self.s_inv_op!r})"
        )


class SimConnect(Connect):
    r"""Computes :math:`\tanh(S^\top A S)`.

    Args:
        adj_transpose (bool): Whether dense matrices, as arguments and as results, are transposed.
        sparse_output (bool): Whether to return edges: an edge from cluster i to cluster j has the
            weight :math:`A'_{ij}`.
    """

    def __init__(self, adj_transpose: bool, sparse_output: bool) -> None:
        super().__init__()
        self.adj_transpose, self.sparse_output = adj_transpose, sparse_output

    def forward(
        self,
        edge_index: Any,
        so: SelectOutput,
        *,
        edge_weight: Optional[Tensor] = None,
        batch: Optional[Tensor] = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Optional[Tensor]]:
        """Returns matrices `[B, K, K]` and `None`, or edges and their weights."""
        s, dense = so.s, is_dense_adj(edge_index)
        if dense:
            adj = s.mT @ (edge_index.to(s.dtype) @ s)
        else:
            (row, col), weight = read_edges(edge_index, edge_weight)
            weight = None if weight is None else weight.to(s.dtype)
            if batch is None:
                batch = row.new_zeros(s.size(0))
            neighbors = spmm(row, col, s, weight, s.size(0))
            adj = segment_matmul_t(s, neighbors, batch, int(batch.max()) + 1)
        if self.adj_transpose and dense == self.sparse_output:
            adj = adj.mT
        adj = adj.tanh()
        return dense_to_block_diag(adj) if self.sparse_output else (adj, None)
