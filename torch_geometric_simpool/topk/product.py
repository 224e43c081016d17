"""The largest entries of the rows of a product of two sparse matrices, in SciPy."""

from typing import NamedTuple

import numpy as np
import scipy.sparse
import torch
from scipy.sparse import csr_matrix

from torch_geometric_simpool.topk.budget import Budget

#: Numbers in a dense block of rows.
BLOCK = 1 << 24


class Product(NamedTuple):
    """The matrix of `(left @ right)[i, j] ** power`, with 0 at the places of `left_out`.

    Columns of `left` ascend, and so do the summands of each entry, which is a sum in float64. A
    `power` other than 1 is of positive matrices.
    """

    left: csr_matrix
    right: csr_matrix
    left_out: csr_matrix  # only its places count
    power: float = 1.0


def largest_in_rows(product: Product, k: int, dtype: np.dtype, budget: Budget) -> csr_matrix:
    """Returns the `k` largest positive entries of each row, in no order.

    Entries are rounded to `dtype` before they are compared. Where they are equal, smaller columns
    are preferred.
    """
    left, right, left_out, power = product
    num_rows, num_cols = left_out.shape
    step = max(BLOCK // max(num_cols, 1), 1)
    # A block in float64 and rounded, with the places of the sort.
    budget.check_memory(min(step, num_rows) * num_cols * 32)
    blocks = [csr_matrix((0, num_cols), dtype=dtype)]
    for start in range(0, num_rows, step):
        dense = (left[start : start + step] @ right).toarray()
        dense[left_out[start : start + step].tocoo().coords] = 0
        with np.errstate(over="ignore", under="ignore"):
            entries = torch.from_numpy((dense**power).astype(dtype))
        entries, index = entries.sort(dim=1, descending=True, stable=True)
        blocks.append(csr_of_rows(entries[:, :k], index[:, :k], entries[:, :k] > 0, num_cols))
    return scipy.sparse.vstack(blocks, format="csr")


def csr_of_rows(
    values: torch.Tensor, index: torch.Tensor, mask: torch.Tensor, num_cols: int
) -> csr_matrix:
    """Returns the matrix of some `values`, `[M, k]`, in the columns `index`."""
    ptr = np.append(0, mask.sum(dim=1).cumsum(dim=0).numpy())
    entries = values[mask].numpy(), index[mask].numpy(), ptr
    return csr_matrix(entries, shape=(len(mask), num_cols))
