"""Lists of the edges of each row, and what is summed by them."""

import numpy as np
import pytest
import torch
from torch import Tensor

from torch_geometric_simpool.engine import edges, team


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
    _, of_target, _ = expected(target, source, grad, edge_index)
    by_target = edges.lists(into, 30)
    assert edges.grad_of_target(target, source, grad, out_of, by_target, grad) is grad
    assert torch.equal(grad, of_target)


def test_what_nothing_gets_through_to_is_zero() -> None:
    """Whatever reaches the sum: a message that was cut off has no gradient."""
    target = torch.tensor([[-1.0, 1.0], [0.0, 0.0]])
    grad = torch.tensor([[torch.inf, torch.inf], [torch.nan, torch.nan]])
    ids = torch.tensor([0, 0])
    out = edges.grad_of_target(target, torch.zeros(2, 2), grad, ids, edges.lists(ids, 2))
    assert out.tolist() == [[0, torch.inf], [0, 0]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("threads_of", ["PyTorch", "the package"])
def test_any_number_of_threads(
    threads_of: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, with rows without edges."""
    if threads_of == "the package":
        monkeypatch.setattr(team, "parallel", lambda: None)
    elif team.parallel() is None:
        pytest.skip("PyTorch has no OpenMP here that could be shared")
    monkeypatch.setattr(team, "PER_THREAD", 1)
    blocks = []
    run = team.run

    def spy(loops: team.Loops, tensors: list[Tensor], bounds: np.ndarray, work: int) -> None:
        assert (bounds[0], bounds[-1]) == (0, 230)
        blocks.append(len(set(bounds)) - 1)
        run(loops, tensors, bounds, work)

    monkeypatch.setattr(team, "run", spy)
    torch.manual_seed(0)
    edge_index = torch.randint(0, 200, (2, 1200))
    given = [torch.randn(230, 37, dtype=dtype) for _ in range(3)]
    several = []
    for number in (1, 2, 5):
        monkeypatch.setattr(torch, "get_num_threads", lambda number=number: number)
        several.append(found(*given, edge_index))
    assert all(same(several[0], others) for others in several[1:])
    # Enough for each thread to have some, and to wait for no other for long.
    assert min(blocks[3:6]) >= 8
    assert min(blocks[6:]) >= 20
