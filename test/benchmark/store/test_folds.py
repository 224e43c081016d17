import json
import platform
from pathlib import Path
from typing import Optional

import pytest
import torch

from harness.errors import BenchmarkError
from harness.store.allocator import KEEP_MEMORY
from harness.store.files import write_whole
from harness.store.locks import LockedFolder
from harness.store.surroundings import surroundings
from harness.training.curves import CURVES, CURVES_OF_LEVELS
from harness.training.folds_file import read, save


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text("before")

    def break_off(temporary: Path) -> None:
        temporary.write_text("half a fi")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, break_off)
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]


SETTINGS = {"k": 3, "lam": 0.5, "gru": False, "epochs": 2, "folds": 3}
DATA = {"name": "TINY", "checksum": "abc"}


def folds() -> list[dict]:
    return [
        {
            "fold": i,
            "best_val_accuracy": i / 2,
            "best_epoch": 1,
            "seconds_per_epoch": 0.1,
            "history": {name: [0.0, 1.0] for name in (*CURVES, *CURVES_OF_LEVELS)},
        }
        for i in range(3)
    ]


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    assert read(tmp_path, SETTINGS, DATA) == []
    save(tmp_path, {"settings": SETTINGS, "data": DATA, "folds": folds()})
    assert read(tmp_path, SETTINGS, DATA) == folds()


def test_other_data_of_the_same_name_stop(tmp_path: Path) -> None:
    save(tmp_path, {"settings": SETTINGS, "data": DATA, "folds": folds()})
    with pytest.raises(BenchmarkError, match=r"data\.checksum: 'abc' there, 'abd' now"):
        read(tmp_path, SETTINGS, {**DATA, "checksum": "abd"})


def damages() -> dict[str, dict]:
    there = {"settings": SETTINGS, "data": DATA, "folds": folds(), "mean": 0.0}
    out = {
        "settings are a list": {**there, "settings": []},
        "folds are a dictionary": {**there, "folds": {}},
        "no data": {k: v for k, v in there.items() if k != "data"},
        "a fold twice": {**there, "folds": folds()[:1] * 2},
    }
    for name, value in (
        ("fold", "0"),
        ("fold", 3),
        ("best_val_accuracy", None),
        ("best_epoch", "1"),
        ("seconds_per_epoch", None),
        ("history", {}),
        ("history", {name: [0.0] for name in (*CURVES, *CURVES_OF_LEVELS)}),
    ):
        changed = folds()
        changed[1][name] = value
        out[f"{name} is {value}"] = {**there, "folds": changed}
    for name in folds()[0]:
        changed = folds()
        del changed[1][name]
        out[f"no {name}"] = {**there, "folds": changed}
    return out


@pytest.mark.parametrize("kind", damages())
def test_damaged_files_are_named(tmp_path: Path, kind: str) -> None:
    text = json.dumps(damages()[kind])
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(BenchmarkError, match=r"results\.json is damaged"):
        read(tmp_path, SETTINGS, DATA)
    assert (tmp_path / "results.json").read_text() == text


def test_a_folder_is_held_by_one_run(tmp_path: Path) -> None:
    other = LockedFolder(tmp_path / "out")
    with (
        LockedFolder(tmp_path / "out"),
        pytest.raises(BenchmarkError, match="another run is writing"),
    ):
        other.__enter__()
    with LockedFolder(tmp_path / "out"):
        assert list((tmp_path / "out").iterdir()) == []


def test_surroundings_name_the_commit() -> None:
    found = surroundings(torch.device("cpu"))
    assert found["versions"]["torch"] == torch.__version__
    # None outside a repository, as in an unpacked archive.
    assert found["commit"] is None or len(found["commit"].removesuffix("-dirty")) == 40


@pytest.mark.parametrize("libc", ["glibc", ""])
@pytest.mark.parametrize("missing", [None, *KEEP_MEMORY])
def test_surroundings_say_whether_memory_is_kept(
    libc: str, missing: Optional[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "libc_ver", lambda: (libc, "2.36"))
    for name, value in KEEP_MEMORY.items():
        monkeypatch.setenv(name, "7" if name == missing else value)
    kept = libc == "glibc" and missing is None
    hardware = surroundings(torch.device("cpu"))["hardware"]
    assert hardware.get("memory") == ("kept" if kept else None)
