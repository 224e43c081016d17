"""Links, pictures and the list of names of the pages."""

import re
from pathlib import Path

import pytest

import torch_geometric_simpool
from helpers.pages import DOCS, PAGES, ROOT, links, name, pictures
from torch_geometric_simpool import distributed, models, reference

#: Public names by module. `tgp` needs a package that may be missing.
PUBLIC = {
    "torch_geometric_simpool": torch_geometric_simpool.__all__,
    "torch_geometric_simpool.models": models.__all__,
    "torch_geometric_simpool.distributed": distributed.__all__,
    "torch_geometric_simpool.reference": reference.__all__,
    "torch_geometric_simpool.tgp": ["SimMatch", "SimPooling"],
}
#: Pages that exist only when the site is built.
BUILT = "docs/generated/"


def listed() -> dict[str, set[str]]:
    """Returns the names on the page of the API, by module."""
    text = (ROOT / "docs" / "api.md").read_text()
    found: dict[str, set[str]] = {}
    for module, entries in re.findall(
        r"^\.\. currentmodule:: (\S+)\n(.*?)^```", text, flags=re.S | re.M
    ):
        names = re.findall(r"^   ([\w.]+)$", entries, flags=re.M)
        found.setdefault(module, set()).update(entry.rpartition(".")[2] for entry in names)
    return found


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_in_the_reference(module: str) -> None:
    assert not set(PUBLIC[module]) - listed()[module]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    """Links lead to files of the repository. Sphinx checks the links and anchors of the site."""
    for link in links(page):
        target = (page.parent / link.partition("#")[0]).resolve()
        if not target.relative_to(ROOT).as_posix().startswith(BUILT):
            assert target.exists(), link


def test_every_page_is_linked_from_the_start_page_and_those_after_it() -> None:
    found: set[Path] = set()
    todo = [ROOT / "docs" / "index.md"]
    while todo:
        page = todo.pop()
        found.add(page)
        linked = {(page.parent / link.partition("#")[0]).resolve() for link in links(page)}
        todo += sorted((linked & set(PAGES)) - found)
    assert not set(DOCS) - found


@pytest.mark.parametrize("page", [*PAGES, ROOT / "benchmark" / "RESULTS.md"], ids=name)
def test_pictures_are_described(page: Path) -> None:
    for text, target in pictures(page):
        assert len(text.split()) > 2, target
    drawn = re.findall(r"^\.\. plot:: (\S+)\n +:alt: (.+)$", page.read_text(), flags=re.M)
    assert len(drawn) == page.read_text().count(".. plot::")
    for target, text in drawn:
        assert (page.parent / target).exists()
        assert len(text.split()) > 2
