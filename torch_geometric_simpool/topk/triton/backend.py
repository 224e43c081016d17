"""The top k by kernels written in Triton: on a GPU, or in Triton's interpreter.

The descriptions are those of the torch backend; `engine.triton` chooses the rows, with the bits of
the other backends. The torch backend computes rows whose `k` is too large for a block of a kernel.
"""

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.topk.backend import Cost, PreparedGraph
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.spec import EdgeList, Selection, SimilaritySpec
from torch_geometric_simpool.topk.torch import backend as topk_torch
from torch_geometric_simpool.topk.torch import csr
from torch_geometric_simpool.topk.triton import select

#: The bytes of an entry of a description: that of the torch backend, and a narrow copy.
BYTES_PER_ENTRY = csr.BYTES_PER_ENTRY + 16


class Prepared(NamedTuple):
    """A graph of which any rows can be computed."""

    common: topk_torch.TorchGraph
    engine: Any  # the same, as the kernels read it

    def topk(
        self, nodes: Optional[Tensor], selection: Selection, budget: Budget, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Returns values and indices, `[M, k]`, of the rows of `nodes`, or of all."""
        return topk(self, nodes, selection, budget, dtype)

    def cost(self, nodes: Optional[Tensor], k: int, budget: Budget) -> Cost:
        """Returns the cost of :meth:`topk`."""
        return Cost(*cost(self, nodes, k, budget))

    @property
    def memory(self) -> int:
        """The bytes of the descriptions."""
        return BYTES_PER_ENTRY * (self.common.left.col.numel() + self.common.right.col.numel())


def prepare(
    graph: EdgeList,
    settings: SimilaritySpec,
    budget: Budget,
    nodes: Optional[Tensor] = None,
) -> PreparedGraph:
    """What all rows have in common: the descriptions, their transpose and their norms."""
    common = topk_torch.prepare(graph, settings, budget, nodes)
    if common.measure not in ("cosine", "jaccard") or common.neighbors is not None:
        return common  # no kernel for it
    left, right = common.left, common.right
    prepared = select.prepare(
        (left.ptr, left.col, left.value),
        (right.ptr, right.col, right.value),
        common.norms.norm2,
        common.norms.scale,
        common.norms.integral,
        common.norms.exact,
        common.measure == "jaccard",
    )
    return Prepared(common, prepared)


def topk(
    prepared: Prepared,
    nodes: Optional[Tensor],
    settings: Selection,
    budget: Budget,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Values and indices of the top k of these nodes, or of all."""
    engine = select
    values, index, others = engine.topk(
        prepared.engine, nodes, settings, budget, prepared.memory, dtype
    )
    if others.numel() > 0:
        theirs = others if nodes is None else nodes[others]
        values[others], index[others] = prepared.common.topk(theirs, settings, budget, dtype)
    return values, index


def cost(
    prepared: Prepared, nodes: Optional[Tensor], k: int, budget: Budget
) -> tuple[int, int, int]:
    """The products, those that are visited at most, and the bytes of working memory."""
    engine = select
    return engine.cost(prepared.engine, nodes, k, budget, prepared.memory)
