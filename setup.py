"""Package metadata. The build system and the tools are set up in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent
VERSION = re.search(
    r'^__version__ = "(.+)"$', (ROOT / "torch_geometric_simpool" / "__init__.py").read_text(), re.M
)
assert VERSION is not None

#: Graphs on disk: Parquet shards, and clusters.
DISTRIBUTED = ["dask[distributed]>=2024.1", "pyarrow>=14"]
#: There is no package for other systems.
TRITON = ["triton>=3.6; platform_system == 'Linux'"]
BENCHMARK = ["scikit-learn>=1.3", "matplotlib>=3.7", "networkx>=3.0"]

setup(
    name="torch-geometric-simpool",
    version=VERSION.group(1),
    description="SimPool for PyTorch Geometric: graph pooling by structural similarity",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
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
        "test": [*BENCHMARK, *DISTRIBUTED, *TRITON, "pytest>=7.4", "ruff>=0.6", "mypy>=1.10"],
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
