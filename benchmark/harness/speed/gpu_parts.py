"""What `benchmark/gpu.py` measures: functions of the settings, each of which is a part."""

import importlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Optional

import torch
from torch import Tensor
from torch_geometric.data import Data

from harness.data.batches import Batches
from harness.data.load import load
from harness.data.structural import add_structural_features
from harness.speed.pool_cases import Graph, make_batches, random_graph
from harness.speed.pool_measure import step_prepared
from harness.speed.pool_methods import METHODS, Method, make_batch
from harness.speed.pool_training import epoch_of
from harness.speed.topk_cases import GRAPHS, HARD, make_problem
from harness.training.evaluation import predict
from harness.training.fold import adam
from torch_geometric_simpool import topk_similarity
from torch_geometric_simpool.models import SimPoolNet
from torch_geometric_simpool.topk.parse import BACKENDS

#: Mean and deviation of the logarithm of the numbers of nodes, their range, edges for each node,
#: labels and classes, and the number of graphs: those of D&D and ENZYMES.
SHAPES = {
    "DD": (5.48, 0.58, (30, 5748), 5, 89, 2, 1178),
    "ENZYMES": (3.35, 0.5, (2, 126), 4, 3, 6, 600),
}
#: Neighbors of the last level of the classifier, and the preset, of each data set.
PRESETS = {"DD": "dd-10fold", "ENZYMES": "enzymes-10fold"}
#: The longest sparse product that is tried by torch.sparse, in products.
MOST_PRODUCTS = 2 * 10**8


@dataclass
class Settings:
    """What all parts share."""

    device: torch.device
    root: Optional[str]
    small: bool

    @property
    def on_gpu(self) -> bool:
        """Whether there are a memory and a clock of its own."""
        return self.device.type == "cuda"


#: Measures within about so many seconds.
Part = Callable[[Settings, float], dict[str, Any]]


def timed(settings: Settings, run: Callable[[], Any], seconds: float) -> dict[str, Any]:
    """Median and range of the seconds of a call, and its peak memory on a GPU beyond the input."""

    def once() -> float:
        start = time.perf_counter()
        run()
        if settings.on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter() - start

    begin = time.perf_counter()
    once()  # compiles, and warms up
    peak = None
    if settings.on_gpu:
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        once()
        peak = torch.cuda.max_memory_allocated() - before
    times: list[float] = []
    while not times or (len(times) < 20 and time.perf_counter() - begin < seconds):
        times.append(once())
    median = statistics.median(times)
    return {
        "seconds": median,
        "range": [min(times), max(times)],
        "rounds": len(times),
        "peak": peak,
    }


def warm_clocks(settings: Settings, seconds: float = 0.5) -> None:
    """Keeps a GPU busy until its clocks have risen."""
    if settings.on_gpu:
        x = torch.ones(4096, 4096, device=settings.device)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            x @ x
            torch.cuda.synchronize()


def gpu_tests(settings: Settings, seconds: float) -> dict[str, Any]:
    """The tests that need a GPU, which skip where there is none."""
    here = Path(__file__).resolve().parents[3]
    chosen = [str(here / "test" / "test_devices.py")] if settings.small else []
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "gpu", "-q", "-x", *chosen],
        cwd=here,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    return {"status": done.returncode, "output": done.stdout.splitlines()[-20:]}


def top_k(name: str, settings: Settings, seconds: float) -> dict[str, Any]:
    """The backends of the top k on one graph, from edges on the device; results are compared."""
    problem = make_problem(name, settings.root)
    k, backends = 16, [backend for backend in BACKENDS if backend != "auto"]
    edges = problem.edge_index.to(settings.device)
    metrics: dict[str, Any] = {}
    expected: Optional[tuple[Tensor, Tensor]] = None
    for backend in backends:
        given = problem.edge_index if backend == "numba" else edges
        run = partial(topk_similarity, given, k, num_nodes=problem.sizes, backend=backend)
        try:
            found = run()
        except (ValueError, ImportError, RuntimeError) as error:
            metrics[backend] = f"not measured: {str(error).splitlines()[0]}"
            continue
        expected = expected or found
        same = [torch.equal(a.cpu(), b.cpu()) for a, b in zip(found, expected)]
        del found
        metrics[backend] = {
            **timed(settings, run, seconds / (len(backends) + 1)),
            "same": {"values": same[0], "index": same[1]},
        }
    metrics["torch.sparse"] = _sparse_product(settings, edges, problem.num_nodes, seconds / 4)
    return metrics


def _sparse_product(settings: Settings, edges: Tensor, num_nodes: int, seconds: float) -> Any:
    """The matrix of dot products alone, by cuSPARSE on a GPU."""
    degree = torch.bincount(edges[0], minlength=num_nodes).double()
    if float(degree.square().sum()) > MOST_PRODUCTS:
        return "not measured: too many products"
    ones = torch.ones(edges.size(1), device=edges.device)
    matrix = torch.sparse_coo_tensor(edges, ones, (num_nodes, num_nodes)).to_sparse_csr()
    return timed(settings, lambda: matrix @ matrix, seconds)


def pooling(size: int, settings: Settings, seconds: float) -> dict[str, Any]:
    """Operators on batches of D&D, forward and backward."""
    graphs, source = graphs_of("DD", settings)
    chosen = make_batches([(int(g.num_nodes), g.edge_index) for g in graphs], size)[1:9]
    metrics: dict[str, Any] = {"data": source, "batches": len(chosen), "size": size}
    names = ["sim_pool", "dense_diff_pool (PyG)"]
    with suppress(ImportError):
        importlib.import_module("tgp.poolers")
        names += ["DiffPool, batched (tgp)", "DiffPool, unbatched (tgp)"]
    for name in names:
        method = METHODS[name](32).to(settings.device)
        try:
            prepared = [_prepared(method, graphs, settings.device) for graphs in chosen]
            run = partial(_pool_all, method, prepared)
            metrics[name] = timed(settings, run, seconds / len(names))
        except torch.OutOfMemoryError:
            metrics[name] = "not measured: out of memory"
    return metrics


def _prepared(method: Method, graphs: list[Graph], device: torch.device) -> Any:
    batch = make_batch(graphs)
    batch.x = batch.x.to(device)
    batch.edge_index, batch.batch = batch.edge_index.to(device), batch.batch.to(device)
    return method.prepare(batch)


def _pool_all(method: Method, prepared: list[Any]) -> None:
    for batch in prepared:
        step_prepared(method, batch)


def epoch(name: str, settings: Settings, seconds: float) -> dict[str, Any]:
    """An epoch of the classifier at full width, with batches of 20 graphs and Adam."""
    graphs, source = graphs_of(name, settings)
    net = SimPoolNet.from_preset(
        PRESETS[name], SHAPES[name][4], SHAPES[name][5], 0.02 if settings.small else 1.0
    ).to(settings.device)
    add_structural_features(graphs, net.transform())
    batches = Batches(graphs, 20, settings.device, torch.Generator())
    run = epoch_of(lambda batch: predict(net, batch).loss(batch.y), batches, adam(net, 1e-4))
    return {"data": source, "graphs": len(graphs), **timed(settings, run, seconds)}


def graphs_of(name: str, settings: Settings) -> tuple[list[Data], str]:
    """The graphs of a data set, or generated ones of their sizes, and which of the two."""
    if settings.root is not None and not settings.small:
        return load(name, settings.root, True, "labels", 0).graphs, name
    mean, deviation, (low, high), degree, num_labels, num_classes, number = SHAPES[name]
    torch.manual_seed(0)
    sizes = torch.randn(60 if settings.small else number).mul(deviation).add(mean).exp()
    graphs = []
    for n in sizes.clamp(low, min(high, 100) if settings.small else high).long().tolist():
        x = torch.nn.functional.one_hot(torch.randint(num_labels, (n,)), num_labels).float()
        edges = random_graph(n, degree * n)[1]
        graphs.append(Data(x=x, edge_index=edges, y=torch.randint(num_classes, (1,))))
    return graphs, "generated"


def parts(small: bool) -> dict[str, tuple[Part, float]]:
    """All parts by name, in their order, and the seconds that each may take."""
    graphs = ("uniform-300-6", "star-50") if small else (*GRAPHS, *HARD)
    sizes = (20,) if small else (20, 64, 256)
    return {
        "tests": (gpu_tests, 90.0),
        **{f"pooling-{size}": (partial(pooling, size), 15.0) for size in sizes},
        **{f"epoch-{name}": (partial(epoch, name), 30.0) for name in PRESETS},
        **{f"topk-{name}": (partial(top_k, name), 30.0) for name in graphs},
    }
