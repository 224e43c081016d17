from pathlib import Path

import pytest
import torch

from results import read, save, surroundings, write_whole


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


def test_what_is_saved_is_read_back(tmp_path: Path) -> None:
    settings = {"k": 3, "lam": 0.5, "gru": False}
    folds = [{"fold": i, "best_val_accuracy": i / 2} for i in range(3)]
    assert read(tmp_path, settings) == []
    save(tmp_path, {"settings": settings, "folds": folds})
    assert read(tmp_path, settings) == folds


def test_surroundings_name_the_commit() -> None:
    found = surroundings(torch.device("cpu"))
    assert found["versions"]["torch"] == torch.__version__
    # None outside a repository, as in an unpacked archive.
    assert found["commit"] is None or len(found["commit"].removesuffix("-dirty")) == 40
