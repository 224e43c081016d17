r"""`C_tilde`: the similar nodes and their similarities as `k` features, for graphs of any size."""

import torch
from torch import Tensor

from torch_geometric_simpool.reference.topk import topk


def map_indices(values: Tensor, index: Tensor, num_nodes: int, alpha: float = 1.0) -> Tensor:
    r"""Computes `C_tilde`, `[N, k]`: one number for each similar node and its similarity.

    .. math::
        \tilde{C}_{ir} = \frac{\alpha C_{ij} + j}{n + 1}

    Here `j` is the `r`-th most similar node, counted from one, in a graph of `n` nodes. Places
    without a node hold 0.

    Source: section 'Indices mapping trick', the efficient formula. The paper empties places
    where `alpha C` is zero. Here, places are empty where `C` is zero, so `alpha = 0` is possible.
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
    `k < n`. Padding is needed if a row has fewer than `k` candidates.
    """
    num_nodes = c.size(0)
    numbers = torch.arange(1, num_nodes + 1).to(c)
    c_hat = (alpha * c + numbers) * (c != 0) / (num_nodes + 1)
    _, index = topk(c, k)
    return c_hat.gather(1, index.clamp(min=0)).where(index >= 0, 0)
