"""What all tests share."""

from collections.abc import Iterator

import pytest
import torch

from helpers.backends import INTERPRETED
from helpers.interpreter import make_fast
from torch_geometric_simpool import engine
from torch_geometric_simpool.engine import dispatch

# The graphs are tiny: a second thread only waits, longer than the work takes on a busy machine.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def seeded() -> None:
    """So that a failure comes back, alone or in the whole run."""
    torch.manual_seed(20200611)


@pytest.fixture(params=["fast", "plain"])
def engine_mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Runs a test on the fast paths, whatever the size, and on the plain ones."""
    monkeypatch.setattr(dispatch, "MIN_MESSAGES", 0)
    monkeypatch.setattr(dispatch, "MIN_SEGMENT", 0)
    if request.param == "fast":
        yield "fast"
    else:
        with engine.disabled():
            yield "plain"


@pytest.fixture(autouse=INTERPRETED)
def fast_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where kernels in Triton are interpreted."""
    make_fast(monkeypatch)
