"""Lists of the edges of each row; what is done by them is tested with the propagation."""

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
