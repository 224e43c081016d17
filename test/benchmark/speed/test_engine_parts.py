"""Each part is switched off while it is timed, and on again afterwards."""

from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType

import pytest
import torch

from harness.data import batches
from harness.speed import engine_parts
from harness.speed.unchecked import without_checks, without_checks_of_saved
from torch_geometric_simpool import sim_pool
from torch_geometric_simpool.engine import dispatch, messages, spmm
from torch_geometric_simpool.models import GMNConv, SimPoolNet


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
    before = state()
    metrics = engine_parts.part_metrics("somewhere", engine_parts.ENGINE, rounds=2)
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
    rows = engine_parts.table(metrics, engine_parts.ENGINE)
    assert len(rows) == len(engine_parts.ENGINE)
    assert rows[0].startswith("| nothing | 0.000 s")
    assert engine_parts.table(metrics, engine_parts.ENGINE, digits=3)[0].endswith(" s |")


def test_without_checks() -> None:
    x, edges = torch.randn(3, 2), torch.tensor([[0, 1], [1, 2]])
    given = (x, edges, torch.randn(3, 2), torch.tensor([0, 0, 1]))
    wrong = "`edge_index` must join nodes of one graph"
    for off in engine_parts.CHECKS.values():
        with pytest.raises(ValueError, match=wrong):
            sim_pool(*given, batch_size=2)
        with off():
            skipped = off is without_checks
            with nullcontext() if skipped else pytest.raises(ValueError, match=wrong):
                sim_pool(*given, batch_size=2)


@pytest.mark.parametrize("module", [spmm, messages])
def test_without_checks_of_saved_edges(module: ModuleType) -> None:
    row, col = torch.tensor([9]), torch.tensor([0])
    for off in (without_checks, without_checks_of_saved):
        with off():
            module.check_saved(row, 3, col, 3)
        with pytest.raises(RuntimeError, match="must not be changed"):
            module.check_saved(row, 3, col, 3)


@pytest.mark.parametrize("off", [without_checks, without_checks_of_saved])
def test_results_are_the_same_without_checks(off: Callable) -> None:
    torch.manual_seed(0)
    net = SimPoolNet.from_preset("enzymes", 3, 2, width=0.05)
    edges = torch.randint(0, 20, (2, 60))
    given = (
        torch.randn(20, 3),
        edges,
        torch.zeros(20, dtype=torch.long),
        torch.rand(20, 12),
    )
    expected = net(*given).logits
    with off():
        assert torch.equal(net(*given).logits, expected)


def test_pooling_after_the_layer_is_the_same() -> None:
    conv = GMNConv(3, 4, act=False).double()
    x, s = torch.randn(5, 3).double(), torch.rand(5, 2).double()
    given = (x, s, torch.tensor([[0, 1, 4], [1, 0, 3]]), torch.tensor([0, 0, 0, 1, 1]), 2)
    expected = conv.pooled(*given)
    with engine_parts.layer_before_pooling():
        torch.testing.assert_close(conv.pooled(*given), expected)
