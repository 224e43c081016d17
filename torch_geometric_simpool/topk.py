"""Sparse top k of structural similarity: only pairs that share a neighbour are touched."""

from typing import Optional

import torch
from torch import Tensor

from torch_geometric_simpool import sparse
from torch_geometric_simpool.similarity import power_of_two
from torch_geometric_simpool.sparse import Rows
from torch_geometric_simpool.validate import (
    check_choice,
    check_edge_index,
    check_edge_weight,
    check_int,
    check_real,
)

#: Measures that are determined by the shared support of two descriptions and their norms.
SPARSE_MEASURES = ("cosine", "jaccard")

#: Bytes of working memory for the products of one block of rows, unless told otherwise.
MEMORY_BUDGET = 256 * 2**20


def topk_similarity(
    edge_index: Tensor,
    k: int,
    edge_weight: Optional[Tensor] = None,
    num_nodes: Optional[int] = None,
    p: int = 1,
    lam: float = 0.0,
    measure: str = "cosine",
    loop: bool = True,
    memory_budget: int = MEMORY_BUDGET,
) -> tuple[Tensor, Tensor]:
    r"""The `k` most similar nodes of every node, without the `[N, N]` matrix.

    Row :math:`i` holds the `k` largest entries of row :math:`i` of
    :func:`structural_similarity`, ordered by **similarity descending, then node
    index ascending**, on every device. Only non-zero similarities are candidates;
    where there are fewer than `k`, the rest is value 0 and index -1.

    For fixed :math:`i` the cosine orders as
    :math:`\pm (d_i \cdot d_j)^2 / \lVert d_j \rVert^2`. That key is computed in
    float64: exactly, to the last bit, for an unweighted graph (or one with integer
    weights and `lam`) while its fraction in lowest terms has a numerator below
    :math:`2^{53}`, as it has wherever a dot product is below :math:`2^{26}`. So ties
    are ties, and there is one right answer. Of real-valued weights (or `lam`), nodes
    whose descriptions hold the same products tie exactly as well; other entries
    closer than rounding may swap, and a sum of weights of both signs that cancels
    only up to rounding is not zero.

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
        memory_budget: Bytes for the products of one block of rows, `>= 1`. A row
            that exceeds it alone is worked on alone.

    Returns:
        `values`, `[N, k]`, in the type of a floating-point `edge_weight`, else in
        the default type; and `index`, `[N, k]`, long, in the numbering of
        `edge_index`. In `[0, 1]` for non-negative weights, else signed.

    Raises:
        TypeError, ValueError: The error names the argument, what came and what was
            expected: a shape or type of `edge_index` or `edge_weight`, ids out of
            range, `k < 1`, `p < 1`, `lam < 0`, NaN or infinite weights, a measure
            without a sparse form.

    Differentiable with respect to `edge_weight`: through the values of the chosen
    entries, with the choice held constant (the memory for it grows with the number
    of chosen entries times the degree).

    Time: the number of products :math:`\sum_m d_m^2` over the degrees of
    :math:`\hat{A}`, times their logarithm (they are sorted). Memory: input, powers
    of `A` for `p > 1`, output, and `memory_budget` or the products of one row, at
    most the entries of :math:`\hat{A}`, whichever is more. Deterministic.

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
    edge_index, num_nodes = check_edge_index(edge_index, num_nodes)
    edge_weight = check_edge_weight(edge_weight, edge_index.size(1))
    k = check_int("k", k, 1)
    p = check_int("p", p, 1)
    lam = check_real("lam", lam, 0.0)
    memory_budget = check_int("memory_budget", memory_budget, 1)
    if measure in ("l2", "hamming"):
        raise ValueError(
            f"`measure` must be one of {', '.join(map(repr, SPARSE_MEASURES))} for a sparse top k, "
            f"got {measure!r}, which is non-zero for pairs that share no neighbour: use "
            "structural_similarity, which is dense"
        )
    check_choice("measure", measure, SPARSE_MEASURES)

    if edge_weight is not None and edge_weight.is_floating_point():
        dtype = edge_weight.dtype
    else:
        dtype = torch.get_default_dtype()
    with torch.no_grad():
        described, exact = _describe(
            edge_index, edge_weight, num_nodes, p, lam, measure, memory_budget, one_sided=True
        )
        values, index = _select(described, k, measure, loop, exact, memory_budget)
    if edge_weight is not None and edge_weight.requires_grad and torch.is_grad_enabled():
        described, _ = _describe(
            edge_index, edge_weight, num_nodes, p, lam, measure, memory_budget, one_sided=False
        )
        chosen = _similarity_of_pairs(described, index, measure)
        # The same numbers as without a gradient, whatever order these sums were taken in.
        values = values + (chosen - chosen.detach())
    return values.to(dtype), index


def _describe(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    num_nodes: int,
    p: int,
    lam: float,
    measure: str,
    memory_budget: int,
    one_sided: bool,
) -> tuple[Rows, bool]:
    """The descriptions `[A_hat | A_hat^T]`, and whether sums of their products are exact.

    With `one_sided`, a symmetric matrix of exact values is described by `A_hat`
    alone, which halves dot products and norms and leaves every similarity as it is.
    """
    row, col = edge_index
    if edge_weight is None:
        weight = torch.ones(row.numel(), dtype=torch.float64, device=row.device)
    else:
        weight = edge_weight.to(torch.float64)
    if lam > 0:
        node = torch.arange(num_nodes, device=row.device)
        row, col = torch.cat([row, node]), torch.cat([col, node])
        weight = torch.cat([weight, weight.new_full((num_nodes,), lam)])
    integers = float(lam).is_integer()
    integers = integers and (edge_weight is None or bool((weight == weight.round()).all()))
    largest_sum = max(_largest_sum(row, weight, num_nodes), _largest_sum(col, weight, num_nodes))
    # No entry of a power exceeds that power of it, and no dot product twice the square.
    exact = integers and largest_sum < 2 ** (26 / p)
    if not exact and weight.numel() > 0:
        # Neither measure changes when the whole matrix is scaled; so no power overflows.
        weight = weight * power_of_two(weight.detach().abs().max())

    matrix = sparse.from_entries(row, col, weight, num_nodes, num_nodes, exact)
    one_sided = one_sided and exact and sparse.is_symmetric(matrix)
    power = sparse.matrix_power(matrix, p, exact, memory_budget)
    described = power if one_sided else sparse.beside(power, sparse.transpose(power))
    if measure == "cosine" and not exact:
        # Nor does the cosine when a row is; so no square under- or overflows.
        largest = _reduce_rows(described, described.value.detach().abs(), "max")
        described.value = described.value * power_of_two(largest)[described.row]
    return described, exact


def _largest_sum(place: Tensor, weight: Tensor, num_nodes: int) -> float:
    """The largest sum of absolute values in a row (or a column)."""
    if weight.numel() == 0:
        return 0.0
    sums = torch.zeros(num_nodes, dtype=weight.dtype, device=weight.device)
    return float(sums.index_add(0, place, weight.detach().abs()).max())


def _reduce_rows(matrix: Rows, value: Tensor, reduce: str) -> Tensor:
    if matrix.num_rows == 0:
        return value  # which is empty; segment_reduce takes no empty lengths
    return torch.segment_reduce(value, reduce, lengths=matrix.ptr.diff(), initial=0)


def _norm2(described: Rows, exact: bool) -> Tensor:
    """The squared norm of each row, `[N]`, summed in the order of the dot products."""
    square = described.value.square()
    row = described.row
    if not exact:
        order = square.detach().argsort(stable=True)
        order = order[row[order].argsort(stable=True)]
        square = square[order]
    return _reduce_rows(described, square, "sum")


def _select(
    described: Rows, k: int, measure: str, loop: bool, exact: bool, memory_budget: int
) -> tuple[Tensor, Tensor]:
    num_nodes = described.num_rows
    device = described.ptr.device
    values = torch.zeros(num_nodes, k, dtype=torch.float64, device=device)
    index = torch.full((num_nodes, k), -1, dtype=torch.long, device=device)
    norm2 = _norm2(described, exact)
    transposed = sparse.transpose(described)
    for start, end in sparse.row_blocks(described, transposed, memory_budget):
        pair, dot = sparse.multiply_rows(described, transposed, start, end, exact)
        i = pair.div(num_nodes, rounding_mode="floor")
        j = pair - i * num_nodes
        candidate = dot != 0
        if not loop:
            candidate &= i != j
        i, j, dot = i[candidate], j[candidate], dot[candidate]

        key = _order_key(dot, norm2, i, j, measure)
        if measure == "cosine":
            key = _reduced_key(key, dot, norm2[j])
        order = key.argsort(descending=True, stable=True)
        order = order[i[order].argsort(stable=True)]
        # Pairs came sorted by i, then by j: i is still sorted, ties are in order of j.
        count = torch.bincount(i - start, minlength=end - start)
        first = count.cumsum(0) - count
        place = torch.arange(i.numel(), device=device) - first[i - start]
        kept = place < k
        i, place, order = i[kept], place[kept], order[kept]
        index[i, place] = j[order]
        values[i, place] = _similarity_of_key(key[order], norm2[i], measure)
    return values, index


def _order_key(dot: Tensor, norm2: Tensor, i: Tensor, j: Tensor, measure: str) -> Tensor:
    """What orders the candidates of a row as their similarity does, without a root."""
    if measure == "cosine":
        return dot * dot.abs() / norm2[j]
    return dot / (norm2[i] + norm2[j] - dot)


def _reduced_key(key: Tensor, dot: Tensor, norm2_j: Tensor) -> Tensor:
    """The key, from the fraction in lowest terms where the square of an integer is rounded.

    A matter of the two numbers alone, up to powers of two: so it is the same whatever else
    is in the batch. Numbers that fill a double are no integers, but rounded themselves.
    """
    odd, exponent = _odd_part(dot)
    rounded = ((odd.abs() >= 2**26) & (odd.abs() < 2**50)).nonzero().squeeze(1)
    if rounded.numel() == 0:
        return key
    a, exponent = odd[rounded], exponent[rounded]
    b, exponent_j = _odd_part(norm2_j[rounded])
    common = torch.gcd(a.abs(), b)
    a, b = a // common, b // common  # dot^2 / norm2 = common * a^2 / b
    left = torch.gcd(common, b)
    reduced = (common // left).double() * a * a.abs() / (b // left)
    return key.index_put((rounded,), torch.ldexp(reduced, 2 * exponent - exponent_j))


def _odd_part(value: Tensor) -> tuple[Tensor, Tensor]:
    """Odd integers and powers of two whose product is `value`."""
    mantissa, exponent = torch.frexp(value)
    whole = (mantissa * 2.0**53).long()
    power = (whole & -whole).clamp(min=1)
    return whole // power, exponent - 53 + power.double().log2().round().int()


def _similarity_of_key(key: Tensor, norm2_i: Tensor, measure: str) -> Tensor:
    """A monotone function of the key: equal keys have equal similarities."""
    if measure == "cosine":
        return (key.sign() * (key.abs() / norm2_i).sqrt()).clamp(-1, 1)
    return key


def _similarity_of_pairs(described: Rows, index: Tensor, measure: str) -> Tensor:
    """The similarity of every node to the chosen ones, `[N, k]`, differentiable."""
    i, place = (index >= 0).nonzero(as_tuple=True)
    j = index[i, place]
    # Look every entry (i, m) of a pair's first row up among the entries (j, m).
    per_pair = described.ptr.diff()[i]
    pair = torch.arange(i.numel(), device=i.device).repeat_interleave(per_pair)
    before = per_pair.cumsum(0) - per_pair
    entry = torch.arange(pair.numel(), device=i.device) + (described.ptr[i] - before)[pair]
    keys = described.row * described.num_cols + described.col
    wanted = j[pair] * described.num_cols + described.col[entry]
    found = torch.searchsorted(keys, wanted).clamp(max=max(keys.numel() - 1, 0))
    shared = keys[found] == wanted
    product = described.value[entry[shared]] * described.value[found[shared]]
    dot = product.new_zeros(i.numel()).index_add(0, pair[shared], product)

    norm2 = _reduce_rows(described, described.value.square(), "sum")
    key = _order_key(dot, norm2, i, j, measure)
    chosen = _similarity_of_key(key, norm2[i], measure)
    return chosen.new_zeros(index.shape).index_put((i, place), chosen)
