"""A program that a kill harms: it takes half a file for a whole one."""

from pathlib import Path


def careless(folder: Path) -> None:
    """Writes in two steps what it takes for complete when it is there."""
    if not (folder / "result").exists():
        (folder / "result").write_text("half")
        (folder / "other").touch()
        (folder / "result").write_text("whole")
