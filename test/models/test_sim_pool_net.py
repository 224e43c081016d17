"""The paper's classifier: equations, identities of a batch, training and wrong arguments."""

import copy
import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.transforms import ToSparseTensor

from helpers import oracle, weights
from helpers.graphs import FLAVORS, Graph, draw, union
from torch_geometric_simpool import StructuralSimilarity, reference
from torch_geometric_simpool.models import Architecture, SimPoolNet

UNWEIGHTED = [f for f in FLAVORS if draw(f, 0).weights is None and f != "nothing"]
SIZES = Architecture(10, (10, 9), (8, 7), 6, (10, 20), 5, (8, 4))


def small(**settings: Any) -> SimPoolNet:
    settings = {"k": 12, "order": None, "architecture": SIZES, **settings}
    return SimPoolNet(3, 6, **settings)


def batch_of(seed: int) -> tuple[Graph, Tensor, Tensor]:
    graph, batch = union([draw(f, seed) for f in UNWEIGHTED])
    return graph, batch, torch.randn(graph.num_nodes, 3)


def sample(number: int, seed: int = 0) -> list[dict[str, Any]]:
    """Settings of networks, drawn from all combinations."""
    rng = random.Random(seed)
    drawn = []
    while len(drawn) < number:
        settings = {
            "features": rng.choice(["structural", "node", "both"]),
            "gru": rng.random() < 0.3,
            "edge_dim": rng.choice([None, 2]),
            "readout": rng.choice(["last", "all"]),
            "p": rng.choice([1, 2]),
            "lam": rng.choice([0.0, 0.5]),
            "alpha": rng.choice([1.0, 0.8]),
        }
        if not (settings["gru"] and settings["features"] == "node"):
            drawn.append(settings)
    return drawn


def equations(net: SimPoolNet, graph: Graph, x: Tensor, attr: Tensor | None) -> list[Tensor]:
    """Computes logits and losses by the functions of `reference`."""
    topk = net.transform().topk
    mapped = oracle.mapped(
        graph.exact_adj, net.transform().k, topk.p, topk.lam, net.transform().alpha
    )

    def assignment_input(structural: Tensor, node: Tensor) -> Tensor:
        parts = {"structural": [structural], "node": [node], "both": [structural, node]}
        return torch.cat(parts[net.features], dim=1)

    z0 = weights.gmn(net.embed0, x, graph.edge_index, attr)
    sim = torch.tensor(mapped, dtype=torch.float32).double()
    s0 = weights.gmn(net.assign0, assignment_input(sim, x), graph.edge_index, attr)
    s0, x1, a1 = reference.sim_pool(z0, graph.adj(), s0)
    z1 = weights.gcn(net.embed1, x1, a1)
    lins = net.assign1.lins
    rows = reference.structural_similarity(a1, topk.p, topk.lam)
    s1 = lins[1](lins[0](assignment_input(rows, x1)).relu())
    s1, x2, a2 = reference.sim_pool(z1, a1, s1)
    z2 = weights.gcn(net.embed2, x2, a2)
    sums = [z2.sum(dim=0)] if net.readout == "last" else [z1.sum(dim=0), z2.sum(dim=0)]
    losses = (reference.entropy_loss, reference.cluster_loss)
    return [net.lin(torch.cat(sums)).unsqueeze(0), *(loss(s0) + loss(s1) for loss in losses)]


@pytest.mark.parametrize("settings", [s for s in sample(12) if not s["gru"]], ids=str)
def test_equals_the_equations(settings: dict[str, Any]) -> None:
    """Values and the gradients of all parameters are equal."""
    graph = draw("undirected", 0)
    net = small(**settings).double()
    x = torch.randn(graph.num_nodes, 3, dtype=torch.float64)
    attr = None
    if settings["edge_dim"] is not None:
        attr = torch.randn(len(graph.edges), 2, dtype=torch.float64)
    out = list(net(x, graph.edge_index, edge_attr=attr)[:3])
    expected = equations(net, graph, x, attr)
    torch.testing.assert_close(out, expected)
    grads = [
        torch.autograd.grad(
            sum(o.square().sum() for o in outs), list(net.parameters()), materialize_grads=True
        )
        for outs in (out, expected)
    ]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("settings", sample(8, seed=1), ids=str)
def test_batched_equals_single(settings: dict[str, Any]) -> None:
    """Results do not depend on the largest graph, to whose size the rows of a GRU are padded."""
    graph, batch, x = batch_of(1)
    net = small(**settings)
    attr = torch.randn(len(graph.edges), 2) if settings["edge_dim"] else None
    out = net(x, graph.edge_index, batch, edge_attr=attr)
    losses = []
    for b, flavor in enumerate(UNWEIGHTED):
        of_graph = batch[graph.edge_index[0]] == b
        own = None if attr is None else attr[of_graph]
        alone = net(x[batch == b], draw(flavor, 1).edge_index, edge_attr=own)
        torch.testing.assert_close(alone.logits[0], out.logits[b], rtol=1e-4, atol=1e-5)
        losses.append(torch.stack([alone.entropy_loss, alone.cluster_loss]))
    together = torch.stack([out.entropy_loss, out.cluster_loss])
    torch.testing.assert_close(together, torch.stack(losses).mean(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", sample(6, seed=2), ids=str)
def test_every_parameter_learns(settings: dict[str, Any]) -> None:
    """Gradients of the logits reach every network, because features of level 1 have gradients."""
    graph, batch, x = batch_of(6)
    net = small(**settings)
    attr = torch.randn(len(graph.edges), 2) if settings["edge_dim"] else None
    net(x, graph.edge_index, batch, edge_attr=attr).logits.square().sum().backward()
    for name, child in net.named_children():
        assert all(torch.isfinite(p.grad).all() for p in child.parameters()), name
        assert any(p.grad.abs().sum() > 0 for p in child.parameters()), name


def test_losses_reach_the_assignments() -> None:
    """The entropy of level 1 depends on S0 only through the rows of C."""
    graph, batch, x = batch_of(7)
    net = small()
    for loss in ("entropy_loss", "cluster_loss"):
        net.zero_grad()
        getattr(net(x, graph.edge_index, batch).levels[1], loss).backward()
        for part in (net.assign0, net.assign1):
            assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in part.parameters())


def test_features_on_the_fly_are_those_of_the_transform() -> None:
    graphs = [draw(f, 2).data(x=torch.randn(draw(f, 2).num_nodes, 3)) for f in UNWEIGHTED]
    graph, batch, _ = batch_of(2)
    x = torch.cat([data.x for data in graphs])
    for transform in (
        StructuralSimilarity(5, p=2, alpha=0.8),
        StructuralSimilarity(4, order="rcm"),
    ):
        net = SimPoolNet(3, 6, SIZES, **transform.parameters())
        assert repr(net.transform()) == repr(transform)
        sim = torch.cat([transform(data).sim for data in graphs])
        fly = net(x, graph.edge_index, batch)
        assert torch.equal(fly.logits, net(x, graph.edge_index, batch, sim).logits)
        order = torch.randperm(graph.num_nodes)  # an unsorted batch
        place = order.argsort()
        moved = net(x[order], place[graph.edge_index], batch[order])
        torch.testing.assert_close(moved.entropy_loss, fly.entropy_loss)
        torch.testing.assert_close(moved.logits, fly.logits)


def test_default_features_do_not_depend_on_the_numbering() -> None:
    graph = draw("path", 3)
    net = SimPoolNet(3, 6, architecture=SIZES, features="structural")
    x, number = torch.ones(graph.num_nodes, 3), torch.randperm(graph.num_nodes)
    out, moved = net(x, graph.edge_index), net(x, number[graph.edge_index])
    torch.testing.assert_close(out.logits, moved.logits)


def test_weights_and_sparse_matrices() -> None:
    graph, batch = union([draw("undirected", 3), draw("directed", 3)])
    x, weight = torch.randn(graph.num_nodes, 3), torch.rand(len(graph.edges))
    net = small()
    out = net(x, graph.edge_index, batch, edge_weight=weight)
    assert not torch.allclose(out.logits, net(x, graph.edge_index, batch).logits)
    data = graph.data(edge_weight=weight)
    adj_t = ToSparseTensor(attr="edge_weight", layout=torch.sparse_coo)(data).adj_t
    torch.testing.assert_close(net(x, adj_t, batch).entropy_loss, out.entropy_loss)


def test_graphs_without_nodes() -> None:
    graph, batch, x = batch_of(5)
    for settings in ({}, {"lam": 0.5, "gru": True}):
        net = small(**settings)
        out = net(x, graph.edge_index, batch, batch_size=len(UNWEIGHTED) + 2)
        expected = net(x, graph.edge_index, batch)
        assert torch.isfinite(out.logits).all()
        torch.testing.assert_close(out.logits[:-2], expected.logits)
        torch.testing.assert_close(out[1:3], expected[1:3])
    nothing = small()(x[:0], graph.edge_index[:, :0], batch[:0], batch_size=2)
    assert nothing.entropy_loss == nothing.cluster_loss == 0


@pytest.mark.parametrize("features", ["structural", "node", "both"])
def test_labels(features: str) -> None:
    graph, batch, _ = batch_of(0)
    net = small(features=features)
    label = torch.arange(graph.num_nodes) % 3
    outs = [net(x, graph.edge_index, batch) for x in (label, F.one_hot(label, 3).float())]
    torch.testing.assert_close(outs[0].logits, outs[1].logits)
    net = SimPoolNet(1, 2, architecture=SIZES, features=features)
    ones = torch.ones(graph.num_nodes, 1)
    outs = [net(x, graph.edge_index, batch) for x in (ones.long().view(-1) - 1, ones)]
    torch.testing.assert_close(outs[0].logits, outs[1].logits)


def test_dropout_is_before_the_last_layer_in_training() -> None:
    graph, batch, x = batch_of(0)
    net = small(dropout=0.75, readout="all")
    inputs: list[Tensor] = []
    net.lin.register_forward_hook(lambda _, arguments, __: inputs.append(arguments[0]))
    for mode in (False, True):
        net.train(mode)(x, graph.edge_index, batch)
    whole, part = inputs
    torch.testing.assert_close(part, 4 * whole * (part != 0))
    assert not torch.equal(whole, part)


def test_losses_of_the_tasks() -> None:
    graph, batch, x = batch_of(0)
    out = small()(x, graph.edge_index, batch)
    extra = 2 * out.entropy_loss + 3 * out.cluster_loss
    size, p = out.logits.size(0), out.logits.sigmoid()
    y = torch.randint(6, (size,))
    expected = -out.logits.log_softmax(dim=1)[torch.arange(size), y].mean() + extra
    torch.testing.assert_close(out.loss(y.int(), 2.0, 3.0), expected)
    y = torch.randint(2, (size, 6)).float()
    expected = -(y * p.log() + (1 - y) * (1 - p).log()).mean() + extra
    several = out.loss(y, 2.0, 3.0, F.binary_cross_entropy_with_logits)
    torch.testing.assert_close(several, expected)
    y = torch.randn(size, 6).double()
    expected = (out.logits - y).square().mean().float() + extra
    torch.testing.assert_close(out.loss(y, 2.0, 3.0, F.mse_loss), expected)
    for target in (
        y[:, 0],  # would be broadcast
        y[:-1],
        torch.full((size,), 6),
        torch.full((size,), -100),  # which PyTorch ignores
        torch.zeros(size - 1).long(),
        y.tolist(),
    ):
        for criterion in (F.cross_entropy, F.mse_loss):
            with pytest.raises((TypeError, ValueError), match="`y`"):
                out.loss(target, criterion=criterion)


def test_a_few_steps_lower_the_loss() -> None:
    graph, batch, x = batch_of(9)
    y = torch.arange(len(UNWEIGHTED)) % 6
    net = small(features="both")
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
    out = net(x, graph.edge_index, batch).logits
    assert torch.equal(other(x, graph.edge_index, batch).logits, out)
    other.reset_parameters()
    for name, parameter in net.named_parameters():
        if "weight" in name:
            assert not torch.equal(parameter, other.get_parameter(name)), name


def test_explanations_mask_the_messages() -> None:
    """PyG's explainers multiply the messages of every layer by a mask."""
    graph, batch, x = batch_of(0)
    net = small().eval()
    expected = net(x, graph.edge_index, batch).logits
    mask = torch.full((graph.edge_index.size(1),), -3.0, requires_grad=True)
    set_masks(net.embed0.conv2, mask, graph.edge_index)
    masked = net(x, graph.edge_index, batch).logits
    assert not torch.allclose(masked, expected)
    masked.sum().backward()
    assert mask.grad.abs().sum() > 0
    clear_masks(net.embed0.conv2)
    assert torch.equal(net(x, graph.edge_index, batch).logits, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_types(dtype: torch.dtype) -> None:
    graph, batch, x = batch_of(0)
    net = small(edge_dim=2, k=3)
    narrow, attr = copy.deepcopy(net).to(dtype), torch.rand(len(graph.edges), 2)
    expected = net(x, graph.edge_index, batch, edge_attr=attr).logits
    out = narrow(x.to(dtype), graph.edge_index, batch, edge_attr=attr.to(dtype))
    assert out.logits.dtype == dtype
    torch.testing.assert_close(out.logits.float(), expected, rtol=0.2, atol=0.2)
    out.logits.sum().backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = net(x, graph.edge_index, batch, edge_attr=attr)
    torch.testing.assert_close(out.logits.float(), expected, rtol=0.2, atol=0.2)


EDGES = torch.tensor([[0, 1], [1, 0]])
BATCH = torch.tensor([0, 0, 1])
X = torch.ones(3, 3)
#: Arguments of the constructor and of the call, and the argument that the error names.
WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"features": "edges"}, {}, "features"),
    ({"readout": "first"}, {}, "readout"),
    ({"dropout": 2.0}, {}, "dropout"),
    ({"k": 0}, {}, "k"),
    ({"gru": True, "features": "node"}, {}, "gru"),
    ({"gru": True}, {"sim": torch.rand(3, 12)}, "sim"),
    ({}, {"x": None}, "x"),
    ({}, {"x": torch.tensor([0, 1, 3])}, "x"),
    ({}, {"x": torch.tensor([0, 1, -1])}, "x"),
    ({}, {"x": torch.ones(3)}, "x"),
    ({}, {"edge_index": EDGES + 2}, "edge_index"),
    ({}, {"edge_index": EDGES + 1}, "edge_index"),  # joins two graphs
    ({}, {"edge_index": EDGES - 1}, "edge_index"),
    ({}, {"edge_index": EDGES.float()}, "edge_index"),
    ({}, {"batch": BATCH[:2]}, "batch"),
    ({}, {"batch_size": 1}, "batch"),
    ({}, {"edge_weight": torch.tensor([1.0, torch.nan])}, "edge_weight"),
    ({}, {"edge_attr": torch.ones(2, 2)}, "edge_attr"),
    ({"edge_dim": 2}, {}, "edge_attr"),
    ({}, {"sim": torch.rand(2, 12)}, "sim"),
    ({}, {"sim": torch.rand(3, 11)}, "sim"),
]


def test_wrong_arguments() -> None:
    for settings, changed, name in WRONG:
        arguments = {"x": X, "edge_index": EDGES, "batch": BATCH, **changed}
        with pytest.raises((TypeError, ValueError), match=f"`{name}`"):
            small(**settings)(**arguments)
    with pytest.raises(ValueError, match="`gru`"):
        small(gru=True).transform()
