"""Errors if the Triton backend cannot be used."""

import sys

import pytest
import torch

from helpers.backends import INTERPRETED
from torch_geometric_simpool import topk_similarity

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if ".topk.triton" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(ValueError, match=r"`backend` 'triton' needs.*pip install triton"):
        topk_similarity(PATH, 2, backend="triton")


@pytest.mark.skipif(INTERPRETED, reason="the interpreter takes tensors on a CPU")
def test_tensors_on_a_cpu() -> None:
    pytest.importorskip("triton")
    with pytest.raises(ValueError, match=r"`backend`.*on cpu.*TRITON_INTERPRET=1"):
        topk_similarity(PATH, 2, backend="triton")
