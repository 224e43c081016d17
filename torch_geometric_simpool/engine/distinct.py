"""Nodes with the same features: labels as one-hot rows are few, however many the nodes are.

So are the messages between them.
"""

from functools import lru_cache
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_simpool.engine.adjacent import ids_fit, neighbour_sums
from torch_geometric_simpool.engine.fusible import fusible
from torch_geometric_simpool.engine.messages import sum_relu

#: So many rows are looked at first, and there must be this many times more rows than
#: different ones.
SAMPLE = 512
TIMES = 4
#: Up to how many different messages for each node a table of them is faster than a message
#: for each edge.
PAIRS = 2
#: From how many numbers in all rows, or ids in all edges, on they are looked for by compiled loops:
#: in fewer, PyTorch finds them within a millisecond, and Numba need not be loaded.
COMPILED = 1 << 17


def distinct_rows(x: Tensor) -> Optional[tuple[Tensor, Tensor]]:
    r"""The different rows of `x`, and which of them each row is; `None` where that is no gain.

    .. math::
        x_i = t_{c_i}

    Args:
        x: `[N, F]`.

    Returns:
        `(t, c)`, `[D, F]` and `[N]`, int64, with `D <= N / 4`; `t` may hold a row twice.
        `None` for rows that are too many, too few in all, that need gradients, or are
        traced, cast automatically, or not on a CPU, where finding out would cost more
        than the products.

    Rows are told apart by their products with one random vector, and then compared, so that
    the result is exact, but that -0.0 is taken for 0.0. Time `O(N F + N log N)`, or `O(F)`
    where there are too many; memory `O(N F)`. Deterministic.
    """
    if not _worth_a_look(x):
        return None
    direction = _direction(x.size(1), x.dtype)
    if _codes(x[:SAMPLE] @ direction, SAMPLE // TIMES) is None:
        return None
    codes, are_copies = _codes, _are_copies
    if x.numel() >= COMPILED:
        from torch_geometric_simpool.engine import duplicates  # imports Numba, which takes a while

        codes, are_copies = duplicates.codes, duplicates.are_copies
    # `torch.unique(x, dim=0)` sorts whole rows, which takes longer than what is to be saved.
    found = codes(x @ direction, x.size(0) // TIMES)
    # Different rows may share a product, and NaN equals nothing.
    if found is None or not are_copies(x, *found):
        return None
    code, first = found
    return x.index_select(0, first), code


def _codes(number: Tensor, most: int) -> Optional[tuple[Tensor, Tensor]]:
    different, code = number.unique(return_inverse=True)
    if different.numel() > most:
        return None
    one_of_them = code.new_empty(different.numel())
    return code, one_of_them.scatter_(0, code, torch.arange(number.numel(), device=number.device))


def _are_copies(x: Tensor, code: Tensor, first: Tensor) -> bool:
    return torch.equal(x.index_select(0, first).index_select(0, code), x)


def _worth_a_look(x: Tensor) -> bool:
    return (
        type(x) is Tensor
        and fusible(x)  # first: a compiler would keep the comparison of sizes
        and x.layout == torch.strided
        and x.dim() == 2
        and x.size(0) >= SAMPLE
        and not x.requires_grad
    )


@lru_cache(maxsize=64)
def _direction(num_features: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator("cpu").manual_seed(0)
    drawn = torch.rand(num_features, dtype=torch.float64, generator=generator, device="cpu")
    return drawn.to(dtype)


def distinct_messages(
    code: Tensor, num_rows: int, edge_index: Tensor
) -> Optional[tuple[Tensor, Tensor]]:
    r"""The pairs of rows between which there are edges, and which of them each edge has.

    Args:
        code: The row that each node has, `[N]`, int64, below `num_rows`, `D`.
        edge_index: `[2, E]`, int64.

    Returns:
        The rows of target and source of each pair, `[2, P]`, with `P <= 2 N`, and the
        numbers of the pairs, `[E]`; `None` where there are more. Ids out of range are
        PyTorch's to report. Time and memory `O(N + E)`.
    """
    if num_rows**2 > max(code.numel(), edge_index.size(1)):
        return None
    most = PAIRS * code.numel()
    if edge_index.numel() >= COMPILED and ids_fit(edge_index, code.numel()):
        from torch_geometric_simpool.engine import duplicates

        return duplicates.messages(code, num_rows, edge_index, most)
    source, target = code.index_select(0, edge_index[0]), code.index_select(0, edge_index[1])
    place = target.mul_(num_rows).add_(source)
    there = torch.zeros(num_rows**2, dtype=torch.bool, device=code.device)
    there[place] = True
    found = there.nonzero().view(-1)
    if found.numel() > most:
        return None
    number = (there.cumsum(0) - 1).index_select(0, place)
    return torch.stack([found.div(num_rows, rounding_mode="floor"), found % num_rows]), number


def propagate_distinct(
    x: Tensor,
    message: tuple[Tensor, Optional[Tensor]],
    node: tuple[Tensor, Optional[Tensor]],
    edge_index: Tensor,
    code: Tensor,
) -> Tensor:
    r"""A propagation, as :func:`propagate` has it, where nodes share rows.

    .. math::
        h_i' = \mathrm{ReLU}\bigl(u_{c_i} + \sum\nolimits_{j : (j, i) \in E} t_{c_i c_j}\bigr),
        \quad u = V_h x + c, \quad
        t_{ab} = V_m \, \mathrm{ReLU}(W_i x_a + W_j x_b + b)

    so each node is a sum of rows of one table, and all products are of that size. Where too
    many messages differ, they are made edge by edge instead, of products that are still
    taken per row of `x`.

    Args:
        x: `[D, F]`.
        message, node: `(W, b)` and `(V, c)`, as in :func:`propagate`.
        edge_index: `[2, E]`, int64.
        code: The row of `x` that each node has, `[N]`, int64.

    Returns:
        `[N, O]`.

    With `P <= 2 N` different messages, time `O(D F (M + O) + P M O + (N + E) O)`, memory
    `O(D F + P (M + O) + N O + E)`; otherwise time `O(D F (M + O) + N M O + E M)`, memory
    `O(D F + N (M + O) + E)`. Can be differentiated any number of times. Deterministic.
    """
    of_target, of_source = message[0].chunk(2, dim=1)
    of_node, of_total = node[0].split([x.size(1), message[0].size(0)], dim=1)
    target, source = F.linear(x, of_target, message[1]), F.linear(x, of_source)
    own = F.linear(x, of_node, node[1])
    messages = distinct_messages(code, x.size(0), edge_index)
    if messages is None:
        target, source, own = (rows.index_select(0, code) for rows in (target, source, own))
        return (own + F.linear(sum_relu(target, source, None, edge_index), of_total)).relu()
    pair, number = messages
    sent = (target.index_select(0, pair[0]) + source.index_select(0, pair[1])).relu()
    nodes = torch.arange(code.numel(), device=code.device)
    out = neighbour_sums(own, nodes, code, code.numel())
    sums = neighbour_sums(F.linear(sent, of_total), edge_index[1], number, code.numel())
    return out.add_(sums).relu_()
