"""The top k in PyTorch, on any device: expand products, sort, add up, sort, in blocks of rows."""

from typing import Optional

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.functional import csr as sparse
from torch_geometric_simpool.functional.csr import Rows
from torch_geometric_simpool.utils.budget import check_memory, check_products
from torch_geometric_simpool.utils.scaling import power_of_two

#: Bytes of working memory for the products of one block of rows, if there is as much.
BLOCK = 256 * 2**20

#: Bytes of an entry of a description: column, value and row, and those of its transpose.
BYTES_PER_ENTRY = 48


def describe(
    edge_index: Tensor,
    edge_weight: Optional[Tensor],
    num_nodes: int,
    p: int,
    lam: float,
    measure: str,
    memory_budget: Optional[int],
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
    power = sparse.matrix_power(matrix, p, exact, block_bytes(memory_budget))
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


def plan(
    described: Rows, max_degree: Optional[int], memory_budget: Optional[int], force: bool
) -> tuple[Rows, Rows, int, int, int]:
    """What is to be multiplied, both ways, the number of products, the memory it takes in
    all, and that of a block of rows.

    Columns with more than `max_degree` entries are left out.
    """
    transposed = sparse.transpose(described)
    if max_degree is not None:
        kept = transposed.ptr.diff()[described.col] <= max_degree
        described = sparse.keep(described, kept)
        transposed = sparse.transpose(described)
    length = transposed.ptr.diff()
    products = int(length.double().square().sum())
    check_products(products, force)
    per_row = torch.zeros(described.num_rows, dtype=torch.long, device=length.device)
    per_row = per_row.index_add(0, described.row, length[described.col])
    largest_row = int(per_row.max()) if per_row.numel() > 0 else 0
    largest = largest_row * sparse.BYTES_PER_PRODUCT
    lists = 2 * BYTES_PER_ENTRY * described.col.numel()
    check_memory(lists + largest, memory_budget, force, length.device)
    block = block_bytes(memory_budget)
    if memory_budget is not None and memory_budget - lists >= largest:
        block = min(block, memory_budget - lists)  # otherwise it is forced, and exceeds it anyway
    block = max(block, 1)
    used = max(min(block, products * sparse.BYTES_PER_PRODUCT), largest)
    return described, transposed, products, lists + used, block


def block_bytes(memory_budget: Optional[int]) -> int:
    """The working memory of a block of rows."""
    return BLOCK if memory_budget is None else min(BLOCK, memory_budget)


def select(
    described: Rows,
    exact: bool,
    k: int,
    measure: str,
    loop: bool,
    min_similarity: Optional[float],
    max_degree: Optional[int],
    memory_budget: Optional[int],
    force: bool,
) -> tuple[Tensor, Tensor]:
    """The top k of every node, in float64."""
    num_nodes = described.num_rows
    device = described.ptr.device
    values = torch.zeros(num_nodes, k, dtype=torch.float64, device=device)
    index = torch.full((num_nodes, k), -1, dtype=torch.long, device=device)
    norm2 = _norm2(described, exact)
    left, right, _, _, block = plan(described, max_degree, memory_budget, force)
    for start, end in sparse.row_blocks(left, right, block):
        pair, dot = sparse.multiply_rows(left, right, start, end, exact)
        i = pair.div(num_nodes, rounding_mode="floor")
        j = pair - i * num_nodes
        candidate = dot != 0
        if not loop:
            candidate &= i != j
        i, j, dot = i[candidate], j[candidate], dot[candidate]

        key = _order_key(dot, norm2, i, j, measure)
        if measure == "cosine" and not (exact and _all_below(dot, 2**26)):
            key = _reduced_key(key, dot, norm2[j])
        order = key.argsort(descending=True, stable=True)
        order = order[i[order].argsort(stable=True)]
        # Pairs came sorted by i, then by j: i is still sorted, ties are in order of j.
        count = torch.bincount(i - start, minlength=end - start)
        first = count.cumsum(0) - count
        place = torch.arange(i.numel(), device=device) - first[i - start]
        kept = place < k
        i, place, order = i[kept], place[kept], order[kept]
        similarity = _similarity_of_key(key[order], norm2[i], measure)
        if min_similarity is not None:
            # Similarities descend: what is left out is at the end of a row.
            enough = similarity >= min_similarity
            i, place, order = i[enough], place[enough], order[enough]
            similarity = similarity[enough]
        index[i, place] = j[order]
        values[i, place] = similarity
    return values, index


def _all_below(value: Tensor, bound: float) -> bool:
    return value.numel() == 0 or float(value.abs().max()) < bound


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
        return (key.sign() * _root(key.abs() / norm2_i)).clamp(-1, 1)
    return key


def _root(value: Tensor) -> Tensor:
    """The square root, rounded correctly: in PyTorch on a CPU its last bit can be wrong."""
    if value.device.type == "cpu" and not value.requires_grad:
        return torch.from_numpy(np.sqrt(value.numpy()))
    return value.sqrt()


def similarity_of_pairs(
    described: Rows, index: Tensor, measure: str, max_degree: Optional[int]
) -> Tensor:
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
    if max_degree is not None:
        length = torch.bincount(described.col, minlength=described.num_cols)
        shared &= length[described.col[entry]] <= max_degree
    product = described.value[entry[shared]] * described.value[found[shared]]
    dot = product.new_zeros(i.numel()).index_add(0, pair[shared], product)

    norm2 = _reduce_rows(described, described.value.square(), "sum")
    key = _order_key(dot, norm2, i, j, measure)
    chosen = _similarity_of_key(key, norm2[i], measure)
    return chosen.new_zeros(index.shape).index_put((i, place), chosen)
