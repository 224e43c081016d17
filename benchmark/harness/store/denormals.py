"""Denormal numbers, below 1e-38 in float32, with which a CPU computes slowly.

Hard assignments are full of them: the probabilities of all other clusters, and what is multiplied
by these. So epochs get slower as a training goes on, unless they are flushed to zero, which
`graph_classification.py` and the study do; `surroundings` stores it, and `docs/speed.md` has what
it saves.

Whether they are flushed is a setting of each thread. PyTorch sets that of the thread that asks, and
the threads that it starts afterwards have it as well, for good; those that it has started before
go on as they were.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def denormals_are_flushed() -> bool:
    """Whether this thread computes with zeros in place of denormal numbers."""
    return not bool((torch.full((1,), 1e-40) * 1).item())


@contextmanager
def flushed_denormals(flushed: bool = True) -> Iterator[None]:
    """Computes in this thread with zeros in place of denormal numbers, where the CPU can.

    With `flushed=False`, it computes with denormal numbers, inside such a block as well.
    """
    before = denormals_are_flushed()
    torch.set_flush_denormal(flushed)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
