"""Kernels: the best candidates of a row, collected in a buffer.

A buffer has room for several times `k` candidates. When it is full, the best `k` stay, and the
last of them is the bound that later candidates must pass.

Dot products of real numbers come with a bound of their error. Where two candidates are closer than
their errors, and at the boundary of zero, the dot products are computed again by
:func:`exact_dot`, which rounds once. So the order is the order of the exact rule.
"""

from typing import NamedTuple

import numpy as np

from torch_geometric_simpool.topk.measures import COSINE
from torch_geometric_simpool.topk.numba.jit import helper
from torch_geometric_simpool.topk.numba.keys import order_key, similarity_of_key
from torch_geometric_simpool.topk.rounding import CANCELS
from torch_geometric_simpool.utils.scaling import LEAST_RATIO

#: Up to this many candidates are sorted by counting, for each, how many are better.
COUNTED = 256

#: Nodes are in blocks, whose extreme norms are kept.
BLOCK = 128

#: Steps of the search for a bound.
HALVINGS = 12

#: Larger than any id.
NO_ID = np.iinfo(np.int64).max


class Options(NamedTuple):
    """Settings of the order of candidates, and of the candidates that take a place."""

    k: int
    loop: bool
    measure: int
    min_similarity: float
    smallest: float  # similarities up to it are zero in the type of the result
    single: bool  # whether the result is float32


class Buffer(NamedTuple):
    """Candidates in any order, and the bound that further candidates must pass."""

    key: np.ndarray  # the keys of the first `num_keys`, and the dot products of the others
    error: np.ndarray  # a bound of the error of each; 0 if it is exact
    node: np.ndarray
    id: np.ndarray  # the caller's ids
    place: np.ndarray  # candidates, the best first
    spare: np.ndarray
    size: np.ndarray  # [1]
    num_keys: np.ndarray  # [1]
    worst_key: np.ndarray  # [1]
    worst_id: np.ndarray  # [1]


def new_buffer(k: int) -> Buffer:
    """Returns an empty buffer for the best `k`."""
    room = 2 * k + 16
    return Buffer(
        key=np.empty(room),
        error=np.empty(room),
        node=np.empty(room, np.int64),
        id=np.empty(room, np.int64),
        place=np.empty(room, np.int64),
        spare=np.empty(room),
        size=np.zeros(1, np.int64),
        num_keys=np.zeros(1, np.int64),
        worst_key=np.zeros(1),
        worst_id=np.zeros(1, np.int64),
    )


@helper
def clear(buffer):
    """Empties the buffer."""
    buffer.size[0] = buffer.num_keys[0] = 0
    buffer.worst_key[0] = -np.inf
    buffer.worst_id[0] = -1


@helper
def add(j, dot, error, buffer):
    """Adds a candidate to the buffer, which has room; `error` is a bound of the error of `dot`."""
    at = buffer.size[0]
    buffer.key[at] = dot  # its key is computed later, when its norm has come from memory
    buffer.error[at] = error
    buffer.node[at] = j
    buffer.size[0] = at + 1


@helper
def compute_keys(i, graph, options, buffer):
    """Computes the keys of candidates that have none, and drops those below the bound."""
    size, worst = buffer.num_keys[0], buffer.worst_key[0]
    for t in range(buffer.num_keys[0], buffer.size[0]):
        j = buffer.node[t]
        key, error = key_of(i, j, buffer.key[t], buffer.error[t], graph, options)
        buffer.key[size] = key
        buffer.error[size] = error
        buffer.node[size] = j
        drop = key + error < worst
        if key == worst and error == 0:
            drop = np.int64(graph.id[j]) > buffer.worst_id[0]
        if graph.signed and error < abs(key):
            value = similarity_of_key(key, graph.norm2[i], options.measure)
            drop |= abs(value) <= options.smallest
        size += 1 - np.int64(drop)
    buffer.size[0] = buffer.num_keys[0] = size


@helper
def key_of(i, j, dot, error, graph, options):
    """Returns the key of a candidate, and a bound of its error."""
    norm2_i, norm2_j = graph.norm2[i], graph.floor[j // BLOCK]
    if norm2_j != graph.ceiling[j // BLOCK]:  # most blocks of a graph of ones have one norm
        norm2_j = graph.norm2[j]
    if options.measure != COSINE and graph.scale.size > 0:
        # A ratio that is larger gives a similarity of zero in any case.
        ratio = graph.scale[j] / graph.scale[i]
        ratio = min(max(ratio, LEAST_RATIO), 1 / LEAST_RATIO)
        norm2_i, norm2_j = norm2_i * ratio, norm2_j / ratio
    integral = graph.integral.size == 0 or graph.integral[i]
    key = order_key(dot, norm2_i, norm2_j, options.measure, integral)
    if error > 0:
        if options.measure == COSINE:
            error = error * (2 * abs(dot) + error) / norm2_j
        else:
            error = 4 * error / min(norm2_i, norm2_j)
        error += 2.0**-50 * abs(key)
    return key, error


@helper
def rank_candidates(i, graph, options, buffer):
    """Writes the candidates to `place`, the best first, by exact keys where it matters."""
    drop_worse(options.k + 4, options.k, buffer)
    for t in range(buffer.size[0]):
        buffer.id[t] = graph.id[buffer.node[t]]
    sort(buffer.key, buffer.id, buffer.place, buffer.size[0])
    if not graph.exact:
        while settle(i, graph, options, buffer):
            sort(buffer.key, buffer.id, buffer.place, buffer.size[0])


@helper
def make_room(i, graph, options, buffer):
    """Drops candidates that are not among the `k` best, and raises the bound."""
    most = (buffer.key.size + options.k) // 2
    compute_keys(i, graph, options, buffer)
    drop_worse(most, options.k, buffer)
    if buffer.size[0] > most:
        keep_best(i, graph, options, buffer)


@helper
def drop_worse(most, k, buffer):
    """Drops candidates that at least `k` others exceed, so that about `most` stay.

    Any number that `k` candidates reach is a bound, unless their dot products may be zero. A few
    halvings find one that few others reach, unless candidates are equal.
    """
    size, low, high, largest = buffer.size[0], np.inf, -np.inf, -np.inf
    if size <= most:
        return
    for t in range(size):
        low = min(low, buffer.key[t] - buffer.error[t])
        high = max(high, buffer.key[t])
    for _ in range(HALVINGS):
        bound = np.sqrt(low) * np.sqrt(high) if low > 0 else (low + high) / 2
        reached = 0
        for t in range(size):
            key, error = buffer.key[t], buffer.error[t]
            reached += np.int64((key - error >= bound) & (error < abs(key)))
        if reached < k:
            high = bound
        else:
            low = largest = bound
            if reached <= most:
                break
    if largest > -np.inf:
        keep_reaching(largest, buffer)


@helper
def keep_reaching(bound, buffer):
    """Keeps the candidates that may reach a bound."""
    size = 0
    for t in range(buffer.size[0]):
        key, error = buffer.key[t], buffer.error[t]
        buffer.key[size] = key
        buffer.error[size] = error
        buffer.node[size] = buffer.node[t]
        size += np.int64(key + error >= bound)
    buffer.size[0] = buffer.num_keys[0] = size
    buffer.worst_key[0] = bound
    buffer.worst_id[0] = NO_ID


@helper
def keep_best(i, graph, options, buffer):
    """Drops candidates beyond the `k` best, the last of which is the new bound."""
    rank_candidates(i, graph, options, buffer)
    size = min(buffer.size[0], options.k)
    while size > 0 and buffer.key[buffer.place[size - 1]] == -np.inf:
        size -= 1
    buffer.size[0] = buffer.num_keys[0] = size
    permute(buffer.key, buffer.place, buffer.spare, size)
    permute(buffer.error, buffer.place, buffer.spare, size)
    permute(buffer.node, buffer.place, buffer.spare, size)
    if size == options.k:
        error = buffer.error[size - 1]
        buffer.worst_key[0] = buffer.key[size - 1] - error
        buffer.worst_id[0] = graph.id[buffer.node[size - 1]] if error == 0 else NO_ID


@helper
def permute(array, place, spare, size):
    """Moves the first `size` places to the front."""
    for t in range(size):
        spare[t] = array[place[t]]
    for t in range(size):
        array[t] = spare[t]


@helper
def sort(key, j_id, place, size):
    """Writes the places of candidates, the best first."""
    if size <= COUNTED:
        for t in range(size):
            rank = 0
            for u in range(size):
                rank += np.int64((key[u] > key[t]) | ((key[u] == key[t]) & (j_id[u] < j_id[t])))
            place[rank] = t
        return
    for t in range(size):
        place[t] = t
    gap = size
    while gap > 1:  # Shellsort: NumPy's sort allocates memory
        gap = max(gap * 5 // 11, 1)
        for start in range(gap, size):
            t, at = place[start], start
            while at >= gap and (
                key[place[at - gap]] < key[t]
                or (key[place[at - gap]] == key[t] and j_id[place[at - gap]] > j_id[t])
            ):
                place[at] = place[at - gap]
                at -= gap
            place[at] = t


@helper
def settle(i, graph, options, buffer):
    """Computes keys again that are too close to each other; returns whether there are any."""
    key, error, place, size = buffer.key, buffer.error, buffer.place, buffer.size[0]
    margin, changed = 0.0, False
    for t in range(size):
        margin = max(margin, error[t])
    for t in range(min(size, options.k)):
        a = place[t]
        if error[a] > 0 and abs(key[a]) <= error[a]:
            changed |= refine(i, a, graph, options, buffer)
        u = t + 1
        while u < size and key[a] - key[place[u]] <= error[a] + margin:
            b = place[u]
            if error[a] + error[b] > 0 and abs(key[a] - key[b]) <= error[a] + error[b]:
                changed |= refine(i, a, graph, options, buffer)
                changed |= refine(i, b, graph, options, buffer)
            u += 1
    return changed


@helper
def refine(i, at, graph, options, buffer):
    """Computes the exact key of a candidate; returns whether it was not exact before."""
    if buffer.error[at] == 0:
        return False
    j = buffer.node[at]
    dot = exact_dot(i, j, graph)
    buffer.error[at] = 0.0
    buffer.key[at], _ = key_of(i, j, dot, 0.0, graph, options)
    norm2_i = graph.norm2[i]
    if abs(similarity_of_key(buffer.key[at], norm2_i, options.measure)) <= options.smallest:
        buffer.key[at] = -np.inf  # it takes no place
    return True


@helper
def exact_dot(i, j, graph):
    """Returns a dot product that is rounded once; zero where its terms cancel."""
    high, low, absolute = add_products(i, j, graph.rows, graph.scale, 0.0, 0.0, 0.0)
    if graph.two_sided:
        high, low, absolute = add_products(i, j, graph.back_rows, graph.scale, high, low, absolute)
    total = high + low
    return 0.0 if abs(total) <= CANCELS * absolute else total


@helper
def add_products(i, j, rows, scale, high, low, absolute):
    """Adds the products of two rows to a sum of two doubles, and to the sum of absolute terms."""
    scale_i, scale_j = 1.0, 1.0
    if scale.size > 0:
        scale_i, scale_j = scale[i], scale[j]
    e, f = rows.ptr[i], rows.ptr[j]
    while e < rows.ptr[i + 1] and f < rows.ptr[j + 1]:
        if rows.col[e] < rows.col[f]:
            e += 1
        elif rows.col[e] > rows.col[f]:
            f += 1
        else:
            term = rows.value[e] * scale_i * (rows.value[f] * scale_j)
            total = high + term
            part = total - high
            low += (high - (total - part)) + (term - part)
            high = total
            absolute += abs(term)
            e += 1
            f += 1
    return high, low, absolute


@helper
def write(i, place, graph, options, buffer, result):
    """Writes the best candidates to a row of the result; then padding."""
    compute_keys(i, graph, options, buffer)
    rank_candidates(i, graph, options, buffer)
    norm2_i, size = graph.norm2[i], 0
    for rank in range(min(buffer.size[0], options.k)):
        t = buffer.place[rank]
        if buffer.key[t] == -np.inf:
            break
        value = similarity_of_key(buffer.key[t], norm2_i, options.measure)
        if buffer.error[t] > 0:
            margin = buffer.error[t] / abs(buffer.key[t]) * value
            low, high = value - margin, value + margin
            if (
                not options.single
                or np.float32(low) != np.float32(high)
                or low < options.min_similarity <= high
            ):
                refine(i, t, graph, options, buffer)
                value = similarity_of_key(buffer.key[t], norm2_i, options.measure)
        if value < options.min_similarity or value == -np.inf or abs(value) <= options.smallest:
            continue
        result.values[place, size] = value
        result.indices[place, size] = buffer.id[t]
        size += 1
    for t in range(size, options.k):
        result.values[place, t] = 0
        result.indices[place, t] = -1


class TopK(NamedTuple):
    """The result, `[N, k]` each."""

    values: np.ndarray
    indices: np.ndarray
