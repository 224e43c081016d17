"""Compiled variants take turns with the eager one, and what they compile is counted."""

from collections.abc import Callable

import pytest
import torch

from harness.speed import compiled
from torch_geometric_simpool.engine import dispatch
from torch_geometric_simpool.functional.segment import spmm


def test_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def make(root: str, variant: Callable) -> Callable[[], object]:
        assert root == "somewhere"
        # Called with a backend that needs no compiler of C++.
        eager = isinstance(variant(torch.nn.Linear(2, 2)), torch.nn.Linear)
        call = spmm if eager else torch.compile(spmm, backend="eager", dynamic=True)
        edges = torch.tensor([[0, 1, 1], [1, 0, 2]])

        def run() -> None:
            seen.append(dispatch.enabled("spmm"))
            call(edges[0], edges[1], torch.ones(3, 2), None, 3)

        return run

    monkeypatch.setattr(compiled, "CASES", {"a case": (make, 2)})
    torch.compiler.reset()
    metrics = compiled.compiled_metrics("a case", "somewhere")
    assert seen == 3 * [True, True, False]
    assert [found["graphs"] for found in metrics.values()] == [0, 1, 1]
    assert metrics["eager"]["ratio"] == 1
    assert all(found["rounds"] == 2 for found in metrics.values())
    rows = compiled.table({"a case": metrics})
    assert len(rows) == 3
    assert rows[1].startswith("| a case | compiled | 0.0")
    assert rows[0].endswith("| 1.00 | | |")
