"""Loads the scripts in `examples/` for tests."""

import runpy
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def load(name: str) -> dict[str, Any]:
    """Returns the names that a script defines, without running it."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))
