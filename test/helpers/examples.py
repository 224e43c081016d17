"""The scripts in `examples/`, as the tests run them."""

import runpy
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))


def load(name: str) -> dict[str, Any]:
    """What a script defines; it is not run."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))
