"""Results on a GPU equal results on a CPU, in values and gradients. `make gpu` runs this file."""

from copy import deepcopy
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from helpers.graphs import draw_all, union
from torch_geometric_simpool import (
    AddSimilarityEdges,
    SimilarityIndex,
    SimPool,
    StructuralSimilarity,
    dense_sim_pool,
    estimate_topk,
    match_similar,
    node_order,
    recommend,
    sim_pool,
    similarity_graph,
    similarity_of_pairs,
    structural_similarity,
    topk_similarity,
)
from torch_geometric_simpool.models import SimPoolNet

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
MEASURES = ["cosine", "jaccard", "dice", "overlap"]
BACKENDS = ["torch", "triton"]


def assert_close(there: Any, here: Any, **tolerance: Any) -> None:
    """Compares tensors on the GPU, or tuples of tensors, with tensors on the CPU."""
    if isinstance(here, Tensor):
        assert there.is_cuda
        torch.testing.assert_close(there.cpu(), here, **tolerance)
    elif here is None:
        assert there is None
    else:
        for one, other in zip(there, here, strict=True):
            assert_close(one, other, **tolerance)


def random_call(seed: int) -> tuple[tuple[Any, ...], dict[str, Any], bool]:
    """Returns a random graph, rows, settings, and whether sums of its weights are exact."""
    rng = Random(seed)
    graph, _ = union(draw_all(seed))
    n, size = graph.num_nodes, len(graph.edges)
    kind = rng.choice(["none", "integer", "real"])
    weight = {
        "none": None,
        "integer": torch.randint(-3, 5, (size,)).double(),
        "real": torch.rand(size, dtype=torch.float64) + 0.1,
    }[kind]
    optional = {
        "p": rng.randint(1, 3),
        "lam": rng.choice([0.0, 1.0, 0.5]),
        "loop": False,
        "min_similarity": rng.choice([0.3, 0.5]),
        "max_degree": rng.randint(2, 6),
        "exclude_neighbors": True,
        "nodes": torch.randint(0, n, (rng.randint(0, 9),)),
        "candidates": torch.randint(0, n, (rng.randint(0, 9),)),
    }
    settings = {name: value for name, value in optional.items() if rng.random() < 0.3}
    settings["measure"] = rng.choice(MEASURES)
    k = rng.choice([1, 3, 16, 40])
    return (graph.edge_index, k, weight, n), settings, kind != "real" and settings.get("lam") != 0.5


def on_gpu(value: Any) -> Any:
    """Moves a tensor to the GPU, and returns other values unchanged."""
    return value.cuda() if isinstance(value, Tensor) else value


@pytest.mark.parametrize("backend", BACKENDS)
def test_top_k_of_random_calls(backend: str) -> None:
    for seed in range(30, 60):
        arguments, settings, exact = random_call(seed)
        here = topk_similarity(*arguments, **settings)
        there = topk_similarity(
            *map(on_gpu, arguments),
            backend=backend,
            **{name: on_gpu(value) for name, value in settings.items()},
        )
        case = f"{seed}: {settings}"
        assert there[0].is_cuda, case
        assert torch.equal(there[1].cpu(), here[1]), case
        if exact:
            assert torch.equal(there[0].cpu(), here[0]), case
        else:
            torch.testing.assert_close(there[0].cpu(), here[0], rtol=0, atol=1e-12, msg=case)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("measure", MEASURES)
def test_top_k_of_larger_graphs(measure: str, backend: str) -> None:
    """The graphs have hubs with many candidates, and take several blocks of rows."""
    n = 5_000  # some tables are hash tables
    ends = torch.stack([torch.randint(0, n, (20_000,)), (torch.rand(20_000) ** 3 * n).long()])
    edge_index = torch.cat([ends, ends.flip(0)], dim=1).unique(dim=1)
    small = 2**24
    here = topk_similarity(edge_index, 16, num_nodes=n, measure=measure)
    for budget in (None, small):
        there = topk_similarity(
            edge_index.cuda(), 16, num_nodes=n, measure=measure, backend=backend,
            memory_budget=budget,
        )  # fmt: skip
        assert torch.equal(there[1].cpu(), here[1])
        assert torch.equal(there[0].cpu(), here[0])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_memory_of_a_budget(backend: str, weighted: bool) -> None:
    """The peak memory of PyTorch is within the estimate."""
    n = 20_000
    edge_index = torch.randint(0, n, (2, 400_000)).unique(dim=1).cuda()
    weight = torch.rand(edge_index.size(1)).cuda() if weighted else None
    estimate = estimate_topk(edge_index, 16, weight, n, backend=backend)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    topk_similarity(edge_index, 16, weight, n, backend=backend)
    assert torch.cuda.max_memory_allocated() - before <= estimate.memory


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_small_budget_is_refused(backend: str) -> None:
    edge_index = torch.randint(0, 99, (2, 500)).cuda()
    with pytest.raises(ValueError, match="memory_budget"):
        topk_similarity(edge_index, 4, backend=backend, memory_budget=1000)


def test_the_numba_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="`backend` 'numba' computes on a CPU"):
        topk_similarity(torch.tensor([[0, 1], [1, 0]]).cuda(), 2, backend="numba")


def test_gradients_of_the_top_k() -> None:
    graph, _ = union(draw_all(3))
    weight = torch.rand(len(graph.edges), dtype=torch.float64) + 0.5
    gradients = []
    for device in ("cpu", "cuda"):
        at = weight.detach().to(device).clone().requires_grad_()
        values, _ = topk_similarity(graph.edge_index.to(device), 4, at, graph.num_nodes)
        values.square().sum().backward()
        gradients.append(at.grad)
    assert_close(gradients[1], gradients[0])


def test_other_functions_of_similar_nodes() -> None:
    graph, _ = union(draw_all(5))
    edges, n = graph.edge_index, graph.num_nodes
    index, there = (SimilarityIndex(e, num_nodes=n) for e in (edges, edges.cuda()))
    assert_close(there.query([0, 3], 4), index.query([0, 3], 4))
    changed = torch.tensor([[0, 2], [2, 0]])
    assert_close(there.add_edges(changed.cuda()), index.add_edges(changed))
    assert_close(there.query([0, 2], 4), index.query([0, 2], 4))
    pairs = torch.randint(0, n, (2, 20))
    calls = [
        lambda to: similarity_graph(to(edges), 4, num_nodes=n, symmetrize="union"),
        lambda to: similarity_of_pairs(to(edges), to(pairs), num_nodes=n),
        lambda to: match_similar(to(edges), 4, num_nodes=n),
        lambda to: recommend(to(edges), 3, num_nodes=n),
        lambda to: recommend(to(edges), 3, num_nodes=n, measure="cosine"),
        lambda to: node_order(to(edges), "bfs", n),
    ]
    for call in calls:
        assert_close(call(Tensor.cuda), call(Tensor.cpu))


@pytest.mark.parametrize("measure", MEASURES)
def test_dense_similarity(measure: str) -> None:
    adj = torch.rand(3, 8, 8, dtype=torch.float64)
    there = structural_similarity(adj.cuda(), p=2, measure=measure)
    assert_close(there, structural_similarity(adj, p=2, measure=measure))


def test_transforms() -> None:
    for graph in draw_all(1):
        here, data = StructuralSimilarity(4, p=2, lam=0.5), graph.data()
        sim = StructuralSimilarity(4, p=2, lam=0.5, device="cuda")(data).sim
        assert sim.device.type == "cpu"
        torch.testing.assert_close(sim, here(data).sim)
        assert_close(here(graph.data().cuda()).sim, here(data).sim)
        assert here(Data(adj=graph.adj(torch.float32)).cuda()).sim.is_cuda
        added = AddSimilarityEdges(2)
        assert_close(added(graph.data().cuda()).edge_index, added(graph.data()).edge_index)


# ------------------------------------------------------------------ pooling


def batch_of(num_graphs: int = 5) -> Batch:
    """Returns graphs of 3 to 20 nodes with features, similarities and labels."""
    graphs = []
    for _ in range(num_graphs):
        n = int(torch.randint(3, 21, ()))
        edge_index = torch.randint(0, n, (2, 3 * n))
        data = Data(x=torch.randn(n, 4), edge_index=edge_index, y=torch.randint(0, 3, (1,)))
        graphs.append(StructuralSimilarity(16)(data))
    return Batch.from_data_list(graphs)


def test_the_operator() -> None:
    data = batch_of()
    s, weight = torch.randn(data.num_nodes, 6), torch.rand(data.num_edges)
    results = []
    for device in ("cpu", "cuda"):
        leaves = [t.detach().to(device).requires_grad_() for t in (data.x, s, weight)]
        x, logits, w = leaves
        batch = data.batch.to(device)
        out = sim_pool(x, data.edge_index.to(device), logits, batch, w)
        torch.stack([t.square().sum() for t in out]).sum().backward()
        results.append((tuple(out), tuple(leaf.grad for leaf in leaves)))
    assert_close(results[1], results[0], rtol=1e-4, atol=1e-4)


def test_the_dense_operator() -> None:
    x, adj, s = torch.randn(3, 9, 4), torch.rand(3, 9, 9), torch.randn(3, 9, 5)
    mask = torch.arange(9) < torch.tensor([[9], [5], [1]])
    here = dense_sim_pool(x, adj, s, mask)
    there = dense_sim_pool(*(t.cuda() for t in (x, adj, s, mask)))
    assert_close(tuple(there), tuple(here), rtol=1e-4, atol=1e-4)


def test_the_operator_does_not_wait_for_the_gpu() -> None:
    """With `batch_size`, the forward and the backward pass read no number from the GPU."""
    data = batch_of().cuda()
    x, s = data.x.requires_grad_(), torch.randn(data.num_nodes, 6, device="cuda")
    size = data.num_graphs

    def step() -> None:
        out = sim_pool(x, data.edge_index, s.requires_grad_(), data.batch, batch_size=size)
        torch.stack([t.sum() for t in out]).sum().backward()

    step()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("features", ["structural", "node"])
def test_the_layer(features: str) -> None:
    data = batch_of()
    layer = SimPool(num_clusters=3, features=features)
    here = layer(data.x, data.edge_index, data.batch, sim=data.sim)
    there = deepcopy(layer).cuda()(
        *(t.cuda() for t in (data.x, data.edge_index, data.batch, data.sim))
    )
    assert_close(there.x, here.x, rtol=1e-4, atol=1e-4)
    assert_close(there.adj, here.adj, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16, torch.float16])
def test_a_network_learns(dtype: torch.dtype | None) -> None:
    data = batch_of(12).cuda()
    net = SimPoolNet(4, 3, clusters=[4, 2], width=0.25).cuda()
    optimizer = torch.optim.Adam(net.parameters(), 0.001)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=dtype, enabled=dtype is not None):
            out = net(data.x, data.edge_index, data.batch, data.sim, batch_size=data.num_graphs)
            loss = out.loss(data.y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(float(loss))
    assert losses[-1] < losses[0]


def test_a_network_equals_that_on_a_cpu() -> None:
    data = batch_of(6)
    net = SimPoolNet(4, 3, clusters=[4, 2], width=0.25).double()
    data.x, data.sim = data.x.double(), data.sim.double()
    other, there = deepcopy(net).cuda(), deepcopy(data).cuda()
    outs = []
    for model, d in ((net, data), (other, there)):
        out = model(d.x, d.edge_index, d.batch, d.sim, batch_size=6)
        out.loss(d.y).backward()
        outs.append((out.logits, tuple(p.grad for p in model.parameters())))
    assert_close(outs[1], outs[0])


def test_a_compiled_layer() -> None:
    torch.compiler.reset()
    layer = SimPool(num_clusters=3).cuda()
    compiled = torch.compile(layer, fullgraph=True, dynamic=True)
    for size in (5, 8):
        data = batch_of(size).cuda()
        arguments = (data.x, data.edge_index, data.batch, data.sim)
        there, here = (m(*arguments, batch_size=size) for m in (compiled, layer))
        torch.testing.assert_close(there.adj, here.adj, rtol=1e-3, atol=1e-3)
        (there.adj.sum() + there.cluster_loss).backward()
