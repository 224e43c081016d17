"""The examples of all docstrings run."""

import doctest
import importlib
import pkgutil

import pytest

import torch_geometric_simpool

FINDER = doctest.DocTestFinder(exclude_empty=True)
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(
        torch_geometric_simpool.__path__, "torch_geometric_simpool.", onerror=lambda _: None
    )
)


@pytest.mark.parametrize("name", ["torch_geometric_simpool", *MODULES])
def test_examples(name: str) -> None:
    if name.startswith("torch_geometric_simpool.tgp"):
        pytest.importorskip("tgp.poolers", reason="needs torch-geometric-pool")
    if name.startswith("torch_geometric_simpool.topk.triton."):
        pytest.importorskip("triton", reason="needs Triton")
    module = importlib.import_module(name)
    # One example writes a graph to the working directory, and some print random numbers.
    assert doctest.testmod(module).failed == 0


def test_there_are_examples() -> None:
    from torch_geometric_simpool.topk import topk_similarity as topk

    assert doctest.testmod(topk).attempted > 0
