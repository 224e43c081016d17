"""Regions that are computed in the types of their tensors."""

from contextlib import AbstractContextManager, nullcontext

import torch


def no_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Switches autocast off, where it is on.

    Does nothing elsewhere, because each `torch.autocast` is a subgraph of an exported program, and
    PyTorch 2.6 cannot save a subgraph with dynamic sizes.
    """
    available = torch.amp.is_autocast_available(device.type)  # not for `meta`
    if not (available and torch.is_autocast_enabled(device.type)):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)
