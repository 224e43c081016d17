"""Every fuzzer runs, finds a planted fault, and makes its case smaller."""

import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from campaign import calls, jobs, kills, memory, operators, run, sanitize, topk
from campaign.fuzzer import draw, error_of, shrink
from campaign.table import FUZZERS
from helpers import signatures
from helpers.careless import careless, hanging
from helpers.graphs import Graph, draw_all
from torch_geometric_simpool.engine import spmm
from torch_geometric_simpool.topk.numba import backend as select

pytestmark = pytest.mark.skipif(
    "forkserver" not in multiprocessing.get_all_start_methods(), reason="signals of POSIX"
)


@pytest.fixture(autouse=True)
def _only_quick_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a command of the benchmark."""
    monkeypatch.setattr(jobs, "JOBS", {"topk_to_disk": jobs.topk_to_disk})


@pytest.mark.parametrize("name", FUZZERS)
def test_some_cases(name: str) -> None:
    fuzzer = FUZZERS[name]
    for number in range(1 if name == "kills" else 3):
        case = draw(fuzzer, name, 0, number)
        assert case == draw(fuzzer, name, 0, number)
        fuzzer.check(case)


def test_a_campaign(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / "summary.json"
    given = ["--minutes", "0.001", "--seed", "3", "--only", "topk", "calls", "--json", str(path)]
    assert run.main(given) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("seed 3\n")
    names = [line.split()[0] for line in printed.splitlines()[1:]]
    assert names == ["topk", "calls", "fuzzer", "topk", "calls"]
    rows = json.loads(path.read_text())["fuzzers"]
    assert all(row["cases"] >= 1 and row["failures"] == 0 for row in rows)


HANGS = """
import sys, time
from campaign import fuzzer, run, table

def hang(case):
    time.sleep(60)

fuzzer.HANGS = 0.5
table.FUZZERS["calls"] = table.FUZZERS["calls"]._replace(check=hang)
sys.exit(run.main(["--only", "calls"]))
"""


def test_a_case_that_hangs_ends_the_campaign() -> None:
    path = os.pathsep.join([str(jobs.ROOT), str(jobs.ROOT / "test"), str(jobs.ROOT / "benchmark")])
    done = subprocess.run(
        [sys.executable, "-c", HANGS],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "calls ..." in done.stdout
    assert "in hang" in done.stderr


# ------------------------------------------------------------------ planted faults


def break_topk(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., bool] = lambda *_: True
) -> None:
    """The compiled top k takes the second place for the first, where `wrong` says so."""
    original = select.topk

    def broken(*given: Any) -> tuple[Tensor, Tensor]:
        bad = wrong(*given)
        values, index = original(*given)
        return (values, index.roll(1, 1)) if bad else (values, index)

    monkeypatch.setattr(select, "topk", broken)


def found(name: str, cases: int = 60) -> tuple[Any, Exception]:
    """The first failing case of a fuzzer."""
    fuzzer = FUZZERS[name]
    for number in range(cases):
        case = draw(fuzzer, name, 0, number)
        error = error_of(fuzzer, case)
        if error is not None:
            return case, error
    pytest.fail(f"{name} does not find the fault")


def shrunk(name: str) -> tuple[Any, Exception]:
    """The same, made smaller."""
    return shrink(FUZZERS[name], *found(name))


def test_topk_finds_a_fault_and_makes_it_small(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    break_topk(monkeypatch)
    case, error = shrunk("topk")
    assert isinstance(error, AssertionError)
    assert case == topk.Call(case.graph, case.k)
    assert (len(case.graph.edges), case.graph.weights) == (1, None)
    assert case.graph.num_nodes <= 2
    given = ["--minutes", "0.001", "--seed", "0", "--cases", "1", "--only"]
    assert run.main([*given, "topk", "memory"]) == 1
    printed = capsys.readouterr().out
    number = int(printed.split("--case ")[1].split()[0])
    given = ["--seed", "0", "--only", "topk", "--case", str(number)]
    assert run.main(given) == 1


@pytest.mark.parametrize("name", ["topk", "batches", "operators", "memory"])
def test_what_is_printed_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(case: Any) -> None:
        raise AssertionError("broken")

    monkeypatch.setattr(f"campaign.{name}.check", broken)
    fuzzer = FUZZERS[name]
    case = draw(fuzzer, name, 0, 0)
    printed = run.reproducer(name, fuzzer, 0, 0, case, AssertionError("broken"))
    lines = [line.strip() for line in printed.splitlines() if line.startswith("  ")]
    names: dict[str, Any] = {}
    with pytest.raises(AssertionError, match="broken"):
        exec("\n".join(lines[1:]), names)
    assert names["Case" if name != "topk" else "Call"] is type(case)


def test_batches_find_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that no small graph alone has."""
    break_topk(monkeypatch, lambda prepared, *_: prepared.description.rows.ptr.size > 30)
    case, error = found("batches")
    assert isinstance(error, AssertionError)
    assert len(case.graphs) > 1


def test_operators_find_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    original = spmm.spmm
    monkeypatch.setattr(spmm, "spmm", lambda *given: original(*given) * (1 + 1e-6))
    case, _ = shrunk("operators")
    assert case.operator in ("pool_sparse", "pool_layer", "convolution", "network")
    assert len(case.graphs) == 1
    assert len(case.graphs[0].edges) == 1


def test_operators_find_a_wrong_second_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    lift = operators.OPERATORS["unpool"]

    def wrong(*given: Any) -> operators.Both:
        (values,), expected, inputs = lift(*given)
        square = (inputs[0] - inputs[0].detach()).square().sum()  # value and gradient are 0
        return [values + square], expected, inputs

    case = operators.Case("unpool", (Graph(2, ()),))
    operators.check(case)
    monkeypatch.setitem(operators.OPERATORS, "unpool", wrong)
    with pytest.raises(AssertionError, match="second gradients"):
        operators.check(case)


def test_concurrency_finds_shared_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is wrong while another one runs."""
    running: list[int] = []
    original = select.topk

    def broken(*given: Any) -> tuple[Tensor, Tensor]:
        running.append(1)
        try:
            torch.rand(200_000).sort()  # time for another thread
            values, index = original(*given)
            return values + len(running) - 1, index
        finally:
            running.pop()

    monkeypatch.setattr(select, "topk", broken)
    _, error = found("concurrency")
    assert "another result in a thread" in str(error)


def test_interruption_finds_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that did not end leaves a mark."""
    unfinished: list[int] = []

    def wrong(*_: Any) -> bool:
        return bool(unfinished)

    break_topk(monkeypatch, wrong)
    broken = select.topk

    def marked(*given: Any) -> tuple[Tensor, Tensor]:
        result = broken(*given)
        unfinished.append(1)
        torch.rand(300_000).sort()  # where the interrupt arrives
        unfinished.clear()
        return result

    monkeypatch.setattr(select, "topk", marked)
    _, error = found("interruption")
    assert "after an interrupt" in str(error)


def test_memory_finds_a_result_of_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    break_topk(monkeypatch, lambda *given: given[3].memory is not None)
    case, error = found("memory")
    assert isinstance(case, memory.Case)
    assert "less memory" in str(error)


def test_kills_find_half_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(jobs.JOBS, "careless", careless)
    kills.check(kills.Case("careless", ((0.0, 0.0),)))
    with pytest.raises(AssertionError, match=r"other contents: \['result'\]"):
        kills.check(kills.Case("careless", ((0.7, 0.0),)))
    assert len(list(kills.smaller(kills.Case("careless", ((0.7, 0.01), (0.1, 0.0)))))) == 3


def test_kills_find_a_job_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(jobs.JOBS, "hanging", hanging)
    monkeypatch.setattr(kills, "HANGS", 1.0)
    with pytest.raises(AssertionError, match="in hanging"):
        kills.check(kills.Case("hanging", ((0.0, 0.0),)))


def test_calls_find_an_error_from_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    case = signatures.CASES["lift"]

    def unchecked(**_: Any) -> None:
        raise RuntimeError("inside")

    monkeypatch.setitem(signatures.CASES, "lift", replace_call(case, unchecked))
    with pytest.raises(RuntimeError, match="inside"):
        calls.check(calls.Case("lift", (("x", "list"),)))
    monkeypatch.setitem(signatures.CASES, "lift", replace_call(case, lambda **_: None))
    with pytest.raises(AssertionError, match="no error"):
        calls.check(calls.Case("lift", (("x", "list"),)))


def replace_call(case: signatures.Case, call: Callable[..., Any]) -> signatures.Case:
    return case._replace(call=call)


# ------------------------------------------------------------------ sanitized kernels


def test_poisoned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """In NumPy and in kernels; what is right stays right."""
    numba = pytest.importorskip("numba")
    monkeypatch.setattr(np, "empty", np.empty)
    monkeypatch.setattr(np, "empty_like", np.empty_like)
    try:
        sanitize.poison()
        assert np.isnan(np.empty(3)).all()
        assert (np.empty_like(np.zeros(3, np.int32)) == -1).all()
        assert torch.empty(2, 2).isnan().all()
        assert torch.ones(2).new_empty(3).isnan().all()
        in_kernel = numba.njit(lambda: np.empty(3))
        assert (in_kernel() == -1).all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_sanitized_processes_check_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, with a cache of its own."""
    given: dict[str, Any] = {}

    def fake(command: list[str], env: dict[str, str]) -> Any:
        given.update(env)
        return type("Done", (), {"returncode": 3})

    monkeypatch.delenv(sanitize.VARIABLE, raising=False)
    monkeypatch.setattr(sanitize.subprocess, "run", fake)
    assert run.main(["--sanitize"]) == 3
    assert given["NUMBA_BOUNDSCHECK"] == "1"
    assert given["NUMBA_CACHE_DIR"]


READS_OUTSIDE = """
import numpy as np
from campaign import sanitize
from torch_geometric_simpool.topk.numba.compile import allocation_free, helper, kernel

assert sanitize.sanitized()
sanitize.poison()
for compiled in (kernel, allocation_free):
    inside = helper(lambda values, i: values[i])
    for function in (compiled(lambda values, i: values[i]), compiled(lambda v, i: inside(v, i))):
        try:
            function(np.zeros(3), 5)
        except IndexError:
            print("found")
"""


def test_kernels_that_read_outside_are_found(tmp_path: Path) -> None:
    """In every kind of kernel, also in what a kernel calls."""
    path = os.pathsep.join([str(jobs.ROOT), str(jobs.ROOT / "test")])
    given = {sanitize.VARIABLE: "1", "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": path}
    # Numba caches functions of files alone.
    (tmp_path / "program.py").write_text(READS_OUTSIDE)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["found"] * 4


def test_smaller_graphs_are_graphs() -> None:
    """Ids stay in range, and weights beside their edges."""
    for graph in draw_all(3):
        for one in FUZZERS["topk"].smaller(topk.Call(graph, 1)):
            assert all(max(edge) < one.graph.num_nodes for edge in one.graph.edges)
            assert one.graph.weights is None or len(one.graph.weights) == len(one.graph.edges)
            assert replace(one, graph=graph) == topk.Call(graph, 1)
