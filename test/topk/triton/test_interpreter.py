"""The tests of the top k with `backend='triton'`, in Triton's interpreter.

It is chosen before Triton is imported, so they run in a process of their own.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.backends import INTERPRETED

ROOT = Path(__file__).resolve().parents[3]
#: The tests of each process: two run at a time.
TESTS = [
    ["test/functional/test_topk.py"],
    [
        "test/functional/test_topk_rows.py",
        "test/functional/test_similarity_index.py",
        "test/engine/topk/test_backends.py",
        "test/engine/triton",
    ],
]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
@pytest.mark.skipif(INTERPRETED, reason="this is the process that it starts")
def test_the_top_k_in_the_interpreter() -> None:
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "pytest",
                *tests,
                "-q",
                "-p",
                "no:cacheprovider",
            ],
            cwd=ROOT,
            env={**os.environ, "TRITON_INTERPRET": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for tests in TESTS
    ]
    for process in processes:
        output, _ = process.communicate()
        assert process.returncode == 0, output[-10_000:]
        assert " passed" in output
