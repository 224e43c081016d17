"""Dense, differentiable structural similarity, batched."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple, Optional, Union

import torch
from torch import Tensor
from torch_geometric.utils import to_dense_adj, to_dense_batch

from torch_geometric_simpool.functional.batches import DenseBatch, SparseBatch, inverse
from torch_geometric_simpool.topk.measures import SPARSE_MEASURES
from torch_geometric_simpool.utils.checks import (
    check_choice,
    check_dense,
    check_finite,
    check_int,
    check_mask,
    check_real,
    shape,
)
from torch_geometric_simpool.utils.rounding import exponent_of, power_of_two, two_to


def structural_similarity(
    adj: Tensor,
    p: int = 1,
    lam: float = 0.0,
    measure: str = "cosine",
    mask: Optional[Tensor] = None,
) -> Tensor:
    r"""Computes the similarity of the neighborhoods of all pairs of nodes of a graph.

    With :math:`\hat{A} = (A + \lambda I)^p`, node :math:`i` is described by :math:`d_i`, row
    :math:`i` of :math:`[\hat{A} \,|\, \hat{A}^\top]`. With :math:`n_i = \lVert d_i \rVert`,

    ================ =========================================================================
    measure          :math:`C_{ij}`
    ================ =========================================================================
    :obj:`"cosine"`  :math:`d_i \cdot d_j / (n_i n_j)`
    :obj:`"jaccard"` :math:`d_i \cdot d_j / (n_i^2 + n_j^2 - d_i \cdot d_j)`; for 0/1
                     descriptions, common neighbors divided by all neighbors
    :obj:`"dice"`    :math:`2 d_i \cdot d_j / (n_i^2 + n_j^2)`
    :obj:`"overlap"` :math:`d_i \cdot d_j / \min(n_i^2, n_j^2)`; for 0/1 descriptions, common
                     neighbors divided by the smaller number of neighbors
    :obj:`"l2"`      :math:`1 / (1 + \lVert d_i - d_j \rVert)`
    :obj:`"hamming"` :math:`1 - \#\{m : d_{im} \ne d_{jm}\} / 2n`, over the `2n` entries of a
                     description of `n` valid nodes; its gradient is zero
    ================ =========================================================================

    For symmetric :math:`A`, the cosine equals the symmetric formula of the paper. A node with
    a zero description (an isolated node with `lam = 0`, a padded node) has :math:`C_{ij} = 0`
    for all :math:`j`, itself included, under every measure. Entries of :obj:`adj` are used as
    given; negative entries give signed similarities.

    Args:
        adj (torch.Tensor): Adjacency matrix `[*, N, N]`. Integers and booleans are converted to
            the default floating-point type.
        p (int): Power in :math:`(A + \lambda I)^p`. `C[i, j]` can be non-zero up to distance
            `2p`. (default: :obj:`1`)
        lam (float): Weight of the added self-loops, `>= 0`. (default: :obj:`0.0`)
        measure (str): A measure of the table. (default: :obj:`"cosine"`)
        mask (torch.Tensor, optional): Valid nodes `[*, N]`, boolean. Padded rows and columns of
            :obj:`adj` are ignored, whatever they contain. (default: :obj:`None`)

    Returns:
        `C`, `[*, N, N]`, symmetric. For non-negative :obj:`adj` it is in `[0, 1]`, apart from the
        overlap of real weights, which has no upper bound. Otherwise cosine and Dice are in
        `[-1, 1]`, and Jaccard is in `[-1/3, 1]`.

    Raises:
        TypeError, ValueError: If an argument is wrong, or :obj:`adj` is not finite. On an
            accelerator, values are not checked, so nothing synchronizes.

    Differentiable with respect to :obj:`adj`. Gradients of zero descriptions are finite. For
    measures of dot products, a tiny description gets no gradient, such as the description of an
    almost empty cluster. All its entries are below about 1e-19 (1e-154 in float64) times the
    largest entry of :math:`\hat{A}`.

    Time `O(p N^3)` and memory `O(N^2)` per graph. Types narrower than float32 are computed in
    float32, also under autocast.

    Source: section 'Graph structural similarity matrix' of Shulman (2020),
    `arXiv:2006.02244 <https://arxiv.org/abs/2006.02244>`_, the asymmetric formula.

    Example:
        >>> adj = torch.tensor([[0., 1., 1.], [1., 0., 0.], [1., 0., 0.]])
        >>> structural_similarity(adj)  # nodes 1 and 2 are equivalent
        tensor([[1., 0., 0.],
                [0., 1., 1.],
                [0., 1., 1.]])
    """
    check_dense("adj", adj)
    if adj.dim() < 2 or adj.size(-1) != adj.size(-2):
        raise ValueError(f"`adj` must have shape [*, N, N], got {shape(adj)}")
    adj = adj if adj.is_floating_point() else adj.to(torch.get_default_dtype())
    p = check_int("p", p, 1)
    lam = check_real("lam", lam, 0.0)
    check_choice("measure", measure, tuple(MEASURES))
    mask = check_mask(mask, tuple(adj.shape[:-1]), adj.device, "adj")
    if mask is not None:
        adj = adj.masked_fill(~(mask.unsqueeze(-1) & mask.unsqueeze(-2)), 0)
    check_finite("adj", adj, adj.is_cpu)

    dtype, device = adj.dtype, adj.device.type
    # Autocast is switched off only if it is on. Switching it off makes a subgraph of an exported
    # program, which PyTorch 2.6 cannot save with dynamic sizes. The device `meta` has no autocast.
    autocast = device != "meta" and torch.is_autocast_enabled(device)
    with torch.autocast(device, enabled=False) if autocast else nullcontext():
        adj = adj.to(torch.promote_types(dtype, torch.float32))
        if lam > torch.finfo(adj.dtype).max:
            raise ValueError(f"`lam` must be finite in {adj.dtype}, the type of `adj`, got {lam}")
        if adj.numel() == 0:
            return adj.clone().to(dtype)
        if mask is None:
            mask = adj.new_ones(adj.shape[:-1], dtype=torch.bool)
        descriptions = _describe(adj, p, lam, mask)
        sim = MEASURES[measure](descriptions)
        described = (descriptions.rows != 0).any(dim=-1)
        sim = sim.masked_fill(~(described.unsqueeze(-1) & described.unsqueeze(-2)), 0)
        return sim.to(dtype)


class Descriptions(NamedTuple):
    """The descriptions :math:`d_i`, scaled by a power of two for each graph."""

    #: :math:`2^e d_i`, `[*, N, 2N]`.
    rows: Tensor
    #: The exponents :math:`e`, `[*, 1, 1]`.
    exponent: Tensor
    #: The valid nodes, `[*, N]`.
    mask: Tensor


def _describe(adj: Tensor, p: int, lam: float, mask: Tensor) -> Descriptions:
    # A graph is scaled so that its largest entry is below one half. The diagonal with added loops
    # is then below one, and powers of a large `adj` do not overflow. All scales are powers of two,
    # because products with them are exact.
    largest = adj.detach().abs().amax(dim=(-2, -1), keepdim=True).clamp(min=lam)
    scale = power_of_two(largest) / 2
    base = adj * scale
    if lam > 0:
        loops = lam * scale.squeeze(-1) * mask.to(scale.dtype)
        base = base + torch.diag_embed(loops)
    power, exponent = base, exponent_of(scale)
    for _ in range(p - 1):
        power = power @ base
        # Each power is scaled again, because high powers of a large graph would overflow.
        rescale = power_of_two(power.detach().abs().amax(dim=(-2, -1), keepdim=True))
        power, exponent = power * rescale, exponent + exponent_of(scale) + exponent_of(rescale)
    return Descriptions(torch.cat([power, power.mT], dim=-1), exponent, mask)


def _unit_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Scales each row to a largest entry of about one, so that its squares do not underflow.

    Returns the scaled rows and the factors, powers of two, `[*, N, 1]`.
    """
    largest = rows.detach().abs().amax(dim=-1, keepdim=True)
    # The gradient of the direction of a vector is inverse to its length. For an almost empty
    # cluster, it would overflow before the derivative of the softmax scales it back.
    tiny = largest < torch.finfo(largest.dtype).tiny ** 0.5
    scale = power_of_two(largest)
    return torch.where(tiny, rows.detach(), rows) * scale, scale


def _sparse_measure(name: str) -> Callable[[Descriptions], Tensor]:
    """Returns a measure of a dot product and two squared norms, for all pairs."""
    similarity = SPARSE_MEASURES[name].similarity

    def measure(descriptions: Descriptions) -> Tensor:
        rows, scale = _unit_rows(descriptions.rows)
        dot = rows @ rows.mT
        # Norms are entries of `dot`, so that the similarity of a node to itself is exactly one.
        norm2 = dot.diagonal(dim1=-2, dim2=-1)
        norm2 = torch.where(norm2 > 0, norm2, torch.ones_like(norm2))  # 0 / 0 has no gradient
        norm2_i, norm2_j = norm2.unsqueeze(-1), norm2.unsqueeze(-2)
        if name == "cosine":
            return similarity(dot, norm2_i, norm2_j)
        # Other measures depend on the lengths of the rows, which `_unit_rows` has changed. With
        # `ratio = scale_j / scale_i`, numerator and denominator are both multiplied by
        # `scale_i scale_j`. The ratio is clamped, because its square would overflow. Clamped ratios
        # give a similarity of 0, or an overlap beyond all bounds.
        half = 62 if rows.dtype == torch.float32 else 510
        exponent = exponent_of(scale)
        ratio = two_to((exponent.mT - exponent).clamp(-half, half), rows.dtype)
        return similarity(dot, norm2_i * ratio, norm2_j / ratio)

    return measure


def _l2(descriptions: Descriptions) -> Tensor:
    rows = descriptions.rows
    # Without matrix products, the distance of equal rows is exactly zero.
    distance = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")
    one = two_to(descriptions.exponent, distance.dtype)  # in the scale of the rows
    return one / (one + distance)


def _hamming(descriptions: Descriptions) -> Tensor:
    different = torch.cdist(descriptions.rows, descriptions.rows, p=0.0)
    places = 2 * descriptions.mask.sum(dim=-1).clamp(min=1).to(different.dtype)
    return 1 - different / places.view(*places.shape, 1, 1)


#: The similarities `[*, N, N]` of all pairs of descriptions, by name.
MEASURES: dict[str, Callable[[Descriptions], Tensor]] = {
    **{name: _sparse_measure(name) for name in SPARSE_MEASURES},
    "l2": _l2,
    "hamming": _hamming,
}


def similarity_rows(
    graphs: Union[SparseBatch, DenseBatch], p: int = 1, lam: float = 0.0, measure: str = "cosine"
) -> Tensor:
    """Returns the rows of C, `[N, N_max]` or `[B, N, N]`.

    A row has the similarities of the nodes of its graph, then zeros. Memory is `O(B N_max^2)`.
    """
    if isinstance(graphs, DenseBatch):
        sim = structural_similarity(graphs.adj, p, lam, measure, graphs.mask)
        if graphs.mask is None:
            return sim
        valid_first = (~graphs.mask).long().argsort(dim=-1, stable=True)
        return sim.gather(-1, valid_first.unsqueeze(1).expand_as(sim))
    _, edge_index, batch, weight, batch_size = graphs
    if batch.numel() == 0:
        return graphs.x.new_zeros(0, 0)
    by_graph = batch.argsort(stable=True)
    place = inverse(by_graph)
    if weight is not None:  # in half precision, sums of parallel edges would overflow
        weight = weight.to(torch.promote_types(weight.dtype, torch.float32))
    adj = to_dense_adj(place[edge_index], batch[by_graph], weight, batch_size=batch_size)
    _, mask = to_dense_batch(by_graph, batch[by_graph], batch_size=batch_size)
    return structural_similarity(adj, p, lam, measure, mask)[mask][place]
