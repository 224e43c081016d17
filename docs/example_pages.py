"""From the scripts in examples/ to what sphinx-gallery reads: a page for each.

sphinx-gallery wants a title with a line under it at the head of a script, and finds the pictures of
matplotlib that are open at its end. Our scripts begin with a plain sentence, and write their
pictures to files. So they are copied, with a title, and the files that they write are shown.
"""

import ast
import importlib
import re
import shutil
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from docutils import nodes
from sphinx.application import Sphinx
from sphinx_gallery.scrapers import figure_rst

from small_graph import COLORS, NODES, draw_graph

DOCS = Path(__file__).parent
EXAMPLES = DOCS.parent / "examples"
SOURCES = DOCS / "_build" / "examples"
#: For examples without a picture.
THUMBNAIL = DOCS / "_build" / "thumbnail.png"

HEADER = """\
Examples
========

Scripts that show one use each. All are in the folder `examples`, and are run by the tests.
"""

#: The examples that are run while the pages are built: their arguments, and a module without which
#: they are shown only. So are all others, which download a data set, start other processes or take
#: long.
RUN: dict[str, tuple[list[str], str]] = {
    "les_miserables": ([], "networkx"),
    "recommend": ([], "torch"),
    "rewiring": ([], "matplotlib"),
    "tgp_classification": (["--epochs", "12"], "tgp.poolers"),
}


def importable(module: str) -> bool:
    """Whether a module can be imported."""
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def write() -> None:
    """Copies the examples, with a title each, and writes the head of the gallery."""
    shutil.rmtree(SOURCES, ignore_errors=True)
    SOURCES.mkdir(parents=True)
    (SOURCES / "GALLERY_HEADER.rst").write_text(HEADER, encoding="utf-8")
    _draw_thumbnail()
    for path in sorted(EXAMPLES.glob("*.py")):
        script = path.read_text(encoding="utf-8")
        (SOURCES / path.name).write_text(with_title(script), encoding="utf-8")


def with_title(script: str) -> str:
    """The script with a docstring as sphinx-gallery wants it: the title underlined, usage last."""
    statement = ast.parse(script).body[0]
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
        raise ValueError("an example must begin with a docstring")
    title, *rest = str(statement.value.value).strip().split("\n\n")
    title = " ".join(title.split()).removesuffix(".")
    rest.sort(key=lambda paragraph: paragraph.startswith("Usage:"))
    text = [title + "\n" + "=" * len(title)]
    for part in rest:
        if part.startswith("Usage:"):
            text.append(re.sub(r"^Usage: (.*?)(?=\s{2,}|$)", r"Usage: `\1`", part, flags=re.M))
        else:
            text.append(re.sub(r"(?<![\w`-])--[a-z][\w-]*", r"`\g<0>`", part))
    end = statement.end_lineno
    body = "\n".join(script.splitlines()[end:])
    return 'r"""' + "\n\n".join(text) + '\n"""\n' + body + "\n"


def _draw_thumbnail() -> None:
    figure, axis = plt.subplots(figsize=(4, 2.8))
    draw_graph(axis, [COLORS[node % 3] for node in NODES])
    figure.savefig(THUMBNAIL, dpi=100)
    plt.close(figure)


def executed() -> str:
    """A pattern of the names of the scripts that are run."""
    names = [name for name, (_, module) in RUN.items() if importable(module)]
    return r"(^|[/\\])(" + "|".join(names) + r")\.py$"


def arguments(gallery_conf: dict[str, Any], script_vars: dict[str, Any]) -> list[str]:
    """The command line with which a script is run. Its `__doc__`, which is empty there, is set."""
    source = Path(script_vars["src_file"])
    script_vars["example_globals"]["__doc__"] = ast.get_docstring(ast.parse(source.read_bytes()))
    return RUN[source.stem][0]


def saved_pictures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Shows the pictures that a script has written, and takes them away."""
    source = Path(block_vars["src_file"])
    shown = []
    for picture in sorted(source.parent.glob("*.png")):
        shown.append(next(block_vars["image_path_iterator"]))
        shutil.move(picture, shown[-1])
    title = f"The picture that {source.name} draws"
    return figure_rst(shown, gallery_conf["src_dir"], title)


def describe_thumbnails(app: Sphinx, doctree: nodes.document) -> None:
    """Gives the thumbnails of the gallery the alternative text that sphinx-gallery leaves empty."""
    for image in doctree.findall(nodes.image):
        example = re.search(r"sphx_glr_(\w+)_thumb", image["uri"])
        if example and not image.get("alt"):
            image["alt"] = f"Thumbnail of the example {example[1]}"
