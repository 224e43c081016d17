"""Counting the ids of a row, against `collections.Counter`."""

from collections import Counter
from random import Random

import numpy as np
import pytest

from helpers.kernels import from_python
from torch_geometric_simpool.topk.numba import counting as counting_kernels

counting = from_python(counting_kernels)


@pytest.mark.parametrize("kinds", [1, 10, 3000, 10**9])
def test_split_and_count(kinds: int) -> None:
    """Up to a full buffer; and the tables are as clean afterwards as they were."""
    rng = Random(kinds)
    tables = counting.new_tables(np.dtype(np.int32))
    single, multi, found, found_count = np.empty((4, counting.BUFFER), np.int32)
    for size in (0, 1, 2, 130, 5000, counting.BUFFER):
        drawn = [rng.randrange(kinds) for _ in range(size)]
        if size == counting.BUFFER:
            drawn = [j << 17 if j < 2**14 else j for j in drawn]  # one place in the table
        ids = np.array(drawn, np.int32)
        occurs = Counter(ids.tolist())
        num_single, num_multi = counting.split_repeated(ids, size, tables, single, multi)
        assert num_single + num_multi == size
        assert all(occurs[j] == 1 for j in single[:num_single].tolist())
        assert Counter(single[:num_single].tolist() + multi[:num_multi].tolist()) == occurs
        repeated = multi[:num_multi].copy()
        distinct = counting.count_repeated(repeated, num_multi, tables, found, found_count)
        counted = dict(zip(found[:distinct].tolist(), found_count[:distinct].tolist()))
        assert len(counted) == distinct
        assert counted == Counter(repeated.tolist())
        assert not tables.occurrences.any()
        assert (tables.ids == -1).all()


def test_most_ids_that_occur_once_are_split_off() -> None:
    """Else all would go through the hash table."""
    ids = np.arange(1000, dtype=np.int32)
    single, multi = np.empty((2, counting.BUFFER), np.int32)
    assert counting.split_repeated(
        ids, 1000, counting.new_tables(np.dtype(np.int32)), single, multi
    ) == (1000, 0)


def test_find_slot_in_a_table_that_is_nearly_full() -> None:
    bits = 5
    table = np.full(64, -1, np.int32)
    ids = Random(0).sample(range(2**31), 31)
    slots = []
    for j in ids:
        slot = counting.find_slot(j, table, bits)
        assert 0 <= slot < 2**bits
        assert table[slot] == -1
        table[slot] = j
        slots.append(slot)
    assert [counting.find_slot(j, table, bits) for j in ids] == slots
    assert (table[32:] == -1).all()
