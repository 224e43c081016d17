"""The parsed arguments of a top k. Functions that take them check nothing."""

import math
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.measures import SPARSE_MEASURES
from torch_geometric_simpool.utils.checks import check_bool, check_choice, check_int, check_real

#: `'auto'` is `'numba'` for tensors on a CPU, and `'triton'` or `'torch'` elsewhere.
BACKENDS = ("auto", "numba", "torch", "triton")


class EdgeList(NamedTuple):
    """The edges of a graph, in range. A bipartite graph has `num_dst` destination nodes."""

    edge_index: Tensor  # [2, E], int64
    edge_weight: Optional[Tensor]  # [E], finite
    num_nodes: int
    num_dst: Optional[int] = None

    @property
    def bipartite(self) -> bool:
        """Whether the graph is bipartite."""
        return self.num_dst is not None

    @property
    def num_cols(self) -> int:
        """The number of columns of the adjacency matrix."""
        return self.num_nodes if self.num_dst is None else self.num_dst

    @property
    def dtype(self) -> torch.dtype:
        """The type of the similarities."""
        if self.edge_weight is not None and self.edge_weight.is_floating_point():
            return self.edge_weight.dtype
        return torch.get_default_dtype()

    @property
    def device(self) -> torch.device:
        """The device of the edges."""
        return self.edge_index.device

    def flipped(self) -> "EdgeList":
        """Returns the bipartite graph whose edges go from destination to source nodes."""
        return EdgeList(
            self.edge_index.flip(0), self.edge_weight, self.num_cols, num_dst=self.num_nodes
        )


@dataclass(frozen=True)
class TopKSettings:
    """The checked settings of a top k, which other functions take as `**settings`.

    See :func:`topk_similarity` for their meaning.
    """

    p: int = 1
    lam: float = 0.0
    measure: str = "cosine"
    loop: bool = True
    min_similarity: Optional[float] = None
    max_degree: Optional[int] = None
    memory_budget: Optional[int] = None
    force: bool = False
    backend: str = "auto"
    exclude_neighbors: bool = False

    @classmethod
    def parse(cls, settings: dict[str, Any], **fixed: Any) -> "TopKSettings":
        """Returns the `**settings` of a function, and the `fixed` settings that it sets itself."""
        names = [field.name for field in fields(cls) if field.name not in fixed]
        for name in settings:
            if name not in names:
                raise TypeError(
                    f"`{name}` is no parameter of this function, nor one of the settings of its "
                    f"top k: {', '.join(names)}"
                )
        return cls(**settings, **fixed)

    def __post_init__(self) -> None:
        parsed = {
            "p": check_int("p", self.p, 1),
            "lam": check_real("lam", self.lam, 0.0),
            "measure": check_choice("measure", self.measure, tuple(SPARSE_MEASURES)),
            "loop": check_bool("loop", self.loop),
            "exclude_neighbors": check_bool("exclude_neighbors", self.exclude_neighbors),
            "force": check_bool("force", self.force),
            "backend": check_choice("backend", self.backend, BACKENDS),
        }
        if self.min_similarity is not None:
            # Overlaps of real weights have no bound, and every returned value must be accepted.
            bound = math.inf if self.measure == "overlap" else 1.0
            parsed["min_similarity"] = check_real(
                "min_similarity", self.min_similarity, -bound, bound
            )
        for name, low in (("max_degree", 0), ("memory_budget", 1)):
            if getattr(self, name) is not None:
                parsed[name] = check_int(name, getattr(self, name), low)
        for name, value in parsed.items():
            object.__setattr__(self, name, value)

    def reaches(self, values: Tensor) -> Tensor:
        """Returns which similarities reach `min_similarity`, compared in their type."""
        return values >= torch.tensor(self.min_similarity, dtype=values.dtype)

    def cut(self, values: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """Empties the places of a top k that do not reach `min_similarity`, in place."""
        if self.min_similarity is not None:
            below = self.reaches(values).logical_not_()
            values.masked_fill_(below, 0)
            index.masked_fill_(below, -1)
        return values, index

    def budget(self, edges: EdgeList, num_rows: int, k: int, **texts: str) -> Budget:
        """Returns the limits of a call with a result of `num_rows` rows; `texts` are for errors."""
        output = num_rows * k * (edges.dtype.itemsize + torch.long.itemsize)
        return Budget(self.memory_budget, self.force, output, edges.device, **texts)

    def changed(self) -> dict[str, Any]:
        """Returns the settings that differ from their defaults, for a `repr`."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }
