"""Decorators that compile kernels: on first use, without the GIL, cached on disk by Numba.

Numba keeps machine code in `__pycache__` beside the sources or, where that cannot be written, in
the user's cache folder; the environment variable `NUMBA_CACHE_DIR` names another. It compares the
time of the file with the kernel alone: after an edit of a helper in another file, delete the cache.
"""

import sys
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, event, types
from numba.extending import intrinsic

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


@intrinsic
def bits_above(typing_context, array, start, bound):
    """Returns 64 bits: which entries of `array[start : start + 64]` are larger than `bound`."""

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        vector, integer = ir.VectorType(data.type.pointee, 64), ir.IntType(32)
        place = builder.bitcast(builder.gep(data, [arguments[1]]), vector.as_pointer())
        entries = builder.load(place, align=array.dtype.bitwidth // 8)
        nothing = ir.Constant(vector, ir.Undefined)
        bound = builder.insert_element(nothing, arguments[2], integer(0))
        zeros = ir.Constant(ir.VectorType(integer, 64), [0] * 64)
        bounds = builder.shuffle_vector(bound, nothing, zeros)
        if isinstance(array.dtype, types.Float):
            larger = builder.fcmp_ordered(">", entries, bounds)
        elif array.dtype.signed:
            larger = builder.icmp_signed(">", entries, bounds)
        else:
            larger = builder.icmp_unsigned(">", entries, bounds)
        return builder.bitcast(larger, ir.IntType(64))

    return types.uint64(array, types.int64, array.dtype), generate


@intrinsic
def lowest_bit(typing_context, bits):
    """Returns the position of the lowest bit that is set; `bits` is not zero."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.IntType(1)(True))

    return types.int64(types.uint64), generate


class _Notice(event.Listener):
    """Prints a line when the first kernel of this package is compiled, unless it was cached."""

    printed = False

    def on_start(self, event: Any) -> None:
        dispatcher = event.data["dispatcher"]
        if not self.printed and dispatcher.py_func.__module__.startswith(_PACKAGE):
            self.printed = True
            print(
                "torch_geometric_simpool: the CPU kernels are being compiled, and cached in "
                f"{dispatcher.stats.cache_path}",
                file=sys.stderr,
                flush=True,
            )

    def on_end(self, event: Any) -> None:
        """Does nothing. Numba calls it when a kernel has been compiled."""


event.register("numba:compile", _Notice())
