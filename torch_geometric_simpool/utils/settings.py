"""The arguments of a top k, once they are checked."""

from typing import NamedTuple, Optional

from torch import Tensor


class Graph(NamedTuple):
    """The edges whose ends are described. A bipartite graph has features of its own."""

    edge_index: Tensor  # [2, E], int64, in range
    edge_weight: Optional[Tensor]  # [E]
    num_nodes: int
    num_targets: Optional[int]  # of a bipartite graph: its destination nodes

    @property
    def bipartite(self) -> bool:
        """Whether source and destination nodes are different nodes."""
        return self.num_targets is not None

    @property
    def num_cols(self) -> int:
        """The number of columns of the adjacency matrix."""
        return self.num_nodes if self.num_targets is None else self.num_targets


class DescriptionSettings(NamedTuple):
    """What the descriptions of the nodes, and the dot products between them, depend on."""

    p: int
    lam: float
    measure: str
    max_degree: Optional[int] = None
    candidates: Optional[Tensor] = None  # which nodes may take a place, [N], boolean


class SelectionSettings(NamedTuple):
    """Which candidates take a place in a row."""

    k: int
    loop: bool = True
    min_similarity: Optional[float] = None
