"""Compiled loops on the threads of PyTorch.

After each operation these wait awake for the next one, for milliseconds, each on its core;
threads of our own would have to share the cores with them. So loops that run between
operations of PyTorch are handed to the same OpenMP as its own.
"""

import ctypes
import sys
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, Optional

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from torch_geometric_simpool.cpu.compiled import cached, noticed

#: How many blocks each thread gets of a call, which cannot be interrupted.
BLOCKS = 8


@lru_cache(maxsize=1)
def parallel() -> Optional[Any]:
    """`GOMP_parallel` of the OpenMP that PyTorch calls; `None` where there is none.

    Compilers call it where a parallel region begins, so it is as stable as a compiled
    program; LLVM's and Intel's OpenMP for Linux have it as well. It is looked up as the
    symbols of PyTorch are, so what is found is what PyTorch itself calls.
    """
    if not sys.platform.startswith("linux"):
        return None
    if "parallel backend: OpenMP" not in torch.__config__.parallel_info():
        return None
    try:
        function = ctypes.CDLL(None).GOMP_parallel
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
    function.restype = None
    return function


@cache
def _compiled(loop: Callable[[Any], None]) -> Any:
    signature = types.void(types.CPointer(types.int64))
    with noticed():
        return cached(lambda **cache: numba.cfunc(signature, error_model="numpy", **cache)(loop))


def run(
    loop: Callable[[Any], None],
    numbers: tuple[int, ...],
    arrays: tuple[np.ndarray, ...],
    bounds: np.ndarray,
    num_threads: int,
) -> None:
    """Has each thread call `loop`, which does block after block, until all are done.

    Args:
        loop: A function of a module, to be compiled. It gets a pointer to int64: the next
            block, the end of the blocks, `numbers`, and the addresses of `arrays` and of
            `bounds`. It takes blocks by :func:`take`.
        numbers: What else it is to know.
        arrays: What it works on, each contiguous.
        bounds: Block `b` has the rows from `bounds[b]` to `bounds[b + 1]`, int64.
        num_threads: As many as PyTorch uses.
    """
    function = parallel()
    assert function is not None
    address = _compiled(loop).address
    places = [array.ctypes.data for array in (*arrays, bounds)]
    data = np.array([0, 0, *numbers, *places], np.int64)
    num_blocks = bounds.size - 1
    # Ctrl-C is heard between calls.
    for first in range(0, num_blocks, BLOCKS * num_threads):
        data[:2] = first, min(first + BLOCKS * num_threads, num_blocks)
        function(address, data.ctypes.data, num_threads, 0)


@intrinsic
def take(typing_context: Any, data: Any) -> Any:
    """Adds one to `data[0]`, whatever other threads do, and returns what it was."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", args[0], ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(data), generate


@intrinsic
def pointer(typing_context: Any, address: Any) -> Any:
    """An address as `numba.carray` takes it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate
