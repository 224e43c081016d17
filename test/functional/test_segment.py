"""Products with the rows of each graph and with edges equal loops over graphs."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from helpers.gradients import assert_same_gradients
from helpers.graphs import FLAVORS, draw
from torch_geometric_simpool.functional.segment import segment_matmul, segment_matmul_t, spmm

#: Numbers of nodes below, at and above the size of a block, and empty graphs.
SIZES = [[5], [3, 0, 70, 1], [0, 2, 0], [33] * 9, [0, 0], [300, 1, 0, 7], [31, 32, 33, 64]]


def matmul_t_by_graph(left: Tensor, right: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    return torch.stack([left[batch == b].t() @ right[batch == b] for b in range(batch_size)])


def matmul_by_graph(x: Tensor, other: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    return torch.einsum("nf,nfk->nk", x, other[batch])


def draw_inputs(function: Callable, sizes: list[int]) -> tuple[list[Tensor], Tensor, int]:
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    shape = (batch.numel(), 4) if function is segment_matmul_t else (len(sizes), 3, 4)
    inputs = [
        torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((len(batch), 3), shape)
    ]
    return inputs, batch, len(sizes)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(
    ("function", "by_graph"),
    [(segment_matmul_t, matmul_t_by_graph), (segment_matmul, matmul_by_graph)],
)
def test_products(function: Callable, by_graph: Callable, sizes: list[int]) -> None:
    inputs, batch, batch_size = draw_inputs(function, sizes)
    outputs = [[f(*inputs, batch, batch_size)] for f in (function, by_graph)]
    assert_same_gradients(*outputs, inputs, 1e-9)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_blocks_and_unsorted_batches(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks as on a GPU and in a compiled program give equal sums, for nodes in any order."""
    inputs, batch, batch_size = draw_inputs(segment_matmul_t, sizes)
    order = torch.randperm(batch.numel())
    moved = [rows[order] for rows in inputs]
    expected = [matmul_t_by_graph(*inputs, batch, batch_size)]
    for compiling in (False, True):
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda value=compiling: value)
        output = [segment_matmul_t(*moved, batch[order], batch_size)]
        assert_same_gradients(output, expected, inputs, 1e-9)


@pytest.mark.parametrize("function", [segment_matmul_t, segment_matmul])
def test_second_derivatives_of_products(function: Callable) -> None:
    inputs, batch, batch_size = draw_inputs(function, [3, 0, 2])
    assert torch.autograd.gradgradcheck(lambda a, b: function(a, b, batch, batch_size), inputs)


def test_nan_stays_in_its_graph() -> None:
    x = torch.ones(6, 2)
    x[4] = torch.nan
    product = segment_matmul_t(x, x, torch.tensor([0, 0, 1, 1, 2, 2]), 3)
    assert product[:2].isfinite().all()
    assert product[2].isnan().all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_spmm(flavor: str, weighted: bool) -> None:
    graph = draw(flavor, 0)
    n, row, col = graph.num_nodes, *graph.edge_index
    x = torch.randn(n, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(row.numel(), dtype=torch.float64, requires_grad=True)
    used = weight if weighted else torch.ones_like(weight)
    expected = x.new_zeros(n, n).index_put((row, col), used, accumulate=True) @ x
    inputs = [x, weight] if weighted else [x]
    product = spmm(row, col, x, weight if weighted else None, n)
    assert_same_gradients([product], [expected], inputs, 1e-9)


def test_second_derivatives_of_spmm() -> None:
    graph = draw("parallel", 1)
    n, row, col = graph.num_nodes, *graph.edge_index
    x = torch.randn(n, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(row.numel(), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x, w: spmm(row, col, x, w, n), [x, weight])
