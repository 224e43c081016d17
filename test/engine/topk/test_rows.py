"""What the kernels of the top k are made of, against plain Python."""

import math
from collections import Counter
from fractions import Fraction
from random import Random

import numpy as np
import pytest
import torch

from torch_geometric_simpool.engine.topk import rows
from torch_geometric_simpool.functional import topk_torch

# ------------------------------------------------------------------ keys


def test_gcd() -> None:
    rng = Random(0)
    for _ in range(200):
        a, b = rng.randrange(1, 2**50), rng.randrange(1, 2 ** rng.randint(1, 50))
        factor = rng.randrange(1, 2**10)
        assert rows.gcd(a * factor, b * factor) == math.gcd(a * factor, b * factor)


@pytest.mark.parametrize("value", [1.0, 3.0, 12.0, 0.1, 2.0**60, 5e-324, 1.5e300, 2.0**53 - 1])
def test_odd_part(value: float) -> None:
    whole, exponent = rows.odd_part(value)
    assert whole % 2 == 1
    assert Fraction(whole) * Fraction(2) ** exponent == Fraction(value)


def key_of_torch(dot: float, norm2: float) -> float:
    one = torch.tensor([dot], dtype=torch.float64), torch.tensor([norm2], dtype=torch.float64)
    nodes = torch.tensor([0])
    key = topk_torch._order_key(one[0], one[1], nodes, nodes, "cosine")
    return topk_torch._reduced_key(key, *one).item()


def fraction(dot: float, norm2: float) -> Fraction:
    return Fraction(dot) * abs(Fraction(dot)) / Fraction(norm2)


def test_keys_are_the_nearest_doubles_where_squares_are_exact() -> None:
    rng = Random(1)
    for _ in range(500):
        dot = float(rng.randrange(1, 2**26)) * rng.choice([1, -1])
        norm2 = float(rng.randrange(1, 2**52))
        expected = float(fraction(dot, norm2))
        assert rows.order_key(dot, 1.0, norm2, False, True) == expected
        assert key_of_torch(dot, norm2) == expected


def test_keys_are_the_nearest_doubles_where_lowest_terms_are_small() -> None:
    """Dot products above 2^26 whose squares would be rounded."""
    rng = Random(2)
    for _ in range(500):
        factor = rng.randrange(2**14 + 1, 2**24, 2)
        dot = float(factor * rng.randrange(2**13 + 1, 2**25, 2))
        norm2 = float(factor**2 * rng.choice([1, 3, 5, 7, 25]))
        if not 2**26 < dot < 2**50 or norm2 >= 2**53:
            continue
        lowest = fraction(dot, norm2)
        if lowest.numerator < 2**53:
            scale = 2.0 ** rng.randint(-30, 30)
            for sign in (1, -1):
                key = rows.order_key(sign * dot * scale, 1.0, norm2, False, True)
                assert key == sign * float(lowest) * scale**2


def test_equal_fractions_have_equal_keys() -> None:
    rng = Random(3)
    beyond = 0
    for _ in range(300):
        a, b = rng.randrange(1, 2**20), rng.randrange(1, 2**12)
        if a * a * b > 2**52:
            continue
        keys = set()
        for factor in (1, 3, 2**5, 1001, 2**16 + 1):
            dot, norm2 = float(a * b * factor), float(b * b * factor**2)
            if norm2 < 2**53 and dot < 2**50:
                keys.add(rows.order_key(dot, 1.0, norm2, False, True))
                beyond += dot >= 2**26
        assert len(keys) == 1
    assert beyond > 50


def test_keys_are_those_of_the_other_backend() -> None:
    """Bit for bit, of any sizes: at the bounds between the ways as well."""
    rng = Random(4)
    odd = [2**26 - 1, 2**26 + 1, 2**27 - 1, 2**27 + 1, 2**50 - 1, 2**50 + 1, 2**53 - 1]
    for number in range(600):
        whole = odd[number % len(odd)] if number < 100 else rng.randrange(2 ** rng.randint(1, 53))
        dot = math.ldexp(max(whole, 1), rng.randint(-40, 20)) * rng.choice([1, -1])
        norm2 = math.ldexp(rng.randrange(1, 2 ** rng.randint(1, 53)), rng.randint(-40, 20))
        key = rows.order_key(dot, 1.0, norm2, False, True)
        assert key == key_of_torch(dot, norm2)
        assert math.isclose(key, float(fraction(dot, norm2)), rel_tol=1e-15)


def test_lowest_terms_are_taken_of_as_many_bits_as_in_the_other_backend() -> None:
    """Numbers with common factors, of 26, 27, 50 and 51 bits: only 27 to 50 are reduced."""
    rng = Random(8)
    seen = set()
    for _ in range(3000):
        bits = rng.choice([26, 27, 50, 51])
        factor = rng.randrange(3, 2**12, 2)
        dot = float(factor * rng.randrange(2 ** (bits - 1) // factor + 1, 2**bits // factor, 1))
        norm2 = float(factor * rng.randrange(1, 2**40))
        key = rows.order_key(dot, 1.0, norm2, False, True)
        assert key == key_of_torch(dot, norm2)
        seen.add((bits, key == dot * dot / norm2))
    assert seen >= {(27, False), (50, False), (51, True)}


def test_keys_of_reals_are_plain_quotients() -> None:
    """They have no lowest terms."""
    rng = Random(5)
    for _ in range(100):
        dot, norm2 = float(rng.randrange(2**26, 2**50)), float(rng.randrange(1, 2**53))
        assert rows.order_key(dot, 1.0, norm2, False, False) == dot * dot / norm2
        assert rows.order_key(-dot, 1.0, norm2, False, False) == -dot * dot / norm2


def test_the_key_of_jaccard_is_the_similarity() -> None:
    assert rows.order_key(2.0, 3.0, 5.0, True, True) == 2 / 6
    assert rows.order_key(-2.0, 3.0, 5.0, True, True) == -0.2
    assert rows.similarity_of_key(2 / 6, 3.0, True) == 2 / 6


def test_similarity_of_key() -> None:
    assert rows.similarity_of_key(2.0, 8.0, False) == 0.5
    assert rows.similarity_of_key(-2.0, 8.0, False) == -0.5
    assert rows.similarity_of_key(9.0, 8.0, False) == 1.0  # a cosine is no more, rounded or not
    assert rows.similarity_of_key(-9.0, 8.0, False) == -1.0


# ------------------------------------------------------------------ the best k


def best_of(pairs: list[tuple[float, int]], k: int) -> list[tuple[float, int]]:
    return sorted(pairs, key=lambda pair: (-pair[0], pair[1]))[:k]


@pytest.mark.parametrize("kinds", [1, 3, 1000])
@pytest.mark.parametrize("k", [1, 2, 3, 7, 16, 100])
def test_heap_and_list_hold_the_best(k: int, kinds: int) -> None:
    """Of many equal keys those with the lowest ids, in whatever order they come."""
    rng = Random(k * kinds)
    for size in (0, 1, k - 1, k, k + 1, 5 * k):
        pairs = [(float(rng.randrange(kinds)), j) for j in rng.sample(range(1000), size)]
        for offer, finish in ((rows.push, rows.sort_heap), (rows.insert, None)):
            keys, ids = np.full(k, np.nan), np.full(k, -7, np.int64)
            held = 0
            for key, j in pairs:
                held = offer(keys, ids, held, k, key, j)
            assert held == min(size, k)
            if finish is not None:
                finish(keys, ids, held)
            assert list(zip(keys[:held], ids[:held])) == best_of(pairs, k)


@pytest.mark.parametrize("k", [1, 2, 16, 50, 500])
def test_smallest(k: int) -> None:
    rng = Random(k)
    spare, bins = np.empty(rows._RANKED, np.int32), np.empty(rows._BINS, np.int32)
    for size in (0, 1, k, k + 1, k + 16, k + 17, 96, 97, 130, 1000, 3000):
        for spread in (1, 10, 100_000):
            base = rng.choice([0, 5, 2**31 - 1 - size * spread])
            drawn = rng.sample(range(base, base + size * spread + 1), size)
            if size > 2:
                drawn[rng.randrange(size)] = 2**31 - 1 if 2**31 - 1 not in drawn else drawn[0]
            drawn = list(dict.fromkeys(drawn))
            ids = np.array(drawn, np.int32)
            count = rows.smallest(ids, ids.size, k, spare, bins)
            assert count == min(k, len(drawn))
            assert ids[:count].tolist() == sorted(drawn)[:k]


def test_write() -> None:
    keys, ids = np.array([4.0, 1.0, 0.25, 9.9]), np.array([7, 3, 5, 9])
    for lowest, count in ((-2.0, 3), (0.25, 3), (0.26, 2), (0.5, 2), (1.0, 1)):
        values, index = np.full((2, 5), 9.0), np.full((2, 5), 9)
        rows.write(values, index, 1, keys, ids, 3, 4.0, False, lowest)
        assert values[1].tolist() == [1.0, 0.5, 0.25][:count] + [0.0] * (5 - count)
        assert index[1].tolist() == [7, 3, 5][:count] + [-1] * (5 - count)
        assert (values[0] == 9).all()


# ------------------------------------------------------------------ counting


def test_popcount() -> None:
    rng = Random(6)
    words = [0, 1, 2**63, 2**64 - 1, 2**32, 2**31, *(rng.randrange(2**64) for _ in range(200))]
    for word in words:
        assert rows.popcount(np.uint64(word)) == bin(word).count("1")


def tables() -> dict[str, np.ndarray]:
    return {
        "table": np.zeros(8 * rows.BUFFER, np.uint16),
        "keys": np.full(2 * rows.BUFFER, -1, np.int32),
        "counts": np.empty(2 * rows.BUFFER, np.int32),
        "touched": np.empty(rows.BUFFER, np.int32),
    }


@pytest.mark.parametrize("kinds", [1, 10, 3000, 10**9])
def test_split_and_count(kinds: int) -> None:
    """Up to a full buffer; and the tables are as clean afterwards as they were."""
    rng = Random(kinds)
    own = tables()
    single, multi, found, found_count = np.empty((4, rows.BUFFER), np.int32)
    for size in (0, 1, 2, 130, 5000, rows.BUFFER):
        drawn = [rng.randrange(kinds) for _ in range(size)]
        if size == rows.BUFFER:
            drawn = [j << 17 if j < 2**14 else j for j in drawn]  # one place in the table
        ids = np.array(drawn, np.int32)
        occurs = Counter(ids.tolist())
        num_single, num_multi = rows.split_repeated(ids, size, own["table"], single, multi)
        assert num_single + num_multi == size
        assert all(occurs[j] == 1 for j in single[:num_single].tolist())
        assert Counter(single[:num_single].tolist() + multi[:num_multi].tolist()) == occurs
        repeated = multi[:num_multi].copy()
        distinct = rows.count_repeated(
            repeated, num_multi, own["keys"], own["counts"], own["touched"], found, found_count
        )
        counted = dict(zip(found[:distinct].tolist(), found_count[:distinct].tolist()))
        assert len(counted) == distinct
        assert counted == Counter(repeated.tolist())
        assert not own["table"].any()
        assert (own["keys"] == -1).all()


def test_most_ids_that_occur_once_are_split_off() -> None:
    """Else all would go through the hash table."""
    ids = np.arange(1000, dtype=np.int32)
    single, multi = np.empty((2, rows.BUFFER), np.int32)
    assert rows.split_repeated(ids, 1000, tables()["table"], single, multi) == (1000, 0)


def test_find_slot_in_a_table_that_is_nearly_full() -> None:
    bits = 5
    table = np.full(64, -1, np.int32)
    ids = Random(0).sample(range(2**31), 31)
    slots = []
    for j in ids:
        slot = rows.find_slot(j, table, bits)
        assert 0 <= slot < 2**bits
        assert table[slot] == -1
        table[slot] = j
        slots.append(slot)
    assert [rows.find_slot(j, table, bits) for j in ids] == slots
    assert (table[32:] == -1).all()


# ------------------------------------------------------------------ sums


def test_add_keeps_what_one_double_loses() -> None:
    rng = Random(7)
    for _ in range(50):
        terms = [rng.uniform(-1, 1) * 2.0 ** rng.randint(-20, 20) for _ in range(60)]
        total = low = 0.0
        for term in terms:
            total, low = rows.add(total, low, term, False)
        assert total + low == math.fsum(terms)
    plain = sum(terms)
    total = low = 0.0
    for term in terms:
        total, low = rows.add(total, low, term, True)
    assert (total, low) == (plain, 0.0)


def test_sums_of_two_sizes() -> None:
    """The larger term first, or last."""
    for terms in ([1.0, 2.0**-60, -1.0], [2.0**-60, 1.0, -1.0], [1.0, -1.0, 2.0**-60]):
        total = low = 0.0
        for term in terms:
            total, low = rows.add(total, low, term, False)
        assert total + low == 2.0**-60


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("exact", [False, True])
def test_squared_norms(exact: bool, sides: int) -> None:
    ptr, other_ptr = np.array([0, 2, 2, 5]), np.array([0, 0, 1, 3])
    value, other = np.array([0.1, -0.7, 0.3, 1e-9, 3.0]), np.array([0.2, 5.0, -1e-8])
    scale = np.array([2.0, 1.0, 0.5])
    norm2 = np.empty(3)
    rows.squared_norms(ptr, value, scale, other_ptr, other, sides, exact, norm2)
    for i in range(3):
        terms = [v * scale[i] for v in value[ptr[i] : ptr[i + 1]]]
        if sides == 2:
            terms += [v * scale[i] for v in other[other_ptr[i] : other_ptr[i + 1]]]
        assert norm2[i] == pytest.approx(math.fsum(t * t for t in terms), rel=1e-15)


@pytest.mark.parametrize("exact", [False, True])
def test_multiplying(exact: bool) -> None:
    """In ranges of rows, with scratch that was used before."""
    rng = np.random.default_rng(8)
    n = 23
    left, right = ((rng.random((n, n)) < 0.2) * rng.integers(-3, 4, (n, n)) for _ in range(2))
    csr_of = [
        (
            np.concatenate([[0], np.cumsum((matrix != 0).sum(1))]),
            matrix.nonzero()[1].astype(np.int32),
            matrix[matrix != 0].astype(float),
        )
        for matrix in (left, right)
    ]
    (ptr, col, value), (other_ptr, other_col, other_value) = csr_of
    counts, stamp = np.zeros(n, np.int64), np.full(n, -1, np.int32)
    for start, end in ((0, 9), (9, 10), (10, n)):
        rows.multiply_count(ptr, col, other_ptr, other_col, start, end, counts, stamp)
    pattern = (left != 0).astype(int) @ (right != 0).astype(int) > 0
    assert counts.tolist() == pattern.sum(1).tolist()
    out_ptr = np.concatenate([[0], np.cumsum(counts)])
    out_col, out_value = np.empty(out_ptr[-1], np.int32), np.empty(out_ptr[-1])
    stamp[:] = -1
    scratch = stamp, np.full(n, np.nan), np.full(n, np.nan)
    matrices = (ptr, col, value, other_ptr, other_col, other_value)
    for start, end in ((0, 9), (9, 10), (10, n)):
        rows.multiply_fill(*matrices, exact, start, end, out_ptr, out_col, out_value, *scratch)
    product = np.zeros((n, n))
    product[np.arange(n).repeat(counts), out_col] = out_value
    assert (product == left @ right).all()


def test_hub_visits() -> None:
    """All lists but the longest are read to the end; of that, what a full row takes."""
    lengths = np.array([3, 10, 50])
    mask = np.array([0b000, 0b001, 0b011, 0b110, 0b111, 0b100], np.uint64)
    visits = np.array([5, 5, 5, 5, 5, 100], np.int64)
    rows.hub_visits(mask, lengths, 4, visits, 0, 6)
    assert visits.tolist() == [
        5,
        5 + 3,
        5 + 3 + min(10, 8 + 4),
        5 + 10 + min(50, 15 + 4),
        5 + 13 + min(50, 18 + 4),
        100 + 50,
    ]
