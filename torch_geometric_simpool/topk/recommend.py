"""Recommendation and link prediction by nodes that are similar to the neighbors of a node."""

from collections.abc import Sequence
from typing import Optional, Union

import numpy as np
import torch
from scipy.sparse import csr_matrix, diags, identity
from torch import Tensor

from torch_geometric_simpool.topk.numba.product import Product, largest_in_rows
from torch_geometric_simpool.topk.parse import NodeIds, parse_candidates, parse_edges, parse_nodes
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.topk.topk_similarity import topk_of_edges
from torch_geometric_simpool.utils.checks import check_int, check_real

#: The advice of an error of memory.
ADVICE = (
    "raise `memory_budget`, lower `num_similar` or `k`, ask for some `nodes` at a time, or set "
    "`force=True`"
)


@torch.compiler.disable
def recommend(
    edge_index: Tensor,
    k: int,
    edge_weight: Optional[Tensor] = None,
    num_nodes: Union[int, tuple[int, int], None] = None,
    exponents: Optional[Sequence[float]] = None,
    measure: Optional[str] = None,
    num_similar: Optional[int] = 500,
    memory_budget: Optional[int] = None,
    force: bool = False,
    nodes: Optional[NodeIds] = None,
    candidates: Optional[NodeIds] = None,
) -> tuple[Tensor, Tensor]:
    r"""Recommends :obj:`k` items to every user, or predicts :obj:`k` links of every node.

    Row :math:`i` holds the nodes :math:`j` with the largest positive scores

    .. math::
        \mathrm{score}_{ij} = \sum_m A_{im} \, \mathrm{sim}(m, j),

    where :math:`A_{im}` is the weight of the edge from :math:`i` to :math:`m`. Nodes :math:`j` with
    an edge from :math:`i` are left out, whatever its weight. The order is **score descending, then
    node index ascending**. A row with fewer than :obj:`k` such nodes ends with score 0 and index
    -1. The row of a user without items is empty.

    By default, :math:`\mathrm{sim}` is a product with exponents :math:`(a, b, c, s)` of degrees:

    .. math::
        \mathrm{sim}(m, j) = \frac{\left( \sum_u A_{um} A_{uj} d_u^{-a} \right)^s}{d_m^b \, d_j^c}.

    The degree :math:`d_u` is the sum of row :math:`u` of :math:`A`. The degrees :math:`d_m` and
    :math:`d_j` are the sums of columns :math:`m` and :math:`j`. For 0/1 weights, published methods
    are:

    =================================================================  ===========================
    method                                                             :obj:`exponents`
    =================================================================  ===========================
    P3 (Cooper et al. 2014), resource allocation (Zhou et al. 2007)    `(1, 1, 0, 1)`, the default
    P3-alpha (Cooper et al. 2014)                                      `(alpha, alpha, 0, 1)`
    RP3-beta (Paudel et al. 2017)                                      `(1, 1, beta, 1)`
    heat and mass diffusion (Zhou et al. 2010)                         `(1, lam, 1 - lam, 1)`
    item kNN, cosine (Sarwar et al. 2001)                              `(0, 1/2, 1/2, 1)`
    item kNN, probability (Deshpande and Karypis 2004)                 `(0, 1, alpha, 1)`
    GF-CF, linear part (Shen et al. 2021)                              `(1, 1/2, 1/2, 1)`
    Turbo-CF, linear filter (Park et al. 2024), `t = s * (1 - alpha)`  `(2 * alpha, t, t, s)`
    L3, link prediction (Kovacs et al. 2019)                           `(1/2, 1/2, 0, 1)`
    =================================================================  ===========================

    With a :obj:`measure`, :math:`\mathrm{sim}` is a similarity of :func:`topk_similarity`.

    Args:
        edge_index (torch.Tensor): Edges `[2, E]`, integers. Parallel edges add up.
        k (int): Number of places in a row. May exceed the number of nodes.
        edge_weight (torch.Tensor, optional): Weights `[E]` or `[E, 1]`, finite; with a
            :obj:`measure`, of either sign. (default: :obj:`None`, weights of one)
        num_nodes (int or tuple, optional): The numbers `(users, items)` for edges from users to
            items, or the number of nodes of one kind. A node of one kind is not recommended to
            itself. List an undirected edge in both directions.
            (default: :obj:`None`, the largest id plus one)
        exponents (tuple, optional): The exponents `(a, b, c, s)`, with `s > 0`.
            (default: :obj:`None`, `(1, 1, 0, 1)`)
        measure (str, optional): A measure of :func:`topk_similarity`, in place of exponents.
            (default: :obj:`None`)
        num_similar (int, optional): Number of similar nodes :math:`j` of each :math:`m`. Smaller
            similarities count as 0. If set to :obj:`None`, all similarities count, as in most of
            the publications. (default: :obj:`500`)
        memory_budget (int, optional): Bytes that the call may use, as in :func:`topk_similarity`.
            (default: :obj:`None`, half of the free memory)
        force (bool): Whether to ignore the memory budget and the limit of :math:`10^{12}`
            products. (default: :obj:`False`)
        nodes (torch.Tensor, list or int, optional): Ids of the users whose rows are computed,
            `[M]`, in any order, repeats allowed. Only the items of these users are compared with
            others. (default: :obj:`None`, all users)
        candidates (torch.Tensor, list or int, optional): Ids of the items that may be recommended,
            such as those in stock. Other items have no similarity to any item, and count in the
            degrees. (default: :obj:`None`, all items)

    Returns:
        :obj:`values` and :obj:`index`, `[N, k]` or `[M, k]`. Values are scores in the type of a
        floating-point :obj:`edge_weight`, else in the default type.

    Raises:
        TypeError, ValueError: If an argument is wrong, or scores are not finite.
        TooExpensiveError: If the call exceeds its limits. It is a `ValueError`.

    Not differentiable. Scores are computed on the CPU.

    Time: :math:`\sum_u n_u^2` products for :math:`n_u` items of user :math:`u`, and
    :obj:`num_similar` products for each edge. Memory: about 10 bytes for each of the
    :obj:`num_similar` similarities of each item. Threads: :func:`torch.get_num_threads`; the result
    does not depend on them.

    .. note::
        Similarities and scores are summed in float64. They are rounded to float32 before they are
        compared, unless weights are float64. The summands of a score are added in the order of
        :math:`m`.

    Source: beyond Shulman (2020); the table names the publications.

    Example:
        >>> bought = torch.tensor([[0, 0, 1, 1, 2], [0, 1, 1, 2, 0]])  # users, items
        >>> recommend(bought, k=1, num_nodes=(3, 3), nodes=[2, 1])
        (tensor([[0.2500],
                [0.2500]]), tensor([[1],
                [0]]))
    """
    settings = TopKSettings(
        measure="cosine" if measure is None else measure,
        loop=False,
        memory_budget=memory_budget,
        force=force,
    )
    if measure is not None and exponents is not None:
        raise ValueError(f"`exponents` must be None if `measure` is given, got {exponents!r}")
    k, degree_exponents = check_int("k", k, 1), check_exponents(exponents)
    edges = parse_edges(edge_index, edge_weight, num_nodes, settings, stacklevel=5)
    items = edges.flipped() if edges.bipartite else edges
    ids, allowed = parse_nodes(nodes, edges), parse_candidates(candidates, items)
    rows = np.arange(edges.num_nodes) if ids is None else ids.cpu().numpy()
    num_similar = (
        edges.num_cols if num_similar is None else check_int("num_similar", num_similar, 1)
    )
    dtype = np.dtype(np.float64 if edges.dtype == torch.float64 else np.float32)
    budget = settings.budget(edges, rows.size, k, advice=ADVICE)
    adj = adjacency(edges)
    partners = np.unique(adj[rows].indices)
    if measure is None:
        similarity = product_of_degrees(adj, partners, degree_exponents)
        if allowed is not None:
            right = similarity.right @ diags(allowed.cpu().numpy().astype(float))
            similarity = similarity._replace(right=right)
        similar = largest_in_rows(similarity, num_similar, dtype, budget)
    else:
        similar = most_similar(items, partners, num_similar, settings, allowed)
    neighbors = adj[rows]
    neighbors.data[:] = 1  # an addition would drop edges of weight zero
    if not edges.bipartite:  # no node is recommended to itself
        neighbors = neighbors + identity(edges.num_nodes, format="csr")[rows]
    best = largest_in_rows(Product(adj[rows][:, partners], similar, neighbors), k, dtype, budget)
    if not (np.isfinite(similar.data).all() and np.isfinite(best.data).all()):
        raise ValueError(
            "`edge_weight` and `exponents` must give finite scores, got infinite ones: divide the "
            "weights by their mean"
        )
    row = np.repeat(np.arange(rows.size), np.diff(best.indptr))
    order = np.lexsort((best.indices, -best.data, row))
    place = row, np.arange(row.size) - best.indptr[row]
    values = torch.zeros(rows.size, k, dtype=edges.dtype)
    index = torch.full((rows.size, k), -1)
    values[place] = torch.from_numpy(best.data[order]).to(edges.dtype)
    index[place] = torch.from_numpy(best.indices[order]).long()
    return values.to(edges.device), index.to(edges.device)


def check_exponents(exponents: Optional[Sequence[float]]) -> tuple[float, ...]:
    """Returns the exponents `(a, b, c, s)` of degrees and of the sum."""
    exponents = (1, 1, 0, 1) if exponents is None else exponents
    if not isinstance(exponents, (tuple, list)) or len(exponents) != 4:
        raise ValueError(f"`exponents` must be a tuple (a, b, c, s), got {exponents!r}")
    parsed = tuple(check_real("exponents", value, -100, 100) for value in exponents)
    if parsed[3] <= 0:
        raise ValueError(f"`exponents` must have s > 0 at the end, got {exponents!r}")
    return parsed


def adjacency(edges: EdgeList) -> csr_matrix:
    """Returns the adjacency matrix in float64, with zeros for edges of weight zero."""
    row, col = edges.edge_index.cpu().numpy()
    weight = edges.edge_weight
    value = np.ones(row.size) if weight is None else weight.detach().cpu().double().numpy()
    return csr_matrix((value, (row, col)), shape=(edges.num_nodes, edges.num_cols))


def product_of_degrees(
    adj: csr_matrix, columns: np.ndarray, exponents: tuple[float, ...]
) -> Product:
    """Returns the similarities of some columns of `adj` to all columns, by exponents."""
    if adj.data.min(initial=0.0) < 0:
        raise ValueError(
            f"`edge_weight` must be >= 0 with `exponents`, got {adj.data.min():g}: use a `measure`"
        )
    a, b, c, s = exponents
    row_degree, col_degree = adj.sum(axis=1).A1, adj.sum(axis=0).A1
    # The similarity is (sum / (d_m^(b / s) d_j^(c / s)))^s.
    left = diags(inverse_power(col_degree, b / s)) @ adj.T.tocsr()
    right = diags(inverse_power(row_degree, a)) @ adj
    right = right @ diags(inverse_power(col_degree, c / s))
    itself = identity(adj.shape[1], format="csr")
    return Product(left[columns], right, itself[columns], s)


def inverse_power(degree: np.ndarray, exponent: float) -> np.ndarray:
    """Returns `degree**-exponent`, and 0 for a degree of 0."""
    positive = degree > 0
    with np.errstate(all="ignore"):
        factor = np.where(positive, degree, 1) ** -exponent
    if not (np.isfinite(factor) & (factor > 0)).all():
        raise ValueError(
            "`exponents` must give powers of degrees that float64 can hold, got "
            f"{degree.max():g} to the power of {-exponent:g}"
        )
    return factor * positive


def most_similar(
    items: EdgeList,
    partners: np.ndarray,
    num_similar: int,
    settings: TopKSettings,
    allowed: Optional[Tensor],
) -> csr_matrix:
    """Returns the similarities by a measure of some items to the allowed items."""
    weight = items.edge_weight
    if weight is not None and weight.is_floating_point():
        weight = weight.detach().to(torch.promote_types(weight.dtype, torch.float32))
    nodes = torch.from_numpy(partners).to(items.device, torch.long)
    items = items._replace(edge_weight=weight)
    budget = settings.budget(items, nodes.numel(), num_similar, advice=ADVICE)
    values, index = topk_of_edges(items, num_similar, settings, nodes, allowed, budget)
    is_similar = index >= 0
    ptr = np.append(0, is_similar.sum(dim=1).cumsum(dim=0).cpu())
    entries = values[is_similar].cpu().numpy(), index[is_similar].cpu().numpy(), ptr
    return csr_matrix(entries, shape=(partners.size, items.num_nodes))
