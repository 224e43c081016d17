"""Products with the rows of each graph and with edges: against loops, on both paths."""

import pytest
import torch
from torch import Tensor

from helpers.graphs import FLAVORS, draw
from helpers.largest import LargestTensor
from torch_geometric_simpool import engine
from torch_geometric_simpool.functional.segment import segment_matmul, segment_matmul_t, spmm

pytestmark = pytest.mark.usefixtures("engine_mode")

SIZES = [[5], [3, 0, 70, 1], [0, 2, 0], [33] * 9, [0, 0], [300, 1, 0, 7], [31, 32, 33]]


def batch_of(sizes: list[int]) -> Tensor:
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))


def matmul_t_by_graph(left: Tensor, right: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    return torch.stack([left[batch == b].t() @ right[batch == b] for b in range(batch_size)])


def matmul_by_graph(x: Tensor, other: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    return torch.einsum("nf,nfk->nk", x, other[batch])


def assert_same(
    found: Tensor,
    expected: Tensor,
    inputs: list[Tensor],
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Values and gradients."""
    torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)
    # Not contiguous, as gradients that come out of a transpose are.
    upstream = torch.randn_like(found).mT.contiguous().mT
    for a, b in zip(
        *(torch.autograd.grad(out, inputs, upstream) for out in (found, expected)), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_segment_matmul_t(sizes: list[int], dtype: torch.dtype) -> None:
    left, right = (
        torch.randn(sum(sizes), width, dtype=dtype, requires_grad=True) for width in (3, 4)
    )
    rest = (batch_of(sizes), len(sizes))
    found, expected = segment_matmul_t(left, right, *rest), matmul_t_by_graph(left, right, *rest)
    assert_same(found, expected, [left, right], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_segment_matmul(sizes: list[int], dtype: torch.dtype) -> None:
    x = torch.randn(sum(sizes), 3, dtype=dtype, requires_grad=True)
    other = torch.randn(len(sizes), 3, 4, dtype=dtype, requires_grad=True)
    rest = (batch_of(sizes), len(sizes))
    found, expected = segment_matmul(x, other, *rest), matmul_by_graph(x, other, *rest)
    assert_same(found, expected, [x, other], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("function", [segment_matmul_t, segment_matmul])
def test_derivatives_of_products(function: object, wanted: tuple[bool, bool]) -> None:
    batch = torch.tensor([0, 0, 0, 2, 2])
    shapes = ((5, 2), (5, 2)) if function is segment_matmul_t else ((5, 2), (3, 2, 2))
    given = [
        torch.randn(shape, dtype=torch.float64, requires_grad=need)
        for shape, need in zip(shapes, wanted, strict=True)
    ]
    assert torch.autograd.gradcheck(lambda a, b: function(a, b, batch, 3), given)
    assert torch.autograd.gradgradcheck(lambda a, b: function(a, b, batch, 3), given)


def test_rows_that_are_views() -> None:
    wide = torch.randn(9, 10, dtype=torch.float64, requires_grad=True)
    batch = torch.tensor([0] * 4 + [1] * 5)
    left, right = wide[:, 1:4], wide.t().contiguous().t()[:, 5:]
    found, expected = (
        function(left, right, batch, 2) for function in (segment_matmul_t, matmul_t_by_graph)
    )
    assert_same(found, expected, [wide])


def test_nan_stays_in_its_graph() -> None:
    x = torch.ones(6, 2)
    x[4] = torch.nan
    found = segment_matmul_t(x, x, torch.tensor([0, 0, 1, 1, 2, 2]), 3)
    assert found[:2].isfinite().all()
    assert found[2].isnan().all()


def matrix_of(edge_index: Tensor, weight: Tensor, shape: tuple[int, int]) -> Tensor:
    """The dense matrix, in which parallel edges add up; differentiable."""
    out = torch.zeros(shape, dtype=weight.dtype)
    return out.index_put(tuple(edge_index), weight, accumulate=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("flavor", FLAVORS)
def test_spmm(flavor: str, sort: bool, weighted: bool, dtype: torch.dtype) -> None:
    """Values and gradients; integers, so that sums are exact."""
    graph = draw(flavor, 0)
    edge_index = graph.edge_index
    num_edges = edge_index.size(1)
    by = edge_index[0].argsort(stable=True) if sort else torch.randperm(num_edges)
    edge_index = edge_index[:, by]
    x = torch.randint(-3, 4, (graph.num_nodes, 4)).to(dtype).requires_grad_()
    weight = torch.ones(num_edges, dtype=dtype)
    if weighted:
        weight = torch.randint(-3, 4, (num_edges,)).to(dtype).requires_grad_()
    row, col = edge_index
    found = spmm(row, col, x, weight if weighted else None, graph.num_nodes)
    expected = matrix_of(edge_index, weight, (graph.num_nodes,) * 2) @ x
    assert torch.equal(found, expected)
    upstream = torch.randint(-3, 4, found.shape).to(dtype)
    inputs = [x, weight] if weighted else [x]
    for a, b in zip(
        *(torch.autograd.grad(out, inputs, upstream) for out in (found, expected)), strict=True
    ):
        assert torch.equal(a, b)


@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_spmm_of_a_matrix_that_is_not_square(dtype: torch.dtype, sort: bool) -> None:
    """With empty rows and columns, and edges that are views."""
    edges = torch.stack([torch.randint(1, 7, (30,)), torch.randint(0, 3, (30,))], dim=1)
    edges = edges[edges[:, 0].argsort()] if sort else edges
    row, col = edges.t()
    x = torch.randint(-3, 4, (5, 64)).to(dtype).requires_grad_()
    found = spmm(row, col, x, None, 9)
    expected = matrix_of(edges.t(), torch.ones(30, dtype=dtype), (9, 5)) @ x
    assert torch.equal(found, expected)
    upstream = torch.randint(-3, 4, found.shape).to(dtype)
    (a,), (b,) = (torch.autograd.grad(out, x, upstream) for out in (found, expected))
    assert torch.equal(a, b)
    for wrong in ([9, 0], [0, 5]):
        row, col = torch.tensor(wrong).view(2, 1)
        with pytest.raises((IndexError, RuntimeError), match="index"):
            spmm(row, col, x, None, 9)


@pytest.mark.parametrize("weighted", [False, True])
def test_derivatives_of_spmm(weighted: bool) -> None:
    graph = draw("directed", 1)
    row, col = graph.edge_index
    inputs = [torch.randn(graph.num_nodes, 3, dtype=torch.float64, requires_grad=True)]
    if weighted:
        inputs.append(torch.randn(len(graph.edges), dtype=torch.float64, requires_grad=True))

    def function(x: Tensor, weight: Tensor | None = None) -> Tensor:
        return spmm(row, col, x, weight, graph.num_nodes).square()

    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


def test_spmm_stores_no_messages(engine_mode: str) -> None:
    if engine_mode == "plain":
        pytest.skip("the plain form stores them")
    x = torch.randn(20, 64, requires_grad=True)
    with LargestTensor() as seen:
        row, col = torch.randint(0, 20, (2, 900))
        spmm(row, col, x, None, 20).sum().backward()
    assert seen.numel <= 2 * 900


def test_backward_under_autocast(engine_mode: str) -> None:
    """The gradients are those of the forward pass, which was not under autocast."""
    if engine_mode == "plain":
        pytest.skip("PyTorch's own operations differ")
    batch = torch.tensor([0, 0, 1, 1, 1])
    inputs = [torch.randn(5, n, requires_grad=True) for n in (4, 3)]
    row, col = torch.randint(0, 5, (2, 12))
    for out in (
        segment_matmul_t(inputs[0], inputs[1], batch, 2),
        spmm(row, col, inputs[0] * inputs[1][:, :1], None, 5),
    ):
        loss = out.square().sum()
        expected = torch.autograd.grad(loss, inputs, retain_graph=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = torch.autograd.grad(loss, inputs)
        for a, b in zip(found, expected, strict=True):
            assert torch.equal(a, b)


def test_both_paths_are_taken(engine_mode: str) -> None:
    """Or the tests above would compare one of them with itself."""
    x = torch.randn(3, 2, requires_grad=True)
    name = segment_matmul_t(x, x, torch.zeros(3).long(), 1).grad_fn.name()
    assert (name == "_MatmulTBackward") == (engine_mode == "fast")
    name = spmm(torch.tensor([0]), torch.tensor([1]), x, None, 3).grad_fn.name()
    assert (name == "_SpMMBackward") == (engine_mode == "fast")


@pytest.mark.parametrize("part", ["spmm", "segment_matmul"])
def test_one_part_can_be_disabled(part: str, engine_mode: str) -> None:
    x = torch.randn(3, 2, requires_grad=True)
    with engine.disabled(part):
        names = {
            "segment_matmul": segment_matmul_t(x, x, torch.zeros(3).long(), 1).grad_fn.name(),
            "spmm": spmm(torch.tensor([0]), torch.tensor([1]), x, None, 3).grad_fn.name(),
        }
    fast = {name for name, function in names.items() if function in FAST}
    assert fast == (set() if engine_mode == "plain" else {"spmm", "segment_matmul"} - {part})


FAST = {"_MatmulTBackward", "_SpMMBackward"}
