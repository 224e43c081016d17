"""The callback: its metrics are those of the layers, and the results of the model stay the same."""

import copy
import gc
import io
import math
import pickle
import sys
import warnings
import weakref
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle
from torch_geometric.data import Batch, Data
from torch_geometric.nn import MLP

from helpers.graphs import draw
from torch_geometric_simpool import SimPool, cluster_loss, entropy_loss
from torch_geometric_simpool.analysis import diagnostics as module
from torch_geometric_simpool.analysis.diagnostics import Diagnostics
from torch_geometric_simpool.analysis.locality import locality
from torch_geometric_simpool.functional.pooling import SimPoolOutput
from torch_geometric_simpool.models import SimPoolNet
from torch_geometric_simpool.models.sim_pool_net import SimPoolNetOutput

#: The metrics of every layer.
OF_ALL = {"clusters", "evenness", "entropy_loss", "cluster_loss"}
#: The metrics that layers on sparse batches have as well.
OF_SPARSE = {"edges_inside", "edges_by_chance", "connected", "distance_ratio"}


def graphs() -> list[Data]:
    return [
        draw("undirected", seed).data(x=torch.randn(draw("undirected", seed).num_nodes, 3))
        for seed in range(5)
    ]


def network() -> SimPoolNet:
    return SimPoolNet.from_preset("enzymes", 3, 2, width=0.02, k=4).eval()


def run(model: SimPoolNet, batch: Batch) -> SimPoolNetOutput:
    return model(batch.x, batch.edge_index, batch.batch, batch_size=batch.num_graphs)


def test_metrics_are_those_of_the_layers() -> None:
    model, data = network(), graphs()
    first, second = Batch.from_data_list(data[:2]), Batch.from_data_list(data[2:])
    with Diagnostics(model) as diagnostics:
        outs = [run(model, batch) for batch in (first, second)]
        found = diagnostics.metrics()
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
    assert set(found["pool1"]) == OF_ALL
    assert 1 <= found["pool1"]["clusters"] <= 4


def test_each_call_begins_anew() -> None:
    model, batch = network(), Batch.from_data_list(graphs())
    with Diagnostics(model) as diagnostics:
        run(model, batch)
        first = diagnostics.metrics()
        assert diagnostics.metrics() == {"pool0": {}, "pool1": {}}
        run(model, batch)
        assert diagnostics.metrics() == first


def test_records_training_only_if_told() -> None:
    model, batch = network().train(), Batch.from_data_list(graphs())
    with Diagnostics(model) as diagnostics:
        run(model, batch)
        assert diagnostics.metrics()["pool0"] == {}
    with Diagnostics(model, training=True) as diagnostics:
        run(model, batch)
        assert diagnostics.metrics()["pool0"] != {}


def test_the_results_of_the_model_stay_the_same() -> None:
    model, batch = network(), Batch.from_data_list(graphs())
    alone = run(model, batch).logits
    with Diagnostics(model):
        recorded = run(model, batch).logits
    assert torch.equal(alone, recorded)
    recorded.sum().backward()
    assert not model.pool0._forward_hooks


def test_dense_layer_with_a_mask() -> None:
    pool = SimPool(assignment=MLP([4, 5, 3], norm=None), k=4).eval()
    x, adj = torch.randn(2, 6, 2), torch.rand(2, 6, 6).round()
    mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    with Diagnostics(pool) as diagnostics:
        out = pool(x, adj=adj, mask=mask)
        found = diagnostics.metrics()[""]
    assert found["entropy_loss"] == pytest.approx(entropy_loss(out.s, mask=mask).item(), abs=1e-6)
    assert found["cluster_loss"] == pytest.approx(cluster_loss(out.s, mask=mask).item(), abs=1e-6)
    used = sum(len(set(s[m].argmax(-1).tolist())) for s, m in zip(out.s, mask)) / 2
    assert found["clusters"] == used
    with Diagnostics(pool) as diagnostics:  # one graph, without a batch dimension
        pool(x[0], adj=adj[0])
        assert diagnostics.metrics()[""]["clusters"] >= 1


def test_sparse_matrix_and_no_distances() -> None:
    pool = SimPool(assignment=MLP([4, 5, 3], norm=None), k=4).eval()
    data = graphs()[0]
    adj_t = torch.sparse_coo_tensor(
        data.edge_index.flip(0), torch.ones(data.num_edges), (data.num_nodes,) * 2
    )
    with Diagnostics(pool, distances=False) as diagnostics:
        pool(data.x, data.edge_index)
        plain = diagnostics.metrics()[""]
        pool(data.x, adj_t.coalesce())
        sparse = diagnostics.metrics()[""]
    assert "distance_ratio" not in plain
    assert plain == pytest.approx(sparse)
    assert not math.isnan(plain["edges_inside"])


def test_tensorboard(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    model, batch = network(), Batch.from_data_list(graphs())
    with Diagnostics(model, log_dir=tmp_path) as diagnostics:
        for epoch in (1, 2):
            run(model, batch)
            found = diagnostics.metrics(epoch)
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


def saved_and_loaded(model: torch.nn.Module) -> Any:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def sent_to_a_process(model: torch.nn.Module) -> Any:
    return pickle.loads(ForkingPickler.dumps(model))


COPIES: list[Callable[[Any], Any]] = [copy.deepcopy, saved_and_loaded, sent_to_a_process]


@pytest.mark.parametrize("copied", COPIES)
def test_copies_are_not_recorded(copied: Callable[[Any], Any]) -> None:
    model, batch = network(), Batch.from_data_list(graphs())
    with Diagnostics(model) as diagnostics:
        recorded = run(model, batch).logits
        expected = diagnostics.metrics()
        best = copied(model)
        assert torch.equal(run(best, batch).logits, recorded)
        assert diagnostics.metrics() == {"pool0": {}, "pool1": {}}
        with Diagnostics(best) as other:  # a copy may be recorded on its own
            run(model, batch)
            assert other.metrics() == {"pool0": {}, "pool1": {}}
            run(best, batch)
            assert other.metrics() == expected == diagnostics.metrics()
    # What was copied outlives the Diagnostics, and may be copied in any way.
    for again in COPIES:
        assert torch.equal(run(again(best), batch).logits, recorded)


@pytest.mark.parametrize("copied", COPIES)
def test_copies_hold_on_to_nothing(copied: Callable[[Any], Any]) -> None:
    model = network()
    diagnostics = Diagnostics(model)
    best = copied(model)
    diagnostics.close()
    alive = weakref.ref(diagnostics)
    del diagnostics
    gc.collect()
    assert alive() is None
    assert isinstance(best, SimPoolNet)


def test_a_copy_of_the_diagnostics_can_be_closed() -> None:
    """As of a model that holds its own."""
    with Diagnostics(network()) as diagnostics:
        with copy.deepcopy(diagnostics) as copied:
            pass
        copied.close()
        assert diagnostics._hooks[0].diagnostics is diagnostics


def test_loaded_models_take_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch numbers hooks from zero in a new process, and saves which take keywords."""
    pool = SimPool(assignment=MLP([2, 5, 3], norm=None), features="node")
    with Diagnostics(pool):
        (number,) = pool._forward_hooks
        saved = pickle.dumps(pool)
    monkeypatch.setattr(RemovableHandle, "next_id", number)
    loaded, calls = pickle.loads(saved), []
    loaded.register_forward_hook(lambda layer, args, out: calls.append(len(args)))
    loaded(torch.randn(6, 2), torch.randint(0, 6, (2, 9)))
    assert calls == [2]


def test_a_shallow_copy_is_not_recorded_a_replica_is() -> None:
    pool = SimPool(assignment=MLP([2, 5, 3], norm=None), features="node").eval()
    given = torch.randn(6, 2), torch.randint(0, 6, (2, 9))
    with Diagnostics(pool) as diagnostics:
        copy.copy(pool)(*given)
        assert diagnostics.metrics() == {"": {}}
        replica = pool._replicate_for_data_parallel()  # the layer on another device
        replica(*given)
        assert set(diagnostics.metrics()[""]) == OF_ALL | OF_SPARSE


def test_closed_hooks_do_nothing() -> None:
    """Code compiled while a layer was recorded still calls them."""
    pool = SimPool(assignment=MLP([2, 5, 3], norm=None), features="node").eval()
    with Diagnostics(pool) as diagnostics:
        (hook,) = pool._forward_hooks.values()
    given = torch.randn(6, 2), torch.randint(0, 6, (2, 9))
    hook(pool, given, {}, pool(*given))
    assert diagnostics.metrics() == {"": {}}


@pytest.mark.parametrize("sparse_first", [True, False])
def test_one_layer_on_sparse_and_dense_batches(sparse_first: bool) -> None:
    pool = SimPool(assignment=MLP([2, 5, 3], norm=None), features="node").eval()
    data, x = graphs()[0], torch.randn(4, 6, 2)
    calls = [
        lambda: pool(data.x[:, :2], data.edge_index),
        lambda: pool(x, adj=torch.ones(4, 6, 6)),
    ]
    with Diagnostics(pool) as diagnostics:
        alone = []
        for call in calls:
            call()
            alone.append(diagnostics.metrics()[""])
        for call in calls if sparse_first else calls[::-1]:
            call()
        found = diagnostics.metrics()[""]
        assert diagnostics.metrics() == {"": {}}
    assert set(found) == OF_ALL | OF_SPARSE
    for name in OF_SPARSE:
        assert found[name] == pytest.approx(alone[0][name], nan_ok=True)
    for name in OF_ALL:  # of one graph, and of four
        assert found[name] == pytest.approx((alone[0][name] + 4 * alone[1][name]) / 5)


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("dense", [False, True])
def test_a_diverged_model_shows(dense: bool, value: float) -> None:
    pool = SimPool(assignment=MLP([2, 5, 3], norm=None), k=None).eval()
    x = torch.randn(2, 6, 2)
    read = x.clone()
    read[1, 0] = value
    edge_index = torch.tensor([[0, 1, 2, 6, 7], [1, 2, 3, 7, 8]])
    batch = torch.arange(2).repeat_interleave(6)

    def forward(read: Tensor) -> SimPoolOutput:
        if dense:
            return pool(x, adj=torch.ones(2, 6, 6), sim=read)
        return pool(x.flatten(0, 1), edge_index, batch, sim=read.flatten(0, 1))

    with warnings.catch_warnings(), Diagnostics(pool) as diagnostics:
        warnings.simplefilter("error")
        forward(x)
        forward(read)  # one graph of four
        found = diagnostics.metrics()[""]
        assert set(found) == (OF_ALL if dense else OF_ALL | OF_SPARSE)
        assert all(math.isnan(metric) for metric in found.values())
        forward(x)
        found = diagnostics.metrics()[""]
        assert not any(math.isnan(found[name]) for name in OF_ALL)


def test_padding_is_not_divergence() -> None:
    pool = SimPool(assignment=MLP([2, 5, 3], norm=None), features="node").eval()
    mask = torch.tensor([[True] * 4 + [False] * 2])
    with Diagnostics(pool) as diagnostics:
        out = pool(torch.randn(1, 6, 2), adj=torch.ones(1, 6, 6), mask=mask)
        spoilt = out._replace(s=out.s.masked_fill(~mask.unsqueeze(-1), math.nan))
        expected = diagnostics.metrics()
        (hook,) = pool._forward_hooks.values()
        hook(pool, (out.x,), {"adj": out.adj, "mask": mask}, spoilt)
        assert diagnostics.metrics() == expected


def test_undefined_metrics_are_left_out() -> None:
    pool = SimPool(assignment=MLP([2, 5, 1], norm=None), features="node").eval()
    path, batch = torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 0, 0, 1, 1])
    with Diagnostics(pool) as diagnostics:
        pool(torch.randn(5, 2), path, batch)  # the second graph has no edges
        found = diagnostics.metrics()[""]
    assert found["edges_inside"] == found["distance_ratio"] == 1
    assert math.isnan(found["evenness"])  # with one cluster, of all


@pytest.mark.parametrize("dense", [False, True])
def test_graphs_without_nodes_have_no_losses(dense: bool) -> None:
    pool = SimPool(assignment=MLP([2, 5, 3], norm=None), features="node").eval()
    x = torch.randn(3, 2)
    with Diagnostics(pool) as diagnostics:
        if dense:
            mask = torch.tensor([[True] * 3, [False] * 3])
            out = pool(torch.stack([x, x]), adj=torch.ones(2, 3, 3), mask=mask)
        else:
            out = pool(x, torch.tensor([[0, 1], [1, 2]]), torch.ones(3).long(), batch_size=4)
        found = diagnostics.metrics()[""]
    for name in ("entropy_loss", "cluster_loss"):
        assert found[name] == pytest.approx(getattr(out, name).item(), rel=1e-5)


class Readout(torch.nn.Module):
    """PyTorch runs the hooks of the outermost module before it compiles."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = SimPool(assignment=MLP([2, 5, 3], norm=None), features="node")

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.pool(x, edge_index).x.sum(dim=1)


def test_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Readout()
    given = torch.randn(6, 2), torch.randint(0, 6, (2, 9))
    traced = []

    def spy(*args: Any) -> Any:
        traced.append(torch.compiler.is_compiling())
        return locality(*args)

    monkeypatch.setattr(module, "locality", spy)
    torch.compiler.reset()
    try:
        compiled = torch.compile(model, backend="eager")
        whole = torch.compile(model, backend="eager", fullgraph=True)
    except RuntimeError as error:
        pytest.skip(f"torch.compile: {error}")
    with Diagnostics(model) as diagnostics:
        whole(*given)  # training is not recorded: no graph break
        assert diagnostics.metrics() == {"pool": {}}
        model.eval()
        expected = model(*given), diagnostics.metrics()
        torch.testing.assert_close(compiled(*given), expected[0])
        found = diagnostics.metrics()
    assert found["pool"] == pytest.approx(expected[1]["pool"], abs=1e-6)
    assert traced == [False, False]


def test_exported() -> None:
    """A layer is exported without its hooks."""
    pool = SimPool(assignment=MLP([2, 5, 3], norm=None), features="node").eval()
    given = torch.randn(1, 6, 2), None, None, None
    adj = {"adj": torch.ones(1, 6, 6)}
    alone = torch.export.export(pool, given, adj, strict=False)
    with warnings.catch_warnings(), Diagnostics(pool) as diagnostics:
        warnings.filterwarnings("error", message="Diagnostics")
        recorded = torch.export.export(pool, given, adj, strict=False)
        assert diagnostics.metrics() == {"": {}}
    assert len(recorded.graph.nodes) == len(alone.graph.nodes)


class OfData(SimPool):
    def forward(self, data: Data) -> SimPoolOutput:  # type: ignore[override]
        return super().forward(data.x, data.edge_index, data.batch)


class OtherName(SimPool):
    def forward(  # type: ignore[override]
        self, x: Tensor, edge_index: Tensor, graph: Tensor
    ) -> SimPoolOutput:
        return super().forward(x, edge_index, graph)


class AnyName(SimPool):
    def forward(self, *args: Any, **kwargs: Any) -> SimPoolOutput:
        return super().forward(*args, **kwargs)


class OtherResult(SimPool):
    def forward(  # type: ignore[override]
        self, x: Tensor, edge_index: Tensor, batch: Tensor
    ) -> tuple[Tensor, Tensor]:
        return super().forward(x, edge_index, batch)[1:3]


class MoreArguments(SimPool):
    def forward(  # type: ignore[override]
        self, x: Tensor, time: float, edge_index: Tensor, batch: Tensor
    ) -> SimPoolOutput:
        return super().forward(x * time, edge_index, batch)


def test_subclasses() -> None:
    batch = Batch.from_data_list(graphs())
    cases = [
        (OfData, (batch,)),
        (OtherName, (batch.x, batch.edge_index, batch.batch)),
        (AnyName, (batch.x, batch.edge_index, batch.batch)),
        (OtherResult, (batch.x, batch.edge_index, batch.batch)),
    ]
    for kind, given in cases:
        pools = torch.nn.ModuleDict(
            {"pool": kind(assignment=MLP([3, 5, 3], norm=None), features="node")}
        )
        with Diagnostics(pools.eval()) as diagnostics:
            with pytest.warns(UserWarning, match=f"leaves out .* {kind.__name__} 'pool': its"):
                pools["pool"](*given)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                pools["pool"](*given)  # once
            assert diagnostics.metrics() == {"pool": {}}
    pool = MoreArguments(assignment=MLP([3, 5, 3], norm=None), features="node").eval()
    with Diagnostics(pool) as diagnostics:
        pool(batch.x, 1.0, batch.edge_index, batch.batch)
        assert set(diagnostics.metrics()[""]) == OF_ALL | OF_SPARSE


def test_an_error_in_recording_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise MemoryError("all pairs of a large graph")

    model, batch = network(), Batch.from_data_list(graphs())
    with Diagnostics(model) as diagnostics:
        run(model, batch)
        expected = diagnostics.metrics()
        monkeypatch.setattr(module, "locality", fail)
        with pytest.warns(UserWarning, match="all pairs") as said:
            run(model, batch)
        assert len(said) == 2  # one of each layer
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run(model, batch)
        monkeypatch.undo()
        run(model, batch)
        assert diagnostics.metrics() == expected


def test_errors() -> None:
    with pytest.raises(TypeError, match=r"`model` must be a torch\.nn\.Module"):
        Diagnostics("model")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must have a SimPool layer, got Linear"):
        Diagnostics(torch.nn.Linear(2, 2))
