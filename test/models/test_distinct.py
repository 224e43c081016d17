"""Rows that are the same: found where they are few, and nothing else changed."""

import pytest
import torch
from torch import Tensor

from torch_geometric_simpool.models import distinct
from torch_geometric_simpool.models.distinct import distinct_rows


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


def test_traced_rows_are_left_alone() -> None:
    seen = []

    def function(x: Tensor) -> Tensor:
        seen.append(distinct_rows(x))
        return 2 * x

    x = torch.zeros(2000, 3)
    torch.compile(function, backend="eager", fullgraph=True)(x)
    torch.vmap(function)(x.unsqueeze(0))
    assert seen == [None, None]
