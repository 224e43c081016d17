"""The top k in PyTorch, on any device, in blocks of rows.

The products of a block are computed, sorted and summed. Then the candidates of each row are sorted,
those of rows of about the same length as one matrix.
"""

from collections.abc import Iterator
from typing import NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.topk.backend import Cost
from torch_geometric_simpool.topk.budget import Budget
from torch_geometric_simpool.topk.rounding import smallest_value
from torch_geometric_simpool.topk.spec import EdgeList, Selection, SimilaritySpec
from torch_geometric_simpool.topk.torch import csr
from torch_geometric_simpool.topk.torch.csr import CSRMatrix
from torch_geometric_simpool.utils.scaling import LEAST_RATIO, power_of_two

#: The bytes of working memory for the products of one block, if the budget allows as much.
BLOCK = 256 * 2**20

#: A block of no more numbers than this, when padded to its longest row, is sorted as one matrix.
SMALL_BLOCK = 1 << 15

#: The bytes of an entry of a description: column, value and row, and those of the transpose.
BYTES_PER_ENTRY = 48


class Description(NamedTuple):
    """The descriptions of all nodes, one in a row."""

    matrix: CSRMatrix
    scale: Tensor  # the power of two that each was multiplied by, [N]
    exact: bool  # whether no sum of their products rounds
    integral: Tensor  # whether each holds integers, up to a power of two, [N]
    symmetric: bool  # whether it is known that the matrix is


class Prepared(NamedTuple):
    """A graph of which any rows can be computed."""

    left: CSRMatrix  # the features of each node
    right: CSRMatrix  # the candidates that have each feature
    norm2: Tensor  # [N]
    scale: Tensor  # [N]
    integral: Tensor  # [N]
    exact: bool
    jaccard: bool

    def topk(
        self, nodes: Optional[Tensor], selection: Selection, budget: Budget, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        """Returns values and indices, `[M, k]`, of the rows of `nodes`, or of all."""
        return topk(self, nodes, selection, budget, dtype)

    def cost(self, nodes: Optional[Tensor], k: int, budget: Budget) -> Cost:
        """Returns the cost of :meth:`topk`."""
        return Cost(*cost(self, nodes, k, budget))


def prepare(
    graph: EdgeList,
    settings: SimilaritySpec,
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
    _, scale, exact, integral, _ = description
    jaccard = settings.measure == "jaccard"
    return Prepared(left, right, _norm2(description), scale, integral, exact, jaccard)


def topk(
    prepared: Prepared,
    nodes: Optional[Tensor],
    settings: Selection,
    budget: Budget,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Values and indices of the top k of these nodes, or of all."""
    left = prepared.left if nodes is None else csr.select_rows(prepared.left, nodes)
    plan = make_plan(left, prepared.right, budget)
    budget.check_products(plan.products)
    budget.check_memory(plan.least, left.ptr.device)
    shape = left.num_rows, settings.k
    values = torch.zeros(shape, dtype=dtype, device=left.ptr.device)
    index = torch.full(shape, -1, device=left.ptr.device)
    for start, end in csr.row_blocks(left, prepared.right, plan.block):
        product = csr.multiply_rows(left, prepared.right, start, end, prepared.exact)
        _select(prepared, *product, start, end, nodes, settings, values, index)
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
    settings: Selection,
    values: Tensor,
    index: Tensor,
) -> None:
    """Writes the rows `start` to `end`, whose candidates are `pair`, ascending."""
    norm2, exact, jaccard = prepared.norm2, prepared.exact, prepared.jaccard
    row = pair.div(norm2.numel(), rounding_mode="floor")
    j = pair - row * norm2.numel()
    i = row if nodes is None else nodes[row]
    candidate = dot != 0
    if not settings.loop:
        candidate &= j != i
    if not candidate.all():
        row, i, j, dot = row[candidate], i[candidate], j[candidate], dot[candidate]

    norm2_i, norm2_j = norm2.index_select(0, i), norm2.index_select(0, j)
    if jaccard and not exact:
        norm2_i, norm2_j = _of_one_scale(norm2_i, norm2_j, prepared.scale[i], prepared.scale[j])
    key = _order_key(dot, norm2_i, norm2_j, jaccard)
    if not jaccard and not (exact and _all_below(dot, 2**26)):
        key = _reduced_key(key, dot, norm2_j, prepared.integral[i])
    # The dot product and both norms of integers are in [1, 2^53), so no similarity is smaller.
    if not exact or smallest_value(values.dtype) > 2.0**-53:
        similarity = _similarity_of_key(key, norm2_i, jaccard)
        candidate = similarity.abs() > smallest_value(values.dtype)
        row, j, key = row[candidate], j[candidate], key[candidate]
    for rows, position in _largest_of_rows(key, row, start, end, settings.k):
        # The pairs were sorted, so ties are in the order of `j`.
        place = position.clamp(min=0)
        norm2_i = norm2[rows if nodes is None else nodes[rows]].unsqueeze(1)
        similarity = _similarity_of_key(key[place], norm2_i, jaccard)
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
    graph: EdgeList, settings: SimilaritySpec, budget: Budget, one_sided: bool = True
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
    unit = weight.new_ones(())  # what a value of 1 is scaled to
    if not exact and weight.numel() > 0:
        # Neither measure changes when the whole matrix is scaled. So no power overflows.
        unit = power_of_two(weight.detach().abs().max())
        weight = weight * unit

    matrix = csr.from_coo(row, col, weight, num_nodes, graph.num_cols, exact)
    symmetric = one_sided and exact and not graph.bipartite and csr.is_symmetric(matrix)
    two_sided = not graph.bipartite and not symmetric
    if p > 1:
        matrix = csr.matrix_power(matrix, p, exact, block_bytes(budget.memory))
    if two_sided:
        matrix = csr.hstack(matrix, csr.transpose(matrix))
    matrix.ones = exact and bool((matrix.value == 1).all())
    scale = torch.ones(num_nodes, dtype=torch.float64, device=row.device)
    integral = _is_integral(matrix, unit, p)
    if not exact and num_nodes > 0:
        # Each row has a scale of its own, so that no square under- or overflows.
        largest = matrix.value.detach().abs()
        largest = torch.segment_reduce(largest, "max", lengths=matrix.ptr.diff(), initial=0)
        scale = power_of_two(largest)
        matrix.value = matrix.value * scale[matrix.row]
    return Description(matrix, scale, exact, integral, symmetric)


def _is_integral(matrix: CSRMatrix, unit: Tensor, p: int) -> Tensor:
    """Whether each row holds integers, times `unit^p`."""
    value = matrix.value.detach()
    for _ in range(p):
        value = value / unit
    integral = torch.ones(matrix.num_rows, dtype=torch.bool, device=value.device)
    integral[matrix.row[value != value.round()]] = False
    return integral


def _largest_sum(index: Tensor, weight: Tensor, size: int) -> float:
    """The largest sum of absolute values in a row (or a column)."""
    if weight.numel() == 0:
        return 0.0
    sums = torch.zeros(size, dtype=weight.dtype, device=weight.device)
    return float(sums.index_add(0, index, weight.detach().abs()).max())


def _norm2(description: Description) -> Tensor:
    """The squared norm of each row, `[N]`."""
    matrix = description.matrix
    return csr.sum_segments(matrix.value.square(), matrix.ptr.diff(), description.exact)


def _of_one_scale(
    norm2_i: Tensor, norm2_j: Tensor, scale_i: Tensor, scale_j: Tensor
) -> tuple[Tensor, Tensor]:
    """Squared norms of pairs, both in the scale of their dot products.

    A ratio that is larger gives a similarity of zero in any case.
    """
    ratio = (scale_j / scale_i).clamp(LEAST_RATIO, 1 / LEAST_RATIO)
    return norm2_i * ratio, norm2_j / ratio


def _all_below(value: Tensor, bound: float) -> bool:
    return value.numel() == 0 or float(value.abs().max()) < bound


def _order_key(dot: Tensor, norm2_i: Tensor, norm2_j: Tensor, jaccard: bool) -> Tensor:
    """A monotone function of the similarity, for a fixed row: no square root is taken."""
    if jaccard:
        return dot / (norm2_i + norm2_j - dot)
    # The similarity of a node with itself, for one, is exactly one.
    return torch.where(dot == norm2_j, dot, dot * dot.abs() / norm2_j)


def _reduced_key(key: Tensor, dot: Tensor, norm2_j: Tensor, integral: Tensor) -> Tensor:
    """The key, from the fraction in lowest terms where the square of an integer is rounded.

    It depends on the two numbers alone, up to powers of two, so it is the same whatever else
    is in the batch. Numbers that fill a double are not integers, but rounded themselves.
    """
    odd, exponent = _odd_part(dot)
    rounded = (integral & (odd.abs() >= 2**26) & (odd.abs() < 2**50)).nonzero().squeeze(1)
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
    if value.device.type == "cpu":
        return torch.from_numpy(np.sqrt(value.numpy()))
    return value.sqrt()


def similarity_of_pairs(
    graph: EdgeList,
    settings: SimilaritySpec,
    nodes: Optional[Tensor],
    index: Tensor,
    budget: Budget,
) -> Tensor:
    """The similarity of each node to those in its row of `index`, `[M, k]`, differentiable."""
    description = describe(graph, settings, budget, one_sided=False)
    row, place = (index >= 0).nonzero(as_tuple=True)
    i = row if nodes is None else nodes[row]
    j = index[row, place]
    dot = _dot_of_pairs(description, i, j, settings.max_degree)
    norm2 = _norm2(description)
    norm2_i, norm2_j = norm2[i], norm2[j]
    if settings.measure == "jaccard":
        scale = description.scale
        norm2_i, norm2_j = _of_one_scale(norm2_i, norm2_j, scale[i], scale[j])
        chosen = dot / (norm2_i + norm2_j - dot)
    else:
        # Unlike the root of the key, it is smooth where the dot product is zero.
        chosen = dot / (norm2_i * norm2_j).sqrt()
    return chosen.new_zeros(index.shape).index_put((row, place), chosen)


def _dot_of_pairs(
    description: Description, i: Tensor, j: Tensor, max_degree: Optional[int] = None
) -> Tensor:
    """The dot product of the rows of each pair, `[P]`, differentiable."""
    matrix = description.matrix
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
    lengths = torch.bincount(pair[shared], minlength=i.numel())
    return csr.sum_segments(product, lengths, description.exact)


def keys_of_pairs(description: Description, i: Tensor, j: Tensor, jaccard: bool) -> Tensor:
    """Numbers that order pairs of nodes as their similarity does, in float64, `[P]`.

    No square root is taken, so equal similarities have equal keys in all rows, as long as the
    descriptions are exact and no squared norm reaches `2^26`. A pair has one key, whichever
    node is first.
    """
    length = description.matrix.ptr.diff()
    shorter = length[i] <= length[j]
    dot = _dot_of_pairs(description, torch.where(shorter, i, j), torch.where(shorter, j, i))
    norm2, scale = _norm2(description), description.scale
    if jaccard:
        norms = _of_one_scale(norm2[i], norm2[j], scale[i], scale[j])
        return _order_key(dot, *norms, jaccard)
    return dot * dot.abs() / (norm2[i] * norm2[j])
