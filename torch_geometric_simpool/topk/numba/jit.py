"""Decorators that compile kernels: on first use, without the GIL, cached on disk by Numba.

Numba keeps machine code in `__pycache__` beside the sources or, where that cannot be written, in
the user's cache folder; the environment variable `NUMBA_CACHE_DIR` names another. It compares the
time of the file with the kernel alone: after an edit of a helper in another file, delete the cache.
"""

import sys
import threading
import time
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, event, types
from numba.extending import intrinsic

#: Seconds of compiling after which the user is told about it, once per process.
PATIENCE = 1.0

_PACKAGE = "torch_geometric_simpool."
_OPTIONS: dict[str, Any] = {"nogil": True, "boundscheck": False, "error_model": "numpy"}

#: Compiles a function that Python calls.
kernel = numba.njit(cache=True, **_OPTIONS)

# Functions that allocate no arrays need no reference counts. Counting references to each array
# that is passed on would take longer than the sums of a short row.
_OPTIONS["_nrt"] = False

#: Compiles a function that Python calls and that allocates no arrays.
allocation_free = numba.njit(cache=True, **_OPTIONS)

#: Compiles a function that only kernels call. Neither Python nor the cache needs it.
helper: Any = numba.njit(  # type: ignore[call-overload]
    no_cpython_wrapper=True, no_cfunc_wrapper=True, **_OPTIONS
)

#: Compiles a function that becomes part of its callers. A call would copy all arrays it is given.
inlined: Any = numba.njit(  # type: ignore[call-overload]
    no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True, **_OPTIONS
)


@intrinsic
def prefetch(typing_context, array, index):
    """Asks for the place of an array to be brought into the cache, without waiting for it."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.gep(data, [builder.zext(arguments[1], ir.IntType(64))])
        pointer = builder.bitcast(place, ir.IntType(8).as_pointer())
        integer = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, integer, integer, integer])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # For reading, into all levels of the cache of data.
        builder.call(function, [pointer, integer(0), integer(3), integer(1)])
        return context.get_dummy_value()

    return types.void(array, index), generate


class _Notice(event.Listener):
    """Prints one line once the kernels of this package have compiled for a while."""

    def __init__(self) -> None:
        self.depth = 0  # a kernel is compiled with its helpers
        self.patience = PATIENCE

    def on_start(self, event: Any) -> None:
        self.depth += 1
        dispatcher = event.data["dispatcher"]
        if self.depth == 1:
            self.start = time.monotonic()
            self.timer = threading.Timer(self.patience, self.say, (dispatcher.stats.cache_path,))
            self.timer.daemon = True
            if self.patience > 0 and dispatcher.py_func.__module__.startswith(_PACKAGE):
                self.timer.start()

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            self.timer.cancel()
            self.patience -= time.monotonic() - self.start

    def say(self, folder: str) -> None:
        self.patience = 0.0
        print(
            f"torch_geometric_simpool: the CPU kernels are being compiled, and cached in {folder}",
            file=sys.stderr,
            flush=True,
        )


event.register("numba:compile", _Notice())
