"""What is a network that has diverged, and what is an error of its own."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.training.evaluation import DivergedError, predict


class Scores(torch.nn.Module):
    """Infinite numbers, in some container."""

    def __init__(self, value: float, container: str) -> None:
        super().__init__()
        self.value, self.container = value, container

    def forward(self, x: Tensor) -> Any:
        out = torch.full_like(x, self.value)
        return {"tensor": out, "dict": {"out": out}, "tuple": (None, [out])}[self.container]


class Network(torch.nn.Module):
    """A layer, a sparse result, and an error after both."""

    def __init__(self, scores: torch.nn.Module, message: str) -> None:
        super().__init__()
        self.scores, self.message = scores, message
        self.sparse = torch.nn.Identity()

    def forward(self, x: Tensor, *_: Any, **__: Any) -> Any:
        self.sparse(x.to_sparse())
        self.scores(x)
        raise ValueError(self.message)


def fails(scores: torch.nn.Module, message: str = "an index is out of range") -> type[Exception]:
    batch = SimpleNamespace(
        x=torch.ones(3, 2),
        edge_index=torch.empty(2, 0, dtype=torch.long),
        batch=torch.zeros(3, dtype=torch.long),
        edge_attr=None,
        num_graphs=1,
    )
    with pytest.raises(Exception) as caught:  # noqa: PT011
        predict(Network(scores, message), batch)
    return caught.type


@pytest.mark.parametrize("container", ["tensor", "dict", "tuple"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_layer_returns_infinite_numbers(value: float, container: str) -> None:
    assert fails(Scores(value, container)) is DivergedError


def test_the_error_says_so() -> None:
    """Where the numbers are no layer's: what is computed in between overflows."""
    message = "`adj` must be finite, got 3 NaN or infinite values"
    assert fails(Scores(0.0, "tensor"), message) is DivergedError


@pytest.mark.parametrize("value", [1.0, -float("inf")])
def test_other_errors_stay(value: float) -> None:
    """Minus infinity may be a mask before a softmax."""
    assert fails(Scores(value, "tensor")) is ValueError
