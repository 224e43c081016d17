"""How the kernels are compiled: once, without the GIL, and cached on disk."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

#: Seconds of compiling after which the user is told what is going on.
PATIENCE = 1.0


def kernel(function: Callable) -> Any:
    """Compiles for the machine, on the first call with arguments of new types.

    Runs without the GIL, so that threads run side by side and Ctrl-C is heard. Divides
    as NumPy does. Is kept in Numba's cache, beside this file or in the user's cache
    folder; where neither can be written, it is compiled anew by each process.
    """
    return cached(lambda **cache: numba.njit(nogil=True, error_model="numpy", **cache)(function))


def cached(compile_: Callable[..., Any]) -> Any:
    """What `compile_` returns, kept in the cache of Numba if it has one."""
    try:
        return compile_(cache=True)
    except RuntimeError:  # Numba's word for: there is no place for a cache
        return compile_()


@intrinsic
def prefetch(typing_context: Any, array: Any, place: Any) -> Any:
    """Asks for the cache line of `array[place]`, which may lie anywhere, and does not wait."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        view = context.make_array(kind)(context, builder, args[0])
        item = cgutils.get_item_pointer(context, builder, kind, view, [args[1]], wraparound=False)
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        )
        # To read, to keep in all caches, of the data.
        builder.call(function, [builder.bitcast(item, byte), word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


_ready: set[tuple] = set()


def call(function: Any, *args: Any) -> Any:
    """Calls a kernel; says so if it has to be compiled first and that takes long."""
    # Numba's own notion of types is slow to find out: it would take longer than small graphs.
    types_of_args = tuple(
        (arg.dtype.char, arg.ndim, arg.flags.c_contiguous, arg.flags.writeable)
        if isinstance(arg, np.ndarray)
        else type(arg)
        for arg in args
    )
    if (function, types_of_args) not in _ready:
        with noticed():
            function.compile(tuple(numba.typeof(arg) for arg in args))
        _ready.add((function, types_of_args))
    return function(*args)


@contextmanager
def noticed() -> Iterator[None]:
    """Says so if what is compiled meanwhile takes long."""
    notice = threading.Timer(PATIENCE, _say)
    notice.daemon = True
    notice.start()
    try:
        yield
    finally:
        notice.cancel()


def _say() -> None:
    print(
        "torch_geometric_simpool: compiling the CPU kernels; this happens once, "
        "they are cached for the next time",
        file=sys.stderr,
        flush=True,
    )
