"""The best `k` candidates, against sorted lists."""

from random import Random

import numpy as np
import pytest

from helpers.kernels import from_python
from torch_geometric_simpool.topk.numba import heap as heap_kernels

heap = from_python(heap_kernels)


def best_of(pairs: list[tuple[float, int]], k: int) -> list[tuple[float, int]]:
    return sorted(pairs, key=lambda pair: (-pair[0], pair[1]))[:k]


@pytest.mark.parametrize("kinds", [1, 3, 1000])
@pytest.mark.parametrize("k", [1, 2, 3, 7, 16, 100])
def test_heap_and_list_hold_the_best(k: int, kinds: int) -> None:
    """Of many equal keys those with the lowest ids, in whatever order they come."""
    rng = Random(k * kinds)
    for size in (0, 1, k - 1, k, k + 1, 5 * k):
        pairs = [(float(rng.randrange(kinds)), j) for j in rng.sample(range(1000), size)]
        for offer, finish in ((heap.push, heap.sort_heap), (heap.insert, None)):
            best = heap.Candidates(np.full(k, np.nan), np.full(k, -7, np.int64))
            held = 0
            for key, j in pairs:
                held = offer(best, held, k, key, j)
            assert held == min(size, k)
            if finish is not None:
                finish(best, held)
            assert list(zip(best.keys[:held], best.ids[:held])) == best_of(pairs, k)


@pytest.mark.parametrize("k", [1, 2, 16, 50, 500])
def test_smallest(k: int) -> None:
    rng = Random(k)
    spare, bins = np.empty(heap.RANKED, np.int32), np.empty(heap.BINS, np.int32)
    for size in (0, 1, k, k + 1, k + 16, k + 17, 96, 97, 130, 1000, 3000):
        for spread in (1, 10, 100_000):
            base = rng.choice([0, 5, 2**31 - 1 - size * spread])
            drawn = rng.sample(range(base, base + size * spread + 1), size)
            if size > 2:
                drawn[rng.randrange(size)] = 2**31 - 1 if 2**31 - 1 not in drawn else drawn[0]
            drawn = list(dict.fromkeys(drawn))
            ids = np.array(drawn, np.int32)
            count = heap.smallest(ids, ids.size, k, spare, bins)
            assert count == min(k, len(drawn))
            assert ids[:count].tolist() == sorted(drawn)[:k]


def test_write() -> None:
    ranked = heap.Candidates(np.array([4.0, 1.0, 0.25, 9.9]), np.array([7, 3, 5, 9]))
    for lowest, count in ((-2.0, 3), (0.25, 3), (0.26, 2), (0.5, 2), (1.0, 1)):
        values, index = np.full((2, 5), 9.0), np.full((2, 5), 9)
        options = heap.Options(5, True, False, lowest, 0.0)
        heap.write(heap.TopK(values, index), 1, ranked, 3, 4.0, options)
        assert values[1].tolist() == [1.0, 0.5, 0.25][:count] + [0.0] * (5 - count)
        assert index[1].tolist() == [7, 3, 5][:count] + [-1] * (5 - count)
        assert (values[0] == 9).all()


@pytest.mark.parametrize("size", [0, 1, 2, 3, 97, 1000])
def test_sort_ids(size: int) -> None:
    drawn = Random(size).sample(range(2**31), size)
    ids = np.array([*drawn, -5, 7], np.int32)
    heap.sort_ids(ids, size)
    assert ids.tolist() == [*sorted(drawn), -5, 7]
