"""Who may import whom, and how small `reference` has to be: by parsing the source."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.source_tree import count_code_lines, imported_modules

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "torch_geometric_simpool"

#: A room imports from itself and from rooms of a lower level. The package itself, its
#: `__init__`, is the top: it may import every room, and no room imports it.
LEVEL = {
    "utils": 0,
    "engine": 1,
    "functional": 2,
    "transforms": 3,
    "distributed": 3,
    "layer": 4,
    "models": 5,
    "analysis": 5,
    "tgp": 5,
    "conftest": 6,
    "warmup": 6,
    "package": 6,
    "benchmark": 7,
    "examples": 7,
}
#: All that a room without `engine` may know of it.
DOORS = {f"{PACKAGE}.engine", f"{PACKAGE}.engine.dispatch"}
COMPILERS = {"numba", "llvmlite", "triton"}
OF_REFERENCE = {"torch", "math", "typing", "collections"}
CODE_LINES_OF_REFERENCE = 40


def room_of(parts: tuple[str, ...]) -> str:
    """The room of a module, by the parts of its name."""
    if parts[0] != PACKAGE:
        return parts[0]
    return parts[1] if len(parts) > 1 and parts[1] != "__init__" else "package"


def violation(room: str, name: str) -> str | None:
    """What is wrong with the import of the module `name` in a room, if anything."""
    parts = tuple(name.split("."))
    if parts[0] in COMPILERS and room != "engine":
        return f"{parts[0]} is imported in engine alone"
    if parts[0] == "tgp" and room not in ("tgp", "benchmark", "examples"):
        return "tgp is imported in the room of its name, benchmark and examples alone"
    if room == "reference":
        own = parts[:2] == (PACKAGE, "reference")
        return None if own or parts[0] in OF_REFERENCE else "reference imports torch alone"
    if parts[0] != PACKAGE:
        return None
    target = room_of(parts)
    if target == "reference":
        return None if room == "benchmark" else "tests and benchmarks alone import reference"
    if target == room:
        return None
    # To switch the engine off is all that it is for elsewhere.
    if target == "engine" and room in ("benchmark", "examples") and name != f"{PACKAGE}.engine":
        return f"{room} imports nothing of engine but `disabled`"
    if target == "engine" and name not in DOORS:
        return "the doors of engine are its __init__ and engine.dispatch"
    return None if LEVEL[target] < LEVEL[room] else f"{room} does not import {target}"


def violations(root: Path) -> Iterator[str]:
    """All of the tree below `root`: file, module and rule."""
    for top in (PACKAGE, "benchmark", "examples"):
        for file in sorted((root / top).rglob("*.py")):
            path = file.relative_to(root)
            for name in sorted(set(imported_modules(root, file))):
                wrong = violation(room_of(path.with_suffix("").parts), name)
                if wrong is not None:
                    yield f"{path} imports {name}: {wrong}"


def test_rooms_import_what_they_may() -> None:
    found = list(violations(ROOT))
    assert not found, "\n".join(found)


def test_every_room_has_a_level() -> None:
    rooms = {room_of(file.relative_to(ROOT).with_suffix("").parts) for file in package_files()}
    assert rooms == set(LEVEL) - {"benchmark", "examples"} | {"reference"}


def package_files() -> list[Path]:
    return list((ROOT / PACKAGE).rglob("*.py"))


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("utils/checks.py", f"from {PACKAGE}.functional import topk"),
        ("utils/checks.py", "import numba"),
        ("utils/checks.py", f"import {PACKAGE}"),
        ("engine/fused.py", f"from {PACKAGE}.functional.losses import entropy_loss"),
        ("engine/fused.py", f"def late():\n    from {PACKAGE}.functional import losses"),
        ("engine/fused.py", f"from {PACKAGE} import functional"),
        ("engine/topk/rows.py", "from ...functional import losses"),
        ("functional/pooling.py", f"from {PACKAGE}.engine import fused"),
        ("functional/pooling.py", f"from {PACKAGE}.engine.fused import pool"),
        ("functional/pooling.py", f"from {PACKAGE}.reference import sim_pool"),
        ("functional/pooling.py", f"from {PACKAGE}.layer import SimPool"),
        ("layer.py", f"from {PACKAGE}.models.gmn import GMN"),
        ("transforms/precompute.py", f"from {PACKAGE}.layer import SimPool"),
        ("models/gmn.py", f"from {PACKAGE}.analysis.locality import locality"),
        ("models/gmn.py", "from tgp.poolers import get_pooler"),
        ("transforms/inputs.py", f"from {PACKAGE}.tgp.inputs import read_edges"),
        ("tgp/select.py", f"from {PACKAGE}.models.gmn import GMNConv"),
        ("models/gmn.py", "def late():\n    from llvmlite import ir"),
        ("analysis/locality.py", f"from {PACKAGE} import SimPool"),
        ("reference/topk.py", "import numpy"),
        ("reference/topk.py", f"from {PACKAGE}.functional.topk import topk_similarity"),
        ("reference/topk.py", f"from {PACKAGE} import SimPool"),
        ("../benchmark/harness/speed.py", f"import {PACKAGE}.engine.dispatch"),
        ("../benchmark/harness/speed.py", "from numba import njit"),
        ("../examples/train.py", f"from {PACKAGE} import reference"),
    ],
)
def test_a_forbidden_import_is_found(tmp_path: Path, path: str, line: str) -> None:
    """In a tree of files where everything else is as it should be."""
    tree(tmp_path, "functional/losses.py", "engine/fused.py", "engine/dispatch.py")
    file = tmp_path / PACKAGE / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(line)
    (found,) = violations(tmp_path)
    assert found.startswith(f"{file.resolve().relative_to(tmp_path)} imports ")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("engine/fused.py", f"import numba\nfrom {PACKAGE}.engine import dispatch"),
        ("engine/topk/rows.py", "from .. import fused\nfrom ...utils import checks"),
        ("functional/pooling.py", f"from {PACKAGE}.engine import disabled, dispatch"),
        ("functional/pooling.py", f"from {PACKAGE}.engine.dispatch import sim_pool"),
        ("analysis/locality.py", f"import numpy\nfrom {PACKAGE}.functional.losses import entropy"),
        (
            "tgp/select.py",
            f"import tgp.select\nfrom {PACKAGE}.functional.losses import entropy",
        ),
        ("reference/topk.py", f"import math\nfrom {PACKAGE}.reference.losses import entropy"),
        ("__init__.py", f"from {PACKAGE}.functional.losses import entropy"),
        ("../benchmark/harness/speed.py", f"from {PACKAGE} import SimPool, reference"),
        ("../benchmark/harness/speed.py", f"from {PACKAGE}.engine import disabled"),
        ("../benchmark/harness/speed.py", f"from {PACKAGE} import engine"),
        ("../examples/train.py", f"import numpy\nfrom {PACKAGE}.functional import losses"),
    ],
)
def test_an_allowed_import_is_not_found(tmp_path: Path, path: str, line: str) -> None:
    tree(tmp_path, "functional/losses.py", "engine/fused.py", "engine/dispatch.py")
    file = tmp_path / PACKAGE / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(line)
    assert not list(violations(tmp_path))


def tree(root: Path, *paths: str) -> None:
    """A package of empty files, with a folder for every room."""
    for room in (*LEVEL, "reference"):
        (root / PACKAGE / room).mkdir(parents=True)
    for folder in ("benchmark", "examples"):
        (root / folder).mkdir()
    for path in paths:
        (root / PACKAGE / path).write_text("")


@pytest.mark.parametrize(
    "path", sorted((ROOT / PACKAGE / "reference").glob("*.py")), ids=lambda path: path.name
)
def test_reference_is_small(path: Path) -> None:
    assert count_code_lines(path) <= CODE_LINES_OF_REFERENCE


def test_code_lines(tmp_path: Path) -> None:
    """Docstrings and comments are none; a string over two lines and a comment at its end are."""
    file = tmp_path / "one.py"
    file.write_text('"""Doc\nstring."""\n\n# no\nx = """a\nb"""  # yes\n\n\ndef f():\n    "doc"\n')
    assert count_code_lines(file) == 3


def test_functional_loads_no_numba() -> None:
    """It waits for the call that needs it. PyG itself imports it where it is installed."""
    program = f"""
import builtins

real_import = builtins.__import__

def checked_import(name, globals=None, *rest):
    importer = (globals or {{}}).get("__name__") or ""
    if name.split(".")[0] == "numba" and importer.startswith({PACKAGE!r}):
        raise AssertionError(f"{{importer}} imports {{name}}")
    return real_import(name, globals, *rest)

builtins.__import__ = checked_import
import {PACKAGE}.functional
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
