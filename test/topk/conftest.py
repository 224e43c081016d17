"""Settings of all tests of the top k."""

import pytest

from helpers.backends import BACKENDS


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Runs a test in each backend, with tensors on a CPU."""
    return str(request.param)
