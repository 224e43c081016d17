"""Which numbers, rows and messages are the same: against Python's own dictionaries."""

import pytest
import torch

from torch_geometric_simpool.engine import duplicates


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("different", [1, 2, 30, 500])
def test_codes(different: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    number = torch.randn(different, dtype=dtype)[torch.randint(0, different, (1000,))]
    known: dict[float, int] = {}
    expected = [known.setdefault(n, len(known)) for n in number.tolist()]
    # As many as there are is just few enough: the table is as full as it gets.
    found = duplicates.codes(number, len(known))
    assert found is not None
    code, first = found
    assert code.tolist() == expected
    assert first.tolist() == [expected.index(n) for n in range(len(known))]
    assert duplicates.codes(number, len(known) - 1) is None


def test_numbers_of_any_stride() -> None:
    number = torch.tensor([[1.0, 5.0], [2.0, 5.0], [1.0, 6.0]])
    found = duplicates.codes(number[:, 0], 3)
    assert found is not None
    assert [tensor.tolist() for tensor in found] == [[0, 1, 0], [0, 1]]


def test_what_equals_nothing_is_one_number_but_no_copy() -> None:
    """Numbers are told apart by their bits; rows by their values."""
    number = torch.tensor([torch.nan, torch.nan, 0.0, -0.0])
    found = duplicates.codes(number, 4)
    assert found is not None
    assert found[0].tolist() == [0, 0, 1, 2]
    first = torch.tensor([0])
    for x, copies in (([[torch.nan]], False), ([[0.0], [-0.0]], True), ([[0.0], [1e-45]], False)):
        rows = torch.tensor(x)
        assert duplicates.are_copies(rows, torch.zeros(len(x), dtype=torch.long), first) == copies


def test_the_last_number_of_a_row_counts() -> None:
    x = torch.zeros(50, 33)
    code, first = torch.zeros(50, dtype=torch.long), torch.tensor([0])
    assert duplicates.are_copies(x, code, first)
    assert duplicates.are_copies(x.t().contiguous().t(), code, first)
    x[49, 32] = 1
    assert not duplicates.are_copies(x, code, first)


@pytest.mark.parametrize("num_rows", [1, 3, 12])
def test_messages(num_rows: int) -> None:
    torch.manual_seed(0)
    code, edge_index = torch.randint(0, num_rows, (40,)), torch.randint(0, 40, (90, 2)).t()
    of_edge = [(int(code[target]), int(code[source])) for source, target in edge_index.t().tolist()]
    pairs = sorted(set(of_edge))
    found = duplicates.messages(code, num_rows, edge_index, len(pairs))
    assert found is not None
    assert found[0].t().tolist() == [list(pair) for pair in pairs]
    assert found[1].tolist() == [pairs.index(pair) for pair in of_edge]
    assert duplicates.messages(code, num_rows, edge_index, len(pairs) - 1) is None
