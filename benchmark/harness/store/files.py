"""Writes files atomically: a file is complete, or as it was before."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Calls `write` with a temporary path, then renames that file to `path`."""
    temporary = path.with_name(f".{path.name}.tmp{os.getpid()}{path.suffix}")
    try:
        write(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes a text file."""
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def write_json(path: Path, content: Any, indent: Optional[int] = 1) -> None:
    """Writes a JSON file; without `indent` on one line, without spaces."""
    separators = (",", ":") if indent is None else None
    write_text(path, json.dumps(content, indent=indent, separators=separators) + "\n")
