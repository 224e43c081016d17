"""The device that is not there notices what it is for."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import torch
from torch import Tensor

from helpers.pretend import PretendDevice, values_of

X = torch.arange(6.0).view(3, 2)
ROWS = torch.tensor([0, 2, 0])


@pytest.mark.parametrize(
    "mix",
    [
        lambda x, i: x + torch.ones(3, 2),
        lambda x, i: x.index_select(0, torch.tensor([1])),
        lambda x, i: X[i],
        lambda x, i: torch.cat([x, torch.zeros(1, 2)]),
        lambda x, i: x[[0, 1]],  # which PyTorch copies to a GPU
    ],
)
def test_two_devices_do_not_mix(mix: Callable[..., Tensor]) -> None:
    with PretendDevice() as device, pytest.raises(RuntimeError, match=r"devices|numbers"):
        mix(*device.put((X, ROWS)))


def test_numpy_does_not_read_it() -> None:
    with PretendDevice() as device, pytest.raises(TypeError, match="not on the CPU"):
        device.put(X).numpy()


@pytest.mark.parametrize(
    "wait",
    [
        lambda x, i: x.sum().item(),
        lambda x, i: float(x[0, 0]),
        lambda x, i: bool((x > 1).any()),
        lambda x, i: i.tolist(),
        lambda x, i: x.cpu(),
        lambda x, i: x[x > 1],
        lambda x, i: x.nonzero(),
        lambda x, i: x.masked_select(x > 1),
        lambda x, i: torch.equal(x, x),
        lambda x, i: torch.unique(i),
        lambda x, i: torch.bincount(i),
        lambda x, i: i.repeat_interleave(i),
        lambda x, i: torch.tensor([1.0], device=x.device),
        lambda x, i: torch.ones(3, 2).to(x.device),
        lambda x, i: x.index_put((x > 1,), x[0]),
    ],
)
def test_waiting_is_noted(wait: Callable[..., Any]) -> None:
    with PretendDevice() as device:
        x, index = device.put((X, ROWS))
        assert device.syncs == []
        with suppress(RuntimeError):  # one of them fails, after the operation was seen
            wait(x, index)
    assert device.syncs != []


def add_in_place(x: Tensor, index: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    out.index_add_(0, index, x)
    return out


@pytest.mark.parametrize(
    ("add", "varies"),
    [
        (lambda x, i: x.index_add(0, i, x), True),
        (lambda x, i: x.index_add(0, i[:2], x[:2]), False),  # each place once
        (lambda x, i: i.index_add(0, i, i), False),  # integers
        (add_in_place, True),
        (lambda x, i: x.scatter_add(0, i.unsqueeze(1).expand(3, 2), x), True),
        (lambda x, i: x.index_copy(0, i, x), True),
        (lambda x, i: x.cumsum(0), True),
        (lambda x, i: i.cumsum(0), False),
        (lambda x, i: torch.autograd.grad(x.index_select(0, i).sum(), x), True),
        (lambda x, i: torch.autograd.grad(x[i].sum(), x), False),  # which PyTorch sorts
    ],
)
def test_sums_in_varying_order_are_noted(add: Callable[..., Any], varies: bool) -> None:
    with PretendDevice() as device:
        add(*device.put((X.clone().requires_grad_(), ROWS)))
    assert bool(device.unordered) == varies


def test_views_are_views() -> None:
    with PretendDevice() as device:
        x = device.put(X)
        x[1] = 7
        x += 1
        first, second = values_of([x, torch.zeros(2, device=x.device)])
    assert first.tolist() == [[1, 2], [8, 8], [5, 6]]
    assert second.tolist() == [0, 0]
    with pytest.raises(AssertionError, match="not on the device"):
        values_of(X)
