"""A fold in the middle of its training, stored so that a kill costs a few epochs."""

import json
import pickle
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch

from harness.errors import BenchmarkError
from harness.store.files import write_whole
from harness.store.surroundings import code

FORMAT = "simpool-fold-1"
#: That of this process: the files may change while it runs.
CODE = {f"code.{name}": value for name, value in code().items()}
#: What reading a damaged file raises.
DAMAGED = (
    RuntimeError,
    EOFError,
    pickle.UnpicklingError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
)


@dataclass(frozen=True)
class Checkpoint:
    """The file of a fold that is being trained, written every so many epochs."""

    path: Path
    #: All that the fold depends on, beside the code; JSON can hold it.
    settings: dict[str, Any]
    every: int

    @property
    def known(self) -> dict[str, Any]:
        """What must be the same if the fold goes on."""
        return {**self.settings, **CODE}

    def due(self, epoch: int) -> bool:
        """Whether it is to be written after an epoch."""
        return self.every > 0 and epoch % self.every == 0

    def save(self, state: dict[str, Any]) -> None:
        """Stores the state of a fold; a kill leaves the file before."""
        state = {"format": FORMAT, "settings": json.dumps(self.known), **state}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, lambda temporary: torch.save(state, temporary))
        except (OSError, RuntimeError) as error:  # PyTorch's own error where the disk is full
            raise BenchmarkError(f"{self.path} cannot be written: {error}") from error

    def load(self) -> Optional[dict[str, Any]]:
        """The stored state, on the CPU, or `None`. Raises if it has other settings, or code."""
        if not self.path.exists():
            return None
        try:
            # Tensors, numbers and strings only: such a file cannot run code.
            state = torch.load(self.path, map_location="cpu", weights_only=True)
            if state["format"] != FORMAT:
                raise ValueError("format")
            there = json.loads(state["settings"])
            now = json.loads(json.dumps(self.known))
            names = [*there, *(name for name in now if name not in there)]
        except OSError as error:
            raise BenchmarkError(f"{self.path} cannot be read: {error}") from error
        except DAMAGED as error:
            raise self.damaged() from error
        differing = [
            f"{name}: {there.get(name)!r} there, {now.get(name)!r} now"
            for name in names
            if there.get(name) != now.get(name)
        ]
        if differing:
            raise BenchmarkError(
                f"{self.path} is of a fold with other settings, or code ({'; '.join(differing)}): "
                "choose another --out, or delete it"
            )
        return state

    def damaged(self) -> BenchmarkError:
        """The error of a file that is not what :meth:`save` writes."""
        return BenchmarkError(
            f"{self.path} is damaged, or not the checkpoint of a fold: delete it to train the fold "
            "from its first epoch"
        )

    def remove(self) -> None:
        """Removes the file of a finished fold."""
        self.path.unlink(missing_ok=True)


def random_state(device: torch.device, generators: Sequence[torch.Generator]) -> dict[str, Any]:
    """The state of all random numbers."""
    name, words, *rest = np.random.get_state()
    state = {
        "torch": torch.get_rng_state(),
        "numpy": [str(name), torch.from_numpy(np.asarray(words, dtype=np.int64)), *rest],
        "python": random.getstate(),
        "generators": [generator.get_state() for generator in generators],
    }
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(
    state: dict[str, Any], device: torch.device, generators: Sequence[torch.Generator]
) -> None:
    """Sets what :func:`random_state` returned."""
    torch.set_rng_state(state["torch"])
    name, words, *rest = state["numpy"]
    np.random.set_state((name, words.numpy().astype(np.uint32), *rest))
    random.setstate(state["python"])
    for generator, before in zip(generators, state["generators"]):
        generator.set_state(before)
    if device.type == "cuda":
        torch.cuda.set_rng_state(state["cuda"], device)
