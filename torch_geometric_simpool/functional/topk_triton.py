"""The top k by kernels written in Triton: on a GPU, or in Triton's interpreter.

The descriptions are those of the torch backend; `engine.triton` chooses the rows, with the bits of
the other backends. The torch backend computes rows whose `k` is too large for a block of a kernel.
"""

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.engine import dispatch
from torch_geometric_simpool.functional import topk_torch
from torch_geometric_simpool.utils.budget import Budget
from torch_geometric_simpool.utils.settings import DescriptionSettings, Graph, SelectionSettings

#: The bytes of an entry of a description: that of the torch backend, and a narrow copy.
BYTES_PER_ENTRY = topk_torch.BYTES_PER_ENTRY + 16


class Prepared(NamedTuple):
    """A graph of which any rows can be computed."""

    common: topk_torch.Prepared
    engine: Any  # the same, as the kernels read it

    @property
    def memory(self) -> int:
        """The bytes of the descriptions."""
        return BYTES_PER_ENTRY * (self.common.left.col.numel() + self.common.right.col.numel())


def prepare(
    graph: Graph,
    settings: DescriptionSettings,
    budget: Budget,
    nodes: Optional[Tensor] = None,
) -> Prepared:
    """What all rows have in common: the descriptions, their transpose and their norms."""
    common = topk_torch.prepare(graph, settings, budget, nodes)
    left, right = common.left, common.right
    prepared = dispatch.topk_triton_engine().prepare(
        (left.ptr, left.col, left.value),
        (right.ptr, right.col, right.value),
        common.norm2,
        common.scale,
        common.integral,
        common.exact,
        common.jaccard,
    )
    return Prepared(common, prepared)


def topk(
    prepared: Prepared,
    nodes: Optional[Tensor],
    settings: SelectionSettings,
    budget: Budget,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Values and indices of the top k of these nodes, or of all."""
    engine = dispatch.topk_triton_engine()
    values, index, others = engine.topk(
        prepared.engine, nodes, settings, budget, prepared.memory, dtype
    )
    if others.numel() > 0:
        theirs = others if nodes is None else nodes[others]
        values[others], index[others] = topk_torch.topk(
            prepared.common, theirs, settings, budget, dtype
        )
    return values, index


def cost(
    prepared: Prepared, nodes: Optional[Tensor], k: int, budget: Budget
) -> tuple[int, int, int]:
    """The products, those that are visited at most, and the bytes of working memory."""
    engine = dispatch.topk_triton_engine()
    return engine.cost(prepared.engine, nodes, k, budget, prepared.memory)


def traffic(
    prepared: Prepared, nodes: Optional[Tensor], k: int, dtype: torch.dtype
) -> tuple[list[tuple[str, int, int]], int, int]:
    """The bytes that each kernel reads and writes: its name, and both; and two bounds from below.

    A bound is the bytes of each list that a row names, once, and of the output, once: with the
    lists of hubs, and without them. It runs without a GPU and without Triton.
    """
    return dispatch.topk_triton_traffic().count(prepared.engine, nodes, k, dtype.itemsize)
