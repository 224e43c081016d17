"""The sparse top k of structural similarity, which visits only pairs that share a neighbor."""

from typing import Optional, Union

import torch
from torch import Tensor

from torch_geometric_simpool.topk.backend import get_backend
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.parse import (
    BYTES_PER_NODE,
    NodeIds,
    check_reverse_mode,
    parse_candidates,
    parse_edges,
    parse_nodes,
)
from torch_geometric_simpool.topk.similarity_of_pairs import similarities
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.utils.checks import check_int


@torch.compiler.disable
def topk_similarity(
    edge_index: Tensor,
    k: int,
    edge_weight: Optional[Tensor] = None,
    num_nodes: Union[int, tuple[int, int], None] = None,
    p: int = 1,
    lam: float = 0.0,
    measure: str = "cosine",
    loop: bool = True,
    min_similarity: Optional[float] = None,
    max_degree: Optional[int] = None,
    exclude_neighbors: bool = False,
    memory_budget: Optional[int] = None,
    force: bool = False,
    backend: str = "auto",
    nodes: Optional[NodeIds] = None,
    candidates: Optional[NodeIds] = None,
) -> tuple[Tensor, Tensor]:
    r"""Computes the :obj:`k` most similar nodes of every node, without the `[N, N]` matrix.

    Row :math:`i` holds the :obj:`k` largest entries of row :math:`i` of
    :func:`structural_similarity`. The order is **similarity descending, then node index
    ascending**, in every backend and on every device. Only non-zero similarities are candidates.
    A row with fewer than :obj:`k` candidates ends with value 0 and index -1.

    A graph is undirected if :obj:`edge_index` holds each edge in both directions, as in PyG
    (:func:`torch_geometric.utils.to_undirected`). A warning says if all edges of a sample have one
    direction only. A batch of graphs is one block-diagonal graph. No pair crosses a block, and the
    result is the result of each graph alone.

    ==========================  ==============================================================
    :obj:`num_nodes`            what is compared
    ==========================  ==============================================================
    :obj:`None`, or an integer  nodes by their neighbors along edges and against them
    `(num_src, num_dst)`        the source nodes of a **bipartite** graph by their destinations,
                                both numbered from 0; for the destination nodes, pass
                                `edge_index.flip(0)`
    `(N, N)`                    nodes of one graph by their **out-neighbors** alone; by their
                                in-neighbors, with `edge_index.flip(0)`
    ==========================  ==============================================================

    Args:
        edge_index (torch.Tensor): Edges `[2, E]`, integers. An edge from `i` to `j` is the entry
            `A[i, j]`. Parallel edges add up, self-loops count.
        k (int): Number of similar nodes per node. May exceed the number of nodes.
        edge_weight (torch.Tensor, optional): Weights `[E]` or `[E, 1]`, finite, of either sign.
            (default: :obj:`None`, weights of one)
        num_nodes (int or tuple, optional): Number of nodes, or the numbers of source and
            destination nodes. (default: :obj:`None`, the largest id plus one)
        p (int): Power in :math:`(A + \lambda I)^p`. It must be 1 for a bipartite graph.
            (default: :obj:`1`)
        lam (float): Weight of the added self-loops, `>= 0`. It must be 0 for a bipartite graph.
            (default: :obj:`0.0`)
        measure (str): :obj:`"cosine"`, :obj:`"jaccard"`, :obj:`"dice"` or :obj:`"overlap"`.
            (default: :obj:`"cosine"`)
        loop (bool): Whether a node is a candidate for its own row. (default: :obj:`True`)
        min_similarity (float, optional): Least similarity that takes a place. It is compared in
            the type of the values, and is in `[-1, 1]` except for :obj:`"overlap"`.
            (default: :obj:`None`)
        max_degree (int, optional): **Approximates** the similarities: a feature that more than
            :obj:`max_degree` nodes share, such as a hub node, counts in norms, but not in dot
            products. An edge of any weight counts. For non-negative weights, the results are lower
            bounds. (default: :obj:`None`)
        exclude_neighbors (bool): Whether to leave out :math:`j` where :math:`(i, j)` or
            :math:`(j, i)` is an edge, whatever its weight. Not for bipartite graphs.
            (default: :obj:`False`)
        memory_budget (int, optional): Bytes that the call may use beyond its input, including the
            result. A call that needs more is refused; see :func:`estimate_topk`.
            (default: :obj:`None`, half of the free memory of the device)
        force (bool): Whether to ignore the memory budget and the limit of :math:`10^{12}`
            products. (default: :obj:`False`)
        backend (str): :obj:`"numba"` (on a CPU), :obj:`"torch"` (on any device),
            :obj:`"triton"` (on a GPU, or in Triton's interpreter), or :obj:`"auto"`, which is
            :obj:`"numba"` on a CPU, :obj:`"triton"` on a GPU with Triton and a C compiler, and
            :obj:`"torch"` elsewhere. (default: :obj:`"auto"`)
        nodes (torch.Tensor, list or int, optional): Ids of the nodes whose rows are computed,
            `[M]`, in any order. A repeated node is computed again. Values are similarities in the
            whole graph. Use :class:`SimilarityIndex` for many calls. (default: :obj:`None`, all
            nodes)
        candidates (torch.Tensor, list or int, optional): Ids of the nodes that may take a place.
            (default: :obj:`None`, all nodes)

    Returns:
        :obj:`values` and :obj:`index`, `[N, k]` or `[M, k]`. Values have the type of a
        floating-point :obj:`edge_weight`, else the default type. Indices are in the numbering of
        :obj:`edge_index`.

    Raises:
        TypeError, ValueError: If an argument is wrong.
        TooExpensiveError: If the call exceeds its budget. It is a `ValueError`.
        NotImplementedError: If weights are dual tensors or inside of :func:`torch.func.grad`.

    Differentiable once with respect to :obj:`edge_weight`, through the values of the chosen
    entries. The memory of the gradient grows with the number of chosen entries times the degree.

    Time: a few passes over the edges, and :math:`\sum_m d_m^2` products, where :math:`d_m` nodes
    share feature :math:`m`, a column of :math:`[\hat{A} \,|\, \hat{A}^\top]`. The number of threads
    is :func:`torch.get_num_threads`. The result does not depend on it.

    .. note::
        **Ties.** Many similarities of a graph are equal, and a rounded root would order them at
        random. The cosine is ordered by
        :math:`\pm (d_i \cdot d_j)^2 / \lVert d_j \rVert^2` in float64 instead. For integer weights
        and :obj:`lam`, this key is correctly rounded if squared norms are below :math:`2^{49}`.
        Other measures are quotients of integers below :math:`2^{53}`. So equal similarities tie.
        For real weights and `p <= 2`, nodes tie if their dot products have equal summands. Other
        entries may swap if their similarities differ only by rounding.

    .. note::
        **Zero.** A sum of terms :math:`t_m` of both signs is zero if it is at most
        :math:`2^{-51} \sum_m |t_m|`. A similarity is zero if its absolute value is at most
        the smallest positive number of the type of the values.

    .. note::
        For 0/1 descriptions all measures are in `[0, 1]`. For real weights the overlap
        :math:`d / \min(n_i^2, n_j^2)` has no upper bound.

    Source: section 'Complexity' of Shulman (2020). Similarities reach distance `2p`, not two as
    printed.

    Example:
        >>> star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
        >>> topk_similarity(star, k=2)
        (tensor([[1., 0.],
                [1., 1.],
                [1., 1.],
                [1., 1.]]), tensor([[ 0, -1],
                [ 1,  2],
                [ 1,  2],
                [ 1,  2]]))
    """
    settings = TopKSettings(
        p=p,
        lam=lam,
        measure=measure,
        loop=loop,
        min_similarity=min_similarity,
        max_degree=max_degree,
        exclude_neighbors=exclude_neighbors,
        memory_budget=memory_budget,
        force=force,
        backend=backend,
    )
    k = check_int("k", k, 1)
    edges = parse_edges(edge_index, edge_weight, num_nodes, settings, stacklevel=5)
    ids, allowed = parse_nodes(nodes, edges), parse_candidates(candidates, edges)
    return topk_of_edges(edges, k, settings, ids, allowed)


def topk_of_edges(
    edges: EdgeList,
    k: int,
    settings: TopKSettings,
    nodes: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
    budget: Optional[Budget] = None,
) -> tuple[Tensor, Tensor]:
    """Computes the top k of parsed arguments; see :func:`topk_similarity`.

    Args:
        edges: The graph.
        k: The number of places in a row.
        settings: The settings.
        nodes: Ids of the rows, `[M]`, in range; all rows if `None`.
        candidates: Which nodes may take a place, `[N]`, boolean; all if `None`.
        budget: The limits; by default, the limits of a call that returns this top k.
    """
    weight = edges.edge_weight
    if budget is None:
        budget = settings.budget(edges, edges.num_nodes if nodes is None else nodes.numel(), k)
    budget.check_memory(BYTES_PER_NODE * edges.num_nodes)
    check_reverse_mode(weight)  # of layers, whose weights are not parsed here
    with torch.no_grad():
        graph = get_backend(settings, edges.device).prepare(edges, settings, budget, candidates)
        values, index = graph.topk(nodes, k, budget, edges.dtype)
    if weight is not None and weight.requires_grad and torch.is_grad_enabled():
        row, place = (index >= 0).nonzero(as_tuple=True)
        i = row if nodes is None else nodes[row]
        chosen = similarities(edges, settings, i, index[row, place], budget)
        chosen = chosen.new_zeros(index.shape).index_put((row, place), chosen)
        # Only the gradient is taken from `chosen`, whose values may differ in the last bit.
        values = (values + (chosen - chosen.detach())).to(edges.dtype)
    return values, index
