r"""`C_tilde`: the similar nodes and their similarities as `k` features, for graphs of any size."""

import torch
from torch import Tensor

from torch_geometric_simpool.reference.topk import topk


def map_indices(values: Tensor, index: Tensor, num_nodes: int, alpha: float = 1.0) -> Tensor:
    r"""`C_tilde`, `[N, k]`, from the top k of `C`: one number tells which node and how similar.

    .. math::
        \tilde{C}_{ir} = \frac{\alpha C_{ij} + j}{n + 1}

    for the `r`-th most similar node `j`, counted from one, of a graph of `n` nodes. It is 0 in
    places without a node.

    Source: section 'Indices mapping trick', the efficient formula. The paper empties the places
    where `alpha C` is zero; `C` counts here, so that `alpha = 0` is possible.
    """
    j = index + 1
    c_tilde = (alpha * values + j) / (num_nodes + 1)
    return c_tilde.masked_fill(values == 0, 0)


def naive_map_indices(c: Tensor, k: int, alpha: float = 1.0) -> Tensor:
    r"""Computes `C_tilde` from all of `C`: map first, then gather.

    .. math::
        \hat{C} &= \frac{(\alpha C + \mathbf{1} \mathbf{n}^\top) \odot notzero(C)}{n + 1} \\
        idx &= rank_{cols}(C, k) \\
        \tilde{C} &= \hat{C}[idx]

    Source: section 'Indices mapping trick', the first formula. The paper pads with zeros if
    `k < n`; padding is needed if a row has fewer than `k` candidates.
    """
    num_nodes = c.size(0)
    numbers = torch.arange(1, num_nodes + 1).to(c)
    c_hat = (alpha * c + numbers) * (c != 0) / (num_nodes + 1)
    _, index = topk(c, k)
    return c_hat.gather(1, index.clamp(min=0)).where(index >= 0, 0)
