"""The top k as a graph, and as a list of pairs, which can include all ties at the last place."""

from typing import Any, Optional, Union

import torch
from torch import Tensor
from torch_geometric.utils import coalesce, to_undirected

from torch_geometric_simpool.topk.parse import (
    NodeIds,
    parse_candidates,
    parse_edges,
    parse_nodes,
)
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.topk.topk_similarity import topk_of_edges
from torch_geometric_simpool.utils.checks import check_choice, check_int

#: The kinds of undirected graphs; `None` leaves the graph directed.
SYMMETRIZE = (None, "union", "mutual")


def similarity_graph(
    edge_index: Tensor,
    k: int,
    edge_weight: Optional[Tensor] = None,
    num_nodes: Union[int, tuple[int, int], None] = None,
    flow: str = "source_to_target",
    symmetrize: Optional[str] = None,
    *,
    nodes: Optional[NodeIds] = None,
    candidates: Optional[NodeIds] = None,
    **settings: Any,
) -> tuple[Tensor, Tensor]:
    r"""Joins every node to its :obj:`k` most similar nodes: :func:`topk_similarity` as a graph.

    An edge between :math:`i` and :math:`j` has the weight :math:`C_{ij}`, the similarity of
    :func:`structural_similarity`. No node is joined to itself. An empty place of the top k gives
    no edge, so a node may have fewer than :obj:`k`.

    =================  ==============================================================
    :obj:`symmetrize`  there is an edge if
    =================  ==============================================================
    :obj:`None`        `j` is among the top k of `i`; one edge, in the direction of
                       :obj:`flow`
    :obj:`"union"`     `j` is among the top k of `i`, or `i` among the top k of `j`;
                       both directions
    :obj:`"mutual"`    `j` is among the top k of `i`, and `i` among the top k of `j`;
                       both directions
    =================  ==============================================================

    Both directions of a union or mutual edge have the same weight, bit for bit. The weight is the
    value of :func:`topk_similarity`, or the mean of two values that differ by rounding.

    Args:
        edge_index (torch.Tensor): Edges `[2, E]`, integers, as in :func:`topk_similarity`.
        k (int): Number of similar nodes per node.
        edge_weight (torch.Tensor, optional): Weights `[E]` or `[E, 1]`, finite.
            (default: :obj:`None`, weights of one)
        num_nodes (int or tuple, optional): Number of nodes, or the numbers of source and
            destination nodes of a bipartite graph, whose source nodes are joined.
            (default: :obj:`None`, the largest id plus one)
        flow (str): Direction of the edges, as in PyG's `knn_graph`.
            :obj:`"source_to_target"` is the direction from the similar node `j` to `i`, so that `i`
            receives :obj:`k` messages. :obj:`"target_to_source"` is the opposite direction.
            (default: :obj:`"source_to_target"`)
        symmetrize (str, optional): :obj:`"union"` or :obj:`"mutual"`, see the table.
            (default: :obj:`None`)
        nodes (torch.Tensor, list or int, optional): Ids of the nodes that are joined to their
            similar nodes. Other nodes have no top k, and thus no mutual edges.
            (default: :obj:`None`, all nodes)
        candidates (torch.Tensor, list or int, optional): Ids of the nodes that may be similar
            nodes. (default: :obj:`None`, all nodes)
        **settings (optional): Settings of :func:`topk_similarity`, except `loop`.

    Returns:
        :obj:`edge_index`, `[2, L]`, coalesced; and :obj:`edge_weight`, `[L]`, in the type of the
        values of :func:`topk_similarity`.

    Raises:
        TypeError, ValueError: If an argument is wrong, as in :func:`topk_similarity`.

    Differentiable with respect to :obj:`edge_weight`, through the returned weights.

    Time: a call of :func:`topk_similarity`, and a sort of the edges. Memory: about 80 bytes for
    each edge, or 150 with :obj:`symmetrize`. The `memory_budget` does not include this memory.

    Source: section 'Complexity' of Shulman (2020) for the top k; the graph is not in the paper.

    Example:
        >>> import torch
        >>> star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
        >>> similarity_graph(star, k=1)
        (tensor([[1, 1, 2],
                [2, 3, 1]]), tensor([1., 1., 1.]))
        >>> similarity_graph(star, k=1, symmetrize="union")
        (tensor([[1, 1, 2, 3],
                [2, 3, 1, 1]]), tensor([1., 1., 1., 1.]))
    """
    check_choice("flow", flow, ("source_to_target", "target_to_source"))
    check_choice("symmetrize", symmetrize, SYMMETRIZE)
    parsed = TopKSettings.parse(settings, loop=False)
    k = check_int("k", k, 1)
    edges = parse_edges(edge_index, edge_weight, num_nodes, parsed)
    ids, allowed = parse_nodes(nodes, edges), parse_candidates(candidates, edges)
    pairs, similarity = similar_pairs(edges, k, parsed, False, ids, allowed)
    if flow == "source_to_target":
        pairs = pairs.flip(0)
    # If `nodes` repeats a node, its rows are equal. Their maximum is exact, but their mean may be
    # rounded.
    pairs, similarity = coalesce(pairs, similarity, reduce="max")
    if symmetrize is None:
        return pairs, similarity
    return symmetric_pairs(pairs, similarity, symmetrize)


def similar_pairs(
    edges: EdgeList,
    k: int,
    settings: TopKSettings,
    ties: bool = False,
    nodes: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
) -> tuple[Tensor, Tensor]:
    """Returns pairs of a node and a similar node, `[2, M]`, and their similarities, `[M]`.

    Pairs are sorted by node, then as in the top k. The choice among equal similarities by index is
    not permutation equivariant. With `ties`, the pairs are permutation equivariant.

    Args:
        edges (EdgeList): The graph.
        k (int): The number of similar nodes per node.
        settings (TopKSettings): The settings.
        ties (bool, optional): If set to :obj:`True`, a node is also paired with every node that
            ties with its :obj:`k`-th similar node. (default: :obj:`False`)
        nodes, candidates (torch.Tensor, optional): As in :func:`topk_of_edges`.
            (default: :obj:`None`)
    """
    values, index = topk_of_edges(edges, k + ties, settings, nodes, candidates)
    if nodes is None:
        nodes = torch.arange(edges.num_nodes, device=index.device)
    pairs, similarities = [], []
    while True:
        # If the last place ties with place `k`, further nodes may tie, and the row is computed
        # again with more places.
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
    """Joins the nodes of all pairs (`'union'`), or of pairs that occur in both directions."""
    pairs, (total, count) = to_undirected(pairs, [similarity, torch.ones_like(similarity)])
    if symmetrize == "mutual":
        mutual = count == 2
        pairs, total, count = pairs[:, mutual], total[mutual], count[mutual]
    return pairs, total / count
