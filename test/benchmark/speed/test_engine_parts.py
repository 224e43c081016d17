"""Each part is switched off while it is timed, and on again afterwards."""

from collections.abc import Callable

import pytest
import torch

from harness.data import batches
from harness.speed import engine_parts
from torch_geometric_simpool.engine import dispatch
from torch_geometric_simpool.models import GMNConv


def state() -> tuple[object, ...]:
    parts = (dispatch.enabled(part) for part in ("spmm", "segment_matmul", "messages"))
    return *parts, batches.as_labels, GMNConv.pooled


def test_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[tuple[object, ...]]] = {"made": [], "run": []}

    def make(root: str) -> Callable[[], None]:
        assert root == "somewhere"
        seen["made"].append(state())
        return lambda: seen["run"].append(state())

    monkeypatch.setattr(engine_parts, "CASES", {"a case": make})
    monkeypatch.setattr(engine_parts, "ROUNDS", 2)
    before = state()
    metrics = engine_parts.part_metrics("somewhere")
    assert state() == before
    assert [found[:3] for found in seen["run"]] == 3 * [found[:3] for found in seen["made"]]
    full, spmm, matmul, messages, three, one_hot, late = seen["made"]
    assert full == before
    assert (spmm[:3], matmul[:3], messages[:3]) == (
        (False, True, True),
        (True, False, True),
        (True, True, False),
    )
    assert three[:3] == (False, False, False)
    assert one_hot[3] is not full[3]
    assert late[4] is not full[4]
    assert metrics["a case"]["nothing"]["ratio"] == 1
    assert metrics["a case"]["nothing"]["rounds"] == 2
    rows = engine_parts.table(metrics)
    assert len(rows) == len(engine_parts.PARTS)
    assert rows[0].startswith("| nothing | 0.000 s")


def test_pooling_after_the_layer_is_the_same() -> None:
    conv = GMNConv(3, 4, act=False).double()
    x, s = torch.randn(5, 3).double(), torch.rand(5, 2).double()
    given = (x, s, torch.tensor([[0, 1, 4], [1, 0, 3]]), torch.tensor([0, 0, 0, 1, 1]), 2)
    expected = conv.pooled(*given)
    with engine_parts.layer_before_pooling():
        torch.testing.assert_close(conv.pooled(*given), expected)
