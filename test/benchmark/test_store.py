"""The record of a run, and the file of results."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from harness.command import BenchmarkError
from harness.run import Drawing, Result, Run
from harness.store import Store

RUN = Run("motifs", "motifs", cleaned=False, node_features="labels", order="fiedler").filled()
RESULT = Result(
    RUN,
    data={"name": "motifs", "checksum": "abc", "mean_num_edges": 0.0},
    sizes={"train": 90, "validation": 10},
    hardware={"device": "cpu", "cpus": 2, "threads": 1},
    history={"loss": [1.5, 0.5], "val_accuracy": [0.25, 1.0]},
    locality={
        **dict.fromkeys(("edges_inside", "edges_by_chance", "connected", "clusters"), 0.5),
        "distance_ratio": None,
        "evenness": 1.0,
    },
    drawn=[Drawing(1, [[0, 1]], [0, 3], [2, 0])],
    test_probabilities=[[0.25, 0.75]],
    best_val_accuracy=1.0,
)


def test_results_are_read_as_they_were_stored(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    other = Result(replace(RUN, fold=1), data=RESULT.data, error="diverged")
    with Store(path) as store:
        store.add(RESULT)
        store.add(other)
    assert list(Store(path).results.values()) == [RESULT, other]
    with Store(path) as store:
        assert list(store.results) == [RUN, other.run]
    frame = pd.read_parquet(path)
    assert frame.groupby("method").best_val_accuracy.max()["simpool"] == 1.0


def test_runs_on_other_data_of_the_same_name_are_refused(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.parquet") as store:
        store.add(RESULT)
        with pytest.raises(BenchmarkError, match="--out"):
            store.add(Result(replace(RUN, fold=1), data={"checksum": "other"}))
        assert list(store.results) == [RUN]


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    with (
        Store(tmp_path / "runs.parquet"),
        pytest.raises(BenchmarkError, match="--out"),
        Store(tmp_path / "runs.parquet"),
    ):
        pass


@pytest.mark.parametrize("content", [b"", b"{}", b"PAR1" + b"\0" * 20])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "runs.parquet"
    path.write_bytes(content)
    with pytest.raises(BenchmarkError, match=r"runs\.parquet"):
        Store(path)


def test_unread_settings_do_not_tell_runs_apart() -> None:
    run = replace(RUN, method="baseline", k=7, order="bfs").filled()
    assert run == replace(RUN, method="baseline").filled()
    assert run.k is None
    assert run.order == "given"
    assert RUN.k == 15
