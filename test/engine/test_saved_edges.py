"""Edges that are changed behind PyTorch's back, between a forward and its backward pass."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from torch_geometric_simpool import sim_pool
from torch_geometric_simpool.models import GMNConv

pytestmark = pytest.mark.usefixtures("engine_mode")


def pooled(x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
    return sim_pool(x, edge_index, x[:, :3], edge_weight=weight)[1].sum()


def convolved(x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
    torch.manual_seed(0)
    return GMNConv(8, 4)(x, edge_index).sum()


def linear(x: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
    torch.manual_seed(0)
    return GMNConv(8, 4, act=False)(x, edge_index).sum()


@pytest.mark.parametrize("function", [pooled, convolved, linear])
@pytest.mark.parametrize("ids", [10**12, -1, 50])
@pytest.mark.parametrize("sort", [False, True])
@pytest.mark.parametrize("row", [0, 1])
def test_ids_out_of_range_are_an_error(
    function: Callable[..., Tensor], ids: int, sort: bool, row: int
) -> None:
    """Not a segmentation fault, nor a sum that is written somewhere."""
    edge_index = torch.randint(0, 50, (2, 200), generator=torch.Generator().manual_seed(1))
    if sort:
        edge_index = edge_index[:, edge_index[row].argsort(stable=True)].contiguous()
    x = torch.rand(50, 8, requires_grad=True)
    weight = torch.rand(200, requires_grad=True)
    out = function(x, edge_index, weight)
    edge_index.data[row].fill_(ids)
    with pytest.raises((RuntimeError, IndexError), match=r"edge_index|index.*out of|out of range"):
        out.backward()


@pytest.mark.parametrize("function", [pooled, convolved])  # of the other, no ids are left
def test_in_a_second_derivative_too(function: Callable[..., Tensor]) -> None:
    edge_index = torch.randint(0, 50, (2, 200))
    x = torch.rand(50, 8, requires_grad=True)
    weight = torch.rand(200, requires_grad=True)
    (grad,) = torch.autograd.grad(function(x, edge_index, weight), x, create_graph=True)
    edge_index.data.fill_(10**12)
    with pytest.raises((RuntimeError, IndexError)):
        (grad**2).sum().backward()
