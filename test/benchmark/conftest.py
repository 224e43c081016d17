"""What the tests of the benchmark share."""

from pathlib import Path

import pytest

from helpers.tu_files import write_tu


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with the data set TINY."""
    write_tu(tmp_path / "data")
    return tmp_path / "data"
