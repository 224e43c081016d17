"""The top k in PyTorch, on any device, in blocks of rows.

The products of a block are computed, sorted and summed. Then the candidates are sorted by their
similarity, and again by their row.
"""

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.topk.backend import Cost
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.topk.torch import csr
from torch_geometric_simpool.topk.torch.csr import CSRMatrix, positions
from torch_geometric_simpool.topk.torch.describe import (
    BYTES_PER_NODE,
    Norms,
    describe,
    order_key,
    similarity_of_key,
)
from torch_geometric_simpool.utils.rounding import smallest_value


class TorchGraph(NamedTuple):
    """A graph whose rows can be computed."""

    left: CSRMatrix  # the features of each node
    right: CSRMatrix  # the candidates that have each feature
    norms: Norms
    settings: TopKSettings
    neighbors: Optional[Tensor]  # pairs `i * N + j` that are left out, ascending

    def topk(
        self, nodes: Optional[Tensor], k: int, budget: Budget, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Returns values and indices, `[M, k]`, of the rows of `nodes`, or of all."""
        left, blocks, cost = self._plan(nodes, budget)
        budget.check_products(cost.products)
        budget.check_memory(cost.memory)
        shape = left.num_rows, k
        values = torch.zeros(shape, dtype=dtype, device=left.ptr.device)
        index = torch.full(shape, -1, device=left.ptr.device)
        for start, end in blocks:
            pair, dot = csr.multiply_rows(left, self.right, start, end, self.norms.exact)
            self._select(pair, dot, nodes, values, index)
        return values, index

    def cost(self, nodes: Optional[Tensor], k: int, budget: Budget) -> Cost:
        """Returns the cost of :meth:`topk`."""
        return self._plan(nodes, budget)[2]

    def _plan(
        self, nodes: Optional[Tensor], budget: Budget
    ) -> tuple[CSRMatrix, list[tuple[int, int]], Cost]:
        """Returns the features of the rows, blocks of rows, and the cost."""
        left = self.left if nodes is None else csr.select_rows(self.left, nodes)
        products = csr.count_products(left, self.right)
        matrices = BYTES_PER_NODE * self.norms.norm2.numel()
        matrices += csr.BYTES_PER_ENTRY * (left.col.numel() + self.right.col.numel())
        if self.neighbors is not None:
            matrices += 3 * self.neighbors.nbytes
        blocks, memory = csr.make_blocks(products + 1, csr.BYTES_PER_PRODUCT, matrices, budget)
        return left, blocks, Cost(int(products.double().sum()), memory)

    def _select(
        self,
        pair: Tensor,
        dot: Tensor,
        nodes: Optional[Tensor],
        values: Tensor,
        index: Tensor,
    ) -> None:
        """Writes the rows of a block. `pair` holds `row * N + j` of each candidate, ascending.

        A `row` is a position in `nodes`.
        """
        settings, norm2, num_nodes = self.settings, self.norms.norm2, self.norms.norm2.numel()
        row = pair.div(num_nodes, rounding_mode="floor")
        j = pair - row * num_nodes
        i = row if nodes is None else nodes[row]
        key = order_key(settings.measure, self.norms, i, j, dot)
        similarity = similarity_of_key(settings.measure, key, norm2[i])
        candidate = similarity.abs() > smallest_value(values.dtype)
        if settings.min_similarity is not None:  # before candidates are sorted
            candidate &= settings.reaches(similarity.to(values.dtype))
        if not settings.loop:
            candidate &= j != i
        if self.neighbors is not None:
            candidate &= ~positions(self.neighbors, i * num_nodes + j)[1]
        chosen = candidate.nonzero().squeeze(1)
        row, j, key, similarity = (part[chosen] for part in (row, j, key, similarity))
        # The pairs are sorted, so ties stay in the order of `j`. Integers are sorted faster than
        # floating-point numbers.
        bits = (0.0 - key).view(torch.int64)
        order = (bits ^ ((bits >> 63) & (2**63 - 1))).sort(stable=True).indices
        order = order[csr.narrow(row[order], values.size(0)).sort(stable=True).indices]
        place = torch.arange(row.numel(), device=row.device) - torch.searchsorted(row, row)
        best = place < values.size(1)
        row, place, order = row[best], place[best], order[best]
        index[row, place] = j[order]
        values[row, place] = similarity[order].to(values.dtype)


def prepare(
    edges: EdgeList,
    settings: TopKSettings,
    budget: Budget,
    candidates: Optional[Tensor] = None,
) -> TorchGraph:
    """Describes the nodes, and computes the transpose and the norms."""
    left, norms = describe(edges, settings, budget)
    # An asymmetric matrix has `2 N` columns. Unless sums are exact, rows are scaled, so that the
    # matrix is not symmetric.
    symmetric = norms.exact and not edges.bipartite and left.num_cols == edges.num_nodes
    right = left if symmetric else csr.transpose(left)
    if settings.max_degree is not None:
        short = right.ptr.diff() <= settings.max_degree
        left = csr.mask_entries(left, short[left.col])
        right = csr.mask_entries(right, short[right.row])
    if candidates is not None:
        right = csr.mask_entries(right, candidates[right.col])
    neighbors = None
    if settings.exclude_neighbors and edges.edge_index.numel() > 0:
        row, col = edges.edge_index
        both = torch.cat([row * edges.num_nodes + col, col * edges.num_nodes + row])
        neighbors = torch.unique(both)
    return TorchGraph(left, right, norms, settings, neighbors)
