"""The top k in PyTorch, on any device, in blocks of rows.

The products of a block are computed, sorted and summed. Then the candidates of each row are sorted,
rows of about the same length as one matrix.
"""

from collections.abc import Iterator
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.topk.backend import Cost
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.rounding import smallest_value
from torch_geometric_simpool.topk.spec import EdgeList, Selection, SimilaritySpec
from torch_geometric_simpool.topk.torch import csr
from torch_geometric_simpool.topk.torch.csr import CSRMatrix, positions
from torch_geometric_simpool.topk.torch.describe import BYTES_PER_NODE, block_bytes, describe
from torch_geometric_simpool.topk.torch.keys import Norms, order_key, similarity_of_key

#: A block of no more numbers than this, when padded to its longest row, is sorted as one matrix.
SMALL_BLOCK = 1 << 15


class Plan(NamedTuple):
    """The cost of rows."""

    products: int
    least: int  # the bytes that it takes if each row is a block
    memory: int  # the bytes that it takes
    block: int  # the bytes of a block of rows


class TorchGraph(NamedTuple):
    """A graph whose rows can be computed."""

    left: CSRMatrix  # the features of each node
    right: CSRMatrix  # the candidates that have each feature
    norms: Norms
    measure: str
    neighbors: Optional[Tensor]  # pairs `i * N + j` that are left out, ascending

    def topk(
        self, nodes: Optional[Tensor], selection: Selection, budget: Budget, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Returns values and indices, `[M, k]`, of the rows of `nodes`, or of all."""
        left = self.left if nodes is None else csr.select_rows(self.left, nodes)
        plan = self._plan(left, budget)
        budget.check_products(plan.products)
        budget.check_memory(plan.least)
        shape = left.num_rows, selection.k
        values = torch.zeros(shape, dtype=dtype, device=left.ptr.device)
        index = torch.full(shape, -1, device=left.ptr.device)
        for start, end in csr.row_blocks(left, self.right, plan.block):
            product = csr.multiply_rows(left, self.right, start, end, self.norms.exact)
            self._select(*product, start, end, nodes, selection, values, index)
        return values, index

    def cost(self, nodes: Optional[Tensor], k: int, budget: Budget) -> Cost:
        """Returns the cost of :meth:`topk`. All products are visited."""
        left = self.left if nodes is None else csr.select_rows(self.left, nodes)
        plan = self._plan(left, budget)
        return Cost(plan.products, plan.products, plan.memory)

    def _plan(self, left: CSRMatrix, budget: Budget) -> Plan:
        """Counts the products of every row."""
        right = self.right
        length = right.ptr.diff()[left.col]
        products = int(length.double().sum())
        per_row = torch.zeros(left.num_rows, dtype=torch.long, device=length.device)
        per_row = per_row.index_add(0, left.row, length)
        largest = int(per_row.max()) + 1 if per_row.numel() > 0 else 1
        largest *= csr.BYTES_PER_PRODUCT
        matrices = BYTES_PER_NODE * self.norms.norm2.numel()
        matrices += csr.BYTES_PER_ENTRY * (left.col.numel() + right.col.numel())
        if self.neighbors is not None:
            matrices += 3 * self.neighbors.nbytes
        block, room = block_bytes(budget.memory), budget.working_memory
        if room is not None and room - matrices >= largest:
            block = min(block, room - matrices)
        # Otherwise the call is forced, and exceeds the budget in any case.
        needed = (products + left.num_rows) * csr.BYTES_PER_PRODUCT
        used = max(min(block, needed), largest)
        return Plan(products, matrices + largest, matrices + used, block)

    def _select(
        self,
        pair: Tensor,
        dot: Tensor,
        start: int,
        end: int,
        nodes: Optional[Tensor],
        selection: Selection,
        values: Tensor,
        index: Tensor,
    ) -> None:
        """Writes the rows `start` to `end`, whose candidates are `pair`, ascending."""
        norm2, num_nodes = self.norms.norm2, self.norms.norm2.numel()
        row = pair.div(num_nodes, rounding_mode="floor")
        j = pair - row * num_nodes
        i = row if nodes is None else nodes[row]
        candidate = dot != 0
        if not selection.loop:
            candidate &= j != i
        if self.neighbors is not None:
            candidate &= ~positions(self.neighbors, i * num_nodes + j)[1]
        if not candidate.all():
            row, i, j, dot = row[candidate], i[candidate], j[candidate], dot[candidate]

        key = order_key(self.measure, self.norms, i, j, dot)
        # The dot product and both norms of integers are in [1, 2^53), so no similarity is smaller.
        if not self.norms.exact or smallest_value(values.dtype) > 2.0**-53:
            similarity = similarity_of_key(self.measure, key, norm2[i])
            candidate = similarity.abs() > smallest_value(values.dtype)
            row, j, key = row[candidate], j[candidate], key[candidate]
        for rows, place in _largest_of_rows(key, row, start, end, selection.k):
            # The pairs were sorted, so ties are in the order of `j`.
            is_chosen, place = place >= 0, place.clamp(min=0)
            norm2_i = norm2[rows if nodes is None else nodes[rows]].unsqueeze(1)
            similarity = similarity_of_key(self.measure, key[place], norm2_i)
            if selection.min_similarity is not None:
                # Similarities descend, so what is left out is at the end of a row.
                is_chosen &= similarity >= selection.min_similarity
            width = place.size(1)
            index[rows, :width] = j[place].where(is_chosen, -1)
            values[rows, :width] = similarity.to(values.dtype).where(is_chosen, 0)


def prepare(
    edges: EdgeList, spec: SimilaritySpec, budget: Budget, nodes: Optional[Tensor] = None
) -> TorchGraph:
    """Describes the nodes, and computes the transpose and the norms."""
    description = describe(edges, spec, budget)
    left = description.matrix
    right = left if description.symmetric else csr.transpose(left)
    if spec.max_degree is not None:
        short = right.ptr.diff() <= spec.max_degree
        left = csr.mask_entries(left, short[left.col])
        right = csr.mask_entries(right, short[right.row])
    if spec.candidates is not None:
        right = csr.mask_entries(right, spec.candidates[right.col])
    neighbors = None
    if spec.exclude_neighbors:
        row, col = edges.edge_index
        pairs = torch.cat([row * edges.num_nodes + col, col * edges.num_nodes + row])
        neighbors = torch.unique(pairs)
    _, scale, exact, integral, _ = description
    norms = Norms(description.norm2, scale, integral, exact)
    return TorchGraph(left, right, norms, spec.measure, neighbors)


def _largest_of_rows(
    key: Tensor, row: Tensor, start: int, end: int, k: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Finds the places of the `k` largest keys of each row, descending; ties stay in order.

    Args:
        key: `[C]`.
        row: The row of each key, `[C]`, ascending, from `start` to `end`.
        k: The number of keys.

    Yields:
        Some of the rows, `[R]`, and places in `key`, `[R, min(k, width)]`; -1 where a row has no
        more. Rows are padded to the next power of two, so to less than twice their length; rows of
        a small block are padded to the longest.
    """
    if key.numel() == 0:
        return
    ptr = torch.searchsorted(row, torch.arange(start, end + 1, device=row.device))
    log_width = torch.frexp((ptr.diff() - 1).double()).exponent.clamp(min=0)
    widest = int(log_width.max())
    if (end - start) << widest <= SMALL_BLOCK:
        log_width.fill_(widest)
    for log in torch.unique(log_width).tolist():
        chosen = (log_width == log).nonzero()
        first, last = ptr[chosen], ptr[chosen + 1]
        place = first + torch.arange(2**log, device=row.device)
        absent = place >= last
        padded = key[place.clamp_(max=key.numel() - 1)].masked_fill_(absent, -torch.inf)
        best = padded.sort(dim=1, descending=True, stable=True).indices[:, :k]
        yield chosen.squeeze(1) + start, (first + best).masked_fill_(absent[:, :k], -1)
