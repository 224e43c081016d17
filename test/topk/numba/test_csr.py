"""The symmetry of sparse matrices, which decides whether a graph needs a transpose."""

from itertools import product

import numpy as np
import pytest

from torch_geometric_simpool.topk.numba import csr, threads


def is_symmetric(dense: np.ndarray, num_threads: int) -> bool:
    ptr = csr.offsets(dense.sum(axis=1))
    return csr.is_symmetric(csr.CSRArrays(ptr, dense.nonzero()[1], np.empty(0)), num_threads)


@pytest.mark.parametrize("num_threads", [1, 2])
def test_all_matrices_of_three_rows(num_threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SMALLEST", 1)
    for entries in product((False, True), repeat=9):
        dense = np.array(entries).reshape(3, 3)
        assert is_symmetric(dense, num_threads) == np.array_equal(dense, dense.T), dense


def test_one_entry_without_its_mirror_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SMALLEST", 1)
    generator = np.random.default_rng(0)
    for num_threads in (1, 2, 3):
        dense = generator.random((200, 200)) < 0.05
        dense |= dense.T
        assert is_symmetric(dense, num_threads)
        for i, j in generator.integers(0, 200, (30, 2)):
            dense[i, j] ^= True
            assert is_symmetric(dense, num_threads) == (i == j)
            dense[i, j] ^= True
