"""L_E and L_C against plain loops, by hand, and unmoved by what they must not see."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from helpers import oracle
from torch_geometric_simpool import cluster_loss, entropy_loss

LOSSES = [(entropy_loss, oracle.entropy_loss), (cluster_loss, oracle.cluster_loss)]
both = pytest.mark.parametrize(("loss", "naive"), LOSSES, ids=["entropy", "cluster"])


Loss = Callable[..., Tensor]


def assignment(*shape: int) -> Tensor:
    return (3 * torch.randn(*shape, dtype=torch.float64)).softmax(dim=-1)


def padded(graphs: list[Tensor], size: int, poison: float = 0.0) -> tuple[Tensor, Tensor]:
    s = torch.full((len(graphs), size, graphs[0].size(1)), poison, dtype=torch.float64)
    mask = torch.zeros(len(graphs), size, dtype=torch.bool)
    for b, graph in enumerate(graphs):
        s[b, : graph.size(0)] = graph
        mask[b, : graph.size(0)] = True
    return s, mask


def test_by_hand() -> None:
    """Two nodes surely in cluster 0, one between 1 and 2, none in 3."""
    s = torch.tensor([[1.0, 0, 0, 0], [1, 0, 0, 0], [0, 0.5, 0.5, 0]])
    assert entropy_loss(s).item() == pytest.approx(math.log(2) / 3)
    shares = [2 / 3, 1 / 6, 1 / 6]
    uneven = math.log(4) + sum(q * math.log(q) for q in shares)
    assert cluster_loss(s).item() == pytest.approx(uneven)


def test_extremes_are_those_of_the_specification() -> None:
    """The sign that the paper prints would swap the last two."""
    even = torch.eye(4)
    lumped = torch.tensor([[1.0, 0, 0, 0]]).repeat(4, 1)
    undecided = torch.full((4, 4), 0.25)
    assert entropy_loss(even) == 0
    assert entropy_loss(lumped) == 0
    assert entropy_loss(undecided).item() == pytest.approx(math.log(4))
    assert cluster_loss(even).item() == pytest.approx(0, abs=1e-7)
    assert cluster_loss(undecided).item() == pytest.approx(0, abs=1e-7)
    assert cluster_loss(lumped).item() == pytest.approx(math.log(4))


@both
@pytest.mark.parametrize("sizes", [[1], [5], [3, 1, 7], [2] * 9, [1, 40]])
def test_equals_plain_loops(loss: Loss, naive: Loss, sizes: list[int]) -> None:
    graphs = [assignment(n, 3) for n in sizes]
    exact = [naive(s.tolist()) for s in graphs]
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    sparse = loss(torch.cat(graphs), batch)
    assert sparse.shape == ()
    assert sparse.item() == pytest.approx(sum(exact) / len(exact))
    per_graph = loss(torch.cat(graphs), batch, reduction="none")
    assert per_graph.tolist() == pytest.approx(exact)

    s, mask = padded(graphs, max(sizes))
    assert loss(s, mask=mask).item() == pytest.approx(sum(exact) / len(exact))
    assert loss(s, mask=mask, reduction="none").tolist() == pytest.approx(exact)


@both
@pytest.mark.parametrize("poison", [0.0, 1.0, -5.0, float("nan"), float("inf")])
def test_padding_does_not_matter(loss: Loss, naive: Loss, poison: float) -> None:
    """Neither how much of it there is nor what it holds, forward and backward."""
    graphs = [assignment(n, 4) for n in (3, 6, 1)]
    exact = sum(naive(s.tolist()) for s in graphs) / len(graphs)
    for size in (6, 7, 50):
        s, mask = padded(graphs, size, poison)
        s.requires_grad_()
        value = loss(s, mask=mask)
        assert value.item() == pytest.approx(exact)
        (gradient,) = torch.autograd.grad(value, s)
        assert torch.isfinite(gradient).all()
        assert (gradient[~mask] == 0).all()


@both
def test_real_rows_need_not_come_first(loss: Loss, naive: Loss) -> None:
    s = assignment(1, 6, 3)
    mask = torch.tensor([[False, True, True, False, True, False]])
    assert loss(s, mask=mask).item() == pytest.approx(naive(s[mask].tolist()))
    assert loss(s[0], mask=mask[0]).item() == pytest.approx(naive(s[mask].tolist()))


@both
def test_the_rest_of_the_batch_does_not_matter(loss: Loss, naive: Loss) -> None:
    """One graph's loss is the same alone, twice, and beside a giant; a batch is the mean."""
    small, giant = assignment(4, 3), assignment(500, 3)
    alone = loss(small).item()
    beside = loss(torch.cat([small, giant]), torch.tensor([0] * 4 + [1] * 500), reduction="none")
    assert beside[0].item() == pytest.approx(alone)
    twice = loss(torch.cat([small, small]), torch.tensor([0] * 4 + [1] * 4))
    assert twice.item() == pytest.approx(alone)
    mean = loss(torch.cat([small, giant]), torch.tensor([0] * 4 + [1] * 500))
    assert mean.item() == pytest.approx((naive(small.tolist()) + naive(giant.tolist())) / 2)


@both
def test_graphs_without_nodes_do_not_count(loss: Loss, naive: Loss) -> None:
    s, batch = assignment(5, 3), torch.tensor([1, 1, 1, 3, 3])
    exact = [naive(s[:3].tolist()), naive(s[3:].tolist())]
    for batch_size in (4, 6):
        value = loss(s, batch, batch_size=batch_size)
        assert value.item() == pytest.approx(sum(exact) / 2)
        per_graph = loss(s, batch, batch_size=batch_size, reduction="none").tolist()
        rest = [0.0] * (batch_size - 4)
        assert per_graph == pytest.approx([0.0, exact[0], 0.0, exact[1], *rest])
    mask = torch.zeros(2, 5, dtype=torch.bool)
    mask[1] = True
    dense = loss(s.expand(2, 5, 3), mask=mask)
    assert dense.item() == pytest.approx(naive(s.tolist()))


@both
def test_nothing_at_all(loss: Loss, naive: Loss) -> None:
    """Zero, and the gradient of zero."""
    for shape, settings in [
        ((0, 3), {}),
        ((0, 3), {"batch": torch.zeros(0, dtype=torch.long), "batch_size": 2}),
        ((2, 0, 3), {}),
        ((0, 4, 3), {}),
        ((2, 4, 3), {"mask": torch.zeros(2, 4, dtype=torch.bool)}),
    ]:
        s = torch.zeros(shape, requires_grad=True)
        value = loss(s, **settings)  # type: ignore[arg-type]
        assert value.item() == 0
        (gradient,) = torch.autograd.grad(value, s)
        assert (gradient == 0).all()


@both
def test_gradient(loss: Loss, naive: Loss) -> None:
    logits = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    batch = torch.tensor([0, 0, 1, 1, 1, 1, 3])
    assert torch.autograd.gradcheck(lambda z: loss(z.softmax(-1), batch, batch_size=4), (logits,))
    dense = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True] * 4, [True, False, True, False]])
    assert torch.autograd.gradcheck(lambda z: loss(z.softmax(-1), mask=mask), (dense,))


@both
@pytest.mark.parametrize("size", [200.0, 1e4])
def test_saturated_logits_have_finite_gradients(loss: Loss, naive: Loss, size: float) -> None:
    """One-hot rows and empty clusters: `0 log 0`, and its derivative."""
    logits = torch.tensor([[size, -size, 0], [size, 0, -size], [size, -size, -size]])
    logits.requires_grad_()
    value = loss(logits.softmax(dim=-1))
    assert torch.isfinite(value)
    (gradient,) = torch.autograd.grad(value, logits)
    assert torch.isfinite(gradient).all()


@both
def test_one_hot_rows_have_finite_gradients(loss: Loss, naive: Loss) -> None:
    s = torch.eye(3, 5).requires_grad_()
    (gradient,) = torch.autograd.grad(loss(s), s)
    assert torch.isfinite(gradient).all()


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_narrow_types_count_large_graphs(loss: Loss, naive: Loss, dtype: torch.dtype) -> None:
    """A sum of ones in bfloat16 never leaves 256."""
    s = torch.tensor([[0.75, 0.25]], dtype=dtype).repeat(3000, 1)
    exact = naive([[0.75, 0.25]])
    assert loss(s).item() == pytest.approx(exact, abs=0.02)
    assert loss(s.unsqueeze(0)).item() == pytest.approx(exact, abs=0.02)


@both
def test_rounding_makes_no_loss_negative(loss: Loss, naive: Loss) -> None:
    for n in range(1, 40):
        for k in (2, 3, 7, 10):
            even = torch.full((n, k), 1 / k)
            certain = torch.eye(k).repeat(n, 1)
            for s in (even, certain):
                assert 0 <= loss(s).item() <= math.log(k) + 1e-5


@both
def test_one_cluster(loss: Loss, naive: Loss) -> None:
    """Nothing to decide."""
    assert loss(torch.ones(5, 1)).item() == 0


@both
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_large_graphs_are_counted_under_autocast(
    loss: Loss, naive: Loss, dtype: torch.dtype
) -> None:
    s = torch.rand(70_000, 8).softmax(dim=-1)
    expected = loss(s)
    with torch.autocast("cpu", dtype=dtype):
        found = loss(s)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected)
