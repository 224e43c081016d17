"""From clusters back to nodes, and which clusters there are."""

from typing import Any

import pytest
import torch
from torch_geometric.utils import to_dense_batch

from helpers.graphs import FLAVORS, draw_all, union
from torch_geometric_simpool import SimPool, cluster_mask, lift, sim_pool


def test_sparse_equals_one_graph_after_another_and_dense() -> None:
    graph, batch = union(draw_all(0))
    batch_size = len(FLAVORS) + 1
    s = torch.rand(graph.num_nodes, 3, dtype=torch.float64)
    x = torch.randn(batch_size, 3, 2, dtype=torch.float64)
    lifted = lift(x, s, batch)
    for b in range(batch_size):
        torch.testing.assert_close(lifted[batch == b], s[batch == b] @ x[b])
    dense, mask = to_dense_batch(s, batch, fill_value=torch.nan, batch_size=batch_size)
    torch.testing.assert_close(lift(x, dense, mask=mask)[mask], lifted)
    assert (lift(x, dense, mask=mask)[~mask] == 0).all()


def test_one_graph() -> None:
    s, x = torch.rand(5, 3), torch.randn(3, 2)
    for of_one in (x, x[None]):
        torch.testing.assert_close(lift(of_one, s), s @ x)
    torch.testing.assert_close(lift(x, s[None]), (s @ x)[None])


@pytest.mark.parametrize("batch_size", [0, 2])
def test_no_nodes(batch_size: int) -> None:
    s, x = torch.zeros(0, 3, requires_grad=True), torch.zeros(batch_size, 3, 2, requires_grad=True)
    lifted = lift(x, s, torch.zeros(0, dtype=torch.long))
    assert lifted.shape == (0, 2)
    lifted.sum().backward()
    assert x.grad is not None
    assert (x.grad == 0).all()


def test_gradient() -> None:
    batch = torch.tensor([0, 0, 0, 2, 2])
    s = torch.rand(5, 3, dtype=torch.float64, requires_grad=True)
    x = torch.randn(3, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s, x: lift(x, s, batch), (s, x))
    assert torch.autograd.gradgradcheck(lambda s, x: lift(x, s, batch), (s, x))


def test_round_trip_of_a_hard_assignment() -> None:
    """Lifting sizes of clusters tells every node the size of its own."""
    logits = 1e4 * torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 1], [0, 1]])
    pooled, *_ = sim_pool(torch.ones(5, 1), torch.zeros(2, 0, dtype=torch.long), logits)
    assert lift(pooled, logits.softmax(-1)).flatten().tolist() == [2, 2, 3, 3, 3]


def test_compiles() -> None:
    batch = torch.tensor([0, 0, 1])
    s, x = torch.rand(3, 2), torch.randn(2, 2, 4)
    compiled = torch.compile(lift, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, s, batch, batch_size=2), lift(x, s, batch))


def test_clusters_that_count() -> None:
    """As many as there are nodes, the fullest first, and of equal ones the first."""
    s = torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    batch = torch.tensor([0, 1, 3, 3])
    expected = [[False, True, False], [True, False, False], [False] * 3, [False, True, True]]
    assert cluster_mask(s, batch).tolist() == expected
    dense, mask = to_dense_batch(s, batch, fill_value=torch.nan)
    assert cluster_mask(dense, mask=mask).tolist() == expected
    assert cluster_mask(torch.rand(7, 3)).all()
    assert cluster_mask(torch.rand(2, 2, 3)).sum(dim=1).tolist() == [2, 2]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_counts_what_its_numbers_say(dtype: torch.dtype) -> None:
    # Sums of four or five, some of which round to one number in half precision.
    s = torch.rand(99, 9, 64, generator=torch.Generator().manual_seed(0)).to(dtype)
    assert torch.equal(cluster_mask(s), cluster_mask(s.double()))
    batch = torch.arange(99).repeat_interleave(9)
    assert torch.equal(cluster_mask(s.flatten(0, 1), batch), cluster_mask(s.double()))


def test_the_mask_serves_the_next_layer() -> None:
    batch = torch.tensor([0, 0, 0, 0, 1])
    out = SimPool(torch.nn.Linear(2, 3), features="node")(
        torch.randn(5, 2), torch.tensor([[0, 1, 2], [1, 2, 3]]), batch
    )
    mask = cluster_mask(out.s, batch)
    assert mask.sum(dim=1).tolist() == [3, 1]
    deeper = SimPool(torch.nn.Linear(2, 2), features="node")(out.x, adj=out.adj, mask=mask)
    assert (deeper.s[~mask] == 0).all()
    assert lift(deeper.x, deeper.s).shape == (2, 3, 2)


@pytest.mark.parametrize(
    ("function", "given", "named", "message"),
    [
        (lift, (torch.rand(2, 3, 4), torch.rand(5, 2)), {}, r"`batch_size` must be 1"),
        (lift, (torch.rand(4), torch.rand(5, 2)), {}, r"`x` must have shape .*got \[4\]"),
        (
            lift,
            (torch.rand(2, 3, 4), torch.rand(5, 3)),
            {},
            r"`batch_size` must be 1",
        ),
        (lift, (torch.rand(2, 3, 4), torch.rand(3, 5, 3)), {}, r"`x` must have shape \[3, 3, F\]"),
        (
            lift,
            (torch.rand(2, 3, 4), torch.rand(5, 3)),
            {"batch": torch.tensor([0, 0, 1, 1, 2])},
            r"`batch` must hold graph ids below",
        ),
        (cluster_mask, (torch.rand(5),), {}, r"`s` must have shape .*got \[5\]"),
        (cluster_mask, (torch.rand(1, 5, 2),), {"batch_size": 1}, r"`batch_size` must be None"),
    ],
)
def test_what_they_refuse(function: Any, given: tuple, named: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function(*given, **named)
