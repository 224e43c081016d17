"""Settings by which sphinx-gallery runs the scripts in examples/ for the gallery."""

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
#: What examples draw, before sphinx-gallery takes it.
PICTURES = DOCS / "_build" / "pictures"
#: For examples without a picture.
THUMBNAIL = DOCS / "_build" / "thumbnail.png"

DRAW = ["--out", str(PICTURES / "picture.png")]
#: The examples that are run while the pages are built: their arguments, and a module without which
#: they are shown only. So are all others, which download a data set, start other processes or take
#: long.
RUN: dict[str, tuple[list[str], str]] = {
    "explain": (DRAW, "networkx"),
    "graph_unet": (DRAW, "networkx"),
    "les_miserables": (DRAW, "networkx"),
    "recommend": ([], "torch"),
    "rewiring": ([], "torch"),
    "tgp_classification": (["--epochs", "12"], "tgp.poolers"),
}


def importable(module: str) -> bool:
    """Whether a module can be imported."""
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def prepare() -> None:
    """Makes an empty folder for pictures, and draws the thumbnail of examples without one."""
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir(parents=True)
    figure, axis = plt.subplots(figsize=(4, 2.8))
    draw_graph(axis, [COLORS[node % 3] for node in NODES])
    figure.savefig(THUMBNAIL, dpi=100)
    plt.close(figure)


def executed() -> str:
    """A pattern of the names of the scripts that are run."""
    names = [name for name, (_, module) in RUN.items() if importable(module)]
    return r"[/\\](" + "|".join(names) + r")\.py$"


def arguments(gallery_conf: dict[str, Any], script_vars: dict[str, Any]) -> list[str]:
    """The command line with which a script is run. Its `__doc__`, which is empty there, is set."""
    source = Path(script_vars["src_file"])
    script_vars["example_globals"]["__doc__"] = ast.get_docstring(ast.parse(source.read_bytes()))
    return RUN[source.stem][0]


def saved_pictures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Shows the pictures that a script has written, and takes them away."""
    shown = []
    for picture in sorted(PICTURES.glob("*.png")):
        shown.append(next(block_vars["image_path_iterator"]))
        shutil.move(picture, shown[-1])
    title = f"The picture that {Path(block_vars['src_file']).name} draws"
    return figure_rst(shown, gallery_conf["src_dir"], title)


def describe_thumbnails(app: Sphinx, doctree: nodes.document) -> None:
    """Gives the thumbnails of the gallery the alternative text that sphinx-gallery leaves empty."""
    for image in doctree.findall(nodes.image):
        example = re.search(r"sphx_glr_(\w+)_thumb", image["uri"])
        if example and not image.get("alt"):
            image["alt"] = f"Thumbnail of the example {example[1]}"
