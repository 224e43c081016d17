"""Structural similarity, dense and differentiable: the specification of the sparse paths."""

from collections.abc import Callable
from typing import Any, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.utils.checks import (
    check_choice,
    check_finite,
    check_int,
    check_mask,
    check_real,
    check_tensor,
    shape,
)
from torch_geometric_simpool.utils.scaling import exponent_of, power_of_two, two_to


def structural_similarity(
    adj: Tensor,
    p: int = 1,
    lam: float = 0.0,
    measure: str = "cosine",
    mask: Optional[Tensor] = None,
) -> Tensor:
    r"""How alike the neighbourhoods of every two nodes of a graph are.

    With :math:`\hat{A} = (A + \lambda I)^p`, node :math:`i` is described by
    :math:`d_i`, row :math:`i` of :math:`[\hat{A} \,|\, \hat{A}^\top]`, and

    =========== ==================================================================
    measure     :math:`C_{ij}`
    =========== ==================================================================
    `'cosine'`  :math:`d_i \cdot d_j / (\lVert d_i \rVert \lVert d_j \rVert)`
    `'jaccard'` :math:`d_i \cdot d_j / (\lVert d_i \rVert^2 + \lVert d_j \rVert^2
                - d_i \cdot d_j)`; of 0/1 descriptions, the share of common
                neighbours among all neighbours
    `'l2'`      :math:`1 / (1 + \lVert d_i - d_j \rVert)`
    `'hamming'` :math:`1 - \#\{m : d_{im} \ne d_{jm}\} / 2n`, over the `2n` places
                of a description (`n` counts real nodes only); it is piecewise
                constant, so its gradient is zero
    =========== ==================================================================

    For a symmetric :math:`A` the cosine is the paper's symmetric formula.
    A node whose description is zero (an isolated node with `lam = 0`, a padded
    one) has :math:`C_{ij} = 0` for every :math:`j`, itself included, under every
    measure. Entries of `adj` are used as given; negative ones give signed
    similarities.

    Args:
        adj: The adjacency matrix, `[*, N, N]`. Integers and booleans are
            converted to the default floating-point type.
        p: The power, `>= 1`. `C[i, j]` can be non-zero up to distance `2p`.
        lam: The weight of the added self-loops, `>= 0`.
        measure: `'cosine'`, `'jaccard'`, `'l2'` or `'hamming'`.
        mask: The real nodes, boolean, `[*, N]`. Whatever `adj` holds in padded
            rows and columns is ignored.

    Returns:
        `C`, `[*, N, N]`: in `[0, 1]` for a non-negative `adj`; cosine in
        `[-1, 1]`, Jaccard in `[-1/3, 1]` otherwise. Symmetric.

    Raises:
        TypeError, ValueError: The error names the argument, what came and what
            was expected: a shape other than `[*, N, N]`, a mask of another
            shape, `p < 1`, `lam < 0`, an unknown measure, NaN or infinity in
            `adj`.

    Differentiable with respect to `adj`, with finite gradients wherever a
    description is zero. A description smaller than the square root of the least
    normal number (1e-19 in float32) times the largest entry, as that of an all but
    empty cluster, counts as a constant under `'cosine'` and `'jaccard'`.

    Time `O(N^3 log p)`, memory `O(N^2)` a graph. Deterministic for one device and
    library version. Types narrower than float32 are computed in float32, also under
    autocast.

    Source: section 'Graph structural similarity matrix' of Shulman (2020),
    `arXiv:2006.02244 <https://arxiv.org/abs/2006.02244>`_, the asymmetric formula.

    Example:
        >>> adj = torch.tensor([[0., 1., 1.], [1., 0., 0.], [1., 0., 0.]])
        >>> structural_similarity(adj)  # nodes 1 and 2 are equivalent
        tensor([[1., 0., 0.],
                [0., 1., 1.],
                [0., 1., 1.]])
    """
    adj = _check_adj(adj)
    p = check_int("p", p, 1)
    lam = check_real("lam", lam, 0.0)
    check_choice("measure", measure, tuple(MEASURES))
    mask = check_mask(mask, tuple(adj.shape[:-1]))

    dtype = adj.dtype
    if mask is not None:
        adj = adj.masked_fill(~(mask.unsqueeze(-1) & mask.unsqueeze(-2)), 0)
    check_finite("adj", adj)
    with torch.autocast(adj.device.type, enabled=False):
        adj = adj.to(torch.promote_types(dtype, torch.float32))
        if mask is None:
            mask = adj.new_ones(adj.shape[:-1], dtype=torch.bool)
        if lam > torch.finfo(adj.dtype).max:
            raise ValueError(f"`lam` must be finite in {adj.dtype}, the type of `adj`, got {lam}")
        return _compare(adj, p, lam, measure, mask).to(dtype)


def _check_adj(adj: Any) -> Tensor:
    check_tensor("adj", adj)
    if adj.layout != torch.strided:
        raise TypeError(f"`adj` must be a dense tensor, got layout {adj.layout}")
    if adj.is_complex():
        raise TypeError(f"`adj` must be real, got {adj.dtype}")
    if adj.dim() < 2 or adj.size(-1) != adj.size(-2):
        raise ValueError(f"`adj` must have shape [*, N, N], got {shape(adj)}")
    return adj if adj.is_floating_point() else adj.to(torch.get_default_dtype())


def _compare(adj: Tensor, p: int, lam: float, measure: str, mask: Tensor) -> Tensor:
    if adj.numel() == 0:
        return adj.clone()
    # Powers of the graph, scaled so that none overflows.
    largest = adj.detach().abs().amax(dim=(-2, -1), keepdim=True).clamp(min=lam)
    # A sum of two, if the diagonal holds loops already.
    scale = power_of_two(largest) / 2
    power = adj * scale
    if lam > 0:
        loops = lam * scale.squeeze(-1) * mask.to(scale.dtype)
        power = power + torch.diag_embed(loops)
    if p > 1:
        power = torch.linalg.matrix_power(power, p)
    description = torch.cat([power, power.mT], dim=-1)
    described = (description != 0).any(dim=-1)
    sim = MEASURES[measure](description, exponent_of(scale) * p, mask)
    return sim.masked_fill(~(described.unsqueeze(-1) & described.unsqueeze(-2)), 0)


def _unit_rows(description: Tensor) -> tuple[Tensor, Tensor]:
    """Each row times the power of two that brings it to about one, and those powers."""
    largest = description.detach().abs().amax(dim=-1, keepdim=True)
    # The gradient of a direction grows as the vector shrinks. Of an all but empty cluster
    # it would overflow on its way through the softmax, whose factor shrinks as fast.
    tiny = largest < torch.finfo(largest.dtype).tiny ** 0.5
    scale = power_of_two(largest)
    return torch.where(tiny, description.detach(), description) * scale, scale


def _dots(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    dot = rows @ rows.mT
    # The diagonal of this very product: so a node's similarity to itself is exactly one.
    norm2 = dot.diagonal(dim1=-2, dim2=-1)
    norm2 = torch.where(norm2 > 0, norm2, torch.ones_like(norm2))
    return dot, norm2.unsqueeze(-1), norm2.unsqueeze(-2)


def _cosine(description: Tensor, exponent: Tensor, mask: Tensor) -> Tensor:
    rows, _ = _unit_rows(description)
    dot, norm2_i, norm2_j = _dots(rows)
    return (dot / (norm2_i * norm2_j).sqrt()).clamp(-1, 1)


def _jaccard(description: Tensor, exponent: Tensor, mask: Tensor) -> Tensor:
    rows, scale = _unit_rows(description)
    dot, norm2_i, norm2_j = _dots(rows)
    # In units of both rows at once: how much larger row i is than row j.
    half = 62 if rows.dtype == torch.float32 else 510
    larger = (exponent_of(scale).mT - exponent_of(scale)).clamp(-half, half)
    ratio = two_to(larger, rows.dtype)
    # Twice a dot product never exceeds the sum of the squares, so this is positive.
    return dot / (norm2_i * ratio + norm2_j / ratio - dot)


def _l2(description: Tensor, exponent: Tensor, mask: Tensor) -> Tensor:
    # Differences, not products: the rows of equivalent nodes cancel exactly.
    distance = torch.cdist(description, description, compute_mode="donot_use_mm_for_euclid_dist")
    # One, in the units of the scaled descriptions.
    one = two_to(exponent, distance.dtype)
    return one / (one + distance)


def _hamming(description: Tensor, exponent: Tensor, mask: Tensor) -> Tensor:
    different = torch.cdist(description, description, p=0.0)
    places = 2 * mask.sum(dim=-1).clamp(min=1).to(different.dtype)
    return 1 - different / places.view(*places.shape, 1, 1)


#: From the descriptions, scaled by two to the power of the exponent, to similarities.
MEASURES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "cosine": _cosine,
    "jaccard": _jaccard,
    "l2": _l2,
    "hamming": _hamming,
}
