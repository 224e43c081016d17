"""Stored runs keep their keys: with another key, a run would be repeated."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.study.experiments import NESTED
from harness.study.queue import asked_by
from harness.study.run import Run
from harness.study.run_files import read_run

STUDY = Path(__file__).parents[3] / "benchmark" / "results" / "study"
STORED = sorted(STUDY.glob("*.json"))


def digest(keys: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(keys)).encode()).hexdigest()


def nested_runs(splits: str) -> Iterator[Run]:
    """All runs of protocol 'nested': those to choose from, and the final ones of any choice."""
    for nested in NESTED.values():
        for method in nested.methods:
            for fold in range(nested.base.folds):
                for run in nested.selection(method, fold, splits).values():
                    yield run
                    yield from nested.final(run)


def test_there_are_stored_runs() -> None:
    assert len(STORED) >= 465


def test_stored_runs_have_the_names_of_their_settings() -> None:
    """One test for all: a campaign may store a run while the processes of pytest collect tests."""
    wrong = []
    for path in STORED:
        try:
            settings = json.loads(path.read_text())["settings"]
            assert Run.from_settings(settings).key == path.stem
            assert read_run(path)["settings"] == settings
        except Exception as error:  # so that the file is named
            wrong.append((path.name, error))
    assert not wrong


def test_every_stored_run_is_declared() -> None:
    settings = [json.loads(path.read_text())["settings"] for path in STORED]
    splits = {s["splits"] for s in settings} - {None}
    assert len(splits) == 2  # published ones, a file for each data set
    declared = {run.key for run in asked_by()}
    declared |= {run.key for name in splits for run in nested_runs(name)}
    assert {path.stem for path in STORED} <= declared


def test_declared_keys_are_unchanged() -> None:
    """A new experiment changes number and digest. Check that it only adds keys."""
    paper, nested = {run.key for run in asked_by()}, {run.key for run in nested_runs("seeded")}
    assert (len(paper), digest(paper)) == (
        1348,
        "35a353f91a9fe6f3347bc6547333c696f40a85cc13048bf07b8ba6c68d13681f",
    )
    assert (len(nested), digest(nested)) == (
        1920,
        "758e01c8a75d8a968b31d75f055e523c71c6638e1cbf006095b32e4b28c1896b",
    )
