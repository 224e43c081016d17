"""The files and the metadata that are distributed."""

import re
import subprocess
import sys
from email import message_from_string
from pathlib import Path

import pytest

import torch_geometric_simpool

ROOT = Path(__file__).parents[1]
FOLDERS = ("benchmark", "docs", "examples", "test", "torch_geometric_simpool")
FILES = {"LICENSE", "Makefile", "README.md", "constraints.txt", "pyproject.toml"}
#: Folders of caches and of built pages.
WRITTEN = {"__pycache__", "_build", "generated"}
LOCK_FILES = sorted(ROOT.glob(".ci/lock/*.txt"))

pytest.importorskip("setuptools", reason="needs setuptools")


@pytest.fixture(scope="module")
def egg_info(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the metadata of a source distribution, written to a temporary folder."""
    base = tmp_path_factory.mktemp("metadata")
    program = "import setuptools; setuptools.setup()"
    command = [sys.executable, "-c", program, "-q", "egg_info", "--egg-base", str(base)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (folder,) = base.iterdir()
    return folder


def test_the_source_distribution_holds_all_files(egg_info: Path) -> None:
    packed = set((egg_info / "SOURCES.txt").read_text(encoding="utf-8").splitlines())
    present = {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not WRITTEN & set(path.parts) and not path.name.startswith(".")
    }
    assert not (present | FILES) - packed
    assert not [name for name in packed if WRITTEN & set(Path(name).parts)]


@pytest.mark.skipif(not LOCK_FILES, reason="source distributions have no lock files")
def test_lock_files_hold_the_required_packages_in_the_pinned_versions(egg_info: Path) -> None:
    """A change of pyproject.toml or constraints.txt needs `make lock`."""
    lines = [line for path in LOCK_FILES for line in path.read_text().splitlines()[1:]]
    locked = dict(re.match(r"([a-z0-9.-]+)==([^\s+]+)", line).groups() for line in lines)  # type: ignore[misc,union-attr]
    metadata = message_from_string((egg_info / "PKG-INFO").read_text(encoding="utf-8"))
    requirements = metadata.get_all("Requires-Dist", [])
    installed = [line for line in requirements if 'extra == "peers"' not in line]
    required = {re.split(r"[^\w.-]", line)[0].lower() for line in installed}
    required -= {"torch-geometric-simpool"}  # its extras name each other
    assert {"torch", "torch-scatter", "pytest", "sphinx", "dask"} <= required <= set(locked)
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        pin, _, condition = line.partition(";")
        name, _, version = pin.partition("==")
        if name in locked and "<" not in condition:
            assert locked[name] == version, name


def test_citation_names_the_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {torch_geometric_simpool.__version__}\n" in citation
