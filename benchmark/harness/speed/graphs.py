"""Random graphs on which the top k is timed."""

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import remove_self_loops, to_undirected


def uniform(num_nodes: int, degree: int, seed: int = 0) -> Tensor:
    """Returns a graph whose edges have uniform ends, with `degree` neighbors on average."""
    generator = np.random.default_rng(seed)
    return _undirected(generator.integers(0, num_nodes, (2, num_nodes * degree // 2)))


def power_law(num_nodes: int, degree: int, seed: int = 0) -> Tensor:
    """Returns a graph of preferential attachment (Batagelj and Brandes 2005)."""
    number = np.arange(num_nodes * (degree // 2))
    # End `2 i + 1` of all ends in turn copies a random end before it. The legacy generator makes
    # the graphs of the stored results.
    copied = np.random.RandomState(seed).randint(0, 2 * number + 1)
    # An odd end is a copy itself. Follow it to an even one, which is the node of an edge.
    while (odd := np.flatnonzero(copied % 2)).size > 0:
        copied[odd] = copied[copied[odd] // 2]
    return _undirected(np.stack([number, copied // 2]) // (degree // 2))


def interactions(num_users: int, num_items: int, num_edges: int, seed: int = 0) -> Tensor:
    """Returns sorted pairs of users and items. The popularity of items is a power law."""
    generator = np.random.default_rng(seed)
    popularity = np.arange(1, num_items + 1) ** -0.8
    popularity /= popularity.sum()
    key = np.empty(0, np.int64)
    while key.size < num_edges:
        item = generator.choice(num_items, num_edges, p=popularity)
        user = generator.integers(0, num_users, num_edges)
        key = np.unique(np.concatenate([key, user * num_items + item]))
    key = np.sort(generator.choice(key, num_edges, replace=False))
    return torch.from_numpy(np.stack([key // num_items, key % num_items]))


def _undirected(ends: np.ndarray) -> Tensor:
    """Returns both directions of the edges, sorted, without self-loops and repeated edges."""
    return to_undirected(remove_self_loops(torch.from_numpy(ends))[0])
