"""What the tests of the benchmark share."""

from pathlib import Path

import pytest

from helpers.tiny_study import BASELINE, TINY, declare, table
from helpers.tu_files import write_tu


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with the data set TINY."""
    write_tu(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def tiny(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the data set TINY; the study has one run of SimPool and one of a peer."""
    declare(monkeypatch, table(TINY, BASELINE))
    return root
