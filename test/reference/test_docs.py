"""The example in the docstring of `reference`, which a newcomer reads first."""

import doctest

from torch_geometric_simpool import reference


def test_example() -> None:
    result = doctest.testmod(reference)
    assert result.attempted > 5
    assert result.failed == 0
