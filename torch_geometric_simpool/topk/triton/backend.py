"""The top k by kernels written in Triton: on a GPU, or in Triton's interpreter.

The torch backend computes descriptions and norms. It also computes calls that kernels do not
support: sums that may be rounded (real weights, squared norms from `2^26` on), a `k` too large for
a block of a kernel, and `exclude_neighbors`.
"""

from typing import NamedTuple, Optional

import torch
import triton
from torch import Tensor

from torch_geometric_simpool.topk.backend import Cost, PreparedGraph
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.measures import SPARSE_MEASURES
from torch_geometric_simpool.topk.spec import EdgeList, Selection, SimilaritySpec
from torch_geometric_simpool.topk.torch import backend as topk_torch
from torch_geometric_simpool.topk.torch import csr
from torch_geometric_simpool.topk.torch.describe import BYTES_PER_NODE
from torch_geometric_simpool.topk.triton.kernels import best_of_tables, fill_tables
from torch_geometric_simpool.utils.rounding import smallest_value

#: The bytes of a slot of a table: a candidate and a sum.
BYTES_PER_SLOT = 16

#: Below this number, squares of squared norms and dot products are exact in float64.
MOST_NORM2 = 2**26

#: The largest number of best candidates of a row, which are in one block.
MOST_BEST = 256

#: The number of products that a program adds at a time, and of programs for a row. On an H100, 128
#: products at a time take up to 1.6 times as long.
PRODUCTS = 32
PROGRAMS = 8

#: A block of candidates, half of which are the best so far, is at least this large.
SMALLEST_BLOCK = 128


class TritonGraph(NamedTuple):
    """A graph whose rows can be computed."""

    common: topk_torch.TorchGraph

    def topk(
        self, nodes: Optional[Tensor], selection: Selection, budget: Budget, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Returns values and indices, `[M, k]`, of the rows of `nodes`, or of all."""
        if selection.k > MOST_BEST:
            return self.common.topk(nodes, selection, budget, dtype)
        norm2, left, right = self.common.norms.norm2, self.common.left, self.common.right
        device, k = norm2.device, selection.k
        products, tables = self._plan(nodes, budget)
        budget.check_products(products)
        budget.check_memory(tables.memory)
        if nodes is None:
            nodes = torch.arange(left.num_rows, device=device)
        # Results in half precision are rounded from float32, as on a CPU.
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        values = torch.empty(nodes.numel(), k, dtype=wide, device=device)
        index = torch.empty(nodes.numel(), k, dtype=torch.long, device=device)
        smallest = norm2.new_tensor([smallest_value(dtype)])
        half = max(triton.next_power_of_2(k), SMALLEST_BLOCK // 2)
        all_slots = torch.empty(tables.limit, dtype=torch.long, device=device)
        all_sums = norm2.new_empty(tables.limit)
        for start, end in tables.ranges():
            rows, place = nodes[start:end], slice(start, end)
            table_ptr = (tables.ends[start : end + 1] - tables.ends[start]).to(device)
            num_slots = int(tables.ends[end] - tables.ends[start])
            slots, sums = all_slots[:num_slots].fill_(-1), all_sums[:num_slots].zero_()
            with torch.cuda.device_of(values):
                fill_tables[(end - start, PROGRAMS)](
                    rows, table_ptr, left.ptr, left.col, left.value, right.ptr, right.col,
                    right.value, slots, sums, SIZE=PRODUCTS, num_warps=1, enable_fp_fusion=False,
                )  # fmt: skip
                best_of_tables[(end - start,)](
                    rows, table_ptr, slots, sums, norm2, smallest, values[place], index[place], k,
                    HALF=half, LOOP=selection.loop,
                    MEASURE=SPARSE_MEASURES[self.common.measure].code,
                    num_warps=min(max(half // 128, 1), 8), enable_fp_fusion=False,
                )  # fmt: skip
        return selection.cut(values.to(dtype), index)

    def cost(self, nodes: Optional[Tensor], k: int, budget: Budget) -> Cost:
        """Returns the cost of :meth:`topk`."""
        if k > MOST_BEST:
            return self.common.cost(nodes, k, budget)
        products, tables = self._plan(nodes, budget)
        return Cost(products, tables.memory)

    def _plan(self, nodes: Optional[Tensor], budget: Budget) -> tuple[int, csr.Blocks]:
        """Returns the number of products, and blocks of rows by the slots of their tables."""
        left, right = self.common.left, self.common.right
        products = csr.count_products(left, right)
        products = products if nodes is None else products[nodes]
        # A table has at least twice as many slots as candidates.
        most = products.clamp(1, max(right.num_cols, 1))
        slots = 1 << torch.frexp((2 * most - 1).double()).exponent.long()
        matrices = csr.BYTES_PER_ENTRY * (left.col.numel() + right.col.numel())
        matrices += BYTES_PER_NODE * right.num_cols
        blocks = csr.make_blocks(slots, BYTES_PER_SLOT, matrices, budget)
        return int(products.double().sum()), blocks


def prepare(edges: EdgeList, spec: SimilaritySpec, budget: Budget) -> PreparedGraph:
    """Computes the descriptions, their transpose and their norms."""
    common = topk_torch.prepare(edges, spec, budget)
    exact = common.norms.exact and bool((common.norms.norm2 < MOST_NORM2).all())
    return TritonGraph(common) if exact and common.neighbors is None else common
