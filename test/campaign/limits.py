"""The thresholds of the engine, which a case may move."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch

#: The values of a module; `THREADS` stands for the threads of PyTorch.
Limits = tuple[tuple[str, int], ...]
THREADS = "threads"


@contextmanager
def moved(limits: Limits) -> Iterator[None]:
    """Inside a `with` statement; names are those of modules below the package."""
    before = []
    threads = torch.get_num_threads()
    try:
        for name, value in limits:
            if name == THREADS:
                torch.set_num_threads(value)
                continue
            path, attribute = name.rsplit(".", 1)
            module = importlib.import_module(f"torch_geometric_simpool.{path}")
            before.append((module, attribute, getattr(module, attribute)))
            setattr(module, attribute, value)
        yield
    finally:
        torch.set_num_threads(threads)
        for module, attribute, value in reversed(before):
            setattr(module, attribute, value)
