"""Settings and hooks of all tests."""

import zlib
from collections import Counter

import pytest
import torch

from helpers.backends import INTERPRETED
from helpers.interpreter import make_fast

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


@pytest.fixture(autouse=INTERPRETED)
def fast_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where kernels in Triton are interpreted."""
    make_fast(monkeypatch)
