"""Lists of the edges of each row, and what is summed by them; the rest with the propagation."""

import pytest
import torch
from torch import Tensor

from torch_geometric_simpool.cpu import edges


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges, "_recent", ())


def check(found: edges.Lists, row: Tensor, num_rows: int) -> None:
    assert found.ptr.tolist() == [0, *row.bincount(minlength=num_rows).cumsum(0).tolist()]
    assert found.edge.tolist() == row.argsort(stable=True).tolist()


@pytest.mark.parametrize("row", [[], [0], [2, 2, 0, 1, 2, 0], [0, 0, 1, 3], [3, 2, 1, 0]], ids=str)
def test_lists(row: list[int]) -> None:
    ids = torch.tensor(row, dtype=torch.long)
    for _ in range(2):  # made, and kept
        check(edges.lists(ids, 4), ids, 4)


def test_ids_of_any_stride() -> None:
    ids = torch.randint(0, 9, (40, 2))
    check(edges.lists(ids[:, 1], 9), ids[:, 1], 9)


def test_lists_are_told_by_values() -> None:
    """Those of a copy are the same ones; those of a tensor that has changed are not."""
    row = torch.tensor([2, 0, 1, 2])
    found = edges.lists(row, 3)
    assert edges.lists(row.clone(), 3) is found
    check(edges.lists(row, 5), row, 5)
    row[0] = 1
    check(edges.lists(row, 3), row, 3)
    row[0] = 2
    assert edges.lists(row, 3) is found


def test_only_a_few_small_lists_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges, "KEPT", 6)
    for length in range(1, 9):
        edges.lists(torch.zeros(length, dtype=torch.long), 1)
    edges.lists(torch.zeros(1, dtype=torch.long), 100)
    assert [known.size for known, _ in edges._recent] == [5, 4, 3, 2]


def numbers(num_rows: int, width: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Whole ones, so that sums are exact in any order; zeros among them."""
    return torch.randint(-3, 4, (num_rows, width)).to(dtype)


def expected(target: Tensor, source: Tensor, grad: Tensor, edge_index: Tensor) -> list[Tensor]:
    """Message by message: the sums, and the gradients of both parts of a message."""
    out_of, into = edge_index
    message = target[into] + source[out_of]
    passed = grad[into] * (message > 0)
    zeros = torch.zeros_like(target)
    return [
        zeros.index_add(0, into, message.relu()),
        zeros.index_add(0, into, passed),
        zeros.index_add(0, out_of, passed),
    ]


def found(target: Tensor, source: Tensor, grad: Tensor, edge_index: Tensor) -> list[Tensor]:
    out_of, into = edge_index
    by_target, by_source = edges.lists(into, len(target)), edges.lists(out_of, len(source))
    return [
        edges.add_relu(target, source, out_of, by_target),
        edges.grad_of_target(target, source, grad, out_of, by_target),
        edges.grad_of_source(target, source, grad, into, by_source),
    ]


def same(these: list[Tensor], those: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(these, those, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("width", [1, 7, 32])
@pytest.mark.parametrize("num_nodes", [1, 2, 30])  # with lists longer and shorter than a part
def test_sums_are_those_of_the_messages(num_nodes: int, width: int, dtype: torch.dtype) -> None:
    given = [numbers(num_nodes, width, dtype) for _ in range(3)]
    edge_index = torch.randint(0, num_nodes, (2, 300))
    assert same(found(*given, edge_index), expected(*given, edge_index))


def test_rows_that_lie_apart() -> None:
    """Views of wider matrices, transposed ones, and a gradient that is the same for all."""
    wide, edge_index = numbers(30, 50), torch.randint(0, 30, (2, 90))
    for target in (wide[:, 3:8], wide.t().contiguous().t()[:, :5]):
        for grad in (wide[:, 20:25], wide[:1, :5].expand(30, 5), wide[:1, :1].expand(30, 5)):
            given = (target, wide[:, 40:45], grad)
            assert same(found(*given, edge_index), expected(*given, edge_index))


def test_over_what_is_read() -> None:
    """The gradient of the target may take the place of what reaches the sums."""
    target, source, grad = (numbers(30, 7) for _ in range(3))
    out_of, into = edge_index = torch.randint(0, 30, (2, 200))
    _, of_target, of_source = expected(target, source, grad, edge_index)
    room = torch.full((30, 20), torch.nan, dtype=torch.float64)
    by_target, by_source = edges.lists(into, 30), edges.lists(out_of, 30)
    found = edges.grad_of_source(target, source, grad, into, by_source, room[:, 5:12])
    assert found.data_ptr() == room[:, 5:12].data_ptr()
    assert torch.equal(room[:, 5:12], of_source)
    assert room[:, :5].isnan().all()
    assert room[:, 12:].isnan().all()
    assert edges.grad_of_target(target, source, grad, out_of, by_target, grad) is grad
    assert torch.equal(grad, of_target)


def test_what_nothing_gets_through_to_is_zero() -> None:
    """Whatever reaches the sum: a message that was cut off has no gradient."""
    target = torch.tensor([[-1.0, 1.0], [0.0, 0.0]])
    grad = torch.tensor([[torch.inf, torch.inf], [torch.nan, torch.nan]])
    ids = torch.tensor([0, 0])
    out = edges.grad_of_target(target, torch.zeros(2, 2), grad, ids, edges.lists(ids, 2))
    assert out.tolist() == [[0, torch.inf], [0, 0]]
