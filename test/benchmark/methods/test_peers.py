"""The peers: each takes what SimPool takes, and learns from its own losses."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.nn import dense_diff_pool, global_add_pool
from torch_geometric.utils import to_dense_adj

import networks
from harness.data.batches import Batches
from data import GraphData
from declarations import Run
from peers import METHODS, PEERS, DiffPoolNet, SortPoolNet
from torch_geometric_simpool.models import PRESETS
from training import predict

ARCHITECTURE = PRESETS["enzymes"].architecture.scaled(0.02)


def graphs() -> list[Data]:
    made = []
    for n in (5, 12, 1, 9):
        one_way = torch.randint(0, n, (2, 2 * n)) if n > 1 else torch.empty(2, 0, dtype=torch.long)
        edge_index = torch.cat([one_way, one_way.flip(0)], dim=1).unique(dim=1)
        made.append(Data(x=torch.randn(n, 3), edge_index=edge_index, y=torch.tensor([n % 2])))
    return made


def build(method: str) -> torch.nn.Module:
    more = {"num_nodes": torch.tensor([5, 12, 1, 9])} if method == "sortpool" else {}
    return PEERS[method](3, 2, ARCHITECTURE, None, **more)


@pytest.mark.parametrize("method", PEERS)
def test_every_parameter_is_on_the_gradient_path(method: str) -> None:
    model = build(method).train()
    (batch,) = Batches(graphs(), 4, torch.device("cpu"))
    out = predict(model, batch)
    assert out.logits.shape == (4, 2)
    out.loss(batch.y, 1.0, 1.0).backward()
    without = {n for n, p in model.named_parameters() if p.grad is None}
    assert not without


@pytest.mark.parametrize("method", PEERS)
def test_a_graph_does_not_depend_on_its_batch(method: str) -> None:
    model, data = build(method).eval(), graphs()
    together = predict(model, Batch.from_data_list(data)).logits
    alone = [predict(model, Batch.from_data_list([graph])).logits for graph in data]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-4, atol=1e-5)


def test_sortpool_keeps_as_many_nodes_as_most_graphs_to_train_on_have() -> None:
    none = torch.empty(2, 0, dtype=torch.long)
    sizes = [20, 30, 30, 40, 300, 300, 300, 300]
    made = [Data(x=torch.ones(n, 3), edge_index=none, y=torch.tensor([n % 2])) for n in sizes]
    data = GraphData("TINY", made, 2, "labels", 0)
    run = Run("TINY", "enzymes", method="sortpool", width=0.02).filled()
    model = networks.build(run, data, np.arange(4))
    assert isinstance(model, SortPoolNet)
    assert model.sort.k == 30


def test_baseline_is_blind_to_structure() -> None:
    model, batch = build("baseline"), Batch.from_data_list(graphs())
    first = predict(model, batch).logits
    batch.edge_index = torch.randint(0, 5, (2, 40))
    assert torch.equal(predict(model, batch).logits, first)


def test_baseline_on_labels() -> None:
    """The MLP sees each label once, and the sum is that over all nodes, as are its gradients."""
    torch.manual_seed(0)
    model = build("baseline").double()
    x = torch.eye(3, dtype=torch.float64)[torch.randint(0, 3, (900,))]
    batch = torch.randint(0, 4, (900,)).sort().values * 2  # graphs without nodes among them
    seen: list[int] = []
    handle = model.mlp.register_forward_hook(lambda _, given, out: seen.append(len(out)))
    found = model(x, torch.zeros(2, 0).long(), batch, batch_size=8).logits
    expected = model.lin(global_add_pool(model.mlp(x), batch, 8))
    assert seen == [3, 900]
    handle.remove()
    torch.testing.assert_close(found, expected)
    upstream, inputs = torch.randn_like(found), list(model.parameters())
    for a, b in zip(
        *(torch.autograd.grad(out, inputs, upstream) for out in (found, expected)), strict=True
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("method", [m for m in PEERS if m != "baseline"])
def test_others_are_not(method: str) -> None:
    model, batch = build(method).eval(), Batch.from_data_list(graphs())
    first = predict(model, batch).logits
    batch.edge_index = batch.edge_index[:, :-6]
    assert not torch.allclose(predict(model, batch).logits, first)


def test_diffpool_is_pygs_graph_by_graph() -> None:
    model, data = DiffPoolNet(3, 2, ARCHITECTURE, None), graphs()
    out = predict(model, Batch.from_data_list(data))
    losses: list[Tensor] = []
    for number, graph in enumerate(data):
        adj = to_dense_adj(graph.edge_index, max_num_nodes=graph.num_nodes)
        logits = model.assign0(graph.x, graph.edge_index)
        x, coarse, *both = dense_diff_pool(model.embed0(graph.x, graph.edge_index), adj, logits)
        torch.testing.assert_close(out.levels[0].x[number], x[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(out.levels[0].adj[number], coarse[0])
        losses.append(sum(both))
    # Level 1 adds its own.
    assert out.auxiliary > torch.stack(losses).mean()
    assert out.loss(torch.tensor([0, 1, 0, 1])) > out.auxiliary


def test_diffpool_losses_reach_the_assignment() -> None:
    """Where they are thrown away, only the class tells an assignment what to do."""
    model = DiffPoolNet(3, 2, ARCHITECTURE, None)
    predict(model, Batch.from_data_list(graphs())).auxiliary.backward()
    assert model.assign0.conv2.lin_node.weight.grad.abs().sum() > 0
    assert model.assign1_out.lin.weight.grad.abs().sum() > 0


def test_methods() -> None:
    names = "simpool diffpool sortpool gunet sagpool nopool baseline"
    assert list(METHODS) == names.split()
