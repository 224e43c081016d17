"""Locks keep processes apart."""

import select
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from harness.errors import BenchmarkError
from harness.store.locks import LockedFolder, fcntl, locked_data


def test_a_folder_is_locked_by_one_process(tmp_path: Path) -> None:
    other = LockedFolder(tmp_path / "out")
    with (
        LockedFolder(tmp_path / "out"),
        pytest.raises(BenchmarkError, match="another run is writing"),
    ):
        other.__enter__()
    with LockedFolder(tmp_path / "out"):
        assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.skipif(fcntl is None, reason="no locks on this system")
def test_a_locked_folder_has_no_half_written_files(tmp_path: Path) -> None:
    """Nobody else writes to it, so they are of processes that were killed."""
    for name in (".results.json.tmp1.json", ".mine", "results.json"):
        (tmp_path / name).write_text("left")
    with LockedFolder(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {".mine", "results.json"}


@pytest.mark.skipif(fcntl is None, reason="no locks on this system")
def test_data_are_locked_by_one_process(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from harness.store.locks import locked_data
print("ready", flush=True)
with locked_data(Path(sys.argv[2])):
    print("in", flush=True)
"""
    root = tmp_path / "not" / "there"
    command = [sys.executable, "-c", program, str(Path(harness.__file__).parents[1]), str(root)]
    with locked_data(root):
        other = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        assert select.select([other.stdout], [], [], 1)[0] == []
        with locked_data(tmp_path / "another"):
            pass
    assert other.communicate()[0] == b"in\n"
    assert not root.exists()
