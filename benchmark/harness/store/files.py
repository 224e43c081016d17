"""Reads files, and writes them atomically: a file is complete, or as it was before."""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

#: The name of a temporary file: that of the file to be, and the number of the process.
TEMPORARY = re.compile(r"\.(.+)\.tmp(\d{1,9})(\.\w+)?")


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Calls `write` with a temporary path, then renames that file to `path`.

    Removes what processes that were killed in the middle have left of `path`.
    """
    for left, name, process in temporaries(path.parent):
        if name == path.name and not _runs(process):
            left.unlink(missing_ok=True)
    temporary = path.with_name(f".{path.name}.tmp{os.getpid()}{path.suffix}")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def temporaries(folder: Path) -> Iterator[tuple[Path, str, int]]:
    """The temporary files of a folder, the name of the file that each was to be, its process."""
    for path in folder.iterdir() if folder.is_dir() else ():
        found = TEMPORARY.fullmatch(path.name)
        if found is not None:
            yield path, found[1], int(found[2])


def _runs(process: int) -> bool:
    """Whether a process of this number runs."""
    if os.name == "nt":
        return True  # where `os.kill` ends it
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # that of another user
    return True


def write_text(path: Path, text: str) -> None:
    """Writes a text file."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_json(path: Path, content: Any, indent: Optional[int] = 1) -> None:
    """Writes a JSON file; without `indent` on one line, without spaces."""
    separators = (",", ":") if indent is None else None
    write_text(path, json.dumps(content, indent=indent, separators=separators) + "\n")


def read_json(path: Path) -> Any:
    """Reads a JSON file. What is none is a `ValueError`, also where it is nested too deeply."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
