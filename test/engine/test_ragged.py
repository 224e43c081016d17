"""Products over the rows of each graph: against a loop over graphs, in both layouts."""

import pytest
import torch
from torch import Tensor

from torch_geometric_simpool.engine import ragged
from torch_geometric_simpool.engine.ragged import ragged_product


@pytest.fixture(params=["compiled", "blocks"], autouse=True)
def layout(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ragged, "COMPILED", 0 if request.param == "compiled" else 1 << 62)


def one_by_one(left: Tensor, right: Tensor, batch: Tensor, batch_size: int) -> Tensor:
    return torch.stack([left[batch == b].t() @ right[batch == b] for b in range(batch_size)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", [[5], [3, 0, 70, 1], [0, 2, 0], [33] * 9, [0, 0]])
def test_equals_graph_after_graph(sizes: list[int], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    inputs = [torch.randn(sum(sizes), width, dtype=dtype, requires_grad=True) for width in (3, 4)]
    rest = (batch, len(sizes))
    found, expected = ragged_product(*inputs, *rest), one_by_one(*inputs, *rest)
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {}
    torch.testing.assert_close(found, expected, **tolerance)
    upstream = torch.randn_like(found)
    for a, b in zip(
        *(torch.autograd.grad(out, inputs, upstream) for out in (found, expected)), strict=True
    ):
        torch.testing.assert_close(a, b, **tolerance)


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
def test_derivatives(wanted: tuple[bool, bool]) -> None:
    torch.manual_seed(0)
    batch = torch.tensor([0, 0, 0, 2, 2])
    given = [torch.randn(5, 2, dtype=torch.float64, requires_grad=need) for need in wanted]

    def function(left: Tensor, right: Tensor) -> Tensor:
        return ragged_product(left, right, batch, 3)

    assert torch.autograd.gradcheck(function, given)
    assert torch.autograd.gradgradcheck(function, given)
