"""Two processes do what one does."""

import os
import re
import subprocess
import sys

import pytest
import torch

from helpers.examples import EXAMPLES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not torch.distributed.is_available() or not torch.distributed.is_gloo_available(),
        reason="needs torch.distributed with gloo",
    ),
]


def run(*launcher: str, epochs: int = 2) -> list[list[float]]:
    """The numbers that are printed: epoch, loss, accuracy."""
    command = [sys.executable, *launcher, str(EXAMPLES / "ddp.py"), "--epochs", str(epochs)]
    environment = {name: value for name, value in os.environ.items() if name != "RANK"}
    done = subprocess.run(
        command, capture_output=True, text=True, env={**environment, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line]
    assert [line.split(":")[0] for line in lines] == [
        "untrained",
        *(f"epoch {i + 1}" for i in range(epochs)),
    ]
    return [[float(x) for x in re.findall(r"\d+\.\d+", line)] for line in lines]


def test_two_processes_equal_one() -> None:
    """The number of graphs of the rest is odd: neither is one counted twice, nor left out."""
    one = run()
    two = run("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    assert one[-1][0] < one[0][0]
    for expected, got in zip(one, two, strict=True):
        assert got == pytest.approx(expected, abs=2e-3)
