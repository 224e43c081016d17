"""Sums over neighbours: against a dense matrix, in any order of the edges."""

import pytest
import torch

from helpers.graphs import FLAVOURS, draw
from helpers.largest import LargestTensor
from torch_geometric_simpool.engine import adjacent
from torch_geometric_simpool.engine.adjacent import neighbour_sums


@pytest.fixture(params=["compiled", "added"], autouse=True)
def order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unsorted edges put in order first, or not."""
    monkeypatch.setattr(adjacent, "SORTED", 0 if request.param == "compiled" else 10**9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_equals_the_dense_product(flavour: str, in_order: bool, dtype: torch.dtype) -> None:
    """Values and gradients; integers, so that sums are exact."""
    torch.manual_seed(0)
    graph = draw(flavour, 0)
    edge_index = graph.edge_index
    by = edge_index[0].argsort(stable=True) if in_order else torch.randperm(edge_index.size(1))
    edge_index = edge_index[:, by]
    adj = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=dtype)
    adj.index_put_(tuple(edge_index), torch.ones(edge_index.size(1), dtype=dtype), accumulate=True)
    rows = torch.randint(-3, 4, (graph.num_nodes, 4)).to(dtype).requires_grad_()
    found = neighbour_sums(rows, *edge_index)
    assert torch.equal(found, adj @ rows)
    upstream = torch.randint(-3, 4, found.shape).to(dtype)
    (gradient,) = torch.autograd.grad(found, rows, upstream)
    assert torch.equal(gradient, adj.t() @ upstream)


def test_derivatives() -> None:
    edge_index = draw("directed", 1).edge_index
    rows = torch.randn(int(edge_index.max()) + 1, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: neighbour_sums(s, *edge_index).square(), [rows])
    assert torch.autograd.gradgradcheck(lambda s: neighbour_sums(s, *edge_index).square(), [rows])


@pytest.mark.parametrize("wrong", [[[5], [0]], [[0], [5]], [[-1], [0]], [[0], [-1]]])
def test_ids_out_of_range_are_reported(wrong: list) -> None:
    with pytest.raises((IndexError, RuntimeError), match="index"):
        neighbour_sums(torch.zeros(5, 3), *torch.tensor(wrong))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_message_is_made(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adjacent, "SORTED", 0)
    rows = torch.randn(20, 64, dtype=dtype, requires_grad=True)
    with LargestTensor() as seen:
        neighbour_sums(rows, *torch.randint(0, 20, (2, 900))).sum().backward()
    assert seen.numel <= 2 * 900


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_that_are_not_nodes(dtype: torch.dtype, in_order: bool) -> None:
    """A matrix that is not square, with empty rows and columns."""
    torch.manual_seed(0)
    row, col = torch.randint(1, 7, (30,)), torch.randint(0, 3, (30,))
    row = row.sort().values if in_order else row
    matrix = torch.zeros(9, 5, dtype=dtype)
    matrix.index_put_((row, col), torch.ones(30, dtype=dtype), accumulate=True)
    rows = torch.randint(-3, 4, (5, 64)).to(dtype).requires_grad_()
    found = neighbour_sums(rows, row, col, 9)
    assert torch.equal(found, matrix @ rows)
    upstream = torch.randint(-3, 4, found.shape).to(dtype)
    (gradient,) = torch.autograd.grad(found, rows, upstream)
    assert torch.equal(gradient, matrix.t() @ upstream)
    for wrong in ([9, 0], [0, 5]):
        with pytest.raises((IndexError, RuntimeError), match="index"):
            neighbour_sums(rows, *torch.tensor(wrong).view(2, 1), 9)
