"""Kernels: the best candidates of a row.

A candidate is a node with a key. Keys order the candidates of a row as similarities do. When the
arrays have no room for another block of nodes, each candidate that `k` others exceed is dropped.
This raises the bound: the key that later candidates must reach.

A key has an error if its dot product was rounded. If the keys of two candidates are closer than the
sum of their errors, both keys are computed again from :func:`exact_dot`. So the order is exact.
"""

from typing import NamedTuple

import numpy as np

from torch_geometric_simpool.topk.measures import COSINE
from torch_geometric_simpool.topk.numba.csr import add
from torch_geometric_simpool.topk.numba.jit import helper, inlined
from torch_geometric_simpool.topk.numba.keys import order_key, similarity_of_key
from torch_geometric_simpool.utils.rounding import LEAST_RATIO

#: The most candidates that are sorted by counting how many are better.
COUNTED = 512

#: An array over so many nodes, or fewer, fits into the first-level cache.
CACHED = 4096

#: The nodes of a block. The smallest and the largest norm of each block are kept.
BLOCK = 128

#: The most steps of the search for a bound.
HALVINGS = 12

#: Larger than any id.
NO_ID = np.iinfo(np.int64).max


class Options(NamedTuple):
    """What decides the order of candidates, and which of them take a place."""

    k: int
    loop: bool
    measure: int
    smallest: float  # similarities up to it are zero in the type of the result
    id_mask: int  # the bits of an id in a word; -1 if candidates are compared by key, then by id


class Norms(NamedTuple):
    """The numbers that turn a dot product into a key, for each node."""

    norm2: np.ndarray  # squared norms, [num_nodes]
    levels: np.ndarray  # lower bounds of the positive squared norms in blocks of nodes, ascending
    level: np.ndarray  # for each block, the place of its lower bound in `levels`
    ceiling: np.ndarray  # the largest squared norm in each block
    scale: np.ndarray  # a power of two for each description; empty if all are 1
    id: np.ndarray  # the caller's id of each number


class Candidates(NamedTuple):
    """Candidates in any order."""

    key: np.ndarray
    error: np.ndarray  # a bound of the error of each key; 0 if it is exact
    spare: np.ndarray
    node: np.ndarray
    id: np.ndarray  # the caller's ids
    place: np.ndarray  # positions in these arrays, the best candidate first
    word: np.ndarray  # an integer to sort by
    num_better: np.ndarray  # how many candidates are better
    counts: np.ndarray  # how often each byte occurs
    num_read: np.ndarray  # the number of entries that refining a row has read, [1]
    features: np.ndarray  # the description of the row by sides, if `num_read` is not 0; else zeros


def new_candidates(k: int, num_sides: int, num_cols: int) -> Candidates:
    """Returns room for the candidates of a row with `k` places, and of a block of nodes."""
    room = (2 * k + 32 + BLOCK + 7) & -8  # a multiple of eight, for :func:`sort_packed`
    arrays = *np.empty((3, room)), *np.empty((5, room), np.int64)
    counts, num_read = np.empty(256, np.int64), np.zeros(1, np.int64)
    features = np.zeros((num_sides, num_cols))
    return Candidates(*arrays, counts, num_read, features)  # type: ignore[call-arg]


@inlined
def norm2_of(j, norms):
    """Returns the squared norm of a node.

    In a large graph, it is the norm of the block of the node if the block has one norm. The norms
    of blocks stay in the cache.
    """
    if norms.norm2.size <= CACHED:
        return norms.norm2[j]
    floor = norms.levels[norms.level[j // BLOCK]]
    return floor if floor == norms.ceiling[j // BLOCK] else norms.norm2[j]


@inlined
def key_of(i, j, dot, norms, measure):
    """Returns the key of a candidate."""
    norm2_i, norm2_j = norms.norm2[i], norm2_of(j, norms)
    if measure != COSINE and norms.scale.size > 0:
        # A ratio that is larger gives a similarity of zero in any case.
        ratio = np.float64(norms.scale[j]) / np.float64(norms.scale[i])
        ratio = min(max(ratio, LEAST_RATIO), 1 / LEAST_RATIO)
        norm2_i, norm2_j = norm2_i * ratio, norm2_j / ratio
    return order_key(dot, norm2_i, norm2_j, measure)


@inlined
def drop(size, k, most, norms, candidates):
    """Drops candidates that at least `k` others exceed, so that about `most` stay.

    Returns the number of candidates, the key that others must reach, and the largest id that a
    candidate with this key may have.
    """
    key, error, node, value = candidates.key, candidates.error, candidates.node, candidates.spare
    for t in range(size):
        value[t] = key[t] - error[t]
    bound, last_id = bound_of(value, size, k, most), NO_ID
    for t in range(size):
        value[t] = key[t] + error[t]
    size = keep(bound, size, candidates)
    if size > most:
        # Many keys are equal, or about equal. If they are exact, the smallest ids stay.
        least, largest_error = np.inf, 0.0
        for t in range(size):
            least, largest_error = min(least, key[t]), max(largest_error, error[t])
        if largest_error == 0:
            for t in range(size):
                value[t] = -np.float64(norms.id[node[t]]) if key[t] == least else 1.0
            smallest = bound_of(value, size, k, most)
            bound, last_id = least, np.int64(-smallest)
            size = keep(smallest, size, candidates)
    return size, bound, last_id


@inlined
def bound_of(value, size, k, most):
    """Returns a number that at least `k` values reach.

    A few halvings find one that at most `most` values reach, unless more are about equal.
    """
    low, high = np.inf, -np.inf
    for t in range(size):
        low, high = min(low, value[t]), max(high, value[t])
    for _ in range(HALVINGS):
        middle = np.sqrt(low) * np.sqrt(high) if low > 0 else (low + high) / 2
        reached = 0
        for t in range(size):
            reached += np.int64(value[t] >= middle)
        if reached < k:
            high = middle
        else:
            low = middle
            if reached <= most:
                break
    return low


@inlined
def keep(least, size, candidates):
    """Keeps candidates whose values, in `spare`, are `least` or larger; returns their number."""
    key, error, node = candidates.key, candidates.error, candidates.node
    kept = 0
    for t in range(size):
        key[kept], error[kept], node[kept] = key[t], error[t], node[t]
        kept += np.int64(candidates.spare[t] >= least)
    return kept


@helper
def make_room(i, size, graph, options, candidates):
    """Drops candidates that are not among the `k` best, and raises the bound.

    Returns what :func:`drop` returns.
    """
    most = (candidates.key.size - BLOCK + options.k) // 2
    size, bound, last_id = drop(size, options.k, most, graph.norms, candidates)
    if size <= most:
        return size, bound, last_id
    rank(i, size, graph, options, candidates)
    last = candidates.place[options.k - 1]
    bound, error = candidates.key[last] - candidates.error[last], candidates.error[last]
    last_id = NO_ID if error > 0 else np.int64(candidates.id[last])
    for t in range(size):  # a value is minus the position, so `keep` drops all after the `k`-th
        candidates.spare[candidates.place[t]] = -np.float64(t)
    return keep(1.0 - options.k, size, candidates), bound, last_id


@helper
def rank(i, size, graph, options, candidates):
    """Writes the places of candidates by key, the largest first, and of equal keys by id.

    Keys that are too close are refined.
    """
    key, error, place = candidates.key, candidates.error, candidates.place
    for t in range(size):
        candidates.id[t] = graph.norms.id[candidates.node[t]]
    doubtful = True
    while doubtful:
        if graph.norms.id.itemsize == 8 or not sort_packed(size, candidates):
            sort_exactly(size, candidates)
        doubtful = False
        # Each of the first `k` is compared with the next, then the last of them with all others.
        for t in range(0 if graph.exact else size - 1):
            a, b = place[min(t, options.k - 1)], place[t + 1]
            errors = error[a] + error[b]
            if errors > 0 and key[a] - key[b] <= errors:
                refine(i, a, graph, options, candidates)
                refine(i, b, graph, options, candidates)
                doubtful = True


@inlined
def sort_packed(size, candidates):
    """Sorts by one integer each: 2^32 times the bits of the key in float32, minus the id.

    Returns whether the order is right. It may be wrong where different keys are equal in float32.
    """
    key, word, num_better = candidates.key, candidates.word, candidates.num_better
    # Vector code takes eight at a time. A rest taken one by one would take as long as all others.
    padded = (size + 7) & -8
    for t in range(padded):
        bits = np.int64(np.float32(key[t]).view(np.int32))
        bits ^= (bits >> 31) & 0x7FFFFFFF  # without this, negative keys would be in reverse order
        word[t], num_better[t] = (bits << 32) - candidates.id[t], 0
    if size > COUNTED:
        for t in range(size):
            word[t], candidates.place[t] = ~word[t], t
        sort_by_word(size, candidates)
    else:
        for t in range(size, padded):
            word[t] = np.iinfo(np.int64).min
        for first in range(0, padded, 8):
            for t in range(padded):
                count = num_better[t]
                for u in range(8):
                    count += np.int64(word[first + u] > word[t])
                num_better[t] = count
        for t in range(size):
            candidates.place[num_better[t]] = t
    before, num_wrong = np.inf, 0
    for t in range(size):
        after = key[candidates.place[t]]
        num_wrong += np.int64(before < after)
        before = after
    return num_wrong == 0


@helper
def sort_exactly(size, candidates):
    """Sorts by id, then by key, by integers that descend where the key ascends."""
    word = candidates.word
    for t in range(size):
        word[t], candidates.place[t] = candidates.id[t], t
    sort_by_word(size, candidates)
    for t in range(size):
        bits = np.float64(candidates.key[t]).view(np.int64)
        word[t] = ~bits if bits >= 0 else bits & NO_ID
    sort_by_word(size, candidates)


@helper
def sort_by_word(size, candidates):
    """Sorts places by the words, ascending, and keeps the order of equal ones.

    It sorts by each byte. NumPy's sort would allocate memory.
    """
    word, place, moved = candidates.word, candidates.place, candidates.num_better
    counts, varying = candidates.counts, np.int64(0)
    for t in range(size):
        word[t] ^= np.iinfo(np.int64).min  # then unsigned integers have the order of signed ones
        varying |= word[t] ^ word[0]
    for shift in range(0, 64, 8):
        if (varying >> shift) & 255 == 0:
            continue
        for byte in range(256):
            counts[byte] = 0
        for t in range(size):
            counts[(word[t] >> shift) & 255] += 1
        total = 0
        for byte in range(256):
            counts[byte], total = total, total + counts[byte]
        for t in range(size):
            byte = (word[place[t]] >> shift) & 255
            moved[counts[byte]] = place[t]
            counts[byte] += 1
        for t in range(size):
            place[t] = moved[t]


@helper
def refine(i, t, graph, options, candidates):
    """Computes the exact key of a candidate. After the row, `topk_rows` clears `features`."""
    if candidates.error[t] > 0:
        if candidates.num_read[0] == 0:
            write_features(i, 1.0, graph, candidates)
        dot = exact_dot(candidates.node[t], graph, candidates)
        candidates.error[t] = 0.0
        candidates.key[t] = key_of(i, candidates.node[t], dot, graph.norms, options.measure)


@helper
def write_features(i, factor, graph, candidates):
    """Writes the description of node `i` to `features`, times `factor`; 0 clears `features`."""
    if graph.norms.scale.size > 0:
        factor *= graph.norms.scale[i]
    for side in range(graph.num_sides):
        rows = graph.sides[side].rows
        for e in range(rows.ptr[i], rows.ptr[i + 1]):
            candidates.features[side, rows.col[e]] = rows.value[e] * factor
        candidates.num_read[0] += rows.ptr[i + 1] - rows.ptr[i]


@helper
def exact_dot(j, graph, candidates):
    """Returns a dot product, rounded once. The absolute value of the cosine is not tiny."""
    high, low, scale = 0.0, 0.0, graph.norms.scale
    factor = 1.0 if scale.size == 0 else scale[j]
    for side in range(graph.num_sides):
        rows = graph.sides[side].rows
        for e in range(rows.ptr[j], rows.ptr[j + 1]):
            term = candidates.features[side, rows.col[e]] * (rows.value[e] * factor)
            high, low = add(high, low, term)
        candidates.num_read[0] += rows.ptr[j + 1] - rows.ptr[j]
    return high + low


@inlined
def write_places(i, place, size, graph, options, candidates, values, index):
    """Writes sorted candidates, then padding, to a row."""
    norm2_i, at = graph.norms.norm2[i], 0
    for position in range(min(size, options.k)):
        t = candidates.place[position]
        value = similarity_of_key(candidates.key[t], norm2_i, options.measure)
        if candidates.error[t] > 0:
            margin = candidates.error[t] / candidates.key[t] * value
            low, high = value - margin, value + margin
            if values.dtype.type(low) != values.dtype.type(high):
                refine(i, t, graph, options, candidates)
                value = similarity_of_key(candidates.key[t], norm2_i, options.measure)
        if abs(value) > options.smallest:
            values[place, at], index[place, at] = value, candidates.id[t]
            at += 1
    for t in range(at, options.k):
        values[place, t], index[place, t] = 0, -1
