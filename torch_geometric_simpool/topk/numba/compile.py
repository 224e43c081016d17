"""How the kernels are compiled: once, without the GIL, and cached on disk."""

import functools
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.misc.appdirs import AppDirs

from torch_geometric_simpool.topk.numba import compiling

_ALLOCATION_FREE: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
#: Of functions that kernels alone call: nothing that Python would need, and nothing on disk.
_HELPER: dict[str, Any] = {**_ALLOCATION_FREE, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def kernel(function: Callable) -> Any:
    """Compiles a function on the first call with arguments of new types.

    It runs without the GIL, so that threads run in parallel and can be interrupted. It
    divides as NumPy does. The machine code is kept in Numba's cache, in the user's cache folder or,
    if that cannot be written, in `__pycache__`. Where neither can be, each process compiles anew.
    """
    return cached(lambda **cache: numba.njit(nogil=True, error_model="numpy", **cache)(function))


def allocation_free(function: Callable) -> Any:
    """A :func:`kernel` that allocates no arrays: it counts no references to them either.

    Numba counts references whenever an array, or a tuple of arrays, is passed on. Within the
    loop over rows that takes longer than the rest. The option is not documented. Without it
    such functions work as well, but slower.
    """
    try:
        return cached(lambda **cache: numba.njit(**_ALLOCATION_FREE, **cache)(function))
    except KeyError:  # what Numba raises if it does not know an option
        return kernel(function)


def helper(function: Callable) -> Any:
    """An :func:`allocation_free` function that kernels alone call, never Python.

    What unpacks the arguments of a call from Python takes as long to compile as the function.
    The compiled kernels contain their helpers: there is nothing to cache.
    """
    try:
        return numba.njit(**_HELPER)(function)
    except KeyError:  # what Numba raises if it does not know an option
        return kernel(function)


def inlined(function: Callable) -> Any:
    """A :func:`helper` whose code is copied to where it is called.

    A call copies all arrays of its named tuples, which counts where rows are small.
    """
    try:
        return numba.njit(**_HELPER, inline="always")(function)
    except KeyError:  # what Numba raises if it does not know an option
        return kernel(function)


def cached(compile_: Callable[..., Any]) -> Any:
    """What `compile_` returns, with a cache on disk if there is a place for one."""
    try:
        with _users_folder():
            function = compile_(cache=True)
    except RuntimeError:  # what Numba raises if no folder can be written
        return compile_()
    _invalidate_with_sources(function)
    return function


@contextmanager
def _users_folder() -> Iterator[None]:
    """Numba caches in the user's folder first, unless `NUMBA_CACHE_DIR` names another.

    By itself it tries `__pycache__` first. Of files that it did not install, `pip uninstall`
    knows nothing: the folders would remain, and be importable as an empty package.
    """
    config: Any = numba.config  # its attributes are made when it is loaded
    given = config.CACHE_DIR
    config.CACHE_DIR = given or AppDirs(appname="numba", appauthor=False).user_cache_dir
    try:
        yield
    finally:
        config.CACHE_DIR = given


def _invalidate_with_sources(function: Any) -> None:
    """Makes the cache of a function depend on all sources of the engine.

    Numba looks at the file of the function alone. A kernel would not notice that a helper
    from another file, or a named tuple, has changed. The version of Numba in its cache files
    is the one thing that is compared before anything else is read, so the sources are made a
    part of it. There is no public way to do so. Should these attributes go, a test fails, and
    Numba's own rule applies.
    """
    files = getattr(getattr(function, "_cache", None), "_cache_file", None)
    version = getattr(files, "_version", None)
    if files is not None and isinstance(version, str):
        files._version = f"{version} {_hash_of_sources()}"


@functools.cache
def _hash_of_sources() -> str:
    """A hash of all sources of the engine; empty if they cannot be read."""
    sources = hashlib.sha256()
    try:
        for path in sorted(Path(__file__).parent.rglob("*.py")):
            sources.update(path.read_bytes())
    except OSError:
        return ""
    return sources.hexdigest()


_compiled: set[tuple] = set()


def call(function: Any, *args: Any) -> Any:
    """Calls a kernel; compiles it first if need be, and tells the user if that takes long."""
    if not hasattr(function, "compile"):  # under `NUMBA_DISABLE_JIT=1` it is plain Python
        with np.errstate(all="ignore"):  # as in compiled code
            return function(*args)
    # Numba's own `typeof` is slow: it would take longer than the top k of a small graph.
    key = (function, *map(_kind, args))
    if key not in _compiled:
        with compiling.one_at_a_time(function):
            if key not in _compiled:
                function.compile(tuple(numba.typeof(arg) for arg in args))
                _compiled.add(key)
    return function(*args)


def _kind(arg: Any) -> Any:
    """What tells the type of an argument from that of another."""
    if isinstance(arg, np.ndarray):
        return arg.dtype.char, arg.ndim, arg.flags.c_contiguous, arg.flags.writeable
    if isinstance(arg, tuple):
        return (type(arg), *map(_kind, arg))
    return type(arg)
