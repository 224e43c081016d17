"""Sparse top k of structural similarity: it visits only pairs that share a neighbor."""

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from torch_geometric_simpool.engine import dispatch
from torch_geometric_simpool.functional import topk_torch
from torch_geometric_simpool.functional.similarity import MEASURES
from torch_geometric_simpool.utils.budget import Budget
from torch_geometric_simpool.utils.checks import (
    check_bool,
    check_choice,
    check_edge_index,
    check_edge_weight,
    check_int,
    check_real,
)
from torch_geometric_simpool.utils.settings import DescriptionSettings, SelectionSettings

#: The measures that depend only on what two descriptions share, and on their norms.
SPARSE_MEASURES = ("cosine", "jaccard")

#: What computes the rows: kernels compiled for the CPU, or PyTorch on the device of the edges.
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

    For fixed :math:`i` the cosine has the order of
    :math:`\pm (d_i \cdot d_j)^2 / \lVert d_j \rVert^2`. This key is computed in
    float64. For an unweighted graph, or integer weights and `lam`, it is correctly
    rounded as long as the numerator of the fraction in lowest terms is below
    :math:`2^{53}`; it is wherever the dot product is below :math:`2^{26}`. So equal
    similarities have equal keys, and there is one right answer. (Different similarities
    that round to the same key tie as well. That takes norms of about :math:`10^8`.) For
    real-valued weights or `lam`, nodes tie if their dot products have the same summands.
    Other entries that are closer than rounding may swap, and a sum of weights of both
    signs that cancels only up to rounding is not zero.

    A batch of graphs is one block-diagonal graph. No pair crosses a block, and the
    result is that of each graph alone.

    Args:
        edge_index: The edges, integers, `[2, E]`; `A[edge_index[0], edge_index[1]]`.
            Parallel edges add up, self-loops count.
        k: The number of places in a row, `>= 1`. May exceed the number of nodes.
        edge_weight: The weights, `[E]`, finite, of either sign. Ones if `None`.
        num_nodes: The number of nodes. The largest id plus one if `None`.
        p: The power in :math:`(A + \lambda I)^p`, `>= 1`.
        lam: The weight of the added self-loops, `>= 0`.
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
        backend: `'numba'` (on a CPU), `'torch'` (on any device), or `'auto'`: the first
            for tensors on a CPU, the second elsewhere.

    Returns:
        `values`, `[N, k]`, in the type of a floating-point `edge_weight`, else in the
        default type; and `index`, `[N, k]`, long, in the numbering of `edge_index`. The
        values are in `[0, 1]` for non-negative weights, else in `[-1, 1]`.

    Raises:
        TypeError, ValueError: A wrong shape or type of `edge_index` or `edge_weight`, ids
            out of range, `k < 1`, `p < 1`, `lam < 0`, NaN or infinite weights, a measure
            without a sparse form, a graph that exceeds the memory budget or has too many
            products, a backend that does not support the device.

    Differentiable with respect to `edge_weight`, through the values of the chosen
    entries. The selected indices are not differentiated. PyTorch computes the gradient,
    whatever the backend; its memory grows with the number of chosen entries times the degree.

    Time: the number of products :math:`\sum_m d_m^2` over the degrees of
    :math:`\hat{A}`. For an unweighted graph with `p = 1` on the CPU, the lists of the 64
    largest hubs (of degree 128 or more) are read only as far as they can contain one of
    the best. The torch backend sorts the products.

    Memory: the input, the powers of `A` if `p > 1`, and the output. On the CPU also about
    12 bytes for each entry of :math:`\hat{A}` (36 with weights), and arrays over the nodes
    for each thread. In the torch backend also the products of a block of rows.

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
    request = check_request(
        edge_index, k, edge_weight, num_nodes, p, lam, measure, max_degree, backend
    )
    check_bool("loop", loop)
    if min_similarity is not None:
        min_similarity = check_real("min_similarity", min_similarity, -1.0, 1.0)
    selecting = request.selecting._replace(loop=loop, min_similarity=min_similarity)
    budget = check_budget(memory_budget, force)
    budget.check_output(request.output_bytes(), edge_index.device)
    graph = request.edge_index, request.edge_weight, request.num_nodes
    weight, dtype = request.edge_weight, request.dtype
    needs_grad = weight is not None and weight.requires_grad and torch.is_grad_enabled()

    with torch.no_grad():
        if request.backend == "numba":
            wide = torch.float64 if needs_grad else dtype
            values, index = dispatch.topk_engine().topk(
                *graph, request.describing, selecting, budget, wide
            )
        else:
            values, index = topk_torch.topk(*graph, request.describing, selecting, budget)
    if needs_grad:
        matrix, _ = topk_torch.describe(*graph, request.describing, budget, one_sided=False)
        chosen = topk_torch.similarity_of_pairs(matrix, index, measure, max_degree)
        # Only the gradient: sums in another order could change the last bit of a value.
        values = values.double() + (chosen - chosen.detach())
    return values.to(dtype), index


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


class Request(NamedTuple):
    """The arguments of a top k or of its estimate, checked."""

    edge_index: Tensor
    edge_weight: Optional[Tensor]
    num_nodes: int
    describing: DescriptionSettings
    selecting: SelectionSettings
    backend: str  # not `'auto'`

    @property
    def dtype(self) -> torch.dtype:
        """The type of the values."""
        if self.edge_weight is not None and self.edge_weight.is_floating_point():
            return self.edge_weight.dtype
        return torch.get_default_dtype()

    def output_bytes(self) -> int:
        """The bytes of the values and the indices."""
        return self.num_nodes * self.selecting.k * (self.dtype.itemsize + torch.long.itemsize)


def check_request(
    edge_index: Tensor,
    k: int,
    edge_weight: Optional[Tensor],
    num_nodes: Optional[int],
    p: int,
    lam: float,
    measure: str,
    max_degree: Optional[int],
    backend: str,
) -> Request:
    """Checks the arguments that a top k and its estimate share, and chooses the backend."""
    edge_index, num_nodes = check_edge_index(edge_index, num_nodes)
    edge_weight = check_edge_weight(edge_weight, edge_index.size(1))
    check_settings(k, p, lam, measure, max_degree, None, backend)
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
        backend = dispatch.topk_backend(device)
    describing = DescriptionSettings(int(p), float(lam), measure)
    selecting = SelectionSettings(int(k), measure, max_degree=max_degree)
    return Request(edge_index, edge_weight, num_nodes, describing, selecting, backend)


def check_budget(memory_budget: Optional[int], force: bool) -> Budget:
    """Checks the arguments that limit the cost."""
    if memory_budget is not None:
        check_int("memory_budget", memory_budget, 1)
    return Budget(memory_budget, check_bool("force", force))


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
    if measure in MEASURES and measure not in SPARSE_MEASURES:
        raise ValueError(
            f"`measure` must be one of {', '.join(map(repr, SPARSE_MEASURES))} for a sparse top k, "
            f"got {measure!r}, which has no sparse form: use structural_similarity, which is dense"
        )
    check_choice("measure", measure, SPARSE_MEASURES)
