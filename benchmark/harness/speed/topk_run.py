"""Runs the ways to the top k on all graphs, each measurement in a process of its own."""

import argparse
import importlib
import importlib.util
import statistics
import tempfile
from pathlib import Path
from typing import Any

import torch

from harness.errors import BenchmarkError
from harness.speed.child import run_child
from harness.speed.topk_cases import make_problem, methods_of
from harness.speed.topk_methods import Problem, check
from harness.speed.topk_tables import line_of, markdown
from harness.store.files import read_json, write_json, write_text
from harness.store.surroundings import surroundings
from torch_geometric_simpool import estimate_topk

#: Methods with one number of threads, on the smallest k: SciPy has one thread and keeps all
#: products, and the torch backend is for GPUs.
ONE_SETTING = {"scipy": 1, "simpool_torch": 1}
#: Methods of packages that may not be installed.
PEERS = ("sparse_dot_topn",)
#: Methods so slow that they run once.
SLOW = ("scipy", "simpool_torch", "dense")


def run(options: argparse.Namespace) -> None:
    """Measures the graphs that are missing in --out, and writes the file and its table."""
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
    results["rows"] = finished_rows(out, results)
    finished = {row["graph"] for row in results["rows"]}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.graphs:
            if name in finished:
                continue
            rows = []
            path = Path(folder) / "problem.pt"
            problem = make_problem(name, options.root)
            problem.save(path)
            estimate = estimate_topk(
                problem.edge_index, 16, num_nodes=problem.sizes, nodes=problem.nodes
            )
            methods = [m for m in methods_of(name) if m not in PEERS or m in results["versions"]]
            if methods != ["simpool"]:
                _check(path, name, methods)
            # The hard graphs only show that the package can do them: one setting, one run.
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
                        print(line_of(row), flush=True)
            results["rows"].extend(rows)
            write_json(out, results)
    write_text(out.with_suffix(".md"), markdown(results))


def finished_rows(out: Path, now: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of an earlier run, which must have the same machine and versions."""
    if not out.exists():
        return []
    try:
        there = read_json(out)
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


def _turns(
    path: Path, methods: list[str], k: int, threads: int, options: argparse.Namespace, once: bool
) -> list[dict[str, Any]]:
    """Runs the methods in turns, so that disturbances of the machine affect all of them."""
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
    words = [str(value) for value in (path, method, k, threads, repeats)]
    try:
        return run_child("topk.py", ["--measure", *words])
    except BenchmarkError as error:
        raise BenchmarkError(f"{method} failed: {error}") from error


def _check(path: Path, name: str, methods: list[str]) -> None:
    """Raises if the methods do not agree."""
    problem = Problem.load(path)
    # SciPy's loop over a million rows takes minutes.
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


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"
