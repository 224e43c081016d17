"""Sums of messages. Deprecated: `models` uses it until its convolutions are rewritten."""

from typing import Optional

from torch import Tensor

from torch_geometric_simpool.functional.segment import sum_rows


def sum_messages(
    target: Tensor, source: Tensor, edge: Optional[Tensor], edge_index: Tensor
) -> Tensor:
    """Returns `sum_{j : (j, i) in E} relu(target_i + source_j + edge_ij)`, `[N, F]`."""
    message = target.index_select(0, edge_index[1]) + source.index_select(0, edge_index[0])
    message = (message if edge is None else message + edge).relu()
    return sum_rows(message, edge_index[1], target.size(0))
