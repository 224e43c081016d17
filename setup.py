"""Package metadata. The build system and the tools are set up in pyproject.toml."""

import re
from pathlib import Path
from typing import Optional

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent
VERSION = re.search(
    r'^__version__ = "(.+)"$', (ROOT / "torch_geometric_simpool" / "__init__.py").read_text(), re.M
)
assert VERSION is not None

#: Shown on the package index. The repository has no public address yet: once it is here, as
#: "Source", links of README.md to files lead there.
URLS = {"Paper": "https://arxiv.org/abs/2006.02244"}

#: Graphs on disk: Parquet shards, and clusters.
DISTRIBUTED = ["dask[distributed]>=2024.1", "pyarrow>=14"]
#: There is no package for other systems.
TRITON = ["triton>=3.6; platform_system == 'Linux'"]
DRAWING = ["matplotlib>=3.7", "networkx>=3.0"]
BENCHMARK = ["scikit-learn>=1.3", *DRAWING]
EXAMPLES = [*DRAWING, "lightning>=2.4"]


def with_absolute_links(page: str, source: Optional[str]) -> str:
    """A page of Markdown as the package index shows it, which has no files for relative links.

    They lead to the repository at the address `source`, or are plain text if it is `None`.
    """

    def absolute(link: re.Match) -> str:
        image, text, target = link.groups()
        if re.match(r"https?://|#", target):
            return link[0]
        return (
            f"{image}[{text}]({source}/{'raw' if image else 'blob'}/main/{target})"
            if source
            else text
        )

    return re.sub(r"(!?)\[([^][]*)\]\(([^()\s]+)\)", absolute, page)


setup(
    name="torch-geometric-simpool",
    version=VERSION.group(1),
    description="SimPool for PyTorch Geometric: graph pooling by structural similarity",
    long_description=with_absolute_links(
        (ROOT / "README.md").read_text(encoding="utf-8"), URLS.get("Source")
    ),
    long_description_content_type="text/markdown",
    project_urls=URLS,
    license="MIT",
    license_files=["LICENSE"],
    keywords=["pytorch", "pytorch-geometric", "graph-neural-networks", "graph-pooling"],
    python_requires=">=3.10",
    packages=find_packages(include=["torch_geometric_simpool", "torch_geometric_simpool.*"]),
    package_data={"torch_geometric_simpool": ["py.typed"]},
    install_requires=[
        "torch>=2.6",
        "torch-geometric>=2.6",
        "numpy>=1.24",
        "numba>=0.60",
        "scipy>=1.10",
        "tqdm>=4.60",
    ],
    extras_require={
        "benchmark": BENCHMARK,
        "distributed": DISTRIBUTED,
        "examples": EXAMPLES,
        "test": [
            *BENCHMARK,
            *DISTRIBUTED,
            *EXAMPLES,
            *TRITON,
            "pytest>=7.4",
            "pytest-xdist>=3.3",
            "pyyaml>=6.0",
            "ruff>=0.6",
            "mypy>=1.10",
            "setuptools>=77",
        ],
        "docs": [
            *BENCHMARK,
            "sphinx>=8.1",
            "furo>=2024.8",
            "myst-parser>=4.0",
            "sphinx-design>=0.6.1",
            "sphinx-gallery>=0.19",
            "sphinx-mathjax-offline>=0.0.2",
        ],
        # What the benchmarks compare with.
        "peers": ["sparse-dot-topn>=1.1", "torch-geometric-pool>=1.0"],
        "sparse": ["torch-scatter>=2.1", "torch-sparse>=0.6.18"],
        # A backend of the top k on GPUs. PyTorch's builds for CUDA bring it along.
        "triton": TRITON,
        # It needs torch-scatter, which builds from source against the torch that is installed.
        "tgp": ["torch-geometric-pool>=1.0.2"],
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
