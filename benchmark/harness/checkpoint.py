"""The state of a training, stored every few epochs so that a kill costs minutes."""

import os
import pickle
import random
from dataclasses import asdict
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch

from harness.command import BenchmarkError, first_line
from harness.run import Run

#: The time between two checkpoints, in seconds.
EVERY = 30.0


def save_checkpoint(path: Path, run: Run, state: dict[str, Any]) -> None:
    """Stores the state of a run. A kill leaves the previous file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    torch.save({"run": asdict(run), **state}, temporary)
    os.replace(temporary, path)


def load_checkpoint(path: Optional[Path], run: Run) -> dict[str, Any]:
    """Returns the stored state of a run on the CPU; it is empty if there is none."""
    if path is None or not path.exists():
        return {}
    try:
        # Tensors, numbers and strings only: such a file cannot run code.
        state = torch.load(path, map_location="cpu", weights_only=True)
        same = state["run"] == asdict(run)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError, LookupError) as error:
        raise BenchmarkError(
            f"{path} is no readable checkpoint ({first_line(error)}): delete it to start the run "
            "from its first epoch"
        ) from error
    return state if same else {}


def random_state(generators: list[torch.Generator]) -> dict[str, Any]:
    """Returns the state of all random numbers."""
    name, words, *rest = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
        "numpy": [str(name), torch.from_numpy(np.asarray(words, dtype=np.int64)), *rest],
        "python": random.getstate(),
        "generators": [generator.get_state() for generator in generators],
    }


def set_random_state(state: dict[str, Any], generators: list[torch.Generator]) -> None:
    """Sets the state that :func:`random_state` returned."""
    torch.set_rng_state(state["torch"])
    torch.cuda.set_rng_state_all(state["cuda"])
    name, words, *rest = state["numpy"]
    np.random.set_state((name, words.numpy().astype(np.uint32), *rest))
    random.setstate(state["python"])
    for generator, stored in zip(generators, state["generators"]):
        generator.set_state(stored)
