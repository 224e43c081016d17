r"""The `k` nodes that are most similar to each node: `rank_cols(C, k)` of the paper."""

from typing import Optional

import torch
from torch import Tensor
from torch.nn.functional import pad

from torch_geometric_simpool.reference.similarity import describe, structural_similarity


def topk(
    c: Tensor,
    k: int,
    loop: bool = True,
    min_similarity: Optional[float] = None,
    key: Optional[Tensor] = None,
) -> tuple[Tensor, Tensor]:
    r"""Returns the `k` largest entries of each row of `C`: `values` and `index`, `[N, k]`.

    The order is similarity descending, then node index ascending. Zeros of `C` and entries below
    `min_similarity` are no candidates. Without `loop`, the node itself is no candidate either. A
    place without a candidate holds value 0 and index -1. If `key`, `[N, N]`, is given, entries
    are ordered by `key`. The values are entries of `C` in any case.

    Source: `idx` of section 'Indices mapping trick', which leaves ties open.
    """
    candidate = c != 0
    if not loop:
        candidate = candidate.fill_diagonal_(False)
    if min_similarity is not None:
        candidate = candidate & (c >= min_similarity)
    order = (c if key is None else key).masked_fill(~candidate, -torch.inf)
    index = order.argsort(dim=1, descending=True, stable=True)[:, :k]
    found = candidate.gather(1, index)
    values, index = c.gather(1, index).where(found, 0), index.where(found, -1)
    missing = (0, k - index.size(1))  # for k > N
    return pad(values, missing), pad(index, missing, value=-1)


def cosine_key(adj: Tensor, p: int = 1, lam: float = 0.0) -> Tensor:
    r"""Returns keys that order row `i` like the cosine: `(d_i . d_j)^2 / |d_j|^2`, signed.

    In a graph many similarities are equal, and `a / sqrt(b c)` in floating point breaks such
    ties at random. This quotient is not rounded by a root. For integer weights, numerator
    and denominator are exact in float64, so equal similarities have equal keys.
    """
    rows = describe(adj.double(), p, lam)
    dot, norm2 = rows @ rows.T, rows.square().sum(dim=1)
    return dot * dot.abs() / torch.where(norm2 == 0, 1, norm2)


def topk_similarity(
    adj: Tensor,
    k: int,
    p: int = 1,
    lam: float = 0.0,
    measure: str = "cosine",
    loop: bool = True,
    min_similarity: Optional[float] = None,
) -> tuple[Tensor, Tensor]:
    """Computes the top k of `C`, with ties between cosines decided by the exact key."""
    c = structural_similarity(adj, p, lam, measure)
    key = cosine_key(adj, p, lam) if measure == "cosine" else None
    return topk(c, k, loop, min_similarity, key)
