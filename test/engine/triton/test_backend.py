"""When the Triton backend is taken, what is said where it cannot be, and its count of bytes."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from helpers.backends import INTERPRETED
from helpers.pretend import PretendDevice, values_of
from torch_geometric_simpool import topk_similarity
from torch_geometric_simpool.engine import dispatch
from torch_geometric_simpool.engine.triton import available
from torch_geometric_simpool.functional import topk_triton
from torch_geometric_simpool.utils.budget import Budget
from torch_geometric_simpool.utils.settings import DescriptionSettings, Graph

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
RESULTS = Path(__file__).parents[3] / "benchmark" / "results"


def test_without_triton_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(available.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"`backend` 'triton' needs.*pip install triton"):
        topk_similarity(PATH, 2, backend="triton")


@pytest.mark.skipif(INTERPRETED, reason="the interpreter takes tensors on a CPU")
def test_on_a_cpu_the_error_names_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(available.importlib.util, "find_spec", lambda name: object())
    with pytest.raises(ValueError, match=r"`backend`.*on cpu.*TRITON_INTERPRET=1"):
        topk_similarity(PATH, 2, backend="triton")


def test_auto_takes_it_only_once_it_was_measured() -> None:
    measured = list(RESULTS.glob("gpu/topk*.json"))
    assert dispatch.topk_backend(torch.device("cpu")) == "numba"
    assert dispatch.topk_backend(torch.device("cuda")) == "torch" or measured
    with PretendDevice() as device:
        found = values_of(list(topk_similarity(device.put(PATH), 2)))
    assert all(map(torch.equal, found, topk_similarity(PATH, 2)))


def test_no_kernel_is_loaded_unless_it_is_asked_for() -> None:
    """PyTorch may import Triton by itself; what imports it here are the kernels and `launch`."""
    program = """
import sys, torch
from torch_geometric_simpool import topk_similarity
for backend in ("auto", "numba", "torch"):
    topk_similarity(torch.tensor([[0, 1], [1, 0]]), 1, backend=backend)
print([name for name in sys.modules if "simpool.engine.triton" in name])
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def traffic(edge_index: Tensor, num_nodes: int, k: int, nodes: Tensor | None = None) -> tuple:
    settings = DescriptionSettings(1, 0.0, "cosine")
    graph = Graph(edge_index, None, num_nodes, None)
    prepared = topk_triton.prepare(graph, settings, Budget(None, force=True))
    return topk_triton.traffic(prepared, nodes, k, torch.float32)


def test_the_floor_is_each_list_once_and_the_output_once() -> None:
    # The middle names two lists of one node, each end one list of two: six entries of four bytes.
    kernels, floor, without = traffic(PATH, 3, k=5)
    assert floor == without == 6 * 4 + 3 * 5 * (4 + 8)
    ((name, read, written),) = kernels
    assert name == "short_rows"
    assert written == 3 * 5 * (4 + 8)
    # Entries with the norm of each, four numbers of a row, and of its features the id, and where
    # the list begins and ends.
    assert read == 6 * (4 + 4) + 3 * 4 * 8 + 4 * (4 + 2 * 8)


def test_the_traffic_of_some_rows_is_theirs() -> None:
    _, floor, _ = traffic(PATH, 3, k=5, nodes=torch.tensor([2, 2]))
    assert floor == 2 * (2 * 4 + 5 * (4 + 8))


def test_lists_of_hubs_are_left_out_of_the_lower_floor() -> None:
    leaves = torch.arange(1, 400)
    star = torch.stack([torch.zeros_like(leaves), leaves])
    kernels, floor, without = traffic(torch.cat([star, star.flip(0)], dim=1), 400, k=4)
    assert floor - without == 399 * 399 * 4
    assert {name for name, *_ in kernels} >= {"best_of_hubs", "short_rows"}
