"""The stored times of the first calls: their format, and that the documentation shows them."""

import json
from pathlib import Path

import pytest

from harness.speed import start_up

ROOT = Path(__file__).resolve().parents[3]
STORED = json.loads((ROOT / "benchmark" / "results" / "start_up.json").read_text())


def test_the_stored_format() -> None:
    assert {"versions", "hardware", "commit", "command", "cases"} == set(STORED)
    assert list(STORED["cases"]) == list(start_up.CASES)
    for case, steps in start_up.CASES.items():
        for way in ("cold", "warm"):
            seconds = STORED["cases"][case][way]
            assert list(seconds) == ["imports", *steps]
            assert all(isinstance(value, float) and value > 0 for value in seconds.values())


def test_the_first_calls_take_at_most_what_is_promised() -> None:
    """Of the stored run, which was on one core of a machine like the users'."""
    cold = STORED["cases"]["unweighted"]["cold"]
    assert cold["imports"] + cold["first top k"] <= 10
    assert cold["first training step"] <= 10


def test_the_documentation_shows_the_stored_table() -> None:
    page = (ROOT / "docs" / "start_up.md").read_text()
    for row in start_up.table(STORED["cases"]):
        assert row in page


@pytest.mark.parametrize("case", start_up.CASES)
def test_cases_run(case: str) -> None:
    assert list(start_up.first_calls(case)) == list(start_up.CASES[case])
