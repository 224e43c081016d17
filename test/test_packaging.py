"""What is distributed: files of the source distribution, metadata, and how to cite it."""

import re
import runpy
import subprocess
import sys
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

import torch_geometric_simpool

ROOT = Path(__file__).parents[1]
FOLDERS = ("benchmark", "docs", "examples", "test", "torch_geometric_simpool")
FILES = (
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "constraints.txt",
    "pyproject.toml",
    "setup.py",
)
#: Folders of what programs write: caches, and pages that are built.
WRITTEN = {"__pycache__", "_build", "generated"}
setuptools = pytest.importorskip("setuptools", reason="needs setuptools")


@pytest.fixture(scope="module")
def egg_info(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What setuptools writes about a source distribution; nothing is written here."""
    folder = tmp_path_factory.mktemp("metadata")
    command = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (found,) = folder.iterdir()
    return found


@pytest.fixture(scope="module")
def metadata(egg_info: Path) -> Message:
    return message_from_string((egg_info / "PKG-INFO").read_text(encoding="utf-8"))


def test_the_source_distribution_has_what_its_tests_need(egg_info: Path) -> None:
    packed = set((egg_info / "SOURCES.txt").read_text(encoding="utf-8").splitlines())
    there = {
        str(path.relative_to(ROOT).as_posix())
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not WRITTEN & set(path.parts) and not path.name.startswith(".")
    }
    assert len(there) > 500
    assert not (there | set(FILES)) - packed
    assert not [name for name in packed if WRITTEN & set(Path(name).parts)]


def test_links_of_the_long_description_are_absolute(metadata: Message) -> None:
    """The package index has no files beside it."""
    text = metadata.get_payload()
    assert isinstance(text, str)
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert targets
    assert not [target for target in targets if not target.startswith("https://")]
    assert "## In a PyG model" in text


def test_addresses_of_the_project(metadata: Message) -> None:
    urls = metadata.get_all("Project-URL") or []
    assert urls
    assert all(re.fullmatch(r"\w+, https://\S+", url) for url in urls)


def test_links_lead_to_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **settings: given.update(settings))
    absolute = runpy.run_path(str(ROOT / "setup.py"))["with_absolute_links"]
    page = "[a](docs/a.md), ![b](b/c.png), [d](https://e.org), [f](#g)"
    assert absolute(page, "https://h.org/i") == (
        "[a](https://h.org/i/blob/main/docs/a.md), ![b](https://h.org/i/raw/main/b/c.png), "
        "[d](https://e.org), [f](#g)"
    )
    assert absolute("see [a](a.md) and ![a picture](b.png)", None) == "see a and a picture"
    assert given["project_urls"]


needs_lock = pytest.mark.skipif(not (ROOT / ".ci" / "lock").is_dir(), reason="no .ci/lock here")


def locked() -> dict[str, str]:
    """The version of each package in the lock files."""
    versions = {}
    for path in (ROOT / ".ci" / "lock").iterdir():
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            found = re.fullmatch(r"([a-z0-9.-]+)==(\S+) --hash=sha256:[0-9a-f]{64}", line)
            assert found is not None, line
            versions[found[1]] = found[2]
    return versions


@needs_lock
def test_the_lock_files_hold_what_is_required(metadata: Message) -> None:
    """After a change of setup.py, call `make lock`."""
    required = {
        re.split(r"[^\w.-]", line)[0].lower()
        for line in metadata.get_all("Requires-Dist", [])
        if 'extra == "peers"' not in line  # which CI does not install
    }
    assert {"torch", "torch-scatter", "pytest", "sphinx", "dask"} <= required
    assert not required - set(locked())


@needs_lock
def test_the_lock_files_hold_the_versions_of_the_constraints() -> None:
    """After a change of constraints.txt, call `make lock`."""
    versions = locked()
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        pin, _, where = line.partition(";")
        name, _, version = pin.partition("==")
        if name in versions and "<" not in where:
            assert versions[name].split("+")[0] == version, name


def test_citation() -> None:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)
    assert citation["version"] == torch_geometric_simpool.__version__
    (paper,) = citation["references"]
    assert paper["authors"] == [{"family-names": "Shulman", "given-names": "Yaniv"}]
    assert paper["url"] == "https://arxiv.org/abs/2006.02244"
    assert paper["year"] == 2020
