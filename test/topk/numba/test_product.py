"""The product of sparse matrices, against a dense one."""

import numpy as np
import pytest

from torch_geometric_simpool.topk.numba import product
from torch_geometric_simpool.topk.numba.arrays import CSRArrays


@pytest.mark.parametrize("exact", [False, True])
def test_product(exact: bool) -> None:
    """In ranges of rows, with scratch that was used before."""
    rng = np.random.default_rng(8)
    n = 23
    left, right = ((rng.random((n, n)) < 0.2) * rng.integers(-3, 4, (n, n)) for _ in range(2))
    arrays = [
        CSRArrays(
            np.concatenate([[0], np.cumsum((matrix != 0).sum(1))]),
            matrix.nonzero()[1].astype(np.int32),
            matrix[matrix != 0].astype(float),
        )
        for matrix in (left, right)
    ]
    ids = np.dtype(np.int32)
    counts, seen = np.zeros(n, np.int64), product.new_seen(n, ids)
    for start, end in ((0, 9), (9, 10), (10, n)):
        product.count_entries(*arrays, start, end, counts, seen)
    pattern = (left != 0).astype(int) @ (right != 0).astype(int) > 0
    assert counts.tolist() == pattern.sum(1).tolist()
    ptr = np.concatenate([[0], np.cumsum(counts)])
    out = CSRArrays(ptr, np.empty(ptr[-1], ids), np.empty(ptr[-1]))
    scratch = product.new_scratch(n, ids, not exact)
    for array in scratch.sums:
        array.fill(np.nan)
    for start, end in ((0, 9), (9, 10), (10, n)):
        product.fill_entries(*arrays, exact, start, end, out, scratch)
    dense = np.zeros((n, n))
    dense[np.arange(n).repeat(counts), out.col] = out.value
    assert (dense == left @ right).all()
