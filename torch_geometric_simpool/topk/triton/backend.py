"""The top k by kernels written in Triton: on a GPU, or in Triton's interpreter.

The torch backend computes descriptions and norms. It also computes calls that kernels do not
support: sums that may be rounded (real weights, squared norms from `2^26` on), a `k` above 256,
ids from `2^30` on, and `exclude_neighbors`.
"""

from typing import NamedTuple, Optional

import torch
import triton
from torch import Tensor

from torch_geometric_simpool.topk.backend import Cost, PreparedGraph
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.measures import SPARSE_MEASURES
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.topk.torch import backend as topk_torch
from torch_geometric_simpool.topk.torch import csr
from torch_geometric_simpool.topk.torch.describe import BYTES_PER_NODE
from torch_geometric_simpool.topk.triton.kernels import best_of_tables, fill_tables
from torch_geometric_simpool.utils.rounding import smallest_value

#: The bytes of a cell of a table, which holds an id or a sum.
BYTES_PER_CELL = 4

#: The bytes of a row while tables are planned: counts, sizes and orders in int64 and float64.
BYTES_PER_ROW = 56

#: A row gets a dense table unless it would have more than `DENSE` times the cells of a hash table.
DENSE = 4

#: Graphs with at most this number of nodes have only dense tables. Planning is then faster.
FEW_NODES = 4096

#: Below this number, squares of squared norms and dot products are exact in float64.
MOST_NORM2 = 2**26

#: Kernels read ids of nodes and features as int32, if there are fewer than this number of each.
MOST_IDS = 2**30

#: The largest number of best candidates of a row, which a program holds in registers.
MOST_BEST = 256

#: The number of products that a program adds at a time, and of programs for a row. On an H100, 128
#: products at a time take up to 1.6 times as long.
PRODUCTS = 32
PROGRAMS = 8

#: The slots that a program reads at a time, and its warps. Tables of at least `LONG` slots have the
#: second pair.
SLOTS, WARPS = 128, 1
LONG, LONG_SLOTS, LONG_WARPS = 2**18, 1024, 4


class Plan(NamedTuple):
    """The tables of the rows of a call, in blocks of rows with tables of one size."""

    cost: Cost
    order: Tensor  # [M], the rows, by the size of their tables
    blocks: list[tuple[int, int, int]]  # the slots of a table, and the start and end in `order`
    cells: int  # the number of cells of the largest block


class TritonGraph(NamedTuple):
    """A graph whose rows can be computed."""

    common: topk_torch.TorchGraph
    left: csr.CSRMatrix  # the features of each node; columns and values are int32
    right: csr.CSRMatrix  # the candidates that have each feature
    norm2: Tensor  # int32

    def topk(
        self, nodes: Optional[Tensor], k: int, budget: Budget, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Returns values and indices, `[M, k]`, of the rows of `nodes`, or of all."""
        if k > MOST_BEST:
            return self.common.topk(nodes, k, budget, dtype)
        norm2, left, right = self.norm2, self.left, self.right
        device, num_nodes, settings = norm2.device, norm2.numel(), self.common.settings
        plan = self._plan(nodes, budget)
        budget.check_products(plan.cost.products)
        budget.check_memory(plan.cost.memory)
        if nodes is None:
            nodes = torch.arange(left.num_rows, device=device)
        # Results in half precision are rounded from float32, as on a CPU.
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        values = torch.empty(nodes.numel(), k, dtype=wide, device=device)
        index = torch.empty(nodes.numel(), k, dtype=torch.long, device=device)
        smallest = torch.tensor([smallest_value(dtype)], dtype=torch.float64, device=device)
        tables = torch.empty(plan.cells, dtype=torch.int32, device=device)
        for num_slots, start, end in plan.blocks:
            order, hashed = plan.order[start:end], num_slots < num_nodes
            size, warps = (SLOTS, WARPS) if num_slots < LONG else (LONG_SLOTS, LONG_WARPS)
            tables[: (end - start) * num_slots * (1 + hashed)].zero_()
            with torch.cuda.device_of(values):
                fill_tables[(end - start, PROGRAMS)](
                    order, nodes, left.ptr, left.col, left.value, right.ptr, right.col,
                    right.value, tables, num_slots, SIZE=PRODUCTS, HASHED=hashed, num_warps=1,
                )  # fmt: skip
                best_of_tables[(end - start,)](
                    order, nodes, tables, num_slots, norm2, smallest, values, index, k,
                    MOST=triton.next_power_of_2(k), SIZE=size, HASHED=hashed, LOOP=settings.loop,
                    MEASURE=SPARSE_MEASURES[settings.measure].code, num_warps=warps,
                    enable_fp_fusion=False,
                )  # fmt: skip
        return settings.cut(values.to(dtype), index)

    def cost(self, nodes: Optional[Tensor], k: int, budget: Budget) -> Cost:
        """Returns the cost of :meth:`topk`."""
        if k > MOST_BEST:
            return self.common.cost(nodes, k, budget)
        return self._plan(nodes, budget).cost

    def _plan(self, nodes: Optional[Tensor], budget: Budget) -> Plan:
        """Returns the tables and blocks of these rows, or of all."""
        left, right, num_nodes = self.left, self.right, self.norm2.numel()
        rows = left if nodes is None else csr.select_rows(left, nodes)
        products = csr.count_products(rows, right)
        slots = torch.full_like(products, num_nodes)
        if num_nodes > FEW_NODES:
            # A hash table has at least twice as many slots as candidates.
            most = products.clamp(1, num_nodes)
            hash_slots = 1 << torch.frexp((2 * most - 1).double()).exponent.long()
            slots = torch.where(2 * DENSE * hash_slots < num_nodes, hash_slots, slots)
        slots, order = slots.sort()
        groups = torch.unique_consecutive(slots, return_counts=True)
        sizes, counts = (group.tolist() for group in groups)
        matrices = csr.BYTES_PER_ENTRY * (left.col.numel() + right.col.numel())
        matrices += BYTES_PER_NODE * num_nodes + BYTES_PER_ROW * order.numel()
        room = csr.block_bytes(slots.is_cpu, matrices, budget) // BYTES_PER_CELL
        cells = [size * (1 + (size < num_nodes)) for size in sizes]
        room = max([room, *cells])  # a row is not divided
        blocks, limit, first = [], 0, 0
        for size, row_cells, count in zip(sizes, cells, counts):
            step, end = room // row_cells, first + count
            blocks += [(size, i, min(i + step, end)) for i in range(first, end, step)]
            limit, first = max(limit, min(step, count) * row_cells), end
        memory = matrices + BYTES_PER_CELL * limit
        return Plan(Cost(int(products.double().sum()), memory), order, blocks, limit)


def prepare(
    edges: EdgeList,
    settings: TopKSettings,
    budget: Budget,
    candidates: Optional[Tensor] = None,
) -> PreparedGraph:
    """Computes the descriptions, their transpose and their norms."""
    common = topk_torch.prepare(edges, settings, budget, candidates)
    exact = common.norms.exact and bool((common.norms.norm2 < MOST_NORM2).all())
    is_small = max(edges.num_nodes, common.left.num_cols) < MOST_IDS
    if not (exact and is_small) or common.neighbors is not None:
        return common
    left = in_int32(common.left)
    right = left if common.right is common.left else in_int32(common.right)
    return TritonGraph(common, left, right, common.norms.norm2.int())


def in_int32(matrix: csr.CSRMatrix) -> csr.CSRMatrix:
    """Returns the matrix with columns and values in int32."""
    return matrix._replace(col=matrix.col.int(), value=matrix.value.int())
