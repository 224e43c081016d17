"""The poolers of torch-geometric-pool in the backbone of the study."""

import re
import warnings
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Batch, Data

from harness.data.batches import Batches
from harness.errors import BenchmarkError
from harness.methods.base import NetworkInput, Peer, PeerInput
from harness.methods.precoarsened import set_pooled_graphs
from harness.methods.registry import TGP
from harness.methods.tgp import TgpNet, clusters_of
from harness.study.run import Run
from harness.training.evaluation import DivergedError, assignments, predict
from helpers.pages import ROOT
from helpers.pretend import PretendDevice, values_of
from torch_geometric_simpool.models import PRESETS

poolers = pytest.importorskip("tgp.poolers", reason="torch-geometric-pool is not installed")

ARCHITECTURE = PRESETS["enzymes"].architecture.scaled(0.05)
SIZES = (12, 20, 6)
CPU = torch.device("cpu")
#: Poolers that keep some nodes and leave out others.
SELECT = {"tgp:asap", "tgp:ndp", "tgp:sag", "tgp:topk"}


def graphs(sizes: Sequence[int] = SIZES) -> list[Data]:
    made = []
    for n in sizes:
        ring = torch.arange(n)
        one_way = torch.stack([ring, (ring + 1) % n])
        edge_index = torch.cat([one_way, one_way.flip(0)], dim=1)
        made.append(Data(x=torch.randn(n, 3), edge_index=edge_index, y=torch.tensor([n % 2])))
    return made


def pooled_by(method: str, sizes: Sequence[int] = SIZES) -> list[Data]:
    """The graphs, pooled beforehand if the method reads that."""
    made = graphs(sizes)
    set_pooled_graphs(SimpleNamespace(method=method, preset="enzymes", width=0.05, seed=0), made)
    return made


def build(method: str, sizes: Sequence[int] = SIZES) -> Peer:
    torch.manual_seed(0)
    return TGP[method].build(NetworkInput(3, 2, ARCHITECTURE, None, torch.tensor(sizes)))


@pytest.mark.parametrize("method", TGP)
def test_numbers_that_overflow(method: str) -> None:
    """Whatever a pooler does with them, the study is told that training has diverged."""
    model, (batch,) = build(method).train(), Batches(pooled_by(method), 3, CPU)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1e30)
    try:
        loss = predict(model, batch).loss(batch.y)
    except DivergedError:
        return
    assert not torch.isfinite(loss)


@pytest.mark.parametrize("method", TGP)
def test_it_trains(method: str) -> None:
    """A step changes every parameter: that of the poolers by their losses, where others do not."""
    model, (batch,) = build(method).train(), Batches(pooled_by(method), 3, CPU)
    out = predict(model, batch)
    assert out.logits.shape == (3, 2)
    loss = out.loss(batch.y, 1.0, 1.0)
    loss.backward()
    assert loss.isfinite()
    without = {n.split(".")[0] for n, p in model.named_parameters() if p.grad is None}
    # EdgeContraction and SEP choose by structure, or by scores that are not differentiated.
    assert without <= {"pool0", "pool1"}
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("method", TGP)
def test_own_losses_are_added(method: str) -> None:
    model, (batch,) = build(method).eval(), Batches(pooled_by(method), 3, CPU)
    out = predict(model, batch)
    plain = torch.nn.functional.cross_entropy(out.logits, batch.y)
    with_losses = out.loss(batch.y)
    if out.auxiliary is None:
        assert torch.equal(with_losses, plain)
    else:
        assert out.auxiliary.requires_grad
        assert not torch.equal(with_losses, plain)


@pytest.mark.parametrize("method", TGP)
def test_clusters_are_those_of_each_graph(method: str) -> None:
    data = pooled_by(method)
    (batch,) = Batches(data, 3, CPU)
    out = predict(build(method).eval(), batch)
    found = assignments(build(method).eval(), data, batch_size=2)
    if method in SELECT:
        assert out.clusters is None
        assert found == {}
        return
    for clusters in out.clusters.split(SIZES):
        assert clusters.min() >= 0
        assert clusters.max() < clusters.numel()
    assert found["num_clusters"] >= found["locality"]["clusters"] >= 1
    assert [len(graph["clusters"]) for graph in found["drawn"]] == list(SIZES)
    assert [len(graph["edges"]) for graph in found["drawn"]] == list(SIZES)  # rings


@pytest.mark.parametrize("method", TGP)
def test_a_graph_is_classified_by_itself(method: str) -> None:
    """In evaluation: without random numbers and, where no scores are equal, without its batch."""
    data = pooled_by(method, (60, 50, 45))
    # Trained on graphs of 100 nodes, poolers with a ratio keep so few that others are far away.
    model = build(method, (100,)).eval()
    (together,) = Batches(data, 3, CPU)
    logits = predict(model, together).logits
    alone = torch.cat([predict(model, batch).logits for batch in Batches(data, 1, CPU)])
    torch.testing.assert_close(logits, alone)
    assert torch.equal(predict(model, together).logits, logits)


def test_all_poolers_are_there_but_two() -> None:
    names = {f"tgp:{name}" for name in poolers.pooler_map} - {"tgp:sim", "tgp:simmatch"}
    assert names - set(TGP) == {"tgp:graclus", "tgp:pan"}
    assert set(TGP) <= names


def test_the_page_names_the_class_of_each_pooler() -> None:
    page = (ROOT / "docs" / "evidence.md").read_text().split("## Poolers of tgp")[1]
    named = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", page, re.MULTILINE))
    names = [name.removeprefix("tgp:") for name in TGP]
    assert named == {name: poolers.pooler_map[name].__name__ for name in names}


def test_clusters_and_ratio_are_those_of_simpool() -> None:
    first, second = ARCHITECTURE.clusters
    out = predict(build("tgp:mincut").eval(), Batch.from_data_list(graphs()))
    assert out.clusters.max() < first
    model = TgpNet("mincut", NetworkInput(3, 2, ARCHITECTURE, None, torch.tensor(SIZES)))
    sizes = [model.pool0.selector.k, model.pool1.selector.k]
    assert sizes == [first, second]
    kept = TgpNet("topk", NetworkInput(3, 2, ARCHITECTURE, None, torch.tensor([10, 30])))
    assert kept.pool0.selector.ratio == first / 20
    assert kept.pool1.selector.ratio == second / first


@pytest.mark.parametrize("name", ["asap", "maxcut", "sag", "topk"])
def test_all_nodes_are_kept_if_there_are_as_many_clusters(name: str) -> None:
    """The ratio 1.0 would keep one node of each graph."""
    sizes = torch.tensor([ARCHITECTURE.clusters[0]] * 3)
    model = TgpNet(name, NetworkInput(3, 2, ARCHITECTURE, None, sizes)).eval()
    kept: list[int] = []
    model.pool0.register_forward_hook(lambda *given: kept.append(given[-1].x.size(0)))
    predict(model, Batch.from_data_list(graphs()))
    assert kept == [sum(SIZES)]


@pytest.mark.parametrize("node_index", [[0, 1, 2, 3, 4], [0, 1, 3, 4]])
def test_clusters_on_another_device(node_index: list[int]) -> None:
    with PretendDevice() as device:
        batch = device.put(torch.tensor([0, 0, 0, 1, 1]))
        selected = SimpleNamespace(
            s=SimpleNamespace(is_sparse=True),
            node_index=device.put(torch.tensor(node_index)),
            cluster_index=device.put(torch.tensor([0, 0, 1, 3, 2])[node_index]),
        )
        given = PeerInput(batch, batch, batch, None, 2)
        clusters = clusters_of(selected, given)
    if len(node_index) < 5:
        assert clusters is None
    else:
        assert clusters is not None
        assert values_of(clusters)[0].tolist() == [0, 0, 1, 1, 0]


def test_one_warning_is_kept_from_tgp_alone() -> None:
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # else once in a process, which may have been before
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            predict(build("tgp:topk").eval(), Batch.from_data_list(graphs()))
            shown = [str(warning.message) for warning in caught]
            torch.sparse_coo_tensor(torch.zeros(2, 1, dtype=torch.long), torch.ones(1), (1, 1))
    finally:
        torch.set_warn_always(always)
    assert not any("Sparse invariant checks" in message for message in shown)
    assert "Sparse invariant checks" in str(caught[-1].message)


def test_its_files_have_plain_names() -> None:
    assert ":" not in Run("TINY", "enzymes", method="tgp:diff").filled().key


def test_without_torch_geometric_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tgp.poolers", None)
    with pytest.raises(BenchmarkError, match=r"tgp:diff needs torch-geometric-pool"):
        build("tgp:diff")
