"""Files are written atomically."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.store.files import temporaries, write_json, write_text, write_whole


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


def test_json_with_and_without_spaces(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_json(path, {"a": [1, 0.5]})
    assert path.read_text() == '{\n "a": [\n  1,\n  0.5\n ]\n}\n'
    write_json(path, {"a": [1, 0.5]}, indent=None)
    assert path.read_text() == '{"a":[1,0.5]}\n'


def test_what_killed_processes_have_left_is_removed(tmp_path: Path) -> None:
    """That of processes that run, of other files, and files of others are kept."""
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    kept = {
        f".plot.png.tmp{os.getppid()}.png",
        f".other.png.tmp{ended.pid}.png",
        ".plot.png.tmp.png",
        ".plot.png.tmp12345678901.png",
        "plot.png.tmp",
    }
    for name in (*kept, f".plot.png.tmp{ended.pid}.png"):
        (tmp_path / name).write_text("left")
    assert len(list(temporaries(tmp_path))) == 3
    write_text(tmp_path / "plot.png", "new")
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "plot.png"}
    assert list(temporaries(tmp_path / "none")) == []
