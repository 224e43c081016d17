"""Graphs that are pooled beforehand give what tgp's layers give in the network."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch_geometric.data import Batch, Data

import graph_classification
from harness.data.batches import Batches
from harness.errors import BenchmarkError
from harness.methods.base import NetworkInput, PeerInput, PeerOutput
from harness.methods.precoarsened import NAMES, PrecoarsenedNet, set_pooled_graphs
from harness.methods.registry import TGP
from harness.methods.tgp import TgpNet
from harness.store.denormals import flushed_denormals
from harness.study.perform import perform
from harness.training.evaluation import predict
from helpers.tiny_study import TINY
from torch_geometric_simpool.models import PRESETS

pytest.importorskip("tgp.poolers", reason="torch-geometric-pool is not installed")


ARCHITECTURE = PRESETS["enzymes"].architecture.scaled(0.1)


def graphs() -> list[Data]:
    """A ring with chords that break its symmetry, a tree, and a path."""
    chords = [(i, (i + 1) % 15) for i in range(15)] + [(0, 4), (3, 11), (7, 12)]
    tree = [((i - 1) // 2, i) for i in range(1, 22)]
    path = [(i, i + 1) for i in range(8)]
    made = []
    for number, pairs in enumerate((chords, tree, path)):
        one_way = torch.tensor(pairs).t()
        edge_index = torch.cat([one_way, one_way.flip(0)], dim=1)
        edge_index = edge_index[:, edge_index[0].argsort(stable=True)]
        x = torch.randn(int(one_way.max()) + 1, 3)
        made.append(Data(x=x, edge_index=edge_index, y=torch.tensor([number % 2])))
    return made


def alone(n: int) -> Data:
    """Nodes without edges."""
    edge_index = torch.empty(2, 0, dtype=torch.long)
    return Data(x=torch.randn(n, 3), edge_index=edge_index, y=torch.tensor([0]))


def with_lone_nodes() -> Data:
    """A triangle, whose nodes are in the middle of others."""
    edge_index = torch.tensor([[1, 1, 2, 2, 4, 4], [2, 4, 1, 4, 1, 2]])
    return Data(x=torch.randn(6, 3), edge_index=edge_index, y=torch.tensor([1]))


def settings(method: str) -> SimpleNamespace:
    return SimpleNamespace(method=method, preset="enzymes", seed=0)


def networks(name: str) -> tuple[TgpNet, PrecoarsenedNet]:
    given = NetworkInput(3, 2, ARCHITECTURE, None, torch.tensor([15, 22, 9]))
    plain, precoarsened = TgpNet(name, given), PrecoarsenedNet(name, given)
    precoarsened.load_state_dict(plain.state_dict())
    return plain.eval(), precoarsened.eval()


@pytest.mark.parametrize("name", NAMES)
def test_the_levels_are_those_of_tgps_layers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same clusters: eigenvectors, k-means and factorizations start at random."""
    plain, precoarsened = networks(name)
    data = graphs()
    set_pooled_graphs(settings(f"tgp:{name}"), data)
    for graph in data:
        alone = Batch.from_data_list([Data(x=graph.x, edge_index=graph.edge_index, y=graph.y)])
        (batch,) = Batches([graph], 1, torch.device("cpu"))
        for pool, level in zip((plain.pool0, plain.pool1), graph.pooled_data, strict=True):
            monkeypatch.setattr(pool, "select", lambda so=level.so, **_: so)
        expected, found = predict(plain, alone), predict(precoarsened, batch)
        torch.testing.assert_close(found.logits, expected.logits)
        assert (found.clusters is None) == (name == "ndp") == (expected.clusters is None)
        if found.clusters is not None:
            assert torch.equal(found.clusters, expected.clusters)


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_does_not_depend_on_its_batch(name: str) -> None:
    model, data = networks(name)[1], graphs()
    set_pooled_graphs(settings(f"tgp:{name}"), data)
    (together,) = Batches(data, 3, torch.device("cpu"))
    alone = [predict(model, batch).logits for batch in Batches(data, 1, torch.device("cpu"))]
    expected = predict(model, together).logits
    torch.testing.assert_close(expected, torch.cat(alone), rtol=1e-4, atol=1e-5)


def test_sep_takes_both_levels_from_one_tree() -> None:
    data = graphs()
    set_pooled_graphs(settings("tgp:sep"), data)
    from tgp.poolers import get_pooler

    for graph in data:
        expected = get_pooler("sep").multi_level_precoarsening(
            2, graph.edge_index, num_nodes=graph.num_nodes
        )
        for level, other in zip(graph.pooled_data, expected, strict=True):
            assert torch.equal(level.edge_index, other.edge_index)
            assert torch.equal(level.so.s.to_dense(), other.so.s.to_dense())


def test_clusters_are_as_many_as_simpools() -> None:
    data = graphs()
    set_pooled_graphs(settings("tgp:nmf"), data)
    for graph in data:
        sizes = [level.so.s.size(-1) for level in graph.pooled_data]
        assert sizes == list(ARCHITECTURE.clusters)


def test_pooled_graphs_are_those_of_the_method() -> None:
    data = graphs()
    set_pooled_graphs(settings("tgp:ndp"), data)
    first = [graph.pooled_data[0].num_nodes for graph in data]
    set_pooled_graphs(settings("tgp:sep"), data)
    assert [graph.pooled_data[0].num_nodes for graph in data] != first
    for method in ("simpool", "tgp:topk", "ndp"):
        set_pooled_graphs(settings(method), data)
        assert all("pooled_data" not in graph for graph in data)


@pytest.mark.parametrize("name", ["eigen", "ndp", "nmf"])
def test_the_same_seed_gives_the_same_clusters(name: str) -> None:
    first, second = graphs(), graphs()
    for data in (first, second):
        torch.rand(3)
        set_pooled_graphs(settings(f"tgp:{name}"), data)
    for a, b in zip(first, second):
        assert torch.equal(a.pooled_data[0].so.s.to_dense(), b.pooled_data[0].so.s.to_dense())


@pytest.mark.parametrize("name", NAMES)
def test_small_graphs(name: str) -> None:
    """Fewer nodes than clusters, no edges, nodes without edges: alone and in a batch, shuffled."""
    model, data = networks(name)[1], [*graphs(), alone(1), alone(2), with_lone_nodes()]
    with flushed_denormals():  # as in the study
        set_pooled_graphs(settings(f"tgp:{name}"), data)
    expected = [predict(model, batch).logits for batch in Batches(data, 1, torch.device("cpu"))]
    batches = Batches(data, len(data), torch.device("cpu"))
    for order in ([5, 3, 0, 4, 2, 1], [4, 1, 3]):
        found = predict(model, batches.batch(order)).logits
        assert found.isfinite().all()
        torch.testing.assert_close(
            found, torch.cat([expected[i] for i in order]), rtol=1e-4, atol=1e-5
        )


def test_a_graph_of_which_no_node_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from tgp.select import NDPSelect

    nothing = torch.empty(0, dtype=torch.long)
    monkeypatch.setattr(NDPSelect, "sign_partition", lambda *_: (nothing, torch.arange(3)))
    with pytest.raises(BenchmarkError, match=r"tgp:ndp cannot pool a graph of 3 nodes and 0 edges"):
        set_pooled_graphs(settings("tgp:ndp"), [alone(3)])


@pytest.mark.parametrize("name", NAMES)
def test_levels_are_moved_to_the_device(name: str) -> None:
    data = graphs()
    set_pooled_graphs(settings(f"tgp:{name}"), data)
    batches = Batches(data, 3, torch.device("cpu"))
    batches.device = torch.device("meta")
    levels = batches._together_pooled(range(3))
    assert levels is not None
    for level in levels:
        parts = [level.edge_index, level.edge_weight, level.so.s]
        parts += [level.so.theta] if name == "eigen" else []
        assert {part.device.type for part in parts} == {"meta"}
    assert all(g.pooled_data[0].so.s.device.type == "cpu" for g in data)


@pytest.mark.parametrize("by_study", [True, False])
def test_runs_pool_before_the_training(
    by_study: bool, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In training, validation and the measures of locality."""
    classify, seen = PrecoarsenedNet.classify, []

    def watched(self: PrecoarsenedNet, given: PeerInput) -> PeerOutput:
        seen.append(given.pooled is not None)
        return classify(self, given)

    monkeypatch.setattr(PrecoarsenedNet, "classify", watched)
    run = replace(TINY, method="tgp:sep").filled()
    if by_study:
        assert perform(run, str(root), "cpu")["locality"]["clusters"] >= 1
    else:
        words = ["--dataset", "TINY", "--root", str(root), "--out", str(tmp_path / "out")]
        words += ["--method", run.method, "--width", "0.02", "--epochs", "1", "--folds", "3"]
        assert graph_classification.main([*words, "--device", "cpu"]) == 0
    assert seen
    assert all(seen)


def test_all_poolers_that_read_the_edges_alone_are_precoarsened() -> None:
    from tgp.poolers import get_pooler

    def reads_edges_alone(name: str) -> bool:
        pooler = get_pooler(name, in_channels=1, k=2, ratio=0.5)
        return bool(pooler.is_precoarsenable and not pooler.is_trainable)

    names = {method.removeprefix("tgp:") for method in TGP}
    assert {name for name in names if reads_edges_alone(name)} - {"nopool"} == set(NAMES)
