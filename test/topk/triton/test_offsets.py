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
    """Lists that begin behind `2^31` entries, and a row whose place in the result does."""
    from torch_geometric_simpool.topk.spec import Selection
    from torch_geometric_simpool.topk.triton import backend
    from torch_geometric_simpool.topk.triton.arrays import Descriptions, Matrix, Problem, Result
    from torch_geometric_simpool.topk.triton.plan import Plan

    def sparse(name: str, dtype: type, size: int) -> torch.Tensor:
        return torch.from_numpy(np.memmap(tmp_path / name, dtype=dtype, mode="w+", shape=(size,)))

    # A path of nodes 0, 1 and 2: the lists are its rows, far behind the beginning of an array.
    col = sparse("col", np.int32, FAR + 4)
    col[FAR:] = torch.tensor([1, 0, 2, 1], dtype=torch.int32)
    matrix = Matrix(FAR + torch.tensor([0, 1, 3, 4]), col, torch.empty(0, dtype=torch.float64))
    norm2 = torch.tensor([1, 2, 1], dtype=torch.int32)
    nothing = torch.empty(0, dtype=torch.long)
    descriptions = Descriptions(
        matrix, matrix, norm2, nothing, nothing, nothing,
        exact=True, signed=False, small=True, measure=0,
    )  # fmt: skip
    # Row `2^29` of a result with four columns begins at entry `2^31`.
    row, k = 2**29, 4
    result = Result(
        sparse("values", np.float32, (row + 1) * k).view(-1, k),
        sparse("index", np.int64, (row + 1) * k).view(-1, k),
    )
    limits = torch.tensor([-2.0, 0.0], dtype=torch.float64)
    nodes = sparse("nodes", np.int64, row + 1)  # all are node 0
    problem = Problem(descriptions, None, nothing, nothing)
    plan = Plan([], nothing, nothing, None, nothing, 0, [])
    options = backend.Options(Selection(k), limits, tiny=False)
    backend.run_short(problem, plan, torch.tensor([row]), 64, nodes, None, options, result)
    assert result.indices[row].tolist() == [0, 2, -1, -1]
    assert result.values[row].tolist() == [1, 1, 0, 0]
