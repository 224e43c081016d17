"""Sparse matrices by rows in NumPy arrays: building, turning over, comparing, renumbering.

A matrix without values (`value` of size zero) holds ones. All sums here are exact or
taken in an order that depends on the summands alone.
"""

import numpy as np

from torch_geometric_simpool.engine.topk.compiled import kernel


@kernel
def count(index, size):
    """How often each id occurs, `[size]`, and whether the ids ascend."""
    counts = np.zeros(size, np.int64)
    ascending = True
    last = np.int64(0)
    for e in range(index.size):
        i = index[e]
        counts[i] += 1
        if i < last:
            ascending = False
        last = i
    return counts, ascending


@kernel
def offsets(counts, extra):
    """Where the list of each id begins, `[size + 1]`, with room for `extra` more in each."""
    ptr = np.empty(counts.size + 1, np.int64)
    total = np.int64(0)
    for i in range(counts.size):
        ptr[i] = total
        total += counts[i] + extra
    ptr[counts.size] = total
    return ptr


@kernel
def fill(row, col, value, ptr, ascending, diagonal, out_col, out_value):
    """The entries by rows, in the order they come, after `diagonal` where that is not 0."""
    fill_at = ptr[:-1].copy()
    weighted = out_value.size > 0
    if diagonal != 0:
        for i in range(fill_at.size):
            e = fill_at[i]
            out_col[e] = i
            if weighted:
                out_value[e] = diagonal
            fill_at[i] = e + 1
    elif ascending:
        for e in range(row.size):
            out_col[e] = col[e]
            if weighted:
                out_value[e] = value[e] if value.size > 0 else 1.0
        return
    for e in range(row.size):
        i = row[e]
        at = fill_at[i]
        out_col[at] = col[e]
        if weighted:
            out_value[at] = value[e] if value.size > 0 else 1.0
        fill_at[i] = at + 1


@kernel
def transpose(ptr, col, value, out_ptr, out_col, out_value):
    """The lists of the columns; each ascends."""
    fill_at = out_ptr[:-1].copy()
    weighted = value.size > 0
    for i in range(ptr.size - 1):
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            at = fill_at[j]
            out_col[at] = i
            if weighted:
                out_value[at] = value[e]
            fill_at[j] = at + 1


@kernel
def renumber(ptr, col, order, rank, start, end, out_ptr, out_col):
    """Rows of a matrix of ones in new numbers; each ascends."""
    for new in range(start, end):
        old = order[new]
        first = out_ptr[new]
        size = ptr[old + 1] - ptr[old]
        for t in range(size):
            out_col[first + t] = rank[col[ptr[old] + t]]
        if size > 32:
            out_col[first : first + size].sort()
            continue
        for t in range(first + 1, first + size):
            j = out_col[t]
            at = t
            while at > first and out_col[at - 1] > j:
                out_col[at] = out_col[at - 1]
                at -= 1
            out_col[at] = j


@kernel
def has_duplicates(ptr, col):
    """Whether a row, ascending, names a column twice."""
    for i in range(ptr.size - 1):
        for e in range(ptr[i] + 1, ptr[i + 1]):
            if col[e] == col[e - 1]:
                return True
    return False


@kernel
def merge_duplicates(ptr, col, value):
    """Adds up entries at the same place, in place; returns where the rows begin now.

    The summands are added in ascending order, so that the sum depends on them alone.
    """
    out_ptr = np.empty_like(ptr)
    at = np.int64(0)
    for i in range(ptr.size - 1):
        out_ptr[i] = at
        e = ptr[i]
        while e < ptr[i + 1]:
            end = e + 1
            while end < ptr[i + 1] and col[end] == col[e]:
                end += 1
            if end > e + 1:
                value[e:end].sort()
            total = value[e]
            for d in range(e + 1, end):
                total += value[d]
            col[at] = col[e]
            value[at] = total
            at += 1
            e = end
    out_ptr[ptr.size - 1] = at
    return out_ptr


@kernel
def rank_by(size_of, order, rank):
    """Writes the order of the ids by `size_of`, then by id, and the place of each id in it."""
    largest = np.int64(0)
    for i in range(size_of.size):
        largest = max(largest, size_of[i])
    place = np.zeros(largest + 2, np.int64)
    for i in range(size_of.size):
        place[size_of[i] + 1] += 1
    for s in range(largest + 1):
        place[s + 1] += place[s]
    for i in range(size_of.size):
        at = place[size_of[i]]
        order[at] = i
        rank[i] = at
        place[size_of[i]] = at + 1


@kernel
def is_symmetric(ptr, col, start, end):
    """Whether entries of these rows, ascending and free of duplicates, have their mirror images.

    Looks at entries above the diagonal only, and counts those below it: returns the number
    above less the number below, or None where an image is missing. Together with the other
    rows the differences add up to zero exactly if the matrix is symmetric.
    """
    difference = np.int64(0)
    for i in range(start, end):
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            if j < i:
                difference -= 1
            elif j > i:
                difference += 1
                low = ptr[j]
                high = ptr[j + 1]
                if high - low <= 32:
                    found = False  # no branch to mispredict
                    for t in range(low, high):
                        found |= col[t] == i
                    if not found:
                        return None
                    continue
                while low < high:
                    middle = (low + high) // 2
                    if col[middle] < i:
                        low = middle + 1
                    else:
                        high = middle
                if low == ptr[j + 1] or col[low] != i:
                    return None
    return difference


@kernel
def absolute_sums(ptr, value):
    """The largest sum of absolute values in a row."""
    largest = 0.0
    for i in range(ptr.size - 1):
        total = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            total += abs(value[e])
        largest = max(largest, total)
    return largest


@kernel
def products_of_rows(ptr, col, other_ptr, limit, products, start, end):
    """Adds to `products[i]` the length of every list that row `i` names, up to `limit` long."""
    for i in range(start, end):
        total = np.int64(0)
        for e in range(ptr[i], ptr[i + 1]):
            m = col[e]
            length = other_ptr[m + 1] - other_ptr[m]
            if length <= limit:
                total += length
        products[i] += total
