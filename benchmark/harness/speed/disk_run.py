"""Graphs on disk: the same bits from every executor and after every kill, and a large one."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from harness.errors import BenchmarkError
from harness.speed.child import COMMANDS, run_child
from harness.speed.processes import Watch, dask_cluster, workers_of

COMMAND = "graph_on_disk.py"


def step(name: str, *words: object) -> dict[str, Any]:
    """A step of `disk_steps`, in a process of its own."""
    return run_child(COMMAND, ["--step", name, *map(str, words)])


def compare(kind: str, nodes: int, degree: int, k: int, work: Path) -> dict[str, Any]:
    """All ways to the top k of a graph; they must agree."""
    edges, shards, path = work / "edges.npy", work / "shards", work / "graph"
    work.mkdir(parents=True)
    found = step("graph", kind, nodes, degree, edges, shards)
    rows = {
        "one call": step("full", edges, k),
        "seven calls with `nodes`, shuffled": step("pieces", edges, k, 7),
    }
    build = step("build", shards, path)
    for name, executor in (
        ("no executor", "none"),
        ("two threads", "threads"),
        ("two processes", "processes"),
    ):
        rows[name] = _stored(work / executor, path, k, executor)
    with dask_cluster(work / "dask", 2) as file:
        rows["Dask, two workers"] = _stored(work / "whole", path, k, str(file))
        rows["Dask, a worker killed"] = _killed(work / "worker", path, k, str(file), "worker")
        rows["Dask, the driver killed, and run again"] = _killed(
            work / "driver", path, k, str(file), "driver"
        )
    rows["no executor, the driver killed, and run again"] = _killed(
        work / "alone", path, k, "none", "driver"
    )
    _agree(rows)
    shutil.rmtree(work)
    return {"kind": kind, "nodes": nodes, "k": k, **found, "build": build, "rows": rows}


def large(kind: str, nodes: int, edges: int, k: int, workers: int, work: Path) -> dict[str, Any]:
    """From shards to the stored top k on Dask, once at one go, once killed and resumed."""
    shards, path = work / "shards", work / "graph"
    work.mkdir(parents=True)
    steps: dict[str, Any] = {}
    with Watch() as watch:
        steps["draw"] = step("draw", kind, nodes, edges, shards)
        steps["build"] = _measured(watch, "build", shards, path)
        steps["estimate"] = step("estimate", path, k)
        with dask_cluster(work / "dask", workers) as file:
            moved = _loopback()
            steps["topk"] = _measured(watch, "topk", path, k, work / "whole", file)
            steps["topk"]["moved"] = _loopback() - moved
            steps["hash"] = step("hash_store", work / "whole")
            steps["killed"] = _killed(work / "killed", path, k, str(file), "both")
    rows = {"whole": steps["hash"], "killed": steps["killed"]}
    _agree(rows)
    sizes = {name: _size_of(work / name) for name in ("shards", "graph", "whole")}
    shutil.rmtree(work)
    return {
        "kind": kind,
        "nodes": nodes,
        "k": k,
        "workers": workers,
        "bytes": sizes,
        "peaks": watch.peaks,
        "steps": steps,
    }


def _measured(watch: Watch, name: str, *words: object) -> dict[str, Any]:
    before = watch.bytes_written
    found = step(name, *words)
    time.sleep(0.5)  # for the last look of the watch
    return {**found, "written": watch.bytes_written - before}


def _stored(out: Path, path: Path, k: int, executor: str) -> dict[str, Any]:
    found = step("topk", path, k, out, executor)
    return {**step("hash_store", out), **found}


def _killed(out: Path, path: Path, k: int, executor: str, whom: str) -> dict[str, Any]:
    """The same, with `kill -9` as soon as there are some blocks: a worker, the driver, both."""
    words = ["--step", "topk", str(path), str(k), str(out), executor]
    line = [sys.executable, "-W", "ignore", str(COMMANDS / COMMAND), *words]
    start = time.perf_counter()
    driver = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    at = _wait_for_share(out, driver, 0.25)
    if whom in ("worker", "both"):
        os.kill(workers_of(os.getpid())[0], signal.SIGKILL)
    if whom in ("driver", "both"):
        at = _wait_for_share(out, driver, 0.5 if whom == "both" else 0.25)
        driver.kill()
    output, errors = driver.communicate()
    found: dict[str, Any] = {"blocks": at, "seconds": time.perf_counter() - start}
    if whom == "worker":
        if driver.returncode != 0:
            raise BenchmarkError(f"a killed worker ends the run: {errors[-500:]}")
    else:
        if driver.returncode != -signal.SIGKILL:
            raise BenchmarkError(f"the run ended before it was killed: {output}{errors[-500:]}")
        found["seconds after"] = step("topk", path, k, out, executor)["seconds"]
    return {**found, **{key: step("hash_store", out)[key] for key in ("values", "index")}}


def _wait_for_share(out: Path, driver: subprocess.Popen, share: float) -> list[int]:
    """Waits until a share of the blocks is written; returns how many are, and of how many."""
    while driver.poll() is None:
        manifest = out / "manifest.json"
        if manifest.exists():
            total = len(json.loads(manifest.read_text())["bounds"]) - 1
            done = len(list(out.glob("block-*.bin")))
            if done >= max(1, share * total):
                return [done, total]
        time.sleep(0.01)
    return [-1, -1]


def _agree(rows: dict[str, Any]) -> None:
    hashes = {(row["values"], row["index"]) for row in rows.values()}
    if len(hashes) > 1:
        raise BenchmarkError(f"the results differ: {rows}")


def _loopback() -> int:
    """The bytes that all processes of this machine have sent to each other by network."""
    for line in Path("/proc/net/dev").read_text(encoding="utf-8").splitlines():
        if line.strip().startswith("lo:"):
            return int(line.split(":")[1].split()[0])
    return 0


def _size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
