"""Sparse top k of structural similarity: it visits only pairs that share a neighbor."""

from typing import Optional, Union

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch_geometric.utils import degree

from torch_geometric_simpool.topk.backend import get_backend
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.parse import (
    check_nodes,
    output_bytes,
    parse_edges,
    refused_in_transforms,
)
from torch_geometric_simpool.topk.spec import EdgeList, Selection, SimilaritySpec, TopKSettings
from torch_geometric_simpool.topk.torch import backend as topk_torch
from torch_geometric_simpool.utils.checks import check_int
from torch_geometric_simpool.utils.untraced import untraced


@untraced
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
    memory_budget: Optional[int] = None,
    force: bool = False,
    backend: str = "auto",
    nodes: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
) -> tuple[Tensor, Tensor]:
    r"""The `k` most similar nodes of every node, without the `[N, N]` matrix.

    Row :math:`i` holds the `k` largest entries of row :math:`i` of
    :func:`structural_similarity`, ordered by **similarity descending, then node
    index ascending**, in every backend and on every device. Only non-zero similarities
    are candidates; where there are fewer than `k`, the rest is value 0 and index -1.

    For fixed :math:`i` the cosine has the order of
    :math:`\pm (d_i \cdot d_j)^2 / \lVert d_j \rVert^2`. This key is computed in
    float64. For an unweighted graph, or integer weights and `lam`, it is correctly
    rounded as long as the numerator of the fraction in lowest terms is below
    :math:`2^{53}`; it is wherever the dot product is below :math:`2^{26}`. So equal
    similarities have equal keys, and there is one right answer. (Different similarities
    that round to the same key tie as well. That takes norms of about :math:`10^8`.) For
    real-valued weights or `lam`, and `p <= 2`, nodes tie if their dot products have the same
    summands. Other entries that are closer than rounding may swap.

    A sum of terms :math:`t_m` of both signs (of parallel edges, of an entry of a power of `A`, of a
    dot product) is zero where they cancel up to rounding: where it is at most
    :math:`2^{-51} \sum_m |t_m|`. Integers whose sums are exact cancel where they are zero.
    A similarity that is no larger than the smallest positive number of the type of the result is
    zero as well.

    A batch of graphs is one block-diagonal graph. No pair crosses a block, and the
    result is that of each graph alone.

    ==========================  ==============================================================
    `num_nodes`                 what `edge_index` holds, and what is compared
    ==========================  ==============================================================
    `None`, or an integer       one kind of nodes in both rows. Each is described by its
                                neighbors along edges and against them
    `(num_src, num_dst)`        a **bipartite** graph: source nodes in the first row,
                                destination nodes in the second, each numbered from 0. Source
                                nodes are compared, by their destinations alone: row `i` is the
                                cosine of row `i` of the `[num_src, num_dst]` matrix with the
                                others. For the destination nodes, flip `edge_index`
    ==========================  ==============================================================

    A bipartite graph that is passed with one number is taken for one kind of nodes, whose ids
    overlap: nothing tells that they mean different things.

    Args:
        edge_index: The edges, integers, `[2, E]`; `A[edge_index[0], edge_index[1]]`.
            Parallel edges add up, self-loops count.
        k: The number of places in a row, `>= 1`. May exceed the number of nodes.
        edge_weight: The weights, `[E]` or `[E, 1]`, finite, of either sign. Ones if `None`.
        num_nodes: The number of nodes; the largest id plus one if `None`. Or the numbers of
            source and destination nodes of a bipartite graph.
        p: The power in :math:`(A + \lambda I)^p`, `>= 1`; 1 for a bipartite graph.
        lam: The weight of the added self-loops, `>= 0`; 0 for a bipartite graph.
        measure: `'cosine'` or `'jaccard'`. The other measures of
            :func:`structural_similarity` are non-zero for pairs that share nothing,
            so they have no sparse form.
        loop: Whether a node is a candidate for its own row.
        min_similarity: Only similarities that are at least this large take a place, in
            `[-1, 1]`. All that are not zero if `None`.
        max_degree: An **approximation**, off if `None`: features of a description that
            more than `max_degree` nodes share (the neighborhood of a hub) are left out of
            the dot products, but not of the norms; `>= 0`. An edge counts whatever its
            weight, 0 included. For non-negative weights the similarities then are lower
            bounds, that of a node with itself included.
        memory_budget: The bytes that the computation may use beyond its input and output,
            `>= 1`. Half of the free memory of the device if `None`. A graph that needs
            more is refused.
        force: Computes the top k even if a row exceeds the budget, or if there are more
            than :math:`10^{12}` products. See :func:`estimate_topk`.
        backend: `'numba'` (on a CPU), `'torch'` (on any device), `'triton'` (on a GPU, or in
            Triton's interpreter; not measured on a GPU so far), or `'auto'`: the first for
            tensors on a CPU, the second elsewhere.
        nodes: The ids of the nodes whose rows are computed, integers, `[M]`, `M >= 1`, in any
            order, repeats allowed; the result then has `M` rows, with the same bits as those
            rows of the full result. All nodes if `None`. The similarities are those in the
            whole graph: in general, a subgraph around the nodes has others. On a CPU it is
            fastest for edges that are sorted and distinct (:func:`torch_geometric.utils.coalesce`),
            without weights, with `p = 1` and `lam = 0`: then edges far from the nodes are left
            out. For many calls on one graph, see :class:`SimilarityIndex`.
        candidates: The ids of the nodes that may take a place, integers, `>= 1` of them, in any
            order. All nodes if `None`.

    Returns:
        `values`, `[N, k]` or `[M, k]`, in the type of a floating-point `edge_weight`, else in
        the default type; and `index`, of the same shape, long, in the numbering of
        `edge_index`. The values are in `[0, 1]` for non-negative weights, else in `[-1, 1]`.

    Raises:
        TypeError, ValueError: A wrong shape or type of `edge_index`, `edge_weight`, `nodes` or
            `candidates`, ids out of range, no `nodes` or no `candidates`, `k < 1`, `p < 1`,
            `lam < 0`, `p` or `lam` of a bipartite graph, NaN or infinite weights, a measure
            without a sparse form, a graph that exceeds the memory budget or has too many
            products, more nodes than arrays over them fit into memory (whatever the budget and
            `force`), a backend that does not support the device.
        NotImplementedError: A dual tensor of forward mode as `edge_weight`, or a call inside of
            :func:`torch.func.grad`.

    Differentiable once, in reverse mode, with respect to `edge_weight`, through the values of
    the chosen entries. The selected indices are not differentiated. PyTorch computes the
    gradient, whatever the backend; its memory grows with the number of chosen entries times the
    degree. Inside :func:`torch.func.grad` it is refused: compute it beforehand.

    Time: a few passes over the edges, and the number of products, :math:`\sum_m d_m^2` over the
    degrees of :math:`\hat{A}`; of `nodes`, those of their rows. For an unweighted graph with
    `p = 1` on the CPU, the lists of the 64 largest hubs (of degree 128 or more) are read only as
    far as they can contain one of the best. The torch backend sorts the products; the Triton
    backend sorts those of a row, up to 2048, adds more of them in a hash table, and skips the lists
    of hubs as well.

    Memory: the input, the powers of `A` if `p > 1`, and the output. On the CPU also about
    12 bytes for each entry of :math:`\hat{A}` (36 with weights), and arrays over the nodes
    for each thread. In the torch backend also the products of a block of rows, in the Triton
    backend hash tables of a block of long rows.

    Threads: :func:`torch.get_num_threads`. The result is the same for any number, bit for
    bit. Can be interrupted (Ctrl-C) within about a second. The CPU kernels are compiled
    on first use and cached on disk.

    Source: section 'Complexity' of Shulman (2020). The support reaches distance `2p`, not
    two as printed.

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
        p, lam, measure, loop, min_similarity, max_degree, memory_budget, force, backend
    )
    edges, candidates = parse_edges(edge_index, edge_weight, num_nodes, settings, candidates)
    check_int("k", k, 1)
    return topk_of_edges(edges, int(k), settings, check_nodes("nodes", nodes, edges), candidates)


def topk_of_edges(
    edges: EdgeList,
    k: int,
    settings: TopKSettings,
    nodes: Optional[Tensor] = None,
    candidates: Optional[Tensor] = None,
) -> tuple[Tensor, Tensor]:
    """Returns the top k of parsed arguments; see :func:`topk_similarity`.

    Args:
        edges: The graph.
        k: The number of places in a row.
        settings: The settings.
        nodes: Ids of the rows, `[M]`, in range; all rows if `None`.
        candidates: Which nodes may take a place, `[N]`, boolean; all if `None`.
    """
    weight, device = edges.edge_weight, edges.edge_index.device
    spec = SimilaritySpec(
        settings.p, settings.lam, settings.measure, settings.max_degree, candidates
    )
    selection = Selection(k, settings.loop, settings.min_similarity)
    budget = Budget(settings.memory_budget, settings.force)
    num_rows = edges.num_nodes if nodes is None else nodes.numel()
    budget.check_output(output_bytes(num_rows, k, edges.dtype), device)
    if weight is not None and forward_ad.unpack_dual(weight).tangent is not None:
        raise NotImplementedError(
            "`edge_weight` must not be a dual tensor, got one: the top k has derivatives in "
            "reverse mode alone"
        )
    needs_grad = weight is not None and weight.requires_grad and torch.is_grad_enabled()

    with torch.no_grad(), refused_in_transforms():
        prepared = get_backend(settings.backend, device).prepare(edges, spec, budget, nodes)
        values, index = prepared.topk(nodes, selection, budget, edges.dtype)
    if needs_grad:
        chosen = topk_torch.similarity_of_pairs(edges, spec, nodes, index, budget)
        # Only the gradient: sums in another order could change the last bit of a value.
        values = values + (chosen - chosen.detach())
    return values.to(edges.dtype), index


def topk_per_graph(
    edges: EdgeList, batch: Tensor, batch_size: int, k: int, settings: TopKSettings
) -> tuple[Tensor, Tensor, Tensor]:
    """The top k of a batch: `values`, `index` local to each graph, and each row's graph size."""
    values, index = topk_of_edges(edges, k, settings)
    count = degree(batch, batch_size, torch.long)
    first = (count.cumsum(0) - count)[batch].unsqueeze(-1)
    return values, torch.where(index >= 0, index - first, index), count[batch]
