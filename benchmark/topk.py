"""Times and memory of the top k, beside sparse_dot_topn, SciPy and the dense formula.

Every measurement is a process of its own: it reads the graph, runs the method once on a
small one (compiling, where there is something to compile), then `--repeats` times on the
graph, and reports each time and the peak of its resident memory beyond what it held before.
The methods of a graph take turns. Before anything is timed the results are compared.

    python benchmark/topk.py --root data --out benchmark/results/topk.json
"""

import argparse
import importlib
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Optional

import torch
from torch_geometric.datasets import TUDataset

import topk_graphs
from errors import BenchmarkError
from results import surroundings, write_whole
from topk_methods import METHODS, Problem, check
from torch_geometric_simpool import estimate_topk

GRAPHS = (
    "uniform-100000-10",
    "uniform-1000000-10",
    "power_law-100000-10",
    "power_law-1000000-10",
    "uniform-200000-50",
)
#: What an ordinary row-wise product cannot do: only the package is measured on them.
HARD = ("star-1000000", "complete-3000", "power_law_hub-1000000-10")
DATASETS = ("ENZYMES", "DD", "PROTEINS")
#: SciPy keeps every product, and has one thread; the torch backend is there for GPUs.
ONE_SETTING = {"scipy": 1, "simpool_torch": 1}
#: Those that are packages of their own, and may be missing.
PEERS = ("sparse_dot_topn",)
#: So much slower that its spread does not matter.
SLOW = ("scipy", "simpool_torch", "dense")
LARGEST_FOR_TORCH = 100_000


def main(arguments: Optional[list[str]] = None) -> int:
    options = _parse(arguments)
    try:
        if options.measure is not None:
            print(json.dumps(_measure(*options.measure)))
        else:
            _run(options)
    except BenchmarkError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace) -> None:
    out = Path(options.out)
    if out.suffix != ".json":
        raise BenchmarkError(f"--out must end in .json, got {out}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchmarkError(f"--out {out}: {error}") from error
    here = surroundings(torch.device("cpu"))
    commit = here.pop("commit")
    results: dict[str, Any] = {
        **here,
        "cpu": _cpu(),
        "gpu": "not measured",
        "repeats": options.repeats,
        "rows": [],
    }
    for package in ("numba", "scipy", "sparse_dot_topn"):
        if importlib.util.find_spec(package) is None:
            print(f"{package} is not installed, and left out: pip install '.[peers]'")
        else:
            results["versions"][package] = importlib.import_module(package).__version__
    results["rows"] = _finished(out, results)
    finished = {row["graph"] for row in results["rows"]}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.graphs:
            if name in finished:
                continue
            rows = []
            path = Path(folder) / "problem.pt"
            problem = _make(name, options.root)
            torch.save(problem, path)
            estimate = estimate_topk(problem.edge_index, 16, num_nodes=problem.num_nodes)
            methods = [m for m in _methods(name) if m not in PEERS or m in results["versions"]]
            if methods != ["simpool"]:
                _check(path, name, methods)
            # The hard ones are there to show that they finish: one setting, one run.
            hard = methods == ["simpool"]
            for k in [min(options.k)] if hard else options.k:
                for threads in [max(options.threads)] if hard else options.threads:
                    for row in _turns(path, methods, k, threads, options, hard):
                        row = {
                            "graph": name,
                            "nodes": problem.num_nodes,
                            "edges": problem.edge_index.size(1),
                            "products": estimate.num_products,
                            "commit": commit,
                            **row,
                        }
                        rows.append(row)
                        print(_line(row), flush=True)
            results["rows"].extend(rows)
            _save(out, json.dumps(results, indent=1) + "\n")
    _save(out.with_suffix(".md"), markdown(results))


def _finished(out: Path, now: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of graphs that an earlier run has finished, on the same machine and versions."""
    if not out.exists():
        return []
    try:
        there = json.loads(out.read_text(encoding="utf-8"))
        same = all(there[key] == now[key] for key in ("versions", "cpu", "hardware", "repeats"))
        rows = list(there["rows"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchmarkError(
            f"--out {out} is damaged, or not a file of this benchmark: move it away"
        ) from error
    if not same:
        raise BenchmarkError(
            f"--out {out} was made with other versions, hardware or --repeats: move it away, or "
            "choose another"
        )
    return rows


def _save(path: Path, text: str) -> None:
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _methods(name: str) -> list[str]:
    if name in DATASETS:
        return ["simpool", "simpool_edges", "simpool_torch", "sparse_dot_topn", "scipy", "dense"]
    if name.startswith(("star-", "complete-", "power_law_hub-")):
        return ["simpool"]
    methods = ["simpool", "sparse_dot_topn", "scipy"]
    if int(name.split("-")[1]) <= LARGEST_FOR_TORCH:
        methods.append("simpool_torch")
    return methods


def _turns(
    path: Path, methods: list[str], k: int, threads: int, options: argparse.Namespace, once: bool
) -> list[dict[str, Any]]:
    """The methods one after another, and again: what disturbs the machine disturbs all."""
    chosen = [
        method
        for method in methods
        if threads == ONE_SETTING.get(method, threads)
        and (method not in ONE_SETTING or k == min(options.k))
    ]
    found: dict[str, list[dict[str, Any]]] = {method: [] for method in chosen}
    for turn in range(1 if once else options.turns):
        for method in chosen:
            if turn > 0 and method in SLOW:
                continue
            repeats = 1 if once or method in SLOW else options.repeats
            found[method].append(_child(path, method, k, threads, repeats))
    rows = []
    for method, parts in found.items():
        seconds = [s for part in parts for s in part["seconds"]]
        product = [s for part in parts for s in part["product"]]
        rows.append(
            {
                "method": method,
                "k": k,
                "threads": threads,
                "seconds": statistics.median(seconds),
                "fastest": min(seconds),
                "slowest": max(seconds),
                "runs": len(seconds),
                "product_seconds": statistics.median(product) if product else None,
                "peak_mib": max(part["peak"] for part in parts) / 2**20,
                "output_mib": parts[0]["output"] / 2**20,
            }
        )
    return rows


def _child(path: Path, method: str, k: int, threads: int, repeats: int) -> dict[str, Any]:
    values = [str(value) for value in (path, method, k, threads, repeats)]
    command = [sys.executable, "-W", "ignore", __file__, "--measure", *values]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchmarkError(f"{method} failed: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _measure(path: str, method: str, k: str, threads: str, repeats: str) -> dict[str, Any]:
    torch.set_num_threads(int(threads))
    problem: Problem = torch.load(path, weights_only=False)
    run = METHODS[method]
    small = problem.graphs[:3] if problem.graphs is not None else None
    run(Problem(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), 3, small), int(k))
    seconds, product, peak = [], [], 0
    for _ in range(int(repeats)):
        before = _reset_peak()
        start = time.perf_counter()
        result = run(problem, int(k))
        seconds.append(time.perf_counter() - start)
        peak = max(peak, _memory("VmHWM") - before)
        if result[2] is not None:
            product.append(result[2])
        del result
    output = problem.num_nodes * int(k) * 12
    return {"seconds": seconds, "product": product, "peak": peak, "output": output}


def _reset_peak() -> int:
    """Makes the kernel forget the peak so far; returns what is resident now."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        raise BenchmarkError(f"peak memory cannot be measured on this system: {error}") from error
    return _memory("VmRSS")


def _memory(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise BenchmarkError(f"/proc/self/status has no {field}")


def _check(path: Path, name: str, methods: list[str]) -> None:
    problem: Problem = torch.load(path, weights_only=False)
    # SciPy's loop over a million rows takes minutes: it is the product of sparse_dot_topn.
    compared = [m for m in methods if m != "scipy" or problem.num_nodes <= 200_000]
    try:
        if problem.graphs is not None:
            whole = [m for m in compared if m != "dense"]
            check(Problem(problem.edge_index, problem.num_nodes), 16, whole)
        else:
            check(problem, 16, compared)
    except ValueError as error:
        raise BenchmarkError(
            f"{name}: nothing is timed, for the results disagree: {error}"
        ) from error
    print(f"{name}: {', '.join(compared)} agree", flush=True)


def _make(name: str, root: Optional[str]) -> Problem:
    if name in DATASETS:
        if root is None:
            raise BenchmarkError(f"--root must name the folder that holds {name}, got none")
        # PROTEINS in its cleaned version, as the study of the paper would count it.
        graphs = list(TUDataset(root, name, cleaned=name == "PROTEINS"))
        sizes = torch.tensor([data.num_nodes for data in graphs])
        first = (sizes.cumsum(0) - sizes).tolist()
        edges = torch.cat([data.edge_index + f for data, f in zip(graphs, first)], dim=1)
        return Problem(edges, int(sizes.sum()), graphs)
    kind, *sizes_of = name.split("-")
    try:
        numbers = [int(size) for size in sizes_of]
        if kind == "star":
            return Problem(topk_graphs.star(numbers[0]), numbers[0] + 1)
        if kind == "complete":
            return Problem(topk_graphs.complete(numbers[0]), numbers[0])
        if kind == "uniform":
            return Problem(topk_graphs.uniform(*numbers), numbers[0])
        if kind == "power_law":
            return Problem(topk_graphs.power_law(*numbers), numbers[0])
        if kind == "power_law_hub":
            plain = topk_graphs.power_law(*numbers)
            return Problem(topk_graphs.with_hub(plain, numbers[0]), numbers[0] + 1)
    except (ValueError, IndexError, TypeError):
        pass
    raise BenchmarkError(
        f"--graphs must name a data set ({', '.join(DATASETS)}) or a graph such as "
        f"{', '.join((*GRAPHS[:1], *HARD))}, got {name!r}"
    )


def _line(row: dict[str, Any]) -> str:
    return (
        f"{row['graph']} {row['method']} k={row['k']} threads={row['threads']}: "
        f"{row['seconds']:.3f} s ({row['fastest']:.3f} to {row['slowest']:.3f}), "
        f"peak {row['peak_mib']:.0f} MiB, output {row['output_mib']:.0f} MiB"
    )


def markdown(results: dict[str, Any]) -> str:
    """The table of all rows, with the ratio to the package in the same setting."""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    commits = ", ".join(dict.fromkeys(str(row["commit"]) for row in results["rows"]))
    lines = [
        "# Top k of structural similarity: time and memory",
        "",
        f"{results['cpu']}, {results['hardware']['cpus']} processors; {versions}. Commit "
        f"{commits}. GPU: {results['gpu']}. Median of the runs, with the fastest and the slowest; "
        "from `edge_index` to values and indices `[N, k]`, of a data set from data "
        "objects to data objects (the others: to the two arrays of all its graphs). "
        "'Product' is the call of sparse_dot_topn, or SciPy's product, alone. Peak memory is "
        "beyond the input, the output included. Ratio: the time over that of simpool.",
        "",
        "| graph | products | method | k | threads | seconds | range | runs | product | "
        "peak MiB | output MiB | ratio |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    own = {
        (row["graph"], row["k"], row["threads"]): row["seconds"]
        for row in results["rows"]
        if row["method"] == "simpool"
    }
    for row in results["rows"]:
        product = "" if row["product_seconds"] is None else f"{row['product_seconds']:.3g}"
        ratio = row["seconds"] / own[row["graph"], row["k"], row["threads"]]
        lines.append(
            f"| {row['graph']} | {row['products']:.3g} | {row['method']} | {row['k']} | "
            f"{row['threads']} | {row['seconds']:.3g} | {row['fastest']:.3g} to "
            f"{row['slowest']:.3g} | {row['runs']} | {product} | {row['peak_mib']:.0f} | "
            f"{row['output_mib']:.0f} | {ratio:.2f} |"
        )
    return "\n".join(lines) + "\n"


def summary(results: dict[str, Any]) -> list[str]:
    """The rows of README's table: seconds, and how many times as long the others take.

    Like is compared with like: of a data set, the dense formula with the time from data
    objects to data objects, the others with that from edges to arrays.
    """
    found = {
        (row["graph"], row["k"], row["threads"], row["method"]): row for row in results["rows"]
    }
    lines = []
    for graph, k in dict.fromkeys((row["graph"], row["k"]) for row in results["rows"]):
        edges = "simpool_edges" if graph in DATASETS else "simpool"
        cells = [graph, str(k)]
        for threads in (1, 2):
            own = found.get((graph, k, threads, "simpool"))
            cells.append("" if own is None else f"{own['seconds']:.3g}")
        for method, threads, ours in (
            ("sparse_dot_topn", 1, edges),
            ("sparse_dot_topn", 2, edges),
            ("scipy", 1, edges),
            ("dense", 1, "simpool"),
        ):
            own = found.get((graph, k, threads, ours))
            other = found.get((graph, k, threads, method))
            ratio = None if own is None or other is None else other["seconds"] / own["seconds"]
            cells.append("" if ratio is None else f"{ratio:.1f}")
        peak = found.get((graph, k, 2, "simpool"))
        cells.append("" if peak is None else f"{peak['peak_mib']:.0f} / {peak['output_mib']:.0f}")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def _parse(arguments: Optional[list[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--graphs",
        nargs="+",
        default=[*GRAPHS, *HARD, *DATASETS],
        help="data sets, or kind-nodes-degree with a kind of uniform, power_law, power_law_hub; "
        "star-leaves; complete-nodes",
    )
    parser.add_argument("--k", nargs="+", type=_positive, default=[16, 32])
    parser.add_argument("--threads", nargs="+", type=_positive, default=[1, 2])
    parser.add_argument("--repeats", type=_positive, default=2, help="runs in one process")
    parser.add_argument("--turns", type=_positive, default=2, help="processes of each method")
    parser.add_argument("--root", help="the folder of the TU data sets")
    parser.add_argument("--out", default="benchmark/results/topk.json")
    parser.add_argument("--measure", nargs=5, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer >= 1, got {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
