"""Facts about the entries of a matrix, which decide how it is prepared."""

from itertools import product

import numpy as np
import pytest
import torch

from torch_geometric_simpool.topk.numba import csr, threads


@pytest.fixture(params=[1, 2, 3], autouse=True)
def _some_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "SMALLEST", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: request.param)


def is_symmetric(dense: np.ndarray) -> bool:
    row, col = dense.nonzero()
    return csr.survey(row, col, dense[row, col].astype(float)).asymmetry == 0


def test_all_matrices_of_four_rows() -> None:
    dense = np.zeros((4, 4))
    for entries in product((0, 1), repeat=12):
        dense[~np.eye(4, dtype=bool)] = entries
        assert is_symmetric(dense) == np.array_equal(dense, dense.T), dense


def test_one_entry_without_its_mirror_image() -> None:
    generator = np.random.default_rng(0)
    dense = generator.random((200, 200)) < 0.05
    dense |= dense.T
    assert is_symmetric(dense)
    for i, j in generator.integers(0, 200, (30, 2)):
        dense[i, j] ^= True
        assert is_symmetric(dense) == (i == j)
        dense[i, j] ^= True


def test_an_entry_cancels_its_mirror_image_alone() -> None:
    ids = [*range(6), 2**16, 2**30, 2**31 - 2, 2**31 - 1]
    pairs = [(i, j) for i in ids for j in ids if i != j]
    for (i, j), (k, m) in product(pairs, repeat=2):
        asymmetry = csr.survey(np.array([i, k]), np.array([j, m]), np.empty(0)).asymmetry
        assert (asymmetry == 0) == ((i, j) == (m, k)), (i, j, k, m)


def test_graphs_that_fixed_hashes_would_take_for_symmetric() -> None:
    """Without a random number before ids, or before values, one of the sums would be zero."""
    pairs = [(157, 810), (1909, 1017), (2309, 2509), (3541, 3025)]
    pairs += [(4413, 4952), (5755, 5102), (6186, 6901), (7551, 7416)]
    row, col = np.array(pairs).T
    assert csr.survey(row, col, np.empty(0)).asymmetry != 0
    hashes = [1.4508372629303252e35, 4.4049599781425607e254, 1.2233758080003195e134]
    for weight in (*hashes, -5.753093805623209e-216, 2.244555020796186e-89):
        value = np.array([1, weight])
        assert csr.survey(np.array([0, 3]), np.array([1, 2]), value).asymmetry != 0


def test_mirror_images_have_one_value() -> None:
    dense = np.random.default_rng(0).normal(size=(20, 20))
    assert not is_symmetric(dense)
    dense += dense.T
    assert is_symmetric(dense)
    dense[3, 4] = np.nextafter(dense[3, 4], 0)
    assert not is_symmetric(dense)
    zeros = np.array([0.0, -0.0])
    assert csr.survey(np.array([0, 1]), np.array([1, 0]), zeros).asymmetry == 0


@pytest.mark.parametrize(
    ("row", "col", "is_sorted"),
    [
        ([], [], True),
        ([2], [3], True),
        ([0, 0, 1, 3], [1, 2, 0, 0], True),
        ([0, 0, 1, 3], [2, 1, 0, 0], False),
        ([0, 0, 1, 3], [1, 1, 0, 0], False),
        ([0, 1, 0, 3], [1, 2, 3, 4], False),
        ([0, 1, 2, 2], [1, 2, 3, 3], False),
    ],
)
def test_order(row: list[int], col: list[int], is_sorted: bool) -> None:
    ids = np.array(row, dtype=np.int64), np.array(col, dtype=np.int64)
    assert csr.survey(*ids, np.empty(0)).is_sorted == is_sorted


@pytest.mark.parametrize(
    ("value", "all_ones", "whole", "largest"),
    [
        ([], True, True, 1.0),
        ([1, 1, 1, 1], True, True, 1.0),
        ([1, 1, 1, 2], False, True, 2.0),
        ([1, -3, 2, 0], False, True, 3.0),
        ([1, 1, 1, 0.5], False, False, 1.0),
        ([-0.5, 0, 0.25, 0.125], False, False, 0.5),
        ([0, 0, 0, 0], False, True, 0.0),
        ([1e300, -1e308, 1, 1], False, True, 1e308),
    ],
)
def test_values(value: list[float], all_ones: bool, whole: bool, largest: float) -> None:
    ids = np.arange(4)
    survey = csr.survey(ids, ids, np.array(value, dtype=np.float64))
    assert survey == (True, 0, all_ones, whole, largest)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, None])
def test_the_transpose(dtype: type | None) -> None:
    """Among the rows are empty ones, and one that is longer than the share of a thread."""
    generator = np.random.default_rng(0)
    dense = generator.random((40, 30)) < 0.1
    dense[[0, 17, 39]], dense[23] = False, True
    row, col = dense.nonzero()
    value = np.empty(0) if dtype is None else generator.integers(1, 90, row.size).astype(dtype)
    matrix = csr.CSRArrays(csr.offsets(dense.sum(axis=1)), col.astype(np.uint32), value)
    result = csr.transpose(matrix, csr.offsets(dense.sum(axis=0)))
    expected_row, expected_col = dense.T.nonzero()
    assert np.array_equal(np.repeat(np.arange(30), result.lengths), expected_row)
    assert np.array_equal(result.col, expected_col)
    assert result.value.dtype == value.dtype
    if dtype is not None:
        dense = dense.astype(dtype)
        dense[row, col] = value
        assert np.array_equal(result.value, dense.T[expected_row, expected_col])
