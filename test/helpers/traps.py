"""A pickle that runs code, to show that none is run."""

from pathlib import Path

import torch


class Trap:
    """Unpickling it makes an empty file."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple:
        return Path.touch, (self.made,)


def trap(path: Path, made: Path) -> None:
    """Writes a file, as of `torch.save`, that makes an empty file when it is unpickled."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(Trap(made), path)
