"""Examples and pages of the repository become pages of the site."""

import ast
from pathlib import Path

import pytest

from helpers.pages import ROOT, name

pytest.importorskip("sphinx_gallery", reason="needs the extra `docs`")
pytest.importorskip("networkx", reason="needs the extra `docs`")


@pytest.fixture(autouse=True)
def beside_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("docs/pictures", "docs"):
        monkeypatch.syspath_prepend(str(ROOT / folder))


def test_examples_that_are_run_exist() -> None:
    import example_pages

    assert set(example_pages.RUN) <= {path.stem for path in (ROOT / "examples").glob("*.py")}


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=name)
def test_examples_begin_with_a_title(path: Path) -> None:
    """Checks the form that sphinx-gallery needs."""
    title, line, *_ = str(ast.get_docstring(ast.parse(path.read_text()))).splitlines()
    assert line == "=" * len(title)


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("../CHANGELOG.md", "generated/changelog.md"),
        ("../benchmark/RESULTS.md#both", "generated/results.md#both"),
        ("../examples/train.py", "generated/gallery/train.rst"),
        ("../benchmark/results/start_up.json", "../benchmark/results/start_up.json"),
        ("method.md#losses", "method.md#losses"),
        ("https://pyg.org", "https://pyg.org"),
        ("#losses", "#losses"),
    ],
)
def test_links_lead_to_pages_of_the_site(link: str, expected: str) -> None:
    import repository_pages

    docs = ROOT / "docs"
    assert repository_pages.with_links(f"[a]({link})", docs, docs) == f"[a]({expected})"


def test_links_of_a_page_that_is_copied() -> None:
    import repository_pages

    folder = Path(repository_pages.GENERATED)
    changed = repository_pages.with_links("![a b c](results/x.png)", ROOT / "benchmark", folder)
    assert changed == "![a b c](../../benchmark/results/x.png)"
