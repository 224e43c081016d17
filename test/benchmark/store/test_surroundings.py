"""What is stored of the machine."""

import platform
from typing import Optional

import pytest
import torch

from harness.store.allocator import KEEP_MEMORY
from harness.store.denormals import flushed_denormals
from harness.store.surroundings import surroundings


def test_surroundings_name_the_commit() -> None:
    found = surroundings(torch.device("cpu"))
    assert found["versions"]["torch"] == torch.__version__
    # None outside a repository, as in an unpacked archive.
    assert found["commit"] is None or len(found["commit"].removesuffix("-dirty")) == 40


@pytest.mark.parametrize("libc", ["glibc", ""])
@pytest.mark.parametrize("missing", [None, *KEEP_MEMORY])
def test_surroundings_say_whether_memory_is_kept(
    libc: str, missing: Optional[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "libc_ver", lambda: (libc, "2.36"))
    for name, value in KEEP_MEMORY.items():
        monkeypatch.setenv(name, "7" if name == missing else value)
    kept = libc == "glibc" and missing is None
    hardware = surroundings(torch.device("cpu"))["hardware"]
    assert hardware.get("memory") == ("kept" if kept else None)


def test_surroundings_say_whether_denormals_are_flushed() -> None:
    def found() -> str:
        return str(surroundings(torch.device("cpu"))["hardware"].get("denormals"))

    before = found()
    with flushed_denormals():
        assert found() == "flushed"
    assert found() == before
