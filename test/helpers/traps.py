"""Writes a pickle that runs code when it is read, to show that the package does not read it."""

from pathlib import Path

import torch


class Trap:
    """Unpickling it makes an empty file."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple:
        return Path.touch, (self.made,)


def trap(path: Path, made: Path) -> None:
    """Writes a file by `torch.save` that makes the empty file `made` when it is unpickled."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(Trap(made), path)
