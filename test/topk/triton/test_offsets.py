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


def test_offsets_beyond_32_bits(tmp_path: Path) -> None:
    """Lists, a table and a row of the result start behind `2^31` entries."""
    from torch_geometric_simpool.topk.triton import kernels

    def sparse(name: str, dtype: type, size: int) -> torch.Tensor:
        return torch.from_numpy(np.memmap(tmp_path / name, dtype=dtype, mode="w+", shape=(size,)))

    # The lists are the rows of the path 0 - 1 - 2, far behind the start of an array. Node 3 has no
    # features, and the table of its row has `2^31` cells.
    ptr = FAR + torch.tensor([0, 1, 3, 4, 4])
    col, ones = sparse("col", np.int32, FAR + 4), sparse("ones", np.int32, FAR + 4)
    col[FAR:], ones[FAR:] = torch.tensor([1, 0, 2, 1]).int(), 1
    tables = sparse("tables", np.int32, 2**32)
    kernels.fill_tables[(2, 2)](
        torch.tensor([0, 1]), torch.tensor([3, 0]), ptr, col, ones, ptr, col, ones, tables, 2**30,
        SIZE=16, HASHED=True,
    )  # fmt: skip
    first_slots = tables[2**31 : 2**31 + 2**21]
    assert first_slots[first_slots != 0].tolist() == [1, 3]
    last = FAR // 4
    nodes, index = sparse("nodes", np.int64, last + 1), sparse("index", np.int64, FAR + 4)
    values, sums = sparse("values", np.float64, FAR + 4), torch.tensor([1, 0, 1]).int()
    norm2, smallest = torch.tensor([1, 2, 1]).int(), torch.zeros(1, dtype=torch.float64)
    kernels.best_of_tables[(1,)](
        torch.tensor([last]), nodes, sums, 3, norm2, smallest, values, index, 4,
        MOST=4, SIZE=8, HASHED=False, LOOP=True, MEASURE=0,
    )  # fmt: skip
    assert index[FAR:].tolist() == [0, 2, -1, -1]
    assert values[FAR:].tolist() == [1, 1, 0, 0]
