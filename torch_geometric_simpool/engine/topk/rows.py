"""The kernels of the top k itself, for blocks of rows.

They share what is below one row: the key that orders candidates, a bounded heap of
the best, and accumulators. `ptr` and `col` name lists of ids, as in `csr.py`.

A candidate is ordered by its key, descending, then by its id in the caller's
numbering, ascending. The unweighted kernel works in numbers given by `norm2`, then
by id: among candidates with equal counts the order is that of these numbers, so most
of a row is sorted as small integers, without a look at a norm.
"""

import math

import numpy as np

from torch_geometric_simpool.engine.topk.compiled import kernel, prefetch

#: Rows with up to this many products are gathered in a buffer and counted there; the tables
#: for it fit the second-level cache. Longer ones are counted in an array over all nodes.
BUFFER = 1 << 14

#: The bytes of those tables.
TABLES = 56 * BUFFER

_BINS = 128
_RANKED = 96  # up to so many ids are sorted by counting the smaller ones of each


# Keys.


@kernel
def gcd(a, b):
    """The greatest common divisor."""
    while b != 0:
        a, b = b, a % b
    return a


@kernel
def odd_part(value):
    """An odd integer and a power of two whose product is `value`, a positive double."""
    mantissa, exponent = math.frexp(value)
    whole = np.int64(mantissa * 9007199254740992.0)
    exponent -= 53
    while whole & 1 == 0:
        whole >>= 1
        exponent += 1
    return whole, exponent


@kernel
def order_key(dot, norm2_i, norm2_j, jaccard, integral):
    """What orders the candidates of a row as their similarity does, without a root.

    Of integers (up to a power of two) the same numbers as in the torch backend, to the
    last bit: where the square would be rounded, the fraction is taken in its lowest terms.
    """
    if jaccard:
        return dot / (norm2_i + norm2_j - dot)
    size = abs(dot)
    key = dot * size / norm2_j
    if not integral:
        return key
    # Whether the odd part of `dot` has 27 to 50 bits: 3 to 26 zeros end the mantissa.
    bits = np.float64(dot).view(np.int64)
    if bits & 7 != 0 or bits & ((1 << 27) - 1) == 0:
        return key
    a, exponent_i = odd_part(size)
    b, exponent_j = odd_part(norm2_j)
    common = gcd(a, b)
    a //= common
    b //= common  # dot^2 / norm2 = common * a^2 / b
    left = gcd(common, b)
    reduced = np.float64(common // left) * np.float64(a) * np.float64(a) / np.float64(b // left)
    reduced = math.ldexp(reduced, 2 * exponent_i - exponent_j)
    return reduced if dot > 0 else -reduced


@kernel
def similarity_of_key(key, norm2_i, jaccard):
    """The similarity of a candidate: a monotone function of its key."""
    if jaccard:
        return key
    root = min(math.sqrt(abs(key) / norm2_i), 1.0)
    return root if key > 0 else -root


# The best k.


@kernel
def is_worse(key, j, other_key, other_j):
    """Whether a candidate comes after another one."""
    return key < other_key or (key == other_key and j > other_j)


@kernel
def sift_down(keys, ids, size, key, j):
    """Puts a candidate in the place of the root of a heap whose root is its worst."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and is_worse(keys[child + 1], ids[child + 1], keys[child], ids[child]):
            child += 1
        if not is_worse(keys[child], ids[child], key, j):
            break
        keys[at] = keys[child]
        ids[at] = ids[child]
        at = child
    keys[at] = key
    ids[at] = j


@kernel
def push(keys, ids, size, k, key, j):
    """Offers a candidate to the heap of at most `k`; returns its new size."""
    if size == k:
        if is_worse(keys[0], ids[0], key, j):
            sift_down(keys, ids, size, key, j)
        return size
    at = size
    while at > 0:
        parent = (at - 1) // 2
        if not is_worse(key, j, keys[parent], ids[parent]):
            break
        keys[at] = keys[parent]
        ids[at] = ids[parent]
        at = parent
    keys[at] = key
    ids[at] = j
    return size + 1


@kernel
def sort_heap(keys, ids, size):
    """Turns the heap into a list, the best first."""
    while size > 1:
        size -= 1
        key = keys[size]
        j = ids[size]
        keys[size] = keys[0]
        ids[size] = ids[0]
        sift_down(keys, ids, size, key, j)


@kernel
def insert(keys, ids, size, k, key, j):
    """Offers a candidate to a list of at most `k`, the best first; returns its new size."""
    if size == k:
        if not is_worse(keys[k - 1], ids[k - 1], key, j):
            return size
        at = k - 1
    else:
        at = size
        size += 1
    while at > 0 and is_worse(keys[at - 1], ids[at - 1], key, j):
        keys[at] = keys[at - 1]
        ids[at] = ids[at - 1]
        at -= 1
    keys[at] = key
    ids[at] = j
    return size


@kernel
def smallest(ids, size, k, spare, bins):
    """Brings the `k` smallest of distinct ids to the front, ascending; returns how many."""
    while size > k + 16:
        low = ids[0]
        high = ids[0]
        for t in range(size):
            low = min(low, ids[t])
            high = max(high, ids[t])
        shift = 0
        while (high - low) >> shift >= _BINS:
            shift += 1
        for b in range(_BINS):
            bins[b] = 0
        for t in range(size):
            bins[(ids[t] - low) >> shift] += 1
        within = 0
        b = 0
        while within < k:
            within += bins[b]
            b += 1
        if within == size:
            break
        bound = np.int64(low) + (np.int64(b) << shift)
        kept = 0
        for t in range(size):
            j = ids[t]
            ids[kept] = j
            kept += np.int64(j < bound)
        size = kept
    if size > _RANKED:
        ids[:size].sort()
        return min(size, k)
    for t in range(size):
        spare[t] = ids[t]
    for t in range(size):
        j = spare[t]
        place = 0
        for u in range(size):
            place += np.int64(spare[u] < j)
        ids[place] = j
    return min(size, k)


@kernel
def write(values, index, row, keys, ids, size, norm2_i, jaccard, min_similarity):
    """Writes a row of the result: similarities at least as large as asked for, then padding."""
    k = values.shape[1]
    place = 0
    while place < size:
        value = similarity_of_key(keys[place], norm2_i, jaccard)
        if value < min_similarity:
            break
        values[row, place] = value
        index[row, place] = ids[place]
        place += 1
    while place < k:
        values[row, place] = 0
        index[row, place] = -1
        place += 1


# Hash tables of ids: a power of two of slots, -1 where there is none.


@kernel
def find_slot(j, table, bits):
    """The slot of an id among the first `2^bits`, or the empty one where it belongs."""
    mask = (1 << bits) - 1
    slot = np.int64((np.uint64(j) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits))
    while table[slot] >= 0 and table[slot] != j:
        slot = (slot + 1) & mask
    return slot


# Unweighted graphs: counts, and no values.


@kernel
def popcount(word):
    """The number of bits that are set."""
    one = np.uint64(1)
    two = np.uint64(2)
    four = np.uint64(4)
    word = word - ((word >> one) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> two) & np.uint64(0x3333333333333333))
    word = (word + (word >> four)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def count_repeated(multi, size, keys, counts, touched, found, found_count):
    """Counts ids in a hash table that is empty (-1) before and after; returns how many differ."""
    bits = 4
    while (1 << bits) < 2 * size:
        bits += 1
    distinct = 0
    for t in range(size):
        j = multi[t]
        slot = find_slot(j, keys, bits)
        if keys[slot] < 0:
            keys[slot] = j
            counts[slot] = 0
            touched[distinct] = slot
            distinct += 1
        counts[slot] += 1
    for t in range(distinct):
        slot = touched[t]
        found[t] = keys[slot]
        found_count[t] = counts[slot]
        keys[slot] = -1
    return distinct


@kernel
def split_repeated(ids, size, table, single, multi):
    """Splits ids into those that certainly occur once, and the rest; returns the sizes.

    `table` is zero before and after. Ids are counted by their low bits: no branch, no probe.
    """
    bits = 10
    while (1 << bits) < 8 * size and (1 << bits) < table.size:
        bits += 1
    mask = (1 << bits) - 1
    for t in range(size):
        table[ids[t] & mask] += 1
    num_single = 0
    num_multi = 0
    for t in range(size):
        j = ids[t]
        alone = np.int64(table[j & mask] == 1)
        single[num_single] = j
        multi[num_multi] = j
        num_single += alone
        num_multi += 1 - alone
    for t in range(size):
        table[ids[t] & mask] = 0
    return num_single, num_multi


@kernel
def unweighted_rows(
    row_ptr,
    row_col,
    col_ptr,
    col_col,
    sides,
    norm2,
    order,
    max_length,
    hub_length,
    hub_mask,
    hub_ptr,
    hub_side,
    k,
    loop,
    jaccard,
    min_similarity,
    start,
    end,
    values,
    index,
    ids,
    stamp,
    accumulator,
):
    """Rows of a matrix of ones, described by their rows and, with two `sides`, their columns.

    Lists longer than `max_length` are left out. Lists longer than `hub_length` belong to
    hubs, at most 64, which have a bit each in `hub_mask`, in the order of their lengths:
    their part of a count is that of common bits, and candidates that only hubs can name
    are taken from the front of the hubs' lists until none behind can be among the best.
    """
    keys = np.empty(k, np.float64)
    best = np.empty(k, np.int64)
    list_keys = np.empty(k, np.float64)
    list_best = np.empty(k, np.int64)
    bins = np.empty(_BINS, np.int32)
    spare = np.empty(_RANKED, row_col.dtype)
    table = np.zeros(8 * BUFFER, np.uint16)
    hash_keys = np.full(2 * BUFFER, -1, row_col.dtype)
    hash_counts = np.empty(2 * BUFFER, np.int32)
    touched = np.empty(BUFFER, np.int32)
    # Long enough for a row: three arrays of ids, and one of counts.
    gathered, single, found, found_count = ids[0], ids[1], ids[2], ids[3]

    for i in range(start, end):
        # What the rows to come will read lies anywhere in memory: it is fetched meanwhile.
        for side in range(sides):
            ptr, col = (row_ptr, row_col) if side == 0 else (col_ptr, col_col)
            other_ptr, other_col = (col_ptr, col_col) if side == 0 else (row_ptr, row_col)
            if i + 1 < end:
                for e in range(ptr[i + 1], ptr[i + 2]):
                    m = col[e]
                    prefetch(other_col, other_ptr[m])
                    prefetch(other_col, other_ptr[m + 1] - 1)
            if i + 2 < end:
                for e in range(ptr[i + 2], ptr[i + 3]):
                    prefetch(other_ptr, np.int64(col[e]))
        hubs = hub_mask[i] if hub_mask.size > 0 else np.uint64(0)
        own = 0
        total = np.int64(0)
        for side in range(sides):
            ptr, col = (row_ptr, row_col) if side == 0 else (col_ptr, col_col)
            other_ptr = col_ptr if side == 0 else row_ptr
            for e in range(ptr[i], ptr[i + 1]):
                length = other_ptr[col[e] + 1] - other_ptr[col[e]]
                if length <= max_length:
                    own += 1
                    if length <= hub_length:
                        total += length

        num_single = 0
        num_found = 0
        size = 0
        if total <= BUFFER:
            for side in range(sides):
                ptr, col = (row_ptr, row_col) if side == 0 else (col_ptr, col_col)
                other_ptr, other_col = (col_ptr, col_col) if side == 0 else (row_ptr, row_col)
                for e in range(ptr[i], ptr[i + 1]):
                    m = col[e]
                    first = other_ptr[m]
                    last = other_ptr[m + 1]
                    if last - first <= hub_length:
                        for t in range(first, last):
                            j = other_col[t]
                            gathered[size] = j
                            size += np.int64(j != i)
            num_single, num_found = split_repeated(gathered, size, table, single, found)
            for t in range(num_found):
                gathered[t] = found[t]
            num_found = count_repeated(
                gathered, num_found, hash_keys, hash_counts, touched, found, found_count
            )
        else:
            for side in range(sides):
                ptr, col = (row_ptr, row_col) if side == 0 else (col_ptr, col_col)
                other_ptr, other_col = (col_ptr, col_col) if side == 0 else (row_ptr, row_col)
                for e in range(ptr[i], ptr[i + 1]):
                    m = col[e]
                    first = other_ptr[m]
                    last = other_ptr[m + 1]
                    if last - first <= hub_length:
                        for t in range(first, last):
                            j = other_col[t]
                            found[num_found] = j
                            num_found += np.int64(accumulator[j] == 0)
                            accumulator[j] += 1
            for t in range(num_found):
                j = found[t]
                found_count[t] = accumulator[j]
                accumulator[j] = 0

        size = 0
        if loop and own > 0:
            key = order_key(np.float64(own), norm2[i], norm2[i], jaccard, True)
            size = push(keys, best, size, k, key, order[i])
        for t in range(num_found):
            j = found[t]
            if j == i:
                continue
            common = np.int64(found_count[t])
            if hubs != 0:
                stamp[j] = i
                common += popcount(hubs & hub_mask[j])
            if common == 1:
                single[num_single] = j
                num_single += 1
            else:
                key = order_key(np.float64(common), norm2[i], norm2[j], jaccard, True)
                if size < k or key >= keys[0]:
                    size = push(keys, best, size, k, key, order[j])
        if hubs != 0:
            kept = 0
            for t in range(num_single):
                j = single[t]
                stamp[j] = i
                common = 1 + popcount(hubs & hub_mask[j])
                if common == 1:
                    single[kept] = j
                    kept += 1
                else:
                    key = order_key(np.float64(common), norm2[i], norm2[j], jaccard, True)
                    if size < k or key >= keys[0]:
                        size = push(keys, best, size, k, key, order[j])
            num_single = kept

        # The two sorted lists become one.
        sort_heap(keys, best, size)
        num_single = smallest(single, num_single, k, spare, bins)
        merged = 0
        taken = 0
        for t in range(size):
            while taken < num_single and merged < k:
                j = single[taken]
                key = order_key(1.0, norm2[i], norm2[j], jaccard, True)
                if not is_worse(keys[t], best[t], key, np.int64(order[j])):
                    break
                list_keys[merged] = key
                list_best[merged] = order[j]
                merged += 1
                taken += 1
            if merged == k:
                break
            list_keys[merged] = keys[t]
            list_best[merged] = best[t]
            merged += 1
        for t in range(taken, min(taken + k - merged, num_single)):
            j = single[t]
            list_keys[merged] = order_key(1.0, norm2[i], norm2[j], jaccard, True)
            list_best[merged] = order[j]
            merged += 1

        # What only hubs have in common with this row.
        earlier = np.uint64(0)
        for b in range(hub_side.size):
            bit = np.uint64(1) << np.uint64(b)
            if hubs < bit:
                break
            if hubs & bit == 0:
                continue
            most = np.float64(popcount(hubs & ~earlier))
            lists = col_col if hub_side[b] == 0 else row_col
            for t in range(hub_ptr[b, 0], hub_ptr[b, 1]):
                j = lists[t]
                if merged == k:
                    key = order_key(most, norm2[i], norm2[j], jaccard, True)
                    if not is_worse(list_keys[k - 1], list_best[k - 1], key, np.int64(order[j])):
                        break
                if j == i or stamp[j] == i or hub_mask[j] & earlier != 0:
                    continue
                common = popcount(hubs & hub_mask[j])
                key = order_key(np.float64(common), norm2[i], norm2[j], jaccard, True)
                merged = insert(list_keys, list_best, merged, k, key, np.int64(order[j]))
            earlier |= bit

        write(
            values,
            index,
            order[i],
            list_keys,
            list_best,
            merged,
            norm2[i],
            jaccard,
            min_similarity,
        )


@kernel
def hub_visits(hub_mask, hub_length, k, visits, start, end):
    """Adds to `visits[i]` what scanning the lists of its hubs costs at most.

    The candidates of the longest list have one hub in common: of those, the first `k`
    that are not yet known end the scan.
    """
    for i in range(start, end):
        hubs = hub_mask[i]
        last = np.int64(0)
        for b in range(hub_length.size):
            if hubs & (np.uint64(1) << np.uint64(b)) != 0:
                visits[i] += last
                last = hub_length[b]
        visits[i] += min(last, visits[i] + k)


# Weighted graphs.


@kernel
def add(total, low, term, exact):
    """A sum in one double if it is exact, in two otherwise: as good as in any other order."""
    if exact:
        return total + term, low
    new = total + term
    part = new - total
    return new, low + ((total - (new - part)) + (term - part))


@kernel
def squared_norms(ptr, value, scale, other_ptr, other_value, sides, exact, norm2):
    """The squared norm of every description."""
    for i in range(ptr.size - 1):
        total = 0.0
        low = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            scaled = value[e] * scale[i]
            total, low = add(total, low, scaled * scaled, exact)
        if sides == 2:
            for e in range(other_ptr[i], other_ptr[i + 1]):
                scaled = other_value[e] * scale[i]
                total, low = add(total, low, scaled * scaled, exact)
        norm2[i] = total + low


@kernel
def weighted_rows(
    row_ptr,
    row_col,
    row_value,
    row_scaled,
    col_ptr,
    col_col,
    col_value,
    col_scaled,
    sides,
    scale,
    integral,
    norm2,
    exact,
    max_length,
    k,
    loop,
    jaccard,
    min_similarity,
    start,
    end,
    values,
    index,
    found,
    stamp,
    accumulator,
    low,
):
    """Rows of a matrix with values; `scaled` are the values times the scale of their node.

    `integral` says of each node whether its description holds integers, apart from a power
    of two that is common to all.
    """
    keys = np.empty(k, np.float64)
    best = np.empty(k, np.int64)
    hashed = norm2.size > 2 * BUFFER
    hash_ids = np.full(2 * BUFFER, -1, row_col.dtype)
    for i in range(start, end):
        for side in range(sides):
            ptr, col = (row_ptr, row_col) if side == 0 else (col_ptr, col_col)
            other_ptr, other_col, other_value = (
                (col_ptr, col_col, col_scaled) if side == 0 else (row_ptr, row_col, row_scaled)
            )
            if i + 1 < end:
                for e in range(ptr[i + 1], ptr[i + 2]):
                    first = other_ptr[col[e]]
                    last = other_ptr[col[e] + 1] - 1
                    prefetch(other_col, first)
                    prefetch(other_col, last)
                    prefetch(other_value, first)
                    prefetch(other_value, last)
            if i + 2 < end:
                for e in range(ptr[i + 2], ptr[i + 3]):
                    prefetch(other_ptr, np.int64(col[e]))
        total = np.int64(0)
        for side in range(sides):
            ptr, col = (row_ptr, row_col) if side == 0 else (col_ptr, col_col)
            other_ptr = col_ptr if side == 0 else row_ptr
            for e in range(ptr[i], ptr[i + 1]):
                length = other_ptr[col[e] + 1] - other_ptr[col[e]]
                if length <= max_length:
                    total += length
        bits = 4
        if hashed and total <= BUFFER:
            while (1 << bits) < 2 * total:
                bits += 1
        else:
            bits = 0

        num_found = 0
        for side in range(sides):
            ptr, col, value = (
                (row_ptr, row_col, row_value) if side == 0 else (col_ptr, col_col, col_value)
            )
            other_ptr, other_col, other_value = (
                (col_ptr, col_col, col_scaled) if side == 0 else (row_ptr, row_col, row_scaled)
            )
            for e in range(ptr[i], ptr[i + 1]):
                m = col[e]
                first = other_ptr[m]
                last = other_ptr[m + 1]
                if last - first > max_length:
                    continue
                mine = value[e] * scale[i]
                for t in range(first, last):
                    j = other_col[t]
                    if bits > 0:
                        slot = find_slot(j, hash_ids, bits)
                        new = hash_ids[slot] < 0
                        hash_ids[slot] = j
                    else:
                        slot = np.int64(j)
                        new = stamp[j] != i
                        stamp[j] = i
                    if new:
                        found[num_found] = slot
                        num_found += 1
                        accumulator[slot] = 0.0
                        low[slot] = 0.0
                    dot, rest = add(accumulator[slot], low[slot], mine * other_value[t], exact)
                    accumulator[slot] = dot
                    low[slot] = rest

        size = 0
        for t in range(num_found):
            slot = np.int64(found[t])
            j = slot
            if bits > 0:
                j = np.int64(hash_ids[slot])
                hash_ids[slot] = -1
            dot = accumulator[slot] + low[slot]
            if dot == 0 or (j == i and not loop):
                continue
            key = order_key(dot, norm2[i], norm2[j], jaccard, integral[i])
            if size < k or key >= keys[0]:
                size = push(keys, best, size, k, key, j)
        sort_heap(keys, best, size)
        write(values, index, i, keys, best, size, norm2[i], jaccard, min_similarity)


# Powers.


@kernel
def multiply_count(ptr, col, other_ptr, other_col, start, end, counts, stamp):
    """The number of entries in rows of a product."""
    for i in range(start, end):
        entries = np.int64(0)
        for e in range(ptr[i], ptr[i + 1]):
            m = col[e]
            for t in range(other_ptr[m], other_ptr[m + 1]):
                j = other_col[t]
                if stamp[j] != i:
                    stamp[j] = i
                    entries += 1
        counts[i] = entries


@kernel
def multiply_fill(
    ptr,
    col,
    value,
    other_ptr,
    other_col,
    other_value,
    exact,
    start,
    end,
    out_ptr,
    out_col,
    out_value,
    stamp,
    accumulator,
    low,
):
    """Rows of a product, in the order they are met."""
    for i in range(start, end):
        at = out_ptr[i]
        for e in range(ptr[i], ptr[i + 1]):
            m = col[e]
            for t in range(other_ptr[m], other_ptr[m + 1]):
                j = other_col[t]
                if stamp[j] != i:
                    stamp[j] = i
                    out_col[at] = j
                    at += 1
                    accumulator[j] = 0.0
                    low[j] = 0.0
                total, rest = add(accumulator[j], low[j], value[e] * other_value[t], exact)
                accumulator[j] = total
                low[j] = rest
        for t in range(out_ptr[i], at):
            j = out_col[t]
            out_value[t] = accumulator[j] + low[j]
