"""After the warm-up nothing that is commonly used is left to compile."""

import sys
from pathlib import Path

import pytest
import torch

from torch_geometric_simpool import topk_similarity, warmup
from torch_geometric_simpool.engine import dispatch
from torch_geometric_simpool.topk.numba import compile as compiled
from torch_geometric_simpool.topk.numba import compiling


@pytest.mark.slow
def test_nothing_is_left_to_compile(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(compiled, "_compiled", set())
    monkeypatch.setattr(sys, "argv", ["warmup"])
    state = torch.get_rng_state()
    assert warmup.main() == 0
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() == torch.float32
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith(" s.")
    assert [line.strip() for line in said[2:]] == dispatch.cache_folders() != []
    assert all(Path(line.strip()).is_dir() for line in said[2:])

    known = set(compiled._compiled)
    edges = torch.unique(torch.randint(90, (2, 400)), dim=1)
    star = torch.stack([torch.zeros(299, dtype=torch.long), torch.arange(1, 300)])
    for edge_index in (edges, torch.cat([edges, edges.flip(0)], 1), star):
        for dtype in (torch.float32, torch.float64):
            weight = torch.rand(edge_index.size(1), dtype=dtype)
            topk_similarity(edge_index, 7, weight, measure="jaccard", p=3)
            topk_similarity(edge_index, 7, weight.requires_grad_())
        topk_similarity(edge_index, 7, lam=1.0, loop=False, min_similarity=1)
        topk_similarity(edge_index, 7, nodes=torch.tensor([3]))
    assert compiled._compiled == known


def test_without_a_place_for_a_cache(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(compiling, "folders", set())
    monkeypatch.setattr(warmup, "compile_all", lambda: None)
    monkeypatch.setattr(sys, "argv", ["warmup"])
    assert warmup.main() == 1
    assert "NUMBA_CACHE_DIR" in capsys.readouterr().err
