"""Sparse top k of structural similarity: only pairs that share a neighbour are touched."""

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.functional import topk_torch
from torch_geometric_simpool.utils import budget as limits
from torch_geometric_simpool.utils.checks import (
    check_bool,
    check_choice,
    check_edge_index,
    check_edge_weight,
    check_int,
    check_real,
)

#: Measures that are determined by the shared support of two descriptions and their norms.
SPARSE_MEASURES = ("cosine", "jaccard")

#: Where the rows are computed: compiled for the CPU, or by PyTorch on the device of the edges.
BACKENDS = ("auto", "numba", "torch")


def topk_similarity(
    edge_index: Tensor,
    k: int,
    edge_weight: Optional[Tensor] = None,
    num_nodes: Optional[int] = None,
    p: int = 1,
    lam: float = 0.0,
    measure: str = "cosine",
    loop: bool = True,
    min_similarity: Optional[float] = None,
    max_degree: Optional[int] = None,
    memory_budget: Optional[int] = None,
    force: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    r"""The `k` most similar nodes of every node, without the `[N, N]` matrix.

    Row :math:`i` holds the `k` largest entries of row :math:`i` of
    :func:`structural_similarity`, ordered by **similarity descending, then node
    index ascending**, in every backend and on every device. Only non-zero similarities
    are candidates; where there are fewer than `k`, the rest is value 0 and index -1.

    For fixed :math:`i` the cosine orders as
    :math:`\pm (d_i \cdot d_j)^2 / \lVert d_j \rVert^2`. That key is computed in
    float64: exactly, to the last bit, for an unweighted graph (or one with integer
    weights and `lam`) while its fraction in lowest terms has a numerator below
    :math:`2^{53}`, as it has wherever a dot product is below :math:`2^{26}`. So ties
    are ties, and there is one right answer. (Different similarities that no double
    tells apart tie as well; that takes norms of :math:`10^8` or so.) Of real-valued
    weights (or `lam`), nodes whose descriptions hold the same products tie as well;
    other entries closer than rounding may swap, and a sum of weights of both signs that
    cancels only up to rounding is not zero.

    A batch of graphs is one block-diagonal graph: no pair crosses a block, and the
    result is that of each graph alone.

    Args:
        edge_index: The edges, integers, `[2, E]`; `A[edge_index[0], edge_index[1]]`.
            Parallel edges add up, self-loops count.
        k: The number of places in a row, `>= 1`; may exceed the number of nodes.
        edge_weight: The weights, `[E]`, finite, of either sign; ones if `None`.
        num_nodes: The number of nodes; the largest id plus one if `None`.
        p: The power in :math:`(A + \lambda I)^p`, `>= 1`.
        lam: The weight of the added self-loops, `>= 0`.
        measure: `'cosine'` or `'jaccard'`. The other measures of
            :func:`structural_similarity` are non-zero for pairs that share nothing,
            so they have no sparse form.
        loop: Whether a node is a candidate for its own row.
        min_similarity: Only similarities that are at least as large take a place, in
            `[-1, 1]`; all that are not zero if `None`.
        max_degree: An **approximation**, off if `None`: features of a description that
            more than so many nodes share (the neighbourhood of a hub) are left out of the
            dot products, not of the norms; `>= 0`. An edge counts whatever its weight,
            0 included. Similarities of non-negative weights
            then are lower bounds, that of a node with itself included.
        memory_budget: Bytes that the computation may use beyond its input and output,
            `>= 1`; half of what is free on the device if `None`. A graph that needs more
            is refused.
        force: Computes whatever it takes: rows that exceed the budget, and more than
            :math:`10^{12}` products. See :func:`estimate_topk`.
        backend: `'numba'` (on a CPU), `'torch'` (on any device), or `'auto'`: the first
            for tensors on a CPU, the second elsewhere.

    Returns:
        `values`, `[N, k]`, in the type of a floating-point `edge_weight`, else in
        the default type; and `index`, `[N, k]`, long, in the numbering of
        `edge_index`. In `[0, 1]` for non-negative weights, else signed.

    Raises:
        TypeError, ValueError: The error names the argument, what came and what was
            expected: a shape or type of `edge_index` or `edge_weight`, ids out of
            range, `k < 1`, `p < 1`, `lam < 0`, NaN or infinite weights, a measure
            without a sparse form, a graph beyond the memory budget or with too many
            products, a backend that cannot work on the device.

    Differentiable with respect to `edge_weight`: through the values of the chosen
    entries, with the choice held constant (the memory for it grows with the number
    of chosen entries times the degree; PyTorch computes it, whatever the backend).

    Time: the number of products :math:`\sum_m d_m^2` over the degrees of
    :math:`\hat{A}`. On the CPU, of an unweighted graph with `p = 1`, the lists of the
    64 largest hubs (of degree 128 or more) are read only as far as they can name one of
    the best. The torch backend sorts the products. Memory: input, powers of `A` for
    `p > 1`, output; on the CPU about 12 bytes per entry of :math:`\hat{A}` (36 with
    weights) and an array over the nodes for each thread, in the torch backend the
    products of a block of rows. Threads: :func:`torch.get_num_threads`; the result is
    the same for any number, bit for bit. Ctrl-C is heard within a second or so.
    The CPU kernels are compiled when first used, once, and cached on disk.

    Source: section 'Complexity' of Shulman (2020); the support reaches distance
    `2p`, not two as printed.

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
    edge_index, edge_weight, num_nodes, settings = _check(
        edge_index, k, edge_weight, num_nodes, p, lam, measure, max_degree, memory_budget, backend
    )
    check_bool("loop", loop)
    if min_similarity is not None:
        min_similarity = check_real("min_similarity", min_similarity, -1.0, 1.0)
    check_bool("force", force)
    dtype = _dtype_of_values(edge_weight)
    limits.check_output(_size_of_output(num_nodes, k, dtype), edge_index.device, force)

    with torch.no_grad():
        select = _select_numba if settings.backend == "numba" else _select_torch
        values, index = select(
            edge_index, edge_weight, num_nodes, settings, loop, min_similarity, force, dtype
        )
    if edge_weight is not None and edge_weight.requires_grad and torch.is_grad_enabled():
        described, _ = topk_torch.describe(
            edge_index, edge_weight, num_nodes, *settings.description, one_sided=False
        )
        chosen = topk_torch.similarity_of_pairs(
            described, index, settings.measure, settings.max_degree
        )
        # The same numbers as without a gradient, whatever order these sums were taken in.
        values = values.double() + (chosen - chosen.detach())
    return values.to(dtype), index


class TopKEstimate(NamedTuple):
    """What a call of :func:`topk_similarity` would cost."""

    #: The number of products of the plain row-wise algorithm.
    num_products: int
    #: How many of them are looked at, at most: hubs are skipped on the CPU.
    num_visited: int
    #: Bytes of working memory beyond input and output.
    memory: int
    #: Bytes of the output.
    output: int
    #: A rough time in seconds, on an ordinary machine with the present number of threads.
    seconds: float
    #: Whether :func:`topk_similarity` would refuse it unless forced.
    refused: bool


#: Seconds per product of the two backends, on one core of an ordinary machine; and with values.
_SECONDS = {"numba": (2e-8, 4e-8), "torch": (2.7e-7, 2.7e-7)}


def estimate_topk(
    edge_index: Tensor,
    k: int,
    edge_weight: Optional[Tensor] = None,
    num_nodes: Optional[int] = None,
    p: int = 1,
    lam: float = 0.0,
    measure: str = "cosine",
    max_degree: Optional[int] = None,
    memory_budget: Optional[int] = None,
    backend: str = "auto",
) -> TopKEstimate:
    r"""What :func:`topk_similarity` would cost, before any product is computed.

    For `p = 1` the numbers of products are those of the graph: :math:`\sum_m d_m^2`
    over the numbers :math:`d_m` of nodes that share feature :math:`m`. For `p > 1` they
    are upper bounds, from the number of walks, and include the products of the powers;
    :func:`topk_similarity` itself counts again when it knows the power, and refuses then.

    Args:
        edge_index, k, edge_weight, num_nodes, p, lam, measure, max_degree,
            memory_budget, backend: As in :func:`topk_similarity`.

    Returns:
        A named tuple :class:`TopKEstimate`: `num_products`, `num_visited`, `memory` and
        `output` in bytes, `seconds` (rough: within a factor of three for sparse graphs, too
        long for dense ones), and `refused`.

    Raises:
        TypeError, ValueError: As :func:`topk_similarity`, of these arguments.

    Time `O(E + N)`, and a sort of the edges in the torch backend. Deterministic, apart
    from `refused` without a `memory_budget`, which depends on what is free.

    Example:
        >>> star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]])
        >>> estimate_topk(star, k=2).num_products
        12
    """
    edge_index, edge_weight, num_nodes, settings = _check(
        edge_index, k, edge_weight, num_nodes, p, lam, measure, max_degree, memory_budget, backend
    )
    output = _size_of_output(num_nodes, k, _dtype_of_values(edge_weight))
    with torch.no_grad():
        if p > 1:
            products, memory = _bound_of_powers(edge_index, num_nodes, settings)
            visited = products
        elif settings.backend == "numba":
            products, visited, memory = _estimate_numba(
                edge_index, edge_weight, num_nodes, settings
            )
        else:
            described, _ = topk_torch.describe(
                edge_index, edge_weight, num_nodes, *settings.description, one_sided=True
            )
            plan = topk_torch.plan(described, max_degree, settings.memory_budget, force=True)
            products, memory = plan[2], plan[3]
            visited = products
    plain = settings.backend == "numba" and edge_weight is None and p == 1 and lam in (0, 1)
    seconds = visited * _SECONDS[settings.backend][0 if plain else 1]
    short = limits.exceeds_memory(memory, memory_budget, edge_index.device)
    refused = visited > limits.MAX_PRODUCTS or short is not None
    refused = refused or limits.exceeds_output(output, edge_index.device)
    seconds = seconds / torch.get_num_threads() if settings.backend == "numba" else seconds
    return TopKEstimate(products, visited, memory, output, seconds, refused)


def _dtype_of_values(edge_weight: Optional[Tensor]) -> torch.dtype:
    if edge_weight is not None and edge_weight.is_floating_point():
        return edge_weight.dtype
    return torch.get_default_dtype()


def _size_of_output(num_nodes: int, k: int, dtype: torch.dtype) -> int:
    """Bytes of the values and of the indices."""
    return num_nodes * k * (dtype.itemsize + torch.long.itemsize)


class _Settings(NamedTuple):
    """The arguments that both functions share, checked."""

    k: int
    p: int
    lam: float
    measure: str
    max_degree: Optional[int]
    memory_budget: Optional[int]
    backend: str

    @property
    def description(self) -> tuple[int, float, str, Optional[int]]:
        """What the descriptions of the nodes depend on."""
        return self.p, self.lam, self.measure, self.memory_budget


def check_settings(
    k: Any, p: Any, lam: Any, measure: Any, max_degree: Any, memory_budget: Any, backend: Any
) -> None:
    """Checks the arguments that do not depend on a graph."""
    check_int("k", k, 1)
    check_int("p", p, 1)
    check_real("lam", lam, 0.0)
    if max_degree is not None:
        check_int("max_degree", max_degree, 0)
    if memory_budget is not None:
        check_int("memory_budget", memory_budget, 1)
    check_choice("backend", backend, BACKENDS)
    if measure in ("l2", "hamming"):
        raise ValueError(
            f"`measure` must be one of {', '.join(map(repr, SPARSE_MEASURES))} for a sparse top k, "
            f"got {measure!r}, which is non-zero for pairs that share no neighbour: use "
            "structural_similarity, which is dense"
        )
    check_choice("measure", measure, SPARSE_MEASURES)


def _check(
    edge_index: Tensor,
    k: int,
    edge_weight: Optional[Tensor],
    num_nodes: Optional[int],
    p: int,
    lam: float,
    measure: str,
    max_degree: Optional[int],
    memory_budget: Optional[int],
    backend: str,
) -> tuple[Tensor, Optional[Tensor], int, _Settings]:
    edge_index, num_nodes = check_edge_index(edge_index, num_nodes)
    edge_weight = check_edge_weight(edge_weight, edge_index.size(1))
    check_settings(k, p, lam, measure, max_degree, memory_budget, backend)
    device = edge_index.device
    if edge_weight is not None and edge_weight.device != device:
        raise ValueError(
            f"`edge_weight` must be on the device of `edge_index`, {device}, got "
            f"{edge_weight.device}"
        )
    if backend == "numba" and device.type != "cpu":
        raise ValueError(
            f"`backend` must be 'torch' or 'auto' for tensors on {device}, got 'numba', which "
            "computes on a CPU"
        )
    if backend == "auto":
        backend = "numba" if device.type == "cpu" else "torch"
    settings = _Settings(int(k), int(p), float(lam), measure, max_degree, memory_budget, backend)
    return edge_index, edge_weight, num_nodes, settings


def _select_numba(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    num_nodes: int,
    settings: _Settings,
    loop: bool,
    min_similarity: Optional[float],
    force: bool,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    from torch_geometric_simpool.engine.topk import select as cpu

    num_threads = torch.get_num_threads()
    described = cpu.describe(edge_index, edge_weight, num_nodes, *settings.description, force)
    todo = cpu.plan(described, settings.k, settings.max_degree, force, num_threads)
    limits.check_memory(cpu.memory_of(described, todo, num_threads), settings.memory_budget, force)
    wide = torch.float64 if edge_weight is not None and edge_weight.requires_grad else dtype
    return cpu.select(
        described, todo, settings.k, settings.measure, loop, min_similarity, wide, num_threads
    )


def _select_torch(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    num_nodes: int,
    settings: _Settings,
    loop: bool,
    min_similarity: Optional[float],
    force: bool,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    described, exact = topk_torch.describe(
        edge_index, edge_weight, num_nodes, *settings.description, one_sided=True
    )
    return topk_torch.select(
        described,
        exact,
        settings.k,
        settings.measure,
        loop,
        min_similarity,
        settings.max_degree,
        settings.memory_budget,
        force,
    )


def _estimate_numba(
    edge_index: Tensor, edge_weight: Optional[Tensor], num_nodes: int, settings: _Settings
) -> tuple[int, int, int]:
    from torch_geometric_simpool.engine.topk import select as cpu

    num_threads = torch.get_num_threads()
    described = cpu.describe(edge_index, edge_weight, num_nodes, *settings.description, True)
    todo = cpu.plan(described, settings.k, settings.max_degree, True, num_threads)
    memory = cpu.memory_of(described, todo, num_threads)
    return todo.products, int(todo.work.sum()), memory


def _bound_of_powers(edge_index: Tensor, num_nodes: int, settings: _Settings) -> tuple[int, int]:
    """Upper bounds of products and memory for `p > 1`: there are at most as many entries as walks.

    Entry `i` of `A_hat^q 1` counts the walks of length `q` from node `i`.
    """
    row, col = edge_index
    out_degree = torch.bincount(row, minlength=num_nodes).double()
    degree = out_degree + (1 if settings.lam > 0 else 0)
    products = 0.0

    def step(walks: Tensor, source: Tensor, target: Tensor) -> Tensor:
        following = torch.zeros_like(walks).index_add(0, source, walks[target])
        return (following + walks if settings.lam > 0 else following).clamp(max=num_nodes)

    ahead = torch.ones(num_nodes, dtype=torch.float64, device=row.device)
    behind = ahead
    for power in range(settings.p):
        if power > 0:
            # Entries of the power so far times the degree of where they end.
            products += float((behind * degree).sum())
        ahead, behind = step(ahead, row, col), step(behind, col, row)
    squares = float(ahead.square().sum() + behind.square().sum())
    limit = settings.max_degree
    if limit is not None:
        squares = min(squares, limit * float(ahead.sum() + behind.sum()))
    entries = float(ahead.sum())
    return int(products + squares), int(entries * topk_torch.BYTES_PER_ENTRY)


def topk_per_graph(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    batch: Tensor,
    batch_size: int,
    k: int,
    **settings: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """The top k of a batch: `values`, `index` local to each graph, and each row's graph size."""
    values, index = topk_similarity(edge_index, k, edge_weight, batch.numel(), **settings)
    count = torch.zeros(batch_size, dtype=torch.long, device=batch.device)
    count = count.index_add(0, batch, torch.ones_like(batch))
    first = (count.cumsum(0) - count)[batch].unsqueeze(-1)
    return values, torch.where(index >= 0, index - first, index), count[batch]
