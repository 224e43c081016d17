"""Every variant of every kernel compiles for GPUs, which needs no GPU.

The compiler refuses some programs that the interpreter runs.
"""

import os
import re
from typing import Any

import pytest

triton = pytest.importorskip("triton", minversion="3.6")
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("interpreted kernels are not compiled", allow_module_level=True)

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from torch_geometric_simpool.topk.triton.kernels import (  # noqa: E402
    best_of_tables,
    fill_tables,
)

#: The types of arguments by name. Other arguments are pointers to 64-bit integers.
TYPES = {
    **dict.fromkeys(("k", "num_slots"), "i32"),
    **dict.fromkeys(("row_col", "row_value", "list_col", "list_value", "tables", "norm2"), "*i32"),
    "smallest": "*fp64",
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def compiled(kernel: Any, values: str, warps: int, **constants: Any) -> str:
    """Returns the assembly of a kernel, for a type of the returned values."""
    types = {**TYPES, "values": values}
    names = [parameter.name for parameter in kernel.params]
    fixed = {name: constant for name, constant in constants.items() if name in names}
    signature = {name: "constexpr" if name in fixed else types.get(name, "*i64") for name in names}
    source = ASTSource(fn=kernel, signature=signature, constexprs=fixed)
    options = {"num_warps": warps, "enable_fp_fusion": False}
    done = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert done.asm["cubin"]
    return done.asm["ptx"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "loop", "measure", "most", "size", "warps"),
    [
        ("*fp32", False, 0, 16, 1024, 4),
        ("*fp64", True, 0, 256, 128, 1),
        ("*fp32", True, 1, 1, 128, 1),
        ("*fp64", True, 2, 64, 1024, 4),
        ("*fp32", False, 3, 2, 128, 1),
    ],
)
def test_every_kernel_compiles(
    values: str, loop: bool, measure: int, most: int, size: int, warps: int
) -> None:
    constants = {"LOOP": loop, "MEASURE": measure, "MOST": most, "HASHED": loop}
    filled = compiled(fill_tables, values, 1, SIZE=32, **constants)
    best = compiled(best_of_tables, values, warps, SIZE=size, **constants)
    for ptx in (filled, best):
        assert "fma.rn.f64" not in ptx  # it rounds once, and a CPU rounds twice
        assert not re.search(r"(sqrt|div)\.(approx|full)(\.ftz)?\.f64", ptx)
    assert "div.rn.f64" in best
    assert measure or "sqrt.rn.f64" in best


@pytest.mark.slow
def test_an_unknown_measure_does_not_compile() -> None:
    with pytest.raises(triton.CompilationError):
        compiled(best_of_tables, "*fp32", 1, LOOP=True, MEASURE=9, MOST=64, SIZE=64, HASHED=True)
