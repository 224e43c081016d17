"""Locks between processes. The system releases them when a process ends, however it ends."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.errors import BenchmarkError
from harness.store.files import temporaries, write_text

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None  # type: ignore[assignment]


class LockedFolder:
    """Locks a folder of results against a second process; released however this one ends.

    Temporary files that are there belong to processes that were killed, and are removed.
    """

    def __init__(self, out: Path) -> None:
        self.out = out

    def __enter__(self) -> None:
        try:
            self.out.mkdir(parents=True, exist_ok=True)
            write_text(self.out / ".probe", "")
            (self.out / ".probe").unlink()
        except OSError as error:
            raise BenchmarkError(f"--out {self.out}: {error}") from error
        if fcntl is None:
            return
        self.handle = os.open(self.out, os.O_RDONLY)
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self.handle)
            raise BenchmarkError(
                f"--out {self.out}: another run is writing there; wait for it, or choose another"
            ) from error
        for path, _, _ in temporaries(self.out):
            path.unlink(missing_ok=True)

    def __exit__(self, *_: object) -> None:
        if fcntl is not None:
            os.close(self.handle)


@contextmanager
def locked_data(root: Path) -> Iterator[None]:
    """Locks a folder of data: waits while another process of this user has the lock."""
    if fcntl is None:
        yield
        return
    # Not in `root`, which may not exist, or not be writable. The file stays: if it were removed,
    # another process could lock a new file of that name at the same time.
    digest = hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"simpool-data-{os.getuid()}-{digest}.lock"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise BenchmarkError(f"the lock of --root {root}: {error}") from error
    try:
        # Data on a file system without locks can still be read.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def try_lock(handle: int, path: Path) -> bool:
    """Locks an open file. Returns `False` if another process has the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise BenchmarkError(
            f"--out: {path} cannot be locked ({error}), so two processes could not share the work: "
            "choose a folder on another file system"
        ) from error
    return True
