"""Offsets beyond 32 bits. The system provides only the memory that is touched."""

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.backends import INTERPRETED

pytestmark = pytest.mark.skipif(
    not INTERPRETED, reason="runs in Triton's interpreter: see test_interpreter.py"
)

FAR = 2**31 + 12


def test_rows_and_lists_beyond_32_bits(tmp_path: Path) -> None:
    """Lists, tables and a place of the result start after `2^31` entries."""
    from torch_geometric_simpool.topk.triton import kernels

    def sparse(name: str, dtype: type, size: int) -> torch.Tensor:
        return torch.from_numpy(np.memmap(tmp_path / name, dtype=dtype, mode="w+", shape=(size,)))

    # The lists are the rows of the path 0 - 1 - 2, far behind the start of an array.
    ptr = FAR + torch.tensor([0, 1, 3, 4])
    col, ones = sparse("col", np.int64, FAR + 4), sparse("ones", np.float64, FAR + 4)
    col[FAR:], ones[FAR:] = torch.tensor([1, 0, 2, 1]), 1
    slots, sums = sparse("slots", np.int64, FAR + 8), sparse("sums", np.float64, FAR + 8)
    slots[FAR:] = -1
    table_ptr, nodes = torch.tensor([FAR, FAR + 8]), torch.tensor([0])
    kernels.fill_tables[(1, 2)](
        nodes, table_ptr, ptr, col, ones, ptr, col, ones, slots, sums, SIZE=16,
    )  # fmt: skip
    norm2 = torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64)
    limits = torch.tensor([-torch.inf, 0.0], dtype=torch.float64)
    values, index = torch.empty(1, 4, dtype=torch.float64), torch.empty(1, 4, dtype=torch.long)
    kernels.best_of_tables[(1,)](
        nodes, table_ptr, slots, sums, norm2, limits, values, index, 4,
        HALF=8, LOOP=True, MEASURE=0,
    )  # fmt: skip
    assert index.tolist() == [[0, 2, -1, -1]]
    assert values.tolist() == [[1, 1, 0, 0]]
