"""Sparse matrices in CSR form and their products equal dense ones."""

import pytest
import torch
from torch import Tensor

from helpers.graphs import FLAVORS, Graph, draw
from torch_geometric_simpool.topk.budget import Budget, TooExpensiveError
from torch_geometric_simpool.topk.spec import EdgeList, TopKSettings
from torch_geometric_simpool.topk.torch import csr
from torch_geometric_simpool.topk.torch.describe import describe


def csr_of(graph: Graph, exact: bool = True) -> csr.CSRMatrix:
    weight = graph.edge_weight()
    if weight is None:
        weight = torch.ones(len(graph.edges), dtype=torch.float64)
    row, col = graph.edge_index
    return csr.from_coo(row, col, weight, graph.num_nodes, graph.num_nodes, exact)


def dense(matrix: csr.CSRMatrix) -> Tensor:
    out = torch.zeros(matrix.num_rows, matrix.num_cols, dtype=torch.float64)
    out[matrix.row, matrix.col] = matrix.value
    return out


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_from_coo(flavor: str, exact: bool) -> None:
    graph = draw(flavor, 0)
    matrix = csr_of(graph, exact)
    assert torch.equal(dense(matrix), graph.adj())
    assert matrix.ptr[0] == 0
    assert matrix.ptr[-1] == matrix.col.numel() == len(set(graph.edges))
    for i in range(graph.num_nodes):
        col = matrix.col[matrix.ptr[i] : matrix.ptr[i + 1]].tolist()
        assert col == sorted(set(col))


@pytest.mark.parametrize("flavor", FLAVORS)
def test_transpose(flavor: str) -> None:
    graph = draw(flavor, 1)
    matrix, adj = csr_of(graph), graph.adj()
    assert torch.equal(dense(csr.transpose(matrix)), adj.t())


def test_a_symmetric_matrix_is_described_by_one_side() -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    for weight, num_cols in (([1, 1], 2), ([1, 2], 4), ([0.1, 0.1], 2), ([0.1, 0.2], 4)):
        edges = EdgeList(edge_index, torch.tensor(weight), 2)
        for p in (1, 2):
            matrix, _ = describe(edges, TopKSettings(p=p), Budget(None, True))
            assert matrix.num_cols == (2 if p == 2 else num_cols)  # A^2 is a multiple of I


@pytest.mark.parametrize("memory", [1, 160 * 10, 160 * 100, 2**30])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_blocks_cover_every_row_once_within_the_memory(flavor: str, memory: int) -> None:
    left = csr_of(draw(flavor, 1))
    right = csr.transpose(left)
    products = csr.count_products(left, right)
    for i in range(left.num_rows):
        features = left.col[left.ptr[i] : left.ptr[i + 1]]
        assert products[i] == right.ptr.diff()[features].sum()
    sizes = products + 1
    budget = Budget(memory + 7, True)
    ranges, used = csr.make_blocks(sizes, csr.BYTES_PER_PRODUCT, 7, budget)
    assert [i for start, end in ranges for i in range(start, end)] == list(range(left.num_rows))
    for start, end in ranges:
        size = int(sizes[start:end].sum()) * csr.BYTES_PER_PRODUCT
        assert 7 + size <= used
        assert size <= max(memory, int(sizes.max()) * csr.BYTES_PER_PRODUCT)


def test_blocks_are_as_large_as_the_memory_allows() -> None:
    """A block has as many consecutive rows as fit into the budget."""
    sizes = torch.tensor([4, 4, 16, 2, 2, 2])
    blocks = csr.make_blocks(sizes, 10, 5, Budget(165, False))
    assert blocks == ([(0, 2), (2, 3), (3, 6)], 165)
    assert csr.make_blocks(sizes[:0], 10, 5, Budget(None, False))[0] == []


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_product_of_some_rows(flavor: str, exact: bool) -> None:
    graph = draw(flavor, 2)
    left, adj, n = csr_of(graph), graph.adj(), graph.num_nodes
    full = adj @ adj.t()
    for start in range(n):
        for end in (start + 1, n):
            key, value = csr.multiply_rows(left, csr.transpose(left), start, end, exact)
            assert torch.equal(key, key.unique())
            out = torch.zeros(n, n, dtype=torch.float64)
            out.view(-1)[key] = value
            torch.testing.assert_close(out[start:end], full[start:end])
            assert out.count_nonzero() == full[start:end].count_nonzero()


@pytest.mark.parametrize("flavor", FLAVORS)
def test_power(flavor: str) -> None:
    graph = draw(flavor, 2)
    for p, memory in ((1, 1), (2, 1), (3, 96 * 20), (4, None)):
        power = csr.matrix_power(csr_of(graph), p, True, Budget(memory, True))
        torch.testing.assert_close(dense(power), torch.linalg.matrix_power(graph.adj(), p))


def test_a_power_that_fills_up_is_refused() -> None:
    star = csr_of(
        Graph(101, tuple((0, i) for i in range(1, 101)) + tuple((i, 0) for i in range(1, 101)))
    )
    with pytest.raises(TooExpensiveError):
        csr.matrix_power(star, 2, True, Budget(100 * 100 * csr.BYTES_PER_ENTRY, False))


def test_sums_do_not_depend_on_the_order_of_the_summands() -> None:
    """Sums are rounded independently of the order, so equivalent nodes have equal bits."""
    value = torch.rand(1000, dtype=torch.float64) * 10.0 ** torch.randint(-9, 9, (1000,))
    key = torch.randint(0, 20, (1000,))
    unique, total = csr.sum_duplicates(key, value, exact=False)
    assert torch.equal(unique, torch.arange(20))
    for _ in range(5):
        order = torch.randperm(1000)
        again = csr.sum_duplicates(key[order], value[order], exact=False)[1]
        assert torch.equal(total, again)
    plain = torch.zeros(20, dtype=torch.float64).index_add(0, key, value)
    torch.testing.assert_close(total, plain)


def test_sums_are_differentiable() -> None:
    key = torch.tensor([3, 1, 3, 0, 1, 3])
    value = torch.rand(6, dtype=torch.float64, requires_grad=True)
    for exact in (True, False):
        assert torch.autograd.gradcheck(
            lambda v, e=exact: csr.sum_duplicates(key, v, e)[1], (value,)
        )


@pytest.mark.parametrize("flavor", FLAVORS)
def test_mask_entries(flavor: str) -> None:
    matrix = csr_of(draw(flavor, 3))
    mask = torch.rand(matrix.col.numel()) < 0.5
    masked = csr.mask_entries(matrix, mask)
    expected = dense(matrix)
    expected[matrix.row[~mask], matrix.col[~mask]] = 0
    assert torch.equal(dense(masked), expected)
    assert masked.col.numel() == mask.sum()
