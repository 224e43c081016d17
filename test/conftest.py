"""Settings and hooks of all tests."""

import zlib
from collections import Counter

import pytest
import torch

from helpers.backends import INTERPRETED
from helpers.interpreter import make_fast

# The graphs are tiny. On a busy machine, waiting for a second thread takes longer than the work.
torch.set_num_threads(1)


#: Triton's interpreter runs at most this many cases of a test, because they take a hundred times as
#: long in it.
MOST_INTERPRETED = 24


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out evenly spaced cases of tests with many cases if kernels are interpreted."""
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
    """Seeds each test, so that a failing test also fails alone."""
    torch.manual_seed(20200611)


@pytest.fixture(autouse=INTERPRETED)
def fast_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes Triton's interpreter fast if kernels are interpreted."""
    make_fast(monkeypatch)
