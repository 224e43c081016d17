"""The paper's classifier: its table, its equations, and the identities of a batch."""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks

from helpers import oracle, weights
from helpers.graphs import FLAVORS, Graph, draw, union
from torch_geometric_simpool import (
    StructuralSimilarity,
    reference,
)
from torch_geometric_simpool.functional.pooling import SimPoolOutput
from torch_geometric_simpool.models import GMN, GMNConv, SimPoolNet, SimPoolNetOutput

UNWEIGHTED = [f for f in FLAVORS if draw(f, 0).weights is None and f != "nothing"]


def small(**settings: Any) -> SimPoolNet:
    return SimPoolNet.from_preset("enzymes", 3, 6, width=0.02, **settings)


def batch_of(seed: int) -> tuple[Graph, Tensor, Tensor]:
    graph, batch = union([draw(f, seed) for f in UNWEIGHTED])
    return graph, batch, torch.randn(graph.num_nodes, 3)


def shapes(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {k: tuple(v.shape) for k, v in module.state_dict().items() if k.endswith("weight")}


# ------------------------------------------------------------------ the table


def test_parameters_are_those_of_the_table_for_enzymes() -> None:
    """A GMN layer reads both ends of an edge; `f_node` a node and its messages."""
    assert shapes(SimPoolNet.from_preset("enzymes", in_channels=3, num_classes=6)) == {
        "embed0.encoder.lin_node.weight": (512, 3),
        "embed0.conv1.lin_message.weight": (512, 512 + 512),
        "embed0.conv1.lin_node.weight": (512, 512 + 512),
        "embed0.conv2.lin_message.weight": (512, 512 + 512),
        "embed0.conv2.lin_node.weight": (256, 512 + 512),
        "pool0.assignment.encoder.lin_node.weight": (512, 12),
        "pool0.assignment.conv1.lin_message.weight": (512, 512 + 512),
        "pool0.assignment.conv1.lin_node.weight": (512, 512 + 512),
        "pool0.assignment.conv2.lin_message.weight": (512, 512 + 512),
        "pool0.assignment.conv2.lin_node.weight": (8, 512 + 512),
        "embed1.lin.weight": (512, 256),
        "pool1.assignment.lins.0.weight": (256, 8),
        "pool1.assignment.lins.1.weight": (4, 256),
        "embed2.lin.weight": (1024, 512),
        "lin.weight": (6, 1024),
    }


def test_parameters_are_those_of_the_table_for_dd() -> None:
    with torch.device("meta"):
        net = SimPoolNet.from_preset("dd-10fold", in_channels=89, num_classes=2)
    assert shapes(net) == {
        "embed0.encoder.lin_node.weight": (1024, 89),
        "embed0.conv1.lin_message.weight": (1024, 2048),
        "embed0.conv1.lin_node.weight": (1024, 2048),
        "embed0.conv2.lin_message.weight": (1024, 2048),
        "embed0.conv2.lin_node.weight": (1024, 2048),
        "pool0.assignment.encoder.lin_node.weight": (1024, 32),
        "pool0.assignment.conv1.lin_message.weight": (1024, 2048),
        "pool0.assignment.conv1.lin_node.weight": (1024, 2048),
        "pool0.assignment.conv2.lin_message.weight": (1024, 2048),
        "pool0.assignment.conv2.lin_node.weight": (32, 2048),
        "embed1.lin.weight": (2048, 1024),
        "pool1.assignment.lins.0.weight": (2048, 32),
        "pool1.assignment.lins.1.weight": (8, 2048),
        "embed2.lin.weight": (4096, 2048),
        "lin.weight": (2, 4096),
    }


@pytest.mark.parametrize(
    ("features", "gru", "level0", "level1"),
    [
        ("structural", False, 12, 8),
        ("node", False, 3, 256),
        ("both", False, 12 + 3, 8 + 256),
    ],
)
def test_what_the_assignment_networks_read(
    features: str, gru: bool, level0: int, level1: int
) -> None:
    """Node features of level 1 are X', as wide as Z0."""
    with torch.device("meta"):
        net = SimPoolNet.from_preset("enzymes", 3, 6, features=features)
    found = shapes(net)
    assert found["pool0.assignment.encoder.lin_node.weight"] == (512, level0)
    assert found["pool1.assignment.lins.0.weight"] == (256, level1)


def test_presets_set_the_features() -> None:
    names = ("k", "alpha", "p", "lam", "order")
    for preset, k, alpha in (("enzymes", 12, 1.0), ("enzymes-10fold", 15, 0.8)):
        settings = SimPoolNet.from_preset(preset, 3, 6, 0.02).transform().parameters()
        assert [settings[name] for name in names] == [k, alpha, 1, 0, None]
    net = SimPoolNet.from_preset("enzymes", 3, 6, 0.02, k=3, p=2, lam=0.5, alpha=0.5)
    assert [net.transform().parameters()[name] for name in names] == [3, 0.5, 2, 0.5, None]


# ------------------------------------------------------------------ the equations


@pytest.mark.parametrize(
    ("features", "edge_dim", "readout"),
    [
        *((features, None, "last") for features in ("structural", "node", "both")),
        *((features, 2, "last") for features in ("structural", "node", "both")),
        ("structural", None, "all"),
    ],
)
def test_equals_the_equations_one_after_the_other(
    features: str, edge_dim: int | None, readout: str
) -> None:
    graph = draw("undirected", 0)
    net = small(features=features, edge_dim=edge_dim, readout=readout).double()
    x = torch.randn(graph.num_nodes, 3, dtype=torch.float64)
    attr = None
    if edge_dim is not None:
        attr = torch.randn(len(graph.edges), edge_dim, dtype=torch.float64)
    sim = torch.tensor(oracle.mapped(graph.exact_adj, 12, 1, 0.0, 1.0), dtype=torch.float64)
    out = net(x, graph.edge_index, sim=sim, edge_attr=attr)

    def read(structural: Tensor, node: Tensor) -> Tensor:
        parts = {"structural": [structural], "node": [node], "both": [structural, node]}
        return torch.cat(parts[features], dim=1)

    z0 = weights.gmn(net.embed0, x, graph.edge_index, attr)
    assert isinstance(net.pool0.assignment, GMN)
    s0 = weights.gmn(net.pool0.assignment, read(sim, x), graph.edge_index, attr)
    s0, x1, a1 = reference.sim_pool(z0, graph.adj(), s0)
    z1 = weights.gcn(net.embed1, x1, a1)
    lins = net.pool1.assignment.lins
    s1 = lins[1](lins[0](read(reference.structural_similarity(a1), x1)).relu())
    s1, x2, a2 = reference.sim_pool(z1, a1, s1)
    z2 = weights.gcn(net.embed2, x2, a2)
    sums = [z2.sum(dim=0)] if readout == "last" else [z1.sum(dim=0), z2.sum(dim=0)]
    logits = torch.cat(sums) @ net.lin.weight.t() + net.lin.bias
    torch.testing.assert_close(out.logits, logits.unsqueeze(0))
    for loss in (reference.entropy_loss, reference.cluster_loss):
        torch.testing.assert_close(getattr(out, loss.__name__), loss(s0) + loss(s1))


def test_loss() -> None:
    graph, batch, x = batch_of(0)
    out = small()(x, graph.edge_index, batch)
    assert isinstance(out, SimPoolNetOutput)
    y = torch.randint(6, (len(UNWEIGHTED),))
    expected = F.cross_entropy(out.logits, y) + 0.4 * out.entropy_loss + 2 * out.cluster_loss
    torch.testing.assert_close(out.loss(y, 0.4, 2.0), expected)
    assert len(out.levels) == 2
    assert [level.s.size(-1) for level in out.levels] == [8, 4]


# ------------------------------------------------------------------ identities


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"features": "node"},
        {"features": "both"},
        {"gru": True},
        {"gru": True, "features": "both"},
        {"readout": "all"},
        {"p": 2, "lam": 0.5, "alpha": 0.8},
    ],
    ids=str,
)
def test_batched_equals_single(settings: dict[str, Any]) -> None:
    """Whatever the size of the largest graph, by which the rows of a GRU are padded."""
    graph, batch, x = batch_of(1)
    net = small(**settings)
    out = net(x, graph.edge_index, batch)
    losses = []
    for b, flavor in enumerate(UNWEIGHTED):
        alone = net(x[batch == b], draw(flavor, 1).edge_index)
        torch.testing.assert_close(alone.logits[0], out.logits[b], rtol=1e-4, atol=1e-5)
        losses.append(torch.stack([alone.entropy_loss, alone.cluster_loss]))
    together = torch.stack([out.entropy_loss, out.cluster_loss])
    torch.testing.assert_close(together, torch.stack(losses).mean(0), rtol=1e-4, atol=1e-5)


def test_features_on_the_fly_equal_those_of_the_transform() -> None:
    graph, batch, x = batch_of(2)
    net = small(k=5, p=2, alpha=0.8)
    sim = torch.cat(
        [StructuralSimilarity(5, 0.8, None, p=2)(draw(f, 2).data()).sim for f in UNWEIGHTED]
    )
    fly = net(x, graph.edge_index, batch)
    assert torch.equal(fly.logits, net(x, graph.edge_index, batch, sim).logits)


def test_edge_weights_count() -> None:
    graph, batch, x = batch_of(3)
    net = small()
    weight = torch.rand(len(graph.edges))
    weighted = net(x, graph.edge_index, batch, edge_weight=weight).logits
    assert not torch.allclose(weighted, net(x, graph.edge_index, batch).logits)


def test_edge_features_count_in_both_networks() -> None:
    graph, batch, x = batch_of(4)
    net = small(edge_dim=2)
    attr = torch.randn(len(graph.edges), 2)
    out = net(x, graph.edge_index, batch, edge_attr=attr)
    other = net(x, graph.edge_index, batch, edge_attr=attr + 1)
    assert not torch.equal(out.levels[0].s, other.levels[0].s)
    assert not torch.equal(out.levels[0].x, other.levels[0].x)
    out.logits.sum().backward()
    for model in (net.embed0, net.pool0.assignment):
        assert model.encoder.lin_edge.weight.grad.abs().sum() > 0
    with pytest.raises(ValueError, match=r"`edge_attr` must have shape .*got None"):
        net(x, graph.edge_index, batch)


def test_graphs_without_nodes_have_logits() -> None:
    graph, batch, x = batch_of(5)
    net = small()
    out = net(x, graph.edge_index, batch, batch_size=len(UNWEIGHTED) + 2)
    assert out.logits.shape == (len(UNWEIGHTED) + 2, 6)
    assert torch.isfinite(out.logits).all()
    plain = net(x, graph.edge_index, batch)
    torch.testing.assert_close(out.logits[:-2], plain.logits)
    for level, expected in zip(out.levels, plain.levels, strict=True):
        torch.testing.assert_close(level.entropy_loss, expected.entropy_loss)
        torch.testing.assert_close(level.cluster_loss, expected.cluster_loss)
    nothing = net(x[:0], graph.edge_index[:, :0], batch[:0], batch_size=2)
    assert nothing.entropy_loss == nothing.cluster_loss == 0


# ------------------------------------------------------------------ training


def read_by_the_last_layer(net: SimPoolNet) -> Tensor:
    """What it reads of one graph."""
    graph = draw("undirected", 0)
    read = []
    hook = net.lin.register_forward_hook(lambda _, given, __: read.append(given[0]))
    net(torch.linspace(-1, 1, 3 * graph.num_nodes).view(-1, 3), graph.edge_index)
    hook.remove()
    return read[0]


@pytest.mark.parametrize("readout", ["last", "all"])
def test_dropout_is_before_the_last_layer_in_training(readout: str) -> None:
    net = small(dropout=0.75, readout=readout)
    whole = read_by_the_last_layer(net.eval())
    part = read_by_the_last_layer(net.train())
    assert not torch.equal(whole, part)
    torch.testing.assert_close(part, 4 * whole * (part != 0))
    net.dropout = 0.0
    assert torch.equal(read_by_the_last_layer(net), whole)


@pytest.mark.parametrize("settings", [{}, {"gru": True}, {"readout": "all"}], ids=str)
def test_every_parameter_learns(settings: dict[str, Any]) -> None:
    """From the logits alone: structural features of level 1 are on the way back."""
    graph, batch, x = batch_of(6)
    net = small(**settings)
    net(x, graph.edge_index, batch).logits.square().sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
    for part in (net.embed0, net.pool0, net.embed1, net.pool1, net.embed2, net.lin):
        assert any(p.grad.abs().sum() > 0 for p in part.parameters())


def test_both_losses_reach_both_assignments() -> None:
    graph, batch, x = batch_of(7)
    net = small()
    for name in ("entropy_loss", "cluster_loss"):
        net.zero_grad()
        out = net(x, graph.edge_index, batch)
        assert getattr(out, name).requires_grad
        getattr(out, name).backward()
        for pool in (net.pool0, net.pool1):
            assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in pool.parameters())


def test_level_one_differentiates_through_its_structural_features() -> None:
    """Its entropy depends on S0 through nothing but the rows of C."""
    graph, batch, x = batch_of(8)
    net = small()
    net(x, graph.edge_index, batch).levels[1].entropy_loss.backward()
    assert any(p.grad.abs().sum() > 0 for p in net.pool0.parameters() if p.grad is not None)


@pytest.mark.parametrize("features", ["structural", "node", "both"])
def test_a_few_steps_lower_the_loss(features: str) -> None:
    graph, batch, x = batch_of(9)
    y = torch.arange(len(UNWEIGHTED)) % 6
    net = small(features=features)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = net(x, graph.edge_index, batch).loss(y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


def test_state_dict_and_reset() -> None:
    graph, batch, x = batch_of(1)
    net, other = small(), small()
    other.load_state_dict(net.state_dict())
    before = net(x, graph.edge_index, batch).logits
    assert torch.equal(other(x, graph.edge_index, batch).logits, before)
    other.reset_parameters()
    assert not torch.allclose(other(x, graph.edge_index, batch).logits, before)
    for name, parameter in net.named_parameters():
        if "weight" in name:
            assert not torch.equal(parameter, other.get_parameter(name)), name


# ------------------------------------------------------------------ what it refuses


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"gru": True, "features": "node"}, ValueError, r"`gru` must be False .*got True"),
        ({"features": "edges"}, ValueError, r"`features` must be one of .*got 'edges'"),
        ({"k": 0}, ValueError, r"`k` must be an integer >= 1, got 0"),
    ],
)
def test_settings_that_do_not_go_together(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        small(**settings)


@pytest.mark.parametrize("name", ["in_channels", "num_classes"])
def test_no_channels(name: str) -> None:
    arguments = {"in_channels": 3, "num_classes": 6, name: 0}
    with pytest.raises(ValueError, match=rf"`{name}` must be an integer >= 1, got 0"):
        SimPoolNet.from_preset("enzymes", **arguments, width=0.02)


def test_a_gru_computes_its_own_rows() -> None:
    graph, batch, x = batch_of(0)
    with pytest.raises(ValueError, match=r"`sim` must be None where `gru` is set, got"):
        small(gru=True)(x, graph.edge_index, batch, torch.rand(graph.num_nodes, 12))


def test_explanations_reach_the_last_layer_of_z0() -> None:
    """PyG's explainers mask messages, in every layer."""
    graph, batch = union([draw("undirected", 0), draw("undirected", 1)])
    net = SimPoolNet.from_preset("enzymes", 3, 6, width=0.03).eval()
    given = (torch.randn(graph.num_nodes, 3), graph.edge_index, batch)
    expected = net(*given).logits
    mask = torch.full((graph.edge_index.size(1),), -100.0, requires_grad=True)
    set_masks(net.embed0.conv2, mask, graph.edge_index)
    masked = net(*given).logits
    assert not torch.allclose(masked, expected)
    masked.sum().backward()
    assert mask.grad is not None
    clear_masks(net.embed0.conv2)
    torch.testing.assert_close(net(*given).logits, expected)


def test_hooks_of_the_pooling_see_its_output() -> None:
    """And can change it: what they return is what is used."""
    graph, batch, x = batch_of(0)
    net = small().eval()
    expected = net(x, graph.edge_index, batch)
    seen: list[SimPoolOutput] = []
    handle = net.pool0.register_forward_hook(lambda _, args, out: seen.append(out))
    found = net(x, graph.edge_index, batch)
    assert torch.equal(found.logits, expected.logits)
    assert torch.equal(seen[0].x, expected.levels[0].x)
    handle.remove()
    net.pool0.register_forward_hook(lambda _, args, out: out._replace(x=0 * out.x))
    assert net(x, graph.edge_index, batch).levels[0].x.abs().max() == 0


def test_a_layer_with_activations_cannot_follow_the_pooling() -> None:
    conv = GMNConv(3, 4, act=True)
    with pytest.raises(ValueError, match="`pooled` needs a layer with act=False, got GMNConv"):
        conv.pooled(
            torch.randn(5, 3), torch.rand(5, 2), torch.tensor([[0], [1]]), torch.zeros(5).long(), 1
        )


def test_pooled_needs_the_edge_features_that_the_layer_reads() -> None:
    conv = GMNConv(3, 4, edge_dim=2, act=False)
    given = torch.randn(5, 3), torch.rand(5, 2), torch.tensor([[0], [1]]), torch.zeros(5).long(), 1
    with pytest.raises(ValueError, match=r"`edge_attr` must have shape \[1, 2\], got None"):
        conv.pooled(*given)


@pytest.mark.parametrize("features", ["structural", "node", "both"])
def test_labels_stand_for_one_hot_features(features: str) -> None:
    graph, batch, _ = batch_of(0)
    net = small(features=features)
    label = torch.arange(graph.num_nodes) % 3
    one_hot = torch.nn.functional.one_hot(label, 3).float()
    found, expected = (net(x, graph.edge_index, batch) for x in (label, one_hot))
    torch.testing.assert_close(found.logits, expected.logits)
    with pytest.raises(ValueError, match=r"`x` must hold labels in \[0, 3\), got 3"):
        net(label + 1, graph.edge_index, batch)


def test_compiles_without_graph_breaks() -> None:
    graph, batch = union([draw("undirected", 0), draw("undirected", 1)])
    torch.manual_seed(0)
    net = small().eval()
    given = (torch.randn(graph.num_nodes, 3), graph.edge_index, batch)
    sim = torch.rand(graph.num_nodes, 12)
    expected = net(*given, sim, batch_size=2)
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    found = compiled(*given, sim, batch_size=2)
    torch.testing.assert_close(found.logits, expected.logits)
    torch.testing.assert_close(found.levels[0].x, expected.levels[0].x)


# ------------------------------------------------------------------ one's own data


def test_clusters_and_width_of_ones_own() -> None:
    """The widths for ENZYMES if none are given; the numbers of clusters stay."""
    net = SimPoolNet(3, 2, clusters=(6, 2), width=0.25)
    found = shapes(net)
    assert found["embed0.encoder.lin_node.weight"] == (128, 3)
    assert found["pool0.assignment.encoder.lin_node.weight"] == (128, 12)
    assert found["pool0.assignment.conv2.lin_node.weight"] == (6, 256)
    assert found["pool1.assignment.lins.0.weight"] == (64, 6)
    assert found["pool1.assignment.lins.1.weight"] == (2, 64)
    graph, batch, x = batch_of(0)
    out = net(x, graph.edge_index, batch)
    assert [level.adj.shape[1:] for level in out.levels] == [(6, 6), (2, 2)]
    preset = shapes(SimPoolNet.from_preset("dd", 3, 2, width=0.01, clusters=[6, 2]))
    assert preset["embed0.encoder.lin_node.weight"] == (10, 3)
    assert preset["pool0.assignment.conv2.lin_node.weight"] == (6, 20)


@pytest.mark.parametrize("clusters", [8, (8,), (8, 4, 2), "84", (0, 4), (8, 2.5)])
def test_bad_clusters(clusters: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"`clusters` must be .*, got"):
        SimPoolNet(3, 2, clusters=clusters, width=0.02)


def test_losses_of_the_tasks() -> None:
    """By their formulas, with the losses on the assignments."""
    graph, batch, x = batch_of(0)
    size = int(batch.max()) + 1
    numbers = torch.rand(size, 2)
    nets = {t: small(task=t) for t in ("classification", "multilabel", "regression")}
    outs = {task: net(x, graph.edge_index, batch) for task, net in nets.items()}
    labels = (numbers > 0.5).long()

    def extra(out: SimPoolNetOutput) -> Tensor:
        return 2 * out.entropy_loss + 3 * out.cluster_loss

    out = outs["classification"]
    expected = F.nll_loss(out.logits.log_softmax(dim=1), labels[:, 0]) + extra(out)
    torch.testing.assert_close(out.loss(labels[:, 0], 2.0, 3.0), expected)

    labels = torch.randint(2, (size, 6))
    out = outs["multilabel"]
    p = out.logits.sigmoid()
    entropy = -(labels * p.log() + (1 - labels) * (1 - p).log()).mean()
    torch.testing.assert_close(out.loss(labels, 2.0, 3.0), entropy + extra(out))

    out = outs["regression"]
    y = torch.randn(size, 6)
    expected = (out.logits - y).square().mean() + extra(out)
    torch.testing.assert_close(out.loss(y.double(), 2.0, 3.0), expected)


def test_targets_are_not_broadcast() -> None:
    """`[B]` against `[B, 1]` would be `[B, B]`."""
    graph, batch, x = batch_of(0)
    net = SimPoolNet(3, 1, width=0.02, task="regression")
    out = net(x, graph.edge_index, batch)
    y = torch.randn(out.logits.size(0))
    expected = F.mse_loss(out.logits.squeeze(1), y) + out.entropy_loss + out.cluster_loss
    torch.testing.assert_close(out.loss(y), expected)
    torch.testing.assert_close(out.loss(y.unsqueeze(1)), expected)
    for wrong in (y[:-1], y.unsqueeze(0)):
        with pytest.raises(ValueError, match=r"`y` must have shape \[\d+, 1\].*, got \["):
            out.loss(wrong)
    with pytest.raises(TypeError, match=r"`y` must be a torch.Tensor, got list"):
        out.loss(y.tolist())
    with pytest.raises(ValueError, match=r"`task` must be one of 'classification'.*got 'ranking'"):
        SimPoolNet(3, 1, width=0.02, task="ranking")


@pytest.mark.parametrize("features", ["structural", "node", "both"])
def test_data_without_node_features(features: str) -> None:
    """A 1 is read for each node."""
    graph, batch, _ = batch_of(0)
    net = SimPoolNet(1, 2, width=0.02, features=features)
    ones = torch.ones(graph.num_nodes, 1)
    sim = net.transform()(Batch.from_data_list([draw(f, 0).data() for f in UNWEIGHTED])).sim
    expected = net(ones, graph.edge_index, batch)
    for given in ({"batch": batch}, {"batch": batch, "sim": sim}):
        found = net(None, graph.edge_index, **given)
        torch.testing.assert_close(found.logits, expected.logits)
        assert all(p.grad is not None for p in gradients(net, found.logits))
    one = draw("undirected", 0)
    single = net(None, one.edge_index, sim=net.transform()(one.data()).sim)
    torch.testing.assert_close(
        single.logits, net(torch.ones(one.num_nodes, 1), one.edge_index).logits
    )


def gradients(net: SimPoolNet, out: Tensor) -> list[torch.nn.Parameter]:
    """The parameters of Z0, after a backward pass."""
    net.zero_grad()
    out.square().sum().backward()
    return list(net.embed0.parameters())


def test_what_data_without_node_features_must_tell() -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match=r"`x` must be given where `in_channels` is 3, got None"):
        small()(None, edge_index, torch.zeros(2).long())
    with pytest.raises(ValueError, match=r"`batch` or `sim` must be given where `x` is None"):
        SimPoolNet(1, 2, width=0.02)(None, edge_index)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("edge_dim", [None, 2])
def test_a_network_of_a_narrow_type(dtype: torch.dtype, edge_dim: int | None) -> None:
    """Values and gradients of that type, near those of float32."""
    net = SimPoolNet(3, 2, k=3, width=0.1, edge_dim=edge_dim)
    narrow = copy.deepcopy(net).to(dtype)
    x, edge_index = torch.rand(9, 3), torch.arange(18).view(2, 9) % 9
    sim = StructuralSimilarity(3, order=None)(Data(edge_index=edge_index, num_nodes=9)).sim
    edge_attr = None if edge_dim is None else torch.rand(9, edge_dim)
    expected = net(x, edge_index, sim=sim, edge_attr=edge_attr).logits
    edge_attr = None if edge_attr is None else edge_attr.to(dtype)
    out = narrow(x.to(dtype), edge_index, sim=sim.to(dtype), edge_attr=edge_attr)
    assert out.logits.dtype == dtype
    torch.testing.assert_close(out.logits.float(), expected, rtol=0.1, atol=0.1)
    out.loss(torch.tensor([1])).backward()
    gradients = [p.grad for p in narrow.parameters() if p.grad is not None]
    assert gradients
    assert all(g.dtype == dtype and torch.isfinite(g).all() for g in gradients)
