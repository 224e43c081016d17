r"""`L_E` and `L_C`: each node belongs to one cluster, and the clusters are equally large."""

import math

import torch
from torch import Tensor


def entropy(q: Tensor) -> Tensor:
    r"""`H(q) = -sum_k q_k log q_k` of each row, in nats, with `0 log 0 = 0`."""
    log_q = torch.where(q > 0, q, 1).log()
    return -(q * log_q).sum(dim=-1)


def entropy_loss(s: Tensor) -> Tensor:
    r"""Computes `L_E` of an assignment `S`, `[N, K]`. It is 0 if `S` is certain, at most `log K`.

    .. math::
        L_E = \frac{1}{n} \sum_{i=1}^{n} H(S_i)

    Source: section 'DiffPool revised', equation of `L_E`. A network adds up the losses of
    its levels. The loss of a batch is the mean over its graphs.
    """
    return entropy(s).mean()


def cluster_loss(s: Tensor) -> Tensor:
    r"""Computes `L_C` of an assignment `S`, `[N, K]`. It is 0 for equal clusters, at most `log K`.

    .. math::
        L_C = \log K - H\Bigl(\frac{1}{n} \sum_{i=1}^{n} S_i\Bigr)

    Source: section 'DiffPool revised', equation of `L_C`. The paper prints `+H`, which is
    smallest if all nodes are in one cluster. This contradicts its text and its figures.
    """
    return math.log(s.size(1)) - entropy(s.mean(dim=0))
