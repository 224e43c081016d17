"""What is done with assignments in one pass: against the formulas, and what PyTorch derives."""

import numpy as np
import pytest
import torch

from torch_geometric_simpool.engine import products
from torch_geometric_simpool.engine.assignments import sums, through_softmax

COUNTS = [[3], [0, 7, 0, 40, 1, 0], [0, 0], []]
DTYPES = [(torch.float32, 1e-5), (torch.float64, 1e-12)]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "PART", 7)


@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("num_clusters", [1, 5, 32])
def test_sums(
    num_clusters: int,
    counts: list[int],
    dtype: torch.dtype,
    tolerance: float,
    num_threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: num_threads)
    s = torch.rand(sum(counts), num_clusters, dtype=dtype)
    s[: len(s) // 2, 0] = 0
    log_s = s.clamp(min=torch.finfo(dtype).tiny).log()
    of = products.parts(np.array(counts, np.int64))
    total, entropy = sums(s, log_s, of, len(counts))
    assert (total.shape, entropy.shape) == ((len(counts), num_clusters), (len(counts),))
    for b, own in enumerate(s.double().split(counts)):
        torch.testing.assert_close(
            total[b].double(), own.sum(dim=0), rtol=tolerance, atol=tolerance
        )
        expected = torch.special.entr(own).sum()
        torch.testing.assert_close(entropy[b].double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("num_clusters", [1, 5, 32])
def test_through_softmax(
    num_clusters: int,
    counts: list[int],
    dtype: torch.dtype,
    tolerance: float,
    num_threads: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a sum over the entries of `S`, those of its sums over each graph, and the entropies."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: num_threads)
    logits = torch.randn(sum(counts), num_clusters, dtype=torch.float64, requires_grad=True)
    exact = logits.softmax(dim=-1)
    change = torch.randn_like(exact)
    of_sum = torch.randn(len(counts), num_clusters, dtype=torch.float64)
    of_entropy = torch.randn(len(counts), dtype=torch.float64)
    loss = (change * exact).sum()
    for b, own in enumerate(exact.split(counts)):
        loss = loss + (of_sum[b] * own.sum(dim=0)).sum()
        loss = loss + of_entropy[b] * torch.special.entr(own).sum()
    (expected,) = torch.autograd.grad(loss, logits)

    s = exact.detach().to(dtype)
    given = change.to(dtype)
    of = products.parts(np.array(counts, np.int64))
    found = through_softmax(given, s, s.log(), of_sum.to(dtype), of_entropy.to(dtype), of)
    assert found is given
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)


def test_an_entry_of_zero_has_no_gradient() -> None:
    s = torch.tensor([[1.0, 0.0]])
    log_s = torch.tensor([[0.0, -87.0]])
    of = products.parts(np.array([1]))
    found = through_softmax(torch.ones(1, 2), s, log_s, torch.ones(1, 2), torch.ones(1), of)
    assert torch.equal(found, torch.zeros(1, 2))
