"""Every kernel compiles for GPUs, in every variant: no GPU is needed for that.

The interpreter takes programs that the compiler refuses.
"""

import os
import re
from typing import Any

import pytest

triton = pytest.importorskip("triton")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("interpreted kernels are not compiled", allow_module_level=True)

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from torch_geometric_simpool.topk.triton.tables import (  # noqa: E402
    best_of_tables,
    fill_tables,
)

#: The types of arguments by name; all others are pointers to 64-bit integers.
TYPES = {
    "k": "i32",
    "integral": "*i1",
    **dict.fromkeys(("row_value", "list_value", "sums", "lost", "absolute"), "*fp64"),
    **dict.fromkeys(("norm2", "scale", "limits"), "*fp64"),
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def compiled(kernel: Any, ids: str, values: str, **constants: Any) -> str:
    """The assembly of a kernel, for types of ids and of the values of the result."""
    types = {**TYPES, **dict.fromkeys(("row_col", "list_col", "slots"), ids)}
    types["values"] = values
    names = [parameter.name for parameter in kernel.params]
    fixed = {name: constant for name, constant in constants.items() if name in names}
    signature = {name: "constexpr" if name in fixed else types.get(name, "*i64") for name in names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=fixed)
    options = {"num_warps": 1, "enable_fp_fusion": False}
    done = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert done.asm["cubin"]
    return done.asm["ptx"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ids", "exact", "weighted", "measure", "half"),
    [
        ("*i32", True, False, 0, 64),
        ("*i32", False, True, 0, 256),
        ("*i64", True, True, 1, 64),
        ("*i64", False, True, 2, 128),
        ("*i32", True, False, 3, 64),
    ],
)
def test_every_kernel_compiles(
    ids: str, exact: bool, weighted: bool, measure: int, half: int
) -> None:
    values = "*fp32" if exact else "*fp64"
    constants = {"WEIGHTED": weighted, "EXACT": exact, "SIZE": 128}
    filled = compiled(fill_tables, ids, values, **constants)
    constants = {"EXACT": exact, "LOOP": exact, "MEASURE": measure, "HALF": half}
    best = compiled(best_of_tables, ids, values, **constants)
    for ptx in (filled, best):
        assert "fma.rn.f64" not in ptx  # it would round once where a CPU rounds twice
        assert not re.search(r"(sqrt|div)\.(approx|full)", ptx)
    assert "div.rn.f64" in best
    assert measure or "sqrt.rn.f64" in best


@pytest.mark.slow
def test_an_unknown_measure_does_not_compile() -> None:
    with pytest.raises(triton.CompilationError):
        compiled(best_of_tables, "*i32", "*fp32", EXACT=True, LOOP=True, MEASURE=9, HALF=64)
