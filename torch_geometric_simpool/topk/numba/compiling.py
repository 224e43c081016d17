"""Compiling one kernel at a time: in this process, and among those that share a cache."""

import gc
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

try:
    import fcntl
except ImportError:  # on Windows, where each process compiles for itself
    fcntl = None  # type: ignore[assignment]

#: Seconds of compiling after which the user is told about it, once per process.
PATIENCE = 1.0

#: Seconds to wait for another process, before a kernel is compiled here as well. One takes a
#: tenth of that, unless the machine is very busy.
LIMIT = 120.0

#: The name of the lock file in the folder of the cache.
LOCK = "torch_geometric_simpool.lock"

#: The folders with the machine code of the kernels that were used in this process.
folders: set[Path] = set()

# A child that is forked while a thread compiles would find locks that nobody releases, of Numba
# and LLVM as well. So a fork waits for the kernel.
_lock = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )


@contextmanager
def one_at_a_time(function: Any) -> Iterator[None]:
    """Nothing else is compiled meanwhile; tells the user if that takes long."""
    with _lock:
        folder = cache_folder(function)
        if folder is not None:
            folders.add(folder)
        with _notice.shown(folder), locked(folder), _no_collection():
            yield


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the garbage collector, which would take an eighth of the time of compiling."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def cache_folder(function: Any) -> Optional[Path]:
    """Where the machine code of a kernel is kept; `None` if no folder can be written."""
    path = getattr(getattr(function, "_cache", None), "cache_path", None)
    return None if path is None else Path(path)


@contextmanager
def locked(folder: Optional[Path]) -> Iterator[None]:
    """Keeps other processes from compiling for the same cache.

    What they wait for is in the cache afterwards. The system releases the lock of a process that
    dies. Without a lock, or after :data:`LIMIT`, a kernel may be compiled more than once, and no
    more: Numba replaces files of its cache as a whole.
    """
    if fcntl is None or folder is None:
        yield
        return
    try:
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError:
        yield
        return
    try:
        _wait_for(file)
        yield
    finally:
        os.close(file)


def _wait_for(file: int) -> None:
    """Waits for the lock of a file, up to :data:`LIMIT`."""
    end = time.monotonic() + LIMIT
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return None
        except OSError:  # the file system has no locks
            return None
        time.sleep(0.02)


class Notice:
    """Says once that kernels are compiled, after :data:`PATIENCE` seconds of it in all."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._said = False

    @contextmanager
    def shown(self, folder: Optional[Path]) -> Iterator[None]:
        """While a kernel is compiled; `folder` is that of its cache."""
        if self._said:
            yield
            return
        start = time.monotonic()
        timer = threading.Timer(max(PATIENCE - self._spent, 0.0), self._say, (folder,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            self._spent += time.monotonic() - start

    def _say(self, folder: Optional[Path]) -> None:
        self._said = True
        where = (
            "They cannot be cached, as no folder for it can be written: set NUMBA_CACHE_DIR to one"
            if folder is None
            else f"They are cached in {folder}"
        )
        print(
            f"torch_geometric_simpool: the CPU kernels are being compiled. {where}",
            file=sys.stderr,
            flush=True,
        )


_notice = Notice()
