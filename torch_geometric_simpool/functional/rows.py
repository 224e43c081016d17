"""Rows by their numbers. Deprecated: `models` uses it until its convolutions are rewritten."""

from torch import Tensor

from torch_geometric_simpool.functional.segment import sum_rows

__all__ = ["sum_rows", "take_rows"]


def take_rows(x: Tensor, index: Tensor) -> Tensor:
    """Returns the rows `x[index]`."""
    return x.index_select(0, index)
