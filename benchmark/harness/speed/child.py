"""Runs a measurement in a process of its own, which others do not affect."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import BenchmarkError
from harness.store.allocator import KEEP_MEMORY

#: So that `torch.compile` takes as long in every run.
NO_CACHE = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}

#: The folder of the commands.
COMMANDS = Path(__file__).resolve().parents[2]


def run_child(command: str, words: Sequence[str], keep_memory: bool = False) -> dict[str, Any]:
    """Runs `command` with `words` as arguments; returns the JSON of its last line of output.

    With `keep_memory`, glibc returns no memory to the system. Raises an error with the last line
    that the process printed if it fails.
    """
    line = [sys.executable, "-W", "ignore", str(COMMANDS / command), *words]
    environment = {**os.environ, **NO_CACHE, **(KEEP_MEMORY if keep_memory else {})}
    done = subprocess.run(line, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise BenchmarkError(last[0][:200])
    return json.loads(done.stdout.splitlines()[-1])
