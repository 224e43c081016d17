"""Products with the rows of each graph: against exact arithmetic, for every kind of tile."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import Tensor

from torch_geometric_simpool.engine import products, team

DTYPES = [torch.float32, torch.float64]
#: Widths that are made of wide tiles, of narrow ones, of single columns, and of all three.
WIDTHS = [1, 5, 8, 32, 43, 71]
#: Cut in parts of seven, some have as many parts as graphs, though not one of each.
COUNTS = [[3], [0, 7, 0, 40, 1, 0], [0, 8], [8, 0, 1], [4, 4], [0, 0], []]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that some graphs are cut, and some just not."""
    monkeypatch.setattr(products, "PART", 7)


def whole_numbers(*shape: int, dtype: torch.dtype) -> Tensor:
    """Their products and sums are exact in any order."""
    return torch.randint(-3, 4, shape).to(dtype)


def one_by_one(left: Tensor, right: Tensor, counts: list[int]) -> Tensor:
    pairs = zip(left.double().split(counts), right.double().split(counts))
    found = [a.t() @ b for a, b in pairs]
    return torch.stack(found) if found else left.new_zeros(0, left.size(1), right.size(1)).double()


@pytest.mark.parametrize("count", [[], [0], [0, 0, 3], [7, 8, 0, 21, 1], [100]], ids=str)
def test_parts(count: list[int]) -> None:
    """Every row is in one part, of its graph; a part has seven rows at most, and some."""
    found = products.parts(np.array(count, np.int64))
    sizes = np.diff(found.bounds)
    assert ((sizes > 0) & (sizes <= 7)).all()
    assert found.bounds[0] == 0
    graphs = np.repeat(found.graph, sizes)
    assert graphs.tolist() == np.repeat(np.arange(len(count)), count).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("num_clusters", [1, 9, 34])
def test_both_products(
    num_clusters: int, width: int, counts: list[int], dtype: torch.dtype
) -> None:
    left = whole_numbers(sum(counts), num_clusters, dtype=dtype)
    right = whole_numbers(sum(counts), width, dtype=dtype)
    of = products.parts(np.array(counts, np.int64))
    product = products.product(left, right, of, len(counts))
    assert product.dtype == dtype
    assert torch.equal(product.double(), one_by_one(left, right, counts))

    of_graph = whole_numbers(len(counts), num_clusters, width, dtype=dtype)
    expected = torch.cat(
        [torch.empty(0, width), *(a @ b for a, b in zip(left.split(counts), of_graph))]
    ).to(dtype)
    assert torch.equal(products.spread([(left, of_graph)], of), expected)
    onto = whole_numbers(*expected.shape, dtype=dtype)
    before = onto.clone()
    assert products.spread([(left, of_graph)], of, onto) is onto
    assert torch.equal(onto, before + expected)

    more = (right, whole_numbers(len(counts), width, width, dtype=dtype))
    products_of_more = [a @ b for a, b in zip(right.split(counts), more[1])]
    twice = expected + torch.cat([torch.empty(0, width, dtype=dtype), *products_of_more])
    assert torch.equal(products.spread([(left, of_graph), more], of), twice)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("num_threads", [1, 2, 5])
def test_rounding(num_threads: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the bound for any order, of exact sums; the same for any number of threads."""
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(25, n, dtype=dtype, generator=generator) for n in (3, 9))
    of = products.parts(np.array([25]))
    alone = products.product(left, right, of, 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: num_threads)
    found = products.product(left, right, of, 1)
    assert torch.equal(found, alone)
    a, b = left.tolist(), right.tolist()
    for k in range(3):
        for f in range(9):
            exact = sum(Fraction(a[n][k]) * Fraction(b[n][f]) for n in range(25))
            size = sum(abs(a[n][k] * b[n][f]) for n in range(25))
            error = abs(Fraction(found[0, k, f].item()) - exact)
            assert error <= 25 * torch.finfo(dtype).eps * size


def test_rows_that_lie_apart() -> None:
    """Views of wider matrices, transposed ones, one row for all."""
    of = products.parts(np.array([9, 4]))
    wide = whole_numbers(13, 50, dtype=torch.float64)
    matrices = [wide[:, 3:8], wide.t().contiguous().t()[:, :5], wide[:1, :5].expand(13, 5)]
    for left in matrices:
        for right in matrices:
            found = products.product(left, right, of, 2)
            assert torch.equal(found, one_by_one(left, right, [9, 4]))
        of_graph = whole_numbers(2, 6, 5, dtype=torch.float64).mT
        expected = torch.cat([a @ b for a, b in zip(left.split([9, 4]), of_graph)])
        assert torch.equal(products.spread([(left, of_graph)], of), expected)


def test_what_is_not_a_number_stays_in_its_graph() -> None:
    of = products.parts(np.array([8, 8]))
    left, right = torch.ones(16, 3), torch.ones(16, 40)
    left[9, 1], right[10, 35] = torch.nan, torch.inf
    found = products.product(left, right, of, 2)
    assert torch.equal(found[0], torch.full((3, 40), 8.0))
    assert found[1, 1].isnan().all()
    assert (found[1, 0, 35], found[1, 0, 34]) == (torch.inf, 8)


def test_on_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PyTorch has none to share."""
    monkeypatch.setattr(team, "parallel", lambda: None)
    monkeypatch.setattr(team, "PER_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    left, right = (whole_numbers(200, n, dtype=torch.float32) for n in (4, 33))
    counts = [20] * 10
    found = products.product(left, right, products.parts(np.array(counts)), 10)
    assert torch.equal(found.double(), one_by_one(left, right, counts))


def test_blocks_share_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every part is in one block, and no thread waits for another for long."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    of = products.parts(np.array([1] * 100 + [700]))
    bounds = products.blocks(of, work=1)
    assert (bounds[0], bounds[-1], len(bounds)) == (0, len(of.graph), 9)
    shares = np.diff(of.bounds[bounds])
    assert shares.sum() == 800
    assert shares.max() <= 100 + 7
    assert len(products.blocks(of, work=10**9)) == 101  # short enough for Ctrl-C
    assert products.blocks(products.parts(np.array([], np.int64)), 0).max() == 0


def test_rows_that_do_not_fit() -> None:
    """An error, before anything is read that is not there."""
    of = products.parts(np.array([6, 4]))
    left, right, of_graph = torch.ones(10, 3), torch.ones(10, 2), torch.ones(2, 3, 5)
    for a, b in ((left[:9], right), (left, right[:9])):
        with pytest.raises(ValueError, match="must have a row for each of the 10 nodes"):
            products.product(a, b, of, 2)
    for pair in ((left[:9], of_graph), (right, of_graph)):
        with pytest.raises(ValueError, match=r"must have shapes \[10, F\] and \[B, F, 5\]"):
            products.spread([pair], of)
    for onto in (torch.ones(9, 5), torch.ones(10, 4), torch.ones(5, 10).t()):
        with pytest.raises(ValueError, match=r"must have shapes|`onto` must be contiguous"):
            products.spread([(left, of_graph)], of, onto)
