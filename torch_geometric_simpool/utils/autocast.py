"""Regions that are computed in the types of their tensors."""

from contextlib import AbstractContextManager, nullcontext

import torch


def no_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Switches autocast off, where it is on.

    Only there: in an exported program each `torch.autocast` is a subgraph, which PyTorch 2.6 cannot
    save where sizes are dynamic, and which no other format has.
    """
    available = torch.amp.is_autocast_available(device.type)  # not for `meta`
    if not (available and torch.is_autocast_enabled(device.type)):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)
