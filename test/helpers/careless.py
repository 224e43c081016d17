"""Programs that the campaign must find: one that a kill harms, and one that hangs."""

import threading
from pathlib import Path


def careless(folder: Path) -> None:
    """Writes in two steps what it takes for complete when it is there: half a file, say."""
    if not (folder / "result").exists():
        (folder / "result").write_text("half")
        (folder / "other").touch()
        (folder / "result").write_text("whole")


def hanging(folder: Path) -> None:
    """Never ends."""
    threading.Event().wait()
