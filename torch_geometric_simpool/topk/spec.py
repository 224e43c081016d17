"""The arguments of a top k, once they are parsed. Whatever takes these records checks nothing."""

from typing import NamedTuple, Optional

from torch import Tensor


class EdgeList(NamedTuple):
    """The edges of a graph, in range. A bipartite graph has `num_dst` destination nodes."""

    edge_index: Tensor  # [2, E], int64
    edge_weight: Optional[Tensor]  # [E], finite
    num_nodes: int
    num_dst: Optional[int] = None

    @property
    def bipartite(self) -> bool:
        """Whether source and destination nodes are different nodes."""
        return self.num_dst is not None

    @property
    def num_cols(self) -> int:
        """The number of columns of the adjacency matrix."""
        return self.num_nodes if self.num_dst is None else self.num_dst


class SimilaritySpec(NamedTuple):
    """How two nodes are compared, and which nodes are candidates."""

    p: int = 1
    lam: float = 0.0
    measure: str = "cosine"
    max_degree: Optional[int] = None
    candidates: Optional[Tensor] = None  # [N], boolean


class Selection(NamedTuple):
    """Which candidates take a place in a row."""

    k: int
    loop: bool = True
    min_similarity: Optional[float] = None
