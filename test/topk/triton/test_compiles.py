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

from torch_geometric_simpool.topk.triton.hubs import best_of_hubs  # noqa: E402
from torch_geometric_simpool.topk.triton.long_rows import (  # noqa: E402
    best_of_tables,
    fill_tables,
)
from torch_geometric_simpool.topk.triton.short_rows import short_rows  # noqa: E402

#: The types of arguments by name; all others are pointers to 64-bit integers.
TYPES = {
    "k": "i32",
    "num_rows": "i32",
    "num_best": "i32",
    "num_hubs": "i32",
    "row_value": "*fp64",
    "list_value": "*fp64",
    "lost": "*fp64",
    "absolute": "*fp64",
    "scale": "*fp64",
    "integral": "*i1",
    "limits": "*fp64",
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def compiled(kernel: Any, ids: str, value: str, weighted: bool, **constants: Any) -> str:
    """The assembly of a kernel, for ids and values of a type."""
    types = {
        **TYPES,
        **dict.fromkeys(("row_col", "list_col", "hub_best", "slots", "member_id", "best"), ids),
        "values": value,
        "norm2": "*fp64" if weighted else ids,
        "group_norm2": ids,
        "member_norm2": ids,
        "sums": "*fp64" if weighted else "*i32",
    }
    names = {parameter.name for parameter in kernel.params}
    fixed = {name: constant for name, constant in constants.items() if name in names}
    assert {p.name for p in kernel.params if p.is_constexpr} == set(fixed)
    signature = {name: types.get(name, "*i64") for name in names}
    signature.update(dict.fromkeys(fixed, "constexpr"))
    source = ASTSource(
        fn=kernel,
        signature={p.name: signature[p.name] for p in kernel.params},
        constexprs=fixed,
    )
    options = {"num_warps": 8 if constants.get("SIZE") == 2048 else 4, "enable_fp_fusion": False}
    done = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert done.asm["cubin"]
    return done.asm["ptx"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("weighted", "exact", "signed", "hubs", "measure", "reduce", "tiny"),
    [
        (False, True, False, False, 0, False, False),
        (False, True, False, True, 1, False, True),
        (True, True, False, False, 0, True, False),
        (True, False, False, False, 2, False, True),
        (True, False, True, False, 3, False, True),
    ],
)
def test_every_kernel_compiles(
    weighted: bool, exact: bool, signed: bool, hubs: bool, measure: int, reduce: bool, tiny: bool
) -> None:
    constants = {
        "WEIGHTED": weighted, "EXACT": exact, "SIGNED": signed, "HUBS": hubs, "MEASURE": measure,
        "REDUCE": reduce, "TINY": tiny, "LOOP": exact, "SOME": not exact, "ROWS": 2, "SIZE": 64,
        "LOG_SIZE": 6, "HALF": 64,
    }  # fmt: skip
    ids = "*i64" if measure else "*i32"
    value = "*fp32" if hubs else "*fp64"
    kernels = [short_rows, fill_tables, best_of_tables, *([best_of_hubs] if hubs else [])]
    for kernel in kernels:
        ptx = compiled(kernel, ids, value, weighted, **constants)
        assert "fma.rn.f64" not in ptx  # it would round once where a CPU rounds twice
        assert not re.search(r"(sqrt|div)\.(approx|full)", ptx)
        if kernel is not fill_tables:
            assert "div.rn.f64" in ptx
            assert measure or "sqrt.rn.f64" in ptx


@pytest.mark.slow
def test_the_largest_block_compiles() -> None:
    constants = {
        "WEIGHTED": False, "EXACT": True, "SIGNED": False, "HUBS": True, "MEASURE": 0,
        "REDUCE": False, "TINY": False, "LOOP": True, "SOME": False, "ROWS": 1, "SIZE": 2048,
        "LOG_SIZE": 11,
    }  # fmt: skip
    compiled(short_rows, "*i32", "*fp32", False, **constants)
