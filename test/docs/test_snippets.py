"""All Python and all commands of README and docs/ run as they are printed."""

import functools
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

from helpers.pages import DOCS, PAGES, ROOT, commands, name, python_blocks

pytestmark = pytest.mark.slow

WITH_PYTHON = [page for page in PAGES if python_blocks(page)]
#: Names that readers of `compare.md` add themselves, and known names that replace them here.
ADDED = {"edgepool": "nopool", "mine": "communities"}


def run(page: Path, blocks: list[str]) -> None:
    """Runs blocks one after the other in one namespace, as a reader who pastes them does."""
    main = types.ModuleType("__main__")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", main)  # other processes import functions from it
        for block in blocks:
            exec(compile(block, name(page), "exec"), main.__dict__)


@pytest.mark.parametrize("page", WITH_PYTHON, ids=name)
def test_python(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # This backend of the compiler needs no C++ compiler.
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    blocks = python_blocks(page)
    if any("tgp" in block for block in blocks):
        pytest.importorskip("tgp.poolers", reason="needs torch-geometric-pool")
    run(page, blocks)


def test_there_is_python_on_the_pages_for_beginners() -> None:
    assert {"README.md", "docs/quickstart.md"} <= {name(page) for page in WITH_PYTHON}


def test_quick_start_is_short_and_learns(capsys: pytest.CaptureFixture) -> None:
    (block,) = python_blocks(ROOT / "docs" / "quickstart.md")
    assert len(block.splitlines()) <= 60
    run(ROOT / "docs" / "quickstart.md", [block])
    last = capsys.readouterr().out.splitlines()[-1]
    assert float(last.split()[-1]) > 0.7


def all_commands(first: str, pages: list[Path] = PAGES) -> list[list[str]]:
    """Returns the commands on pages that begin with `word`, split as a shell does."""
    split = [shlex.split(command) for page in pages for command in sorted(commands(page))]
    return [command for command in split if command[0] == first]


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = {command[1] for command in all_commands("make") if command[1].isalpha()}
    assert {"run", "test", "docs"} <= targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.M), target


def test_extras_exist() -> None:
    _, extras_table = (ROOT / "pyproject.toml").read_text().split("optional-dependencies]")
    available = set(re.findall(r"^(\w+) = \[", extras_table.partition("\n[")[0], flags=re.M))
    text = " ".join(word for command in all_commands("pip") for word in command)
    lists = re.findall(r"(?:\.|torch-geometric-simpool)\[([\w,]+)\]", text)
    extras = {extra for names in lists for extra in names.split(",")}
    assert {"distributed", "tgp"} <= extras <= available


@pytest.mark.parametrize(
    "command", all_commands("python", [ROOT / "README.md", *DOCS]), ids=" ".join
)
def test_scripts_know_their_options(command: list[str]) -> None:
    """Scripts parse the arguments and print their help, without work that may take hours."""
    arguments = [ADDED.get(word, word) for word in command[1:]]
    script = ROOT / arguments[0]
    assert script.exists()
    if "argparse" not in script.read_text() and not script.is_relative_to(ROOT / "benchmark"):
        pytest.skip("takes no options; is run by the tests of examples")
    if "import tgp" in script.read_text() or "from tgp" in script.read_text():
        pytest.importorskip("tgp.poolers", reason="needs torch-geometric-pool")
    if "import lightning" in script.read_text():
        pytest.importorskip("lightning", reason="needs Lightning")
    done = subprocess.run(
        [sys.executable, *arguments, "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for option in (word for word in arguments if word.startswith("--")):
        assert option in done.stdout
