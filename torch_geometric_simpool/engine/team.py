"""Compiled loops on the threads of PyTorch.

After each operation these wait awake for the next one, for milliseconds, each on its core;
threads of our own would have to share the cores with them. So loops that run between
operations of PyTorch are handed to the same OpenMP as its own.

Numba's cache of a loop does not notice when what the loop calls in here is changed: remove
the `__pycache__` folders then.
"""

import ctypes
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache, lru_cache, partial
from typing import Any, Optional

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic
from torch import Tensor

from torch_geometric_simpool.engine.topk.compiled import cached, kernel, noticed

#: How many blocks each thread gets of a call, which cannot be interrupted.
BLOCKS = 8

#: Sums or products for each thread where those of PyTorch cannot be used: with fewer, the calling
#: thread is done before those leave a core to others.
PER_THREAD = 1 << 23

#: Where what is the same for every loop lies: the next block, the end of the blocks, and the
#: address of the bounds. Four places for each array follow.
_NEXT, _END, _BOUNDS, _ARRAYS = 0, 1, 2, 3

_POINTER = ctypes.POINTER(ctypes.c_int64)


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


#: A loop for each type of numbers.
Loops = Mapping[torch.dtype, Callable[[Any], None]]


def run(loops: Loops, tensors: Sequence[Tensor], bounds: np.ndarray, work: int) -> None:
    """Has as many threads as PyTorch uses call a loop, which does block after block, until all
    are done.

    Where PyTorch has no threads to share, they are threads of our own, if there is enough work.

    Args:
        loops: Functions of a module, to be compiled; that for the type of the last of
            `tensors` is run. It gets a pointer, which :func:`take`, :func:`ids`, :func:`rows`
            and :func:`numbers` read, and must not raise, as nobody would hear.
        tensors: What it works on: ids, `[*]`, int64, and numbers of one type, `[*, *]` or
            `[*, *, *]`. Contiguous, but that the rows of a matrix may lie apart.
        bounds: Block `b` has the rows from `bounds[b]` to `bounds[b + 1]`, int64.
        work: How many products, or sums, there are in all.
    """
    assert bounds.dtype == np.int64
    data = np.empty(_ARRAYS + 4 * len(tensors), np.int64)
    data[_BOUNDS] = bounds.ctypes.data
    for n, tensor in enumerate(tensors):
        apart = tensor.stride(0) if tensor.dim() == 2 else tensor.size(-1)
        place = _ARRAYS + 4 * n
        data[place : place + 4] = tensor.data_ptr(), tensor.size(0), tensor.size(-1), apart
    function = parallel()
    with _compiling:
        compiled = _compiled(loops[tensors[-1].dtype])
    num_threads, num_blocks = torch.get_num_threads(), bounds.size - 1
    if function is None:
        num_threads = max(min(num_threads, work // PER_THREAD), 1)
    call: Callable[[], Any]
    with ExitStack() as stack:
        if num_threads == 1:
            call = partial(compiled.ctypes, data.ctypes.data_as(_POINTER))
        elif function is not None:
            call = partial(function, compiled.address, data.ctypes.data, num_threads, 0)
        else:
            pool = stack.enter_context(
                ThreadPoolExecutor(num_threads, thread_name_prefix="simpool")
            )
            given = [data.ctypes.data_as(_POINTER)] * num_threads
            call = lambda: list(pool.map(compiled.ctypes, given))  # noqa: E731
        # Ctrl-C is heard between calls.
        for first in range(0, num_blocks, BLOCKS * num_threads):
            data[_NEXT], data[_END] = first, min(first + BLOCKS * num_threads, num_blocks)
            call()


#: So that threads do not all compile the same.
_compiling = threading.Lock()


@cache
def _compiled(loop: Callable[[Any], None]) -> Any:
    signature = types.void(types.CPointer(types.int64))
    with noticed():
        return cached(lambda **cache: numba.cfunc(signature, error_model="numpy", **cache)(loop))


# What a loop reads of its pointer.


@kernel
def take(data):
    """The rows of a block that no other thread has taken; `(-1, -1)` when all are taken."""
    block = _next(data)
    head = carray(data, _ARRAYS)
    if block >= head[_END]:
        return np.int64(-1), np.int64(-1)
    bounds = carray(_pointer(head[_BOUNDS]), block + 2, np.int64)
    return bounds[block], bounds[block + 1]


@kernel
def ids(data, n):
    """Array `n`, of int64, `[*]`."""
    place = _ARRAYS + 4 * n
    head = carray(data, place + 4)
    return carray(_pointer(head[place]), head[place + 1], np.int64)


@kernel
def rows(data, n, dtype):
    """Array `n`, of rows that lie next to each other, `[*, *]`."""
    place = _ARRAYS + 4 * n
    head = carray(data, place + 4)
    return carray(_pointer(head[place]), (head[place + 1], head[place + 2]), dtype)


@kernel
def numbers(data, n, dtype):
    """Array `n` without its shape; its width; and how far apart its rows begin."""
    place = _ARRAYS + 4 * n
    head = carray(data, place + 4)
    # As long as may be: only its beginning is of interest.
    flat = carray(_pointer(head[place]), 1 << 60, dtype)
    return flat, head[place + 2], head[place + 3]


@intrinsic
def _next(typing_context: Any, data: Any) -> Any:
    """Adds one to `data[0]`, whatever other threads do, and returns what it was."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", args[0], ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(data), generate


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:
    """An address as `numba.carray` takes it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate
