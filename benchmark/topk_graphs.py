"""The graphs of the benchmark of the top k: drawn, or read from the TU data sets."""

import numba
import numpy as np
import torch
from torch import Tensor


def uniform(num_nodes: int, degree: int, seed: int = 0) -> Tensor:
    """Each end of each edge is drawn uniformly; `degree` neighbours on average."""
    generator = np.random.default_rng(seed)
    ends = generator.integers(0, num_nodes, (2, num_nodes * degree // 2))
    return _undirected(ends[0], ends[1], num_nodes)


def power_law(num_nodes: int, degree: int, seed: int = 0) -> Tensor:
    """Preferential attachment (Batagelj and Brandes 2005), `degree / 2` edges for each node."""
    ends = _attach(num_nodes, degree // 2, seed)
    return _undirected(ends[::2], ends[1::2], num_nodes)


def with_hub(edge_index: Tensor, num_nodes: int) -> Tensor:
    """One node more, joined to all others."""
    others = torch.arange(num_nodes)
    hub = torch.full_like(others, num_nodes)
    both = torch.cat([torch.stack([hub, others]), torch.stack([others, hub])], dim=1)
    return torch.cat([edge_index, both], dim=1)


def star(num_leaves: int) -> Tensor:
    """Node 0 and its leaves."""
    leaves = torch.arange(1, num_leaves + 1)
    hub = torch.zeros_like(leaves)
    return torch.cat([torch.stack([hub, leaves]), torch.stack([leaves, hub])], dim=1)


def complete(num_nodes: int) -> Tensor:
    """Every pair, without self-loops."""
    pairs = torch.ones(num_nodes, num_nodes, dtype=torch.bool).fill_diagonal_(False)
    return pairs.nonzero().t().contiguous()


@numba.njit
def _attach(num_nodes: int, edges: int, seed: int) -> np.ndarray:
    np.random.seed(seed)
    ends = np.empty(2 * num_nodes * edges, np.int64)
    for node in range(num_nodes):
        for edge in range(edges):
            place = 2 * (node * edges + edge)
            ends[place] = node
            ends[place + 1] = ends[np.random.randint(0, place + 1)]
    return ends


def _undirected(row: np.ndarray, col: np.ndarray, num_nodes: int) -> Tensor:
    """Both directions, sorted as PyG sorts them; without self-loops and repeated edges."""
    apart = row != col
    row, col = row[apart], col[apart]
    key = np.unique(np.concatenate([row * num_nodes + col, col * num_nodes + row]))
    return torch.from_numpy(np.stack([key // num_nodes, key % num_nodes]))
