"""What the tests of the study share."""

from pathlib import Path

import pytest

from helpers.tiny_study import BASELINE, TINY, declare, table


@pytest.fixture
def tiny(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the data set TINY; the study has one run of SimPool and one of a peer."""
    declare(monkeypatch, table(TINY, BASELINE))
    return root
