r"""`S`, `X'`, `A'`: from the nodes of a graph to `K` clusters, and back."""

import torch
from torch import Tensor


def sim_pool(x: Tensor, adj: Tensor, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""Returns the assignment `S` `[N, K]` and the coarse graph: `X'` `[K, F]` and `A'` `[K, K]`.

    .. math::
        S &= \mathrm{softmax}(\text{logits}) \\
        X' &= S^\top X \\
        A' &= \tanh(S^\top A S)

    Row `i` of `S` holds the probabilities that node `i` belongs to each of the clusters. In a
    network, `x` is the embedding `Z` of the nodes. No self-loop is removed from `A'`.

    Source: sections 'DiffPool' and 'DiffPool revised', which adds the `tanh`.
    """
    s = logits.softmax(dim=1)
    x_pooled = s.T @ x
    adj_pooled = (s.T @ adj @ s).tanh()
    return s, x_pooled, adj_pooled


def lift(x_pooled: Tensor, s: Tensor) -> Tensor:
    r"""Returns node features from cluster features, `S X'`, `[N, F]`.

    Source: the unpooling of Gao and Ji (2019), 'Graph U-Nets', for a soft assignment. The paper
    has no unpooling.
    """
    return s @ x_pooled


def cluster_mask(s: Tensor) -> Tensor:
    r"""Returns the `min(N, K)` clusters that hold most of the graph, as a mask `[K]`.

    A graph of `N` nodes cannot fill more than `N` clusters. Ties go to lower numbers.
    Not in the paper.
    """
    num_nodes, num_clusters = s.shape
    largest = s.sum(dim=0).argsort(descending=True, stable=True)[:num_nodes]
    return torch.zeros(num_clusters, dtype=torch.bool).index_fill(0, largest, True)
