"""Copies pages from outside of docs/ to the site, and changes links to them.

Links in the files are relative, for a repository browser. Pages are copied to docs/generated/. On
the site, a link to a copied page leads to its copy, and a link to an example leads to its page in
the gallery. A link to any other file downloads the file.
"""

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

DOCS = Path(__file__).parent
ROOT = DOCS.parent
GENERATED = DOCS / "generated"

#: The copied files, and the names of the pages.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmark/RESULTS.md": "results.md",
    "benchmark/results/gpu.md": "gpu.md",
    "benchmark/results/pooling.md": "speed_of_pooling.md",
    "benchmark/results/recommend.md": "recommend.md",
    "benchmark/results/topk.md": "topk.md",
}
LINK = re.compile(r"\]\((?P<target>[^)#:\s]+)(?P<rest>#[^)\s]*)?\)")


def write() -> None:
    """Copies the pages that have changed."""
    GENERATED.mkdir(exist_ok=True)
    for source, name in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        text = with_links(text, (ROOT / source).parent, GENERATED)
        page = GENERATED / name
        # An unchanged file keeps its time, so that Sphinx does not read it again.
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def with_links(text: str, folder: Path, new_folder: Path) -> str:
    """Returns the text of a page in `folder` with links that are relative to `new_folder`."""

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
