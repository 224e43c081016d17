"""Offsets beyond 32 bits: the memory is there only as far as it is touched."""

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
    """Lists and tables that begin behind `2^31` entries, and such a place in the result."""
    from torch_geometric_simpool.topk.triton import tables

    def sparse(name: str, dtype: type, size: int) -> torch.Tensor:
        return torch.from_numpy(np.memmap(tmp_path / name, dtype=dtype, mode="w+", shape=(size,)))

    # A path of nodes 0, 1 and 2: the lists are its rows, far behind the beginning of an array.
    ptr, nothing = FAR + torch.tensor([0, 1, 3, 4]), torch.empty(0)
    col = sparse("col", np.int32, FAR + 4)
    col[FAR:] = torch.tensor([1, 0, 2, 1], dtype=torch.int32)
    slots, sums = sparse("slots", np.int32, FAR + 8), sparse("sums", np.float64, FAR + 8)
    slots[FAR:] = -1
    table_ptr, nodes = torch.tensor([FAR, FAR + 8]), torch.tensor([0])
    tables.fill_tables[(1, 2)](
        nodes, table_ptr, ptr, col, nothing, ptr, col, nothing, slots, sums, sums, sums,
        SIZE=16, WEIGHTED=False, EXACT=True,
    )  # fmt: skip
    norm2 = torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64)
    limits = torch.tensor([-torch.inf, 0.0], dtype=torch.float64)
    values, index = torch.empty(1, 4, dtype=torch.float64), torch.empty(1, 4, dtype=torch.long)
    tables.best_of_tables[(1,)](
        nodes, table_ptr, slots, sums, sums, sums, norm2, norm2, torch.ones(3, dtype=torch.bool),
        limits, values, index, 4, HALF=8, EXACT=True, LOOP=True, MEASURE=0,
    )  # fmt: skip
    assert index.tolist() == [[0, 2, -1, -1]]
    assert values.tolist() == [[1, 1, 0, 0]]
