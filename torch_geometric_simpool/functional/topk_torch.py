"""The top k in PyTorch, on any device, in blocks of rows.

The products of a block are computed, sorted and summed. Then the candidates of each row are sorted,
those of rows of about the same length as one matrix.
"""

from collections.abc import Iterator
from typing import NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.functional import csr
from torch_geometric_simpool.functional.csr import CSRMatrix
from torch_geometric_simpool.utils.budget import Budget
from torch_geometric_simpool.utils.scaling import power_of_two
from torch_geometric_simpool.utils.settings import DescriptionSettings, Graph, SelectionSettings

#: The bytes of working memory for the products of one block, if the budget allows as much.
BLOCK = 256 * 2**20

#: A block of no more numbers than this, when padded to its longest row, is sorted as one matrix.
SMALL_BLOCK = 1 << 15

#: The bytes of an entry of a description: column, value and row, and those of the transpose.
BYTES_PER_ENTRY = 48


class Description(NamedTuple):
    """The descriptions of all nodes, one in a row."""

    matrix: CSRMatrix
    exact: bool  # whether no sum of their products rounds
    symmetric: bool  # whether it is known that the matrix is


class Prepared(NamedTuple):
    """A graph of which any rows can be computed."""

    left: CSRMatrix  # the features of each node
    right: CSRMatrix  # the candidates that have each feature
    norm2: Tensor  # [N]
    exact: bool
    jaccard: bool


def prepare(
    graph: Graph,
    settings: DescriptionSettings,
    budget: Budget,
    nodes: Optional[Tensor] = None,
) -> Prepared:
    """What all rows have in common: the descriptions, their transpose and their norms."""
    description = describe(graph, settings, budget)
    left = description.matrix
    right = left if description.symmetric else csr.transpose(left)
    if settings.max_degree is not None:
        short = right.ptr.diff() <= settings.max_degree
        left = csr.mask_entries(left, short[left.col])
        right = csr.mask_entries(right, short[right.row])
    if settings.candidates is not None:
        right = csr.mask_entries(right, settings.candidates[right.col])
    norm2 = _norm2(description)
    return Prepared(left, right, norm2, description.exact, settings.measure == "jaccard")


def topk(
    prepared: Prepared,
    nodes: Optional[Tensor],
    settings: SelectionSettings,
    budget: Budget,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Values and indices of the top k of these nodes, or of all."""
    left, norm2_i = prepared.left, prepared.norm2
    if nodes is not None:
        left, norm2_i = csr.select_rows(left, nodes), norm2_i[nodes]
    plan = make_plan(left, prepared.right, budget)
    budget.check_products(plan.products)
    budget.check_memory(plan.least, left.ptr.device)
    shape = left.num_rows, settings.k
    values = torch.zeros(shape, dtype=dtype, device=left.ptr.device)
    index = torch.full(shape, -1, device=left.ptr.device)
    for start, end in csr.row_blocks(left, prepared.right, plan.block):
        product = csr.multiply_rows(left, prepared.right, start, end, prepared.exact)
        _select(prepared, *product, start, end, nodes, norm2_i, settings, values, index)
    return values, index


def cost(
    prepared: Prepared, nodes: Optional[Tensor], k: int, budget: Budget
) -> tuple[int, int, int]:
    """The products, those that are visited (all of them), and the bytes of working memory."""
    left = prepared.left if nodes is None else csr.select_rows(prepared.left, nodes)
    plan = make_plan(left, prepared.right, budget)
    return plan.products, plan.products, plan.memory


class Plan(NamedTuple):
    """What rows cost."""

    products: int
    least: int  # the bytes that it takes if each row is a block
    memory: int  # the bytes that it takes
    block: int  # the bytes of a block of rows


def make_plan(left: CSRMatrix, right: CSRMatrix, budget: Budget) -> Plan:
    """Counts the products of every row."""
    length = right.ptr.diff()[left.col]
    products = int(length.double().sum())
    per_row = torch.zeros(left.num_rows, dtype=torch.long, device=length.device)
    per_row = per_row.index_add(0, left.row, length)
    largest_row = int(per_row.max()) if per_row.numel() > 0 else 0
    largest = largest_row * csr.BYTES_PER_PRODUCT
    matrices = BYTES_PER_ENTRY * (left.col.numel() + right.col.numel())
    block = block_bytes(budget.memory)
    if budget.memory is not None and budget.memory - matrices >= largest:
        block = min(block, budget.memory - matrices)
    # Otherwise the call is forced, and exceeds the budget in any case.
    block = max(block, 1)
    used = max(min(block, products * csr.BYTES_PER_PRODUCT), largest)
    return Plan(products, matrices + largest, matrices + used, block)


def block_bytes(memory_budget: Optional[int]) -> int:
    """The working memory of a block of rows."""
    return BLOCK if memory_budget is None else min(BLOCK, memory_budget)


def _select(
    prepared: Prepared,
    pair: Tensor,
    dot: Tensor,
    start: int,
    end: int,
    nodes: Optional[Tensor],
    norm2_i: Tensor,
    settings: SelectionSettings,
    values: Tensor,
    index: Tensor,
) -> None:
    """Writes the rows `start` to `end`, whose candidates are `pair`, ascending."""
    norm2, exact, jaccard = prepared.norm2, prepared.exact, prepared.jaccard
    row = pair.div(norm2.numel(), rounding_mode="floor")
    j = pair - row * norm2.numel()
    candidate = dot != 0
    if not settings.loop:
        candidate &= j != (row if nodes is None else nodes[row])
    if not candidate.all():
        row, j, dot = row[candidate], j[candidate], dot[candidate]

    norm2_j = norm2.index_select(0, j)
    key = _order_key(dot, norm2_i.index_select(0, row), norm2_j, jaccard)
    if not jaccard and not (exact and _all_below(dot, 2**26)):
        key = _reduced_key(key, dot, norm2_j)
    for rows, position in _largest_of_rows(key, row, start, end, settings.k):
        # The pairs were sorted, so ties are in the order of `j`.
        place = position.clamp(min=0)
        similarity = _similarity_of_key(key[place], norm2_i[rows].unsqueeze(1), jaccard)
        kept = position >= 0
        if settings.min_similarity is not None:
            # Similarities descend, so what is left out is at the end of a row.
            kept &= similarity >= settings.min_similarity
        width = position.size(1)
        index[rows, :width] = j[place].where(kept, -1)
        values[rows, :width] = similarity.to(values.dtype).where(kept, 0)


def _largest_of_rows(
    key: Tensor, row: Tensor, start: int, end: int, k: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """The places of the `k` largest keys of each row, descending; equal ones stay in order.

    Args:
        key: `[C]`.
        row: The row of each key, `[C]`, ascending, from `start` to `end`.
        k: The number of keys.

    Yields:
        Some of the rows, `[R]`, and places in `key`, `[R, min(k, width)]`; -1 where a row has no
        more. Rows are padded to the next power of two, so to less than twice their length; those
        of a small block to the longest.
    """
    if key.numel() == 0:
        return
    ptr = torch.searchsorted(row, torch.arange(start, end + 1, device=row.device))
    log_width = torch.frexp((ptr.diff() - 1).double()).exponent.clamp(min=0)
    widest = int(log_width.max())
    if (end - start) << widest <= SMALL_BLOCK:
        log_width.fill_(widest)
    for log in torch.unique(log_width).tolist():
        chosen = (log_width == log).nonzero()
        first, last = ptr[chosen], ptr[chosen + 1]
        place = first + torch.arange(2**log, device=row.device)
        absent = place >= last
        padded = key[place.clamp_(max=key.numel() - 1)].masked_fill_(absent, -torch.inf)
        best = padded.sort(dim=1, descending=True, stable=True).indices[:, :k]
        yield chosen.squeeze(1) + start, (first + best).masked_fill_(absent[:, :k], -1)


def describe(
    graph: Graph, settings: DescriptionSettings, budget: Budget, one_sided: bool = True
) -> Description:
    """The descriptions `[A_hat | A_hat^T]`; of a bipartite graph, `A`.

    With `one_sided`, a symmetric matrix of exact values is described by `A_hat` alone. That
    halves dot products and norms, and leaves every similarity as it is.
    """
    edge_index, edge_weight, num_nodes, _ = graph
    p, lam = settings.p, settings.lam
    row, col = edge_index
    if edge_weight is None:
        weight = torch.ones(row.numel(), dtype=torch.float64, device=row.device)
    else:
        weight = edge_weight.to(torch.float64)
    if lam > 0:
        node = torch.arange(num_nodes, device=row.device)
        row, col = torch.cat([row, node]), torch.cat([col, node])
        weight = torch.cat([weight, weight.new_full((num_nodes,), lam)])
    exact = lam.is_integer()
    exact = exact and (edge_weight is None or bool((weight == weight.round()).all()))
    # No entry of a power exceeds that power of the largest sum, no dot product twice its square.
    for index, size in ((row, num_nodes), (col, graph.num_cols)):
        exact = exact and _largest_sum(index, weight, size) < 2 ** (26 / p)
    if not exact and weight.numel() > 0:
        # Neither measure changes when the whole matrix is scaled. So no power overflows.
        weight = weight * power_of_two(weight.detach().abs().max())

    matrix = csr.from_coo(row, col, weight, num_nodes, graph.num_cols, exact)
    symmetric = one_sided and exact and not graph.bipartite and csr.is_symmetric(matrix)
    two_sided = not graph.bipartite and not symmetric
    if p > 1:
        matrix = csr.matrix_power(matrix, p, exact, block_bytes(budget.memory))
    if two_sided:
        matrix = csr.hstack(matrix, csr.transpose(matrix))
    matrix.ones = bool((matrix.value == 1).all())
    if settings.measure == "cosine" and not exact:
        # Nor does the cosine when a row is scaled. So no square under- or overflows.
        largest = _reduce_rows(matrix, matrix.value.detach().abs(), "max")
        matrix.value = matrix.value * power_of_two(largest)[matrix.row]
    return Description(matrix, exact, symmetric)


def _largest_sum(index: Tensor, weight: Tensor, size: int) -> float:
    """The largest sum of absolute values in a row (or a column)."""
    if weight.numel() == 0:
        return 0.0
    sums = torch.zeros(size, dtype=weight.dtype, device=weight.device)
    return float(sums.index_add(0, index, weight.detach().abs()).max())


def _reduce_rows(matrix: CSRMatrix, value: Tensor, reduce: str) -> Tensor:
    if matrix.num_rows == 0:
        return value  # which is empty; segment_reduce takes no empty lengths
    return torch.segment_reduce(value, reduce, lengths=matrix.ptr.diff(), initial=0)


def _norm2(description: Description) -> Tensor:
    """The squared norm of each row, `[N]`, summed in the order of the dot products."""
    matrix = description.matrix
    square = matrix.value.square()
    if not description.exact:
        order = square.detach().argsort(stable=True)
        order = order[matrix.row[order].argsort(stable=True)]
        square = square[order]
    return _reduce_rows(matrix, square, "sum")


def _all_below(value: Tensor, bound: float) -> bool:
    return value.numel() == 0 or float(value.abs().max()) < bound


def _order_key(dot: Tensor, norm2_i: Tensor, norm2_j: Tensor, jaccard: bool) -> Tensor:
    """A monotone function of the similarity, for a fixed row: no square root is taken."""
    if jaccard:
        return dot / (norm2_i + norm2_j - dot)
    return dot * dot.abs() / norm2_j


def _reduced_key(key: Tensor, dot: Tensor, norm2_j: Tensor) -> Tensor:
    """The key, from the fraction in lowest terms where the square of an integer is rounded.

    It depends on the two numbers alone, up to powers of two, so it is the same whatever else
    is in the batch. Numbers that fill a double are not integers, but rounded themselves.
    """
    odd, exponent = _odd_part(dot)
    rounded = ((odd.abs() >= 2**26) & (odd.abs() < 2**50)).nonzero().squeeze(1)
    if rounded.numel() == 0:
        return key
    a, exponent = odd[rounded], exponent[rounded]
    b, exponent_j = _odd_part(norm2_j[rounded])
    common = torch.gcd(a.abs(), b)
    a, b = a // common, b // common  # dot^2 / norm2_j = common * a^2 / b, times a power of two
    rest = torch.gcd(common, b)
    reduced = (common // rest).double() * a * a.abs() / (b // rest)
    return key.index_put((rounded,), torch.ldexp(reduced, 2 * exponent - exponent_j))


def _odd_part(value: Tensor) -> tuple[Tensor, Tensor]:
    """Odd integers and exponents `e`: their products with `2^e` are `value`."""
    mantissa, exponent = torch.frexp(value)
    whole = (mantissa * 2.0**53).long()
    power = (whole & -whole).clamp(min=1)
    return whole // power, exponent - 53 + power.double().log2().round().int()


def _similarity_of_key(key: Tensor, norm2_i: Tensor, jaccard: bool) -> Tensor:
    """The similarity of a candidate. Equal keys have equal similarities."""
    if jaccard:
        return key
    return (key.sign() * _root(key.abs() / norm2_i)).clamp(-1, 1)


def _root(value: Tensor) -> Tensor:
    """The square root, correctly rounded: on a CPU, the last bit of PyTorch's can be wrong."""
    if value.device.type == "cpu" and not value.requires_grad:
        return torch.from_numpy(np.sqrt(value.numpy()))
    return value.sqrt()


def similarity_of_pairs(
    graph: Graph,
    settings: DescriptionSettings,
    nodes: Optional[Tensor],
    index: Tensor,
    budget: Budget,
) -> Tensor:
    """The similarity of each node to those in its row of `index`, `[M, k]`, differentiable."""
    matrix, _, _ = describe(graph, settings, budget, one_sided=False)
    row, place = (index >= 0).nonzero(as_tuple=True)
    i = row if nodes is None else nodes[row]
    j = index[row, place]
    dot = _dot_of_pairs(matrix, i, j, settings.max_degree)
    norm2 = _reduce_rows(matrix, matrix.value.square(), "sum")
    jaccard = settings.measure == "jaccard"
    key = _order_key(dot, norm2[i], norm2[j], jaccard)
    chosen = _similarity_of_key(key, norm2[i], jaccard)
    return chosen.new_zeros(index.shape).index_put((row, place), chosen)


def _dot_of_pairs(
    matrix: CSRMatrix, i: Tensor, j: Tensor, max_degree: Optional[int] = None
) -> Tensor:
    """The dot product of the rows of each pair, `[P]`, differentiable."""
    # Look up every entry (i, m) of the first row of a pair among the entries (j, m).
    per_pair = matrix.ptr.diff()[i]
    pair = torch.arange(i.numel(), device=i.device).repeat_interleave(per_pair)
    before = per_pair.cumsum(0) - per_pair
    entry = torch.arange(pair.numel(), device=i.device) + (matrix.ptr[i] - before)[pair]
    keys = matrix.row * matrix.num_cols + matrix.col
    wanted = j[pair] * matrix.num_cols + matrix.col[entry]
    found = torch.searchsorted(keys, wanted).clamp(max=max(keys.numel() - 1, 0))
    shared = keys[found] == wanted
    if max_degree is not None:
        length = torch.bincount(matrix.col, minlength=matrix.num_cols)
        shared &= length[matrix.col[entry]] <= max_degree
    product = matrix.value[entry[shared]] * matrix.value[found[shared]]
    return product.new_zeros(i.numel()).index_add(0, pair[shared], product)


def keys_of_pairs(description: Description, i: Tensor, j: Tensor, jaccard: bool) -> Tensor:
    """Numbers that order pairs of nodes as their similarity does, in float64, `[P]`.

    No square root is taken, so equal similarities have equal keys in all rows, as long as the
    descriptions are exact and no squared norm reaches `2^26`. A pair has one key, whichever
    node is first.
    """
    matrix = description.matrix
    length = matrix.ptr.diff()
    shorter = length[i] <= length[j]
    dot = _dot_of_pairs(matrix, torch.where(shorter, i, j), torch.where(shorter, j, i))
    norm2 = _norm2(description)
    if jaccard:
        return _order_key(dot, norm2[i], norm2[j], jaccard)
    return dot * dot.abs() / (norm2[i] * norm2[j])
