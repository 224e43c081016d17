"""Kernels: short rows, which touch few nodes, in graphs without negative weights.

A short row needs no bound, and its dot products are exact: integers, or sums of two doubles that
are rounded once. Eight rows are sorted and written at a time: the candidates of eight lanes are
side by side, so that vector code computes similarities and counts better candidates.

Where norms are small integers, candidates are compared by one integer, a word: the first bits of
the key, then the inverted id. Let `n` be the largest squared norm. Keys are fractions of integers.
A dot product is at most `n`, and a denominator at most `2 n`, so the ratio of two different keys of
a row is at least `1 + 1 / (2 n^3)`. If ids have `b` bits, a word has the first `52 - b` bits of the
mantissa of the key. So different keys have different first bits if `n^3` is at most `2^(49 - b)`,
though keys are rounded. In other graphs, keys are compared, then ids.
"""

from typing import NamedTuple

import numpy as np

from torch_geometric_simpool.topk.numba.best import key_of
from torch_geometric_simpool.topk.numba.describe import Description
from torch_geometric_simpool.topk.numba.jit import helper, inlined, prefetch
from torch_geometric_simpool.topk.numba.keys import similarity_of_key
from torch_geometric_simpool.topk.numba.sums import (
    leave_out,
    prefetch_row,
    touch_in_two_doubles,
    touch_row,
)

#: The most nodes that a short row touches, a multiple of `UNROLLED`.
SHORT = 40

#: The most products of a row that is tried.
MOST_TRIED = 512

#: The number of products that stands for a row that is written.
WRITTEN = -1

#: The rows that are written at a time. Unsigned, as all indices of hot loops are.
LANES = np.uint64(8)

#: The candidates that each candidate is compared with at a time. 1 and 8 are slower.
UNROLLED = np.uint64(4)


class Lanes(NamedTuple):
    """Candidates of eight rows. Candidate `c` of lane `l` is at place `8 c + l`."""

    key: np.ndarray  # zero where a lane has no candidate; all keys once more
    value: np.ndarray  # the squared norm of the node of the row, then the similarity
    word: np.ndarray  # the id, then the word, and all words once more
    num_better: np.ndarray  # how many candidates of the lane are better
    size: np.ndarray  # the number of candidates of each lane
    place: np.ndarray  # the place of the row of each lane in the result


def new_lanes() -> Lanes:
    """Allocates lanes without candidates."""
    room = (SHORT + 1) * int(LANES)
    return Lanes(
        key=np.zeros(2 * room),
        value=np.ones(room),
        word=np.empty(2 * room, np.int64),
        num_better=np.empty(room, np.int64),
        size=np.empty(LANES, np.int64),
        place=np.empty(LANES, np.int64),
    )


def id_mask_of(graph: Description) -> int:
    """Returns the bits of an id in a word; -1 if candidates are compared by key, then by id."""
    id_mask = 2 ** graph.norms.id.size.bit_length() - 1
    return id_mask if graph.exact and graph.largest**3 <= 2.0**49 / (id_mask + 1) else -1


@helper
def write_short_rows(start, end, graph, options, rows, values, index, scratch):
    """Writes the short rows from `start` to `end` to their places, and marks them as `WRITTEN`.

    The number of touched nodes is known after the products are added. Rows are tried that have at
    most `limit` products. A row that is tried, and is not short, halves the limit. A row that is
    not tried raises it.
    """
    lanes, num_lanes, limit, work = scratch.lanes, 0, MOST_TRIED, rows.work
    if graph.signed:
        return
    for t in range(start, end):
        i = np.int64(rows.numbers[t])
        if work[t] <= limit:
            prefetch_row(rows.places[t], options.k, values)
            prefetch_row(rows.places[t], options.k, index)
            if graph.exact:
                num_touched = np.uint64(touch_row(t, 0, False, rows.features, 1.0, graph, scratch))
            else:
                num_touched = touch_in_two_doubles(i, t, rows.features, graph, scratch)
            if num_touched > SHORT:
                for u in range(num_touched):
                    scratch.dots[scratch.touched[u]] = 0
                limit = max(limit // 2, SHORT)
                continue
            lanes.place[num_lanes] = rows.places[t]
            fill_lane(i, num_lanes, num_touched, graph, options, scratch)
            work[t] = WRITTEN
            num_lanes += 1
            if num_lanes == LANES:
                write_lanes(num_lanes, options, lanes, values, index)
                num_lanes = 0
        else:
            limit = min(limit + 1, MOST_TRIED)
    write_lanes(num_lanes, options, lanes, values, index)


@inlined
def fill_lane(i, lane, num_touched, graph, options, scratch):
    """Writes the touched nodes of a row to a lane, and sets all dot products to zero."""
    dots, touched, lanes, size = scratch.dots, scratch.touched, scratch.lanes, np.uint64(0)
    for u in range(num_touched):
        prefetch(graph.norms.id, np.int64(touched[u]))
    leave_out(i, options.loop, graph.neighbors, dots)
    for u in range(num_touched):
        j, dot = np.int64(touched[u]), np.float64(dots[touched[u]])
        at = size * LANES + np.uint64(lane)
        lanes.key[at] = key_of(i, j, dot, graph.norms, options.measure)
        lanes.value[at], lanes.word[at], dots[j] = graph.norms.norm2[i], graph.norms.id[j], 0
        size += np.uint64(dot != 0)
    # The last node may be none of the candidates. Without features, it has the key 0 / 0.
    lanes.key[size * LANES + np.uint64(lane)] = 0.0
    lanes.size[lane] = size


@helper
def write_lanes(num_lanes, options, lanes, values, index):
    """Sorts and writes the rows of the first `num_lanes` lanes, and empties all lanes."""
    key, value, word, num_better = lanes.key, lanes.value, lanes.word, lanes.num_better
    most, mask, k = np.uint64(0), options.id_mask, np.uint64(options.k)
    for lane in range(num_lanes):
        most = max(most, np.uint64(lanes.size[lane]))
    size = (most + UNROLLED - np.uint64(1)) // UNROLLED * UNROLLED * LANES
    for t in range(size):
        bits = np.float64(key[t]).view(np.int64)
        word[t] = word[t + size] = (bits & ~mask) | (~word[t] & mask)
        value[t], num_better[t] = similarity_of_key(key[t], value[t], options.measure), 0
    # In each round, each candidate is compared with the next four of its lane. The last of all is
    # the candidate itself, which is not better.
    if mask >= 0:
        for first in range(LANES, size, UNROLLED * LANES):
            for t in range(size):
                count = num_better[t]
                for other in range(t + first, t + first + UNROLLED * LANES, LANES):
                    count += np.int64(word[other] > word[t])
                num_better[t] = count
    else:
        for t in range(size):
            key[t + size] = key[t]
        for first in range(LANES, size, UNROLLED * LANES):
            for t in range(size):
                count = num_better[t]
                for other in range(t + first, t + first + UNROLLED * LANES, LANES):
                    is_tie = (key[other] == key[t]) & (word[other] > word[t])
                    count += np.int64((key[other] > key[t]) | is_tie)
                num_better[t] = count
    for lane in range(num_lanes):
        place, num_candidates = np.uint64(lanes.place[lane]), np.uint64(lanes.size[lane])
        for t in range(np.uint64(lane), num_candidates * LANES, LANES):
            at = np.uint64(num_better[t])
            if at < k:
                values[place, at], index[place, at] = value[t], ~word[t] & mask
        num_positive = lanes.size[lane]
        if mask < 0:  # other similarities are zero in the type of the result
            for t in range(np.uint64(lane), num_candidates * LANES, LANES):
                num_positive -= np.int64(value[t] <= options.smallest)
        for at in range(np.uint64(num_positive), k):
            values[place, at], index[place, at] = 0, -1
    for t in range(size if mask >= 0 else 2 * size):
        key[t] = 0.0
