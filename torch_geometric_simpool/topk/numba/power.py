"""The product of two sparse matrices, for powers of a matrix."""

import numpy as np
import torch

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.numba import csr, threads
from torch_geometric_simpool.topk.numba.csr import CSRArrays, add, rounded
from torch_geometric_simpool.topk.numba.jit import allocation_free

#: Copies of a product that are in memory while it is transposed twice.
COPIES = 3


def multiply(
    left: CSRArrays, right: CSRArrays, exact: bool, budget: Budget, held: int
) -> tuple[CSRArrays, int]:
    """Returns the product, whose columns are in no order, and the bytes in use."""
    num_nodes, ids = left.num_rows, left.col.dtype
    work = csr.products_of_rows(csr.all_rows(left), right)
    budget.check_products(int(work.sum(dtype=np.float64)))
    ranges, counts = threads.blocks(work), np.empty(num_nodes, np.int64)
    threads.run(
        count_entries, ranges, left, right, counts, new_scratch=lambda: (np.full(num_nodes, -1),)
    )
    num_entries = int(counts.sum())
    memory = held + COPIES * num_entries * (ids.itemsize + 8)
    memory += sum({id(array): array.nbytes for array in (*left, *right)}.values())
    # For each node and thread: the row that saw it last, and three doubles.
    memory += 32 * num_nodes * min(torch.get_num_threads(), len(ranges))
    budget.check_memory(memory)
    out = CSRArrays(csr.offsets(counts), np.empty(num_entries, ids), np.empty(num_entries))
    threads.run(
        fill_entries,
        ranges,
        left,
        right,
        exact,
        out,
        new_scratch=lambda: (np.full(num_nodes, -1), np.zeros((num_nodes, 3))),
    )
    return out, memory


@allocation_free
def count_entries(start, end, left, right, counts, seen):
    """Writes the number of entries of each row of the product to `counts`."""
    for i in range(start, end):
        counts[i] = 0
        for e in range(left.ptr[i], left.ptr[i + 1]):
            m = left.col[e]
            for f in range(right.ptr[m], right.ptr[m + 1]):
                counts[i] += np.int64(seen[right.col[f]] != i)
                seen[right.col[f]] = i


@allocation_free
def fill_entries(start, end, left, right, exact, out, seen, sums):
    """Writes columns and values. `sums` are two doubles for each sum, and its absolute terms."""
    for i in range(start, end):
        at = out.ptr[i]
        for e in range(left.ptr[i], left.ptr[i + 1]):
            m = left.col[e]
            for f in range(right.ptr[m], right.ptr[m + 1]):
                j = right.col[f]
                if seen[j] != i:
                    seen[j] = i
                    out.col[at] = j
                    at += 1
                    sums[j] = 0.0
                term = left.value[e] * right.value[f]
                if exact:
                    sums[j, 0] += term
                else:
                    sums[j, 0], sums[j, 1] = add(sums[j, 0], sums[j, 1], term)
                    sums[j, 2] += abs(term)
        for t in range(out.ptr[i], at):
            j = out.col[t]
            out.value[t] = rounded(sums[j, 0], sums[j, 1], sums[j, 2])
