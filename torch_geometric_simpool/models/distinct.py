"""Nodes with the same features: labels as one-hot rows are few, however many the nodes are."""

from functools import lru_cache
from typing import Optional

import torch
from torch import Tensor

#: So many rows are looked at first, and there must be this many times more rows than
#: different ones.
SAMPLE = 512
TIMES = 4


def distinct_rows(x: Tensor) -> Optional[tuple[Tensor, Tensor]]:
    r"""The different rows of `x`, and which of them each row is; `None` where that is no gain.

    .. math::
        x_i = t_{c_i}

    Args:
        x: `[N, F]`.

    Returns:
        `(t, c)`, `[D, F]` and `[N]`, int64, with `D <= N / 4`; `t` may hold a row twice.
        `None` for rows that are too many, too few in all, that need gradients, or are
        traced, or not on a CPU, where finding out would cost more than the products.

    Rows are told apart by their products with one random vector, and then compared, so that
    the result is exact, but that -0.0 is taken for 0.0. Time `O(N F + N log N)`, or `O(F)`
    where there are too many; memory `O(N F)`. Deterministic.
    """
    if not _worth_a_look(x):
        return None
    direction = _direction(x.size(1), x.dtype)
    if (x[:SAMPLE] @ direction).unique().numel() * TIMES > SAMPLE:
        return None
    # `torch.unique(x, dim=0)` sorts whole rows, which takes longer than what is to be saved.
    number = x @ direction
    different, code = number.unique(return_inverse=True)
    if different.numel() * TIMES > x.size(0):
        return None
    one_of_them = code.new_empty(different.numel())
    one_of_them.scatter_(0, code, torch.arange(x.size(0), device=x.device))
    rows = x.index_select(0, one_of_them)
    # Different rows may share a product, and NaN equals nothing.
    return (rows, code) if torch.equal(rows.index_select(0, code), x) else None


def _worth_a_look(x: Tensor) -> bool:
    return (
        type(x) is Tensor
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()
        and not torch._C._are_functorch_transforms_active()
        and x.device.type == "cpu"
        and x.layout == torch.strided
        and x.dtype in (torch.float32, torch.float64)
        and x.dim() == 2
        and x.size(0) >= SAMPLE
        and x.size(1) > 0
        and not x.requires_grad
    )


@lru_cache(maxsize=64)
def _direction(num_features: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator("cpu").manual_seed(0)
    drawn = torch.rand(num_features, dtype=torch.float64, generator=generator, device="cpu")
    return drawn.to(dtype)
