"""The callback: what it tells is what the layers did, and the model does not notice."""

import math
import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import MLP

from graphs import draw
from torch_geometric_simpool import SimPool, cluster_loss, entropy_loss
from torch_geometric_simpool.diagnostics import Diagnostics
from torch_geometric_simpool.locality import locality
from torch_geometric_simpool.models import SimPoolNet


def graphs() -> list[Data]:
    return [
        draw("undirected", seed).data(x=torch.randn(draw("undirected", seed).num_nodes, 3))
        for seed in range(5)
    ]


def network() -> SimPoolNet:
    return SimPoolNet.from_preset("enzymes", 3, 2, width=0.02, k=4).eval()


def run(model: SimPoolNet, batch: Batch) -> object:
    return model(batch.x, batch.edge_index, batch.batch, batch_size=batch.num_graphs)


def test_figures_are_those_of_the_layers() -> None:
    model, data = network(), graphs()
    first, second = Batch.from_data_list(data[:2]), Batch.from_data_list(data[2:])
    with Diagnostics(model) as diagnostics:
        outs = [run(model, batch) for batch in (first, second)]
        found = diagnostics.figures()
    assert set(found) == {"pool0", "pool1"}
    parts = [
        locality(b.edge_index, out.levels[0].s.argmax(-1), 8, b.batch)
        for b, out in zip((first, second), outs)
    ]
    for name in parts[0]._fields:
        expected = torch.cat([getattr(part, name) for part in parts]).nanmean().item()
        assert found["pool0"][name] == pytest.approx(expected)
    # The mean over five graphs, not over two batches.
    for level, name in enumerate(("pool0", "pool1")):
        of_level = [out.levels[level] for out in outs]
        for field in ("entropy_loss", "cluster_loss"):
            mean = (2 * getattr(of_level[0], field) + 3 * getattr(of_level[1], field)) / 5
            assert found[name][field] == pytest.approx(mean.item(), abs=1e-5)
    assert set(found["pool1"]) == {"clusters", "evenness", "entropy_loss", "cluster_loss"}
    assert 1 <= found["pool1"]["clusters"] <= 4


def test_each_call_begins_anew() -> None:
    model, batch = network(), Batch.from_data_list(graphs())
    with Diagnostics(model) as diagnostics:
        run(model, batch)
        first = diagnostics.figures()
        assert diagnostics.figures() == {"pool0": {}, "pool1": {}}
        run(model, batch)
        assert diagnostics.figures() == first


def test_looks_at_training_only_if_told() -> None:
    model, batch = network().train(), Batch.from_data_list(graphs())
    with Diagnostics(model) as diagnostics:
        run(model, batch)
        assert diagnostics.figures()["pool0"] == {}
    with Diagnostics(model, training=True) as diagnostics:
        run(model, batch)
        assert diagnostics.figures()["pool0"] != {}


def test_the_model_does_not_notice() -> None:
    model, batch = network(), Batch.from_data_list(graphs())
    alone = run(model, batch).logits
    with Diagnostics(model):
        watched = run(model, batch).logits
    assert torch.equal(alone, watched)
    watched.sum().backward()
    assert not model.pool0._forward_hooks


def test_dense_layer_with_a_mask() -> None:
    pool = SimPool(MLP([4, 5, 3], norm=None), k=4).eval()
    x, adj = torch.randn(2, 6, 2), torch.rand(2, 6, 6).round()
    mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    with Diagnostics(pool) as diagnostics:
        out = pool(x, adj=adj, mask=mask)
        found = diagnostics.figures()[""]
    assert found["entropy_loss"] == pytest.approx(entropy_loss(out.s, mask=mask).item(), abs=1e-6)
    assert found["cluster_loss"] == pytest.approx(cluster_loss(out.s, mask=mask).item(), abs=1e-6)
    used = sum(len(set(s[m].argmax(-1).tolist())) for s, m in zip(out.s, mask)) / 2
    assert found["clusters"] == used
    with Diagnostics(pool) as diagnostics:  # one graph, without a batch dimension
        pool(x[0], adj=adj[0])
        assert diagnostics.figures()[""]["clusters"] >= 1


def test_sparse_matrix_and_no_distances() -> None:
    pool = SimPool(MLP([4, 5, 3], norm=None), k=4).eval()
    data = graphs()[0]
    adj_t = torch.sparse_coo_tensor(
        data.edge_index.flip(0), torch.ones(data.num_edges), (data.num_nodes,) * 2
    )
    with Diagnostics(pool, distances=False) as diagnostics:
        pool(data.x, data.edge_index)
        plain = diagnostics.figures()[""]
        pool(data.x, adj_t.coalesce())
        sparse = diagnostics.figures()[""]
    assert "distance_ratio" not in plain
    assert plain == pytest.approx(sparse)
    assert not math.isnan(plain["edges_inside"])


def test_tensorboard(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    model, batch = network(), Batch.from_data_list(graphs())
    with Diagnostics(model, log_dir=tmp_path) as diagnostics:
        for epoch in (1, 2):
            run(model, batch)
            found = diagnostics.figures(epoch)
    events = accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert "simpool/pool1/clusters" in events.Tags()["scalars"]
    scalars = events.Scalars("simpool/pool0/entropy_loss")
    assert [scalar.step for scalar in scalars] == [1, 2]
    assert scalars[1].value == pytest.approx(found["pool0"]["entropy_loss"], abs=1e-5)


def test_tensorboard_is_optional(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    model = network()
    Diagnostics(model).close()
    with pytest.raises(ImportError, match="TensorBoard is not installed"):
        Diagnostics(model, log_dir=tmp_path)
    # An error leaves no hook behind.
    assert not model.pool0._forward_hooks


def test_errors() -> None:
    with pytest.raises(TypeError, match=r"`model` must be a torch\.nn\.Module"):
        Diagnostics("model")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must have a SimPool layer, got Linear"):
        Diagnostics(torch.nn.Linear(2, 2))
