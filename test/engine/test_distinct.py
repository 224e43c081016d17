"""Rows that are the same: found where they are few, and nothing else changed."""

import pytest
import torch
from torch import Tensor

from helpers import literal
from helpers.largest import LargestTensor
from torch_geometric_simpool.engine import adjacent, distinct
from torch_geometric_simpool.engine.distinct import (
    distinct_messages,
    distinct_rows,
    propagate_distinct,
)
from torch_geometric_simpool.models import GMN


@pytest.fixture(params=["compiled", "PyTorch"], autouse=True)
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by compiled loops, or by operations of PyTorch."""
    monkeypatch.setattr(distinct, "COMPILED", 0 if request.param == "compiled" else 10**9)


def found(x: Tensor) -> tuple[Tensor, Tensor]:
    rows = distinct_rows(x)
    assert rows is not None
    return rows


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("num_labels", [1, 3, 89])
def test_labels(num_labels: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    label = torch.randint(0, num_labels, (2000,))
    x = torch.eye(num_labels, dtype=dtype)[label]
    rows, code = found(x)
    assert torch.equal(rows[code], x)
    assert rows.shape == (label.unique().numel(), num_labels)
    assert code.dtype == torch.long


def test_rows_of_anything() -> None:
    torch.manual_seed(0)
    table = torch.randn(40, 7)
    x = table[torch.randint(0, 40, (5000,))]
    rows, code = found(x)
    assert torch.equal(rows[code], x)
    assert rows.size(0) <= 2 * 40  # rounding may tell equal rows apart


@pytest.mark.parametrize(
    "x",
    [
        torch.randn(2000, 3),
        # Few at first, many later.
        torch.cat([torch.zeros(1000, 3), torch.randn(1000, 3)]),
        torch.zeros(distinct.SAMPLE - 1, 3),
        torch.zeros(2000, 0),
        torch.zeros(2000, 3, 2),
        torch.zeros(2000),
        torch.zeros(2000, 3).half(),
        torch.zeros(2000, 3).long(),
        torch.zeros(2000, 3, requires_grad=True),
        torch.full((2000, 3), float("nan")),
        torch.zeros(2000, 3).to_sparse(),
    ],
    ids=lambda x: f"{x.dtype}-{list(x.shape)}",
)
def test_no_gain(x: Tensor) -> None:
    assert distinct_rows(x) is None


def test_rows_of_one_product_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distinct, "_direction", lambda *_: torch.zeros(3))
    x = torch.eye(3)[torch.randint(0, 3, (2000,))]
    assert distinct_rows(x) is None
    assert found(torch.ones(2000, 3))[0].shape == (1, 3)


def test_traced_and_cast_rows_are_left_alone() -> None:
    seen = []

    def function(x: Tensor) -> Tensor:
        seen.append(distinct_rows(x))
        return 2 * x

    x = torch.zeros(2000, 3)
    torch.compile(function, backend="eager", fullgraph=True)(x)
    torch.vmap(function)(x.unsqueeze(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):  # whose products are not of one type
        function(x)
    assert seen == [None, None, None]


def test_a_compiler_never_asks_for_the_number_of_rows() -> None:
    """Or it would compile again, and `torch.export` refuse a number that may change."""
    counter = torch._dynamo.testing.CompileCounter()
    function = torch.compile(
        lambda x: (distinct_rows(x), 2 * x)[1], backend=counter, dynamic=True, fullgraph=True
    )
    for num_rows in (100, distinct.SAMPLE, 5000):
        function(torch.zeros(num_rows, 3))
    assert counter.frame_count == 1


def test_edges_of_any_integers() -> None:
    torch.manual_seed(0)
    model, x = GMN(3, 8, (8, 8), (8, 3)), torch.eye(3)[torch.randint(0, 3, (700,))]
    edge_index = edges_of("unsorted", 700)
    assert torch.equal(model(x, edge_index.int()), model(x, edge_index))


KINDS = ("unsorted", "parallel", "loops", "one way", "no edges")


def edges_of(kind: str, num_nodes: int, num_edges: int = 900) -> Tensor:
    edge_index = torch.randint(0, num_nodes, (2, num_edges))
    if kind == "parallel":
        return edge_index[:, :100].repeat(1, 9)
    if kind == "loops":
        return edge_index[:1].repeat(2, 1)
    if kind == "one way":
        return edge_index.sort(dim=0).values
    return edge_index[:, :0] if kind == "no edges" else edge_index


def weights_of(width: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """`W`, `b`, `V` and `c`, for rows of 3 and an output of 5."""
    shapes = [(width, 6), (width,), (5, 3 + width), (5,)]
    return [torch.randn(shape, dtype=dtype).div_(3).requires_grad_() for shape in shapes]


def messages_of(code: Tensor, num_rows: int, edge_index: Tensor) -> tuple[Tensor, Tensor]:
    messages = distinct_messages(code, num_rows, edge_index)
    assert messages is not None
    return messages


@pytest.mark.parametrize("kind", KINDS)
def test_messages(kind: str) -> None:
    """Every edge has the pair of its rows, and no pair is there twice or for nothing."""
    torch.manual_seed(0)
    code, edge_index = torch.randint(0, 9, (200,)), edges_of(kind, 200)
    pair, number = messages_of(code, 9, edge_index)
    of_edge = code[edge_index].flip(0)
    assert torch.equal(pair[:, number], of_edge)
    assert torch.equal(pair, of_edge.unique(dim=1))


def test_too_many_messages_are_no_gain() -> None:
    code, all_pairs = torch.arange(40) % 10, torch.cartesian_prod(*[torch.arange(10)] * 2).t()
    most = distinct.PAIRS * 40
    assert distinct_messages(code, 10, all_pairs[:, :most].repeat(1, 2)) is not None
    assert distinct_messages(code, 10, all_pairs[:, : most + 1].repeat(1, 2)) is None
    # As many rows as would make a list of pairs longer than anything else.
    assert distinct_messages(code, 41, edges_of("unsorted", 40)) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("num_rows", [1, 2, 7, 100])
@pytest.mark.parametrize("sorted_by", ["compiled", "added"])
@pytest.mark.parametrize("kind", KINDS)
def test_propagation(
    kind: str,
    sorted_by: str,
    num_rows: int,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Values and gradients, against the operations of a propagation over all nodes."""
    monkeypatch.setattr(adjacent, "SORTED", 0 if sorted_by == "compiled" else 10**9)
    torch.manual_seed(1)
    edge_index, code = edges_of(kind, 150), torch.randint(0, num_rows, (150,))
    x = torch.randn(num_rows, 3, dtype=dtype, requires_grad=True)
    inputs = [x, *weights_of(20, dtype)]
    parts = tuple(inputs[1:3]), tuple(inputs[3:])
    shared = distinct_messages(code, num_rows, edge_index) is not None
    assert shared == (num_rows < 20)
    out = propagate_distinct(x, *parts, edge_index, code)
    expected = literal.propagation(x[code], *inputs[1:], edge_index)
    upstream = torch.randn_like(out)
    found, naive = (
        torch.autograd.grad(o, inputs, upstream, materialize_grads=True) for o in (out, expected)
    )
    tolerance = 1e-5 if dtype == torch.float32 else 1e-10
    for a, b in [(out, expected), *zip(found, naive, strict=True)]:
        scale = max(float(b.detach().abs().max()), 1.0)
        torch.testing.assert_close(a / scale, b / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("num_rows", [3, 9])
def test_derivatives_of_a_propagation(num_rows: int) -> None:
    torch.manual_seed(0)
    code = torch.tensor([1, 0, 1, 1, 0])
    edge_index = torch.randint(0, 5, (2, 12))
    inputs = [torch.randn(num_rows, 3, dtype=torch.float64, requires_grad=True), *weights_of(4)]
    # One row, or most, is no node's.
    assert (distinct_messages(code, num_rows, edge_index) is None) == (num_rows > 3)

    def function(x: Tensor, *weights: Tensor) -> Tensor:
        return propagate_distinct(x, weights[:2], weights[2:], edge_index, code)

    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize("edge", [(200, 0), (0, 200), (-1, 0), (0, -1)])
def test_ids_out_of_range_are_reported(edge: tuple[int, int]) -> None:
    edge_index = torch.tensor(edge).view(2, 1)
    with pytest.raises((IndexError, RuntimeError), match="index"):
        distinct_messages(torch.zeros(200, dtype=torch.long), 1, edge_index)


def test_no_message_is_made_for_an_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adjacent, "SORTED", 0)
    torch.manual_seed(0)
    code, edge_index = torch.randint(0, 4, (100,)), edges_of("unsorted", 100, 9000)
    x = torch.randn(4, 3, requires_grad=True)
    weights = [w.detach().float() for w in weights_of(100)]
    with LargestTensor() as seen:
        out = propagate_distinct(x, weights[:2], weights[2:], edge_index, code)
        out.sum().backward()
    assert seen.numel <= 2 * (9000 + 100)  # the edges themselves, and one for each node
