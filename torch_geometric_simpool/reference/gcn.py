r"""The GNN on a coarse graph: a graph convolution over its weighted edges."""

import torch
from torch import Tensor


def gcn(x: Tensor, adj: Tensor, weight: Tensor, bias: Tensor, act: bool = True) -> Tensor:
    r"""Computes a layer, `[N, out]`, from `x` `[N, in]`, `adj` `[N, N]` and weight `[out, in]`.

    .. math::
        X' = \mathrm{ReLU}(\tilde{D}^{-1/2} \tilde{A} \tilde{D}^{-1/2} X W + b), \qquad
        \tilde{A} = A + I, \qquad \tilde{D}_{ii} = \sum\nolimits_j \tilde{A}_{ij}

    Source: section 'Graph convolutional network'. The identity is added to the diagonal, which
    holds the edges within a cluster. The bias is not in the paper.
    """
    a_tilde = adj + torch.eye(adj.size(0)).to(adj)
    d = a_tilde.sum(dim=1).rsqrt().diag()
    out = d @ a_tilde @ d @ x @ weight.T + bias
    return out.relu() if act else out
