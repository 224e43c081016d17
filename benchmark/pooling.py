"""Time and memory of the pooling operators, and of training, against others.

Usage: python benchmark/pooling.py [--root DIR] [--part dd|scaling|training] [--out DIR]

Each method runs in processes of its own on the same batches, made beforehand; what it
returns is held against `sim_pool` before it is timed. Writes OUT/PART.json, and
OUT/scaling.png. Needs torch-geometric-pool (`tgp`) for two of the methods.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import torch
from torch import Tensor

from allocator import KEEP_MEMORY
from data import load
from pool_methods import METHODS, Method, Ragged, make_batch
from pool_plots import plot_scaling
from results import surroundings, write_whole

Graph = tuple[int, Tensor]
#: By name, batches of graphs; those with more than one `run` are series.
Cases = dict[str, dict[str, Any]]
ROUNDS = 5
#: The same method on the same batches can take half as long again in one process as in
#: another, from start to end; neither page faults, huge pages nor pinning explain it.
PROCESSES = 3
#: Where a method takes this long for a batch on average, one round of one is enough.
SLOW = 0.2
#: A method that needs more fails, and not the machine.
MEMORY_LIMIT = 14 * 2**30
#: Memory that is kept comes in pieces, so more of it is needed.
KEPT_LIMIT = 20 * 2**30
SCALING = (100, 300, 1000, 3000, 10_000, 50_000)
CLUSTERS = (4, 8, 16, 32, 64, 128)
#: Dense methods are not sent where their one adjacency matrix would break the limit.
DENSE_LIMIT = 2**31


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default="data", help="folder of the TU data sets")
    parser.add_argument("--part", choices=("dd", "scaling", "training"), default="dd")
    parser.add_argument("--out", type=Path, default=Path("out/pooling"))
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_child(*options.child)))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    if options.part == "training":
        from pool_training import training_figures

        results = training_figures(
            lambda case, network, kept: _in_child(case, network, options.root, kept=kept)
        )
    else:
        results = operator_figures(dd_cases if options.part == "dd" else other_cases, options.root)
    results = {**surroundings(torch.device("cpu")), **results}
    text = json.dumps(results, indent=1)
    write_whole(options.out / f"{options.part}.json", lambda path: path.write_text(text + "\n"))
    if options.part == "scaling":
        plot_scaling(options.out / "scaling.png", results)
    return 0


def operator_figures(make_cases: Callable[[str], Cases], root: str) -> dict[str, Any]:
    """Every method on every case, each in a process of its own."""
    figures: dict[str, Any] = {"width": 64, "clusters": 32, "cases": {}}
    with tempfile.TemporaryDirectory() as folder:
        cases = make_cases(root)
        for case, content in cases.items():
            torch.save(content, Path(folder) / "case.pt")
            kept = content.get("kept", False)
            figures["cases"][case] = {
                "num_batches": len(content["runs"]),
                "limit": KEPT_LIMIT if kept else MEMORY_LIMIT,
            }
            for method in METHODS:
                if content.get("methods") and method not in content["methods"]:
                    continue
                found = _in_children(method, Path(folder) / "case.pt", kept)
                figures["cases"][case][method] = found
                print(f"{case:28} {method:26} {_short(found)}", flush=True)
    return figures


def _in_children(method: str, path: Path, kept: bool) -> dict[str, Any]:
    """What the middle one of several processes measures, and the range over all of them."""
    found = [_in_child(method, str(path), kept=kept)]
    slow = all(run["rounds"] == 1 for run in found[0].get("runs", {}).values())
    if not slow:
        found += [_in_child(method, str(path), kept=kept) for _ in range(PROCESSES - 1)]
    return next((one for one in found if "error" in one), None) or combined(found)


def combined(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The figures of processes that measured the same: the middle time, the highest peak."""
    runs = {}
    for label in found[0]["runs"]:
        several = sorted((one["runs"][label] for one in found), key=lambda run: run["both"])
        ranges = [run["range"] for run in several]
        runs[label] = {
            **several[len(several) // 2],
            "range": [min(low for low, _ in ranges), max(high for _, high in ranges)],
            "processes": len(several),
        }
    return {**max(found, key=lambda one: one["peak"]), "runs": runs}


def _in_child(*names: str, kept: bool) -> Any:
    command = [sys.executable, "-W", "ignore", __file__, "--child", *names]
    environment = {**os.environ, **(KEEP_MEMORY if kept else {})}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
        return {"error": last[:200] or f"ended with status {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def _short(found: Any) -> str:
    if "error" in found:
        return found["error"]
    ms = ", ".join(
        f"{1e3 * run['forward']:.3f}/{1e3 * run['both']:.3f}" for run in found["runs"].values()
    )
    return f"forward/both, ms a graph: {ms}; {found['peak'] / 2**30:.2f} GiB"


SPARSE = ["sim_pool", "DiffPool, unbatched (tgp)"]
RAGGED = [name for name in METHODS if name != "dense_sim_pool"]


def dd_cases(root: str) -> Cases:
    """All of D&D."""
    graphs = _graphs("DD", root)
    cases = {
        f"D&D, batches of {size}": {
            "runs": {"all": (32, _batches(graphs, size))},
            "methods": RAGGED,
        }
        for size in (20, 64)
    }
    kept = {**cases["D&D, batches of 20"], "kept": True}
    return {**cases, "D&D, batches of 20, memory kept": kept}


def other_cases(root: str) -> Cases:
    """Small graphs, equal ones, and what the time grows with."""
    torch.manual_seed(0)
    dd, enzymes = (_graphs(name, root) for name in ("DD", "ENZYMES"))
    return {
        "ENZYMES, batches of 20": {
            "runs": {"all": (32, _batches(enzymes, 20))},
            "methods": RAGGED,
        },
        "1,000 graphs of ENZYMES": {
            "runs": {"all": (32, [(enzymes + enzymes)[:1000]])},
            "methods": SPARSE,
        },
        "graphs of one size": {
            "runs": {
                str(n): (32, [[_random(n, 4 * n) for _ in range(20)]]) for n in (32, 128, 512)
            },
        },
        "one large graph among 19": {
            "runs": {
                str(n): (32, [[_random(n, 3 * n)] + [_random(30, 60) for _ in range(19)]])
                for n in SCALING
            },
        },
        "by K, D&D": {
            "runs": {str(k): (k, _batches(dd, 20)[:8]) for k in CLUSTERS},
            "methods": SPARSE,
        },
    }


def _graphs(name: str, root: str) -> list[Graph]:
    data = load(name, root, True, "labels", 0)
    return [(int(graph.num_nodes), graph.edge_index) for graph in data.graphs]


def _batches(graphs: list[Graph], size: int) -> list[list[Graph]]:
    """All graphs, shuffled; the batch with the largest first, where memory shows at once."""
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(0)).tolist()
    batches = [[graphs[i] for i in order[a : a + size]] for a in range(0, len(graphs), size)]
    return sorted(batches, key=lambda batch: -max(nodes for nodes, _ in batch))


def _random(num_nodes: int, num_edges: int) -> Graph:
    """Edges to near neighbours, in both directions, sorted as PyG sorts them."""
    source = torch.randint(num_nodes, (num_edges // 2,))
    target = (source + torch.randint(1, 11, source.shape)) % num_nodes
    edge_index = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    return num_nodes, edge_index[:, edge_index[0].argsort(stable=True)]


# ------------------------------------------------------------------ in a process of its own


def _child(*names: str) -> dict[str, Any]:
    """The figures of a method on a stored case, or of a network on the data set of a case."""
    if names[0] in METHODS:
        return measure(*names)
    from pool_training import epochs

    return epochs(*names)


def measure(name: str, path: str) -> dict[str, Any]:
    """Seconds a graph, forward and both ways, and the peak memory of the process."""
    case = torch.load(path)
    runs, kept = case["runs"], case.get("kept", False)
    _limit_memory(KEPT_LIMIT if kept else MEMORY_LIMIT)
    figures = {}
    before = _peak()
    for label, (num_clusters, batches) in runs.items():
        method = METHODS[name](num_clusters)
        # The dense methods in a series: only as far as their memory goes.
        if method.dense and len(runs) > 1 and _dense_bytes(batches[0]) > DENSE_LIMIT:
            continue
        check(method, num_clusters, batches[-1])
        figures[label] = _time(method, batches, warm=kept)
    return {"runs": figures, "peak": _peak(), "before": before}


def check(method: Method, num_clusters: int, graphs: list[Graph]) -> None:
    """What the method returns must be what `sim_pool` returns."""
    if method.dense and _dense_bytes(graphs) > DENSE_LIMIT:
        return
    batch = make_batch(graphs)
    with torch.no_grad():
        x, adj, _ = method(method.prepare(batch))
        expected_x, expected_adj, _ = METHODS["sim_pool"](num_clusters)(batch)
    if type(method).__name__ == "DMoN":
        expected_x = torch.nn.functional.selu(expected_x)
    torch.testing.assert_close(x, expected_x, rtol=1e-4, atol=1e-3)
    if adj is not None:
        torch.testing.assert_close(adj, expected_adj, rtol=1e-4, atol=1e-4)


def _time(method: Method, batches: list[list[Graph]], warm: bool = False) -> dict[str, Any]:
    """The median over rounds of all batches, and its range; `warm`, once all have been seen."""
    ragged = [make_batch(graphs) for graphs in batches]
    for batch in ragged if warm else ragged[-1:]:
        _step(method, batch)
    graphs = sum(batch.batch_size for batch in ragged)
    totals: list[tuple[float, ...]] = []
    # For some seconds, or a moment of something else on the machine would show.
    while len(totals) < ROUNDS or (
        len(totals) < 20 * ROUNDS and sum(both for _, both in totals) < 2
    ):
        steps = [_step(method, batch) for batch in ragged]
        totals.append(tuple(sum(part) for part in zip(*steps)))
        if totals[0][1] > SLOW * len(ragged):
            break
    forward, both = (sorted(t / graphs for t in times) for times in zip(*totals))
    middle = len(both) // 2
    return {
        "forward": forward[middle],
        "both": both[middle],
        "range": [both[0], both[-1]],
        "rounds": len(both),
        "nodes": sum(batch.x.size(0) for batch in ragged),
        "graphs": graphs,
    }


def _step(method: Method, batch: Ragged) -> tuple[float, float]:
    prepared = method.prepare(batch)
    leaf = method.leaf(prepared).requires_grad_()
    leaf.grad = None
    method.zero_grad()
    start = time.perf_counter()
    x, adj, loss = method(prepared)
    middle = time.perf_counter()
    (x.sum() + loss + (0 if adj is None else adj.sum())).backward()
    return middle - start, time.perf_counter() - start


def _dense_bytes(graphs: list[Graph]) -> int:
    return 4 * len(graphs) * max(nodes for nodes, _ in graphs) ** 2


def _peak() -> int:
    import resource

    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _limit_memory(limit: Optional[int]) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (limit or resource.RLIM_INFINITY,) * 2)


if __name__ == "__main__":
    sys.exit(main())
