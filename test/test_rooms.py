"""Rooms import each other without circles, and only one room imports an optional package."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "torch_geometric_simpool"
#: The only room that may import a package.
ROOM_OF = {"numba": "topk", "llvmlite": "topk", "triton": "topk", "tgp": "tgp"}


def imported_modules(path: Path) -> set[str]:
    """Returns the full names of the modules, and of names in modules, that a file imports."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None, f"{path} has a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def imports_by_room() -> dict[str, set[str]]:
    """Returns the modules that each folder and each file of the package imports."""
    rooms: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        rooms.setdefault(room, set()).update(imported_modules(path))
    return rooms


def test_rooms_form_no_circle() -> None:
    modules = imports_by_room()
    graph: dict[str, set[str]] = {room: set() for room in modules}
    for room in graph:
        for name in modules[room]:
            package, target, *_ = [*name.split("."), ""]
            if package == PACKAGE.name:
                graph[room].add(target if target in modules else "__init__")
        graph[room].discard(room)
    assert "transforms" in graph["layer"]
    TopologicalSorter(graph).prepare()  # raises a CycleError that shows the circle
    assert not [room for room, targets in graph.items() if targets & {"__init__", "reference"}]


def test_optional_packages_stay_in_their_room() -> None:
    for room, names in imports_by_room().items():
        packages = {name.partition(".")[0] for name in names}
        assert {ROOM_OF[name] for name in packages & set(ROOM_OF)} <= {room}
        if room == "reference":
            assert packages <= {"torch", "math", "typing", "collections", PACKAGE.name}
