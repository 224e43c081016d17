"""The dense top k in NumPy of graphs with integer weights, which are too large for fractions.

Every number is an integer below 2^53, so no sum is rounded, and a quotient is the nearest double.
Equal similarities have equal keys.
"""

import numpy as np
import torch
from torch import Tensor


def top(
    edge_index: Tensor,
    k: int,
    num_nodes: int,
    lam: int = 0,
    measure: str = "cosine",
    loop: bool = True,
    max_degree: int | None = None,
    edge_weight: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Returns values in float64 and indices, as `topk_similarity` does."""
    adj = lam * np.eye(num_nodes)
    weight = 1.0 if edge_weight is None else edge_weight.numpy()
    np.add.at(adj, tuple(edge_index.numpy()), weight)
    described = np.concatenate([adj, adj.T], axis=1)
    norm2 = (described**2).sum(1)
    if max_degree is not None:
        described = described * ((described != 0).sum(0) <= max_degree)
    dot = described @ described.T
    candidate = dot != 0
    if not loop:
        np.fill_diagonal(candidate, False)
    with np.errstate(invalid="ignore", divide="ignore"):
        if measure == "cosine":
            key = dot * np.abs(dot) / norm2
            value = np.sign(key) * np.sqrt(np.abs(key) / norm2[:, None])
        else:
            total = norm2[:, None] + norm2
            key = value = {
                "jaccard": dot / (total - dot),
                "dice": 2 * dot / total,
                "overlap": dot / np.minimum(norm2[:, None], norm2),
            }[measure]
    values = torch.zeros(num_nodes, k, dtype=torch.float64)
    index = torch.full((num_nodes, k), -1)
    for i in range(num_nodes):
        (ids,) = candidate[i].nonzero()
        best = ids[np.argsort(-key[i, ids], kind="stable")][:k]
        index[i, : best.size] = torch.from_numpy(best)
        values[i, : best.size] = torch.from_numpy(value[i, best])
    return values, index


def assert_same(
    result: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor], atol: float = 1e-6
) -> None:
    """Asserts equal indices, and equal values up to their type."""
    assert torch.equal(result[1], expected[1])
    torch.testing.assert_close(result[0].double(), expected[0], rtol=0, atol=atol)
