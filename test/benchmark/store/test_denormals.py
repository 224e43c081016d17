"""Denormal numbers are zeros where that is asked for, and nowhere else."""

import pytest
import torch

from harness.store.denormals import denormals_are_flushed, flushed_denormals

flushes = torch.set_flush_denormal(True)
torch.set_flush_denormal(False)
pytestmark = pytest.mark.skipif(not flushes, reason="this CPU cannot flush denormal numbers")


@pytest.mark.parametrize("before", [False, True])
def test_only_inside(before: bool) -> None:
    small = torch.tensor([1e-30])
    torch.set_flush_denormal(before)
    try:
        with flushed_denormals():
            assert denormals_are_flushed()
            assert (small * 1e-10).item() == 0
        assert denormals_are_flushed() == before
        assert ((small * 1e-10).item() == 0) == before
    finally:
        torch.set_flush_denormal(False)


def test_not_inside_of_another() -> None:
    with flushed_denormals():
        with flushed_denormals(flushed=False):
            assert not denormals_are_flushed()
        assert denormals_are_flushed()


def test_each_call_of_a_function() -> None:
    inside = flushed_denormals()(denormals_are_flushed)
    assert [inside(), denormals_are_flushed(), inside()] == [True, False, True]


@flushed_denormals()
def fails() -> None:
    raise ZeroDivisionError


def test_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        fails()
    assert not denormals_are_flushed()
