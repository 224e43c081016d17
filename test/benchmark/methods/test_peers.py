"""The peers are called like SimPool, and are trained with their own losses."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GCNConv, dense_diff_pool
from torch_geometric.utils import to_dense_adj

from harness.data.batches import Batches
from harness.data.graph_data import GraphData
from harness.methods.base import NetworkInput, Peer, PeerInput, PeerOutput, adjacency
from harness.methods.build import build as build_network
from harness.methods.diffpool import DiffPoolNet
from harness.methods.presets import READERS
from harness.methods.registry import PEERS, Method
from harness.methods.selection import SortPoolNet
from harness.methods.unpooled import Baseline
from harness.study.run import Run
from harness.training.evaluation import predict
from torch_geometric_simpool.models import PRESETS

ARCHITECTURE = PRESETS["enzymes"].architecture.scaled(0.02)


def graphs() -> list[Data]:
    made = []
    for n in (5, 12, 1, 9):
        one_way = torch.randint(0, n, (2, 2 * n)) if n > 1 else torch.empty(2, 0, dtype=torch.long)
        edge_index = torch.cat([one_way, one_way.flip(0)], dim=1).unique(dim=1)
        made.append(Data(x=torch.randn(n, 3), edge_index=edge_index, y=torch.tensor([n % 2])))
    return made


GIVEN = NetworkInput(3, 2, ARCHITECTURE, None, torch.tensor([5, 12, 1, 9]))


def build(method: str) -> Peer:
    return PEERS[method].build(GIVEN)


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
    model = build_network(run, data, np.arange(4))
    assert isinstance(model, SortPoolNet)
    assert model.sort.k == 30


@pytest.mark.parametrize("method", READERS["dropout"][1:])
def test_dropout_before_the_last_layer(method: str) -> None:
    """With a probability of one, nothing but its bias is left in training."""
    model = PEERS[method].build(GIVEN._replace(dropout=1.0))
    batch = Batch.from_data_list(graphs())
    assert isinstance(model, (Baseline, DiffPoolNet))
    bias = model.lin.bias.expand(4, -1)
    assert torch.equal(predict(model.train(), batch).logits, bias)
    assert not torch.allclose(predict(model.eval(), batch).logits, bias)


def test_methods_without_a_setting_do_not_read_it() -> None:
    """Otherwise a run would not say so: such settings are none of its own."""
    batch = Batch.from_data_list(graphs())
    changed = {"dropout": GIVEN._replace(dropout=1.0), "readout": GIVEN._replace(readout="all")}
    for method in PEERS:
        for name, other in changed.items():
            logits = []
            for given in (GIVEN, other):
                torch.manual_seed(0)
                logits.append(predict(PEERS[method].build(given).train(), batch).logits)
            assert torch.equal(logits[0], logits[1]) == (method not in READERS[name])


def test_diffpool_reads_the_sums_of_both_levels() -> None:
    model = DiffPoolNet(GIVEN._replace(readout="all")).eval()
    out = predict(model, Batch.from_data_list(graphs()))
    level0, level1 = out.levels
    z1, z2 = model.embed1(level0.x, level0.adj), model.embed2(level1.x, level1.adj)
    read = torch.cat([z1.sum(dim=1), z2.sum(dim=1)], dim=-1)
    torch.testing.assert_close(out.logits, model.lin(read))


def test_baseline_is_blind_to_structure() -> None:
    model, batch = build("baseline"), Batch.from_data_list(graphs())
    first = predict(model, batch).logits
    batch.edge_index = torch.randint(0, 5, (2, 40))
    assert torch.equal(predict(model, batch).logits, first)


def test_baseline_is_the_sum_of_an_mlp() -> None:
    model = Baseline(GIVEN).double()
    x = torch.randn(9, 3, dtype=torch.float64)
    batch = torch.tensor([0, 0, 0, 0, 2, 2, 2, 2, 2])  # graphs 1 and 3 have no nodes
    found = model(x, torch.zeros(2, 0).long(), batch, batch_size=4).logits
    member = torch.stack([batch == graph for graph in range(4)]).double()
    total = member @ torch.cat([model.mlp(row) for row in x.split(1)])
    torch.testing.assert_close(found, model.lin(total))


def test_baseline_reads_labels_as_one_hot_features() -> None:
    model, found = Baseline(GIVEN).double(), []
    parameters = list(model.parameters())
    labels, none = torch.tensor([0, 2, 2, 0, 2, 2, 0, 0, 0]), torch.zeros(2, 0).long()
    batch = torch.tensor([0, 0, 0, 0, 2, 2, 2, 2, 2])
    for x in (labels, F.one_hot(labels, 3).double()):
        logits = model(x, none, batch, batch_size=4).logits
        found.append((logits, *torch.autograd.grad(logits.square().sum(), parameters)))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("method", [m for m in PEERS if m != "baseline"])
def test_others_are_not(method: str) -> None:
    model, batch = build(method).eval(), Batch.from_data_list(graphs())
    first = predict(model, batch).logits
    batch.edge_index = batch.edge_index[:, :-6]
    assert not torch.allclose(predict(model, batch).logits, first)


def test_diffpool_is_pygs_graph_by_graph() -> None:
    model, data = DiffPoolNet(GIVEN), graphs()
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
    y = torch.tensor([0, 1, 0, 1])
    assert out.loss(y) > out.auxiliary
    # The scaler is that of the entropy loss of PyG, which is L_E but for a small constant.
    own = F.cross_entropy(out.logits, y)
    torch.testing.assert_close(out.loss(y, 1.0, 9.0), own + out.auxiliary)
    entropy = out.levels[0].entropy_loss + out.levels[1].entropy_loss
    expected = own + out.auxiliary - 0.75 * entropy
    torch.testing.assert_close(out.loss(y, 0.25), expected, rtol=1e-4, atol=1e-4)


def test_unnormalized_link_losses_are_norms() -> None:
    """At both levels, of each graph alone, as in the paper of DiffPool."""
    model, data = DiffPoolNet(GIVEN, normalize=False).double(), graphs()
    batch = Batch.from_data_list(data)
    batch.x = batch.x.double()
    out = predict(model, batch)
    level0, level1 = out.levels
    norms = []
    for number, (graph, s0) in enumerate(zip(data, level0.s.split([g.num_nodes for g in data]))):
        adj0 = to_dense_adj(graph.edge_index, max_num_nodes=graph.num_nodes)[0].double()
        adj1, s1 = level0.adj[number], level1.s[number]
        norm0 = (adj0 - s0 @ s0.T).square().sum().sqrt()
        norm1 = (adj1 - s1 @ s1.T).square().sum().sqrt()
        norms.append(norm0 + norm1)
    torch.testing.assert_close(out.auxiliary - out.entropy, torch.stack(norms).mean())


def test_diffpool_losses_reach_the_assignment() -> None:
    """Without them, assignments would be trained by the class alone."""
    model = DiffPoolNet(GIVEN)
    predict(model, Batch.from_data_list(graphs())).auxiliary.backward()
    assert model.assign0.conv2.lin_node.weight.grad.abs().sum() > 0
    assert model.assign1_out.lin.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("method", PEERS)
def test_peers_that_assign_are_declared_so(method: str) -> None:
    """What is stored of them, and checked when it is read, depends on this."""
    out = predict(build(method), Batch.from_data_list(graphs()))
    assert len(out.levels) == (2 if PEERS[method].assigns else 0)


def test_a_sparse_matrix_gives_the_convolution_of_all_edges() -> None:
    """In values and gradients; edges in any order, of one direction, and some twice."""
    edge_index = torch.tensor([[3, 0, 0, 1, 4, 0], [1, 1, 2, 2, 0, 1]])
    conv, x = GCNConv(4, 5).double(), torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, 5, dtype=torch.float64)
    found = []
    for edges in (edge_index, adjacency(edge_index, x)):
        out = conv(x, edges)
        found.append((out, *torch.autograd.grad((out * weight).sum(), [x, *conv.parameters()])))
    for expected, other in zip(*found):
        torch.testing.assert_close(other, expected)


ONE_LEVEL: Any = (None,)


class _Wrong(Peer):
    """Returns what it is told to."""

    def __init__(self, out: Any) -> None:
        super().__init__()
        self.out = out

    def classify(self, graphs: PeerInput) -> PeerOutput:
        return self.out


@pytest.mark.parametrize(
    ("out", "assigns", "said"),
    [
        (torch.zeros(3, 2), False, "must return a PeerOutput, got Tensor"),
        (PeerOutput(torch.zeros(2, 2)), False, r"for each of 3 graphs, got shape \[2, 2\]"),
        (PeerOutput(torch.zeros(3)), False, r"got shape \[3\]"),
        (PeerOutput(torch.zeros(3, 2)), True, "is True, levels must have 2 entries, got 0"),
        (PeerOutput(torch.zeros(3, 2), levels=ONE_LEVEL), False, "must have 0 entries, got 1"),
    ],
)
def test_a_wrong_output_is_found_in_the_first_step(out: Any, assigns: bool, said: str) -> None:
    model = Method(lambda given: _Wrong(out), assigns).build(GIVEN)
    with pytest.raises((TypeError, ValueError), match=f"_Wrong.classify.*{said}"):
        predict(model, Batch.from_data_list(graphs()[:3]))
