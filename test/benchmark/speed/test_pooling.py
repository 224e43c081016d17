"""The comparison of pooling operators, and of training: methods agree before they are timed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from harness.data.batches import Batches
from harness.methods.plain import PaddedDiffPoolNet, PlainSimPoolNet
from harness.speed import child, pool_measure, pool_run, pool_training
from harness.speed.pool_cases import make_batches, random_graph
from harness.speed.pool_measure import check, time_method
from harness.speed.pool_methods import METHODS, DiffPoolDense, Ragged, SimPoolDense, make_batch
from harness.speed.pool_run import combined
from harness.speed.pool_training import agree, combined_epochs, training_metrics
from torch_geometric_simpool import StructuralSimilarity
from torch_geometric_simpool.models import PRESETS, SimPoolNet


def graphs() -> list[tuple[int, Tensor]]:
    torch.manual_seed(0)
    return [random_graph(n, 3 * n) for n in (12, 30, 20, 25)]


def data_batches() -> Batches:
    transform = StructuralSimilarity(12)
    data = [
        transform(Data(x=torch.randn(n, 3), edge_index=edges, y=torch.tensor([i % 2])))
        for i, (n, edges) in enumerate(graphs())
    ]
    return Batches(data, 4, torch.device("cpu"))


@pytest.mark.parametrize("name", METHODS)
def test_every_method_returns_the_same(name: str) -> None:
    if "tgp" in name:
        pytest.importorskip("tgp.poolers")
    check(METHODS[name](5), 5, graphs())
    metrics = time_method(METHODS[name](5), [graphs()])
    assert metrics["graphs"] == 4
    assert 0 < metrics["forward"] < metrics["both"]


def test_the_middle_one_of_several_processes_counts() -> None:
    def process(both: float, peak: int) -> dict:
        run = {"forward": both / 2, "both": both, "range": [both - 1, both + 1], "rounds": 5}
        return {"runs": {"all": run}, "peak": peak, "before": 1}

    found = combined([process(7.0, 10), process(2.0, 30), process(3.0, 20)])
    assert found["peak"] == 30
    run = found["runs"]["all"]
    assert (run["forward"], run["both"], run["range"]) == (1.5, 3.0, [1.0, 8.0])
    assert (run["rounds"], run["processes"]) == (5, 3)
    # A single process is returned as it is.
    assert combined([process(7.0, 10)])["runs"]["all"]["both"] == 7.0


@pytest.mark.parametrize(
    ("rounds", "processes"), [([5, 5, 5], 3), ([5, 1, 5], 3), ([1], 1), (["error"], 1)]
)
def test_a_slow_method_has_one_process(
    rounds: list, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(rounds)

    def in_child(method: str, path: str, kept: bool) -> dict[str, Any]:
        number = next(left)
        if number == "error":
            return {"error": "out of memory"}
        return {"runs": {"all": {"both": 1.0, "range": [1.0, 1.0], "rounds": number}}, "peak": 1}

    monkeypatch.setattr(pool_run, "in_child", in_child)
    found = pool_run.in_children("sim_pool", Path("case.pt"), kept=False)
    if rounds == ["error"]:
        assert found == {"error": "out of memory"}
    else:
        assert found["runs"]["all"]["processes"] == processes
    assert list(left) == []


def test_epochs_of_several_processes() -> None:
    found = combined_epochs(
        [
            ("SimPoolNet", {"seconds": [2.0, 3.0]}),
            ("other", {"seconds": [6.0, 9.0]}),
            ("SimPoolNet", {"seconds": [1.0, 8.0]}),
            ("other", {"seconds": [7.0, 30.0]}),
            ("agreement", {"agreement": {"gradients": 0.2}}),
        ]
    )
    assert found["agreement"] == {"gradients": 0.2}
    assert found["SimPoolNet"] == {
        "seconds": 2.5,
        "range": [1.0, 8.0],
        "rounds": 4,
        "processes": 2,
    }
    assert found["ratio"] == 8.0 / 2.5
    assert combined_epochs([("other", {"error": "killed"}), ("SimPoolNet", {})]) == {
        "error": "killed"
    }


def test_networks_take_turns_in_processes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def in_child(case: str, network: str, kept: bool) -> dict[str, Any]:
        asked.append((case, network, kept))
        if network == "agreement":
            return {"agreement": {"gradients": 1e-6}}
        return {"seconds": [1.0 if network == "ours" else 4.0]}

    cases = {
        "as it is": ({"ours": None, "other": None}, False),
        "kept": ({"ours": None, "b": None}, True),
    }
    monkeypatch.setattr(pool_training, "CASES", cases)
    monkeypatch.setattr(pool_training, "AGREE", {"kept": None})
    monkeypatch.setattr(pool_training, "PROCESSES", 2)
    found = training_metrics(in_child)
    turns = [("as it is", "ours", False), ("as it is", "other", False)] * 2
    turns += [("kept", "ours", True), ("kept", "b", True)] * 2
    assert asked == [*turns, ("kept", "agreement", True)]
    assert found["kept"]["agreement"] == {"gradients": 1e-6}
    assert [found[case]["ratio"] for case in cases] == [4, 4]


def test_epochs_but_the_first_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    networks = {"ours": lambda root: lambda: runs.append(root)}
    monkeypatch.setattr(pool_training, "CASES", {"case": (networks, False)})
    found = pool_training.epochs("case", "ours", "data")
    assert len(found.pop("seconds")) == pool_training.ROUNDS
    assert found == {}
    assert runs == ["data"] * (pool_training.ROUNDS + 1)
    monkeypatch.setattr(pool_training, "AGREE", {"case": lambda root: {"loss": len(root)}})
    assert pool_training.epochs("case", "agreement", "data") == {"agreement": {"loss": 4}}


@pytest.mark.parametrize("kept", [False, True])
def test_a_process_keeps_its_memory(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_MMAP_MAX_", "7")

    def run(command: list[str], env: dict[str, str], **_: object) -> SimpleNamespace:
        assert command[-3:] == ["--child", "sim_pool", "case.pt"]
        assert env["MALLOC_MMAP_MAX_"] == ("0" if kept else "7")
        return SimpleNamespace(returncode=0, stdout="noise\n{}\n")

    monkeypatch.setattr(child.subprocess, "run", run)
    assert pool_run.in_child("sim_pool", "case.pt", kept=kept) == {}


@pytest.mark.parametrize("kept", [False, True])
def test_kept_memory_is_there_before_the_clock_runs(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All batches are run before the first round, or the smallest only."""
    seen = []

    def step(method: object, batch: Ragged) -> tuple[float, float]:
        seen.append(batch.x.size(0))
        return 0.5, 1.0

    monkeypatch.setattr(pool_measure, "step", step)
    limits: list[int] = []
    monkeypatch.setattr(pool_measure, "_limit_memory", limits.append)
    batches = [graphs()[:2], graphs()[:1]]
    torch.save({"runs": {"all": (5, batches)}, "kept": kept}, tmp_path / "case.pt")
    found = pool_measure.measure("sim_pool", str(tmp_path / "case.pt"))
    assert found["runs"]["all"]["rounds"] == 1
    assert seen == ([42, 12] if kept else [12]) + [42, 12]
    assert limits == [pool_measure.KEPT_LIMIT if kept else pool_measure.MEMORY_LIMIT]


def test_a_method_that_differs_is_not_timed() -> None:
    method = DiffPoolDense(5)
    with torch.no_grad():
        method.lin.weight[0] += 1  # of one cluster: softmax ignores a shift of all
    with pytest.raises(AssertionError, match="not close"):
        check(method, 5, graphs())


def test_batches_hold_every_graph_and_the_largest_first() -> None:
    given = [(n, torch.zeros(2, 0, dtype=torch.long)) for n in range(1, 11)]
    batches = make_batches(given, 3)
    assert batches[0] != given[:3]
    assert 10 in [n for n, _ in batches[0]]
    assert sorted(n for batch in batches for n, _ in batch) == list(range(1, 11))


def test_random_edges_are_sorted_and_symmetric() -> None:
    n, edges = random_graph(50, 150)
    assert (edges[0, 1:] >= edges[0, :-1]).all()
    adj = torch.zeros(n, n).index_put_(tuple(edges), torch.ones(edges.size(1)), accumulate=True)
    assert torch.equal(adj, adj.t())


def test_make_batch() -> None:
    batch = make_batch(graphs())
    assert isinstance(batch, Ragged)
    assert batch.x.size(0) == batch.batch.numel() == 12 + 30 + 20 + 25
    assert torch.equal(batch.batch[batch.edge_index[0]], batch.batch[batch.edge_index[1]])
    assert SimPoolDense(3).prepare(batch)[0].shape == (4, 30, 64)


def test_the_plain_form_agrees() -> None:
    net = SimPoolNet.from_preset("enzymes", 3, 2, width=0.05)
    (batch,) = data_batches()
    agree(net, PlainSimPoolNet(net), batch)
    other = SimPoolNet.from_preset("enzymes", 3, 2, width=0.05)
    with pytest.raises(AssertionError, match="not close"):
        agree(net, PlainSimPoolNet(other), batch)


def test_the_diff_pool_learns() -> None:
    model = PaddedDiffPoolNet(3, 2, PRESETS["enzymes"].architecture.scaled(0.05))
    (batch,) = data_batches()
    model.loss(batch).backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())
