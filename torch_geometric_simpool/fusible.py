"""Whether an operation written by hand, in one piece, may take the place of PyTorch's own."""

import torch
from torch import Tensor


def fusible(*tensors: Tensor) -> bool:
    """Whether such operations serve: on a CPU, in one type, none empty, outside of a trace."""
    return (
        all(tensor.device.type == "cpu" and tensor.numel() > 0 for tensor in tensors)
        and len({tensor.dtype for tensor in tensors}) == 1
        and tensors[0].dtype in (torch.float32, torch.float64)
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()
    )
