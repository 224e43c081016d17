r"""`C`: two nodes are similar if they have similar neighborhoods."""

import torch
from torch import Tensor


def describe(adj: Tensor, p: int = 1, lam: float = 0.0) -> Tensor:
    r"""Returns the descriptions of the nodes, `[N, 2N]`: row `i` describes node `i`.

    .. math::
        \hat{A} = (A + \lambda I)^p, \qquad \tilde{A} = [\hat{A} \,|\, \hat{A}^\top]

    Source: section 'Graph structural similarity matrix', the asymmetric formula. For an
    undirected graph its cosine equals the cosine of the symmetric formula.
    """
    a_hat = torch.linalg.matrix_power(adj + lam * torch.eye(adj.size(0)).to(adj), p)
    return torch.cat([a_hat, a_hat.T], dim=1)


def cosine(rows: Tensor) -> Tensor:
    r"""`d_i . d_j / (|d_i| |d_j|)`."""
    norm2 = _squared_norms(rows)
    return rows @ rows.T / (norm2[:, None] * norm2).sqrt()


def jaccard(rows: Tensor) -> Tensor:
    r"""`d_i . d_j / (|d_i|^2 + |d_j|^2 - d_i . d_j)`: of rows of 0 and 1, a share of neighbors."""
    dot, norm2 = rows @ rows.T, _squared_norms(rows)
    return dot / (norm2[:, None] + norm2 - dot)


def dice(rows: Tensor) -> Tensor:
    r"""`2 d_i . d_j / (|d_i|^2 + |d_j|^2)`."""
    norm2 = _squared_norms(rows)
    return 2 * rows @ rows.T / (norm2[:, None] + norm2)


def overlap(rows: Tensor) -> Tensor:
    r"""`d_i . d_j / min(|d_i|^2, |d_j|^2)`."""
    norm2 = _squared_norms(rows)
    return rows @ rows.T / torch.minimum(norm2[:, None], norm2)


def l2(rows: Tensor) -> Tensor:
    r"""`1 / (1 + |d_i - d_j|)`."""
    return 1 / (1 + (rows[:, None] - rows).norm(dim=-1))


def hamming(rows: Tensor) -> Tensor:
    r"""The share of the `2N` places in which `d_i` and `d_j` are equal."""
    return (rows[:, None] == rows).to(rows.dtype).mean(dim=-1)


MEASURES = {
    "cosine": cosine,
    "jaccard": jaccard,
    "dice": dice,
    "overlap": overlap,
    "l2": l2,
    "hamming": hamming,
}


def structural_similarity(
    adj: Tensor, p: int = 1, lam: float = 0.0, measure: str = "cosine"
) -> Tensor:
    r"""Computes `C`, `[N, N]`: `C[i, j] = c(d_i, d_j)` for the descriptions `d` of the nodes.

    In the paper, `c` is the cosine, and the choice is flexible. A node with a zero description,
    such as an isolated node with `lam = 0`, has a zero row and a zero column in `C`.

    Source: section 'Graph structural similarity matrix'. The paper leaves zero rows open.
    """
    rows = describe(adj, p, lam)
    c = MEASURES[measure](rows)
    zero = (rows == 0).all(dim=1)
    return c.masked_fill(zero[:, None] | zero, 0)


def _squared_norms(rows: Tensor) -> Tensor:
    """`|d_i|^2`, and 1 for a zero row, whose gradient would be NaN otherwise."""
    norm2 = rows.square().sum(dim=1)
    return torch.where(norm2 == 0, 1, norm2)
