"""The protocol of a backend of the top k, and the choice of a backend."""

from typing import NamedTuple, Optional, Protocol

import torch
from torch import Tensor

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.spec import EdgeList, Selection, SimilaritySpec, TopKSettings


class Cost(NamedTuple):
    """The cost of the rows of some nodes."""

    products: int
    memory: int  # bytes of working memory


class PreparedGraph(Protocol):
    """A graph whose rows can be computed."""

    def topk(
        self, nodes: Optional[Tensor], selection: Selection, budget: Budget, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Returns values and indices, `[M, k]`, of the rows of `nodes`, or of all."""

    def cost(self, nodes: Optional[Tensor], k: int, budget: Budget) -> Cost:
        """Returns the cost of :meth:`topk`."""


class Backend(Protocol):
    """A module that computes a top k."""

    def prepare(
        self,
        edges: EdgeList,
        spec: SimilaritySpec,
        budget: Budget,
        nodes: Optional[Tensor] = None,
    ) -> PreparedGraph:
        """Returns the prepared graph. If `nodes` is given, only their rows are computed later."""


def get_backend(settings: TopKSettings, device: torch.device) -> Backend:
    """Returns the backend of a call. Raises `ValueError` if it lacks a setting or the device."""
    name, without_kernel = settings.backend, settings.without_kernel
    if name == "auto":
        name = "numba" if device.type == "cpu" and not without_kernel else "torch"
    if name == "torch":
        from torch_geometric_simpool.topk.torch import backend as torch_backend

        return torch_backend
    if without_kernel:
        option = without_kernel[0]
        raise ValueError(
            f"`backend` must be 'auto' or 'torch' for {option}={getattr(settings, option)!r}, "
            f"which has no kernel, got {name!r}"
        )
    if name == "numba":
        if device.type != "cpu":
            raise ValueError(
                f"`backend` 'numba' computes on a CPU, got tensors on {device}: use 'auto'"
            )
        from torch_geometric_simpool.topk.numba import backend as numba_backend

        return numba_backend
    from torch_geometric_simpool.topk.triton import missing

    lacking = missing(device)
    if lacking is not None:
        raise ValueError(f"`backend` 'triton' needs {lacking}")
    from torch_geometric_simpool.topk.triton import backend as triton_backend

    return triton_backend
