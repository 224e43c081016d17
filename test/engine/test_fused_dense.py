"""The dense operator in one piece: against the plain one, masked and not, differentiated twice."""

import pytest
import torch
from torch import Tensor

from helpers.gradients import assert_same_gradients
from torch_geometric_simpool import dense_sim_pool
from torch_geometric_simpool.engine import fused_dense
from torch_geometric_simpool.engine.fused_dense import fused_dense_pool, plain_dense_pool
from torch_geometric_simpool.functional import pooling

MASKS = {
    "none": None,
    "some": [[1, 1, 1, 1, 0], [1, 0, 1, 0, 0], [1, 1, 1, 1, 1]],
    "empty": [[1, 1, 0, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 0]],
    "all empty": [[0] * 5] * 3,
}


def inputs_of(
    mask: str, num_clusters: int = 4, dtype: torch.dtype = torch.float64
) -> tuple[list[Tensor], Tensor | None]:
    """Features, a directed and signed matrix, logits; padded with zeros as the checks leave it."""
    torch.manual_seed(0)
    x, adj, s = (torch.randn(3, 5, width, dtype=dtype) for width in (2, 5, num_clusters))
    if MASKS[mask] is None:
        return [t.requires_grad_() for t in (x, adj, 2 * s)], None
    real = torch.tensor(MASKS[mask], dtype=torch.bool)
    x[~real], adj[~real], adj.mT[~real] = 0, 0, 0
    return [t.requires_grad_() for t in (x, adj, 2 * s)], real


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("num_clusters", [1, 4])
@pytest.mark.parametrize("mask", list(MASKS))
def test_equals_the_plain_operator(
    mask: str, num_clusters: int, dtype: torch.dtype, tolerance: float
) -> None:
    """Values and gradients, of each output by itself and of all."""
    inputs, real = inputs_of(mask, num_clusters, dtype)
    found, expected = (pool(*inputs, real) for pool in (fused_dense_pool, plain_dense_pool))
    assert_same_gradients(found, expected, inputs, tolerance)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("mask", ["none", "some"])
def test_derivatives(mask: str, wanted: tuple[int, ...]) -> None:
    inputs, real = inputs_of(mask)
    for i, tensor in enumerate(inputs):
        tensor.requires_grad_(i in wanted)

    def function(*given: Tensor) -> tuple[Tensor, ...]:
        outputs = fused_dense_pool(*given, real)
        return tuple(output for output in outputs if output.requires_grad)

    assert torch.autograd.gradcheck(function, inputs)
    assert torch.autograd.gradgradcheck(function, inputs)


def test_logits_that_decide_everything() -> None:
    """Probabilities of zero and one: no logarithm of zero, forward or backward."""
    inputs, _ = inputs_of("none")
    sure = (1000 * inputs[2].detach()).requires_grad_()
    outputs = fused_dense_pool(*inputs[:2], sure, None)
    assert all(torch.isfinite(t).all() for t in outputs)
    assert 0 <= outputs[3] < 1e-10
    gradients = torch.autograd.grad(sum(t.sum() for t in outputs), [*inputs[:2], sure])
    assert all(torch.isfinite(t).all() for t in gradients)


def test_nan_is_not_hidden() -> None:
    inputs, _ = inputs_of("none")
    logits = inputs[2].detach().clone()
    logits[1, 2, 0] = torch.nan
    found, expected = (
        pool(*inputs[:2], logits, None) for pool in (fused_dense_pool, plain_dense_pool)
    )
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, equal_nan=True)
    assert found[3].isnan()
    assert found[4].isnan()


def test_it_is_the_one_that_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, unless types differ or there is nothing."""
    calls: list[int] = []

    def counted(*args: Tensor) -> tuple[Tensor, ...]:
        calls.append(args[0].size(1))
        return fused_dense_pool(*args)

    monkeypatch.setattr(pooling, "fused_dense_pool", counted)
    x, adj, s = (t.detach() for t in inputs_of("none")[0])
    dense_sim_pool(x, adj, s)
    dense_sim_pool(x.float(), adj, s)
    dense_sim_pool(x[:, :0], adj[:, :0, :0], s[:, :0])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        dense_sim_pool(x.float(), adj.float(), s.float())
    assert calls == [5]


def test_nothing_is_kept_without_a_gradient() -> None:
    inputs, real = inputs_of("some")
    outputs = fused_dense._DensePool.apply(*(t.detach() for t in inputs), real)
    assert all(output.grad_fn is None for output in outputs)


def test_backward_under_autocast() -> None:
    """Of a forward pass outside of it."""
    x, adj, s = (t.detach().float().requires_grad_() for t in inputs_of("none")[0])
    out = sum(t.sum() for t in dense_sim_pool(x, adj, s))
    expected = torch.autograd.grad(out, [x, adj, s], retain_graph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = torch.autograd.grad(out, [x, adj, s])
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
