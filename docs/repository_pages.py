"""Pages that lie outside of docs/, and links to files of the repository.

Links are written for a repository browser: relative to the file that they are in. Some pages
outside of docs/ are part of the site: they are copied to docs/generated/. Before Sphinx reads a
page, links to them and to examples are changed, to the copies and to the pages of the gallery. A
link to any other file offers that file.
"""

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
ROOT = DOCS.parent
GENERATED = DOCS / "generated"

#: What is copied, and the name of the page.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmark/RESULTS.md": "results.md",
    "benchmark/results/recommend.md": "recommend.md",
    "benchmark/results/topk.md": "topk.md",
}
LINK = re.compile(r"\]\((?P<target>[^)#:\s]+)(?P<rest>#[^)\s]*)?\)")


def write() -> None:
    """Copies the pages."""
    GENERATED.mkdir(exist_ok=True)
    for source, name in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        text = with_links(text, (ROOT / source).parent, GENERATED)
        page = GENERATED / name
        # Sphinx reads again what has changed.
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def with_links(text: str, folder: Path, new_folder: Path) -> str:
    """The text of a file in `folder`, with the links that it needs in `new_folder`."""

    def change(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / match["target"]))
        name = target.relative_to(ROOT).as_posix()
        if name in PAGES:
            target = GENERATED / PAGES[name]
        elif name.startswith("examples/"):
            target = GENERATED / "gallery" / f"{target.stem}.rst"
        link = Path(os.path.relpath(target, new_folder)).as_posix()
        return f"]({link}{match['rest'] or ''})"

    return LINK.sub(change, text)


def on_read(app: Sphinx, name: str, content: list[str]) -> None:
    """Changes the links of a page of docs/."""
    path = Path(app.env.doc2path(name))
    if path.suffix == ".md" and path.parent == DOCS:
        content[0] = with_links(content[0], DOCS, DOCS)
