"""Settings of Sphinx, for `make docs`. The build needs no network."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parent / "pictures"))
sys.path.insert(2, str(Path(__file__).parent.parent / "benchmark"))

import torch

import example_pages
import repository_pages
import torch_geometric_simpool

# The graphs of the examples are small, and a second thread would wait more than it computes.
torch.set_num_threads(1)

project = "torch_geometric_simpool"
author = "the authors of torch_geometric_simpool"
project_copyright = ""
release = version = torch_geometric_simpool.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_build", "generated/**/*.ipynb"]
# Single backticks in docstrings are code.
default_role = "literal"

myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
# A long signature has one argument per line.
python_maximum_signature_line_length = 88
# torch-geometric-pool needs torch-scatter, which takes minutes to build. The pages of the poolers
# can be built without both.
if not example_pages.importable("tgp.poolers"):
    autodoc_mock_imports = ["tgp", "torch_scatter"]

plot_html_show_formats = False
plot_html_show_source_link = False
plot_formats = [("png", 200)]

sphinx_gallery_conf = {
    "examples_dirs": str(example_pages.EXAMPLES),
    "gallery_dirs": "generated/gallery",
    "filename_pattern": example_pages.executed(),
    "reset_argv": "example_pages.arguments",
    "image_scrapers": ("example_pages.saved_pictures",),
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": (),
    "download_all_examples": False,
    "notebook_extensions": set(),
    "show_signature": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
}

html_theme = "furo"
html_title = f"SimPool for PyG {release}"
# A line of 88 characters of code is as wide as the page.
html_theme_options = {"light_css_variables": {"code-font-size": "78%"}}
templates_path = ["_templates"]
html_static_path = ["_static"]
html_favicon = "_static/favicon.svg"
html_css_files = ["pages.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False


def setup(app: Sphinx) -> None:
    """Writes pages and compiles kernels before Sphinx and sphinx-gallery start."""
    example_pages.prepare()
    repository_pages.write()
    # The docstrings of named tuples list their fields already.
    app.connect(
        "autodoc-skip-member", lambda *member: type(member[3]).__name__ == "_tuplegetter" or None
    )
    app.connect("builder-inited", example_pages.draw_thumbnails, priority=900)
    app.connect("source-read", repository_pages.on_read)
    app.connect("doctree-read", example_pages.describe_thumbnails)
