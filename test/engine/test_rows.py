"""Rows taken and added up in the order of the index: the form for a GPU, here on a CPU."""

import pytest
import torch
from torch import Tensor

from helpers.pretend import PretendDevice
from torch_geometric_simpool.engine import rows
from torch_geometric_simpool.functional.rows import sum_rows, take_rows

INDEX = torch.tensor([3, 0, 3, 3, 1, 5, 0])


@pytest.mark.parametrize("shape", [(7,), (7, 3), (7, 2, 3)], ids=str)
def test_they_are_the_plain_ones(shape: tuple[int, ...]) -> None:
    """With empty rows; integers, so that sums are exact."""
    x = torch.randint(-9, 9, shape).double()
    assert torch.equal(rows.sum_rows(None, x, INDEX, 6), sum_rows(x, INDEX, 6))
    assert torch.equal(rows.take_rows(None, x, INDEX), take_rows(x, INDEX))


def test_derivatives() -> None:
    x = torch.randn(7, 2, dtype=torch.float64, requires_grad=True)

    def summed(x: Tensor) -> Tensor:
        return rows.sum_rows(None, x, INDEX, 6).square()

    def taken(x: Tensor) -> Tensor:
        return rows.take_rows(None, x, INDEX).square()

    for function in (summed, taken):
        assert torch.autograd.gradcheck(function, x)
        assert torch.autograd.gradgradcheck(function, x)


def test_sums_are_in_the_order_of_the_rows() -> None:
    """So they round as a loop does."""
    x = torch.randn(1000, 2)
    index = torch.randint(0, 3, (1000,))
    found = rows.sum_rows(None, x, index, 3)
    expected = torch.zeros(3, 2)
    for row, i in zip(x, index, strict=True):
        expected[i] += row
    assert torch.equal(found, expected)


@pytest.mark.parametrize("num_rows", [0, 4])
def test_nothing_to_add(num_rows: int) -> None:
    with PretendDevice() as device:
        x, index = device.put((torch.ones(0, 3), torch.ones(0).long()))
        assert sum_rows(x, index, num_rows).shape == (num_rows, 3)
        assert take_rows(device.put(torch.ones(2, 3)), index).shape == (0, 3)


def test_half_precision_stays_as_it_is() -> None:
    with PretendDevice() as device:
        x, index = device.put((torch.ones(7, 3).bfloat16().requires_grad_(), INDEX))
        out = sum_rows(x, index, 6)
        out.sum().backward()
    assert out.dtype == x.grad.dtype == torch.bfloat16
