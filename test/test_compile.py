"""Sparse batches in compiled and in exported programs, with dynamic numbers of everything."""

import io
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.export import Dim

from torch_geometric_simpool import (
    SimPool,
    StructuralSimilarity,
    engine,
    sim_pool,
    topk_similarity,
)
from torch_geometric_simpool.models import MLPAssignment, SimPoolNet

RECENT = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 9)
pytestmark = pytest.mark.slow
COMPILER = os.environ.get("CXX", "g++")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """What one test compiles does not count in the next."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def draw_batch(num_graphs: int) -> tuple[Tensor, Tensor, Tensor]:
    """Node features, edges and `batch` of directed graphs; the last but one has no nodes."""
    sizes = torch.randint(3, 12, (num_graphs,))
    sizes[-2] = 0
    batch = torch.arange(num_graphs).repeat_interleave(sizes)
    first = (sizes.cumsum(0) - sizes).index_select(0, batch)
    source = torch.arange(batch.numel()).repeat(int(torch.randint(2, 5, ())))
    target = first[source % batch.numel()] + torch.randint(0, 12, source.shape) % sizes[
        batch[source]
    ].clamp(min=1)
    return torch.randn(batch.numel(), 3), torch.stack([source, target]), batch


def operator(x: Tensor, edge_index: Tensor, batch: Tensor, sim: Tensor, batch_size: int) -> Any:
    weight = x[:, 0].index_select(0, edge_index[0])
    return sim_pool(x, edge_index, sim, batch, weight, batch_size)


def layer() -> SimPool:
    return SimPool(MLPAssignment(4, 6, 3))


def net() -> SimPoolNet:
    return SimPoolNet.from_preset("enzymes", 3, 2, width=0.01, k=4)


def of_module(module: torch.nn.Module) -> Callable[..., Any]:
    return lambda x, edge_index, batch, sim, batch_size: module(
        x, edge_index, batch, sim, batch_size=batch_size
    )


def outputs(result: Any) -> list[Tensor]:
    """All tensors of a result."""
    if isinstance(result, Tensor):
        return [result]
    if result is None or isinstance(result, int):  # no edge features; the task of a net
        return []
    return [tensor for part in result for tensor in outputs(part)]


def with_edge_features(
    x: Tensor, edge_index: Tensor, batch: Tensor, sim: Tensor, batch_size: int
) -> Any:
    """The operator on features of the edges: those of their ends, multiplied."""
    edge_attr = sim[edge_index[0], :2] * sim[edge_index[1], :2]
    return sim_pool(x, edge_index, sim, batch, None, batch_size, edge_attr=edge_attr)


CASES: dict[str, Callable[[], Callable[..., Any]]] = {
    "operator": lambda: operator,
    "edge features": lambda: with_edge_features,
    "layer": lambda: of_module(layer()),
    "net": lambda: of_module(net()),
}


@pytest.mark.parametrize("case", CASES)
def test_200_batches_compile_at_most_twice(case: str) -> None:
    """And give the numbers of eager mode."""
    function = CASES[case]()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
    for number in range(200):
        num_graphs = 2 + number * 7 % 23
        x, edge_index, batch = draw_batch(num_graphs)
        sim = torch.rand(x.size(0), 4, requires_grad=True)
        found = outputs(compiled(x, edge_index, batch, sim, num_graphs))
        if number % 10 > 0:
            continue
        expected = outputs(function(x, edge_index, batch, sim, num_graphs))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        gradients = [torch.autograd.grad(_sum(out), sim) for out in (found, expected)]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
    assert 1 <= counter.frame_count <= 2


def _sum(tensors: list[Tensor]) -> Tensor:
    return torch.stack([t.square().sum() for t in tensors]).sum()


class Served(torch.nn.Module):
    """A module whose number of graphs comes with a tensor, as `Batch.ptr` of PyG tells it."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, sim: Tensor, ptr: Tensor
    ) -> Any:
        return self.module(x, edge_index, batch, sim, batch_size=ptr.numel() - 1)


class Operator(torch.nn.Module):
    def forward(
        self, x: Tensor, edge_index: Tensor, batch: Tensor, sim: Tensor, batch_size: int
    ) -> Any:
        return operator(x, edge_index, batch, sim, batch_size)


MODULES: dict[str, Callable[[], torch.nn.Module]] = {
    "operator": Operator,
    "layer": layer,
    "net": net,
    "net, labels": net,
}
DYNAMIC = ({0: Dim.DYNAMIC}, {1: Dim.DYNAMIC}, *({0: Dim.DYNAMIC} for _ in range(3)))


def served_batch(num_graphs: int, labels: bool = False) -> tuple[Tensor, ...]:
    x, edge_index, batch = draw_batch(num_graphs)
    x = x.argmax(dim=1) if labels else x
    ptr = torch.zeros(num_graphs + 1, dtype=torch.long)
    return x, edge_index, batch, torch.rand(x.size(0), 4), ptr


def export(module: torch.nn.Module) -> torch.export.ExportedProgram:
    return torch.export.export(module, served_batch(6), dynamic_shapes=DYNAMIC, strict=True)


def operations(program: torch.export.ExportedProgram) -> set[str]:
    """The operations of the engine in a graph."""
    names = (str(node.target) for node in program.graph.nodes)
    return {name.split(".")[1] for name in names if name.startswith("simpool.")}


def saved_and_loaded(program: torch.export.ExportedProgram) -> torch.nn.Module:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file).module()


@pytest.mark.parametrize(
    ("case", "strict"),
    [("operator", True), ("layer", True), ("layer", False), ("net", True), ("net, labels", False)],
)
def test_exported_saved_and_loaded(case: str, strict: bool) -> None:
    """Of other sizes than those it was exported with; a graph may be empty."""
    if not strict and not RECENT:
        pytest.skip("older versions of PyTorch save programs of strict exports alone")
    module = Served(MODULES[case]()).eval()
    labels = case == "net, labels"
    program = torch.export.export(
        module, served_batch(6, labels), dynamic_shapes=DYNAMIC, strict=strict
    )
    expected = {"spmm", "segment_matmul_t"}
    assert operations(program) == (expected | {"sum_messages"} if "net" in case else expected)
    loaded = saved_and_loaded(program)
    for num_graphs in (2, 3, 6, 40):
        given = served_batch(num_graphs, labels)
        torch.testing.assert_close(outputs(loaded(*given)), outputs(module(*given)))
        with engine.disabled():
            torch.testing.assert_close(outputs(loaded(*given)), outputs(module(*given)))


def test_second_derivatives_of_an_exported_program() -> None:
    loaded = saved_and_loaded(export(Served(Operator())))
    x, edge_index, batch, sim, ptr = served_batch(3)
    x, sim = x.requires_grad_(), sim.requires_grad_()
    found = []
    for function in (loaded, Served(Operator())):
        loss = _sum(outputs(function(x, edge_index, batch, sim, ptr)))
        first = torch.autograd.grad(loss, [x, sim], create_graph=True)
        found.append(torch.autograd.grad(_sum(list(first)), [x, sim]))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def test_without_the_engine_a_graph_has_operations_of_pytorch_alone() -> None:
    module = Served(layer()).eval()
    with engine.disabled():
        program = export(module)
    assert not operations(program)
    loaded = saved_and_loaded(program)
    for num_graphs in (2, 9, 30):
        given = served_batch(num_graphs)
        torch.testing.assert_close(outputs(loaded(*given)), outputs(module(*given)))


def test_a_compiled_function_follows_the_switch() -> None:
    seen = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        seen.append(
            {
                str(node.target).split(".")[1]
                for node in graph.graph.nodes
                if "simpool" in str(node.target)
            }
        )
        return graph.forward

    compiled = torch.compile(operator, fullgraph=True, dynamic=True, backend=backend)
    *tensors, _ = served_batch(4)
    given: Any = (*tensors, 4)
    compiled(*given)
    with engine.disabled("spmm"):
        compiled(*given)
    compiled(*given)
    assert seen == [{"spmm", "segment_matmul_t"}, {"segment_matmul_t"}]


def test_calls_that_no_fast_path_takes_are_traced_as_they_are() -> None:
    """Under autocast, and in functional transforms."""
    x, edge_index, batch, sim, _ = served_batch(4)

    def loss(x: Tensor, sim: Tensor) -> Tensor:
        return _sum(outputs(operator(x, edge_index, batch, sim, 4)))

    gradient = torch.func.grad(loss, argnums=(0, 1))
    compiled = torch.compile(gradient, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, sim), gradient(x, sim), rtol=1e-4, atol=1e-4)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(compiled(x, sim), loss(x, sim), rtol=1e-2, atol=1e-2)


def test_the_number_of_graphs_must_be_given() -> None:
    x, edge_index, batch, sim, _ = served_batch(4)
    compiled = torch.compile(sim_pool, fullgraph=True, dynamic=True, backend="eager")
    with pytest.raises(torch._dynamo.exc.TorchDynamoException):
        compiled(x, edge_index, sim, batch)
    # Without `batch` it is one.
    compiled(x, edge_index, sim)


@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"needs a C++ compiler ({COMPILER})")
def test_inductor() -> None:
    """The default backend, forward and backward."""
    compiled = torch.compile(operator, fullgraph=True, dynamic=True)
    for num_graphs in (5, 12):
        x, edge_index, batch, sim, _ = served_batch(num_graphs)
        x, sim = x.requires_grad_(), sim.requires_grad_()
        found, expected = (
            outputs(function(x, edge_index, batch, sim, num_graphs))
            for function in (compiled, operator)
        )
        torch.testing.assert_close(found, expected)
        gradients = [torch.autograd.grad(_sum(out), [x, sim]) for out in (found, expected)]
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


def test_onnx(tmp_path: Any) -> None:
    """Without the engine, whose operations no other runtime has."""
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    module = Served(layer()).eval()
    with engine.disabled():
        program = torch.onnx.export(
            module, served_batch(6), dynamo=True, dynamic_shapes=DYNAMIC, verbose=False
        )
    assert program is not None
    program.save(tmp_path / "layer.onnx")
    session = runtime.InferenceSession(tmp_path / "layer.onnx")
    names = [given.name for given in session.get_inputs()]
    for num_graphs in (2, 6, 11):
        given = served_batch(num_graphs)
        found = session.run(None, {n: t.numpy() for n, t in zip(names, given, strict=True)})
        for a, b in zip(found, outputs(module(*given)), strict=True):
            torch.testing.assert_close(torch.from_numpy(a), b, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_torchscript_is_refused() -> None:
    """Neither way of making it takes the checks of arguments."""
    with pytest.raises(Exception, match="cannot be used in a type expression"):
        torch.jit.script(sim_pool)
    with pytest.raises(Exception, match="keyword-only"):
        torch.jit.script(layer())
    with pytest.raises(TypeError, match="`num_nodes` must be an integer"):
        torch.jit.trace(Served(layer()), served_batch(3))


@pytest.mark.parametrize("order", [None, "bfs", "fiedler"])
def test_features_that_are_computed_on_the_fly_break_the_graph(order: str | None) -> None:
    transform = StructuralSimilarity(4, order=order)
    pool = SimPool.from_transform(transform, MLPAssignment(4, 6, 3))
    x, edge_index, batch = draw_batch(4)
    weight = torch.rand(edge_index.size(1))
    given = {"edge_weight": weight, "batch_size": 4}
    expected = pool(x, edge_index, batch, **given)
    compiled = torch.compile(pool, backend="eager")
    for one, other in zip(compiled(x, edge_index, batch, **given), expected, strict=True):
        assert torch.equal(one, other)
    x, adj = torch.rand(2, 5, 3), torch.rand(2, 5, 5)
    assert torch.equal(compiled(x, adj=adj).s, pool(x, adj=adj).s)


def test_a_top_k_in_a_compiled_function() -> None:
    _, edge_index, _ = draw_batch(4)
    weight = torch.rand(edge_index.size(1))

    def doubled(weight: Tensor) -> Tensor:
        return 2 * topk_similarity(edge_index, 3, weight)[0]

    assert torch.equal(torch.compile(doubled, backend="eager")(weight), doubled(weight))
