"""The top k in PyTorch, on any device, in blocks of rows.

The products of a block are computed, sorted and summed. Then the candidates are sorted.
"""

from typing import NamedTuple, Optional

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.functional import csr
from torch_geometric_simpool.functional.csr import CSRMatrix
from torch_geometric_simpool.utils.budget import Budget
from torch_geometric_simpool.utils.scaling import power_of_two
from torch_geometric_simpool.utils.settings import DescriptionSettings, SelectionSettings

#: The bytes of working memory for the products of one block, if the budget allows as much.
BLOCK = 256 * 2**20

#: The bytes of an entry of a description: column, value and row, and those of the transpose.
BYTES_PER_ENTRY = 48


class Description(NamedTuple):
    """The descriptions of all nodes, one in a row."""

    matrix: CSRMatrix
    exact: bool  # whether no sum of their products rounds


class Plan(NamedTuple):
    """What is to be multiplied, and what it costs."""

    left: CSRMatrix
    right: CSRMatrix  # its transpose
    products: int
    memory: int  # the bytes that it takes in all
    block: int  # the bytes of a block of rows


def topk(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    num_nodes: int,
    describing: DescriptionSettings,
    selecting: SelectionSettings,
    budget: Budget,
) -> tuple[Tensor, Tensor]:
    """Values, in float64, and indices of the top k of every node."""
    description = describe(edge_index, edge_weight, num_nodes, describing, budget)
    return select(description, selecting, budget)


def cost(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    num_nodes: int,
    describing: DescriptionSettings,
    selecting: SelectionSettings,
    memory_budget: Optional[int],
) -> tuple[int, int, int]:
    """The products, those that are visited (all of them), and the bytes of working memory."""
    budget = Budget(memory_budget, force=True)
    description = describe(edge_index, edge_weight, num_nodes, describing, budget)
    plan = make_plan(description.matrix, selecting.max_degree, budget)
    return plan.products, plan.products, plan.memory


def describe(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    num_nodes: int,
    settings: DescriptionSettings,
    budget: Budget,
    one_sided: bool = True,
) -> Description:
    """The descriptions `[A_hat | A_hat^T]`.

    With `one_sided`, a symmetric matrix of exact values is described by `A_hat` alone. That
    halves dot products and norms, and leaves every similarity as it is.
    """
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
    integers = lam.is_integer()
    integers = integers and (edge_weight is None or bool((weight == weight.round()).all()))
    largest_sum = max(_largest_sum(row, weight, num_nodes), _largest_sum(col, weight, num_nodes))
    # No entry of a power exceeds that power of the largest sum, no dot product twice its square.
    exact = integers and largest_sum < 2 ** (26 / p)
    if not exact and weight.numel() > 0:
        # Neither measure changes when the whole matrix is scaled. So no power overflows.
        weight = weight * power_of_two(weight.detach().abs().max())

    adj = csr.from_coo(row, col, weight, num_nodes, num_nodes, exact)
    one_sided = one_sided and exact and csr.is_symmetric(adj)
    matrix = csr.matrix_power(adj, p, exact, block_bytes(budget.memory))
    if not one_sided:
        matrix = csr.hstack(matrix, csr.transpose(matrix))
    if settings.measure == "cosine" and not exact:
        # Nor does the cosine when a row is scaled. So no square under- or overflows.
        largest = _reduce_rows(matrix, matrix.value.detach().abs(), "max")
        matrix.value = matrix.value * power_of_two(largest)[matrix.row]
    return Description(matrix, exact)


def _largest_sum(index: Tensor, weight: Tensor, num_nodes: int) -> float:
    """The largest sum of absolute values in a row (or a column)."""
    if weight.numel() == 0:
        return 0.0
    sums = torch.zeros(num_nodes, dtype=weight.dtype, device=weight.device)
    return float(sums.index_add(0, index, weight.detach().abs()).max())


def _reduce_rows(matrix: CSRMatrix, value: Tensor, reduce: str) -> Tensor:
    if matrix.num_rows == 0:
        return value  # which is empty; segment_reduce takes no empty lengths
    return torch.segment_reduce(value, reduce, lengths=matrix.ptr.diff(), initial=0)


def _norm2(description: Description) -> Tensor:
    """The squared norm of each row, `[N]`, summed in the order of the dot products."""
    matrix, exact = description
    square = matrix.value.square()
    if not exact:
        order = square.detach().argsort(stable=True)
        order = order[matrix.row[order].argsort(stable=True)]
        square = square[order]
    return _reduce_rows(matrix, square, "sum")


def make_plan(matrix: CSRMatrix, max_degree: Optional[int], budget: Budget) -> Plan:
    """Counts the products; leaves out columns with more than `max_degree` entries."""
    transposed = csr.transpose(matrix)
    if max_degree is not None:
        matrix = csr.mask_entries(matrix, transposed.ptr.diff()[matrix.col] <= max_degree)
        transposed = csr.transpose(matrix)
    length = transposed.ptr.diff()
    products = int(length.double().square().sum())
    budget.check_products(products)
    per_row = torch.zeros(matrix.num_rows, dtype=torch.long, device=length.device)
    per_row = per_row.index_add(0, matrix.row, length[matrix.col])
    largest_row = int(per_row.max()) if per_row.numel() > 0 else 0
    largest = largest_row * csr.BYTES_PER_PRODUCT
    matrices = 2 * BYTES_PER_ENTRY * matrix.col.numel()
    budget.check_memory(matrices + largest, length.device)
    block = block_bytes(budget.memory)
    if budget.memory is not None and budget.memory - matrices >= largest:
        block = min(block, budget.memory - matrices)
    # Otherwise the call is forced, and exceeds the budget in any case.
    block = max(block, 1)
    used = max(min(block, products * csr.BYTES_PER_PRODUCT), largest)
    return Plan(matrix, transposed, products, matrices + used, block)


def block_bytes(memory_budget: Optional[int]) -> int:
    """The working memory of a block of rows."""
    return BLOCK if memory_budget is None else min(BLOCK, memory_budget)


def select(
    description: Description, settings: SelectionSettings, budget: Budget
) -> tuple[Tensor, Tensor]:
    """The top k of every node, in float64."""
    num_nodes, device = description.matrix.num_rows, description.matrix.ptr.device
    values = torch.zeros(num_nodes, settings.k, dtype=torch.float64, device=device)
    index = torch.full((num_nodes, settings.k), -1, dtype=torch.long, device=device)
    norm2 = _norm2(description)
    plan = make_plan(description.matrix, settings.max_degree, budget)
    for start, end in csr.row_blocks(plan.left, plan.right, plan.block):
        pair, dot = csr.multiply_rows(plan.left, plan.right, start, end, description.exact)
        i = pair.div(num_nodes, rounding_mode="floor")
        j = pair - i * num_nodes
        candidate = dot != 0
        if not settings.loop:
            candidate &= i != j
        i, j, dot = i[candidate], j[candidate], dot[candidate]

        key = _order_key(dot, norm2, i, j, settings.measure)
        if settings.measure == "cosine" and not (description.exact and _all_below(dot, 2**26)):
            key = _reduced_key(key, dot, norm2[j])
        order = key.argsort(descending=True, stable=True)
        order = order[i[order].argsort(stable=True)]
        # The pairs were sorted by i, then by j: i is still sorted, ties are in the order of j.
        count = torch.bincount(i - start, minlength=end - start)
        first = count.cumsum(0) - count
        place = torch.arange(i.numel(), device=device) - first[i - start]
        kept = place < settings.k
        i, place, order = i[kept], place[kept], order[kept]
        similarity = _similarity_of_key(key[order], norm2[i], settings.measure)
        if settings.min_similarity is not None:
            # Similarities descend, so what is left out is at the end of a row.
            enough = similarity >= settings.min_similarity
            i, place, order = i[enough], place[enough], order[enough]
            similarity = similarity[enough]
        index[i, place] = j[order]
        values[i, place] = similarity
    return values, index


def _all_below(value: Tensor, bound: float) -> bool:
    return value.numel() == 0 or float(value.abs().max()) < bound


def _order_key(dot: Tensor, norm2: Tensor, i: Tensor, j: Tensor, measure: str) -> Tensor:
    """A monotone function of the similarity, for a fixed row: no square root is taken."""
    if measure == "cosine":
        return dot * dot.abs() / norm2[j]
    return dot / (norm2[i] + norm2[j] - dot)


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


def _similarity_of_key(key: Tensor, norm2_i: Tensor, measure: str) -> Tensor:
    """The similarity of a candidate. Equal keys have equal similarities."""
    if measure == "cosine":
        return (key.sign() * _root(key.abs() / norm2_i)).clamp(-1, 1)
    return key


def _root(value: Tensor) -> Tensor:
    """The square root, correctly rounded: on a CPU, the last bit of PyTorch's can be wrong."""
    if value.device.type == "cpu" and not value.requires_grad:
        return torch.from_numpy(np.sqrt(value.numpy()))
    return value.sqrt()


def similarity_of_pairs(
    matrix: CSRMatrix, index: Tensor, measure: str, max_degree: Optional[int]
) -> Tensor:
    """The similarity of every node to those in `index`, `[N, k]`, differentiable."""
    i, place = (index >= 0).nonzero(as_tuple=True)
    j = index[i, place]
    dot = _dot_of_pairs(matrix, i, j, max_degree)
    norm2 = _reduce_rows(matrix, matrix.value.square(), "sum")
    key = _order_key(dot, norm2, i, j, measure)
    chosen = _similarity_of_key(key, norm2[i], measure)
    return chosen.new_zeros(index.shape).index_put((i, place), chosen)


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


def keys_of_pairs(description: Description, i: Tensor, j: Tensor, measure: str) -> Tensor:
    """Numbers that order pairs of nodes as their similarity does, in float64, `[P]`.

    No square root is taken, so equal similarities have equal keys in all rows, as long as the
    descriptions are exact and no squared norm reaches `2^26`. A pair has one key, whichever
    node is first.
    """
    matrix, _ = description
    length = matrix.ptr.diff()
    shorter = length[i] <= length[j]
    dot = _dot_of_pairs(matrix, torch.where(shorter, i, j), torch.where(shorter, j, i))
    norm2 = _norm2(description)
    if measure == "cosine":
        return dot * dot.abs() / (norm2[i] * norm2[j])
    return _order_key(dot, norm2, i, j, measure)
