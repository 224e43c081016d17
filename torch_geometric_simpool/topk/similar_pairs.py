"""The top k as a list of pairs, with all ties at the last place if asked."""

from typing import Optional

import torch
from torch import Tensor
from torch_geometric.utils import to_undirected

from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.topk.topk_similarity import topk_of_edges


def similar_pairs(
    edges: EdgeList,
    k: int,
    settings: TopKSettings,
    ties: bool = False,
    nodes: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
) -> tuple[Tensor, Tensor]:
    """Returns pairs of a node and a similar node, `[2, M]`, and their similarities, `[M]`.

    Pairs are sorted by node, then as in the top k. A choice among equal similarities by index is
    not permutation equivariant; with `ties`, the pairs are.

    Args:
        edges (EdgeList): The graph.
        k (int): The number of similar nodes per node.
        settings (TopKSettings): The settings.
        ties (bool, optional): If set to :obj:`True`, a node is also paired with every node whose
            similarity equals that of its :obj:`k`-th. (default: :obj:`False`)
        nodes, candidates (torch.Tensor, optional): As in :func:`topk_of_edges`.
            (default: :obj:`None`)
    """
    values, index = topk_of_edges(edges, k + ties, settings, nodes, candidates)
    if nodes is None:
        nodes = torch.arange(edges.num_nodes, device=index.device)
    pairs, similarities = [], []
    while True:
        # The last place is read only to see whether ties go on; a row without it is complete.
        tied = (values[:, -1] == values[:, k - 1]) & (index[:, -1] >= 0) & ties
        chosen = (index >= 0) & ~tied.unsqueeze(-1)
        if ties:
            chosen &= (values >= values[:, k - 1 : k]) | (index[:, k - 1 : k] < 0)
        row, place = chosen.nonzero(as_tuple=True)
        pairs.append(torch.stack([nodes[row], index[row, place]]))
        similarities.append(values[row, place])
        nodes = nodes[tied]
        if nodes.numel() == 0:
            break
        values, index = topk_of_edges(edges, 2 * values.size(1), settings, nodes, candidates)
    joined = torch.cat(pairs, dim=1)
    order = joined[0].argsort(stable=True)
    return joined[:, order], torch.cat(similarities)[order]


def symmetric_pairs(pairs: Tensor, similarity: Tensor, symmetrize: str) -> tuple[Tensor, Tensor]:
    """Returns pairs in both directions: all (`'union'`), or those that are there in both."""
    pairs, (total, count) = to_undirected(pairs, [similarity, torch.ones_like(similarity)])
    if symmetrize == "mutual":
        mutual = count == 2
        pairs, total, count = pairs[:, mutual], total[mutual], count[mutual]
    return pairs, total / count
