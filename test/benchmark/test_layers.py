"""The packages of the harness import each other in one direction."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import harness

HARNESS = Path(harness.__file__).parent
#: A package imports from itself and from those before it.
ORDER = ("store", "data", "methods", "training", "study", "report", "speed")
MODULES = sorted(HARNESS.rglob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """The modules that a file imports, at the top or inside of functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_all_packages_are_ordered() -> None:
    assert {path.parent.name for path in MODULES} == {"harness", *ORDER}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(HARNESS)))
def test_imports(path: Path) -> None:
    package = path.relative_to(HARNESS).parts[0]
    below = ORDER[: ORDER.index(package) + 1] if package in ORDER else ()
    for name in imported(path):
        first, *rest = name.split(".")
        assert first != "numba", "Numba is imported in the engine alone"
        assert not name.startswith("torch_geometric_simpool.engine."), "the engine is not public"
        if first == "harness" and rest[0] not in ("command", "errors", "options"):
            assert rest[0] in below
