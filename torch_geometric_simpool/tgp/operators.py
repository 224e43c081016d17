"""The reduce, connect and lift operators of :class:`SimPooling`."""

from typing import Any, Optional

import torch
from tgp.connect import Connect
from tgp.lift import BaseLift
from tgp.reduce import BaseReduce
from tgp.select import SelectOutput
from tgp.utils import (
    connectivity_to_sparsetensor,
    connectivity_to_torch_coo,
    is_dense_adj,
    pseudo_inverse,
)
from torch import Tensor
from torch_geometric.utils import is_torch_sparse_tensor

from torch_geometric_simpool.functional.segment import segment_matmul_t, spmm
from torch_geometric_simpool.functional.unpooling import lift
from torch_geometric_simpool.tgp.inputs import read_edges
from torch_geometric_simpool.utils.checks import check_batch, check_bool, check_int, check_real


class SimReduce(BaseReduce):
    """`S^T X`: tgp's, but of a sparse batch for all graphs at once, empty ones included."""

    def forward(
        self,
        x: Tensor,
        so: SelectOutput,
        *,
        batch: Optional[Tensor] = None,
        return_batched: bool = False,
        **kwargs: Any,
    ) -> tuple[Tensor, Optional[Tensor]]:
        """As :class:`tgp.reduce.BaseReduce`."""
        if so.s.dim() == 3:
            return super().forward(x, so, batch=batch)
        batch = so.batch if batch is None else batch
        graph, batch_size = check_batch(batch, x.size(0), None, x.device)
        pooled = segment_matmul_t(so.s, x.to(so.s.dtype), graph, batch_size)
        return pooled if return_batched else pooled.flatten(0, 1), self.reduce_batch(so, batch)


class SimLift(BaseLift):
    """`S X'`, or the transposed pseudoinverse in place of `S`: by the package's `lift`.

    Takes the pooled features as `[B, K, F]` or `[B K, F]`. As in tgp, the pseudoinverse of a
    sparse batch is that of the rows of all graphs, and rounded to float32.
    """

    def forward(
        self,
        x_pool: Tensor,
        so: SelectOutput,
        batch: Optional[Tensor] = None,
        batch_pooled: Optional[Tensor] = None,
        **kwargs: Any,
    ) -> Tensor:
        """As :class:`tgp.lift.BaseLift`."""
        matrix = so.s
        if self.matrix_op == "precomputed":
            matrix = so.s_inv.mT
        elif self.matrix_op == "inverse":
            matrix = pseudo_inverse(so.s).mT
        x_pool = x_pool.reshape(-1, so.num_supernodes, x_pool.size(-1))
        if matrix.dim() == 3:
            return lift(x_pool, matrix, mask=so.in_mask)
        return lift(x_pool, matrix, so.batch if batch is None else batch)


class SimConnect(Connect):
    r""":math:`\tanh(S^\top A S)`, as matrices or as the edges of a sparse graph.

    Args:
        adj_transpose: Whether dense matrices, those given and those returned, are transposed.
        sparse_output: Whether to return edges: those from cluster i to j with weight
            :math:`A'_{ij}`.
        threshold: Only edges with :math:`|A'_{ij}|` above it are returned, `>= 0`.
        num_neighbors: Only that many edges into each cluster are returned, those of the largest
            :math:`|A'_{ij}|`, then of the smallest i, a self-loop being one of them. All if
            `None`.
    """

    def __init__(
        self,
        adj_transpose: bool,
        sparse_output: bool,
        threshold: float,
        num_neighbors: Optional[int],
    ) -> None:
        super().__init__()
        self.adj_transpose = check_bool("adj_transpose", adj_transpose)
        self.sparse_output = check_bool("sparse_output", sparse_output)
        self.threshold = check_real("threshold", threshold, 0.0)
        self.num_neighbors = num_neighbors
        if num_neighbors is not None:
            check_int("num_neighbors", num_neighbors, 1)

    def forward(
        self,
        edge_index: Any,
        so: SelectOutput,
        *,
        edge_weight: Optional[Tensor] = None,
        batch: Optional[Tensor] = None,
        **kwargs: Any,
    ) -> tuple[Any, Optional[Tensor]]:
        """The pooled graph.

        Args:
            edge_index: The graph, in a form of `adj` of :class:`SimPooling`.
            so: The assignment, `[B, N, K]` with a dense graph, else `[N, K]`.
            edge_weight: The weights of `edge_index`, `[E]`.
            batch: The graph of each node of a sparse batch, `[N]`.

        Returns:
            `[B, K, K]` and `None`; or, with `sparse_output`, edges `[2, E']` and weights `[E']`,
            and a sparse tensor (or `SparseTensor`) and `None` where one was given.
        """
        s, dense = so.s, is_dense_adj(edge_index)
        if dense:
            product = s.mT @ (edge_index.to(s.dtype) @ s)
        else:
            (row, col), weight = read_edges(edge_index, edge_weight, s.size(0))
            graph, batch_size = check_batch(batch, s.size(0), None, s.device)
            weight = None if weight is None else weight.to(s.dtype)
            neighbors = spmm(row, col, s, weight, s.size(0))
            product = segment_matmul_t(s, neighbors, graph, batch_size)
        if self.adj_transpose and dense == self.sparse_output:
            product = product.mT
        if not self.sparse_output:
            return product.tanh(), None
        edges, weight = self._edges(product)
        num_clusters = product.size(0) * product.size(1)
        if dense or (isinstance(edge_index, Tensor) and not is_torch_sparse_tensor(edge_index)):
            return edges, weight
        if isinstance(edge_index, Tensor):
            return connectivity_to_torch_coo(edges, weight, num_clusters), None
        return connectivity_to_sparsetensor(edges, weight, num_clusters), None

    def _edges(self, product: Tensor) -> tuple[Tensor, Tensor]:
        weight = product.tanh()
        kept = weight.abs() > self.threshold
        if self.num_neighbors is not None:
            # Before the tanh, which rounds large numbers to 1.
            order = product.detach().abs().argsort(dim=1, descending=True, stable=True)
            kept &= order.argsort(dim=1) < self.num_neighbors
        graph, row, col = kept.nonzero(as_tuple=True)
        first = graph * product.size(1)
        return torch.stack([row + first, col + first]), weight[graph, row, col]

    def __repr__(self) -> str:
        """The settings."""
        return (
            f"{self.__class__.__name__}(adj_transpose={self.adj_transpose}, "
            f"sparse_output={self.sparse_output}, threshold={self.threshold}, "
            f"num_neighbors={self.num_neighbors})"
        )
