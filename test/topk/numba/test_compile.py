"""How kernels are compiled and cached, also on a machine without a place for a cache."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import torch_geometric_simpool
from torch_geometric_simpool.topk.numba import compile as compiled


@compiled.kernel
def plus_one(value: Any) -> Any:
    return value + 1


class Kernel:
    """Like a kernel that takes no time to compile."""

    def __init__(self) -> None:
        self.compiled: list[tuple] = []

    def compile(self, types_of_args: tuple) -> None:
        self.compiled.append(types_of_args)

    def __call__(self, *args: object) -> tuple:
        return args


def test_a_call_compiles_once_for_each_type() -> None:
    function = Kernel()
    array = np.zeros(3)
    assert compiled.call(function, array, 1) == (array, 1)
    compiled.call(function, np.ones(9), 7)
    assert function.compiled == [(numba.typeof(array), numba.typeof(1))]
    compiled.call(function, np.zeros(3, np.int32), 1)
    compiled.call(function, array[::2], 1)
    compiled.call(function, array, 1.0)
    compiled.call(function, array, True)
    assert len(function.compiled) == len(set(function.compiled)) == 5


def test_a_kernel_computes() -> None:
    assert compiled.call(plus_one, 2) == 3
    assert compiled.call(plus_one, 2.5) == 3.5


def test_a_kernel_lets_other_threads_run() -> None:
    assert plus_one.targetoptions["nogil"]


def test_without_a_place_for_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba raises; then there is no cache."""
    asked: list[bool] = []

    def njit(cache: bool = False, **options: object) -> Callable[[Callable], Callable]:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(compiled.numba, "njit", njit)
    assert compiled.kernel(len) is len
    assert asked == [True, False]


def copy_of_the_package(folder: Path) -> Path:
    copy = folder / "torch_geometric_simpool"
    source = Path(torch_geometric_simpool.__file__).parent
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def run(program: str, folder: Path, **environment: str) -> str:
    """What a program prints that imports the package from a folder."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=folder,  # the first place where modules are looked for
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


#: Squares a matrix by a kernel with a helper in another file; prints how often it was in the cache.
SQUARE = """
import numpy as np
from torch_geometric_simpool.topk.numba.arrays import CSRArrays
from torch_geometric_simpool.topk.numba.product import fill_entries, new_scratch
ptr, col = np.array([0, 1]), np.array([0])
three, out = CSRArrays(ptr, col, np.array([3.0])), CSRArrays(ptr, col, np.zeros(1))
fill_entries(three, three, True, 0, 1, out, new_scratch(1, col.dtype, False))
print(out.value[0], sum(fill_entries.stats.cache_hits.values()))
"""


def test_nothing_is_written_into_the_package(tmp_path: Path) -> None:
    """`pip uninstall` would leave it there, importable as an empty package."""
    copy = copy_of_the_package(tmp_path)
    before = sorted(copy.rglob("*"))
    user = {"NUMBA_CACHE_DIR": "", "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "user")}
    for hits in (0, 1):  # the second process finds what the first has cached
        assert run(SQUARE, tmp_path, PYTHONDONTWRITEBYTECODE="1", **user) == f"9.0 {hits}"
    assert sorted(copy.rglob("*")) == before


def test_the_folder_of_other_functions_is_numbas_own() -> None:
    config: Any = numba.config
    given = config.CACHE_DIR
    compiled.kernel(lambda value: value)
    assert given == config.CACHE_DIR


def test_without_the_private_attributes_numbas_own_rule_applies() -> None:
    @compiled.kernel
    def kept(value: Any) -> Any:
        return value

    assert kept._cache._cache_file._version.endswith(compiled._hash_of_sources())
    for other in (object(), None):
        compiled._invalidate_with_sources(other)


def test_without_the_private_option_functions_are_compiled_as_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    njit = numba.njit

    def strict(**options: Any) -> Callable[[Callable], Callable]:
        if "_nrt" in options:
            raise KeyError("unrecognized options")
        return njit(**options)

    monkeypatch.setattr(compiled.numba, "njit", strict)

    for decorate in (compiled.allocation_free, compiled.helper, compiled.inlined):
        assert decorate(lambda value: 2 * value)(21) == 42


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
)
def test_in_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    copy = copy_of_the_package(tmp_path)
    program = """
from torch_geometric_simpool.topk.numba.csr import count
import numpy as np
print(count(np.array([1, 2]), 3)[0].tolist())
"""
    folders = [copy / "engine" / "topk", copy]
    for folder in folders:
        folder.chmod(0o500)
    try:
        assert run(program, tmp_path, HOME="/nonexistent") == "[0, 1, 1]"
    finally:
        for folder in folders:
            folder.chmod(0o700)


def test_without_compiling() -> None:
    """`NUMBA_DISABLE_JIT=1`: the kernels are plain Python, for debuggers and coverage."""
    program = """
import warnings
import torch
from torch_geometric_simpool import topk_similarity
warnings.simplefilter("error")
torch.manual_seed(0)
edges = torch.unique(torch.randint(20, (2, 80)), dim=1)
for weight in (None, torch.rand(edges.size(1))):
    values, index = topk_similarity(edges, 5, weight, 20, backend="numba")
    expected, places = topk_similarity(edges, 5, weight, 20, backend="torch")
    assert torch.allclose(values, expected) and torch.equal(index, places)
print("equal")
"""
    root = Path(torch_geometric_simpool.__file__).parents[1]
    assert run(program, root, NUMBA_DISABLE_JIT="1") == "equal"
