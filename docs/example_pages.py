"""Settings by which sphinx-gallery runs the scripts in examples/ for the gallery."""

import ast
import importlib
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from docutils import nodes
from sphinx.application import Sphinx
from sphinx_gallery.scrapers import figure_rst

import thumbnails
from torch_geometric_simpool import topk_similarity

DOCS = Path(__file__).parent
EXAMPLES = DOCS.parent / "examples"
#: The folder to which examples write pictures for sphinx-gallery.
PICTURES = DOCS / "_build" / "pictures"

DRAW = ["--out", str(PICTURES / "picture.png")]
#: The arguments of the examples that run while the site is built, and a module that each needs.
#: Other examples do not run, because they download data, start processes or take long.
RUN: dict[str, tuple[list[str], str]] = {
    "explain": (DRAW, "networkx"),
    "graph_unet": (DRAW, "networkx"),
    "les_miserables": (DRAW, "networkx"),
    "recommend": ([], "torch"),
    "rewiring": ([], "torch"),
    "tgp_classification": (["--epochs", "12"], "tgp.poolers"),
}


def importable(module: str) -> bool:
    """Returns whether a module can be imported."""
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def prepare() -> None:
    """Makes a folder for pictures, and compiles the kernels, so that no page shows their notice."""
    for weight in (None, torch.tensor([1.0, 0.5])):
        topk_similarity(torch.tensor([[0, 1], [1, 0]]), 1, weight)
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir(parents=True)


def draw_thumbnails(app: Sphinx) -> None:
    """Draws a thumbnail for each example without a picture, after sphinx-gallery has finished."""
    thumbnails.save(Path(app.srcdir) / "generated" / "gallery" / "images" / "thumb")


def executed() -> str:
    """Returns a pattern of the paths of the scripts that run."""
    names = [name for name, (_, module) in RUN.items() if importable(module)]
    return r"[/\\](" + "|".join(names) + r")\.py$"


def arguments(gallery_conf: dict[str, Any], script_vars: dict[str, Any]) -> list[str]:
    """Returns the arguments of a script, and sets its `__doc__`."""
    source = Path(script_vars["src_file"])
    script_vars["example_globals"]["__doc__"] = ast.get_docstring(ast.parse(source.read_bytes()))
    return RUN[source.stem][0]


def saved_pictures(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Moves the pictures that a script has written to its page."""
    shown = []
    for picture in sorted(PICTURES.glob("*.png")):
        shown.append(next(block_vars["image_path_iterator"]))
        shutil.move(picture, shown[-1])
    title = f"The picture that {Path(block_vars['src_file']).name} draws"
    return figure_rst(shown, gallery_conf["src_dir"], title)


def describe_thumbnails(app: Sphinx, doctree: nodes.document) -> None:
    """Adds the alternative text of the thumbnails, which sphinx-gallery leaves empty."""
    for image in doctree.findall(nodes.image):
        example = re.search(r"sphx_glr_(\w+)_thumb", image["uri"])
        if example and not image.get("alt"):
            image["alt"] = f"Thumbnail of the example {example[1]}"
