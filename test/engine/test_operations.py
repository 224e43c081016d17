"""The engine's operations as nodes of a graph: what PyTorch asks of them, and their derivatives."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from torch_geometric_simpool.functional.messages import sum_messages
from torch_geometric_simpool.functional.segment import segment_matmul, segment_matmul_t, spmm

pytestmark = pytest.mark.usefixtures("engine_mode")

BATCH = torch.tensor([0, 0, 0, 2, 2])
#: With a self-loop, a parallel edge and a node without edges.
EDGES = torch.tensor([[0, 1, 2, 3, 3, 0, 0], [1, 2, 0, 3, 0, 1, 2]])


def rows(*size: int) -> Tensor:
    return torch.randn(*size, dtype=torch.float64, requires_grad=True)


def arguments(name: str) -> tuple[Any, ...]:
    row, col = EDGES
    return {
        "spmm": lambda: (row, col, rows(5, 3), None, 5),
        "spmm, weighted": lambda: (row, col, rows(5, 3), rows(7), 5),
        "segment_matmul": lambda: (rows(5, 2), rows(3, 2, 4), BATCH, 3),
        "segment_matmul_t": lambda: (rows(5, 2), rows(5, 4), BATCH, 3),
        "sum_messages": lambda: (rows(5, 3), rows(5, 3), None, EDGES),
        "sum_messages_backward": lambda: (rows(5, 3), rows(5, 3), rows(5, 3), EDGES),
    }[name]()


DIRECT: dict[str, Callable[..., Tensor]] = {
    "spmm": spmm,
    "spmm, weighted": spmm,
    "segment_matmul": segment_matmul,
    "segment_matmul_t": segment_matmul_t,
    "sum_messages": sum_messages,
}
NAMES = (*DIRECT, "sum_messages_backward")


def operation(name: str) -> Any:
    return getattr(torch.ops.simpool, name.split(",")[0])


@pytest.mark.parametrize("name", NAMES)
def test_what_pytorch_asks_of_an_operation(name: str) -> None:
    """Its schema, its fake results, its gradients, and how it is traced with dynamic sizes."""
    torch.library.opcheck(operation(name), arguments(name))


@pytest.mark.parametrize("name", NAMES)
def test_derivatives(name: str) -> None:
    given = arguments(name)
    inputs = [arg for arg in given if isinstance(arg, Tensor) and arg.requires_grad]

    def function(*values: Tensor) -> Tensor:
        rest = iter(values)
        return operation(name)(
            *(next(rest) if isinstance(a, Tensor) and a.requires_grad else a for a in given)
        )

    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize("name", DIRECT)
def test_an_operation_is_the_function(name: str) -> None:
    given = arguments(name)
    assert torch.equal(operation(name)(*given), DIRECT[name](*given))


def test_the_gradients_of_messages_are_those_of_autograd() -> None:
    """With NaN, which counts as positive."""
    target, source = rows(5, 3), rows(5, 3)
    with torch.no_grad():
        target[1, 1] = torch.nan
    grad = torch.randn(5, 3, dtype=torch.float64)
    out = sum_messages(target, source, None, EDGES)
    expected = torch.autograd.grad(out, [target, source], grad)
    with torch.no_grad():
        found = operation("sum_messages_backward")(grad, target, source, EDGES)
    torch.testing.assert_close(found, expected)


def test_a_graph_that_is_run_under_autocast_keeps_its_types() -> None:
    left = torch.randn(5, 3)
    expected = operation("segment_matmul_t")(left, left, BATCH, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(operation("segment_matmul_t")(left, left, BATCH, 3), expected)
