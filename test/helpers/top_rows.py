"""Compares a top k with the oracle."""

import pytest
import torch
from torch import Tensor

from helpers import oracle


def assert_is_top(
    result: tuple[Tensor, Tensor], rows: list[list[oracle.Candidate]], k: int
) -> None:
    """Asserts that a result is the top k, for graphs where floating point is exact."""
    values, index = result
    assert values.shape == index.shape == (len(rows), k)
    assert index.dtype == torch.long
    for i, row in enumerate(rows):
        top = row[:k]
        assert index[i].tolist() == [c.node for c in top] + [-1] * (k - len(top)), f"row {i}"
        value = torch.tensor([c.value for c in top] + [0.0] * (k - len(top)), dtype=values.dtype)
        torch.testing.assert_close(values[i], value, rtol=0, atol=1e-6)


def assert_is_nearly_top(
    result: tuple[Tensor, Tensor], rows: list[list[oracle.Candidate]], k: int, p: int
) -> None:
    """Asserts that a result is the top k, up to swaps of entries that differ by rounding.

    Entries with equal terms must be in the order of the indices, except for `p > 2`, where the
    product of three weights depends on the order of the factors.
    """
    values, index = result
    for i, row in enumerate(rows):
        by_node = {c.node: c for c in row}
        count = min(k, len(row))
        assert (index[i, count:] == -1).all()
        assert (values[i, count:] == 0).all()
        chosen = [by_node.pop(j) for j in index[i, :count].tolist()]
        for place, ahead in enumerate(chosen):
            for behind in [*chosen[place + 1 :], *by_node.values()]:
                if p <= 2 and ahead.summands == behind.summands:
                    assert ahead.node < behind.node, f"row {i}: a structural tie"
                assert behind.key - ahead.key <= 1e-12 * abs(ahead.key), f"row {i}"
            assert values[i, place].item() == pytest.approx(ahead.value, rel=0, abs=1e-6)
