"""All methods train a step, and the output for a graph does not depend on other graphs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from harness.data.inputs import make_loader, set_structural_features
from harness.data.load import GraphData
from harness.data.motifs import generate_motifs
from harness.data.similar import set_similar_nodes
from harness.evaluation import assignments, evaluate
from harness.methods.pooled import set_pooled_graphs
from harness.methods.registry import METHODS, TGP, build
from harness.run import Run
from harness.train import train_epoch

GRAPHS = generate_motifs(8)


def network(method: str, **settings: Any) -> tuple[torch.nn.Module, list[Data]]:
    run = Run("motifs", "motifs", method=method, width=0.1, **{"k": 4, **settings}).filled()
    data = GraphData("motifs", GRAPHS, 3, "labels")
    graphs = data.prepared(np.arange(8))
    set_structural_features(run, graphs)
    set_similar_nodes(run, graphs)
    set_pooled_graphs(run, graphs)
    torch.manual_seed(0)
    return build(run, data, np.arange(8)), graphs


def check(method: str, **settings: Any) -> torch.nn.Module:
    model, graphs = network(method, **settings)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batches = list(make_loader(graphs, 4))
    before = [p.detach().clone() for p in model.parameters()]
    assert np.isfinite(train_epoch(model, batches, optimizer)["loss"])
    assert any(not torch.equal(p, b) for p, b in zip(model.parameters(), before))
    assert 0 <= evaluate(model, batches)["val_accuracy"] <= 1
    with torch.no_grad():
        together = torch.cat([model(batch).logits for batch in batches])
        single = torch.cat([model(batch).logits for batch in make_loader(graphs, 1)])
    torch.testing.assert_close(together, single, rtol=1e-3, atol=1e-4)
    measured = assignments(model, graphs, 4)
    if measured:
        assert len(measured["drawn"][0].clusters) == len(measured["drawn"][0].labels)
    return model


@pytest.mark.parametrize("method", METHODS)
def test_methods(method: str) -> None:
    check(method)


@pytest.mark.parametrize(
    "settings",
    [
        {"features": "both", "order": "bfs"},
        {"features": "node", "readout": "all", "dropout": 0.5},
        {"gru": True},
        {"features": "laplacian", "order": "given", "k": 8},
    ],
    ids=str,
)
def test_inputs_of_simpool(settings: dict) -> None:
    check("simpool", **settings)


@pytest.mark.slow
@pytest.mark.parametrize("method", TGP)
def test_poolers_of_tgp(method: str) -> None:
    pytest.importorskip("tgp.poolers", reason="needs torch-geometric-pool")
    model, graphs = network(method)
    (batch,) = make_loader(graphs, 8)
    model(batch).loss(batch.y).backward()
    assert evaluate(model, [batch])["val_accuracy"] >= 0


OWN = """
import torch
from typing import NamedTuple
from torch_geometric_simpool import SimPool, sim_pool

class MyPool(torch.nn.Module):
    def __init__(self, in_channels, num_clusters):
        super().__init__()
        self.lin = torch.nn.Linear(in_channels, num_clusters)

    def forward(self, x, edge_index, batch, edge_weight=None, batch_size=None):
        s = self.lin(x)
        x, adj, *losses = sim_pool(x, edge_index, s, batch, edge_weight, batch_size)
        return Out(s.softmax(-1), x, adj, *losses[:2])

class Out(NamedTuple):
    s: torch.Tensor
    x: torch.Tensor
    adj: torch.Tensor
    entropy_loss: torch.Tensor
    cluster_loss: torch.Tensor
"""


def test_a_pooling_layer_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_own_pool.py").write_text(OWN)
    model = check("my_own_pool:MyPool")
    assert model.pool0.lin.out_features == 8


@pytest.mark.slow
def test_a_class_that_is_called_as_those_of_tgp() -> None:
    pytest.importorskip("tgp.poolers", reason="needs torch-geometric-pool")
    check("tgp.poolers:TopkPooling")


def test_labels_and_one_hot_features_give_the_same_baseline() -> None:
    model, graphs = network("baseline")
    (batch,) = make_loader(graphs, 8)
    expected = model(batch).logits
    batch.x = torch.nn.functional.one_hot(batch.x, 5).float()
    torch.testing.assert_close(model(batch).logits, expected)
