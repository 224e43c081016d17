"""Public functions on a device that is not there: no tensor on the wrong one, no needless waiting.

Each runs forward and backward on the device of `helpers.pretend`, where its results must be those
of a CPU. What that shows, and what it cannot show, is said there. Where a docstring promises that
nothing synchronizes, that is counted; besides, tensors without values, of PyTorch's device `meta`,
run through both passes. (Fake tensors of the device `cuda` cannot be indexed without CUDA.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only
from torch_geometric.data import Data
from torch_geometric.nn import MLP

import torch_geometric_simpool as package
from helpers.graphs import draw, union
from helpers.pretend import PretendDevice, needs_gpu, values_of
from torch_geometric_simpool import models
from torch_geometric_simpool.models import SimPoolNet

GRAPH, BATCH = union([draw(flavor, 5) for flavor in ("integer", "isolated", "parallel", "star")])
N, E, B = GRAPH.num_nodes, len(GRAPH.edges), 4
EDGES = GRAPH.edge_index
WEIGHT = torch.rand(E, generator=torch.Generator().manual_seed(0))
MASK = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
LABELS = torch.arange(N) % 3
PLACES = torch.full((4, 3), 2)
SIZES = torch.full((4,), 6)
CLASSES = torch.tensor([0, 2, 1, 1])

#: Puts a tensor, a module or several of them on a device.
Put = Callable[[Any], Any]


def rows(*size: int) -> Tensor:
    """Random, and the same in every call; a leaf that needs a gradient."""
    return torch.rand(*size, generator=torch.Generator().manual_seed(1)).requires_grad_()


def assigned(*size: int) -> Tensor:
    return rows(*size).detach().softmax(-1).requires_grad_()


def adjacency() -> Tensor:
    adj = (rows(2, 5, 5).detach() > 0.5).float()
    return (adj + adj.mT).requires_grad_()


def data(put: Put) -> Data:
    return Data(edge_index=put(EDGES), edge_weight=put(WEIGHT), num_nodes=N)


def tensors_of(graph: Data) -> list[Tensor]:
    return [value for value in graph.to_dict().values() if isinstance(value, Tensor)]


def query(put: Put) -> Any:
    index = package.SimilarityIndex(put(EDGES), num_nodes=N, backend="auto")
    changed = index.add_edges(put(EDGES[:, :2]))
    return [changed, index.remove_edges(put(EDGES[:, :1])), *index.query(changed, 3)]


def network(seed: int, **settings: Any) -> SimPoolNet:
    torch.manual_seed(seed)
    return SimPoolNet.from_preset("enzymes", 3, 3, width=0.02, **settings)


def step(put: Put, x: Tensor, edge_attr: Tensor | None = None, **settings: Any) -> Tensor:
    """What a training step of the classifier does, but for the optimizer."""
    net = put(network(0, **settings))
    edge_attr = None if edge_attr is None else put(edge_attr)
    sim = None if settings.get("gru") else put(rows(N, 12).detach())
    out = net(put(x), put(EDGES), put(BATCH), sim, edge_attr, put(WEIGHT), B)
    return out.loss(put(CLASSES))


def layer(put: Put) -> Any:
    torch.manual_seed(0)
    pool = put(package.SimPool(MLP([4, 3], norm=None), k=4))
    x, features = put((rows(N, 3), rows(N, 4)))
    out = pool(x, put(EDGES), put(BATCH), features, batch_size=B, edge_weight=put(WEIGHT))
    deeper = put(package.SimPool(MLP([3, 2], norm=None)))
    return *out[:5], *deeper(out.x, adj=out.adj)[:5]


def layer_on_the_fly(put: Put) -> Any:
    torch.manual_seed(0)
    pool = put(package.SimPool(MLP([4, 3], norm=None), k=4))
    sparse = pool(put(rows(N, 3)), put(EDGES), put(BATCH), edge_weight=put(WEIGHT))
    return *sparse[:5], *pool(put(rows(2, 5, 3)), adj=put(adjacency()), mask=put(MASK))[:5]


def pool(
    put: Put, batch_size: int | None = None, weighted: bool = False, edge_dim: int = 0
) -> tuple[Tensor, ...]:
    x, edges, logits, batch = put((rows(N, 2), EDGES, rows(N, 3), BATCH))
    weight = put(rows(E)) if weighted else None
    if edge_dim == 0:
        return package.sim_pool(x, edges, logits, batch, weight, batch_size)
    edge_attr = put(rows(E, edge_dim))
    return package.sim_pool(x, edges, logits, batch, weight, batch_size, edge_attr)


def drawn(put: Put) -> Tensor:
    """The numbers of nodes in one color."""
    ax = package.plot_clusters(data(put), put(assigned(N, 3)), Figure().subplots())
    return put(torch.tensor([np.size(part.get_offsets(), 0) for part in ax.collections[1:]]))


def similarity(measure: str, put: Put) -> Tensor:
    return package.structural_similarity(put(adjacency()), 2, 0.5, measure, put(MASK))


@dataclass(frozen=True)
class Call:
    """How a function is called; `free` if its docstring promises that nothing synchronizes."""

    run: Callable[[Put], Any]
    free: bool = False


CALLS: dict[str, list[Call]] = {
    "AddSimilarityEdges": [
        Call(lambda put: tensors_of(package.AddSimilarityEdges(3)(data(put)))),
        Call(lambda put: tensors_of(package.AddSimilarityEdges(3, symmetrize="mutual")(data(put)))),
    ],
    "SimPool": [Call(layer, True), Call(layer_on_the_fly)],
    "SimilarityIndex": [Call(query)],
    "StructuralSimilarity": [
        Call(lambda put: package.StructuralSimilarity(3)(data(put)).sim),
        Call(lambda put: package.StructuralSimilarity(3, order="rcm", p=2)(data(put)).sim),
    ],
    "TopKEstimate": [],  # a named tuple of numbers, which `estimate_topk` returns
    "cluster_loss": [
        Call(lambda put: package.cluster_loss(put(assigned(N, 3)), put(BATCH), None, B), True),
        Call(lambda put: package.cluster_loss(put(assigned(2, 5, 3)), mask=put(MASK))),
    ],
    "cluster_mask": [
        Call(lambda put: package.cluster_mask(put(assigned(N, 3)), put(BATCH), None, B), True),
        Call(lambda put: package.cluster_mask(put(assigned(2, 5, 3)), mask=put(MASK)), True),
    ],
    "dense_sim_pool": [
        Call(
            lambda put: package.dense_sim_pool(
                *put((rows(2, 5, 2), adjacency(), rows(2, 5, 3), MASK))
            ),
            True,
        ),
        Call(
            lambda put: package.dense_sim_pool(
                *put((rows(2, 5, 2), rows(2, 5, 5, 2), rows(2, 5, 3)))
            ),
            True,
        ),
    ],
    "entropy_loss": [
        Call(lambda put: package.entropy_loss(put(assigned(N, 3)), put(BATCH), None, B), True),
        Call(lambda put: package.entropy_loss(put(assigned(N, 3)), put(BATCH), reduction="none")),
    ],
    "estimate_topk": [
        Call(lambda put: list(package.estimate_topk(put(EDGES), 3, num_nodes=N))[:1]),
        Call(lambda put: list(package.estimate_topk(put(EDGES), 3, put(WEIGHT), p=3))[:1]),
    ],
    "lift": [
        Call(lambda put: package.lift(put(rows(B, 3, 2)), put(assigned(N, 3)), put(BATCH)), True),
        Call(
            lambda put: package.lift(put(rows(2, 3, 2)), put(rows(2, 5, 3)), None, put(MASK)), True
        ),
    ],
    "map_indices": [
        Call(lambda put: package.map_indices(put(rows(4, 3)), put(PLACES), 5)),
        Call(lambda put: package.map_indices(put(rows(4, 3)), put(PLACES), put(SIZES), 0.5)),
    ],
    "plot_clusters": [Call(drawn)],
    "sim_pool": [
        Call(partial(pool, batch_size=B), True),
        Call(partial(pool, batch_size=B, weighted=True), True),
        Call(partial(pool, batch_size=B, edge_dim=2), True),
        Call(lambda put: package.sim_pool(put(rows(N, 2)), put(EDGES), put(rows(N, 3))), False),
        Call(pool),
    ],
    "similarity_graph": [
        Call(lambda put: package.similarity_graph(put(EDGES), 3, num_nodes=N)),
        Call(lambda put: package.similarity_graph(put(EDGES), 3, put(WEIGHT), symmetrize="union")),
    ],
    "structural_similarity": [
        Call(partial(similarity, measure), True)
        for measure in ("cosine", "jaccard", "l2", "hamming")
    ],
    "topk_similarity": [
        Call(lambda put: package.topk_similarity(put(EDGES), 3, num_nodes=N)),
        Call(lambda put: package.topk_similarity(put(EDGES), 3, put(WEIGHT), N, 2, 0.5, "jaccard")),
        Call(
            lambda put: package.topk_similarity(
                put(EDGES),
                3,
                put(WEIGHT.clone().requires_grad_()),
                nodes=put(torch.tensor([1, 4])),
                candidates=put(torch.arange(N)),
                min_similarity=0.1,
                max_degree=5,
                loop=False,
            )
        ),
        Call(lambda put: package.topk_similarity(put(EDGES), 3, num_nodes=(N, N + 2))),
    ],
}

NETWORKS: dict[str, list[Call]] = {
    "SimPoolNet": [
        Call(lambda put: step(put, LABELS), True),
        Call(lambda put: step(put, rows(N, 3)), True),
        Call(lambda put: step(put, LABELS, features="both"), True),
        Call(lambda put: step(put, rows(N, 3), features="node"), True),
        Call(lambda put: step(put, rows(N, 3), rows(E, 2), edge_dim=2), True),
        Call(lambda put: step(put, LABELS, p=2, lam=0.5), True),
        Call(lambda put: step(put, LABELS, gru=True), False),
    ],
}

EVERY = {
    f"{name}-{i}": call
    for name, calls in (CALLS | NETWORKS).items()
    for i, call in enumerate(calls)
}
FREE = {name: call for name, call in EVERY.items() if call.free}


def run(call: Call, move: Put) -> list[Tensor]:
    """The results, and the gradients of their sum for what was moved to the device."""
    leaves: list[Tensor] = []

    def put(value: Any) -> Any:
        moved = move(value)
        found = moved.parameters() if isinstance(moved, torch.nn.Module) else tree_leaves(moved)
        leaves.extend(leaf for leaf in found if isinstance(leaf, Tensor) and leaf.requires_grad)
        return moved

    torch.manual_seed(0)
    results = [leaf for leaf in tree_leaves(call.run(put)) if isinstance(leaf, Tensor)]
    upstream = [result.sum() for result in results if result.requires_grad]
    if upstream:
        torch.stack(upstream).sum().backward()
    grads = [leaf.grad for leaf in leaves if leaf.grad is not None]
    assert bool(grads) == bool(upstream)
    return [*results, *grads]


def to(device: str) -> Put:
    """Copies; leaves stay leaves."""

    def move(value: Any) -> Any:
        if isinstance(value, torch.nn.Module):
            return value.to(device)
        return tree_map_only(
            Tensor,
            lambda t: t.detach().to(device, copy=True).requires_grad_(t.requires_grad),
            value,
        )

    return move


def test_every_public_name_has_its_calls() -> None:
    assert set(CALLS) == set(package.__all__)
    # The others are parts of it, or no functions of tensors.
    assert set(NETWORKS) <= set(models.__all__)


@pytest.mark.parametrize("call", EVERY.values(), ids=EVERY)
def test_on_another_device(call: Call) -> None:
    """The results are there, and they are those of a CPU."""
    with PretendDevice() as device:
        found = values_of(run(call, device.put))
    expected = run(call, to("cpu"))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("call", FREE.values(), ids=FREE)
def test_nothing_synchronizes(call: Call) -> None:
    """Neither forward nor backward, as the docstrings promise."""
    with PretendDevice() as device:
        run(call, device.put)
    assert device.syncs == []


@pytest.mark.parametrize("call", FREE.values(), ids=FREE)
def test_sums_are_in_order(call: Call) -> None:
    """Nothing that depends on the order of threads, by PyTorch's list, forward or backward."""
    with PretendDevice() as device:
        run(call, device.put)
    assert device.unordered == []


def test_docstrings_promise_it() -> None:
    promised = {
        name
        for name in package.__all__
        if "nothing synchronizes" in " ".join((getattr(package, name).__doc__ or "").split())
    }
    free = {name for name, calls in CALLS.items() if any(call.free for call in calls)}
    assert free - {"cluster_loss"} == promised  # whose docstring is that of `entropy_loss`


@pytest.mark.parametrize("call", FREE.values(), ids=FREE)
def test_without_values(call: Call) -> None:
    """Tensors of PyTorch's device `meta` have none: to read one raises, in whatever way."""

    assert {result.device.type for result in run(call, to("meta"))} == {"meta"}


@needs_gpu
@pytest.mark.parametrize("call", FREE.values(), ids=FREE)
def test_nothing_synchronizes_on_a_gpu(call: Call) -> None:
    """Only while arguments are copied there."""

    def put(value: Any) -> Any:
        torch.cuda.set_sync_debug_mode("default")
        moved = to("cuda")(value)
        torch.cuda.set_sync_debug_mode("error")
        return moved

    try:
        run(call, put)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@needs_gpu
@pytest.mark.parametrize("call", FREE.values(), ids=FREE)
def test_the_same_bits_twice_on_a_gpu(call: Call) -> None:
    """Gradients included."""
    first, *others = ([t.detach().cpu() for t in run(call, to("cuda"))] for _ in range(3))
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@needs_gpu
def test_a_step_is_captured_as_a_graph() -> None:
    """Forward and backward, with fixed sizes; replayed for other values."""
    net = network(0).cuda()
    x, edges, batch, sim = (t.cuda() for t in (LABELS, EDGES, BATCH, rows(N, 12).detach()))
    classes = CLASSES.cuda()

    def gradients() -> list[Tensor]:
        loss = net(x, edges, batch, sim, batch_size=B).loss(classes)
        return list(torch.autograd.grad(loss, list(net.parameters()), allow_unused=True))

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            gradients()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = gradients()
    sim.copy_(torch.rand_like(sim))
    graph.replay()
    for found, expected in zip(captured, gradients(), strict=True):
        assert (found is None) == (expected is None)
        if found is not None:
            torch.testing.assert_close(found, expected)
