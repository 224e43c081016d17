"""Runs the tests of this folder with `backend='triton'` in Triton's interpreter.

The interpreter must be chosen before Triton is imported, so the tests run in another process.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.backends import INTERPRETED

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
@pytest.mark.skipif(INTERPRETED, reason="this is the process that it starts")
def test_in_the_interpreter() -> None:
    pytest.importorskip("triton")
    program = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test/topk/triton"]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-10_000:]
    assert " passed" in done.stdout
