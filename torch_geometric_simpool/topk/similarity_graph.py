"""The top k of structural similarity as a graph."""

from typing import Optional, Union

import torch
from torch import Tensor
from torch_geometric.utils import coalesce, to_undirected

from torch_geometric_simpool.topk.topk_similarity import topk_similarity
from torch_geometric_simpool.utils.checks import check_choice

#: As in PyG's `knn_graph`.
FLOWS = ("source_to_target", "target_to_source")

#: Which edges an undirected graph has; `None` leaves it directed.
SYMMETRIZE = ("union", "mutual")


def similarity_graph(
    edge_index: Tensor,
    k: int,
    edge_weight: Optional[Tensor] = None,
    num_nodes: Union[int, tuple[int, int], None] = None,
    p: int = 1,
    lam: float = 0.0,
    measure: str = "cosine",
    loop: bool = False,
    min_similarity: Optional[float] = None,
    max_degree: Optional[int] = None,
    memory_budget: Optional[int] = None,
    force: bool = False,
    backend: str = "auto",
    nodes: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
    flow: str = "source_to_target",
    symmetrize: Optional[str] = None,
) -> tuple[Tensor, Tensor]:
    r"""Joins every node to its `k` most similar nodes: :func:`topk_similarity` as a graph.

    An edge between :math:`i` and :math:`j` has the weight :math:`C_{ij}`, the similarity of
    :func:`structural_similarity`. A place of the top k that is empty gives no edge, so a node may
    have fewer than `k`.

    ===============  ================================================================
    `symmetrize`     there is an edge if
    ===============  ================================================================
    `None`           `j` is among the top k of `i`; one edge, in the direction of `flow`
    `'union'`        `j` is among the top k of `i`, or `i` among those of `j`; both ways
    `'mutual'`       `j` is among the top k of `i`, and `i` among those of `j`; both ways
    ===============  ================================================================

    Similarities are symmetric: the weights of both directions of a union or mutual edge are the
    same number, bit for bit. It is the value of :func:`topk_similarity`, and the mean of two
    values where each end has the other in its top k and they differ by rounding. With `nodes`,
    the others have no row: they are joined by a union, not by a mutual edge.

    Args:
        edge_index: The edges, integers, `[2, E]`; `A[edge_index[0], edge_index[1]]`.
            Parallel edges add up, self-loops count.
        k: The number of similar nodes of a node, `>= 1`.
        edge_weight: The weights, `[E]` or `[E, 1]`, finite, of either sign. Ones if `None`.
        num_nodes: The number of nodes; the largest id plus one if `None`. Or the numbers of
            source and destination nodes of a bipartite graph: then source nodes are joined to
            source nodes.
        p, lam, measure: As in :func:`topk_similarity`.
        loop: Whether a node may be joined to itself.
        min_similarity, max_degree, memory_budget, force, backend: As in :func:`topk_similarity`.
        nodes: The ids of the nodes that are joined to their similar nodes, integers, `[M]`,
            `M >= 1`. All nodes if `None`.
        candidates: The ids of the nodes to which they may be joined, integers, `>= 1` of them.
            All nodes if `None`.
        flow: The direction of the edges, as in PyG's `knn_graph`: `'source_to_target'`, from the
            similar node `j` to `i`, which then receives messages of `k` nodes; or
            `'target_to_source'`, from `i` to `j`. Union and mutual edges go both ways.
        symmetrize: `'union'`, `'mutual'`, or `None`, as in the table.

    Returns:
        `edge_index`, `[2, L]`, long, in the numbering of the given one, coalesced: sorted by
        source, then by destination, and each edge once. And `edge_weight`, `[L]`, in the type of
        the values of :func:`topk_similarity`.

    Raises:
        TypeError, ValueError: As :func:`topk_similarity`; an unknown `flow` or `symmetrize`.

    Differentiable with respect to `edge_weight`, through the returned weights. The choice of the
    edges is not differentiated.

    Time: that of :func:`topk_similarity`, and that of sorting the edges; once more for
    `symmetrize`. Memory: besides, about 80 bytes for each edge, with `symmetrize` 150, which are
    not counted in `memory_budget`. Deterministic, as :func:`topk_similarity`.

    Source: section 'Complexity' of Shulman (2020) for the top k; the graph is not in the paper.

    Example:
        >>> star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
        >>> similarity_graph(star, k=1)
        (tensor([[1, 1, 2],
                [2, 3, 1]]), tensor([1., 1., 1.]))
        >>> similarity_graph(star, k=1, symmetrize="union")
        (tensor([[1, 1, 2, 3],
                [2, 3, 1, 1]]), tensor([1., 1., 1., 1.]))
    """
    check_choice("flow", flow, FLOWS)
    if symmetrize is not None:
        check_choice("symmetrize", symmetrize, SYMMETRIZE)
    values, index = topk_similarity(
        edge_index,
        k,
        edge_weight,
        num_nodes,
        p=p,
        lam=lam,
        measure=measure,
        loop=loop,
        min_similarity=min_similarity,
        max_degree=max_degree,
        memory_budget=memory_budget,
        force=force,
        backend=backend,
        nodes=nodes,
        candidates=candidates,
    )
    row, place = (index >= 0).nonzero(as_tuple=True)
    similar, similarity = index[row, place], values[row, place]
    node = row if nodes is None else nodes.long()[row]
    ends = (similar, node) if flow == "source_to_target" else (node, similar)
    # Of a node that `nodes` names twice, both rows are the same. Not their mean: three times a
    # value, divided by three, may be another one.
    edges, similarity = coalesce(torch.stack(ends), similarity, reduce="max")
    if symmetrize is None:
        return edges, similarity
    edges, (total, count) = to_undirected(edges, [similarity, torch.ones_like(similarity)])
    if symmetrize == "mutual":
        mutual = count == 2
        edges, total, count = edges[:, mutual], total[mutual], count[mutual]
    return edges, total / count
