"""Rows that are the same, and messages that are: found in one pass over nodes or edges."""

from typing import Optional

import numpy as np
import torch
from torch import Tensor

from torch_geometric_simpool.engine.topk.compiled import call, kernel


def codes(number: Tensor, most: int) -> Optional[tuple[Tensor, Tensor]]:
    """Which of the different numbers each one is, `[N]`, and where each occurs first, `[D]`.

    They are counted in the order in which they come, and told apart by their bits. `None` where
    `D` is more than `most`.
    """
    bits = number.contiguous().numpy().view(np.dtype(f"i{number.element_size()}"))
    code, first, count = call(_codes, bits, most)
    if count > most:
        return None
    return torch.from_numpy(code), torch.from_numpy(first[:count])


def are_copies(x: Tensor, code: Tensor, first: Tensor) -> bool:
    """Whether each row of `x` equals the one that stands for it, `x[first[code]]`."""
    return call(_are_copies, x.contiguous().numpy(), code.numpy(), first.numpy())


def messages(
    code: Tensor, num_rows: int, edge_index: Tensor, most: int
) -> Optional[tuple[Tensor, Tensor]]:
    """The pairs of rows between which there are edges, ascending, and which of them each has.

    `None` where there are more than `most`. Ids and codes are in range.
    """
    ids = [edge.contiguous().numpy() for edge in edge_index]
    pair, number, count = call(_messages, code.contiguous().numpy(), num_rows, *ids, most)
    if count > most:
        return None
    return torch.from_numpy(pair[:, :count]), torch.from_numpy(number)


@kernel
def _codes(bits, most):
    size, shift = 2, np.uint64(63)
    while size < 2 * (most + 1):
        size *= 2
        shift -= np.uint64(1)
    # Open addressing: the code at each place of the table, or -1.
    table = np.full(size, -1, np.int64)
    code, first = np.empty(bits.size, np.int64), np.empty(most + 1, np.int64)
    count = 0
    for i in range(bits.size):
        key = np.uint64(bits[i]) * np.uint64(0x9E3779B97F4A7C15)
        # Its highest bits: all bits of the number have a say in them.
        place = np.int64(key >> shift)
        while table[place] >= 0 and bits[first[table[place]]] != bits[i]:
            place = (place + 1) & (size - 1)
        if table[place] < 0:
            table[place] = count
            first[count] = i
            count += 1
            if count > most:
                break
        code[i] = table[place]
    return code, first, count


@kernel
def _are_copies(x, code, first):
    for i in range(x.shape[0]):
        own, other = x[i], x[first[code[i]]]
        different = 0
        for f in range(own.size):
            different += own[f] != other[f]
        if different > 0:
            return False
    return True


@kernel
def _messages(code, num_rows, source, target, most):
    number = np.empty(source.size, np.int64)
    table = np.zeros(num_rows * num_rows, np.int64)
    for e in range(source.size):
        number[e] = code[target[e]] * num_rows + code[source[e]]
        table[number[e]] = 1
    pair, count = np.empty((2, most + 1), np.int64), 0
    for place in range(table.size):
        if table[place] > 0:
            pair[0, count], pair[1, count] = place // num_rows, place % num_rows
            table[place] = count
            count += 1
            if count > most:
                break
    if count <= most:
        for e in range(source.size):
            number[e] = table[number[e]]
    return pair, number, count
