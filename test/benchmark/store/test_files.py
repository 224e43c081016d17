"""Files are written atomically."""

from pathlib import Path

import pytest

from harness.store.files import write_json, write_whole


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
