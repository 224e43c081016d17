"""The protocol of a backend of the top k, and the choice of a backend."""

import importlib.util
import os
import shutil
from functools import cache
from typing import NamedTuple, Optional, Protocol

import torch
from torch import Tensor

from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.measures import NO_KERNEL, SPARSE_MEASURES
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings


class Cost(NamedTuple):
    """The cost of the rows of some nodes."""

    products: int
    memory: int  # bytes of working memory


class PreparedGraph(Protocol):
    """A graph whose rows can be computed, with the settings of the top k."""

    def topk(
        self, nodes: Optional[Tensor], k: int, budget: Budget, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Returns values and indices, `[M, k]`, of the rows of `nodes`, or of all."""

    def cost(self, nodes: Optional[Tensor], k: int, budget: Budget) -> Cost:
        """Returns the cost of :meth:`topk`."""


class Backend(Protocol):
    """A module that computes a top k."""

    def prepare(
        self,
        edges: EdgeList,
        settings: TopKSettings,
        budget: Budget,
        candidates: Optional[Tensor] = None,
    ) -> PreparedGraph:
        """Returns the prepared graph; `candidates` is a boolean for each node."""


def backend_name(settings: TopKSettings, device: torch.device) -> str:
    """Returns the name of the backend of a call, with `'auto'` resolved."""
    if settings.backend != "auto":
        return settings.backend
    if SPARSE_MEASURES[settings.measure].code == NO_KERNEL:
        return "torch"
    if device.type == "cpu":
        return "numba"
    return "triton" if device.type == "cuda" and can_use_triton() else "torch"


@cache
def can_use_triton() -> bool:
    """Returns whether Triton is installed, and the C compiler that it calls."""
    has_compiler = "CC" in os.environ or shutil.which("gcc") or shutil.which("clang")
    return bool(has_compiler) and importlib.util.find_spec("triton") is not None


def get_backend(settings: TopKSettings, device: torch.device) -> Backend:
    """Returns the backend of a call. Raises `ValueError` if it lacks the measure or the device."""
    name = backend_name(settings, device)
    if name == "torch":
        from torch_geometric_simpool.topk.torch import backend as torch_backend

        return torch_backend
    if SPARSE_MEASURES[settings.measure].code == NO_KERNEL:
        raise ValueError(
            f"`backend` must be 'auto' or 'torch' for measure={settings.measure!r}, which has no "
            f"kernel, got {name!r}"
        )
    if name == "numba":
        if device.type != "cpu":
            raise ValueError(
                f"`backend` 'numba' computes on a CPU, got tensors on {device}: use 'auto'"
            )
        from torch_geometric_simpool.topk.numba import backend as numba_backend

        return numba_backend
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError(
            f"`backend` 'triton' computes on a GPU, got tensors on {device}. For tests on a CPU, "
            "set the environment variable TRITON_INTERPRET=1 before Python starts"
        )
    try:
        from torch_geometric_simpool.topk.triton import backend as triton_backend
    except ImportError:
        raise ValueError(
            "`backend` 'triton' needs the package triton: pip install triton"
        ) from None
    return triton_backend
