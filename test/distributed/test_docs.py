"""The examples of the docstrings run."""

import doctest

import pytest

from torch_geometric_simpool.distributed import graph, run, store


@pytest.mark.parametrize("module", [graph, run, store])
def test_examples(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 0
    assert result.failed == 0
