"""Finds code, commands, links and pictures in the pages of the documentation."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Pages of the site that are written by hand.
DOCS = sorted((ROOT / "docs").glob("*.md"))
#: All pages that are written by hand.
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]


def name(page: Path) -> str:
    """Returns the path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


def python_blocks(page: Path) -> list[str]:
    """Returns the Python of a page, block by block."""
    return re.findall(r"^```python\n(.*?)^```", _text(page), flags=re.S | re.M)


def commands(page: Path) -> set[str]:
    """Returns the commands of a page that begin with `make`, `pip`, `python`, `bash` or `dask`."""
    text = _text(page).replace("\\\n", " ")
    text = re.sub(r"^```python\n.*?^```", "", text, flags=re.S | re.M)
    # A command is code between backticks, or begins a line of a block or of a Dockerfile.
    pattern = r"(?:`|^(?: {4,}|RUN )?)(?:\.venv/bin/)?((?:make|pip|python|bash|dask) [^`\n]+)"
    return {command.strip() for command in re.findall(pattern, text, flags=re.M)}


def links(page: Path) -> list[str]:
    """Returns the targets of the links and pictures of a page, without other hosts."""
    targets = re.findall(r"\]\(([^)\s]+)\)", _text(page))
    return [target for target in targets if "://" not in target]


def pictures(page: Path) -> list[tuple[str, str]]:
    """Returns the alternative text and the target of every picture of a page."""
    return re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", _text(page))


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")
