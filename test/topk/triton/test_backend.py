"""When the Triton backend is taken, what is said where it cannot be, and its count of bytes."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from helpers.backends import INTERPRETED
from torch_geometric_simpool import topk_similarity
from torch_geometric_simpool.topk.triton import available

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
