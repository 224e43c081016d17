"""What all tests share."""

import zlib
from collections import Counter
from collections.abc import Iterator

import pytest
import torch

from helpers.backends import INTERPRETED
from helpers.interpreter import make_fast
from torch_geometric_simpool import engine
from torch_geometric_simpool.engine import dispatch

# The graphs are tiny: a second thread only waits, longer than the work takes on a busy machine.
torch.set_num_threads(1)


#: Of a test with more cases than this, the interpreter of Triton runs some of these: they take
#: a hundred times as long there.
MOST_INTERPRETED = 24


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where kernels are interpreted, leaves out cases of tests that have many, evenly."""
    if not INTERPRETED:
        return

    def name_of(item: pytest.Item) -> str:
        return item.nodeid.partition("[")[0]

    items[:] = [item for item in items if "triton" in item.nodeid]
    cases = Counter(map(name_of, items))
    some = [
        zlib.crc32(item.nodeid.encode()) % cases[name_of(item)] < MOST_INTERPRETED for item in items
    ]
    config.hook.pytest_deselected(items=[i for i, kept in zip(items, some) if not kept])
    items[:] = [item for item, kept in zip(items, some) if kept]


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
